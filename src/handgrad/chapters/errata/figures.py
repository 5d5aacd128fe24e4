"""The figures of chapter 21."""

import numpy as np

from ...course.figures import DIVERGING, backward_graph


def integers():
    """E2 by hand: two tokens of width 1, values forward and gradients back."""
    # a matrix is written row by row
    nodes = {"q": (0, 1), "k": (0, 0), "u": (1.8, 0.5), "a": (3.6, 0.5), "y": (5.6, 0.5), "L": (7, 0.5)}
    edges = [
        ("q", "u", "(1, −1) ln 3", "", "(−3, −6)"),
        ("k", "u", "(1, 0)", "", "(3, −3) ln 3"),
        ("u", "a", "", "", "−3 3 | −6 6"),
        ("a", "y", "¾ ¼ | ¼ ¾", "", "0 16 | 0 32"),
        ("y", "L", "(2, 6)", "", "(2, 4)"),
    ]
    return backward_graph(nodes, edges, height=3.6)


def answer(axes, printed, measured):
    """Three heat maps: a gradient as printed, as measured, and their difference, in one scale."""
    limit = max(np.abs(printed).max(), np.abs(measured).max())
    titles = ("as printed", "by differences", "printed − true")
    for ax, values, title in zip(axes, (printed, measured, printed - measured), titles, strict=True):
        image = ax.imshow(values, cmap=DIVERGING, vmin=-limit, vmax=limit, aspect="auto")
        ax.set(title=title, xticks=range(values.shape[1]), yticks=range(values.shape[0]))
        ax.tick_params(length=0)
    axes[0].figure.colorbar(image, ax=list(axes), shrink=0.8, aspect=20)
