"""Exercises of chapter 13, models that it does not show: answers, stories and hints."""

import numpy as np

from ...course.judge.derivation import Derivation
from ...course.judge.draws import Draw, normal, repeating
from ...course.judge.function import Exercise

# 1 ----------------------------------------------------------------------------------------------------------


def decoder_crossover(D, D_kv, F):
    projections = 2 * (2 * D**2 + 2 * D * D_kv)
    feed_forward = 3 * D * F
    square = 2 * 2 * D
    return (projections + feed_forward) / square


DECODER_CROSSOVER = Derivation(
    decoder_crossover,
    asks="Counting multiply-adds of a block with two attentions and matrices of unequal shape.",
    domains={"D": "count", "D_kv": "count", "F": "count"},
    stories="""
    - One attention is counted, or the feed-forward layer twice. A decoder block has two attentions and one
      feed-forward layer.
          projections = 2 * ( → projections = (
          square = 2 * 2 * D → square = 2 * D
    - The projections of both attentions are counted, but half of the square is missing: each of the two has
      scores and sums, n²D multiply-adds each.
          square = 2 * 2 * D → square = 2 * D
    - The square is counted for both attentions, the projections for one only.
          projections = 2 * ( → projections = (
    - A quarter of the square is counted: two attentions, and in each scores and sums.
          square = 2 * 2 * D → square = D
    - The gated layer has three matrices; two are counted.
          3 * D * F → 2 * D * F
    - One matrix of the feed-forward layer is counted. The gated layer has three.
          3 * D * F → D * F
    - The feed-forward layer is missing.
          (projections + feed_forward) → projections
    - Only the feed-forward layer is counted against the square; the projections are missing.
          (projections + feed_forward) → feed_forward
    - Keys and values are given the full width D. Theirs is D_kv.
          2 * D**2 + 2 * D * D_kv → 4 * D**2
    - The keys are narrow here and the values are not. Both have the width D_kv.
          2 * D**2 + 2 * D * D_kv → 3 * D**2 + D * D_kv
    - All four projections are given the width D_kv. Queries and output keep the width D.
          2 * D**2 + 2 * D * D_kv → 4 * D * D_kv
    - Keys and values are taken as D_kv × D_kv. They are made of rows of width D.
          2 * D**2 + 2 * D * D_kv → 2 * D**2 + 2 * D_kv**2
    - The output projection is missing: queries and output are both D × D.
          2 * D**2 + 2 * D * D_kv → D**2 + 2 * D * D_kv
    - The projections to keys and values are missing.
          2 * D**2 + 2 * D * D_kv → 2 * D**2
    - Half of the square of self-attention is left out, for the causal mask. What is masked is computed all
      the same: no mask saves anything here.
          square = 2 * 2 * D → square = 3 * D
    - Scores and sums are given the width D_kv. Every query head meets a key of its own width: narrow keys are
      used by several heads, so the products are as many as without groups.
          square = 2 * 2 * D → square = 2 * 2 * D_kv
    - Scores or sums are given the width D_kv. Every query head meets a key of its own width: both cost n²D.
          square = 2 * 2 * D → square = 2 * D + 2 * D_kv
    - This is the length for a block with one attention and a feed-forward layer without a gate.
          (projections + feed_forward) / square → D + D_kv + F
    - This is 2D + F: for a block with one attention, without groups and without a gate.
          (projections + feed_forward) / square → 2 * D + F
    - This is the cost of a token, in multiply-adds. Divide it by what the square costs per token and length.
          (projections + feed_forward) / square → projections + feed_forward
    - The fraction is upside down. The length grows with the rest, and falls with the cost of the square.
          (projections + feed_forward) / square → square / (projections + feed_forward)
    """,
    hints="""
    - Write the multiply-adds of one block for n targets and n sources, one product after the other.
    - Two attentions: each has queries and output (D × D), keys and values (D × D_kv), scores and sums (n²D).
    - The projections take 4nD² + 4nD D_kv, the gated layer 3nDF, scores and sums 4n²D. Divide by 4nD.
    """,
)


# 2 ----------------------------------------------------------------------------------------------------------


def looped_parameters(V, E, M, D, F, N):
    tables = V * E + M * E
    widen = E * D + D
    narrow = D * E + E
    attention = 4 * D**2 + 4 * D
    feed_forward = 2 * D * F + F + D
    norms = 2 * D
    bias = V
    block = attention + feed_forward + norms
    around = tables + widen + narrow + bias
    return around + block


LOOPED_PARAMETERS = Derivation(
    looped_parameters,
    asks="Counting parameters exactly where some are shared and only some layers have biases.",
    domains={"V": "count", "E": "count", "M": "count", "D": "count", "F": "count", "N": "count"},
    stories="""
    - The block is counted N times. It is one block, run N times: its parameters exist once.
          around + block → around + N * block
    - Attention and feed-forward layer are counted N times. The whole block exists once.
          attention + feed_forward + norms → N * (attention + feed_forward) + norms
    - Norms are counted for each of the N rounds. They belong to the block, and the block exists once.
          norms = 2 * D → norms = N * 2 * D
    - Everything is counted N times. Nothing is: all of it exists once.
          around + block → N * (around + block)
    - The head has a table of its own here. It is the table of the tokens, used again.
          bias = V → bias = V + V * E
    - The head has a table of its own here, as wide as the block. It is the table of the tokens, used again.
          bias = V → bias = V + V * D
    - The head has a table of its own here, in the place of the way back to the narrow width.
          bias = V → bias = V + V * D
          narrow = D * E + E → narrow = 0
    - The bias of the head is missing, one number for each word.
          bias = V → bias = 0
    - The logits get one bias for all words here. They get one for each.
          bias = V → bias = 1
    - The head is missing: the layer back to the narrow width, and the bias. Only its table is shared.
          bias = V → bias = 0
          narrow = D * E + E → narrow = 0
    - The positions are given the width D. They are added in the narrow width.
          M * E → M * D
    - The token table is given the width D. It is narrow, V × E.
          V * E + → V * D +
    - Both tables are given the width D. They are narrow: only the matrix behind them leads to D.
          V * E + M * E → V * D + M * D
    - The positions are missing.
          V * E + M * E → V * E
    - Both biases of the matrices between the widths are missing, D entries and E entries.
          E * D + D → E * D
          D * E + E → D * E
    - D parameters are missing: a norm, or a bias. There is one behind the matrix that widens, four in the
      attention, and one at the end of the feed-forward layer.
          E * D + D → E * D
    - The bias behind the matrix that narrows is missing: it has E entries.
          D * E + E → D * E
    - The bias behind the matrix that narrows is given D entries. A bias has an entry for each column: E.
          D * E + E → D * E + D
    - The bias behind the matrix that widens is given E entries. A bias has an entry for each column: D.
          E * D + D → E * D + E
    - The way back to the narrow width is missing.
          narrow = D * E + E → narrow = 0
    - The matrix that widens is missing, with its bias.
          widen = E * D + D → widen = 0
    - Both ways between the widths are missing.
          widen = E * D + D → widen = 0
          narrow = D * E + E → narrow = 0
    - One matrix is counted for both ways between the widths. They are two.
          E * D + D → D
    - The biases of the attention are missing.
          4 * D**2 + 4 * D → 4 * D**2
    - Three matrices are counted in the attention; the fourth leads from the heads back to the stream.
          4 * D**2 + 4 * D → 3 * D**2 + 3 * D
    - The biases of the feed-forward layer are missing.
          2 * D * F + F + D → 2 * D * F
    - The bias in the middle of the feed-forward layer is missing: F entries.
          2 * D * F + F + D → 2 * D * F + D
    - The bias at the end of the feed-forward layer is given F entries. It has one for each column: D.
          2 * D * F + F + D → 2 * D * F + 2 * F
    - F is taken as 4D. It is a size of its own.
          2 * D * F + F + D → 8 * D**2 + F + D
    - F is taken as 4D, in the biases too. It is a size of its own.
          2 * D * F + F + D → 8 * D**2 + 5 * D
    - One matrix of the feed-forward layer is missing.
          2 * D * F + F + D → D * F + F + D
    - The norms are missing.
          norms = 2 * D → norms = 0
    - A norm is given a scale and a shift, 2D. RMSNorm has no shift.
          norms = 2 * D → norms = 2 * 2 * D
    - A third norm is counted. The block has two sub-layers, and there is no norm outside it.
          norms = 2 * D → norms = 3 * D
    - All biases are missing.
          E * D + D → E * D
          D * E + E → D * E
          4 * D**2 + 4 * D → 4 * D**2
          2 * D * F + F + D → 2 * D * F
          bias = V → bias = 0
    - All biases but that of the head are missing.
          E * D + D → E * D
          D * E + E → D * E
          4 * D**2 + 4 * D → 4 * D**2
          2 * D * F + F + D → 2 * D * F
    - The biases inside the block are missing.
          4 * D**2 + 4 * D → 4 * D**2
          2 * D * F + F + D → 2 * D * F
    - This counts the block only. Tables, the two matrices around it and the bias of the head are missing.
          around + block → block
    """,
    hints="""
    - List all arrays that exist, each with its shape. How often an array is used is another question.
    - Tokens (V, E), positions (M, E), E × D with D biases, one block, D × E with E biases, V biases.
    - The block: 4D² + 4D, 2DF + F + D, and two norms of D. N does not occur.
    """,
)


# 3 ----------------------------------------------------------------------------------------------------------


def few_tokens(rng, shape):
    """Tokens 0, 1 and 2; the last repeats the first."""
    tokens = rng.integers(0, 3, shape)
    tokens[:, -1] = tokens[:, 0]
    return tokens


def written_once(tokens, dx, E):
    """The sum over the places of each word, as `+=` writes it: of places with one word, one is kept."""
    dE = np.zeros_like(E)
    dE[tokens] += dx
    return dE


def assigned(dE, tokens, dx):
    """dE with the rows of the tokens written over, as `=` does it."""
    dE = dE.copy()
    dE[tokens] = dx
    return dE


def learned_scale_table(dz, y, dy_0, dx_0, target, source, E, scale):
    words = np.arange(len(E))
    in_target = target[..., None] == words
    in_source = source[..., None] == words
    by_head = np.einsum("btv,btd->vd", dz, y)
    by_target = np.einsum("btv,btd->vd", in_target, dy_0)
    by_source = np.einsum("bsv,bsd->vd", in_source, dx_0)
    uses = by_head + by_target + by_source
    dE = scale * uses
    dscale = (E * uses).sum()
    return dE, dscale


LEARNED_SCALE_TABLE = Exercise(
    learned_scale_table,
    asks="A table and a scale that serve two look-ups and a product.",
    outputs="dE dscale",
    inputs={
        "dz": normal("B T V"),
        "y": repeating("B T D"),
        "dy_0": normal("B T D"),
        "dx_0": normal("B S D"),
        "target": Draw("B T", few_tokens),
        "source": Draw("B S", few_tokens),
        "E": normal("V D").then(lambda E: E + 0.3),
        "scale": Draw("", lambda rng, shape: rng.uniform(0.6, 2.4)),
    },
    stories="""
    - This dE is for a model in which only the look-ups are scaled. Here the head is scaled too.
          scale * uses → by_head + scale * (by_target + by_source)
    - Both gradients are as if only the look-ups were scaled. Here the head is scaled too.
          scale * uses → by_head + scale * (by_target + by_source)
          (E * uses) → (E * (by_target + by_source))
    - Only the head is scaled in dE. The rows that are looked up are multiplied by the scale too.
          scale * uses → scale * by_head + by_target + by_source
    - The head is missing from dE: it is the third use of the table.
          scale * uses → scale * (by_target + by_source)
    - The source is missing from dE: it looks its tokens up in the same table.
          scale * uses → scale * (by_head + by_target)
    - The target is missing from dE: it looks its tokens up in the same table.
          scale * uses → scale * (by_head + by_source)
    - The look-ups are missing from dE: this is the gradient of the head.
          scale * uses → scale * by_head
    - The head is missing everywhere: it is the third use of the table, and of the scale.
          by_head + by_target + by_source → by_target + by_source
    - The source is missing everywhere: it looks its tokens up in the same table, with the same scale.
          by_head + by_target + by_source → by_head + by_target
    - The target is missing everywhere: it looks its tokens up in the same table, with the same scale.
          by_head + by_target + by_source → by_head + by_source
    - The head is missing from dscale: its logits are scaled too.
          (E * uses) → (E * (by_target + by_source))
    - The source is missing from dscale: its rows are scaled too.
          (E * uses) → (E * (by_head + by_target))
    - The target is missing from dscale: its rows are scaled too.
          (E * uses) → (E * (by_head + by_source))
    - The look-ups are missing from dscale: this is the part of the head.
          (E * uses) → (E * by_head)
    - The scale is missing from dE. Wherever the table is used it is multiplied by the scale.
          scale * uses → uses
    - The source is not scaled in dE. It is looked up with the same scale.
          scale * uses → scale * (by_head + by_target) + by_source
    - The target is not scaled in dE. It is looked up with the same scale.
          scale * uses → scale * (by_head + by_source) + by_target
    - What comes by the source is multiplied by what comes by the target. Gradients over several uses add.
          scale * uses → scale * (by_head + by_target * by_source)
    - The last place of the target is left out of the look-ups: every place has read a word.
          in_target, dy_0 → in_target[:, :-1], dy_0[:, :-1]
    - In dE the last place of the target is left out of the look-ups: every place has read a word.
          scale * uses → scale * (uses - np.einsum("bv,bd->vd", in_target[:, -1], dy_0[:, -1]))
    - The last place of the source is left out of the look-ups: every place has been read.
          in_source, dx_0 → in_source[:, :-1], dx_0[:, :-1]
    - dE is divided by the scale. The forward multiplies, and so does the backward.
          scale * uses → uses / scale
    - dscale is made of the whole dE, in which the scale is a factor already. The derivative by the scale is
      without it.
          (E * uses) → (scale * E * uses)
    - The scaled logits stand in dscale: the derivative of a logit by the scale is the product without it.
          (E * uses) → (E * (uses + (scale - 1) * by_head))
    - The scaled rows stand in dscale: the derivative of a looked-up row by the scale is the row of E itself.
          (E * uses) → (E * (by_head + scale * (by_target + by_source)))
    - In dscale y stands in the place of the rows that the target has looked up: what dy_0 meets is E[target].
          (E * uses).sum() → (E * (by_head + by_source)).sum() + (dy_0 * y).sum()
    - In dscale dy_0 meets y, and the head is missing. dy_0 should meet E[target]; the logits are scaled too.
          (E * uses).sum() → (E * by_source).sum() + (dy_0 * y).sum()
    - dscale is made of dy_0 and y. What dy_0 meets is E[target]; the source and the logits are scaled too.
          (E * uses).sum() → (dy_0 * y).sum()
    - dscale is a mean. One scale serves every use, and gradients add.
          (E * uses).sum() → (E * uses).mean()
    - dscale is divided by the number of sequences. One scale serves all of them, and gradients add.
          (E * uses).sum() → (E * uses).sum() / len(dz)
    - dscale is not summed up: this has the shape of the table. One number serves all of it.
          (E * uses).sum() → E * uses
    - dscale has one number for each word. One number serves all words.
          (E * uses).sum() → (E * uses).sum(axis=1)
    - dscale is the sum of what arrives at the rows of the scaled table. Each belongs to a row of E: multiply
      by it.
          (E * uses).sum() → uses.sum()
    - dscale is the sum of what arrives at the looked-up rows alone. Each belongs to a row of E: multiply by
      it; and the head is scaled too.
          (E * uses).sum() → (by_target + by_source).sum()
    - dscale is made of the rows that were read alone. They are to be multiplied by what arrives.
          (E * uses).sum() → E[target].sum() + E[source].sum()
    - Where a token occurs twice in the target, one of its gradients is lost: `dE[target] += ...` writes each
      row once. `np.add.at` adds them all.
          by_target = np.einsum("btv,btd->vd", in_target, dy_0) → by_target = written_once(target, dy_0, E)
    - Where a token occurs twice in the source, one of its gradients is lost: `dE[source] += ...` writes each
      row once. `np.add.at` adds them all.
          by_source = np.einsum("bsv,bsd->vd", in_source, dx_0) → by_source = written_once(source, dx_0, E)
    - Where a token occurs twice, one of its gradients is lost: `dE[target] += ...` writes each row once.
      `np.add.at` adds them all.
          by_target = np.einsum("btv,btd->vd", in_target, dy_0) → by_target = written_once(target, dy_0, E)
          by_source = np.einsum("bsv,bsd->vd", in_source, dx_0) → by_source = written_once(source, dx_0, E)
    - In dE, where a token occurs twice, one of its gradients is lost: `dE[target] += ...` writes each row
      once. `np.add.at` adds them all.
          scale * uses → scale * (by_head + written_once(target, dy_0, E) + written_once(source, dx_0, E))
    - In dE a token that occurs twice loses a gradient, since `dE[target] += ...` writes each row once
      (`np.add.at` adds them all), and the head is not scaled. Here it is.
          scale * uses → by_head + scale * (written_once(target, dy_0, E) + written_once(source, dx_0, E))
    - In dE a token that occurs twice loses a gradient, since `dE[target] += ...` writes each row once
      (`np.add.at` adds them all), and the scale is missing.
          scale * uses → by_head + written_once(target, dy_0, E) + written_once(source, dx_0, E)
    - In dE a token that occurs twice loses a gradient, since `dE[target] += ...` writes each row once
      (`np.add.at` adds them all), and the scale is missing from the look-ups.
          scale * uses → scale * by_head + written_once(target, dy_0, E) + written_once(source, dx_0, E)
    - In dE `=` stands where gradients should be added: the rows that were read lose what the head sent.
          scale * uses → assigned(assigned(scale * by_head, target, scale * dy_0), source, scale * dx_0)
    - In dE `=` stands where gradients should be added, and the head is not scaled. Here it is.
          scale * uses → assigned(assigned(by_head, target, scale * dy_0), source, scale * dx_0)
    - Each word gets the mean over its places. Gradients of one row add.
          in_target, dy_0 → in_target / np.maximum(in_target.sum(axis=(0, 1)), 1), dy_0
          in_source, dx_0 → in_source / np.maximum(in_source.sum(axis=(0, 1)), 1), dx_0
    - dE is a mean over the batch. All sequences use one table, and gradients add.
          dE = scale * uses → dE = scale * uses / len(dz)
    - Only the first sequence of the batch is heard. All sequences use one table and one scale.
          dz, y) → dz[:1], y[:1])
          in_target, dy_0) → in_target[:1], dy_0[:1])
          in_source, dx_0) → in_source[:1], dx_0[:1])
    - The rows of E that were read stand in the head, in the place of y.
          dz, y) → dz, E[target])
    - The rows of E that were read, times the scale, stand in the head, in the place of y.
          dz, y) → dz, scale * E[target])
    - dy_0 stands in the head in the place of y: the row that meets the table is the output of the stack.
          dz, y) → dz, dy_0)
    - y stands in the place of dy_0: what comes back to the look-up is dy_0.
          in_target, dy_0 → in_target, y
    """,
    hints="""
    - Where does E stand in the model, and where the scale? Is there a place with one of them alone?
    - Let M be the scaled table, scale · E, of which all three uses are made. Find dM first.
    - dM = the sum of dzᵀ y, and of dy_0 and dx_0 at the rows of their tokens. Then dE = scale · dM, and
      dscale is the sum of E ∘ dM over everything.
    """,
)


# 4 ----------------------------------------------------------------------------------------------------------


def mixed_memory(dmemory, layers, w):
    e = np.exp(w - w.max())
    a = e / e.sum()
    dlayers = a[:, None, None, None] * dmemory
    da = (layers * dmemory).sum(axis=(1, 2, 3))
    dw = a * (da - (a * da).sum())
    return dlayers, dw


MIXED_MEMORY = Exercise(
    mixed_memory,
    asks="A weighted sum whose weights are a softmax over the layers, back to both.",
    outputs="dlayers dw",
    inputs={
        "dmemory": normal("B S D"),
        "layers": repeating("H B S D", axis=2),
        "w": normal("H"),
    },
    stories="""
    - dlayers is not weighted. A layer enters the memory with its weight, and gets its share of the gradient.
          a[:, None, None, None] * dmemory → np.ones_like(layers) * dmemory
    - w stands where the weight softmax(w) should in dlayers.
          dlayers = a[ → dlayers = w[
    - dlayers is the forward: the layers with their weights. What returns is the gradient with the weights.
          a[:, None, None, None] * dmemory → a[:, None, None, None] * layers
    - The gradient is shared out evenly in dlayers. The shares are the weights.
          dlayers = a[:, None, None, None] * dmemory → dlayers = np.ones_like(layers) * dmemory / len(w)
    - The last layer gets the whole gradient, as if it alone were the memory.
          dlayers = a[:, None, None, None] * dmemory → dlayers = 0 * layers; dlayers[-1] = dmemory
    - dlayers is summed up from the last layer to the first. What a layer hears by way of later layers is not
      asked: each gets its weight times what has arrived.
          a[:, None, None, None] * dmemory → np.cumsum((a[:, None, None, None] * dmemory)[::-1], axis=0)[::-1]
    - dlayers is summed over the layers. Each layer has a gradient of its own.
          a[:, None, None, None] * dmemory → (a[:, None, None, None] * dmemory).sum(axis=0)
    - This is the gradient of the weights, da. The softmax is still to be passed: the weights sum to 1.
          dw = a * (da - (a * da).sum()) → dw = da
    - In the softmax step the average is not subtracted.
          a * (da - (a * da).sum()) → a * da
    - Only the diagonal of the Jacobian of softmax is used, a (1 - a).
          a * (da - (a * da).sum()) → a * (1 - a) * da
    - The factor a in front is missing in the softmax step.
          a * (da - (a * da).sum()) → da - (a * da).sum()
    - The mixed memory stands in dw. The derivative by a weight is its own layer, and then the softmax is to
      be passed.
          a * (da - (a * da).sum()) → a * (a * da).sum()
    - An ordinary mean stands where the mean weighted by a should.
          (a * da).sum() → da.mean()
    - The sum of da is subtracted without the weights.
          (a * da).sum() → da.sum()
    - The mean of a ∘ da stands where its sum should: the weights have divided already.
          (a * da).sum() → (a * da).mean()
    - dw is averaged over the batch. One set of weights serves all sequences, and gradients add.
          .sum(axis=(1, 2, 3)) → .sum(axis=(2, 3)).mean(axis=1)
    - dw is a mean over all places. One set of weights serves all of them, and gradients add.
          .sum(axis=(1, 2, 3)) → .mean(axis=(1, 2, 3))
    - dw is averaged over batch and places and summed over the width. Gradients add over all three.
          .sum(axis=(1, 2, 3)) → .sum(axis=3).mean(axis=(1, 2))
    - The weighted layers stand in da. The derivative by a weight is the layer itself.
          da = (layers * dmemory) → da = (a[:, None, None, None] * layers * dmemory)
    - The softmax is missing: the layers are mixed by w as it is.
          a = e / e.sum() → a = w
          dw = a * (da - (a * da).sum()) → dw = da
    - The exponentials are not divided by their sum.
          a = e / e.sum() → a = np.exp(w)
    - Only the first sequence is heard in dw. One set of weights serves all sequences.
          (layers * dmemory).sum(axis=(1, 2, 3)) → (layers * dmemory)[:, 0].sum(axis=(1, 2))
    - da is summed over the layers and shared out by the weights. The softmax step compares each da with the
      mean of all.
          dw = a * (da - (a * da).sum()) → dw = a * da.sum()
    """,
    hints="""
    - One weight first: how does the memory change with a_n, and with the layer X_n?
    - dX_n = a_n dX'. And da_n is the sum of X_n ∘ dX' over everything.
    - a = softmax(w), so dw = a ∘ (da - Σ a da), with one sum over the layers.
    """,
)


# 5 ----------------------------------------------------------------------------------------------------------


def weighted_again(sent, c):
    """What is sent by the exits, summed from the last to the first, and all of it weighted at every exit."""
    sums, g = np.zeros_like(sent), 0.0
    for n in reversed(range(len(c))):
        g = c[n] * (g + sent[n])
        sums[n] = g
    return sums


def early_exits(dz, y_0, branches, E, c):
    weight = c[:, None, None, None]
    y = y_0 + np.cumsum(branches, axis=0)
    dy = weight * (dz @ E)
    dbranches = np.cumsum(dy[::-1], axis=0)[::-1]
    dy_0 = dy.sum(axis=0)
    dE = np.einsum("nbtv,nbtd->vd", weight * dz, y)
    return dy_0, dbranches, dE


EARLY_EXITS = Exercise(
    early_exits,
    asks="Accumulating from the end of a residual stream into which losses enter on the way.",
    outputs="dy_0 dbranches dE",
    inputs={
        "dz": normal("H B T V"),
        "y_0": repeating("B T D"),
        "branches": repeating("H B T D", axis=2),
        "E": normal("V D"),
        "c": Draw("H", lambda rng, shape: rng.uniform(0.3, 2.0, shape)),
    },
    stories="""
    - Only the exit directly behind it is heard by a branch. What a branch adds stays in the stream, and every
      later exit reads it.
          np.cumsum(dy[::-1], axis=0)[::-1] → dy
    - Only the exit directly behind it is heard by a branch, and only the first by y_0. What is in the stream
      is read by every later exit.
          np.cumsum(dy[::-1], axis=0)[::-1] → dy
          dy_0 = dy.sum(axis=0) → dy_0 = dy[0]
    - The sums run the wrong way: a branch hears the exits before it. It can move those after it only.
          np.cumsum(dy[::-1], axis=0)[::-1] → np.cumsum(dy, axis=0)
    - The sums run the wrong way: a branch hears the exits before it, and y_0 only the first. A branch moves
      the exits after it, y_0 all of them.
          np.cumsum(dy[::-1], axis=0)[::-1] → np.cumsum(dy, axis=0)
          dy_0 = dy.sum(axis=0) → dy_0 = dy[0]
    - The order is not turned back after the sum: the gradient of the first branch stands last.
          np.cumsum(dy[::-1], axis=0)[::-1] → np.cumsum(dy[::-1], axis=0)
    - All branches get the sum over all exits. A branch does not move the exits before it.
          np.cumsum(dy[::-1], axis=0)[::-1] → 0 * branches + dy.sum(axis=0)
    - A branch does not hear the exit directly behind it. That exit reads the stream after the branch.
          np.cumsum(dy[::-1], axis=0)[::-1] → np.cumsum(dy[::-1], axis=0)[::-1] - dy
    - Only the last exit is heard by stream and branches.
          np.cumsum(dy[::-1], axis=0)[::-1] → 0 * branches + dy[-1]
          dy_0 = dy.sum(axis=0) → dy_0 = dy[-1]
    - Only the last exit is heard, by everything.
          np.cumsum(dy[::-1], axis=0)[::-1] → 0 * branches + dy[-1]
          dy_0 = dy.sum(axis=0) → dy_0 = dy[-1]
          weight * dz, y) → (weight * dz)[-1:], y[-1:])
    - In dE only the last exit is counted. One table is the head of every exit.
          weight * dz, y) → (weight * dz)[-1:], y[-1:])
    - In dE only the first exit is counted. One table is the head of every exit.
          weight * dz, y) → (weight * dz)[:1], y[:1])
    - In dE the branches stand in the place of the stream. An exit reads y_0 and all branches so far.
          weight * dz, y) → weight * dz, branches)
    - In dE the sum of the branches stands without y_0, where the stream began.
          weight * dz, y) → weight * dz, y - y_0)
    - In dE an exit meets only its own branch, added to y_0. It reads the sum of all branches so far.
          weight * dz, y) → weight * dz, y_0 + branches)
    - In dE every exit meets the stream before its branch. It reads the stream after it.
          weight * dz, y) → weight * dz, y - branches)
    - In dE every exit meets the last stream. Each exit has read its own.
          weight * dz, y) → weight * dz, 0 * y + y[-1])
    - In dE every exit meets y_0. It reads the stream behind its own branch.
          weight * dz, y) → weight * dz, 0 * y + y_0)
    - The weights c are missing everywhere: the loss is the weighted sum of the losses of the exits.
          weight = c[:, None, None, None] → weight = np.ones((len(c), 1, 1, 1))
    - The weights c are missing from dE.
          weight * dz, y) → dz, y)
    - The weights c are missing from the gradients of stream and branches.
          dy = weight * (dz @ E) → dy = dz @ E
    - The weight of its own exit is applied to the whole gradient of a branch. Each exit has its own weight:
      it belongs inside the sum.
          np.cumsum(dy[::-1], axis=0) → weight * np.cumsum((dz @ E)[::-1], axis=0)
    - The weight of its own exit is applied to the whole gradient of a branch, and so to that of y_0. Each
      exit has its own weight: it belongs inside the sum.
          np.cumsum(dy[::-1], axis=0) → weight * np.cumsum((dz @ E)[::-1], axis=0)
          dy_0 = dy.sum(axis=0) → dy_0 = dbranches[0]
    - What comes from later exits is multiplied by the weight of each exit that it passes. Each exit has its
      own weight, once.
          np.cumsum(dy[::-1], axis=0)[::-1] → weighted_again(dz @ E, c)
          dy_0 = dy.sum(axis=0) → dy_0 = dbranches[0]
    - Only the exit directly behind a branch has its weight; what comes from later exits has lost theirs.
          np.cumsum(dy[::-1], axis=0)[::-1] → np.cumsum((dz @ E)[::-1], axis=0)[::-1] - dz @ E + dy
          dy_0 = dy.sum(axis=0) → dy_0 = dbranches[0]
    - The weights c are normalised here, so that they sum to 1. The loss takes them as they are.
          weight = c[:, None, None, None] → weight = (c / c.sum())[:, None, None, None]
    - dE is a mean over the exits. One table serves all of them, and gradients add.
          weight * dz, y) → weight * dz / len(c), y)
    - dE is a mean over the batch. One table serves all sequences, and gradients add.
          weight * dz, y) → weight * dz / y.shape[1], y)
    - dE has a gradient for each exit. One table serves all of them: sum.
          "nbtv,nbtd->vd" → "nbtv,nbtd->nvd"
    - dE is not summed over the batch: one table serves all sequences.
          "nbtv,nbtd->vd" → "nbtv,nbtd->bvd"
    - y_0 hears the last exit only. It is in the stream of every exit.
          dy_0 = dy.sum(axis=0) → dy_0 = dy[-1]
    - y_0 hears the first exit only. It is in the stream of every exit.
          dy_0 = dy.sum(axis=0) → dy_0 = dy[0]
    - dy_0 is the sum over the gradients of all branches. y_0 enters the stream once, where the first branch
      does: it has the gradient of the first branch.
          dy_0 = dy.sum(axis=0) → dy_0 = dbranches.sum(axis=0)
    - dy_0 is a mean over the exits. It is in the stream of each, and gradients add.
          dy_0 = dy.sum(axis=0) → dy_0 = dy.mean(axis=0)
    - dE is transposed. It has the shape of E, a row for each word.
          "nbtv,nbtd->vd" → "nbtv,nbtd->dv"
    """,
    hints="""
    - Draw the stream: y_0, then after each branch an exit. Which exits come after branch n?
    - To the stream behind branch n comes what its own exit sends, c_n dZ_n E, and what later exits send.
    - dbranches: the sum over k ≥ n of c_k dZ_k E; dy_0 the same from k = 0; dE: the sum of c_n dZ_nᵀ Y_n.
    """,
)
