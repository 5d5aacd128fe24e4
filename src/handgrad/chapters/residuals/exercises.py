"""Exercises of chapter 06. Each is its right answer, and what to say about it."""

import numpy as np
from sympy import sqrt

from ...course.judge.derivation import Derivation
from ...course.judge.draws import Draw, normal, number, repeating, scales
from ...course.judge.function import Exercise

X = repeating("B T D")
SQUARE = Draw("D D", lambda rng, shape: rng.normal(size=shape) / np.sqrt(shape[0]))


def some_kept(rng, shape):
    """0 and 1: the first is 1 and the last, and if there are three the second is 0."""
    keep = np.ones(shape)
    keep[1:-1] = rng.random(len(keep[1:-1])) < 0.5
    keep[1:-1][:1] = 0
    return keep


# 1 ----------------------------------------------------------------------------------------------------------


def skip_share(a, u, n):
    variance = a**2 + u**2
    one = a / sqrt(variance)
    return one**n


SKIP_SHARE = Derivation(
    skip_share,
    asks="How much of a gradient a norm lets through along the skip, and how depth compounds it.",
    domains={"a": "positive", "u": "positive", "n": "count"},
    stories="""
    - The skip is multiplied by a as well: on the way back its share is a times what the norm lets through.
          a / sqrt(variance) → 1 / sqrt(variance)
    - The variance of a x is a², not a.
          a**2 + u**2 → a + u**2
    - The branch's mean square is u², not u.
          a**2 + u**2 → a**2 + u
    - The stream that the norm sees is a x + f(x), so its mean square is a² + u² and not 1 + u².
          a**2 + u**2 → 1 + u**2
    - Root mean squares do not add; for uncorrelated numbers their squares do.
          one = a / sqrt(variance) → one = a / (a + u)
    - The root is missing: the norm divides by the root of the mean square.
          a / sqrt(variance) → a / variance
    - This is the share of the square. The size of the gradient is its root.
          one**n → one ** (2 * n)
    - The exponent has a half too many: the root is taken once, in the norm.
          one**n → one ** (n / 2)
    - This is one sub-layer. There are n of them.
          one**n → one
    - n sub-layers multiply, they do not add.
          one**n → n * one
    - This is the share with the branches: the skip alone has no u above.
          one = a / sqrt(variance) → one = sqrt(a**2 + u**2) / sqrt(variance)
    - This is the share of the branches. The question is about the skip.
          a / sqrt(variance) → u / sqrt(variance)
    - The shares of the skip and of the branch do not add up to 1: their squares do.
          a / sqrt(variance) → 1 - u / sqrt(variance)
    - This is an approximation for small u. The answer asked for is exact under the assumptions.
          one**n → exp(-n * u**2 / (2 * a**2))
    - The norm divides in every sub-layer, and not once.
          one**n → a**n / sqrt(variance)
    - The branch does not belong here: only what comes back along the skips is asked for.
          one = a / sqrt(variance) → one = (a + u) / sqrt(variance)
    - In post-norm the stream does not grow: every sub-layer begins with mean square 1.
          a**2 + u**2 → a**2 + n * u**2
    - In post-norm the stream does not grow: every sub-layer begins with mean square 1, and each divides.
          a**2 + u**2 → a**2 + n * u**2
          one**n → one
    - This would be the factor without the norm.
          a / sqrt(variance) → a
    - It is upside down: the norm divides by the root of the mean square.
          a / sqrt(variance) → sqrt(variance) / a
    - This is plain post-norm, with a = 1: the skip has the factor a, forward and backward.
          a**2 + u**2 → 1 + u**2
          a / sqrt(variance) → 1 / sqrt(variance)
    """,
    hints="""
    - What is the mean square of a x + f(x), if x and f(x) are uncorrelated and that of x is 1?
    - The norm divides by the root of it. And what does the skip multiply by, before the norm?
    - One sub-layer leaves a/√(a² + u²).
    """,
)


# 2 ----------------------------------------------------------------------------------------------------------


OF_THE_WEIGHT = """
    - W is not transposed in dx: with rows, the gradient of x W by x is dy Wᵀ.
          W.T → W
    - This is the transpose of dW: W has a row for each feature that comes in.
          "btd,bte->de", x, dh → "btd,bte->de", dh, x
    - dW is a mean over the sequences. They all use W, so their shares are added.
          x, dh) → x, dh) / len(x)
    - dW is a mean over all tokens. They all use W, so their shares are added; a 1/m of the loss is in dy.
          x, dh) → x, dh) / dy[..., 0].size
"""


def stochastic_depth_backward(dy, x, W, keep, p):
    scale = keep[:, None, None] / (1 - p)
    dh = scale * dy
    dx = dy + dh @ W.T
    dW = np.einsum("btd,bte->de", x, dh)
    return dx, dW


STOCHASTIC_DEPTH = Exercise(
    stochastic_depth_backward,
    asks="Which path a random mask stops and which it leaves open; and its scale.",
    outputs="dx dW",
    inputs={"dy": normal("B T D"), "x": X, "W": SQUARE, "keep": Draw("B", some_kept), "p": number(0.3)},
    stories="""
    - The skip is missing from dx: what arrives comes back along it, also where the branch was dropped.
          dx = dy + dh @ W.T → dx = dh @ W.T
    - The skip was dropped with the branch. keep multiplies f(x) only.
          dx = dy + dh @ W.T → dx = scale * dy + dh @ W.T
    - The skip was dropped where the branch was. keep multiplies f(x) only.
          dx = dy + dh @ W.T → dx = keep[:, None, None] * dy + dh @ W.T
    - The factor 1/(1 - p) is missing: the forward has it, so the backward has it.
          / (1 - p) →
    - Divided by p. The branch is kept with probability 1 - p, and divided by that.
          / (1 - p) → / p
    - Multiplied by 1 - p where the forward divides. That would belong to a test without dropping.
          / (1 - p) → * (1 - p)
    - keep is not used in dW: a sequence whose branch was dropped tells W nothing.
          x, dh) → x, dy / (1 - p))
    - keep and 1/(1 - p) are not used in dW: W stands in the branch, behind both.
          x, dh) → x, dy)
    - keep has one number for each sequence; beside (B, T, D) it needs two axes more, keep[:, None, None].
      And in dW keep and 1/(1 - p) are not used: W stands in the branch, behind both.
          keep[:, None, None] → keep
          x, dh) → x, dy)
    - keep is not used: where the branch was dropped, nothing returns through it.
          scale = keep[:, None, None] / (1 - p) → scale = 1 / (1 - p)
    - keep is turned round: the branch stays where keep is 1.
          keep[:, None, None] → (1 - keep[:, None, None])
    """
    + OF_THE_WEIGHT
    + """
    - The skip is divided by 1 - p as well. That factor belongs to the branch.
          dx = dy + → dx = dy / (1 - p) +
    - This is the output of the forward, not its gradient.
          dx = dy + dh @ W.T → dx = x + scale * (x @ W)
    - In dW the skip has a share. W does not stand in the skip, so only what arrives at the branch counts.
          x, dh) → x, dy + dh)
    - dW is taken with the output of the linear layer. Its input is x.
          x, dh) → x @ W, dh)
    - W is missing from dx: what comes back through x W is dh Wᵀ.
          dh @ W.T → dh
    - The factor was applied twice in dx.
          dx = dy + dh @ W.T → dx = dy + scale * dh @ W.T
    """,
    hints="""
    - Call the factor of a sequence s: it is keep/(1 - p), one number for each. Then y = x + s f(x).
    - Where does x stand? By itself, and inside f. Only the second is multiplied by s.
    - dh = s dy is what arrives at f(x). From there on it is a linear layer.
    """,
)


# 3 ----------------------------------------------------------------------------------------------------------


def layer_scale_backward(dy, x, W, a):
    f = x @ W
    da = (dy * f).sum(axis=(0, 1))
    dh = a * dy
    dW = np.einsum("btd,bte->de", x, dh)
    dx = dy + dh @ W.T
    return dx, dW, da


LAYER_SCALE = Exercise(
    layer_scale_backward,
    asks="A learned factor on the branch: what it multiplies on the way back, and its own sum.",
    outputs="dx dW da",
    inputs={"dy": normal("B T D"), "x": X, "W": SQUARE, "a": scales("D")},
    stories="""
    - The skip is missing from dx: x is used twice, so two gradients are added.
          dx = dy + dh @ W.T → dx = dh @ W.T
    - The skip is multiplied by a: a belongs to the branch.
          dx = dy + dh @ W.T → dx = dh + dh @ W.T
    - a is missing from dx: it stands between the branch and the plus sign, on the way back too.
          dx = dy + dh @ W.T → dx = dy + dy @ W.T
    - a is multiplied too late in dx: it scales the outputs of W, not its inputs.
          dx = dy + dh @ W.T → dx = dy + a * (dy @ W.T)
    - a is missing from dW: what arrives at x W is a ∘ dy.
          x, dh) → x, dy)
    - a is missing from dx and dW: what arrives at x W is a ∘ dy.
          dh = a * dy → dh = dy
    - da is taken with the whole output, or with x: a multiplies the branch x W and nothing else.
          da = (dy * f) → da = (dy * x)
    - da is taken with the whole output: a multiplies the branch x W and nothing else.
          da = (dy * f) → da = (dy * (x + a * f))
    - da is taken with dx. What arrives at a is what arrives at the output: dy.
          da = (dy * f) → da = ((dy + (a * dy) @ W.T) * f)
    - da is taken with dx and x. What arrives at a is dy, and a multiplies the branch x W.
          da = (dy * f) → da = ((dy + (a * dy) @ W.T) * x)
    - a occurs in da: the output is linear in a, so its gradient cannot depend on a.
          da = (dy * f) → da = (a * dy * f)
    - da is one number. There is a scale for each feature, so the sum runs over tokens and sequences only.
          .sum(axis=(0, 1)) → .sum()
    - da still has an axis for the tokens, or the sequences: all of them use a.
          .sum(axis=(0, 1)) → .sum(axis=0)
    - da still has an axis for the sequences: all of them use a.
          .sum(axis=(0, 1)) → .sum(axis=1)
    - da is a mean. All tokens of all sequences use a, so their shares are added; a 1/m of the loss is in dy.
          .sum(axis=(0, 1)) → .mean(axis=(0, 1))
    """
    + OF_THE_WEIGHT
    + """
    - In dW the skip has a share. W does not stand in the skip, so only what arrives at the branch counts.
          x, dh) → x, dy + dh)
    - The skip passes W. It does not on the way forward: dy comes back along it as it is.
          dx = dy + dh @ W.T → dx = (dy + dh) @ W.T
    - W is not transposed in dx: with rows, the gradient of x (W ∘ a) by x is dy (W ∘ a)ᵀ.
          dx = dy + dh @ W.T → dx = dy + dy @ (W * a)
    - W is missing from dx: what comes back through x W is dh Wᵀ.
          dx = dy + dh @ W.T → dx = dy + dh
    - W is missing from da: a multiplies the branch x W, and W is transposed in dx only.
          da = (dy * f) → da = (dy * (x @ W.T))
    - a multiplies the features that come out of W. In your dW it multiplies those that go in.
          x, dh) → a * x, dy)
    - This is the output of the forward, not its gradient.
          dx = dy + dh @ W.T → dx = x + a * f
    """,
    hints="""
    - The output is x + a ∘ f with f = x W. Which of the three letters x, W, a stands in which term?
    - a_j multiplies feature j of f, in every token of every sequence. So da_j is a sum over all of them.
    - a ∘ dy arrives at f. From there on it is a linear layer; and the skip adds dy.
    """,
)


# 4 ----------------------------------------------------------------------------------------------------------


def highway_backward(dy, x, f, W):
    g = 1 / (1 + np.exp(-(x @ W)))
    df = g * dy
    dg = (f - x) * dy
    ds = g * (1 - g) * dg
    dW = np.einsum("btd,bte->de", x, ds)
    dx = (1 - g) * dy + ds @ W.T
    return dx, df, dW


HIGHWAY = Exercise(
    highway_backward,
    asks="A gate that depends on what it lets through: the direct path and that through the gate.",
    outputs="dx df dW",
    inputs={"dy": normal("B T D"), "x": X, "f": normal("B T D"), "W": SQUARE},
    stories="""
    - The path through the gate is missing from dx: x decides how far the gate is open.
          dx = (1 - g) * dy + ds @ W.T → dx = (1 - g) * dy
    - The skip is missing from dx, or has lost its gate.
          dx = (1 - g) * dy + ds @ W.T → dx = ds @ W.T
    - The skip passes the gate 1 - g; here it passes whole, as in a plain residual connection.
          (1 - g) * dy + → dy +
    - The skip has the gate of the branch: x is multiplied by 1 - g.
          (1 - g) * dy + → g * dy +
    - The branch has the gate of the skip: f is multiplied by g.
          df = g * dy → df = (1 - g) * dy
    - The branch has lost its gate: f is multiplied by g.
          df = g * dy → df = dy
    - In dg the skip is forgotten: g opens the branch and closes the skip, so dg = dy ∘ (f - x).
          dg = (f - x) * dy → dg = f * dy
    - In dg the sign of the skip is wrong: 1 - g falls when g rises.
          (f - x) → (f + x)
    - In dg the sign is turned round: the branch grows with g, and the skip shrinks.
          (f - x) → (x - f)
    - In dg the skip has lost its x: (1 - g) ∘ x changes by -x with g, not by -1.
          dg = (f - x) * dy → dg = (f - 1) * dy
    - In dg the branch has lost its f: g ∘ f changes by f with g, not by 1.
          dg = (f - x) * dy → dg = (1 - x) * dy
    - In dg the branch is forgotten: g closes the skip and opens the branch, so dg = dy ∘ (f - x).
          dg = (f - x) * dy → dg = -x * dy
    - The derivative of the sigmoid is missing: g (1 - g).
          ds = g * (1 - g) * dg → ds = dg
    - The derivative of the sigmoid is g (1 - g), not g alone.
          ds = g * (1 - g) * dg → ds = g * dg
    - The derivative of the sigmoid is g (1 - g), not 1 - g alone.
          ds = g * (1 - g) * dg → ds = (1 - g) * dg
    - The sigmoid was applied twice: σ' is taken at the gate g = σ(x W), not at x W, where it is g (1 - g).
          ds = g * (1 - g) * dg → ds = 1 / (1 + np.exp(-g)) * (1 - 1 / (1 + np.exp(-g))) * dg
    - The derivative of the sigmoid is g (1 - g) with the gate g = σ(x W). Here x W stands in the place of g.
          ds = g * (1 - g) * dg → ds = (x @ W) * (1 - x @ W) * dg
    - This is the derivative of tanh. That of the sigmoid is g (1 - g).
          ds = g * (1 - g) * dg → ds = (1 - g**2) * dg
    """
    + OF_THE_WEIGHT.replace("dh", "ds")
    + """
    - This is the output of the forward, not its gradient.
          dx = (1 - g) * dy + ds @ W.T → dx = (1 - g) * x + g * f
    - The gate is a sigmoid, whose derivative is g (1 - g). Here it is treated as a ReLU.
          ds = g * (1 - g) * dg → ds = (x @ W > 0) * dg
    - The gate is a tanh here. It is a sigmoid, forward and backward.
          g = 1 / (1 + np.exp(-(x @ W))) → g = np.tanh(x @ W)
          ds = g * (1 - g) * dg → ds = (1 - g**2) * dg
    - W is missing from dx: what comes back through x W is ds Wᵀ.
          ds @ W.T → ds
    - dW is taken with f - x. The input of the gate is x.
          x, ds) → f - x, ds)
    - In df is a path through the gate. f does not go into the gate, only x does.
          df = g * dy → df = g * dy + (g * (1 - g) * (f - x) * dy) @ W.T
    - In dx the gate is opened by the branch alone: it closes the skip at the same time, so dg = dy ∘ (f - x).
          dx = (1 - g) * dy + ds @ W.T → dx = (1 - g) * dy + (g * (1 - g) * f * dy) @ W.T
    - dW is taken with dg: between the gate and W stands the sigmoid.
          x, ds) → x, dg)
    """,
    hints="""
    - y = g ∘ f + (1 - g) ∘ x. With g held still, what are df and the skip's part of dx? With f and x held
      still, what is dg?
    - g stands twice, with f and with -x. So dg = dy ∘ (f - x).
    - g = σ(x W) and σ' = g (1 - g). From there on it is a linear layer, whose dx joins the skip's.
    """,
)


# 5 ----------------------------------------------------------------------------------------------------------


def reversible_backward(du, dv, u, v, A, C):
    b = np.tanh(u @ C)
    z = v - b
    a = np.tanh(z @ A)
    x = u - a
    dx = du + ((1 - b**2) * dv) @ C.T
    dz = dv + ((1 - a**2) * dx) @ A.T
    return x, z, dx, dz


REVERSIBLE = Exercise(
    reversible_backward,
    asks="Recomputing inputs from outputs, and in which order gradients arrive at two streams.",
    outputs="x z dx dz",
    inputs={
        "du": normal("B T D"),
        "dv": normal("B T D"),
        "u": X,
        "v": normal("B T D"),
        "A": SQUARE,
        "C": SQUARE,
    },
    stories="""
    - x and z are recovered in the order of the forward. The last step is undone first: z needs u, which is
      known, and x needs z.
          b = np.tanh(u @ C) → b = np.tanh((u - np.tanh(v @ A)) @ C)
          a = np.tanh(z @ A) → a = np.tanh(v @ A)
    - Added where it should be subtracted: to undo a plus sign, subtract.
          z = v - b → z = v + b
          x = u - a → x = u + a
    - z is recovered from x instead of u: the second step has seen u, which is x with something added.
          b = np.tanh(u @ C) → b = np.tanh((u - np.tanh(v @ A)) @ C)
    - x is recovered with v, and z with this x, in the order of the forward. The last step is undone first: z
      needs u, which is known, and x needs z.
          z = v - b → z = v - np.tanh((u - np.tanh(v @ A)) @ C)
          x = u - a → x = u - np.tanh(v @ A)
    - x is recovered with v, and z with this x, in the order of the forward. The last step is undone first: z
      needs u, which is known, and x needs z.
          z = v - b → z = v - np.tanh((u - np.tanh(v @ A)) @ C)
          a = np.tanh(z @ A) → a = np.tanh((v - b) @ A)
          x = u - a → x = u - np.tanh(v @ A)
    - x is recovered with v, and z with this x, in the order of the forward. The last step is undone first: z
      needs u, which is known, and x needs z.
          b = np.tanh(u @ C) → b = np.tanh((u - np.tanh(v @ A)) @ C)
          x = u - a → x = u - np.tanh(v @ A)
    - z is recovered with v: the second step has seen u.
          z = v - b → z = v - np.tanh(v @ C)
    - x is recovered with u: the first step has seen z.
          x = u - a → x = u - np.tanh(u @ A)
    - x is recovered with v, and so is the gradient of the first step, which has seen z.
          a = np.tanh(z @ A) → a = np.tanh(v @ A)
    - x is recovered with v: the first step has seen z.
          x = u - a → x = u - np.tanh(v @ A)
    - In dx the derivative of tanh is taken at x. The second step has seen u.
          1 - b**2 → 1 - np.tanh(x @ C) ** 2
    - The matrices are missing from the gradients: behind tanh' comes the transpose of the matrix before tanh.
          ((1 - b**2) * dv) @ C.T → (1 - b**2) * dv
          ((1 - a**2) * dx) @ A.T → (1 - a**2) * dx
    - tanh' and the matrix have changed places: the last thing forward was tanh, so tanh' comes first.
          ((1 - b**2) * dv) @ C.T → (1 - b**2) * (dv @ C.T)
          ((1 - a**2) * dx) @ A.T → (1 - a**2) * (dx @ A.T)
    - In dz the derivative of tanh is taken at v. The first step has seen z.
          1 - a**2 → 1 - np.tanh(v @ A) ** 2
    - The backward runs in the order of the forward. The last step comes first: what arrives at u is du and
      what G sends back from dv, and only then F.
          dx = du + ((1 - b**2) * dv → dz = dv + ((1 - a**2) * du) @ A.T; dx = du + ((1 - b**2) * dz
          dz = dv + ((1 - a**2) * dx) @ A.T →
    - The derivative of tanh is 1 - tanh²; here tanh itself stands in its place.
          1 - b**2 → b
          1 - a**2 → a
    - The derivative is that of the sigmoid. That of tanh is 1 - tanh².
          1 - b**2 → b * (1 - b)
          1 - a**2 → a * (1 - a)
    - The branches are missing from both gradients: u and z are used twice.
          dx = du + ((1 - b**2) * dv) @ C.T → dx = du
          dz = dv + ((1 - a**2) * dx) @ A.T → dz = dv
    - In dz stands du as it arrived. What passes the first plus sign is du with what the second step returns,
      which is dx.
          (1 - a**2) * dx → (1 - a**2) * du
    - The branch of the second step is missing from dx: u goes into it, and x is part of u.
          dx = du + ((1 - b**2) * dv) @ C.T → dx = du
    - The branch of the first step is missing from dz: z goes into it.
          dz = dv + ((1 - a**2) * dx) @ A.T → dz = dv
    - The skips are missing from both gradients.
          dx = du + ( → dx = (
          dz = dv + ( → dz = (
    - The derivative of tanh is missing: 1 - tanh².
          (1 - b**2) * dv → dv
          (1 - a**2) * dx → dx
    - The derivative of tanh is 1 - tanh², with a square.
          1 - b**2 → 1 - b
          1 - a**2 → 1 - a
    - The matrices are not transposed: with rows, the gradient of z A by z is dy Aᵀ.
          C.T → C
          A.T → A
    - The two matrices have changed places in the gradients.
          dv) @ C.T → dv) @ A.T
          dx) @ A.T → dx) @ C.T
    - tanh' of s is 1 - tanh²(s). Here the stream that goes in, u or z, stands in the place of tanh(s).
          1 - b**2 → 1 - u**2
          1 - a**2 → 1 - z**2
    - The inputs of the branches stand in 1 - tanh² instead of their outputs.
          1 - b**2 → 1 - (u @ C) ** 2
          1 - a**2 → 1 - (z @ A) ** 2
    """,
    hints="""
    - Undo the last step first: v and u are known, so z = v - G(u). Then x.
    - For the gradients: v depends on u, so what arrives at u is du and what G sends back from dv.
    - That sum is dx, since u = x + F(z). And it arrives at F, which sends its part to z beside dv.
    """,
)
