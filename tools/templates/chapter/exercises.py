"""Exercises of chapter §number: ✎ a linear layer.

A wrong answer is a function whose docstring is the diagnosis; in a derivation it is an expression beside
its diagnosis.
"""

import numpy as np
from sympy import symbols

from ...course.judge.derivation import Derivation
from ...course.judge.function import Case, Exercise

# ---- the slope of one output

x_0, x_1, w_0, w_1 = symbols("x_0 x_1 w_0 w_1")
OUTPUT = w_0 * x_0 + w_1 * x_1

SLOPE = Derivation(
    "§{topic}_slope",
    w_0 * OUTPUT,
    {symbol: "real" for symbol in (x_0, x_1, w_0, w_1)},
    (
        (OUTPUT, "✎ The inner derivative is missing: the output changes with x_0 by w_0."),
        (w_0, "✎ This is the derivative of the output. The loss is half its square."),
        (w_0**2 * x_0, "✎ The other input is missing: the output is a sum of both."),
        (2 * w_0 * OUTPUT, "✎ Twice too large: the ½ of the loss cancels the 2 of the square."),
        (w_1 * OUTPUT, "✎ This is the derivative by the other input."),
        (x_0 * OUTPUT, "✎ This is the derivative by the weight w_0."),
    ),
    (
        "✎ First the derivative of the loss by the output, then that of the output by x_0.",
        "✎ The first is the output itself. Multiply the two.",
    ),
)


# ---- the gradient of the input


def dx(dy, W):
    return dy @ W.T


def dy_and_weights(rng, B, T, D, F):
    """dy (B, T, F) and W (D, F); from three tokens on, the last repeats the first."""
    dy, W = rng.normal(size=(B, T, F)), rng.normal(size=(D, F))
    if T > 2:
        dy[:, -1] = dy[:, 0]
    return dy, W


CASES = (
    Case("one token", dy_and_weights, {"B": 1, "T": 1, "D": 2, "F": 3}),
    Case("more inputs than outputs", dy_and_weights, {"B": 2, "T": 3, "D": 5, "F": 4}),
    Case("as many inputs as outputs", dy_and_weights, {"B": 3, "T": 4, "D": 6, "F": 6}),
)


def not_transposed(dy, W):
    """✎ W is not transposed. Input i collects from the outputs j through W_ij: dx = dy Wᵀ."""
    return dy @ W


def opposite_sign(dy, W):
    """✎ The sign is wrong: nothing is subtracted on the way forward."""
    return -dy @ W.T


def twice(dy, W):
    """✎ Twice too large: each weight is used once for each token."""
    return 2 * dy @ W.T


def mean_over_outputs(dy, W):
    """✎ Divided by the number of outputs. An input collects a sum, not a mean."""
    return dy @ W.T / W.shape[1]


def summed_over_tokens(dy, W):
    """✎ Summed over the tokens. The weights are shared by all of them; the inputs are not."""
    return np.broadcast_to((dy @ W.T).sum((0, 1)), (*dy.shape[:2], len(W)))


def first_output_only(dy, W):
    """✎ Only the first output is used. Each input reaches all of them."""
    return dy[..., :1] * W[:, 0]


DX = Exercise(
    "§{topic}_dx",
    dx,
    ("dx",),
    CASES,
    (not_transposed, opposite_sign, twice, mean_over_outputs, summed_over_tokens, first_output_only),
    (
        "✎ One token first: dx_i is the sum over j of W_ij dy_j.",
        "✎ As a product of matrices this is a row times the transpose of W.",
    ),
)

EXERCISES = (SLOPE, DX)
