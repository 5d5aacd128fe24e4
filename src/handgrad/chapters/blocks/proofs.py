"""What `check.prove` runs on symbols: the shipped sub-layer around a linear layer."""

from sympy import symbols

from handgrad.blocks import sublayer, sublayer_backward
from handgrad.ops import linear, linear_backward
from handgrad.ops.table import Op


def forward(x, gamma, beta, W, place, eps):
    """A sub-layer whose f is h W, with LayerNorm."""
    return sublayer(x, lambda h: linear(h, W), {"gamma": gamma, "beta": beta}, place, eps)


def backward(dy, cache):
    """dx, dgamma, dbeta, dW."""

    def of_linear(do, kept):
        dh, dW, _ = linear_backward(do, kept)
        return dh, dW

    dx, own, dW = sublayer_backward(dy, cache, of_linear)
    return dx, own["gamma"], own["beta"], dW


def around_linear(place, backward=backward):
    """The operation for `check.prove`: two tokens of three features, every entry and ε symbols."""
    return Op(
        forward,
        backward,
        inputs={"x": "B T D", "gamma": "D", "beta": "D", "W": "D D"},
        sizes=dict(B=1, T=2, D=3),
        options=lambda sizes, rng: {"place": place, "eps": 1e-5},
        exact={"eps": symbols("epsilon", positive=True)},
    )
