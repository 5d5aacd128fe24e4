r"""Group normalization, Wu and He (2018), section 3.

The D features of a sequence are cut into G groups of n = D/G neighbours. Mean and variance of a group are
taken over its n features in all T positions, and ε stands inside the root:

    forward    x̂  = (x - mean(x)) / √(var(x) + ε)          mean and var of the group
               y  = γ ∘ x̂ + β
    backward   dx̂ = γ ∘ dy
               dx = (dx̂ - mean(dx̂) - x̂ ∘ mean(dx̂ ∘ x̂)) / √(var(x) + ε)
               dγ = Σ dy ∘ x̂,   dβ = Σ dy                   over all positions of all sequences
"""

from ...algebra import check_array, check_integer, namespace


def group_norm(x, gamma, beta, G, eps=1e-5):
    """x (..., T, D), gamma (D,), beta (D,) -> y (..., T, D), cache.

    Raises ValueError if shapes do not fit or if G does not divide D, TypeError if G is no integer.
    """
    xp = namespace(x)
    check_integer("G", G, 1)
    check_array("x", x)
    if x.ndim < 2:
        raise ValueError(f"x: expected shape (..., T, D), got {tuple(x.shape)}")
    *lead, T, D = x.shape
    check_array("gamma", gamma, (D,))
    check_array("beta", beta, (D,))
    if D % G:
        raise ValueError(f"G: expected a divisor of D = {D}, got {G}")
    groups = xp.reshape(x, (*lead, T, G, D // G))
    centred = groups - xp.mean(groups, axis=(-3, -1), keepdims=True)  # (..., T, G, n)
    variance = xp.mean(centred * centred, axis=(-3, -1), keepdims=True)  # (..., 1, G, 1)
    inverse_std = 1 / xp.sqrt(variance + eps)  # (..., 1, G, 1)
    x_hat = centred * inverse_std  # (..., T, G, n)
    cache = {"x_hat": x_hat, "inverse_std": inverse_std, "gamma": gamma}
    return gamma * xp.reshape(x_hat, x.shape) + beta, cache


def group_norm_backward(dy, cache):
    """dy (..., T, D) -> dx (..., T, D), dgamma (D,), dbeta (D,)."""
    xp = namespace(dy)
    x_hat = cache["x_hat"]
    *lead, T, G, n = x_hat.shape
    check_array("dy", dy, (*lead, T, G * n))
    positions = tuple(range(dy.ndim - 1))
    dgamma = xp.sum(dy * xp.reshape(x_hat, dy.shape), axis=positions)
    dx_hat = xp.reshape(cache["gamma"] * dy, x_hat.shape)  # (..., T, G, n)
    through_mean = xp.mean(dx_hat, axis=(-3, -1), keepdims=True)  # (..., 1, G, 1)
    through_variance = x_hat * xp.mean(dx_hat * x_hat, axis=(-3, -1), keepdims=True)  # (..., T, G, n)
    dx = cache["inverse_std"] * (dx_hat - through_mean - through_variance)
    return xp.reshape(dx, dy.shape), dgamma, xp.sum(dy, axis=positions)
