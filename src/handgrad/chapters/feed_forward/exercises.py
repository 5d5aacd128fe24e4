"""Exercises of chapter 04. Each is its right answer, and what to say about it."""

import numpy as np
from sympy import exp

from ...course.judge.derivation import Derivation
from ...course.judge.draws import Draw, normal, repeating
from ...course.judge.function import Exercise

X = repeating("B T D")


def small(letters):
    """N(0, ¼): weights that keep a logistic function away from its ends."""
    return Draw(letters, lambda rng, shape: rng.normal(0, 0.5, shape))


# 1 ----------------------------------------------------------------------------------------------------------


def swish_beta_slope(x, beta):
    gate = 1 / (1 + exp(-beta * x))
    return x**2 * gate * (1 - gate)


SWISH_BETA_SLOPE = Derivation(
    swish_beta_slope,
    asks="The chain rule by a parameter inside a gate, not by its input.",
    domains={"x": "real", "beta": "real"},
    stories="""
    - This is the derivative by x. Here x is held still and β moves.
          return x**2 * gate * (1 - gate) → return gate + beta * x * gate * (1 - gate)
    - One x is missing. x stands in front of the gate, and βx has the derivative x by β: that makes x².
          x**2 → x
    - The inner derivative is that by x. βx has the derivative x by β, and β by x.
          x**2 → beta * x
    - The factor 1 - σ is missing: the logistic function has the slope σ(1 - σ).
          * (1 - gate) →
    - A second term xσ is added, as if the x in front moved with β. x is held still: only the gate moves.
          return x**2 * gate * (1 - gate) → return x * gate + x**2 * gate * (1 - gate)
    - The second factor is σ again. The logistic function has the slope σ(1 - σ), not σ².
          * (1 - gate) → * gate
    - 1 - σ² is the slope of the tanh in the tanh's own value. The logistic function has the slope σ(1 - σ).
          gate * (1 - gate) → (1 - gate**2)
    - This is the slope of the gate with nothing behind it: both the x in front and the inner derivative are
      missing.
          x**2 * gate → gate
    - The sign is wrong. In 1/(1 + e^(-βx)) the two minus signs, of the power -1 and of -βx, cancel.
          return x**2 → return -(x**2)
    - This is the function xσ(βx) itself, before the derivative is taken.
          return x**2 * gate * (1 - gate) → return x * gate
    - The logistic function is taken at x. It stands at βx, and so does its slope.
          exp(-beta * x) → exp(-x)
    - A second term is added, as if the x in front moved with β. x is held still: only the gate moves.
          return x**2 * gate * (1 - gate) → return gate + x**2 * gate * (1 - gate)
    """,
    hints="""
    - β stands in one place only, inside the gate. What is the slope of the logistic function?
    - By the chain rule: x times σ'(βx) times the derivative of βx by β.
    - σ' = σ(1 - σ), and there are two factors x: one in front, one from inside.
    """,
)


# 2 ----------------------------------------------------------------------------------------------------------


def equal_units(D, F):
    plain_units = 2 * D * F + F
    one_gated_unit = 3 * D + 2
    return plain_units / one_gated_unit


EQUAL_UNITS = Derivation(
    equal_units,
    asks="Counting parameters, biases included, and solving for a width.",
    domains={"D": "count", "F": "count"},
    stories="""
    - This is 2F/3, the rule without biases, or with F and F' entries for every bias. The last bias of each
      layer has D, and the two cancel.
          return plain_units / one_gated_unit → return 2 * F / 3
    - A gated unit has two biases, one behind W_gate and one behind W_up; one of them is missing.
          3 * D + 2 → 3 * D + 1
    - The biases of the gated units are missing: one behind W_gate and one behind W_up for each unit.
          3 * D + 2 → 3 * D
    - The bias behind W_down has D entries, whatever the number of units; a unit brings two biases, not three.
          3 * D + 2 → 3 * D + 3
    - The biases of the F plain units are missing, one for each.
          2 * D * F + F → 2 * D * F
    - The bias of width D is counted on one side only. Both layers have it, so it cancels.
          2 * D * F + F → 2 * D * F + F + D
    - The bias of width D is counted for the gated layer only. Both layers have it, so it cancels.
          2 * D * F + F → 2 * D * F + F - D
    - The roles are exchanged: this is how many plain units have as many parameters as F gated ones.
          return plain_units / one_gated_unit → return F * (3 * D + 2) / (2 * D + 1)
    - This is the number of parameters of the plain layer. Asked is a number of units.
          return plain_units / one_gated_unit → return 2 * D * F + F + D
    - This is the number of parameters of a gated layer with F units. Asked is a number of units.
          return plain_units / one_gated_unit → return 3 * D * F + 2 * F + D
    - The plain units are given two biases each. A plain unit has one, behind the first matrix.
          2 * D * F + F → 2 * D * F + 2 * F
    - It is rounded down to an integer. The two layers are to have exactly as many parameters, and the result
      need not be an integer: divide by `/`.
          return plain_units / one_gated_unit → return plain_units // one_gated_unit
    - It is rounded up to an integer. The result need not be one.
          return plain_units / one_gated_unit → return -(-plain_units // one_gated_unit)
    - The 2 stands behind the division. Each gated unit has two biases beside its 3D weights, so 2 is a part
      of the divisor.
          return plain_units / one_gated_unit → return plain_units / (3 * D) + 2
    - The 2 stands behind the division. Each gated unit has two biases beside its 3D weights, so 2 is a part
      of the divisor, and is added there.
          return plain_units / one_gated_unit → return plain_units / (3 * D) - 2
    - Two biases are counted for the whole gated layer. They are two for each of its units.
          return plain_units / one_gated_unit → return (plain_units - 2) / (3 * D)
    - The biases behind W_gate and W_up are counted with F entries each. There are F' gated units, so they
      have F'.
          return plain_units / one_gated_unit → return (plain_units - 2 * F) / (3 * D)
    - The biases behind W_gate and W_up are counted with D entries each. A bias has one entry for each unit
      that its matrix leads to, here F'.
          return plain_units / one_gated_unit → return (plain_units - 2 * D) / (3 * D)
    - All biases are counted with D entries. A bias has one entry for each column of its matrix: F or F' on
      the way up, D on the way down.
          return plain_units / one_gated_unit → return (2 * D * F - D) / (3 * D)
    - The bias behind the second matrix of the plain layer is counted with F entries. It has D, as the output,
      and cancels with that of the gated layer.
          return plain_units / one_gated_unit → return (2 * D * F + 2 * F - D) / (3 * D + 2)
    - The D of the gated layer changed sides, but not its sign. Both layers have this bias, so it cancels.
          return plain_units / one_gated_unit → return (plain_units + 2 * D) / one_gated_unit
    """,
    hints="""
    - Count each layer: for every matrix its entries, and a bias as long as its number of columns.
    - The plain layer has 2DF + F + D. The gated one has 3 matrices, and biases of F', F' and D entries.
    - The D on both sides cancels. What is left is linear in F'.
    """,
)


# 3 ----------------------------------------------------------------------------------------------------------


def prelu_backward(dy, x, alpha):
    positive = x > 0
    slope = np.where(positive, 1, alpha)
    dx = dy * slope
    dalpha = (dy * np.minimum(x, 0)).sum(axis=(0, 1))
    return dx, dalpha


PRELU_BACKWARD = Exercise(
    prelu_backward,
    asks="A layer with a kink, and the gradient of a parameter that all tokens share.",
    outputs="dx dalpha",
    inputs={"dy": normal("B T D"), "x": X, "alpha": normal("D")},
    stories="""
    - dα is averaged over the tokens. All of them share α, so their shares are added; the 1/m of a mean loss
      has arrived in dy already.
          .sum(axis=(0, 1)) → .mean(axis=(0, 1))
    - dα sums the positions and averages the sequences. All tokens share α: add over both.
          .sum(axis=(0, 1)) → .sum(axis=1).mean(axis=0)
    - dα still has an axis for the sequences. All tokens of all sequences share α: sum over both axes.
          .sum(axis=(0, 1)) → .sum(axis=1)
    - dα still has an axis for the positions. All tokens of all sequences share α: sum over both axes.
          .sum(axis=(0, 1)) → .sum(axis=0)
    - dα is not summed at all. All tokens of all sequences share α: sum over both axes.
          .sum(axis=(0, 1)) →
    - dα is summed over the features too. Each feature has its own α.
          .sum(axis=(0, 1)) → .sum()
    - dα counts all inputs. α multiplies only those below 0; for the others y does not contain it.
          np.minimum(x, 0) → x
    - dα counts the inputs above 0. α multiplies those below.
          np.minimum(x, 0) → np.maximum(x, 0)
    - The x is missing in dα: y = αx below 0, and its derivative by α is x.
          np.minimum(x, 0) → ~positive
    - dα is multiplied by α. Below 0, y = αx is linear in α: its derivative is x, without α.
          np.minimum(x, 0) → alpha * np.minimum(x, 0)
    - In dα stands |x|. Below 0 the derivative of αx by α is x, which is negative.
          np.minimum(x, 0) → np.maximum(-x, 0)
    - dx is that of ReLU. Below 0 the slope is α, not 0.
          np.where(positive, 1, alpha) → np.where(positive, 1, 0 * alpha)
    - The two slopes are exchanged: it is 1 above 0 and α below.
          np.where(positive, 1, alpha) → np.where(positive, alpha, 1)
    - max(dy, α dy) decides by the sign of the gradient. Which slope counts is decided by the sign of x.
          dx = dy * slope → dx = np.maximum(dy, alpha * dy)
    - In dα the α stands inside the minimum. By α the derivative of αx is x, and it counts where x is below 0.
          np.minimum(x, 0) → np.minimum(alpha * x, 0)
    - dα is averaged over the inputs below 0. All tokens share α, so their shares are added.
          .sum(axis=(0, 1)) → .sum(axis=(0, 1)) / np.maximum((x < 0).sum(axis=(0, 1)), 1)
    - Below 0 the slope is α alone, not 1 + α: the two cases exclude each other.
          np.where(positive, 1, alpha) → np.where(positive, 1, 1 + alpha)
    - Above 0 the slope is 1, without α: the two cases exclude each other.
          np.where(positive, 1, alpha) → np.where(positive, 1 + alpha, alpha)
    - Above 0 the slope is 1. Here dx is multiplied by x there: that is the value, not the slope.
          np.where(positive, 1, alpha) → np.where(positive, x, alpha * x)
    """,
    hints="""
    - For one number: y = x above 0, and y = αx below. Differentiate it by x, and then by α.
    - By α the derivative is min(x, 0). How many outputs contain the α of one feature?
    - dα sums dy · min(x, 0) over all tokens of all sequences, for each feature by itself.
    """,
)


# 4 ----------------------------------------------------------------------------------------------------------


def squared_relu_backward(dy, x, W_1, W_2):
    h = x @ W_1
    relu_h = np.maximum(h, 0)
    a = relu_h**2
    da = dy @ W_2.T
    dh = da * 2 * relu_h
    dx = dh @ W_1.T
    dW_1 = (x.mT @ dh).sum(axis=0)
    dW_2 = (a.mT @ dy).sum(axis=0)
    return dx, dW_1, dW_2


SQUARED_RELU_BACKWARD = Exercise(
    squared_relu_backward,
    asks="A whole backward: two matrices, an activation between them, and its own slope.",
    outputs="dx dW_1 dW_2",
    inputs={"dy": normal("B T D"), "x": X, "W_1": normal("D F"), "W_2": normal("F D")},
    stories="""
    - The slope is that of ReLU alone. The square is missing: by the chain rule its slope is 2 max(h, 0).
          da * 2 * relu_h → da * (h > 0)
    - The 2 of the square is missing.
          da * 2 * relu_h → da * relu_h
    - The slope is 2h everywhere. Units below 0 are switched off, and nothing passes them.
          da * 2 * relu_h → da * 2 * h
    - The ReLU is applied to the gradient as well. What arrives at a unit that is on passes, also if it is
      negative.
          da = dy @ W_2.T → da = np.maximum(dy @ W_2.T, 0)
    - In dW_2 stands the slope 2 max(h, 0). What W_2 multiplies is the value, the square.
          (a.mT @ dy) → ((2 * relu_h).mT @ dy)
    - The gradient dy is added to dx, as around a residual connection. This layer has none.
          dx = dh @ W_1.T → dx = dh @ W_1.T + dy
    - The gradients of the weights are those of the last sequence alone. All sequences use them: add.
          (x.mT @ dh).sum(axis=0) → (x.mT @ dh)[-1]
          (a.mT @ dy).sum(axis=0) → (a.mT @ dy)[-1]
    - The gradients of the weights are those of the first sequence alone. All sequences use them: add.
          (x.mT @ dh).sum(axis=0) → (x.mT @ dh)[0]
          (a.mT @ dy).sum(axis=0) → (a.mT @ dy)[0]
    - The slope is 2|h|. Units below 0 are switched off, and nothing passes them.
          da * 2 * relu_h → da * 2 * np.abs(h)
    - The slope is taken where the unit is off: it is 2h above 0, and 0 below.
          da * 2 * relu_h → da * 2 * np.minimum(h, 0)
    - The slope is taken at a, at what left the activation. It is 2 max(h, 0), from what entered.
          da * 2 * relu_h → da * 2 * a
    - The value of the activation stands for its slope.
          da * 2 * relu_h → da * a
    - The activation is not passed at all: dh is da times the slope of the activation.
          da * 2 * relu_h → da
    - In dW_2 stands max(h, 0). What W_2 multiplies is its square.
          (a.mT @ dy) → (relu_h.mT @ dy)
    - In dW_2 stands h, as it was before the activation. What W_2 multiplies is a.
          (a.mT @ dy) → (h.mT @ dy)
    - dW_1 is formed with da. The gradient must pass the activation first: dh.
          (x.mT @ dh) → (x.mT @ da)
    - dx is formed with da. The gradient must pass the activation first: dh.
          dh @ W_1.T → da @ W_1.T
    - The gradients of the weights are averaged over the sequences. All tokens use the same weights: add.
          (x.mT @ dh).sum(axis=0) → (x.mT @ dh).mean(axis=0)
          (a.mT @ dy).sum(axis=0) → (a.mT @ dy).mean(axis=0)
    - The gradients of the weights are averaged over all tokens. They are sums; the 1/m of a mean loss has
      arrived in dy already.
          (x.mT @ dh).sum(axis=0) → (x.mT @ dh).mean(axis=0) / x.shape[1]
          (a.mT @ dy).sum(axis=0) → (a.mT @ dy).mean(axis=0) / x.shape[1]
    - The gradients of the weights still have an axis for the sequences. All of them use the same weights: sum
      over the batch.
          (x.mT @ dh).sum(axis=0) → (x.mT @ dh)
          (a.mT @ dy).sum(axis=0) → (a.mT @ dy)
    - The slope is 2 wherever a unit is on. The slope of the square of h is 2h, and it grows with h.
          da * 2 * relu_h → da * 2 * (h > 0)
    """,
    hints="""
    - Only the bend is new. Down and up are those of the chapter, without biases.
    - a = max(h, 0)². For h > 0 this is h², for h < 0 it is 0. What is its slope in both cases?
    - dh = da ∘ 2 max(h, 0). The weights collect over the positions and over the sequences.
    """,
)


# 5 ----------------------------------------------------------------------------------------------------------


def two_experts_backward(dy, x, W_a, W_b, w):
    r = (x @ w)[..., None]
    g = 1 / (1 + np.exp(-r))
    y_a = x @ W_a
    y_b = x @ W_b
    dy_a = g * dy
    dy_b = (1 - g) * dy
    dg = (dy * (y_a - y_b)).sum(axis=-1, keepdims=True)
    dr = dg * g * (1 - g)
    dx = dy_a @ W_a.T + dy_b @ W_b.T + dr * w
    dW_a = (x.mT @ dy_a).sum(axis=0)
    dW_b = (x.mT @ dy_b).sum(axis=0)
    dw = (dr * x).sum(axis=(0, 1))
    return dx, dW_a, dW_b, dw


TWO_EXPERTS_BACKWARD = Exercise(
    two_experts_backward,
    asks="A token that is used three times: by both experts and by the gate.",
    outputs="dx dW_a dW_b dw",
    inputs={
        "dy": normal("B T E"),
        "x": X,
        "W_a": normal("D E"),
        "W_b": normal("D E"),
        "w": small("D"),
    },
    stories="""
    - The path through the gate is missing from dx. x is used three times: by both experts, and by the gate.
          + dr * w →
    - The slope of the logistic function is missing: from g to r the gradient is multiplied by g(1 - g).
          dr = dg * g * (1 - g) → dr = dg
    - The slope of the logistic function is g(1 - g); one of its factors is missing.
          dr = dg * g * (1 - g) → dr = dg * g
    - The other expert is missing from the gradient of the gate: g takes away from it what it gives to the
      first.
          (y_a - y_b) → y_a
    - In the gradient of the gate the experts are weighted. What g multiplies is the whole difference of their
      answers.
          (y_a - y_b) → (g * y_a - (1 - g) * y_b)
    - 1 - g² is the slope of the tanh in the tanh's own value. The logistic function has the slope g(1 - g).
          dr = dg * g * (1 - g) → dr = dg * (1 - g**2)
    - The slope of the logistic function is g(1 - g), not g².
          dr = dg * g * (1 - g) → dr = dg * g * g
    - The sign of the gradient of the gate is wrong: a larger g gives more of the first expert, less of the
      second.
          (y_a - y_b) → (y_b - y_a)
    - The gate adds the two experts in its gradient. A larger g takes away from the second: a difference.
          (y_a - y_b) → (y_a + y_b)
    - The gradient of g is formed with the whole output. What multiplies g in the output is the difference of
      the experts.
          (y_a - y_b) → (g * y_a + (1 - g) * y_b)
    - Both experts are weighted with g. The second has the weight 1 - g.
          dy_b = (1 - g) * dy → dy_b = g * dy
    - The weights of the experts are exchanged: g belongs to the first, 1 - g to the second.
          dy_a = g * dy → dy_a = (1 - g) * dy
          dy_b = (1 - g) * dy → dy_b = g * dy
    - The experts receive dy whole. The gate weighted them on the way forward, and it weights them back.
          dy_a = g * dy → dy_a = dy
          dy_b = (1 - g) * dy → dy_b = dy
    - One g serves a whole token, so its gradient is a sum over the features of the output, not a mean.
          .sum(axis=-1, keepdims=True) → .mean(axis=-1, keepdims=True)
    - dw is averaged over the tokens; all of them share w, so their shares are added.
          (dr * x).sum(axis=(0, 1)) → (dr * x).mean(axis=(0, 1))
    - The gradients of the experts' weights are averaged over the sequences; all tokens share them: add.
          (x.mT @ dy_a).sum(axis=0) → (x.mT @ dy_a).mean(axis=0)
          (x.mT @ dy_b).sum(axis=0) → (x.mT @ dy_b).mean(axis=0)
    - All gradients of weights are averaged over the sequences; all tokens share them: add.
          (x.mT @ dy_a).sum(axis=0) → (x.mT @ dy_a).mean(axis=0)
          (x.mT @ dy_b).sum(axis=0) → (x.mT @ dy_b).mean(axis=0)
          (dr * x).sum(axis=(0, 1)) → (dr * x).sum(axis=1).mean(axis=0)
    - The gradient of g is summed over the positions too. Each token has its own g.
          .sum(axis=-1, keepdims=True) → .sum(axis=(1, 2), keepdims=True)
    - dw still has an axis for the sequences. All tokens of all sequences share w: sum over both axes.
          (dr * x).sum(axis=(0, 1)) → (dr * x).sum(axis=1)
    - In dx the experts pass on dy whole. The gate weighted their answers on the way forward, and it weights
      what comes back.
          dx = dy_a @ W_a.T + dy_b @ W_b.T → dx = dy @ W_a.T + dy @ W_b.T
    - In dx the experts pass on dy whole: the gate weights what comes back. And the path through the gate is
      missing from dx.
          dx = dy_a @ W_a.T + dy_b @ W_b.T + dr * w → dx = dy @ W_a.T + dy @ W_b.T
    - dW_a and dW_b are formed with dy whole. Each expert receives its share: g dy the first, (1 - g) dy the
      second.
          (x.mT @ dy_a) → (x.mT @ dy)
          (x.mT @ dy_b) → (x.mT @ dy)
    - dW_a is formed with dy whole. The first expert receives its share, g dy.
          (x.mT @ dy_a) → (x.mT @ dy)
    - dW_b is formed with dy whole. The second expert receives its share, (1 - g) dy.
          (x.mT @ dy_b) → (x.mT @ dy)
    - dW_b is formed with g dy, the share of the first expert. That of the second is (1 - g) dy.
          (x.mT @ dy_b) → (x.mT @ dy_a)
    - dW_a is formed with (1 - g) dy, the share of the second expert. That of the first is g dy.
          (x.mT @ dy_a) → (x.mT @ dy_b)
    - In dx the second expert is weighted with g. Its weight is 1 - g.
          dy_b @ W_b.T → dy_a @ W_b.T
    - In dW_a and dW_b the weights are exchanged: g belongs to the first expert, 1 - g to the second.
          dW_a = (x.mT @ dy_a) → dW_a = (x.mT @ (dy - dy_a))
          dW_b = (x.mT @ dy_b) → dW_b = (x.mT @ (dy - dy_b))
    - In dx the weights are exchanged: g belongs to the first expert, 1 - g to the second.
          dy_a @ W_a.T + dy_b @ W_b.T → dy_b @ W_a.T + dy_a @ W_b.T
    - g and 1 - g are exchanged throughout: g belongs to the first expert, 1 - g to the second, and a larger g
      gives more of the first.
          dy_a = g * dy → dy_a = (1 - g) * dy
          dy_b = (1 - g) * dy → dy_b = g * dy
          (y_a - y_b) → (y_b - y_a)
    - The slope of the logistic function is taken at g, at what left it. It is taken at r, at what entered,
      and there it is g(1 - g): σ is not applied a second time.
          dr = dg * g * (1 - g) → dr = dg * np.exp(-g) / (1 + np.exp(-g)) ** 2
    - dr is dg times the logistic function of g. Its slope belongs there, taken at r: g(1 - g).
          dr = dg * g * (1 - g) → dr = dg / (1 + np.exp(-g))
    - In dx the gradient of g is not passed through the logistic function: with dr = dg g(1 - g), as in dw.
          + dr * w → + dg * w
    - In dw the gradient of g is not passed through the logistic function: with dr = dg g(1 - g), as in dx.
          (dr * x) → (dg * x)
    """,
    hints="""
    - Go step by step: y = g y_a + (1 - g) y_b. What are dy_a, dy_b and dg, for one token?
    - g is one number for each token and multiplies all of y_a - y_b, so dg is a sum over the features. Before
      it reaches r it passes the logistic function.
    - x is used three times, so dx has three terms. The weights collect over all tokens of all sequences.
    """,
)
