"""Exercises of chapter 10, all of them layers that it does not show: answers, stories and hints."""

import numpy as np

from ...course.judge.draws import normal, repeating
from ...course.judge.function import Exercise
from ...ops.heads import merge_heads
from ...ops.softmax import softmax

HEADS = normal("B H T K")


def reshaped_rows(x):
    """Heads (B, H, T, K) joined by a reshape alone."""
    B, H, T, K = x.shape
    return x.reshape(B, T, H * K)


def columns_exchanged(x):
    """Heads (B, H, T, K) joined so that column c·H + h is component c of head h."""
    B, H, T, K = x.shape
    return x.transpose(0, 2, 3, 1).reshape(B, T, H * K)


def alternating(queries, keys, values):
    """One column of each in turn."""
    return np.stack([queries, keys, values], -1).reshape(*queries.shape[:2], -1)


def reshaped_together(*parts):
    """All 3H heads joined by a reshape alone."""
    return reshaped_rows(np.concatenate(parts, axis=1))


def overlapping(*parts):
    """Keys written K columns after the queries, values K columns after the keys, one head after another."""
    B, H, T, K = parts[0].shape
    fused = np.zeros((B, T, 3 * H * K))
    for h in range(H):
        for i, part in enumerate(parts):
            fused[:, :, (h + i) * K : (h + i + 1) * K] = part[:, h]
    return fused


def head_by_head(dq, dk, dv):
    """The columns in the order query, key, value of head 0, then those of head 1, and so on."""
    B, H, T, K = dq.shape
    return np.concatenate([dq, dk, dv], axis=-1).transpose(0, 2, 1, 3).reshape(B, T, 3 * H * K)


# 1 ----------------------------------------------------------------------------------------------------------


def fused_gradient(dq, dk, dv):
    B, H, T, K = dq.shape
    queries = dq.transpose(0, 2, 1, 3).reshape(B, T, H * K)
    keys = dk.transpose(0, 2, 1, 3).reshape(B, T, H * K)
    values = dv.transpose(0, 2, 1, 3).reshape(B, T, H * K)
    return np.concatenate([queries, keys, values], axis=-1)


FUSED_GRADIENT = Exercise(
    fused_gradient,
    asks="The adjoint of cutting into heads, and the order in which heads and thirds stand.",
    outputs="dfused",
    inputs={"dq": HEADS, "dk": HEADS, "dv": HEADS},
    shipped=lambda dq, dk, dv: np.concatenate([merge_heads(d)[0] for d in (dq, dk, dv)], axis=-1),
    stories="""
    - The heads are joined by a reshape alone. The shape is right, but a row then holds several tokens of one
      head: exchange the axes of heads and tokens first.
          dq.transpose(0, 2, 1, 3).reshape(B, T, H * K) → reshaped_rows(dq)
          dk.transpose(0, 2, 1, 3).reshape(B, T, H * K) → reshaped_rows(dk)
          dv.transpose(0, 2, 1, 3).reshape(B, T, H * K) → reshaped_rows(dv)
    - The axes of heads and columns are exchanged as well, so that column 0 of all heads comes first. Head h
      owns K columns side by side.
          dq.transpose(0, 2, 1, 3).reshape(B, T, H * K) → columns_exchanged(dq)
          dk.transpose(0, 2, 1, 3).reshape(B, T, H * K) → columns_exchanged(dk)
          dv.transpose(0, 2, 1, 3).reshape(B, T, H * K) → columns_exchanged(dv)
    - The columns are ordered head by head: query, key and value of head 0, then of head 1. Here all queries
      come first, then all keys, then all values.
          np.concatenate([queries, keys, values], axis=-1) → head_by_head(dq, dk, dv)
    - Queries and keys have changed places in the result.
          [queries, keys, values] → [keys, queries, values]
    - Keys and values have changed places in the result.
          [queries, keys, values] → [queries, values, keys]
    - The order is reversed: values, keys, queries.
          [queries, keys, values] → [values, keys, queries]
    - The three parts are added. That is the gradient of x if all three were x itself; here each part has
      columns of its own.
          np.concatenate([queries, keys, values], axis=-1) → queries + keys + values
    - The three parts stand one after another as tokens, and not side by side as columns.
          axis=-1 → axis=1
    - The heads are added: each head has columns of its own.
          dq.transpose(0, 2, 1, 3).reshape(B, T, H * K) → dq.sum(axis=1)
          dk.transpose(0, 2, 1, 3).reshape(B, T, H * K) → dk.sum(axis=1)
          dv.transpose(0, 2, 1, 3).reshape(B, T, H * K) → dv.sum(axis=1)
    - Each part is divided by 3. Nothing is averaged: every column receives what arrives there.
          axis=-1) → axis=-1) / 3
    - The heads are joined in reversed order.
          dq.transpose(0, 2, 1, 3) → dq[:, ::-1].transpose(0, 2, 1, 3)
          dk.transpose(0, 2, 1, 3) → dk[:, ::-1].transpose(0, 2, 1, 3)
          dv.transpose(0, 2, 1, 3) → dv[:, ::-1].transpose(0, 2, 1, 3)
    - Stacked along a new axis. The three parts stand side by side, in one row for each token.
          np.concatenate([queries, keys, values], axis=-1) → np.stack([queries, keys, values])
    - The three parts alternate column by column. All queries come first, then all keys, then all values.
          np.concatenate([queries, keys, values], axis=-1) → alternating(queries, keys, values)
    - The three parts stand one after another as sequences of the batch, and not side by side as columns.
          axis=-1 → axis=0
    - Only the queries are used, three times.
          [queries, keys, values] → [queries, queries, queries]
    - The values alone are joined by a reshape without the exchange of axes.
          dv.transpose(0, 2, 1, 3).reshape(B, T, H * K) → reshaped_rows(dv)
    - The keys alone are joined by a reshape without the exchange of axes.
          dk.transpose(0, 2, 1, 3).reshape(B, T, H * K) → reshaped_rows(dk)
    - The heads are not joined: side by side stand only the parts of one head.
          np.concatenate([queries, keys, values], axis=-1) → np.concatenate([dq, dk, dv], axis=-1)
    - Reshaped first and transposed then: the reshape has already mixed heads and tokens.
          dq.transpose(0, 2, 1, 3).reshape(B, T, H * K) → dq.reshape(B, H * K, T).mT
          dk.transpose(0, 2, 1, 3).reshape(B, T, H * K) → dk.reshape(B, H * K, T).mT
          dv.transpose(0, 2, 1, 3).reshape(B, T, H * K) → dv.reshape(B, H * K, T).mT
    - Only the first head is used. Each head has columns of its own.
          dq.transpose(0, 2, 1, 3).reshape(B, T, H * K) → dq[:, 0]
          dk.transpose(0, 2, 1, 3).reshape(B, T, H * K) → dk[:, 0]
          dv.transpose(0, 2, 1, 3).reshape(B, T, H * K) → dv[:, 0]
    - The heads are averaged: each head has columns of its own.
          dq.transpose(0, 2, 1, 3).reshape(B, T, H * K) → dq.mean(axis=1)
          dk.transpose(0, 2, 1, 3).reshape(B, T, H * K) → dk.mean(axis=1)
          dv.transpose(0, 2, 1, 3).reshape(B, T, H * K) → dv.mean(axis=1)
    - The queries alone are joined by a reshape without the exchange of axes.
          dq.transpose(0, 2, 1, 3).reshape(B, T, H * K) → reshaped_rows(dq)
    - In the queries alone the axes of heads and columns are exchanged as well.
          dq.transpose(0, 2, 1, 3).reshape(B, T, H * K) → columns_exchanged(dq)
    - In the keys alone the axes of heads and columns are exchanged as well.
          dk.transpose(0, 2, 1, 3).reshape(B, T, H * K) → columns_exchanged(dk)
    - In the values alone the axes of heads and columns are exchanged as well.
          dv.transpose(0, 2, 1, 3).reshape(B, T, H * K) → columns_exchanged(dv)
    - The axes of batch and tokens are exchanged: the result begins with the batch.
          [queries, keys, values], axis=-1) → [queries, keys, values], axis=-1).swapaxes(0, 1)
    - Concatenated along the heads, then joined by a reshape alone: exchange heads and tokens first.
          np.concatenate([queries, keys, values], axis=-1) → reshaped_together(dq, dk, dv)
    - The keys begin K columns after the queries, and the values K after the keys, and they overwrite
      each other. Each third has HK columns.
          np.concatenate([queries, keys, values], axis=-1) → overlapping(dq, dk, dv)
    - The scale 1/√K stands in the parts of queries and keys. The cut moves numbers; the scale belongs to the
      scores, and what has arrived at queries and keys has passed them already.
          [queries, keys, values], axis=-1) → [queries / K**0.5, keys / K**0.5, values], axis=-1)
    """,
    hints="""
    - Forward, the fused product is cut into three thirds, and each third into heads. Go back: join the heads
      of each, then the three.
    - Where is component c of head h of the keys of token t? In row t, column HK + hK + c.
    - For each of the three exchange the axes of heads and tokens, reshape to (B, T, H·K); then concatenate
      along the last axis.
    """,
)


def in_turn(W_O, o):
    """W_O cut as if its rows belonged to the heads in turn, (H, K, D)."""
    return W_O.reshape(o.shape[3], o.shape[1], -1).swapaxes(0, 1)


def tiled(gate, o):
    """The gates (H, 1, K) in the order of np.tile."""
    return np.tile(gate, o.shape[3]).reshape(o.shape[1], 1, o.shape[3])


def untiled(columns):
    """Sums of the columns (H, K), as if column i belonged to head i mod H."""
    return columns.reshape(-1, len(columns)).sum(axis=0)


# 2 ----------------------------------------------------------------------------------------------------------


def gate_gradients(dy, o, gate, W_O):
    blocks = W_O.reshape(o.shape[1], o.shape[3], W_O.shape[1])
    upstream = dy[:, np.newaxis]
    g = gate[:, np.newaxis, np.newaxis]
    arrived = upstream @ blocks.mT
    do = g * arrived
    dgate = (o * arrived).sum(axis=(0, 2, 3))
    dblocks = g * (o.mT @ upstream).sum(axis=0)
    dW_O = dblocks.reshape(W_O.shape)
    return do, dgate, dW_O


GATE_GRADIENTS = Exercise(
    gate_gradients,
    asks="One number for each head between its output and the output matrix, and every sum it takes.",
    outputs="do dgate dW_O",
    inputs={"dy": normal("B T D"), "o": HEADS, "gate": normal("H"), "W_O": normal("H*K D")},
    stories="""
    - The gate is missing in do: what head h brings reaches y times its gate.
          do = g * arrived → do = arrived
    - The gate is missing in dW_O: the rows of W_O meet the gated outputs.
          dblocks = g * (o.mT → dblocks = (o.mT
    - The gate is missing in do and in dW_O: there the layer acts with the gate as a factor.
          do = g * arrived → do = arrived
          dblocks = g * (o.mT → dblocks = (o.mT
    - The gate stands in its own gradient. y is linear in the gate, so its derivative does not contain it.
          (o * arrived).sum → (o * do).sum
    - dgate is divided by the gate. y is linear in it: its derivative is what the head brings
      without the gate.
          (o * arrived).sum(axis=(0, 2, 3)) → (o * arrived).sum(axis=(0, 2, 3)) / gate
    - dgate is not summed over the batch. All sequences share the gates.
          axis=(0, 2, 3)) → axis=(2, 3))
    - dgate keeps the tokens. One gate serves all positions: sum over them.
          axis=(0, 2, 3)) → axis=(0, 3))
    - dgate keeps the K columns. One gate serves the whole head: sum over them.
          axis=(0, 2, 3)) → axis=(0, 2))
    - One number for all heads. Each head has a gate of its own: do not sum over the heads.
          axis=(0, 2, 3)) → axis=(0, 1, 2, 3)) + 0 * gate
    - dgate is a mean. A gate is used at every position of every sequence, and what arrives there adds.
          (o * arrived).sum(axis=(0, 2, 3)) → (o * arrived).mean(axis=(0, 2, 3))
    - dgate is a mean over the batch in place of a sum.
          (o * arrived).sum(axis=(0, 2, 3)) → (o * arrived).sum(axis=(2, 3)).mean(axis=0)
    - dW_O is a mean over the batch in place of a sum.
          (o.mT @ upstream).sum → (o.mT @ upstream).mean
    - W_O is cut into blocks of columns. Head h owns K of its rows.
          W_O.reshape(o.shape[1], o.shape[3], W_O.shape[1]) → in_turn(W_O, o)
    - dgate is what head h brings, summed, and knows nothing of dy. It is the product of what it brings and of
      what arrives.
          upstream @ blocks.mT → 0 * upstream @ blocks.mT + blocks.sum(axis=-1)[:, np.newaxis]
    - dgate is the sum of the outputs of the head. The gate also passes W_O, and meets dy there.
          (o * arrived).sum → (o + 0 * arrived).sum
    - dgate is the sum of what arrives at the head. The gate multiplies the outputs, so o is a factor.
          (o * arrived).sum → (arrived).sum
    - Descent taken ahead: dgate has the sign that lowers the loss. A gradient says how much worse it gets.
          dgate = (o * arrived) → dgate = -(o * arrived)
    - This is the derivative by something whose sigmoid is the gate. Here the gate itself is learned.
          (o * arrived).sum(axis=(0, 2, 3)) → (o * arrived).sum(axis=(0, 2, 3)) * gate * (1 - gate)
    - The rows of dW_O are in the wrong order: head h owns the rows hK to hK + K - 1, side by side.
          dblocks.reshape(W_O.shape) → dblocks.swapaxes(0, 1).reshape(W_O.shape)
    - dW_O is not summed over the batch: all sequences share the matrix.
          dblocks = g * (o.mT @ upstream).sum(axis=0) → dblocks = g * (o.mT @ upstream)
          dblocks.reshape(W_O.shape) → dblocks.reshape(len(dy), *W_O.shape)
    - Divided by the number of heads. The heads are added, and nothing is averaged.
          arrived = upstream @ blocks.mT → arrived = upstream @ blocks.mT / len(gate)
    - Only the first sequence reaches dgate. All of them share the gates, and what they send adds.
          (o * arrived).sum(axis=(0, 2, 3)) → (o * arrived)[0].sum(axis=(1, 2))
    - Only the first sequence reaches dW_O. All of them send a gradient, and they add.
          (o.mT @ upstream).sum(axis=0) → (o.mT @ upstream)[0]
    - The sizes of the terms are added in dgate. A gradient keeps its signs; importance is another
      thing.
          (o * arrived).sum → np.abs(o * arrived).sum
    - dgate without its sign. A gradient says in which direction the loss gets worse.
          dgate = (o * arrived).sum(axis=(0, 2, 3)) → dgate = np.abs((o * arrived).sum(axis=(0, 2, 3)))
    - All heads get the same number, what all heads bring times dy. Each gate multiplies its own head.
          dgate = (o * arrived).sum(axis=(0, 2, 3)) → dgate = (o * do).sum() + 0 * gate
    - The gate is added in do. It multiplies what the head brings.
          do = g * arrived → do = g + arrived
    - The gate is divided by in do. Forward it multiplies, and so it does on the way back.
          do = g * arrived → do = arrived / g
    - dgate is a mean over sequences, positions and columns of y. What arrives at the places of a gate adds.
          (o * arrived).sum(axis=(0, 2, 3)) → (o * arrived).sum(axis=(0, 2, 3)) / dy.size
    - dgate is a mean over sequences and positions. What arrives at the places of a gate adds.
          (o * arrived).sum(axis=(0, 2, 3)) → (o * arrived).sum(axis=3).mean(axis=(0, 2))
    - Only the last sequence reaches dW_O. All of them send a gradient, and they add.
          (o.mT @ upstream).sum(axis=0) → (o.mT @ upstream)[-1]
    - All gates are added in dW_O. The rows of a head meet the gate of that head only.
          dblocks = g * (o.mT → dblocks = gate.sum() * (o.mT
    - The gates are spread over the columns as if these belonged to the heads in turn, as `np.tile` does.
      Head h owns K columns side by side: `np.repeat`.
          do = g * arrived → do = tiled(gate, o) * arrived
          dblocks = g * (o.mT → dblocks = tiled(gate, o).mT * (o.mT
    - The gates are spread over the columns as if these belonged to the heads in turn, as `np.tile` does, in
      dgate too. Head h owns K columns side by side: `np.repeat`.
          do = g * arrived → do = tiled(gate, o) * arrived
          dblocks = g * (o.mT → dblocks = tiled(gate, o).mT * (o.mT
          dgate = (o * arrived).sum(axis=(0, 2, 3)) → dgate = untiled((o * arrived).sum(axis=(0, 2)))
    - In dW_O the outputs are joined by a reshape alone. The shape is right, but a row then holds several
      tokens of one head: exchange the axes of heads and tokens first.
          dblocks.reshape(W_O.shape) → np.einsum("btk,btd->kd", reshaped_rows(g * o), dy)
    """,
    hints="""
    - Write y as a sum over heads: head h brings g_h O_h W_h, with W_h its K rows of W_O.
    - As before, but with g_h O_h in the place of O_h: what arrives there is dY W_hᵀ. From there it goes to
      O_h, times g_h, and to g_h, times O_h.
    - A gate stands in every entry of its head, at every position of every sequence: add over all of them.
    """,
)


def diagonal(ds):
    """Only the pairs in which query and key have the same position."""
    return ds * np.eye(*ds.shape[2:])


def mixed(P, u):
    """The forward, (B, E, T, S)."""
    return np.einsum("eh,bhts->bets", P, u)


def through_softmax(ds, s):
    """What would arrive at the scores s if ds had arrived at the weights."""
    a = softmax(s)[0]
    return a * (ds - (a * ds).sum(axis=-1, keepdims=True))


def looped(ds, u, P):
    """du by loops over both kinds of heads, with the indices of P exchanged."""
    du = np.zeros_like(u)
    for h, e in np.ndindex(u.shape[1], ds.shape[1]):
        du[:, h] += P[h, e] * ds[:, e]
    return du


def first_axis(x, n):
    """x as n rows, by a reshape that takes the batch for heads."""
    return x.reshape(n, -1)


# 3 ----------------------------------------------------------------------------------------------------------


def mixed_gradients(ds, u, P):
    du = np.einsum("eh,bets->bhts", P, ds)
    dP = np.einsum("bets,bhts->eh", ds, u)
    return du, dP


def mixed_by_products(ds, u, P):
    E, H = P.shape
    B, _, T, S = ds.shape
    flat_ds, flat_u = ds.reshape(B, E, T * S), u.reshape(B, H, T * S)
    du = (P.T @ flat_ds).reshape(B, H, T, S)
    dP = (flat_ds @ flat_u.mT).sum(axis=0)
    return du, dP


MIXED_GRADIENTS = Exercise(
    mixed_gradients,
    asks="A matrix that acts across heads, not features: its adjoint, and its own gradient.",
    outputs="du dP",
    inputs={"ds": normal("B E T S"), "u": normal("B H T S"), "P": normal("E H")},
    ways=(mixed_by_products,),
    stories="""
    - dP is transposed. Like P it should have a row for each mixed head, and a column for each raw one.
          "bets,bhts->eh" → "bets,bhts->he"
    - dP is not summed over the batch: all sequences share the matrix.
          "bets,bhts->eh" → "bets,bhts->beh"
    - dP is a mean over the batch in place of a sum.
          dP = np.einsum("bets,bhts->eh", ds, u) → dP = np.einsum("bets,bhts->eh", ds, u) / len(u)
    - dP is a mean over all pairs of query and key, where it should be a sum.
          dP = np.einsum("bets,bhts->eh", ds, u) → dP = np.einsum("bets,bhts->eh", ds, u) / u[0, 0].size
    - dP is a mean over sequences, queries and keys. P is used for every pair, and what arrives there adds.
          dP = np.einsum("bets,bhts->eh", ds, u) → dP = np.einsum("bets,bhts->eh", ds, u) / u[:, 0].size
    - dP does not contain the scores u. In s = Σ P u the factor of P is u.
          dP = np.einsum("bets,bhts->eh", ds, u) → dP = np.einsum("bets,bhts->eh", ds, 1 + 0 * u)
    - The gradient that arrives, ds, is missing in dP.
          dP = np.einsum("bets,bhts->eh", ds, u) → dP = np.einsum("bets,bhts->eh", 1 + 0 * ds, u)
    - Each score u_h sends to the mixed scores of all e, so du adds over e with P_eh. Here P is
      missing.
          du = np.einsum("eh,bets->bhts", P, ds) → du = np.einsum("eh,bets->bhts", 1 + 0 * P, ds)
    - du is a mean over the mixed scores in place of a sum.
          du = np.einsum("eh,bets->bhts", P, ds) → du = np.einsum("eh,bets->bhts", P, ds) / len(P)
    - Only the last sequence reaches dP. It adds over all of them.
          dP = np.einsum("bets,bhts->eh", ds, u) → dP = np.einsum("bets,bhts->eh", ds[-1:], u[-1:])
    - dP has the sign of a step of descent. A gradient says how much worse the loss gets.
          dP = np.einsum("bets,bhts->eh", ds, u) → dP = -np.einsum("bets,bhts->eh", ds, u)
    - dP multiplies two sums. At each pair of query and key the two numbers are multiplied first, then added.
          dP = np.einsum("bets,bhts->eh", ds, u) → dP = np.outer(ds.sum((0, 2, 3)), u.sum((0, 2, 3)))
    - P stands in its own gradient. The scores are linear in P, so its derivative does not contain it.
          dP = np.einsum("bets,bhts->eh", ds, u) → dP = P * np.einsum("bets,bhts->eh", ds, u)
    - du is the forward: u mixed by P. The gradient that arrives is mixed back, by the transpose of P.
          du = np.einsum("eh,bets->bhts", P, ds) → du = np.einsum("eh,bhts->bets", P, u)
    - Mixed back by the inverse of P. The gradient goes back through the transpose: nothing is undone.
          du = np.einsum("eh,bets->bhts", P, ds) → du = np.einsum("he,bets->bhts", np.linalg.pinv(P), ds)
    - P is made into weights by a softmax. Here it is used as it is.
          du = np.einsum("eh,bets->bhts", P, ds) → du = np.einsum("eh,bets->bhts", softmax(P)[0], ds)
    - dP counts only the pairs in which query and key have the same position. P is used at every pair.
          dP = np.einsum("bets,bhts->eh", ds, u) → dP = np.einsum("bets,bhts->eh", diagonal(ds), u)
    - Only the first sequence reaches dP. It adds over all of them.
          dP = np.einsum("bets,bhts->eh", ds, u) → dP = np.einsum("bets,bhts->eh", ds[:1], u[:1])
    - Only the first of the mixed heads is sent back. Each u_h is in all of them, and what they send adds.
          du = np.einsum("eh,bets->bhts", P, ds) → du = np.einsum("eh,bets->bhts", P[:1], ds[:, :1])
    - Only the last of the mixed heads is sent back. Each u_h is in all of them, and what they send adds.
          du = np.einsum("eh,bets->bhts", P, ds) → du = np.einsum("eh,bets->bhts", P[-1:], ds[:, -1:])
    - The columns of P are divided by their sums. Here P is used as it is.
          du = np.einsum("eh,bets->bhts", P, ds) → du = np.einsum("eh,bets->bhts", P / P.sum(axis=0), ds)
    - dP is made with the mixed scores. The factor of P is u, the scores before they are mixed.
          dP = np.einsum("bets,bhts->eh", ds, u) → dP = np.einsum("bets,bets,eh->eh", ds, mixed(P, u), P)
    - dP keeps the queries: P is the same at every query and key, so it adds over them.
          "bets,bhts->eh" → "bets,bhts->teh"
    - dP adds ds and u where it should multiply them.
          dP = np.einsum("bets,bhts->eh", ds, u) → dP = ds.sum((0, 2, 3))[:, np.newaxis] + u.sum((0, 2, 3))
    - The backward of the softmax comes first here. But ds has arrived at the mixed scores, before the
      softmax: only the mixing is to be undone.
          P, ds) → P, through_softmax(ds, mixed(P, u)))
          "bets,bhts->eh", ds → "bets,bhts->eh", through_softmax(ds, mixed(P, u))
    - In du the matrix is P itself, as in the forward. What comes back passes its transpose: du_h adds p_eh
      ds_e over e. With E = H the shapes fit all the same.
          du = np.einsum("eh,bets->bhts", P, ds) → du = np.einsum("he,bets->bhts", P, ds)
    - du multiplies two sums over the mixed heads. Each ds_e goes with its own p_eh, then they add.
          du = np.einsum("eh,bets->bhts", P, ds) → du = np.einsum("eh,bfts->bhts", P, ds)
    - In the loops for du the indices of P are exchanged: p_eh has the mixed head first. With E = H nothing
      raises, and the numbers are wrong.
          du = np.einsum("eh,bets->bhts", P, ds) → du = looped(ds, u, P)
    - du multiplies the sum of all ds_e by the sum of all of P. Each ds_e goes with its own p_eh, then they
      add.
          du = np.einsum("eh,bets->bhts", P, ds) → du = P.sum() * ds.sum(axis=1, keepdims=True) + 0 * u
    - dP takes its rows by a reshape that mixes sequences and heads: the batch comes first. Bring the axis of
      heads to the front before the reshape.
          dP = np.einsum("bets,bhts->eh", ds, u) → dP = first_axis(ds, len(P)) @ first_axis(u, P.shape[1]).T
    - du is divided by the number of raw heads. What comes back from the mixed heads adds.
          du = np.einsum("eh,bets->bhts", P, ds) → du = np.einsum("eh,bets->bhts", P, ds) / P.shape[1]
    """,
    hints="""
    - One pair of query and key first: then s = P u is a matrix times a vector of H numbers.
    - For that vector du = Pᵀ ds, and dP is the outer product of ds and u.
    - For all pairs: du mixes back at each of them; dP adds over all queries, keys and sequences.
    """,
)


def in_rows(x):
    """All tokens of all sequences one below the other."""
    return x.reshape(-1, x.shape[-1])


def turned_by_reshape(x):
    """The shape of in_rows(x).T, but not its numbers."""
    return x.reshape(x.shape[-1], -1)


# 4 ----------------------------------------------------------------------------------------------------------


def latent_gradients(dk, dv, x, W_C, W_K, W_V):
    c = x @ W_C
    dc = dk @ W_K.T + dv @ W_V.T
    dx = dc @ W_C.T
    dW_C = (x.mT @ dc).sum(axis=0)
    dW_K = (c.mT @ dk).sum(axis=0)
    dW_V = (c.mT @ dv).sum(axis=0)
    return dx, dW_C, dW_K, dW_V


LATENT_GRADIENTS = Exercise(
    latent_gradients,
    asks="An array that is used twice, between three matrices whose gradients are asked.",
    outputs="dx dW_C dW_K dW_V",
    inputs={
        "dk": normal("B S H*K"),
        "dv": normal("B S H*K"),
        "x": repeating("B S D"),
        "W_C": normal("D E"),
        "W_K": normal("E H*K"),
        "W_V": normal("E H*K"),
    },
    stories="""
    - The path through the values is missing: c is read twice, and what comes back on both paths adds.
          + dv @ W_V.T →
    - The path through the keys is missing: c is read twice, and what comes back on both paths adds.
          dk @ W_K.T + dv → dv
    - The keys' path is missing in dx: c is read twice, and what comes back on both paths adds.
          dx = dc @ → dx = (dv @ W_V.T) @
    - The values' path is missing in dx: c is read twice, and what comes back on both paths adds.
          dx = dc @ → dx = (dk @ W_K.T) @
    - The two paths are averaged. Gradients of two uses add.
          dc = dk @ W_K.T + dv @ W_V.T → dc = (dk @ W_K.T + dv @ W_V.T) / 2
    - One is taken from the other. Gradients of two uses add.
          + dv @ W_V.T → - dv @ W_V.T
    - The matrices of keys and values are exchanged on the way back.
          dk @ W_K.T + dv @ W_V.T → dk @ W_V.T + dv @ W_K.T
    - dW_K and dW_V are means over the batch in place of sums.
          (c.mT @ dk).sum → (c.mT @ dk).mean
          (c.mT @ dv).sum → (c.mT @ dv).mean
    - All three gradients of matrices are means over the batch in place of sums.
          (x.mT @ dc).sum → (x.mT @ dc).mean
          (c.mT @ dk).sum → (c.mT @ dk).mean
          (c.mT @ dv).sum → (c.mT @ dv).mean
    - The three gradients of matrices are not summed over the batch. All sequences share the matrices.
          (x.mT @ dc).sum(axis=0) → x.mT @ dc
          (c.mT @ dk).sum(axis=0) → c.mT @ dk
          (c.mT @ dv).sum(axis=0) → c.mT @ dv
    - dW_C takes the keys' path only. c is read twice.
          dW_C = (x.mT @ dc) → dW_C = (x.mT @ (dk @ W_K.T))
    - dW_C takes the values' path only. c is read twice.
          dW_C = (x.mT @ dc) → dW_C = (x.mT @ (dv @ W_V.T))
    - dW_K and dW_V have changed places.
          return dx, dW_C, dW_K, dW_V → return dx, dW_C, dW_V, dW_K
    - The last sequence only reaches the matrices. All of them send a gradient, and they add.
          (x.mT @ dc).sum(axis=0) → (x.mT @ dc)[-1]
          (c.mT @ dk).sum(axis=0) → (c.mT @ dk)[-1]
          (c.mT @ dv).sum(axis=0) → (c.mT @ dv)[-1]
    - All three gradients of matrices are means over tokens and sequences in place of sums.
          dW_C = (x.mT @ dc).sum(axis=0) → dW_C = (x.mT @ dc).mean(axis=0) / x.shape[1]
          dW_K = (c.mT @ dk).sum(axis=0) → dW_K = (c.mT @ dk).mean(axis=0) / x.shape[1]
          dW_V = (c.mT @ dv).sum(axis=0) → dW_V = (c.mT @ dv).mean(axis=0) / x.shape[1]
    - Both matrices get the gradients of keys and values together. Each is on one path only.
          (c.mT @ dk) → (c.mT @ (dk + dv))
          (c.mT @ dv) → (c.mT @ (dk + dv))
    - The gradients are added first, and the matrices too. Each gradient goes back through its own matrix.
          dc = dk @ W_K.T + dv @ W_V.T → dc = (dk + dv) @ (W_K + W_V).T
    - The gradients are added first and go back through one matrix. Each goes back through its own.
          dc = dk @ W_K.T + dv @ W_V.T → dc = (dk + dv) @ W_K.T
    - What comes back on the two paths is multiplied. Gradients of two uses add.
          dc = dk @ W_K.T + dv @ W_V.T → dc = (dk @ W_K.T) * (dv @ W_V.T)
    - dx stops at c: it still has to pass W_C.
          dx = dc @ W_C.T → dx = dc
    - dW_K and dW_V are made with x. What these matrices read is c.
          (c.mT @ dk) → (x.mT @ dk)
          (c.mT @ dv) → (x.mT @ dv)
    - Only the first sequence reaches the matrices. All of them send a gradient, and they add.
          (x.mT @ dc).sum(axis=0) → (x.mT @ dc)[0]
          (c.mT @ dk).sum(axis=0) → (c.mT @ dk)[0]
          (c.mT @ dv).sum(axis=0) → (c.mT @ dv)[0]
    - The two paths are multiplied in dW_C. Gradients of two uses add.
          dW_C = (x.mT @ dc) → dW_C = (x.mT @ ((dk @ W_K.T) * (dv @ W_V.T)))
    - The two paths are multiplied in dx. Gradients of two uses add.
          dx = dc @ → dx = ((dk @ W_K.T) * (dv @ W_V.T)) @
    - dW_V is dW_K once more. The values' matrix receives what arrives at the values.
          (c.mT @ dv) → (c.mT @ dk)
    - dW_K is dW_V once more. The keys' matrix receives what arrives at the keys.
          (c.mT @ dk) → (c.mT @ dv)
    - In dW_C the tokens are transposed by a reshape, which leaves the numbers in their order: use
      `x.reshape(-1, D).T`.
          dW_C = (x.mT @ dc).sum(axis=0) → dW_C = turned_by_reshape(x) @ in_rows(dc)
    - In the gradients of all matrices what was read is transposed by a reshape, which leaves the numbers in
      their order: use `x.reshape(-1, D).T`.
          dW_C = (x.mT @ dc).sum(axis=0) → dW_C = turned_by_reshape(x) @ in_rows(dc)
          dW_K = (c.mT @ dk).sum(axis=0) → dW_K = turned_by_reshape(c) @ in_rows(dk)
          dW_V = (c.mT @ dv).sum(axis=0) → dW_V = turned_by_reshape(c) @ in_rows(dv)
    - dk goes back through both matrices, and dv through none.
          dk @ W_K.T + dv @ W_V.T → dk @ W_K.T + dk @ W_V.T
    """,
    hints="""
    - Draw the graph: x gives c by W_C, and c gives k by W_K and v by W_V. Which array is used twice?
    - Three linear layers, each with the two formulas of chapter 3. What arrives at c is a sum of two parts.
    - The gradients of matrices add over the tokens and over the sequences.
    """,
)


def product_of_sums(a, dy):
    """Weights and gradients, each added over the queries first."""
    return (a.sum(axis=2)[..., np.newaxis] * dy.sum(axis=2, keepdims=True)).sum(axis=1)


# 5 ----------------------------------------------------------------------------------------------------------


def shared_gradients(dy, q, m):
    scale = 1 / np.sqrt(q.shape[-1])
    memory = m[:, np.newaxis]
    s = scale * (q @ memory.mT)
    a = softmax(s)[0]
    da = dy @ memory.mT
    ds = a * (da - (a * da).sum(axis=-1, keepdims=True))
    dq = scale * (ds @ memory)
    as_keys = scale * (ds.mT @ q).sum(axis=1)
    as_values = (a.mT @ dy).sum(axis=1)
    dm = as_keys + as_values
    return dq, dm


SHARED_GRADIENTS = Exercise(
    shared_gradients,
    asks="An array with two parts in attention, read many times: every use counts.",
    outputs="dq dm",
    inputs={
        "dy": HEADS,
        "q": HEADS,
        "m": repeating("B S K").then(lambda x: x / 2),
    },
    stories="""
    - The memory as values is missing in dm: it is read as keys and as values, and both parts add.
          dm = as_keys + as_values → dm = as_keys
    - The memory as keys is missing in dm: it is read as keys and as values, and both parts add.
          dm = as_keys + as_values → dm = as_values
    - The two parts of dm are averaged. Gradients of two uses add.
          dm = as_keys + as_values → dm = (as_keys + as_values) / 2
    - The heads are averaged in dm. All heads read the same memory, and what they send adds.
          (ds.mT @ q).sum(axis=1) → (ds.mT @ q).mean(axis=1)
          (a.mT @ dy).sum(axis=1) → (a.mT @ dy).mean(axis=1)
    - The heads are not added: dm has one matrix for each head. They share the memory.
          (ds.mT @ q).sum(axis=1) → (ds.mT @ q)
          (a.mT @ dy).sum(axis=1) → (a.mT @ dy)
    - Only the last head reaches dm. All heads read the same memory, and what they send adds.
          (ds.mT @ q).sum(axis=1) → (ds.mT @ q)[:, -1]
          (a.mT @ dy).sum(axis=1) → (a.mT @ dy)[:, -1]
    - Only the first head reaches dm. All heads read the same memory, and what they send adds.
          (ds.mT @ q).sum(axis=1) → (ds.mT @ q)[:, 0]
          (a.mT @ dy).sum(axis=1) → (a.mT @ dy)[:, 0]
    - The average price is not subtracted: the weights of a row share a denominator.
          - (a * da).sum(axis=-1, keepdims=True) →
    - The sum in the softmax's backward is not weighted: it is Σ a da, not Σ da.
          (a * da).sum → da.sum
    - The scale is missing in dq and in the keys' part of dm. It is in the scores, so it is in what goes back.
          dq = scale * (ds → dq = (ds
          as_keys = scale * (ds → as_keys = (ds
    - The scale is missing everywhere, in the scores too: scores are q · m / √K.
          scale = 1 / np.sqrt(q.shape[-1]) → scale = 1.0
    - The scale is that of all heads together, 1/√(HK). Each head has width K.
          np.sqrt(q.shape[-1]) → np.sqrt(q.shape[-1] * q.shape[1])
    - The scale on the way back is that of all heads together, 1/√(HK). Each head has width K, as
      in its scores.
          dq = scale * (ds → dq = scale / q.shape[1] ** 0.5 * (ds
          as_keys = scale * (ds → as_keys = scale / q.shape[1] ** 0.5 * (ds
    - The values' part of dm has the scale, too. The values are not in the scores.
          as_values = (a.mT → as_values = scale * (a.mT
    - The softmax runs over the queries. The keys compete: it runs along each row of scores.
          softmax(s)[0] → softmax(s.mT)[0].mT
    - dq is the forward, the averages of the memory. There ds stands in the place of the weights, and the
      scale in front.
          dq = scale * (ds @ memory) → dq = a @ memory
    - dq has dy added. The query is in the scores only; nothing passes it by.
          dq = scale * (ds @ memory) → dq = scale * (ds @ memory) + dy
    - The softmax is left out on the way back: da stands where ds should.
          ds = a * (da - (a * da).sum(axis=-1, keepdims=True)) → ds = da
    - Only the diagonal of the softmax's Jacobian is used, a (1 - a). Each score moves all weights of its row.
          (a * da).sum(axis=-1, keepdims=True) → a * da
    - The keys' part is taken away. The memory is read in two ways, and what comes back adds.
          dm = as_keys + as_values → dm = as_values - as_keys
    - The values' part is taken away. The memory is read in two ways, and what comes back adds.
          dm = as_keys + as_values → dm = as_keys - as_values
    - The scale is 1/K. It is 1/√K.
          1 / np.sqrt(q.shape[-1]) → 1 / q.shape[-1]
    - The scale stands twice on the way back: dq and the keys' part have it once, as the scores do.
          dq = scale * (ds → dq = scale**2 * (ds
          as_keys = scale * (ds → as_keys = scale**2 * (ds
    - The heads are averaged in the keys' part of dm, and added in the values' part. Both parts add.
          (ds.mT @ q).sum(axis=1) → (ds.mT @ q).mean(axis=1)
    - The heads are averaged in the values' part of dm, and added in the keys' part. Both parts add.
          (a.mT @ dy).sum(axis=1) → (a.mT @ dy).mean(axis=1)
    - The two parts of dm are multiplied. Gradients of two uses add.
          dm = as_keys + as_values → dm = as_keys * as_values
    - The values' part of dm is made with the outputs. What arrives at the values is dy.
          (a.mT @ dy).sum(axis=1) → (a.mT @ (a @ memory)).sum(axis=1)
    - The heads are added in dq. Each head has queries of its own; only the memory is shared.
          dq = scale * (ds @ memory) → dq = scale * (ds @ memory).sum(axis=1)
    - The values' part of dm multiplies two sums over the queries. Each query's dy goes with its own weights.
          (a.mT @ dy).sum(axis=1) → product_of_sums(a, dy)
    - All sequences get the same dm, a mean over the batch. Each sequence has a memory of its own.
          dm = as_keys + as_values → dm = 0 * m + (as_keys + as_values).mean(axis=0)
    - All sequences get the same dm, a sum over the batch. Each sequence has a memory of its own.
          dm = as_keys + as_values → dm = 0 * m + (as_keys + as_values).sum(axis=0)
    - The scale is missing in dq. It is in the scores, so also in what goes back through them.
          dq = scale * (ds → dq = (ds
    - The scale is missing in the keys' part of dm. It is in the scores, so also in what goes back.
          as_keys = scale * (ds → as_keys = (ds
    - An ordinary mean is subtracted in the softmax's backward, where the mean weighted by a should be.
          (a * da).sum(axis=-1 → da.mean(axis=-1
    - The queries stand in the values' part of dm. What arrives at the values is dy.
          (a.mT @ dy) → (a.mT @ q)
    - The weights stand in the keys' part of dm. What arrives at the scores is ds.
          as_keys = scale * (ds.mT → as_keys = scale * (a.mT
    - ds stands in the values' part of dm. The values are averaged with the weights a.
          (a.mT @ dy) → (ds.mT @ dy)
    """,
    hints="""
    - Pretend first that keys and values are two arrays, K = V = m: the five steps of attention, in each head.
    - m is read by every head, once as keys and once as values. What comes back on all these paths adds.
    - So dm = Σ_h (dS_hᵀ Q_h / √K + A_hᵀ dY_h): a sum over the axis of heads, of two parts.
    """,
)
