"""A task for a whole decoder block: two walkers take turns, and a source says who moves.

The letters that are written are places on a circle of V. Letters 0 and 1 are drawn. Letter t is the place of
letter t − 2, one step further if bit t of the source is 1.
"""

from itertools import product
from math import log

import numpy as np
from optree import tree_flatten, tree_leaves, tree_unflatten

from handgrad import optim
from handgrad.blocks import (
    decoder_block,
    decoder_block_backward,
    encoder_block,
    encoder_block_backward,
)
from handgrad.config import Config, init
from handgrad.ops import (
    add_positions,
    add_positions_backward,
    causal_mask,
    cross_entropy,
    cross_entropy_backward,
    embedding,
    embedding_backward,
    linear,
    linear_backward,
)

V, T, H = 6, 8, 2  # places on the circle; letters of a line, as many as bits of a source; heads
ITSELF = np.eye(T, dtype=bool)  # a mask: each letter sees only itself
CAUSAL = causal_mask(T)
NOTHING = np.zeros((T, T), dtype=bool)  # a mask: no source is seen


def lines(rng, B):
    """B sources of bits, and what is written: {source, target_in, target_out}, each (B, T)."""
    return batch_of(rng.integers(2, size=(B, T)), rng.integers(V, size=(B, 2)))


def batch_of(source, first, V=V):
    """The batch of sources (B, T) with the first two letters (B, 2)."""
    out = np.concatenate([first, 0 * source[:, 2:]], axis=1)
    for t in range(2, source.shape[1]):
        out[:, t] = (out[:, t - 2] + source[:, t]) % V
    begin = np.full((len(out), 1), V)
    return {"source": source, "target_in": np.hstack([begin, out[:, :-1]]), "target_out": out}


def initial(seed, D=32, F=64, norm="post", dtype=np.float64):
    """Parameters: tables E and E_source, positions P for both sides, two blocks, a head."""
    rng = np.random.default_rng(seed)
    blocks = init(Config("encoder-decoder", V, D, H, F, 1, norm=norm), rng, dtype)
    shapes = {"E": (V + 1, D), "E_source": (2, D), "P": (T, D), "P_source": (T, D), "W_out": (D, V)}
    drawn = {name: rng.standard_normal(shape).astype(dtype) / 2 for name, shape in shapes.items()}
    drawn["W_out"] *= 2 / np.sqrt(dtype(D))
    return drawn | {"encoder": blocks["encoder"][0], "decoder": blocks["decoder"][0]}


def forward(params, batch, norm="post", mask=None, memory_mask=None):
    """The logits (B, T, V) of a batch, and the cache. mask: for self-attention, causal if left out."""
    mask = CAUSAL if mask is None else mask
    read, looked_up = embedding(batch["source"], params["E_source"])
    read, of_source = add_positions(read, params["P_source"])
    memory, encoded = encoder_block(read, params["encoder"], H, norm)
    x, begun = embedding(batch["target_in"], params["E"])
    x, placed = add_positions(x, params["P"])
    x, decoded = decoder_block(x, memory, params["decoder"], H, norm, mask, memory_mask)
    z, head = linear(x, params["W_out"])
    return z, (looked_up, of_source, encoded, begun, placed, decoded, head)


def backward(dz, cache):
    """dz (B, T, V) -> grads."""
    looked_up, of_source, encoded, begun, placed, decoded, head = cache
    grads = {}
    dx, grads["W_out"], _ = linear_backward(dz, head)
    dx, dmemory, grads["decoder"] = decoder_block_backward(dx, decoded)
    dread, grads["encoder"] = encoder_block_backward(dmemory, encoded)
    dx, grads["P"] = add_positions_backward(dx, placed)
    grads["E"] = embedding_backward(dx, begun)
    dread, grads["P_source"] = add_positions_backward(dread, of_source)
    grads["E_source"] = embedding_backward(dread, looked_up)
    return grads


def long(tree):
    """All numbers of a tree of arrays, as one long array."""
    return np.concatenate([array.ravel() for array in tree_leaves(tree)])


def train(seed, norm="post", steps=200, peak=1.2e-2, **masks):
    """Parameters and losses after that many steps of Adam on 32 new lines each.

    masks: see forward. Adam treats each number by itself, so all parameters are one long array for it, which
    is faster.
    """
    params, rng, losses = initial(seed, norm=norm), np.random.default_rng(100 + seed), []
    leaves, tree = tree_flatten(params)
    ends = np.cumsum([array.size for array in leaves])[:-1]
    flat = long(params)
    state = optim.adam_init(flat)
    for step in range(steps):
        batch = lines(rng, 32)
        z, cache = forward(params, batch, norm, **masks)
        loss, counted = cross_entropy(z, batch["target_out"])
        grads = backward(cross_entropy_backward(1.0, counted), cache)
        rate = peak * min(1, (step + 1) / 50) * (1 - step / steps)
        flat, state = optim.adam(flat, long(grads), state, rate)
        pieces = zip(np.split(flat, ends), leaves, strict=True)
        params = tree_unflatten(tree, [piece.reshape(like.shape) for piece, like in pieces])
        losses.append(float(loss))
    return params, np.array(losses)


def held_out(B=1000):
    """Lines on which nobody was trained but by chance, the same every time."""
    return lines(np.random.default_rng(9), B)


def moved(params, seed, norm="post"):
    """How far the furthest parameter of the encoder is from where it was at the start."""
    start, end = (tree_leaves(tree["encoder"]) for tree in (initial(seed, norm=norm), params))
    return max(np.abs(a - b).max() for a, b in zip(start, end, strict=True))


def loss_on(params, batch, norm="post", **masks):
    """The mean loss per letter."""
    return float(cross_entropy(forward(params, batch, norm, **masks)[0], batch["target_out"])[0])


# What the task costs at least -------------------------------------------------------------------------------


def bounds(V=V, T=T):
    """The least expected loss per letter, by what is seen; formulas of the chapter."""
    return {
        "everything": 2 * log(V) / T,
        "no source": (2 * log(V) + (T - 2) * log(2)) / T,
        "no earlier letters": log(V),
    }


VIEWS = {
    "everything": lambda source, out, t: (source, out[:t]),
    "no source": lambda source, out, t: (out[:t],),
    "no earlier letters": lambda source, out, t: (source, out[t - 1 : t]),
}


def counted(view, V, T):
    """The mean over t of the entropy of letter t given what is in view, by counting every line there is."""
    bits, firsts = (np.array([*product(range(n), repeat=k)]) for n, k in ((2, T), (V, 2)))
    batch = batch_of(bits.repeat(len(firsts), 0), np.tile(firsts, (len(bits), 1)), V)
    cases = [(tuple(s), tuple(y)) for s, y in zip(batch["source"].tolist(), batch["target_out"].tolist())]
    entropy = 0.0
    for t in range(T):
        seen, both = {}, {}
        for source, out in cases:
            known = view(source, out, t)
            seen[known] = seen.get(known, 0) + 1
            both[known, out[t]] = both.get((known, out[t]), 0) + 1
        entropy -= sum(n * log(n / seen[known]) for (known, _), n in both.items()) / len(cases)
    return entropy / T
