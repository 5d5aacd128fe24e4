"""A task for cross-attention: copy a line of letters or write it backwards, and what it costs at least.

A source is a line of S letters out of V. The writer tosses a coin and writes a mark, FORTH or BACK. Then it
writes T − 1 of the letters, from the first onwards or from the last backwards.
"""

from collections import Counter
from itertools import product
from math import comb, lgamma, log

import numpy as np

from handgrad import optim
from handgrad.algebra import like
from handgrad.blocks import decoder_block, decoder_block_backward
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
    softmax,
)

V, S, T = 10, 8, 7  # letters, length of a source, length of what is written
FORTH, BACK, BEGIN = V, V + 1, V + 2  # tokens beside the letters 0 … V − 1
NAMES = "abcdefghij→←·"


def lines(rng, B):
    """B sources with what is written: {source (B, S), target_in (B, T), target_out (B, T)}."""
    source = rng.integers(V, size=(B, S))
    mark = rng.integers(FORTH, BACK + 1, size=(B, 1))
    return batch_of(source, mark)


def batch_of(source, mark):
    """The batch of sources (B, S) with marks (B, 1)."""
    letters = np.where(mark == FORTH, source[:, : T - 1], source[:, ::-1][:, : T - 1])
    out = np.concatenate([mark, letters], axis=1)  # (B, T)
    begin = np.full_like(mark, BEGIN)
    return {
        "source": source,
        "target_in": np.concatenate([begin, out[:, :-1]], axis=1),
        "target_out": out,
    }


def initial(seed, D=32, H=2, F=64, N=1, dtype=np.float64):
    """Parameters: one table E of tokens, positions P of the writer and P_source, N decoder blocks, a head."""
    rng = np.random.default_rng(seed)
    config = Config("encoder-decoder", V + 3, D, H, F, N)
    blocks = init(config, rng, dtype)["decoder"]
    shapes = {"E": (V + 3, D), "P_source": (S, D), "P": (T, D), "W_out": (D, V + 3)}
    drawn = {name: rng.standard_normal(shape).astype(dtype) for name, shape in shapes.items()}
    params = {name: x / 2 for name, x in drawn.items()}
    return params | {"W_out": drawn["W_out"] / np.sqrt(dtype(D)), "blocks": blocks}


def examination(rng, B=500):
    """B sources, each written forth and back: a batch of 2 B lines in which the coin is fair."""
    source = rng.integers(V, size=(B, S)).repeat(2, axis=0)
    return batch_of(source, np.tile([[FORTH], [BACK]], (B, 1)))


# The writer -------------------------------------------------------------------------------------------------


def forward(params, batch, memory_mask=None, slip=None, norm="post", H=2):
    """The logits (B, T, V + 3) of a batch, and the cache. slip: None, "no order" or "own states"."""
    read, looked_up = embedding(like(batch["source"], params["E"]), params["E"])  # (B, S, D)
    memory, of_source = add_positions(read, params["P_source"])
    written, begun = embedding(like(batch["target_in"], params["E"]), params["E"])  # (B, T, D)
    x, placed = add_positions(written, params["P"])
    blocks = []
    for block in params["blocks"]:
        seen = {"no order": read, "own states": x}.get(slip, memory)
        masks = {"mask": causal_mask(x.shape[1]), "memory_mask": memory_mask}
        x, cache = decoder_block(x, seen, block, H, norm, **masks)
        blocks.append(cache)
    z, head = linear(x, params["W_out"])
    return z, {"slip": slip, "ends": (looked_up, of_source, begun, placed, head), "blocks": blocks}


def backward(dz, cache):
    """dz (B, T, V + 3) -> grads, and what each block returns for the memory, a list of (B, S, D)."""
    looked_up, of_source, begun, placed, head = cache["ends"]
    grads, parts = {"blocks": []}, []
    dx, grads["W_out"], _ = linear_backward(dz, head)
    for block in reversed(cache["blocks"]):
        dx, dmemory, own = decoder_block_backward(dx, block)
        if cache["slip"] == "own states":  # x was taken for the memory, so the memory hears nothing
            dx, dmemory = dx + dmemory, np.zeros(of_source["shape"])
        grads["blocks"].insert(0, own)
        parts.insert(0, dmemory)
    dwritten, grads["P"] = add_positions_backward(dx, placed)
    dread, grads["P_source"] = add_positions_backward(sum(parts), of_source)  # every block uses the memory
    if cache["slip"] == "no order":
        grads["P_source"] = 0 * grads["P_source"]
    grads["E"] = embedding_backward(dwritten, begun) + embedding_backward(dread, looked_up)
    return grads, parts


def train(seed, steps=200, N=1, peak=1.2e-2, watch=None, dtype=np.float64, **options):
    """Parameters after that many steps of Adam on 32 new lines each, and the losses. options: see forward."""
    params, rng, losses = initial(seed, N=N, dtype=dtype), np.random.default_rng(100 + seed), []
    state = optim.adam_init(params)
    for step in range(steps):
        if watch:
            watch(step, params)
        batch = lines(rng, 32)
        z, cache = forward(params, batch, **options)
        loss, counted = cross_entropy(z, batch["target_out"])
        grads, _ = backward(cross_entropy_backward(1.0, counted), cache)
        rate = peak * min(1, (step + 1) / 50) * (1 - step / steps)
        params, state = optim.adam(params, grads, state, rate)
        losses.append(float(loss))
    return params, np.array(losses)


def loss_on(params, batch, **options):
    """The mean loss per token on a batch."""
    z, _ = forward(params, batch, **options)
    return float(cross_entropy(z, batch["target_out"])[0])


def weights(cache, block=0):
    """The weights (B, H, T, S) of cross-attention in one block."""
    return cache["blocks"][block]["crossed"]["f"]["attended"]["a"]


def arrivals(params, batch, **options):
    """What the loss at each place t sends to each source: dmemory of ℓ_t alone, (B, T, S, D)."""
    z, cache = forward(params, batch, **options)
    _, counted = cross_entropy(z, batch["target_out"])
    dz = cross_entropy_backward(float(batch["target_out"].size), counted)  # of the sum of the losses
    found = []
    for t in range(z.shape[1]):
        alone = np.zeros_like(dz)
        alone[:, t] = dz[:, t]
        found.append(sum(backward(alone, cache)[1]))
    return np.stack(found, axis=1)


def largest(params, batch):
    """Where the largest weight and the largest gradient of each letter are, and how large.

    Two pairs: for the weights (B, H, T − 1), for the gradients, which count by their norm, (B, T − 1).
    """
    _, cache = forward(params, batch)
    sides = weights(cache)[:, :, 1:], np.linalg.norm(arrivals(params, batch), axis=-1)[:, 1:]
    return [(side.argmax(axis=-1), side.max(axis=-1)) for side in sides]


# Writing ----------------------------------------------------------------------------------------------------


def write(params, source, rng, at_once=False):
    """Draw T tokens for each source (B, S): one after the other, or all in one go. Returns (B, T)."""
    B = len(source)
    target_in = np.full((B, T), BEGIN)
    for t in range(T):
        z, _ = forward(params, {"source": source, "target_in": target_in})
        drawn = (z + rng.gumbel(size=z.shape)).argmax(axis=-1)  # (B, T), a draw from softmax(z)
        if at_once:
            return drawn
        if t + 1 < T:
            target_in[:, t + 1] = drawn[:, t]
    return np.concatenate([target_in[:, 1:], drawn[:, -1:]], axis=1)


def allowed(source, written):
    """Whether each line written (B, T) is its source forth or back: (B,)."""
    sides = [batch_of(source, np.full((len(source), 1), mark))["target_out"] for mark in (FORTH, BACK)]
    return np.any([(written == side).all(axis=1) for side in sides], axis=0)


def share_right(params, batch, at_once):
    """The share of the sources of a batch for which `write` draws an allowed line."""
    return allowed(batch["source"], write(params, batch["source"], np.random.default_rng(5), at_once)).mean()


def on_right(params, batch):
    """All at once: the probability that falls on the tokens of the two right lines, by place, (T,)."""
    source = batch["source"]
    z, _ = forward(params, {"source": source, "target_in": np.full((len(source), T), BEGIN)})
    found, right = softmax(z)[0], np.zeros(z.shape, dtype=bool)
    for mark in (FORTH, BACK):
        np.put_along_axis(
            right, batch_of(source, np.full((len(source), 1), mark))["target_out"][..., None], True, -1
        )
    return (found * right).sum(axis=-1).mean(axis=0)


# What the task costs at least -------------------------------------------------------------------------------


def bounds(V=V, S=S, T=T):
    """The least expected loss per token, by what the writer sees of the source; formulas of the chapter."""
    ordered = lgamma(S + 1) - V * sum(
        comb(S, n) * (1 / V) ** n * (1 - 1 / V) ** (S - n) * lgamma(n + 1) for n in range(S + 1)
    )
    rest = S - T + 1  # letters that are not written
    unread = lgamma(rest + 1) - V * sum(
        comb(rest, n) * (1 / V) ** n * (1 - 1 / V) ** (rest - n) * lgamma(n + 1) for n in range(rest + 1)
    )
    hidden = sum(S - 1 - i > i + 1 for i in range(T - 1))  # letters backwards that lie behind the mask
    return {
        "everything": log(2) / T,
        "its own future": log(V) / T,
        "sources 0 to t": (log(2) + hidden / 2 * log(V)) / T,
        "letters, no order": (log(2) + ordered - unread) / T,
        "nothing": (log(2) + (T - 1) * log(V)) / T,
    }


VIEWS = {
    "everything": lambda source, out, t: (source, out[:t]),
    "its own future": lambda source, out, t: (out[:-1],),
    "sources 0 to t": lambda source, out, t: (source[: t + 1], out[:t]),
    "letters, no order": lambda source, out, t: (tuple(sorted(source)), out[:t]),
    "nothing": lambda source, out, t: (out[:t],),
}


def counted(view, V, S, T):
    """The mean over t of the entropy of token t given what is in view, by counting every line there is."""
    cases = []
    for source in product(range(V), repeat=S):
        cases.append((source, ("forth", *source[: T - 1])))
        cases.append((source, ("back", *source[::-1][: T - 1])))
    entropy = 0.0
    for t in range(T):
        seen = Counter(view(source, out, t) for source, out in cases)
        both = Counter((view(source, out, t), out[t]) for source, out in cases)
        entropy -= sum(n * log(n / seen[known]) for (known, _), n in both.items()) / len(cases)
    return entropy / T
