"""Six blocks and a loss that cannot change."""

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
