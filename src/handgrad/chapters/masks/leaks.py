"""Ways to find out what a model sees and should not. A rule is a mask and a pair, as in `stack`."""

import numpy as np
import optree

from ...ops import cross_entropy
from . import stack


def felt(probe, mask, pair, params, config, x):
    """(T, T): the length of what dy_i = probe (D,) or a number, at output i alone, sends back to token j."""
    _, cache = stack.blocks(x, params, config, mask, pair)
    back = []
    for i in range(x.shape[1]):
        dy = np.zeros_like(x)
        dy[0, i] = probe
        dx, _ = stack.blocks_backward(dy, cache)
        back.append(np.linalg.norm(dx[0], axis=-1))
    return np.array(back)


def gap_to_beginnings(mask, pair, params, config, x):
    """How far the outputs of one pass over x (B, T, D) are from those of its beginnings, relative."""
    y, _ = stack.blocks(x, params, config, mask, pair)
    gaps = []
    for n in range(1, x.shape[1]):
        short, _ = stack.blocks(x[:, :n], params, config, beginning(mask, n), pair)
        gaps.append(np.abs(short[:, -1] - y[:, n - 1]).max())
    return max(gaps) / np.abs(y).max()


def beginning(mask, n):
    """The mask (T, T) of the first n positions; None for None."""
    return None if mask is None else mask[:n, :n]


def random_tokens(rng, B=32, T=6, V=10):
    """A batch of tokens drawn uniformly and independently, and the tokens after them: (B, T) each."""
    tokens = rng.integers(0, V, (B, T + 1))
    return {"tokens": tokens[:, :-1], "target_out": tokens[:, 1:]}


def one_pass(params, config, batch, mask, pair):
    """The loss at each position (T,), read in one pass."""
    z, _ = stack.logits(params, config, batch["tokens"], mask, pair)
    return by_position(z, batch["target_out"])


def by_position(z, targets):
    """The loss at each position (T,) of logits z (B, T, V) for targets (B, T)."""
    return np.array([cross_entropy(z[:, i], targets[:, i])[0] for i in range(z.shape[1])])


def token_by_token(params, config, batch, mask, pair):
    """The loss at each position (T,), each prediction from the beginning alone."""
    found = []
    for n in range(1, batch["tokens"].shape[1] + 1):
        z, _ = stack.logits(params, config, batch["tokens"][:, :n], beginning(mask, n), pair)
        found.append(cross_entropy(z[:, -1], batch["target_out"][:, n - 1])[0])
    return np.array(found)


def shares(params, config, tokens, mask):
    """What is left of the weights (B, H, T) of the first block when the mask comes after the softmax."""
    _, (_, (caches, _), _) = stack.logits(params, config, tokens, mask, stack.LAST)
    return caches[0][0]["f"]["attended"]["a"].sum(axis=-1)


def padded_batch(extra):
    """Two sentences, of 5 and of 3 tokens, padded with 0 to 5 + extra."""
    tokens = np.array([[4, 7, 2, 9, 1], [6, 3, 8, 0, 0]])
    targets = np.array([[7, 2, 9, 1, 5], [3, 8, 2, 0, 0]])
    wider = ((0, 0), (0, extra))
    return {"tokens": np.pad(tokens, wider), "target_out": np.pad(targets, wider)}


def differ(one, other):
    """The largest difference between two trees of arrays."""
    pairs = zip(optree.tree_leaves(one), optree.tree_leaves(other), strict=True)
    return max(np.abs(x - y).max() for x, y in pairs)


def torch_losses(params, config, rng, steps, rate):
    """The losses (steps,) of the same training by PyTorch, from these params of a decoder.

    The kind of config says which: "decoder" has the causal mask, "encoder" none.
    """
    import torch

    from ... import twin

    other = twin.Twin(config)
    twin.load(other, {name.replace("decoder", config.kind): part for name, part in params.items()})
    optimizer, losses = torch.optim.Adam(other.parameters(), lr=rate), []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = other.loss(random_tokens(rng))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return np.array(losses)
