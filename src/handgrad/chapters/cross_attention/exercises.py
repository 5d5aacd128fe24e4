"""Exercises of chapter 11, layers that it does not show: answers, stories and hints."""

import numpy as np

from ...course.judge.draws import Draw, normal, repeating, scales
from ...course.judge.function import Exercise
from ...ops.attention import attention, attention_backward


def some(rng, shape):
    """True and False, both of them where there are two or more."""
    on = rng.random(shape) < 0.5
    if on.size > 1 and on.all() == on.any():
        on[rng.integers(on.size)] ^= True
    return on


def real_tokens(rng, shape):
    """False at padding, which may stand anywhere. Each sequence has padding, and two tokens if S > 2."""
    real, rows, S = rng.random(shape) < 0.6, np.arange(shape[0]), shape[1]
    place = (1 + rng.integers(S, size=shape[0])) % S
    real[rows, place - 2] = S > 2
    real[rows, place] = True
    real[rows, place - 1] = False
    return real


# 1 ----------------------------------------------------------------------------------------------------------


def gated_gradients(dy, c, alpha):
    gate = np.tanh(alpha)
    dc = gate[:, None, None] * dy[:, None]
    dgate = (dy[:, None] * c).sum(axis=(0, 2, 3))
    dalpha = (1 - gate**2) * dgate
    return dc, dalpha


ALPHA = Draw("H", lambda rng, shape: rng.normal(0.3, 0.7, shape))
GATE_GRADIENTS = Exercise(
    gated_gradients,
    asks="A gate that begins closed: what gets a gradient at the start, and what does not.",
    outputs="dc dalpha",
    inputs={"dy": normal("B T D"), "c": repeating("B H T D", axis=2), "alpha": ALPHA},
    special={"gates that are still closed": {"alpha": ALPHA.then(lambda alpha: 0 * alpha)}},
    only={
        "gates that are still closed": "With α = 0 nothing passes to c, but α itself must have a gradient."
    },
    stories="""
    - The inner derivative is missing from dalpha: this is the gradient of the gate, tanh α. Multiply it by
      1 - tanh² α.
          (1 - gate**2) * dgate → dgate
    - The tanh is not squared: its derivative is 1 - tanh² α.
          1 - gate**2 → 1 - gate
    - 1 - α² stands where 1 - tanh² α should.
          1 - gate**2 → 1 - alpha**2
    - The gate stands where its derivative should: dalpha needs 1 - tanh² α.
          (1 - gate**2) * dgate → gate * dgate
    - dc is not gated: c enters y with the factor tanh α, and so does its gradient.
          gate[:, None, None] * dy[:, None] → np.ones_like(c) * dy[:, None]
    - α stands where tanh α should in dc.
          dc = gate[ → dc = alpha[
    - The derivative of the gate stands in dc. To c the gate is a factor; its derivative belongs to dalpha.
          dc = gate[:, None, None] → dc = (1 - gate**2)[:, None, None]
    - dalpha is a mean. The gate of a head acts in every sequence, at every target and in every component,
      and gradients add.
          .sum(axis=(0, 2, 3)) → .mean(axis=(0, 2, 3))
    - dalpha is a mean over the batch. All sequences share the gate, and their gradients add.
          .sum(axis=(0, 2, 3)) → .sum(axis=(2, 3)).mean(axis=0)
    - dalpha is not summed over the batch: all sequences share the gate of a head.
          .sum(axis=(0, 2, 3)) → .sum(axis=(2, 3))
    - dalpha is a single number, summed over the heads. Each head has its own gate.
          dalpha = (1 - gate**2) * dgate → dalpha = ((1 - gate**2) * dgate).sum()
    - In dalpha the sum runs over the heads as well. Each head has its own gate, so the sum leaves the axis of
      the heads.
          .sum(axis=(0, 2, 3)) → .sum()
    - dy is not multiplied by c in dalpha. The derivative of y by a gate is c_h.
          (dy[:, None] * c).sum → (dy[:, None] * np.ones_like(c)).sum
    - The gate is a tanh, and this is the gradient of a sigmoid, which is ½ where α = 0.
          gate = np.tanh(alpha) → gate = 1 / (1 + np.exp(-alpha))
          (1 - gate**2) → gate * (1 - gate)
    - The gates stand along the components in dc. There is one for each head: `gate[:, None, None]` puts them
      along the axis of the heads.
          dc = gate[:, None, None] * dy[:, None] → dc = gate * (dy[:, None] + 0 * c)
    - The gates stand along the targets in dc. There is one for each head: `gate[:, None, None]` puts them
      along the axis of the heads.
          dc = gate[:, None, None] * dy[:, None] → dc = gate[:, None] * (dy[:, None] + 0 * c)
    - The gates stand along the batch in dc. There is one for each head: `gate[:, None, None]` puts them
      along the axis of the heads.
          dc = gate[:, None, None] * dy[:, None] → dc = gate[:, None, None, None] * (dy[:, None] + 0 * c)
    - dc contains the residual path as well. x and c are two inputs: the path past the layer ends in dx.
          dc = gate[:, None, None] → dc = (1 + gate)[:, None, None]
    - dc is summed over the heads. Each head has an output of its own, and so a gradient of its own.
          gate[:, None, None] * dy[:, None] → (gate[:, None, None] * dy[:, None]).sum(axis=1)
    """,
    hints="""
    - One head first: y = x + g c with g = tanh α. What is the derivative of y by c, and by g?
    - dc = g dy. And dg is the sum of dy times c over everything that this gate acts on.
    - dα = dg times the derivative of tanh, 1 - tanh² α; it is 1 where the gate is closed.
    """,
)


# 2 ----------------------------------------------------------------------------------------------------------


def frozen_layers(memory, dk, dv, W_K, W_V, learns):
    of_keys = (dk @ W_K.mT[:, None]).sum(axis=0)
    of_values = (dv @ W_V.mT[:, None]).sum(axis=0)
    dmemory = of_keys + of_values
    on = learns[:, None, None]
    dW_K = on * (memory.mT @ dk).sum(axis=1)
    dW_V = on * (memory.mT @ dv).sum(axis=1)
    return dmemory, dW_K, dW_V


FROZEN_LAYERS = Exercise(
    frozen_layers,
    asks="What a frozen layer stops, and what still flows through it.",
    outputs="dmemory dW_K dW_V",
    inputs={
        "memory": repeating("B S D"),
        "dk": normal("H B S K"),
        "dv": normal("H B S E"),
        "W_K": normal("H D K"),
        "W_V": normal("H D E"),
        "learns": Draw("H", some),
    },
    stories="""
    - A frozen layer sends nothing to the memory here. Frozen are its parameters; it has read the memory all
      the same, and what it returns must reach the encoder.
          (dk @ W_K.mT[:, None]).sum → (learns[:, None, None, None] * (dk @ W_K.mT[:, None])).sum
          (dv @ W_V.mT[:, None]).sum → (learns[:, None, None, None] * (dv @ W_V.mT[:, None])).sum
    - A frozen layer sends nothing through its keys here, and through its values it does. Frozen are its
      parameters; both ways lead to the memory, and neither is closed.
          (dk @ W_K.mT[:, None]).sum → (learns[:, None, None, None] * (dk @ W_K.mT[:, None])).sum
    - A frozen layer sends nothing through its values here, and through its keys it does. Frozen are its
      parameters; both ways lead to the memory, and neither is closed.
          (dv @ W_V.mT[:, None]).sum → (learns[:, None, None, None] * (dv @ W_V.mT[:, None])).sum
    - In dmemory the matrices are not transposed. The forward multiplies by W_K and W_V, the backward by their
      transposes.
          W_K.mT[:, None] → W_K[:, None]
          W_V.mT[:, None] → W_V[:, None]
    - dmemory is multiplied by the number of layers. The sum has counted each of them already.
          dmemory = of_keys + of_values → dmemory = (of_keys + of_values) * len(dk)
    - The gradients of the matrices are divided by the number of layers. Each layer has its own matrices.
          on = learns[:, None, None] → on = learns[:, None, None] / len(dk)
    - The gradients of the matrices are summed over the layers. Each layer has its own, so the axis stays.
          on * (memory.mT @ dk).sum(axis=1) → (on * (memory.mT @ dk).sum(axis=1)).sum(axis=0)
          on * (memory.mT @ dv).sum(axis=1) → (on * (memory.mT @ dv).sum(axis=1)).sum(axis=0)
    - The gradients of the matrices are summed over the layers, and every layer gets the sum. Each layer has
      its own, and a frozen one gets 0.
          on * (memory.mT @ dk).sum(axis=1) → 0 * W_K + (on * (memory.mT @ dk).sum(axis=1)).sum(axis=0)
          on * (memory.mT @ dv).sum(axis=1) → 0 * W_V + (on * (memory.mT @ dv).sum(axis=1)).sum(axis=0)
    - Only the frozen layers are heard by the memory. All layers have read it, and all are heard.
          (dk @ W_K.mT[:, None]).sum → (~learns[:, None, None, None] * (dk @ W_K.mT[:, None])).sum
          (dv @ W_V.mT[:, None]).sum → (~learns[:, None, None, None] * (dv @ W_V.mT[:, None])).sum
    - The matrices of the first layer stand in all layers. Each layer has its own.
          dk @ W_K.mT[:, None] → dk @ W_K[0].mT
          dv @ W_V.mT[:, None] → dv @ W_V[0].mT
    - The parameters of frozen layers get a gradient. Theirs must be 0.
          on = learns → on = 1 + 0 * learns
    - The wrong layers are frozen: `learns` is true where a layer learns.
          on = learns[ → on = ~learns[
    - Only the last layer is heard by the memory. All layers read it, and what they return adds.
          @ W_K.mT[:, None]).sum(axis=0) → @ W_K.mT[:, None])[-1]
          @ W_V.mT[:, None]).sum(axis=0) → @ W_V.mT[:, None])[-1]
    - Only the first layer is heard by the memory. All layers read it, and what they return adds.
          @ W_K.mT[:, None]).sum(axis=0) → @ W_K.mT[:, None])[0]
          @ W_V.mT[:, None]).sum(axis=0) → @ W_V.mT[:, None])[0]
    - dmemory is a mean over the layers. The memory is used in each, and gradients add.
          @ W_K.mT[:, None]).sum(axis=0) → @ W_K.mT[:, None]).mean(axis=0)
          @ W_V.mT[:, None]).sum(axis=0) → @ W_V.mT[:, None]).mean(axis=0)
    - The values are missing from dmemory: the memory is used twice in each layer.
          of_keys + of_values → of_keys
    - The keys are missing from dmemory: the memory is used twice in each layer.
          of_keys + of_values → of_values
    - The gradients of the matrices are means over the batch. They are shared by all sequences, and add.
          (memory.mT @ dk).sum(axis=1) → (memory.mT @ dk).mean(axis=1)
          (memory.mT @ dv).sum(axis=1) → (memory.mT @ dv).mean(axis=1)
    - The gradients of the matrices hear the first sequence only. All sequences share them, and gradients add.
          (memory.mT @ dk).sum(axis=1) → (memory.mT @ dk)[:, 0]
          (memory.mT @ dv).sum(axis=1) → (memory.mT @ dv)[:, 0]
    - What comes by the keys is multiplied by what comes by the values. Gradients over two paths add.
          of_keys + of_values → of_keys * of_values
    - The gradients of the matrices are not summed over the batch: all sequences share them.
          on * (memory.mT @ dk).sum(axis=1) → on[:, None] * (memory.mT @ dk)
          on * (memory.mT @ dv).sum(axis=1) → on[:, None] * (memory.mT @ dv)
    - What each layer returns for the memory is not added up: the layers are still an axis of dmemory.
          @ W_K.mT[:, None]).sum(axis=0) → @ W_K.mT[:, None])
          @ W_V.mT[:, None]).sum(axis=0) → @ W_V.mT[:, None])
    - The gradients of the layers that learn are summed into all of them. Each layer has its own matrices.
          (memory.mT @ dk).sum(axis=1) → (memory.mT @ dk).sum(axis=(0, 1))
          (memory.mT @ dv).sum(axis=1) → (memory.mT @ dv).sum(axis=(0, 1))
    """,
    hints="""
    - Write down, for one layer, where the memory is used, and where each matrix is. Then ask which of these
      uses the word "frozen" forbids.
    - Frozen means: the matrices of that layer are not changed. The layer still computes with the memory.
    - dmemory is the sum over all layers of dK W_Kᵀ + dV W_Vᵀ. Only dW_K and dW_V are set to 0.
    """,
)


# 3 ----------------------------------------------------------------------------------------------------------


def coverage_ds(a, wish):
    gap = a.sum(axis=1, keepdims=True) - wish[:, None]
    mean = (a * gap).sum(axis=-1, keepdims=True)
    ds = a * (gap - mean)
    return ds


def rows_with_zeros(rng, shape):
    """Weights, some of them exactly 0, as behind a mask."""
    seen = rng.random(shape) < 0.8
    seen[..., :2] = True
    e = np.where(seen, np.exp(rng.normal(0, 1.2, shape)), 0.0)
    return e / e.sum(axis=-1, keepdims=True)


COVERAGE_DS = Exercise(
    coverage_ds,
    asks="A penalty on a sum over targets, sent back through the softmax of each row.",
    outputs="ds",
    inputs={
        "a": Draw("B T S", rows_with_zeros),
        "wish": Draw("B S", lambda rng, shape: rng.uniform(0.2, 1.5, shape)),
    },
    stories="""
    - This is the gradient of the weights, dA: the softmax is still to be passed. The scores of a row share a
      denominator.
          a * (gap - mean) → 0 * a + gap
    - This is the penalty, a number. Wanted is its gradient by each score.
          ds = a * (gap - mean) → ds = (gap**2).sum() / 2
    - This is the gradient of the coverage, one number for each source. Each weight of its column receives it,
      and then the softmax is still to be passed.
          ds = a * (gap - mean) → ds = gap[:, 0]
    - Summed over the targets. Each has a row of scores of its own.
          ds = a * (gap - mean) → ds = (a * (gap - mean)).sum(axis=1)
    - In the softmax step the average is not subtracted.
          a * (gap - mean) → a * gap
    - The factor a in front is missing in the softmax step.
          a * (gap - mean) → gap - mean
    - Only the diagonal of the Jacobian of softmax is used, a (1 - a).
          a * (gap - mean) → a * (1 - a) * gap
    - An ordinary mean stands where the mean weighted by a should.
          mean = (a * gap).sum( → mean = (0 * a + gap).mean(
    - The sum in the softmax step is not weighted: it is Σ a_j da_j, not Σ da_j.
          mean = (a * gap).sum( → mean = (0 * a + gap).sum(
    - The average runs over the targets. Softmax works along each row: sum over the sources.
          mean = (a * gap).sum(axis=-1 → mean = (a * gap).sum(axis=1
    - The coverage of a source is a sum over the targets. Here stands a sum over the sources, which is 1 in
      every row.
          gap = a.sum(axis=1, → gap = a.sum(axis=-1,
    - The mean over the targets stands where their sum should: c_j = Σ_i a_ij.
          gap = a.sum( → gap = a.mean(
    - Each weight is compared with the wish by itself. The penalty compares the sum over all targets.
          gap = a.sum(axis=1, keepdims=True) → gap = a
    - Twice too large: the derivative of ½ (c - w)² is c - w.
          a * (gap - mean) → 2 * a * (gap - mean)
    - The sign is wrong: the gradient is positive where more is covered than was wished for.
          - wish[:, None] → - wish[:, None]; gap = -gap
    - Only the sign of the gap is used: that is the gradient of Σ |c - w|.
          - wish[:, None] → - wish[:, None]; gap = np.sign(gap)
    - The coverage of a source is summed up to each target here. It is one number, the sum over all targets.
          a.sum(axis=1, keepdims=True) → np.cumsum(a, axis=1)
    - A negative gap is set to 0. The penalty is a square: too little coverage costs as well.
          - wish[:, None] → - wish[:, None]; gap = np.maximum(gap, 0)
    - 1 - a stands in front where a should: the softmax step is a ∘ (da - average).
          a * (gap - mean) → (1 - a) * (gap - mean)
    - The gap is multiplied by the coverage once more. The derivative of ½ (c - w)² by c is c - w.
          - wish[:, None] → - wish[:, None]; gap = gap * a.sum(axis=1, keepdims=True)
    - The wish is left out. It is not the same for all sources, so the softmax does not take it away.
          - wish[:, None] →
    - The batch is summed over. Each sentence has its own coverage.
          a.sum(axis=1, keepdims=True) → a.sum(axis=(0, 1), keepdims=True)
    - The gap is squared: that is the penalty itself. Its derivative by c is c - w.
          - wish[:, None] → - wish[:, None]; gap = gap**2
    - The penalty is divided by the number of targets here. It is a plain sum.
          a * (gap - mean) → a * (gap - mean) / a.shape[1]
    - The penalty is divided by the number of sentences here. It is a plain sum.
          a * (gap - mean) → a * (gap - mean) / a.shape[0]
    - The penalty is divided by the number of sources here. It is a plain sum.
          a * (gap - mean) → a * (gap - mean) / a.shape[2]
    """,
    hints="""
    - First the gradient of the coverage: P = ½ Σ (c_j - w_j)². Then each weight a_ij stands in one coverage,
      with the factor 1.
    - So da_ij = c_j - w_j: the same for all targets i.
    - From da to ds goes the softmax step of chapter 8, along each row.
    """,
)


# 4 ----------------------------------------------------------------------------------------------------------


def normalised_once(parts, u, gamma):
    dmemory = parts.sum(axis=0)
    r = 1 / np.sqrt((u**2).mean(axis=-1, keepdims=True))
    x = r * u
    dgamma = (dmemory * x).sum(axis=(0, 1))
    dx = dmemory * gamma
    du = r * (dx - x * (dx * x).mean(axis=-1, keepdims=True))
    return du, dgamma


NORMALISED_ONCE = Exercise(
    normalised_once,
    asks="What to add before the backward of a norm, and the gradient of its scale.",
    outputs="du dgamma",
    inputs={"parts": normal("H B S D"), "u": repeating("B S D"), "gamma": scales("D")},
    stories="""
    - Only what the last layer returns is used. All layers read the memory, and what they return adds.
          parts.sum(axis=0) → parts[-1]
    - Only what the first layer returns is used. All layers read the memory, and what they return adds.
          parts.sum(axis=0) → parts[0]
    - A mean over the layers. The memory is used in each of them, and gradients add.
          parts.sum(axis=0) → parts.mean(axis=0)
    - Multiplied by the number of layers. The sum over the layers has counted each of them already.
          parts.sum(axis=0) → parts.sum(axis=0) * len(parts)
    - du is multiplied by the number of layers. The sum over the layers has counted each of them already.
          du = r * → du = len(parts) * r *
    - dgamma is multiplied by the number of layers. The sum over the layers has counted each of them already.
          dgamma = ( → dgamma = len(parts) * (
    - du hears the mean of the layers, and should hear their sum: the memory is used in each of them.
          du = r * → du = 1 / len(parts) * r *
    - dgamma hears the mean of the layers, and should hear their sum: γ acts for each of them.
          dgamma = ( → dgamma = 1 / len(parts) * (
    - du is the forward, γ u/rms.
          du = r * (dx - x * (dx * x).mean(axis=-1, keepdims=True)) → du = gamma * x
    - The norm is not in the backward: this is γ times what arrives. Two things are missing, the factor 1/rms
      and the path through the rms.
          du = r * (dx - x * (dx * x).mean(axis=-1, keepdims=True)) → du = dx
    - The norm is left out: this is the gradient of the memory, after the norm.
          du = r * (dx - x * (dx * x).mean(axis=-1, keepdims=True)) → du = dmemory
    - The rms is held constant: every component of u stands in it, and that path is missing.
          r * (dx - x * (dx * x).mean(axis=-1, keepdims=True)) → r * dx
    - γ is missing from du. It multiplies the normalised row, so it stands inside the brackets.
          dx = dmemory * gamma → dx = dmemory
    - γ stands outside the brackets. It belongs to each component before the projection.
          dx = dmemory * gamma → dx = dmemory
          du = r * → du = gamma * r *
    - The factor 1/rms in front of du is missing.
          du = r * (dx → du = (dx
    - The mean over the components is a sum here: the rms is a mean of D squares.
          (dx * x).mean( → (dx * x).sum(
    - u stands where the normalised row u/rms should, in the path through the rms.
          dx - x * (dx * x).mean → dx - u * (dx * u).mean
    - dgamma contains u where it should contain the normalised row, u/rms.
          (dmemory * x).sum → (dmemory * u).sum
    - dgamma has γ in it. γ is a factor of the output, so it drops out of its own gradient.
          (dmemory * x).sum → (dmemory * gamma * x).sum
    - dgamma is a mean. All tokens of all sentences share γ, and gradients add.
          (dmemory * x).sum(axis=(0, 1)) → (dmemory * x).mean(axis=(0, 1))
    - dgamma is a mean over the batch. All sentences share γ, and gradients add.
          (dmemory * x).sum(axis=(0, 1)) → (dmemory * x).sum(axis=1).mean(axis=0)
    - dgamma is not summed over the batch: all sentences share γ.
          (dmemory * x).sum(axis=(0, 1)) → (dmemory * x).sum(axis=1)
    - dgamma is not multiplied by the normalised row: that would be the gradient of a shift.
          (dmemory * x).sum → dmemory.sum
    - The mean is subtracted as in LayerNorm. This norm divides by the rms and subtracts nothing.
          du = r * (dx - → du = r * (dx - dx.mean(axis=-1, keepdims=True) -
    - The mean square runs over the sources. Each token is normalised by itself, over its D components.
          (u**2).mean(axis=-1 → (u**2).mean(axis=1
    - The root is missing from the rms.
          np.sqrt((u**2).mean(axis=-1, keepdims=True)) → (u**2).mean(axis=-1, keepdims=True)
    """,
    hints="""
    - What arrives at the norm? The memory is one array that N layers read.
    - Add over the layers first. Then it is one backward of RMSNorm (chapter 5): with x = u/rms, dγ is the sum
      of dX' ∘ x over all tokens.
    - du = (dx - x mean(dx ∘ x)) / rms with dx = γ ∘ dX', where the mean runs over the D components.
    """,
)


# 5 ----------------------------------------------------------------------------------------------------------


def latent_queries(dy, latents, k, v, real):
    scale = 1 / np.sqrt(k.shape[-1])
    scores = scale * (latents @ k.mT)
    s = np.where(real[:, None], scores, -np.inf)
    e = np.exp(s - s.max(axis=-1, keepdims=True))
    a = e / e.sum(axis=-1, keepdims=True)
    dv = a.mT @ dy
    da = dy @ v.mT
    ds = a * (da - (a * da).sum(axis=-1, keepdims=True))
    dk = scale * (ds.mT @ latents)
    dlatents = scale * (ds @ k).sum(axis=0)
    return dlatents, dk, dv


def shipped_latents(dy, latents, k, v, real):
    q = np.broadcast_to(latents, (len(k), *latents.shape))
    dq, dk, dv = attention_backward(dy, attention(q, k, v, mask=real[:, None])[1])
    return dq.sum(axis=0), dk, dv


LATENT_GRADIENTS = Exercise(
    latent_queries,
    asks="Parameters in the place of queries: what is summed over the batch, under padding.",
    outputs="dlatents dk dv",
    inputs={
        "dy": normal("B T E"),
        "latents": normal("T K"),
        "k": repeating("B S K").then(lambda k: k / 2),
        "v": repeating("B S E").then(lambda v: v / 2),
        "real": Draw("B S", real_tokens),
    },
    shipped=shipped_latents,
    stories="""
    - dlatents is a mean over the batch. All sequences share the latents, and their gradients add.
          (ds @ k).sum(axis=0) → (ds @ k).mean(axis=0)
    - dlatents is not summed over the batch: there is one table of latents for all sequences.
          (ds @ k).sum(axis=0) → (ds @ k)
    - Only the first sequence is heard by the latents. All share them, and gradients add.
          (ds @ k).sum(axis=0) → (ds @ k)[0]
    - Only the last sequence is heard by the latents. All share them, and gradients add.
          (ds @ k).sum(axis=0) → (ds @ k)[-1]
    - dS and the keys are summed over the batch each by itself, and then multiplied. The product belongs to
      one sequence; sum the products.
          (ds @ k).sum(axis=0) → (ds.sum(axis=0) @ k.sum(axis=0))
    - dS is summed over the batch, and meets the keys of the first sequence. Each sequence has its own keys:
      sum the products.
          (ds @ k).sum(axis=0) → (ds.sum(axis=0) @ k[0])
    - dS is summed over the batch, and the keys are averaged. The product belongs to one sequence; sum the
      products.
          (ds @ k).sum(axis=0) → (ds.sum(axis=0) @ k.mean(axis=0))
    - The latents are added up as well: each has its own row. The sum runs over the batch only.
          (ds @ k).sum(axis=0) → 0 * latents + (ds @ k).sum(axis=(0, 1))
    - Padding is not hidden: `real` is false there.
          np.where(real[:, None], scores, -np.inf) → scores
    - The padding is used the wrong way round: `real` is true where there is a token.
          np.where(real[:, None], scores, -np.inf) → np.where(~real[:, None], scores, -np.inf)
    - Padding is hidden after the softmax. It has already taken its share of the denominator.
          np.where(real[:, None], scores, -np.inf) → scores
          a = e / e.sum(axis=-1, keepdims=True) → a = real[:, None] * e / e.sum(axis=-1, keepdims=True)
    - Hidden scores are set to 0, which is an ordinary score. Set them to -∞.
          -np.inf → 0.0
    - Padding still has its share of the denominator: to set its dk and dv to 0 afterwards is too late. Hide
      its scores before the softmax.
          np.where(real[:, None], scores, -np.inf) → scores
          dk = scale * (ds.mT @ latents) → dk = real[..., None] * scale * (ds.mT @ latents)
          dv = a.mT @ dy → dv = real[..., None] * (a.mT @ dy)
    - Padding still has its share of the denominator: to set its dk to 0 afterwards is too late. Hide its
      scores before the softmax.
          np.where(real[:, None], scores, -np.inf) → scores
          dk = scale * (ds.mT @ latents) → dk = real[..., None] * scale * (ds.mT @ latents)
    - Padding still has its share of the denominator: to set its dv to 0 afterwards is too late. Hide its
      scores before the softmax.
          np.where(real[:, None], scores, -np.inf) → scores
          dv = a.mT @ dy → dv = real[..., None] * (a.mT @ dy)
    - Padding still has its share of the denominator: a key of 0 gives the score 0, an ordinary one. Set the
      hidden scores to -∞.
          np.where(real[:, None], scores, -np.inf) → scores
          scale = 1 / np.sqrt(k.shape[-1]) → k = real[..., None] * k; scale = 1 / np.sqrt(k.shape[-1])
    - Padding still has its share of the denominator: the score 0 is an ordinary one, and to set its dk and
      dv to 0 afterwards is too late. Set the hidden scores to -∞.
          np.where(real[:, None], scores, -np.inf) → scores
          scale = 1 / np.sqrt(k.shape[-1]) → k = real[..., None] * k; scale = 1 / np.sqrt(k.shape[-1])
          dk = scale * (ds.mT @ latents) → dk = real[..., None] * scale * (ds.mT @ latents)
          dv = a.mT @ dy → dv = real[..., None] * (a.mT @ dy)
    - Padding still has its share of the denominator: a score times 0 is 0, an ordinary one. Set the hidden
      scores to -∞.
          np.where(real[:, None], scores, -np.inf) → real[:, None] * scores
          ds = a * (da → ds = real[:, None] * a * (da
    - Padding still has its share of the denominator: a score times 0 is 0, an ordinary one, and to set its dk
      and dv to 0 afterwards is too late. Set the hidden scores to -∞.
          np.where(real[:, None], scores, -np.inf) → real[:, None] * scores
          dk = scale * (ds.mT @ latents) → dk = real[..., None] * scale * (ds.mT @ latents)
          dv = a.mT @ dy → dv = real[..., None] * (a.mT @ dy)
    - Padding still has its share of the denominator: a value of 0 is averaged all the same. Hide the scores
      of padding before the softmax.
          np.where(real[:, None], scores, -np.inf) → scores
          da = dy @ v.mT → da = dy @ (real[..., None] * v).mT
    - Padding still has its share of the denominator: a value of 0 is averaged all the same, and to set its dk
      and dv to 0 afterwards is too late. Hide the scores of padding before the softmax.
          np.where(real[:, None], scores, -np.inf) → scores
          da = dy @ v.mT → da = dy @ (real[..., None] * v).mT
          dk = scale * (ds.mT @ latents) → dk = real[..., None] * scale * (ds.mT @ latents)
          dv = a.mT @ dy → dv = real[..., None] * (a.mT @ dy)
    - Padding still has its share of the denominator: its key of 0 has the score 0, an ordinary one, and its
      value of 0 is averaged. Set the hidden scores to -∞.
          np.where(real[:, None], scores, -np.inf) → scores
          scale = 1 / np.sqrt(k.shape[-1]) → k = real[..., None] * k; scale = 1 / np.sqrt(k.shape[-1])
          da = dy @ v.mT → da = dy @ (real[..., None] * v).mT
    - Padding still has its share of the denominator: its key of 0 has the score 0, an ordinary one, and its
      value of 0 is averaged. To set its dk and dv to 0 afterwards is too late. Set the hidden scores to -∞.
          np.where(real[:, None], scores, -np.inf) → scores
          scale = 1 / np.sqrt(k.shape[-1]) → k = real[..., None] * k; scale = 1 / np.sqrt(k.shape[-1])
          da = dy @ v.mT → da = dy @ (real[..., None] * v).mT
          dk = scale * (ds.mT @ latents) → dk = real[..., None] * scale * (ds.mT @ latents)
          dv = a.mT @ dy → dv = real[..., None] * (a.mT @ dy)
    - In the softmax step the average is not subtracted.
          a * (da - (a * da).sum(axis=-1, keepdims=True)) → a * da
    - Only the diagonal of the Jacobian of softmax is used.
          a * (da - (a * da).sum(axis=-1, keepdims=True)) → a * (1 - a) * da
    - The factor a in front is missing in the softmax step.
          ds = a * (da → ds = (da
    - An ordinary mean of da stands where the mean weighted by a should.
          (a * da).sum(axis=-1 → da.mean(axis=-1
    - The scale 1/√K is missing from dk and dlatents.
          dk = scale * (ds → dk = (ds
          dlatents = scale * (ds → dlatents = (ds
    - 1/√K stands twice in dk and dlatents. It is one factor of the score.
          dk = scale * (ds → dk = scale**2 * (ds
          dlatents = scale * (ds → dlatents = scale**2 * (ds
    - The scale 1/√K is missing from the scores.
          scores = scale * (latents → scores = (latents
    - The scale is missing everywhere: from the scores and from both gradients.
          scale = 1 / np.sqrt(k.shape[-1]) → scale = 1
    - The scores are divided by K; the root is missing.
          np.sqrt(k.shape[-1]) → k.shape[-1]
    - The scores are divided by the root of the number of sources. K is the width of a key, the last axis.
          np.sqrt(k.shape[-1]) → np.sqrt(k.shape[1])
    """,
    hints="""
    - Give every sequence its own copy of the latents. Then it is attention, and you know its backward.
    - The copies are one table: what they receive adds up. Keys and values belong to one sequence each.
    - dlatents is the sum over the batch of dS K / √K.
    """,
)
