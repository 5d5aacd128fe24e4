"""Draw the picture of the introduction, book/_static/attention.svg, with the book's own operation and figure.

    python tools/picture.py

Three queries look up five entries: scores, weights and outputs are those that `attention` computes.
"""

from pathlib import Path

import numpy as np

from handgrad.chapters.attention.figures import data_flow
from handgrad.ops import attention, softmax

PICTURE = Path(__file__).parents[1] / "book/_static/attention.svg"


def main():
    rng = np.random.default_rng(2)
    q, k, v = rng.standard_normal((3, 2)), rng.standard_normal((5, 2)), rng.standard_normal((5, 2))
    y, cache = attention(q, k, v)
    s = q @ k.T / np.sqrt(2)
    a, _ = softmax(s)
    np.testing.assert_allclose(a, cache["a"], rtol=1e-12)
    data_flow(q, k, v, s, a, y).savefig(PICTURE, metadata={"Date": None})


if __name__ == "__main__":
    main()
