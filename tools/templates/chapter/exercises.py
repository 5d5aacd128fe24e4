"""Exercises of chapter §number: ✎ a linear layer. Each is its right answer, and what to say about it."""

from ...course.judge.derivation import Derivation
from ...course.judge.draws import normal
from ...course.judge.function import Exercise


def §{topic}_slope(x_0, x_1, w_0, w_1):
    output = w_0 * x_0 + w_1 * x_1
    return w_0 * output


SLOPE = Derivation(
    §{topic}_slope,
    asks="✎ The chain rule through a square and a sum.",
    domains={"x_0": "real", "x_1": "real", "w_0": "real", "w_1": "real"},
    stories="""
    - ✎ The inner derivative is missing: the output changes with x_0 by w_0.
          w_0 * output → output
    - ✎ This is the derivative of the output. The loss is half its square.
          w_0 * output → w_0
    - ✎ The other input is missing: the output is a sum of both.
          + w_1 * x_1 →
    - ✎ This is the derivative by the other input.
          w_0 * output → w_1 * output
    - ✎ This is the derivative by the weight w_0.
          w_0 * output → x_0 * output
    """,
    hints="""
    - ✎ First the derivative of the loss by the output, then that of the output by x_0.
    - ✎ The first is the output itself. Multiply the two.
    """,
)


def §{topic}_dx(dy, W):
    return dy @ W.T


DX = Exercise(
    §{topic}_dx,
    asks="✎ Which way round a matrix stands in a backward.",
    outputs="dx",
    inputs={"dy": normal("B T F"), "W": normal("D F")},
    stories="""
    - ✎ W is not transposed. Input i collects from the outputs j through W_ij: dx = dy Wᵀ.
          W.T → W
    - ✎ The sign is wrong: nothing is subtracted on the way forward.
          dy @ → -dy @
    - ✎ Twice too large: each weight is used once for each token.
          dy @ → 2 * dy @
    - ✎ Divided by the number of outputs. An input collects a sum, not a mean.
          W.T → W.T / W.shape[1]
    - ✎ Summed over the tokens. The weights are shared by all of them; the inputs are not.
          dy @ → (0 * dy + dy.sum(axis=(0, 1))) @
    """,
    hints="""
    - ✎ One token first: dx_i is the sum over j of W_ij dy_j.
    - ✎ As a product of matrices this is a row times the transpose of W.
    """,
)
