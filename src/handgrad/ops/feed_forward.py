r"""The position-wise feed-forward layer, plain and gated; φ is one of ACTIVATIONS.

    plain      y = φ(x W_1 + b_1) W_2 + b_2              Vaswani et al. (2017), section 3.3
    gated      y = (φ(x W_gate) ∘ (x W_up)) W_down       Shazeer (2020), equation 6

The gated layer is called SwiGLU if φ is SiLU, and GEGLU if φ is GELU. The backward of either layer is the
chain of its parts, last part first.
"""

from ..algebra import check_array, check_names
from .activations import ACTIVATIONS
from .dropout import dropout, dropout_backward
from .linear import linear, linear_backward

GATED = {"swiglu": "silu", "geglu": "gelu"}
"""The gated layers by name, each with its φ."""


def feed_forward(x, params, activation="relu", keep=None, p=0.0):
    """x (..., D), params {W_1 (D, F), b_1 (F,), W_2 (F, D), b_2 (D,)} -> y (..., D), cache.

    The biases may be absent. `keep` (..., F) Boolean and `p` drop hidden activations.
    Raises ValueError on an unknown activation, or if names or shapes do not fit.
    """
    act, _ = _look_up(activation)
    check_names("params", params, ("W_1", "W_2"), ("b_1", "b_2"))
    h, first = linear(x, params["W_1"], params.get("b_1"))  # (..., F)
    a, active = act(h)
    a, dropped = dropout(a, keep, p)
    y, second = linear(a, params["W_2"], params.get("b_2"))  # (..., D)
    return y, {
        "first": first,
        "active": active,
        "dropped": dropped,
        "second": second,
        "activation": activation,
    }


def feed_forward_backward(dy, cache):
    """dy (..., D) -> dx (..., D), dparams with the keys of params."""
    _, act_backward = _look_up(cache["activation"])
    da, dW_2, db_2 = linear_backward(dy, cache["second"])
    dh = act_backward(dropout_backward(da, cache["dropped"]), cache["active"])
    dx, dW_1, db_1 = linear_backward(dh, cache["first"])
    dparams = {"W_1": dW_1, "b_1": db_1, "W_2": dW_2, "b_2": db_2}
    return dx, {name: gradient for name, gradient in dparams.items() if gradient is not None}


def gated_feed_forward(x, params, activation="silu"):
    """x (..., D), params {W_gate (D, F), W_up (D, F), W_down (F, D)} -> y (..., D), cache.

    Raises ValueError on an unknown activation, or if names or shapes do not fit.
    """
    act, _ = _look_up(activation)
    check_names("params", params, ("W_gate", "W_up", "W_down"))
    check_array("W_up", params["W_up"], params["W_gate"].shape)
    g, gate = linear(x, params["W_gate"])  # (..., F)
    u, up = linear(x, params["W_up"])  # (..., F)
    a, active = act(g)
    y, down = linear(a * u, params["W_down"])  # (..., D)
    return y, {
        "gate": gate,
        "up": up,
        "active": active,
        "a": a,
        "u": u,
        "down": down,
        "activation": activation,
    }


def gated_feed_forward_backward(dy, cache):
    """dy (..., D) -> dx (..., D), dparams with the keys of params."""
    _, act_backward = _look_up(cache["activation"])
    dproduct, dW_down, _ = linear_backward(dy, cache["down"])
    dx_up, dW_up, _ = linear_backward(dproduct * cache["a"], cache["up"])
    dg = act_backward(dproduct * cache["u"], cache["active"])
    dx_gate, dW_gate, _ = linear_backward(dg, cache["gate"])
    # x is used twice, by the gate and by the product it gates
    return dx_gate + dx_up, {"W_gate": dW_gate, "W_up": dW_up, "W_down": dW_down}


def _look_up(activation):
    if activation not in ACTIVATIONS:
        raise ValueError(f"activation: expected one of {sorted(ACTIVATIONS)}, got {activation!r}")
    return ACTIVATIONS[activation]
