"""Exercises of chapter 03, layers that it does not show: right answers, and what to say about wrong ones."""

import numpy as np
from sympy import exp

from ...course.judge.derivation import Derivation
from ...course.judge.draws import Draw, normal, number, repeating, scales
from ...course.judge.function import Exercise

X = repeating("B T D")


# 1 ----------------------------------------------------------------------------------------------------------


def tied_row(e_0, e_1, scale):
    p_0 = 1 / (1 + exp(scale * e_0 * (e_1 - e_0)))
    from_head = p_0 * scale * e_0
    dx = p_0 * e_0 - p_0 * e_1
    from_look_up = scale * dx
    return from_head + from_look_up


def tied_row_by_difference(e_0, e_1, scale):
    odds = exp(scale * e_0 * (e_0 - e_1))
    return odds / (1 + odds) * scale * (2 * e_0 - e_1)


TIED_ROW = Derivation(
    tied_row,
    asks="A parameter that is both input and output weight: the gradient along both paths.",
    domains={"e_0": "real", "e_1": "real", "scale": "positive"},
    ways=(tied_row_by_difference,),
    stories="""
    - Only the head's part is there. e_0 is also what the look-up has read: it stands in x.
          return from_head + from_look_up → return from_head
    - Only the look-up's part is there. e_0 is also a row of the head: the logit of token 0 is x e_0.
          return from_head + from_look_up → return from_look_up
    - The part of the look-up has lost its factor λ: x = λ e_0, so what arrives at x is multiplied by λ.
          from_look_up = scale * dx → from_look_up = dx
    - The part of the head has lost its factor λ: the logit is x e_0, and x is λ e_0.
          from_head = p_0 * scale * e_0 → from_head = p_0 * e_0
    - λ is missing from both parts: x is λ e_0.
          from_head = p_0 * scale * e_0 → from_head = p_0 * e_0
          from_look_up = scale * dx → from_look_up = dx
    - The probability of the right token stands where that of token 0 should: ∂L/∂z_0 = p_0, and
      ∂L/∂z_1 = p_1 - 1 = -p_0.
          1 / (1 + exp(scale * e_0 * (e_1 - e_0))) → 1 / (1 + exp(scale * e_0 * (e_0 - e_1)))
    - This is the derivative by e_1, the row of the other token.
          return from_head + from_look_up → return -p_0 * scale * e_0
    - At the right token the 1 is not taken away: ∂L/∂z_1 is p_1 - 1, not p_1.
          dx = p_0 * e_0 - p_0 * e_1 → dx = p_0 * e_0 + (1 - p_0) * e_1
    - This is the gradient for the right token 0. The right one is token 1.
          from_head = p_0 * scale * e_0 → from_head = (p_0 - 1) * scale * e_0
          dx = p_0 * e_0 - p_0 * e_1 → dx = (p_0 - 1) * e_0 + (1 - p_0) * e_1
    - p_0 is missing: this is the derivative of the difference of the logits, z_0 - z_1, and not of the loss.
          p_0 = 1 / (1 + exp(scale * e_0 * (e_1 - e_0))) → p_0 = 1
    - The sign is wrong: this is the derivative of ln p_1, and the loss is -ln p_1.
          return from_head + from_look_up → return -from_head - from_look_up
    - This is the loss itself, before the derivative is taken.
          return from_head + from_look_up → return -log(1 - p_0)
    - This is the derivative of p_1. The loss is -ln p_1: divide by p_1, and change the sign.
          return from_head + from_look_up → return (p_0 - 1) * (from_head + from_look_up)
    - The loss is -ln p_1. Its derivative by the logits is p - q, without another factor p (1 - p).
          return from_head + from_look_up → return (1 - p_0) * (from_head + from_look_up)
    - This is the derivative by λ, and not by e_0.
          return from_head + from_look_up → return e_0 * dx
    - The softmax is that of the table's entries. Its logits are x e_0 and x e_1, with x = λ e_0.
          1 / (1 + exp(scale * e_0 * (e_1 - e_0))) → 1 / (1 + exp(e_1 - e_0))
    """,
    hints="""
    - Write the loss as a function of z_0 - z_1 alone. Where does e_0 stand in z_0, and where in z_1?
    - z_0 = λ e_0² and z_1 = λ e_0 e_1, with ∂L/∂z_0 = p_0 and ∂L/∂z_1 = -p_0.
    - Two parts: as a row of the head p_0 x, as the row that was read λ (p_0 e_0 - p_0 e_1).
    """,
)


# 2 ----------------------------------------------------------------------------------------------------------


def twice_backward(dy, x, W, b):
    h = x @ W + b
    dh = dy @ W.T
    dx = dh @ W.T
    dW = (x.mT @ dh + h.mT @ dy).sum(axis=0)
    db = (dh + dy).sum(axis=(0, 1))
    return dx, dW, db


TWICE_BACKWARD = Exercise(
    twice_backward,
    asks="Shared weights: each use with the input and the gradient of its own place.",
    outputs="dx dW db",
    inputs={"dy": normal("B T D"), "x": X, "W": normal("D D"), "b": scales("D")},
    stories="""
    - dW holds the share of the first use only. W is used twice, and the second use sends hᵀ dy.
          x.mT @ dh + h.mT @ dy → x.mT @ dh
          (dh + dy) → dh
    - dW and db hold the share of the last use only. Both are used twice: add what the first use sends.
          x.mT @ dh + h.mT @ dy → h.mT @ dy
          (dh + dy) → dy
    - dW holds the share of the first use only. W is used twice, and the second use sends hᵀ dy.
          x.mT @ dh + h.mT @ dy → x.mT @ dh
    - dW holds the share of the last use only. W is used twice, and the first use sends xᵀ dh.
          x.mT @ dh + h.mT @ dy → h.mT @ dy
    - db holds the share of the first use only: b is added twice.
          (dh + dy) → dh
    - db holds the share of the last use only: b is added twice.
          (dh + dy) → dy
    - Twice the share of one use is not the sum of both: the two uses have other inputs, x and h, and other
      gradients, dh and dy.
          x.mT @ dh + h.mT @ dy → 2 * (h.mT @ dy)
    - Twice the share of one use is not the sum of both: the two uses have other inputs, x and h, and other
      gradients, dh and dy.
          x.mT @ dh + h.mT @ dy → 2 * (x.mT @ dh)
    - Both shares are taken with the gradient of the output. At the first use arrives dh = dy Wᵀ.
          x.mT @ dh → x.mT @ dy
    - Both shares are taken with the gradient that arrives at the first use. At the second arrives dy itself.
          h.mT @ dy → h.mT @ dh
    - The outputs stand where the inputs should: the first use has the input x, the second h.
          x.mT @ dh + h.mT @ dy → h.mT @ dh + (h @ W + b).mT @ dy
    - Both shares are taken with the input x. The input of the second use is h = x W + b.
          h.mT @ dy → x.mT @ dy
    - The input of the second use is x W + b; the bias is missing from it.
          h = x @ W + b → h = x @ W
    - dx has passed W once. On the way back, as forward, it is passed twice.
          dx = dh @ W.T → dx = dh
    - Every use of W should be transposed on the way back.
          dh = dy @ W.T → dh = dy @ W
          dx = dh @ W.T → dx = dh @ W
    - The two shares are multiplied or chained as for W², as if y = x W² had the derivative 2 x W. Matrices do
      not commute: take the two uses one after the other.
          x.mT @ dh + h.mT @ dy → 2 * W @ (x.mT @ dy)
    - The two shares are chained as for a number, as if y = x W² had the derivative 2 x W. Matrices do not
      commute: take the two uses one after the other.
          x.mT @ dh + h.mT @ dy → 2 * (x.mT @ dy) @ W
    - The two shares are multiplied. What two uses of a matrix send is added.
          x.mT @ dh + h.mT @ dy → (x.mT @ dh) * (h.mT @ dy)
    - x is used once, so dx is one product, dy passed through W twice. It is not a sum over the two uses of W.
          dx = dh @ W.T → dx = dh @ W.T + dh
    - dW holds the shares of the first sequence only.
          (x.mT @ dh + h.mT @ dy).sum(axis=0) → (x.mT @ dh + h.mT @ dy)[0]
    - dW holds the shares of the last sequence only: those of a loop must be added, not assigned.
          (x.mT @ dh + h.mT @ dy).sum(axis=0) → (x.mT @ dh + h.mT @ dy)[-1]
    - dx is the output of the forward.
          dx = dh @ W.T → dx = h @ W + b
    - dW is averaged over the sequences; the shares of all of them are added.
          .sum(axis=0) → .mean(axis=0)
    - db is averaged over all positions; it is a sum.
          .sum(axis=(0, 1)) → .mean(axis=(0, 1))
    - db keeps an axis: one bias serves all positions of all sequences, so both axes are summed away.
          .sum(axis=(0, 1)) → .sum(axis=0)
    - dW keeps the axis of the sequences: one matrix serves them all, so their shares are added.
          .sum(axis=0) →
    - The bias counts twice alike: dh + dy, and not 2 dy.
          (dh + dy) → (2 * dy)
    """,
    hints="""
    - Give the two uses different names, y = (x U + a) V + b, and find all gradients. Then let U = V, a = b.
    - What arrives at the first use is dh = dy Wᵀ; its input is x. What arrives at the second is dy; its input
      is h.
    - A matrix that stands in two places receives the sum of what the two places send; so does the bias.
    """,
)


# 3 ----------------------------------------------------------------------------------------------------------


def low_rank_backward(dy, x, W, A, C, g):
    h = x @ A
    dh = g * dy @ C.T
    dx = dy @ W.T + dh @ A.T
    dA = (x.mT @ dh).sum(axis=0)
    dC = g * (h.mT @ dy).sum(axis=0)
    return dx, dA, dC


def low_rank_by_matrix(dy, x, W, A, C, g):
    dM = (x.mT @ dy).sum(axis=0)
    dx = dy @ (W + g * A @ C).T
    dA = g * dM @ C.T
    dC = g * A.T @ dM
    return dx, dA, dC


LOW_RANK_BACKWARD = Exercise(
    low_rank_backward,
    asks="A product of two small matrices: order, a constant factor, and a part that is frozen.",
    outputs="dx dA dC",
    inputs={
        "dy": normal("B T F"),
        "x": X,
        "W": normal("D F"),
        "A": normal("D K"),
        "C": normal("K F"),
        "g": number(0.6),
    },
    ways=(low_rank_by_matrix,),
    stories="""
    - dx has lost the way through A and C: x reaches y through W and through the low-rank product.
          dx = dy @ W.T + dh @ A.T → dx = dy @ W.T
    - dx has lost the way through W. W is frozen, so it needs no gradient; but what passes it does.
          dx = dy @ W.T + dh @ A.T → dx = dh @ A.T
    - g is missing from all of it: the low-rank product is multiplied by g.
          dh = g * dy @ C.T → dh = dy @ C.T
          dC = g * (h → dC = (h
    - g is missing from dA and from the low-rank part of dx: what arrives at x A is g dy Cᵀ.
          dh = g * dy @ C.T → dh = dy @ C.T
    - g is missing from dC: y contains g (x A) C.
          dC = g * (h → dC = (h
    - g stands in dC twice. The low-rank product is multiplied by g once.
          dC = g * (h → dC = g * g * (h
    - dC is taken with x. What C multiplies is x A.
          dC = g * (h.mT → dC = g * (x.mT
    - dA and dC are averaged over the sequences; the shares of all of them are added.
          (x.mT @ dh).sum(axis=0) → (x.mT @ dh).mean(axis=0)
          (h.mT @ dy).sum(axis=0) → (h.mT @ dy).mean(axis=0)
    - dA and dC keep the axis of the sequences: one matrix serves them all, so their shares are added.
          (x.mT @ dh).sum(axis=0) → (x.mT @ dh)
          (h.mT @ dy).sum(axis=0) → (h.mT @ dy)
    - dA and dC are transposed: a gradient has the shape of its array.
          dA = (x.mT @ dh) → dA = (dh.mT @ x)
          dC = g * (h.mT @ dy) → dC = g * (dy.mT @ h)
    - dA and dC hold the shares of the first sequence only.
          (x.mT @ dh).sum(axis=0) → (x.mT @ dh)[0]
          (h.mT @ dy).sum(axis=0) → (h.mT @ dy)[0]
    - dA and dC hold the shares of the last sequence only: those of a loop must be added, not assigned.
          (x.mT @ dh).sum(axis=0) → (x.mT @ dh)[-1]
          (h.mT @ dy).sum(axis=0) → (h.mT @ dy)[-1]
    - dA and dC are averaged over all positions; they are sums. The 1/m of a mean loss has arrived in dy.
          (x.mT @ dh).sum(axis=0) → (x.mT @ dh).mean(axis=0) / x.shape[1]
          (h.mT @ dy).sum(axis=0) → (h.mT @ dy).mean(axis=0) / x.shape[1]
    - This is the derivative by the whole matrix W + g A C. It has still to be taken to its factors.
          dA = (x.mT @ dh).sum(axis=0) → dA = (x.mT @ dy).sum(axis=0)
          dC = g * (h.mT @ dy).sum(axis=0) → dC = (x.mT @ dy).sum(axis=0)
    """,
    hints="""
    - Two ways lead from x to y: through W, and through A and then C. Name what lies between, h = x A.
    - Each product is a linear layer of its own: dC from its input h and g dy, dh by Cᵀ, dA from x and dh.
    - dh = g dy Cᵀ; dx adds dy Wᵀ and dh Aᵀ.
    """,
)


# 4 ----------------------------------------------------------------------------------------------------------


def blocks_backward(dy, x, W):
    H, K, E = W.shape
    x_blocks = x.reshape(-1, H, K).transpose(1, 0, 2)
    dy_blocks = dy.reshape(-1, H, E).transpose(1, 0, 2)
    dx_blocks = dy_blocks @ W.mT
    dW = x_blocks.mT @ dy_blocks
    dx = dx_blocks.transpose(1, 0, 2).reshape(x.shape)
    return dx, dW


BLOCKS_BACKWARD = Exercise(
    blocks_backward,
    asks="Cutting features into groups and joining them, forward and back, in the right order.",
    outputs="dx dW",
    inputs={"dy": normal("B T H*E"), "x": repeating("B T H*K"), "W": normal("H K E")},
    stories="""
    - The features are dealt to the groups in turn, 0, H, 2H, … to the first. A group is a run of neighbours:
      features 0 to K - 1 belong to group 0.
          x.reshape(-1, H, K).transpose(1, 0, 2) → x.reshape(-1, K, H).transpose(2, 0, 1)
          dy.reshape(-1, H, E).transpose(1, 0, 2) → dy.reshape(-1, E, H).transpose(2, 0, 1)
          dx_blocks.transpose(1, 0, 2) → dx_blocks.transpose(1, 2, 0)
    - The features of x are dealt to the groups in turn, 0, H, 2H, … to the first, and those of dy are not. A
      group is a run of neighbours in both.
          x.reshape(-1, H, K).transpose(1, 0, 2) → x.reshape(-1, K, H).transpose(2, 0, 1)
          dx_blocks.transpose(1, 0, 2) → dx_blocks.transpose(1, 2, 0)
    - The features of x are dealt to the groups in turn, 0, H, 2H, … to the first, and those of dy are not. A
      group is a run of neighbours in both.
          x.reshape(-1, H, K).transpose(1, 0, 2) → x.reshape(-1, K, H).transpose(2, 0, 1)
    - The features of dy are dealt to the groups in turn, 0, H, 2H, … to the first, and those of x are not. A
      group is a run of neighbours in both.
          dy.reshape(-1, H, E).transpose(1, 0, 2) → dy.reshape(-1, E, H).transpose(2, 0, 1)
    - The features of dx stand still in two axes, (H, K). Make one of them, of the length H*K.
          reshape(x.shape) → reshape(*x.shape[:2], H, K)
    - The slices of dy begin at multiples of K, and should begin at multiples of E: group h has the outputs
      from h*E to h*E + E - 1.
          dx = dx_blocks.transpose(1, 0, 2).reshape(x.shape) → dx, dW = sliced(dy, x, W, K, K)
    - The slices of x begin at multiples of E, and should begin at multiples of K: group h has the inputs
      from h*K to h*K + K - 1.
          dx = dx_blocks.transpose(1, 0, 2).reshape(x.shape) → dx, dW = sliced(dy, x, W, E, E)
    - The groups come first in memory when dx is given its shape, so its numbers stand in wrong places. Put
      the group's axis back beside its features before reshaping.
          dx_blocks.transpose(1, 0, 2).reshape → dx_blocks.reshape
    - The tokens and the groups are mixed up: a reshape to (H, tokens, features) cuts the array elsewhere.
      Reshape to (tokens, H, features) first, then move the axis.
          x.reshape(-1, H, K).transpose(1, 0, 2) → x.reshape(H, -1, K)
          dy.reshape(-1, H, E).transpose(1, 0, 2) → dy.reshape(H, -1, E)
          dx_blocks.transpose(1, 0, 2).reshape → dx_blocks.reshape
    - dW is divided by the number of sequences; the shares of all of them are added.
          dW = x_blocks.mT @ dy_blocks → dW = x_blocks.mT @ dy_blocks / len(x)
    - dW is divided by the number of tokens; the 1/m of a mean loss has arrived in dy already.
          dW = x_blocks.mT @ dy_blocks → dW = x_blocks.mT @ dy_blocks / x_blocks.shape[1]
    - dW is averaged over the positions; the shares of all of them are added.
          dW = x_blocks.mT @ dy_blocks → dW = x_blocks.mT @ dy_blocks / x.shape[1]
    - dW holds the share of the last token only: those of a loop must be added, not assigned.
          dW = x_blocks.mT @ dy_blocks → dW = x_blocks[:, -1:].mT @ dy_blocks[:, -1:]
    - Only the last group of dW is filled: each group has a block of its own.
          dW = x_blocks.mT @ dy_blocks → dW = x_blocks.mT @ dy_blocks * (np.arange(H) == H - 1)[:, None, None]
    - Only the first group of dW is filled: each group has a block of its own.
          dW = x_blocks.mT @ dy_blocks → dW = x_blocks.mT @ dy_blocks * first(H)
    - The blocks of W are used in the opposite order: group 0 has W[0].
          dx_blocks = dy_blocks @ W.mT → dx_blocks = dy_blocks @ W[::-1].mT
    - dW holds the shares of the first sequence only.
          dW = x_blocks.mT @ dy_blocks → dW = x_blocks[:, : x.shape[1]].mT @ dy_blocks[:, : x.shape[1]]
    - dW holds the shares of the last sequence only: those of a loop must be added, not assigned.
          dW = x_blocks.mT @ dy_blocks → dW = x_blocks[:, -x.shape[1] :].mT @ dy_blocks[:, -x.shape[1] :]
    - dW keeps the axis of the sequences: one block serves them all, so their shares are added.
          dW = x_blocks.mT @ dy_blocks → dW = per_sequence(x, dy, H)
    - dW is that of a whole matrix, with the entries between different groups. Between groups there is no
      weight: only the blocks on the diagonal exist.
          dW = x_blocks.mT @ dy_blocks → dW = whole(dy, x)
    - dW adds to each block those beside it, between inputs of its group and outputs of the others. Between
      groups there is no weight: only the blocks on the diagonal exist.
          dW = x_blocks.mT @ dy_blocks → dW = x_blocks.mT @ dy_blocks.sum(axis=0)
    - dW adds to each block those above and below it, between inputs of other groups and outputs of its own.
      Between groups there is no weight: only the blocks on the diagonal exist.
          dW = x_blocks.mT @ dy_blocks → dW = x_blocks.sum(axis=0).mT @ dy_blocks
    - Every block of dW is taken with the outputs of group 0, the first E columns. The block of group h has
      the columns from h*E to h*E + E - 1.
          dW = x_blocks.mT @ dy_blocks → dW = x_blocks.mT @ dy_blocks[0]
    - Every block of dW is taken with the inputs of group 0, the first K rows. The block of group h has the
      rows from h*K to h*K + K - 1.
          dW = x_blocks.mT @ dy_blocks → dW = x_blocks[0].mT @ dy_blocks
    - dW has a block for each pair of groups. Between groups there is no weight: only the blocks on the
      diagonal exist.
          dW = x_blocks.mT @ dy_blocks → dW = whole(dy, x).reshape(H, K, H, E)
    - A reshape to (H, H, K, E) does not cut a matrix into blocks: memory runs along the rows. Reshape to
      (H, K, H, E), and take h of both.
          dW = x_blocks.mT @ dy_blocks → dW = whole(dy, x).reshape(H, H, K, E)[np.arange(H), np.arange(H)]
    - dx of each group collects from the outputs of all groups. Each group has outputs of its own.
          dx_blocks = dy_blocks @ W.mT → dx_blocks = dy_blocks.sum(axis=0) @ W.mT
    - In dx the last group is missing: all of them are needed.
          dx_blocks = dy_blocks @ W.mT → dx_blocks = dy_blocks @ W.mT * (np.arange(H) < H - 1)[:, None, None]
    - In dx the groups are added up. Each group has inputs of its own, which stand side by side.
          dx_blocks.transpose(1, 0, 2).reshape(x.shape) → dx_blocks.sum(axis=0).reshape(*x.shape[:2], K)
    - In dx the groups are added up. Each group has inputs of its own, which stand side by side.
          dx_blocks.transpose(1, 0, 2).reshape(x.shape) → dx_blocks.sum(axis=0)
    - In dx the groups are added up. Each group has inputs of its own, which stand side by side.
          dx_blocks = dy_blocks @ W.mT → dx_blocks = (dy_blocks @ W.mT).sum(axis=0) + 0 * x_blocks
    - In dx the groups are added up in the place of the first. Each has inputs of its own, side by side.
          dx_blocks = dy_blocks @ W.mT → dx_blocks = (dy_blocks @ W.mT).sum(axis=0) * first(H)
    - In dx the groups are averaged. Each group has inputs of its own, which stand side by side.
          dx_blocks.transpose(1, 0, 2).reshape(x.shape) → dx_blocks.mean(axis=0).reshape(*x.shape[:2], K)
    - All groups use the weights of the first. Each has a block of its own.
          dx_blocks = dy_blocks @ W.mT → dx_blocks = dy_blocks @ W[:1].mT
    - In dx all groups use the sum of the blocks. Each has a block of its own.
          dx_blocks = dy_blocks @ W.mT → dx_blocks = dy_blocks @ W.sum(axis=0).T
    - dx holds the last group only, and the groups stand side by side: write each into its own slice.
          dx_blocks.transpose(1, 0, 2).reshape(x.shape) → dx_blocks[-1].reshape(*x.shape[:2], K)
    - The shares of all groups are added in dW. The groups do not share their weights.
          dW = x_blocks.mT @ dy_blocks → dW = (x_blocks.mT @ dy_blocks).sum(axis=0) + 0 * W
    """,
    hints="""
    - One group by itself is a linear layer with K inputs and E outputs. Which slice of x and which of dy
      belong to it?
    - Split the last axis: x.reshape(B, T, H, K) and dy.reshape(B, T, H, E). Then sum over what is
      shared.
    - dx: over the outputs of the same group, with W transposed within the group. dW: over sequences and
      positions.
    """,
)


def whole(dy, x):
    """dW of a layer whose groups are all connected: (H*K, H*E)."""
    return x.reshape(-1, x.shape[-1]).T @ dy.reshape(-1, dy.shape[-1])


def first(H):
    """1 for group 0, else 0: (H, 1, 1)."""
    return (np.arange(H) == 0)[:, None, None]


def sliced(dy, x, W, at_x, at_y):
    """dx and dW by a loop, where the slices of x and dy begin at multiples of at_x and at_y."""
    (H, K, E), dx, dW = W.shape, np.zeros_like(x), np.zeros_like(W)
    for h in range(H):
        mine, its = slice(h * at_x, h * at_x + K), slice(h * at_y, h * at_y + E)
        dx[..., mine] = dy[..., its] @ W[h].T
        dW[h] = np.einsum("btk,bte->ke", x[..., mine], dy[..., its])
    return dx, dW


def per_sequence(x, dy, H):
    """dW before the sum over sequences: (B, H, K, E)."""
    B, T = x.shape[:2]
    return np.einsum("btgk,btge->bgke", x.reshape(B, T, H, -1), dy.reshape(B, T, H, -1))


# 5 ----------------------------------------------------------------------------------------------------------


def windows(rng, shape):
    """Tokens 0 to 2, 0 for padding: at least one token in each window; one repeats, if there is room."""
    tokens = rng.integers(0, 3, shape)
    tokens[:, 0] = rng.integers(1, 3, shape[0])
    if shape[1] > 3:
        tokens[0, :4] = [2, 0, 2, 1]
    return tokens


def with_an_empty_one(tokens):
    """The same windows, the second of which is all padding."""
    tokens = tokens.copy()
    tokens[1] = 0
    return tokens


WINDOWS = Draw("B T", windows)


def bag_backward(dy, tokens, E):
    counted = tokens != 0
    number = np.maximum(counted.sum(axis=1, keepdims=True), 1)
    share = counted / number
    one_hot = tokens[:, :, None] == np.arange(len(E))
    weights = (share[:, :, None] * one_hot).sum(axis=1)
    dE = weights.T @ dy
    return dE


def assigned(dy, tokens, share, E):
    """What `dE[tokens] += …` makes of the right shares."""
    dE = np.zeros(E.shape)
    dE[tokens] += share[:, :, None] * dy[:, None]
    return dE


def overwritten(weights, dy):
    """For each token the share of the last window that holds it."""
    dE = np.zeros((weights.shape[1], dy.shape[1]))
    for w, arriving in zip(weights, dy):
        dE[w > 0] = w[w > 0, None] * arriving
    return dE


def in_integers(dy, tokens, number, E, cut):
    """The right answer by a loop, cut to whole numbers at `cut`: each sum, each share, each window."""
    dE = np.zeros(E.shape, int)
    for row, arriving, n in zip(tokens, dy, number[:, 0]):
        ids = row[row != 0].tolist()
        for v in dict.fromkeys(ids) if cut == "each window" else ids:
            share = arriving * (ids.count(v) if cut == "each window" else 1) / n
            dE[v] = dE[v] + (share.astype(int) if cut == "each share" else share)
    return dE


def repeats(tokens):
    """How often each token occurs in its window: (B, T)."""
    return (tokens[:, :, None] == tokens[:, None]).sum(axis=2)


def distinct(tokens, padding=0):
    """The number of different ids in each window, with the padding if it is 1: at least 1, (B, 1)."""
    return np.array([[max(1, len(set(row) - {0} | {0} & set(padding * row)))] for row in tokens.tolist()])


def mixed(dy, tokens, E):
    """The gradients of all windows added, times the share of each token in all windows together."""
    counts = ((tokens[:, :, None] == np.arange(len(E))) & (tokens != 0)[:, :, None]).sum(axis=(0, 1))
    return counts[:, None] / max(counts.sum(), 1) * dy.sum(axis=0)


def times(tokens, E):
    """How often each token occurs in all windows, at least 1: (V, 1)."""
    return np.maximum((tokens[:, :, None] == np.arange(len(E))).sum(axis=(0, 1)), 1)[:, None]


BAG_BACKWARD = Exercise(
    bag_backward,
    asks="A look-up with repeated ids, and a mean over windows of different length, empty ones too.",
    outputs="dE",
    inputs={"dy": normal("B D"), "tokens": WINDOWS, "E": normal("V D")},
    special={"a window of padding only": {"tokens": WINDOWS.then(with_an_empty_one)}},
    only={
        "a window of padding only": "A window without a token has the output 0, whatever E is, so it sends "
        "nothing to any row. Do not divide 0 by 0 there."
    },
    stories="""
    - Divided by the length of the window. The mean is that of the tokens, padding left out.
          number = np.maximum(counted.sum(axis=1, keepdims=True), 1) → number = tokens.shape[1]
    - The row of the padding receives a gradient. Padding is no part of the mean: its row is 0.
          share = counted / number → share = 1 / number + 0 * tokens
    - Padding is treated as a token: it is counted, and its row receives a gradient.
          counted = tokens != 0 → counted = tokens >= 0
    - Not divided by the number of tokens: the output is their mean.
          share = counted / number → share = counted * 1.0
    - Gradients of repeated tokens are lost: of several with the same token the last alone is kept, as by
      `dE[tokens] += …`. They add; use np.add.at, or a product with one-hot rows.
          dE = weights.T @ dy → dE = assigned(dy, tokens, share, E)
    - Repeated tokens are lost, and nothing is divided: of several with the same token the last alone is kept.
          dE = weights.T @ dy → dE = assigned(dy, tokens, counted * 1.0, E)
    - Of several windows with the same token the last alone is kept. Shares are added, `+=`, not assigned.
          dE = weights.T @ dy → dE = overwritten(weights, dy)
    - Only the last window sends anything: what a loop over windows finds must be added, not assigned.
          dE = weights.T @ dy → dE = weights[-1:].T @ dy[-1:]
    - Only the first window sends anything. All of them are needed.
          dE = weights.T @ dy → dE = weights[:1].T @ dy[:1]
    - This is for the mean of the different ids of a window. An id that occurs twice counts twice: it has two
      shares, and the number of tokens is that of all.
          number = np.maximum(counted.sum(axis=1, keepdims=True), 1) → number = distinct(tokens)
          * one_hot).sum(axis=1) → * one_hot).max(axis=1)
    - This is for the mean of the different ids of a window, the padding among them. An id that occurs twice
      counts twice, and padding not at all.
          number = np.maximum(counted.sum(axis=1, keepdims=True), 1) → number = distinct(tokens, padding=1)
          * one_hot).sum(axis=1) → * one_hot).max(axis=1)
    - This is for the mean of the different ids of a window, the padding among them. An id that occurs twice
      counts twice, and padding not at all.
          counted = tokens != 0 → counted = tokens >= 0
          number = np.maximum(counted.sum(axis=1, keepdims=True), 1) → number = distinct(tokens, padding=1)
          * one_hot).sum(axis=1) → * one_hot).max(axis=1)
    - Not divided by the number of tokens, and a token that occurs twice in a window counts once.
          share = counted / number → share = counted * 1.0
          * one_hot).sum(axis=1) → * one_hot).max(axis=1)
    - Divided by how often the token itself occurs in the window. Divide by the number of all its tokens, and
      count a token as often as it occurs.
          share = counted / number → share = counted / repeats(tokens)
          * one_hot).sum(axis=1) → * one_hot).max(axis=1)
    - Divided by how often the token occurs in all windows, and not by the number of tokens of its window.
          share = counted / number → share = counted * 1.0
          dE = weights.T @ dy → dE = weights.T @ dy / times(tokens, E)
    - Divided by how often the token occurs in all windows, and not by the number of tokens of its window.
          share = counted / number → share = counted * 1.0
          * one_hot).sum(axis=1) → * one_hot).max(axis=1)
          dE = weights.T @ dy → dE = weights.T @ dy / times(tokens, E)
    - A token that occurs twice in a window counts once. It stands in the mean twice, and is sent two shares.
          * one_hot).sum(axis=1) → * one_hot).max(axis=1)
    - Divided by the number of different tokens of a window. A token that occurs twice counts twice in the
      mean.
          number = np.maximum(counted.sum(axis=1, keepdims=True), 1) → number = distinct(tokens)
    - Divided by the number of different ids, the padding among them. Each token counts as often as it occurs,
      and padding not at all.
          number = np.maximum(counted.sum(axis=1, keepdims=True), 1) → number = distinct(tokens, padding=1)
    - Divided by one more than the number of tokens of the window.
          np.maximum(counted.sum(axis=1, keepdims=True), 1) → (counted.sum(axis=1, keepdims=True) + 1)
    - The rows are moved by one. Ids count from 0, and the padding has the row 0.
          dE = weights.T @ dy → dE = np.roll(weights.T @ dy, 1, axis=0)
    - The rows are moved by one. Ids count from 0, and the padding has the row 0.
          dE = weights.T @ dy → dE = np.roll(weights.T @ dy, -1, axis=0)
    - Each row is divided by the number of times its token occurs. The shares of all occurrences are added.
          dE = weights.T @ dy → dE = weights.T @ dy / times(tokens, E)
    - Divided by the number of windows: the shares of all windows are added, not averaged.
          dE = weights.T @ dy → dE = weights.T @ dy / len(dy)
    - The features of dy are averaged. The mean is that of tokens; each feature of a row has its own gradient.
          dE = weights.T @ dy → dE = weights.T @ dy.mean(axis=1, keepdims=True) + 0 * E
    - The windows are mixed: all gradients are added and dealt out by the counts of all tokens. A token
      receives the gradients of its own windows only.
          dE = weights.T @ dy → dE = mixed(dy, tokens, E)
    - Divided by the number of tokens of all windows together. Each window has a number of its own.
          counted.sum(axis=1, keepdims=True) → counted.sum()
    - Divided by the average number of tokens of a window. Each window has a number of its own.
          number = np.maximum(counted.sum(axis=1, keepdims=True), 1) → number = counted.sum() / len(tokens)
    - The numbers of tokens are counted along the wrong axis: over the windows, and not within each.
          counted.sum(axis=1, keepdims=True) → counted.sum(axis=0, keepdims=True)
    - Multiplied by the number of tokens. It should be divided: each of them has one share of the mean.
          share = counted / number → share = counted * number
    - The gradient contains E. The output is linear in E, so its derivative cannot depend on it.
          dE = weights.T @ dy → dE = weights.T @ dy * E
    - dy is multiplied by the output. The output is linear in E, so its derivative does not contain it.
          dE = weights.T @ dy → dE = weights.T @ (dy * (weights @ E))
    - The numbers are cut to whole ones, as in an array of integers. Give the result the type float.
          dE = weights.T @ dy → dE = (weights.T @ dy).astype(int)
    - The numbers are cut to whole ones, as in an array of integers. Give the result the type float.
          dE = weights.T @ dy → dE = in_integers(dy, tokens, number, E, "each sum")
    - The numbers are cut to whole ones, as in an array of integers. Give the result the type float.
          dE = weights.T @ dy → dE = in_integers(dy, tokens, number, E, "each share")
    - The numbers are cut to whole ones, as in an array of integers. Give the result the type float.
          dE = weights.T @ dy → dE = in_integers(dy, tokens, number, E, "each window")
    - This is the forward: the means of the windows.
          dE = weights.T @ dy → dE = weights @ E
    - The gradient is taken with the transposed roles: dE has a row for each token of the vocabulary.
          dE = weights.T @ dy → dE = (weights.T @ dy).T
    """,
    hints="""
    - One window first: y = (E[a] + E[b] + E[a])/3. What is the derivative by row a, and what by row b?
    - Write the mean as a product: y = S E, with a row of S for each window. What stands in it?
    - S holds, for each token that is no padding, how often it occurs divided by the number of tokens of the
      window; then dE = Sᵀ dy. A window of padding alone has a row of zeros.
    """,
)
