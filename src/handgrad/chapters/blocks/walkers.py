"""One encoder block and one decoder block for the task of two walkers: bits are read, letters written."""

import numpy as np
import optree

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
    embedding,
    embedding_backward,
    linear,
    linear_backward,
)

V, T, H = 6, 8, 2  # places on the circle; letters of a line, as many as bits of a source; heads
CAUSAL = causal_mask(T)


def initial(seed, D=32, F=64):
    """Parameters: tables E and E_source, positions P for both sides, two blocks, a head."""
    rng = np.random.default_rng(seed)
    blocks = init(Config("encoder-decoder", V, D, H, F, 1, norm="pre"), rng, np.float64)
    shapes = {"E": (V + 1, D), "E_source": (2, D), "P": (T, D), "P_source": (T, D), "W_out": (D, V)}
    drawn = {name: rng.standard_normal(shape) / 2 for name, shape in shapes.items()}
    drawn["W_out"] *= 2 / np.sqrt(D)
    return drawn | {"encoder": blocks["encoder"][0], "decoder": blocks["decoder"][0]}


def forward(params, bits, before, mask=CAUSAL, memory_mask=None):
    """bits, before (B, T) -> the logits (B, T, V), and the caches. mask: for self-attention."""
    read, looked_up = embedding(bits, params["E_source"])
    read, of_source = add_positions(read, params["P_source"])
    memory, encoded = encoder_block(read, params["encoder"], H, "pre")
    x, begun = embedding(before, params["E"])
    x, placed = add_positions(x, params["P"])
    x, decoded = decoder_block(x, memory, params["decoder"], H, "pre", mask, memory_mask)
    z, head = linear(x, params["W_out"])
    return z, (looked_up, of_source, encoded, begun, placed, decoded, head)


def backward(dz, caches):
    looked_up, of_source, encoded, begun, placed, decoded, head = caches
    grads = {}
    dx, grads["W_out"], _ = linear_backward(dz, head)
    dx, dmemory, grads["decoder"] = decoder_block_backward(dx, decoded)
    dx, grads["P"] = add_positions_backward(dx, placed)
    grads["E"] = embedding_backward(dx, begun)
    dread, grads["encoder"] = encoder_block_backward(dmemory, encoded)
    dread, grads["P_source"] = add_positions_backward(dread, of_source)
    grads["E_source"] = embedding_backward(dread, looked_up)
    return grads


def distance(tree, other):
    """The largest difference of two numbers at the same place of two trees."""
    pairs = zip(optree.tree_leaves(tree), optree.tree_leaves(other), strict=True)
    return max(np.abs(a - b).max() for a, b in pairs)
