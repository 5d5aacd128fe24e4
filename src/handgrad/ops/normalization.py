r"""Layer normalization and root-mean-square normalization, over the last axis: each token by itself.

LayerNorm, Ba et al. (2016), section 3, with the variance over D (not D - 1) and ε inside the root:

    forward    x̂  = (x - mean(x)) / √(var(x) + ε)
               y  = γ ∘ x̂ + β
    backward   dx̂ = γ ∘ dy
               dx = (dx̂ - mean(dx̂) - x̂ ∘ mean(dx̂ ∘ x̂)) / √(var(x) + ε)
               dγ = Σ dy ∘ x̂,   dβ = Σ dy                                 over all tokens

RMSNorm, Zhang and Sennrich (2019), equation 4, with ε inside the root; no mean is taken away:

    forward    x̂  = x / √(mean(x²) + ε),   y = γ ∘ x̂
    backward   dx = (dx̂ - x̂ ∘ mean(dx̂ ∘ x̂)) / √(mean(x²) + ε)
"""

from ..algebra import check_array, namespace


def layer_norm(x, gamma, beta, eps=1e-5):
    """x (..., D), gamma (D,), beta (D,) -> y (..., D), cache. Raises ValueError if shapes do not fit."""
    xp = namespace(x)
    check_array("gamma", gamma, x.shape[-1:])
    check_array("beta", beta, x.shape[-1:])
    centred = x - xp.mean(x, axis=-1, keepdims=True)  # (..., D)
    variance = xp.mean(centred * centred, axis=-1, keepdims=True)  # (..., 1)
    inverse_std = 1 / xp.sqrt(variance + eps)  # (..., 1)
    x_hat = centred * inverse_std  # (..., D)
    return gamma * x_hat + beta, {"x_hat": x_hat, "inverse_std": inverse_std, "gamma": gamma}


def layer_norm_backward(dy, cache):
    """dy (..., D) -> dx (..., D), dgamma (D,), dbeta (D,)."""
    xp = namespace(dy)
    x_hat = cache["x_hat"]
    check_array("dy", dy, x_hat.shape)
    tokens = tuple(range(dy.ndim - 1))
    dx_hat = cache["gamma"] * dy  # (..., D)
    through_mean = xp.mean(dx_hat, axis=-1, keepdims=True)  # (..., 1)
    through_variance = x_hat * xp.mean(dx_hat * x_hat, axis=-1, keepdims=True)  # (..., D)
    dx = cache["inverse_std"] * (dx_hat - through_mean - through_variance)
    return dx, xp.sum(dy * x_hat, axis=tokens), xp.sum(dy, axis=tokens)


def rms_norm(x, gamma, eps=1e-5):
    """x (..., D), gamma (D,) -> y (..., D), cache. Raises ValueError if shapes do not fit."""
    xp = namespace(x)
    check_array("gamma", gamma, x.shape[-1:])
    inverse_rms = 1 / xp.sqrt(xp.mean(x * x, axis=-1, keepdims=True) + eps)  # (..., 1)
    x_hat = x * inverse_rms  # (..., D)
    return gamma * x_hat, {"x_hat": x_hat, "inverse_rms": inverse_rms, "gamma": gamma}


def rms_norm_backward(dy, cache):
    """dy (..., D) -> dx (..., D), dgamma (D,)."""
    xp = namespace(dy)
    x_hat = cache["x_hat"]
    check_array("dy", dy, x_hat.shape)
    dx_hat = cache["gamma"] * dy  # (..., D)
    through_rms = x_hat * xp.mean(dx_hat * x_hat, axis=-1, keepdims=True)  # (..., D)
    dx = cache["inverse_rms"] * (dx_hat - through_rms)
    return dx, xp.sum(dy * x_hat, axis=tuple(range(dy.ndim - 1)))
