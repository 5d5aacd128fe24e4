"""Name the four tokens before: a task whose least loss is known for any number of heads.

A token is four bits, each -1 or 1, all drawn independently: c (B, T, 4). A fixed table turns them into x =
2 c TABLE (B, T, D). At each position from 4 on the answer wanted is the bits of the four tokens before.
"""

import numpy as np

from ...ops import rotary_angles

BITS, BACK, LENGTH = 4, 4, 12
D = BITS * BACK  # 16
TABLE = np.linalg.qr(np.random.default_rng(7).standard_normal((D, BITS)))[0].T  # (4, D), orthonormal rows


def bits(rng, B=32, T=LENGTH):
    """c (B, T, 4), entries -1 and 1."""
    return rng.choice([-1.0, 1.0], (B, T, BITS))


def wanted(c):
    """c (B, T, 4) -> (B, T - 4, 16): at each position from 4 on, the token 1 before, 2 before, …"""
    return np.concatenate([c[:, BACK - n : c.shape[1] - n] for n in range(1, BACK + 1)], axis=-1)


def balanced(rng):
    """64 lines c (64, T, 4): each of the 48 bits has mean 0, and no two are correlated, exactly.

    Columns of a Hadamard matrix: rows and columns of it are orthogonal, and the first column is all ones.
    """
    lines = np.ones((1, 1))
    for _ in range(6):
        lines = np.block([[lines, lines], [lines, -lines]])
    columns = rng.permutation(np.arange(1, len(lines)))[: LENGTH * BITS]
    return lines[:, columns].reshape(-1, LENGTH, BITS)


def initial(rng, HK=D, HK_kv=None):
    """Random params of `multi_head` for heads of HK columns together, keys and values of HK_kv."""
    params = {"W_Q": (D, HK), "W_K": (D, HK_kv or HK), "W_V": (D, HK_kv or HK), "W_O": (HK, D)}
    params = {name: rng.standard_normal(shape) / np.sqrt(shape[0]) for name, shape in params.items()}
    params |= {"b_Q": rng.standard_normal(HK), "b_K": rng.standard_normal(HK_kv or HK)}
    return params | {"b_V": np.zeros(HK_kv or HK), "b_O": np.zeros(D)}


def alike(params, H):
    """The same parameters with every head a copy of head 0."""
    K = params["W_Q"].shape[1] // H
    made = {name: np.tile(x[..., :K], H) for name, x in params.items() if name[-1] in "QKV"}
    return params | made | {"W_O": np.tile(params["W_O"][:K], (H, 1))}


def by_hand(H, sharpness):
    """Parameters of H heads, no more than 4, of which head h copies the bits h + 1 tokens before.

    Queries and keys are biases only, all alike but for the turn: the scores are highest h + 1 tokens before.
    """
    params = {name: np.zeros_like(x) for name, x in initial(np.random.default_rng(0)).items()}
    K = D // H
    for h in range(H):
        angles, first = turns(K)[h + 1], h * K
        turned = np.stack([np.cos(angles), -np.sin(angles)], axis=-1).ravel()
        params["b_Q"][first : first + K] = sharpness * turned
        params["b_K"][first : first + K : 2] = sharpness
        params["W_V"][:, first : first + BITS] = TABLE.T / 2
        params["W_O"][first : first + BITS, h * BITS : (h + 1) * BITS] = np.eye(BITS)
    return params


def refitted(params, o, w):
    """The params with the W_O and b_O that bring joined outputs o (.., HK) nearest to w (.., 16)."""
    rows = np.column_stack([o.reshape(-1, o.shape[-1]), np.ones(o[..., 0].size)])
    best = np.linalg.lstsq(rows, w.reshape(-1, w.shape[-1]), rcond=None)[0]
    return params | {"W_O": best[:-1], "b_O": best[-1]}


def turns(K):
    """Rotary angles (T, K/2), from a base that suits so short a line."""
    return rotary_angles(LENGTH, K, base=4.0)


def torch_loss(params, c, H):
    """The loss of the chapter's layer, by PyTorch's own functions and complex numbers."""
    import torch
    from torch.nn import functional

    x = torch.tensor(2 * c @ TABLE)
    q, k, v = (x @ params[f"W_{n}"] + params[f"b_{n}"] for n in "QKV")
    q, k, v = (z.unflatten(-1, (H, -1)).transpose(1, 2) for z in (q, k, v))  # (B, H, T, K)
    angles = torch.tensor(turns(q.shape[-1]))

    def turned(z):
        pairs = torch.view_as_complex(z.unflatten(-1, (-1, 2)).contiguous())
        return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2)

    o = functional.scaled_dot_product_attention(turned(q), turned(k), v, is_causal=True)
    y = o.transpose(1, 2).flatten(-2) @ params["W_O"] + params["b_O"]
    return functional.mse_loss(y[:, BACK:], torch.tensor(wanted(c)))


def torch_train(params, H, rng, steps, rate):
    """The losses (steps,) of the same training by automatic differentiation and PyTorch's Adam."""
    import torch

    params = {name: torch.tensor(x, requires_grad=True) for name, x in params.items()}
    optimizer = torch.optim.Adam(params.values(), lr=rate)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = torch_loss(params, bits(rng), H)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return np.array(losses)
