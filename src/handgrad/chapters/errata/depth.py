"""Six blocks and a loss that cannot change."""

import numpy as np

from ...blocks import transform, transform_backward
from ...ops import layer_norm, layer_norm_backward


def six_blocks(eps, loss, norm=True, seed=0, N=6, T=10, D=16):
    """Norms of the gradients of the first weight in each of N blocks LN(x + FFN(x)).

    loss: "mean square" of the outputs, as printed, or a "projection" on a random array. norm: or x + FFN(x).
    """
    rng = np.random.default_rng(seed)
    x, direction = rng.standard_normal((T, D)), rng.standard_normal((T, D))
    weights = rng.uniform(-(D**-0.5), D**-0.5, (N, 2, D, D))
    caches = []
    for W_1, W_2 in weights:
        y, cache = transform(x, {"W_1": W_1, "W_2": W_2})
        x, normed = layer_norm(x + y, np.ones(D), np.zeros(D), eps) if norm else (x + y, None)
        caches.append((cache, normed))
    dx, norms = (2 * x / x.size if loss == "mean square" else direction), []
    for cache, normed in reversed(caches):
        dx = layer_norm_backward(dx, normed)[0] if norm else dx
        back, grads = transform_backward(dx, cache)
        dx = dx + back
        norms.append(np.linalg.norm(grads["W_1"]))
    return np.array(norms[::-1])
