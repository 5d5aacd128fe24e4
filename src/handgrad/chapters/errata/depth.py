"""Six blocks and a loss that cannot change; and text D's session, run from one seed."""

import numpy as np

from ...ops import layer_norm, layer_norm_backward, linear, linear_backward, relu, relu_backward


def six_blocks(eps, loss, norm=True, seed=0, N=6, T=10, D=16):
    """Norms of the gradients of the first weight in each of N blocks LN(x + FFN(x)).

    loss: "mean square" of the outputs, as printed, or a "projection" on a random array. norm: or x + FFN(x).
    """
    rng = np.random.default_rng(seed)
    x, direction = rng.standard_normal((T, D)), rng.standard_normal((T, D))
    weights = rng.uniform(-(D**-0.5), D**-0.5, (N, 2, D, D))
    caches = []
    for W_1, W_2 in weights:
        h, first = linear(x, W_1)
        a, bent = relu(h)
        y, second = linear(a, W_2)
        x, normed = layer_norm(x + y, np.ones(D), np.zeros(D), eps) if norm else (x + y, None)
        caches.append((first, bent, second, normed))
    dx, norms = (2 * x / x.size if loss == "mean square" else direction), []
    for first, bent, second, normed in reversed(caches):
        dx = layer_norm_backward(dx, normed)[0] if norm else dx
        da, _, _ = linear_backward(dx, second)
        back, dW_1, _ = linear_backward(relu_backward(da, bent), first)
        dx = dx + back
        norms.append(np.linalg.norm(dW_1))
    return np.array(norms[::-1])


def lowered(loss, steps=100, rate=1.0, seed=0, T=10, D=16):
    """By how much a training lowers a loss of a layer's normalised outputs, in units of its entries.

    loss: "mean square" of the outputs, or a "projection" on a random array.
    """
    rng = np.random.default_rng(seed)
    x, direction, W = (rng.standard_normal(shape) for shape in ((T, D), (T, D), (D, D)))
    W, values = W / D**0.5, []
    for _ in range(steps):
        h, to_h = linear(x, W)
        y, normed = layer_norm(h, np.ones(D), np.zeros(D))
        entries, dy = (y**2, 2 * y) if loss == "mean square" else (y * direction, direction)
        values.append((entries.mean(), np.abs(entries).mean()))
        dh, _, _ = layer_norm_backward(dy / y.size, normed)
        W = W - rate * linear_backward(dh, to_h)[1]
    (first, size), (last, _) = values[0], values[-1]
    return (first - last) / size


def session(seed, V=40, T=12, rows=32, steps=4):
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
