"""What looked wrong, and is not; and what is left over: each with the run that decides."""

import numpy as np

from ... import accounting, optim
from ...check import measured
from ...ops import causal_mask, cross_entropy, multi_head, positions
from . import columns
from .formulas import off


def decoupled(theta, gradients, rate=0.01, beta_1=0.9, beta_2=0.999, eps=1e-8, decay=0.1):
    """Text D's AdamW as it stands there: θ (n,) after the gradients (steps, n)."""
    m, v = np.zeros_like(theta), np.zeros_like(theta)
    for t, g in enumerate(gradients, start=1):
        m, v = beta_1 * m + (1 - beta_1) * g, beta_2 * v + (1 - beta_2) * g**2
        m_hat, v_hat = m / (1 - beta_1**t), v / (1 - beta_2**t)
        theta = theta - rate * m_hat / (np.sqrt(v_hat) + eps) - rate * decay * theta
    return theta


def adamw(steps=100, n=7, seed=0):
    """How far text D's AdamW is from torch's and from ours, and how far Adam with an L2 term is."""
    import torch

    rng = np.random.default_rng(seed)
    start, gradients = rng.standard_normal(n), rng.standard_normal((steps, n))
    weight = torch.nn.Parameter(torch.tensor(start))
    theirs = torch.optim.AdamW([weight], lr=0.01, weight_decay=0.1)
    coupled = torch.nn.Parameter(torch.tensor(start))
    adam = torch.optim.Adam([coupled], lr=0.01, weight_decay=0.1)
    params = {"w": start}
    state = optim.adamw_init(params)
    for g in gradients:
        weight.grad, coupled.grad = torch.tensor(g), torch.tensor(g)
        theirs.step()
        adam.step()
        params, state = optim.adamw(params, {"w": g}, state, 0.01, weight_decay=0.1)
    printed = decoupled(start, gradients)
    wanted = weight.detach().numpy()
    return off(printed, wanted), off(params["w"], wanted), off(coupled.detach().numpy(), wanted)


def digits():
    """Text D's loss, perplexity and two entries of a gradient, rounded once to float32."""
    z = np.array([[2.0, 1.0, 0.1, -1.0, 0.5], [1.2, 0.0, 0.3, 2.0, -0.2]])
    loss, _ = cross_entropy(z, np.array([0, 3]))
    other = 1 / (1 + np.exp(4.5))
    return [
        float(np.float32(loss)),
        float(np.float32(np.exp(loss))),
        float(np.float32(1 - other)) - 1,
        float(np.float32(other)),
    ]


def seeded(seed, V=40, T=12, rows=32, steps=4):
    """The losses (steps,) of text D's session in small, from its one call of a seed on.

    Six blocks are drawn and used, as in its 3.4; then the model of its 4.3, dropout included, learns by AdamW
    from batches in the order of the rows. The tokens are stand-ins. The global generator is left as it was.
    """
    import torch
    from torch import nn

    data = torch.tensor(np.random.default_rng(0).integers(0, V, (rows, T)))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        torch.randn(1, 10, 16), [(nn.Linear(16, 16), nn.Linear(16, 16), nn.LayerNorm(16)) for _ in range(6)]
        embed, places = nn.Embedding(V, 64), nn.Embedding(T, 64)
        layer = nn.TransformerEncoderLayer(64, 2, batch_first=True)
        model = nn.Sequential(nn.TransformerEncoder(layer, 2), nn.Linear(64, V))
        parts = nn.ModuleList([embed, places, model])
        optimizer, losses = torch.optim.AdamW(parts.parameters(), lr=1e-3), []
        for batch in data.split(rows // steps):
            z = model(embed(batch) + places(torch.arange(T)))
            loss = nn.functional.cross_entropy(z[:, :-1].reshape(-1, V), batch[:, 1:].reshape(-1))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses


def gpt3():
    """The parameters of GPT-3, with biases, norms and positions, and by 96 · 12 D² alone."""
    model = next(model for model in accounting.PUBLISHED if model.name == "GPT-3")
    return accounting.count(model.config), 96 * 12 * 12288**2


def by_columns(K=4, D=5, T=6, seed=6):
    """How far text C's gradient of B is from differences."""
    rng = np.random.default_rng(seed)
    A, B, C = rng.standard_normal((3, K, D))
    X, E = rng.standard_normal((D, T)), rng.standard_normal((K, T))
    _, (q, _, v, a) = columns.forward(A, B, C, X)
    da = v.T @ E
    dc = a * (da - (a * da).sum(axis=0))
    by_differences = measured(lambda B: (E * columns.forward(A, B, C, X)[0]).sum(), B)
    return off(q @ dc @ X.T / K**0.5, by_differences)


def from_one(T=50, D=64):
    """How far text A's waves, whose positions and features count from 1, are from ours."""
    i, j = np.arange(1, T + 1)[:, None], np.arange(1, D + 1)
    angles = (i - 1) / 10000.0 ** ((j - 1 - (j - 1) % 2) / D)
    waves = np.where(j % 2 == 1, np.sin(angles), np.cos(angles))
    return float(np.abs(waves - positions.sinusoidal(T, D)).max())


def permuted(waves, causal, T=6, D=8, seed=0):
    """How far attention with two heads is from permuting its outputs along with its tokens."""
    rng = np.random.default_rng(seed)
    W = {name: rng.standard_normal((D, D)) for name in ("W_Q", "W_K", "W_V", "W_O")}
    x, order = rng.standard_normal((1, T, D)), rng.permutation(T)
    P = positions.sinusoidal(T, D) if waves else 0

    def layer(x):
        mask = causal_mask(T) if causal else None
        return multi_head(x + P, x + P, W, H=2, mask=mask)[0]

    return off(layer(x[:, order]), layer(x)[:, order])
