r"""Activations, element by element. Φ and φ are the distribution function and density of N(0, 1).

    relu(x)      = max(x, 0)                         relu'      = 1 if x > 0 else 0   (0 at the kink)
    gelu(x)      = x Φ(x)                            gelu'      = Φ(x) + x φ(x)
    gelu_tanh(x) = x s,  s = (1 + tanh(u))/2         gelu_tanh' = s (1 + x (1 - s) 2u')
                   u = √(2/π)(x + 0.044715 x³)       u'         = √(2/π)(1 + 3·0.044715 x²)
    silu(x)      = x σ(x)                            silu'      = σ(x) (1 + x (1 - σ(x)))

0.044715 is written as a ratio of integers, so that it is exact in every algebra.
GELU: Hendrycks and Gimpel (2016), section 2. SiLU: Elfwing et al. (2018), section 2.
"""

from ..algebra import check_array, error_function, namespace, pi, root


def relu(x):
    """x (...) -> y (...), cache."""
    xp = namespace(x)
    return xp.where(xp.less_equal(x, 0), 0, x), {"x": x}  # with greater(x, 0), x, 0 NaN would become 0


def relu_backward(dy, cache):
    """dy (...) -> dx (...). The derivative at 0 is chosen to be 0."""
    check_array("dy", dy, cache["x"].shape)
    xp = namespace(dy)
    return xp.where(xp.greater(cache["x"], 0), dy, 0)


def gelu(x):
    """The exact GELU. x (...) -> y (...), cache."""
    Phi = (1 + error_function(x / root(2, x))) / 2
    return x * Phi, {"x": x, "Phi": Phi}


def gelu_backward(dy, cache):
    """dy (...) -> dx (...)."""
    x, Phi = cache["x"], cache["Phi"]
    check_array("dy", dy, x.shape)
    density = namespace(x).exp(-x * x / 2) / root(2 * pi(x), x)
    return dy * (Phi + x * density)


def gelu_tanh(x):
    """The tanh form of GELU, as in GPT-2. x (...) -> y (...), cache."""
    a = root(2 / pi(x), x)
    u = x * (a + a * 44715 / 1_000_000 * (x * x))
    s = (1 + namespace(x).tanh(u)) / 2
    return x * s, {"x": x, "s": s}


def gelu_tanh_backward(dy, cache):
    """dy (...) -> dx (...)."""
    x, s = cache["x"], cache["s"]
    check_array("dy", dy, x.shape)
    a = root(2 / pi(x), x)
    two_du = 2 * a + 6 * a * 44715 / 1_000_000 * (x * x)
    return dy * (s * (1 + x * (1 - s) * two_du))


def silu(x):
    """SiLU, also called swish. x (...) -> y (...), cache."""
    xp = namespace(x)
    sigma = (1 + xp.tanh(x / 2)) / 2  # the logistic function, which cannot overflow in this form
    return x * sigma, {"x": x, "sigma": sigma}


def silu_backward(dy, cache):
    """dy (...) -> dx (...)."""
    x, sigma = cache["x"], cache["sigma"]
    check_array("dy", dy, x.shape)
    return dy * sigma * (1 + x * (1 - sigma))


ACTIVATIONS = {
    "relu": (relu, relu_backward),
    "gelu": (gelu, gelu_backward),
    "gelu_tanh": (gelu_tanh, gelu_tanh_backward),
    "silu": (silu, silu_backward),
}
