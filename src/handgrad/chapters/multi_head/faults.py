"""Wrong backwards of multi-head attention, each right at some sizes, and how far each is from differences."""

import numpy as np

from ...algebra import like
from ...ops import (
    attention,
    attention_backward,
    causal_mask,
    linear,
    linear_backward,
    merge_heads,
    multi_head,
    split_heads,
)


def cut_without_transpose(x, H):
    """(B, T, H·K) -> (B, H, T, K) by a reshape alone: the right shape, the wrong numbers."""
    B, T, width = x.shape
    return x.reshape(B, H, T, width // H)


def joined_without_transpose(x):
    """(B, H, T, K) -> (B, T, H·K) by a reshape alone."""
    B, H, T, K = x.shape
    return x.reshape(B, T, H * K)


def group_sum(dy, G):
    """(B, H, S, K) -> (B, H/G, S, K): the copies of a head of keys lie side by side, and add."""
    B, H, S, K = dy.shape
    return dy.reshape(B, H // G, G, S, K).sum(axis=2)


def group_mean(dy, G):
    return group_sum(dy, G) / G


def group_last(dy, G):
    return dy[:, G - 1 :: G]


def group_interleaved(dy, G):
    """As if head h read keys h mod H_kv, and not h // G."""
    B, H, S, K = dy.shape
    return dy.reshape(B, G, H // G, S, K).sum(axis=1)


def backward(dy, cache, join=lambda x: merge_heads(x)[0], gather=group_sum, scale=lambda H, K: K**-0.5):
    """The backward of `multi_head` without rotary, with one of its steps exchanged."""
    look, G = cache["attended"], cache["copied"]["G"]
    H, K = look["q"].shape[1], look["q"].shape[-1]
    do, dW_O, _ = linear_backward(dy, cache["out"])
    dq, dk, dv = attention_backward(split_heads(do, H)[0], look | {"scale": scale(H, K)})
    dx, dW_Q, _ = linear_backward(join(dq), cache["from_q"])
    dmemory, dW_K, _ = linear_backward(join(gather(dk, G)), cache["from_k"])
    more, dW_V, _ = linear_backward(join(gather(dv, G)), cache["from_v"])
    return dx, dmemory + more, {"W_Q": dW_Q, "W_K": dW_K, "W_V": dW_V, "W_O": dW_O}


FAULTS = {
    "joined without transpose": dict(join=joined_without_transpose),
    "mean over the group": dict(gather=group_mean),
    "last of the group only": dict(gather=group_last),
    "groups interleaved": dict(gather=group_interleaved),
    "1/√(HK) for 1/√K": dict(scale=lambda H, K: (H * K) ** -0.5),
}

SIZES = {
    "one head\nH = 1": dict(B=2, T=3, S=4, D=5, H=1, H_kv=1, K=2),
    "one token\nT = S = 1": dict(B=2, T=1, S=1, D=5, H=4, H_kv=2, K=3),
    "no groups\nG = 1": dict(B=2, T=3, S=4, D=5, H=2, H_kv=2, K=3),
    "one group\nG = H": dict(B=2, T=3, S=4, D=5, H=4, H_kv=1, K=3),
    "all differ\nG = 2": dict(B=2, T=3, S=5, D=7, H=4, H_kv=2, K=6),
}


def errors(sizes, **fault):
    """The greatest relative error of a faulty backward, against central differences in every number."""
    rng = np.random.default_rng(5)
    B, T, S, D, H, H_kv, K = (sizes[n] for n in ("B", "T", "S", "D", "H", "H_kv", "K"))
    widths = {"W_Q": (D, H * K), "W_K": (D, H_kv * K), "W_V": (D, H_kv * K), "W_O": (H * K, D)}
    given = {"x": rng.standard_normal((B, T, D)), "memory": rng.standard_normal((B, S, D))}
    given |= {name: rng.standard_normal(shape) / D**0.5 for name, shape in widths.items()}
    dy = rng.standard_normal((B, T, D))

    def run(values):
        params = {name: values[name] for name in widths}
        return multi_head(values["x"], values["memory"], params, H)

    dx, dmemory, dparams = backward(dy, run(given)[1], **fault)
    found, worst = {"x": dx, "memory": dmemory} | dparams, 0.0
    for name, x in given.items():
        measured = np.empty_like(x)
        for place in np.ndindex(x.shape):
            step = np.zeros_like(x)
            step[place] = 1e-5
            ends = [(dy * run(given | {name: x + sign * step})[0]).sum() for sign in (1, -1)]
            measured[place] = (ends[0] - ends[1]) / 2e-5
        size = max(np.linalg.norm(measured), 1e-6 * np.linalg.norm(dy))
        worst = max(worst, np.linalg.norm(found[name] - measured) / size)
    return worst


# A layer that is cut wrongly, and whose gradients are right -------------------------------------------------


def reshaped(x, W_Q, W_K, W_V, W_O, H=3):
    """Causal self-attention (B, T, D) whose heads are cut and joined by a reshape alone. Returns y, cache."""
    made = [linear(x, W) for W in (W_Q, W_K, W_V)]
    q, k, v = (cut_without_transpose(y, H) for y, _ in made)
    o, look = attention(q, k, v, mask=like(causal_mask(x.shape[1]), x))
    y, end = linear(joined_without_transpose(o), W_O)
    return y, (look, end, [cache for _, cache in made], H)


def reshaped_backward(dy, cache):
    """dy (B, T, D) -> dx and the gradients of the four matrices: the derivative of `reshaped`."""
    look, end, made, H = cache
    do, dW_O, _ = linear_backward(dy, end)
    dqkv = attention_backward(cut_without_transpose(do, H), look)
    back = [linear_backward(joined_without_transpose(d), c) for d, c in zip(dqkv, made, strict=True)]
    return sum(dx for dx, _, _ in back), *(dW for _, dW, _ in back), dW_O


def reach(layer, x):
    """How far each token of one line x (1, T, D) moves each output: norms of derivatives (T, T)."""
    import torch

    jacobian = torch.autograd.functional.jacobian(layer, torch.tensor(x))  # (1, T, D, 1, T, D)
    return np.linalg.norm(jacobian[0, :, :, 0].numpy(), axis=(1, 3))
