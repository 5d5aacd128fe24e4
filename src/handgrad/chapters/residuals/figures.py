"""The figures of chapter 06. Each function draws what it is given; the notebook computes every number."""

from itertools import product

import numpy as np
from matplotlib.ticker import NullLocator

from handgrad.course.figures import BACK, COLOUR, DASHES, FORTH, LINES, WIDTH, backward_graph, subplots


def integers():
    """Two residual sub-layers of width 2, values forward and gradients back."""
    nodes = {"$x$": (0, 0), "$f_0$": (0.95, 1), "+": (1.9, 0), "$f_1$": (2.75, 1), "+ ": (3.6, 0)}
    nodes["$L$"] = (4.6, 0)
    edges = [
        ("$x$", "+", "(1, 2)", "", "(2, 3)"),
        ("$x$", "$f_0$", "", "", "(3, 4)"),
        ("$f_0$", "+", "(4, 1)", "", "(2, 3)"),
        ("+", "+ ", "(5, 3)", "", "(1, 2)"),
        ("+", "$f_1$", "", "", "(1, 1)"),
        ("$f_1$", "+ ", "(2, 3)", "", "(1, 2)"),
        ("+ ", "$L$", "(7, 6)", "", "(1, 2)"),
    ]
    return backward_graph(nodes, edges, height=3.4)


def placements():
    """Where the norm stands in each of the three sub-layers: the stream upwards, the branch at its right."""
    fig, axes = subplots(1, 3, (WIDTH, 3.0))
    box = dict(boxstyle="round,pad=0.3", fc="white", ec=COLOUR["grey"])
    norms = {"pre-norm": (1, 1.2), "post-norm": (0, 4.4), "output-norm": (1, 3.0)}
    for ax, (name, at) in zip(axes, norms.items(), strict=True):
        ax.plot([0, 0], [0, 5], color=COLOUR[FORTH[0]], lw=1.8, ls="-")
        ax.plot([0, 1, 1, 0], [0.6, 0.6, 3.6, 3.6], color=COLOUR[FORTH[0]], lw=1.2, ls="-")
        for place, text in {(1, 2.1): "$f$", (0, 3.6): "+", at: "LN"}.items():
            colour = COLOUR["vermilion" if text == "LN" else "black"]
            ax.text(*place, text, ha="center", va="center", bbox=box, color=colour)
        ax.text(0.1, 0.0, "$x$", va="center")
        ax.text(0.1, 5.0, "$y$", va="center")
        ax.set(xlim=(-0.6, 1.6), ylim=(-0.2, 5.3), title=name)
        ax.set_axis_off()
    return fig


def by_depth(curves, what, **axis):
    """Something by depth, {label: (seeds, N + 1)}: the median as a line, all seeds within the band."""
    fig, ax = subplots(size=(WIDTH, 3.2))
    for (label, drawn), colour, dashes in zip(curves.items(), LINES, DASHES, strict=False):
        drawn = np.asarray(drawn)
        places, colour = np.arange(drawn.shape[1]), COLOUR[colour]
        ax.plot(places, np.median(drawn, axis=0), color=colour, ls=dashes, label=label)
        ax.fill_between(places, drawn.min(axis=0), drawn.max(axis=0), color=colour, alpha=0.18, lw=0)
    ax.set(xlabel="layer", ylabel=what, xlim=(0, None), **axis)
    ax.yaxis.set_minor_locator(NullLocator())
    fig.legend(loc="outside upper left", ncols=3)
    return fig


def paths(N=3):
    """Every path of the gradient through N residual layers, from the loss at the right, one in each panel."""
    fig, axes = subplots(2, 2 ** (N - 1), (WIDTH, 2.2))
    for ax, through in zip(axes.flat, sorted(product((0, 1), repeat=N), key=sum), strict=True):
        ups = [0, *(up for one in through for up in (0, one, one, 0)), 0]
        places = [-0.5, *(n + step for n in range(N) for step in (0, 0.2, 0.8, 1)), N + 0.5]
        ax.plot(places, ups, color=COLOUR[BACK[0]], lw=2, ls="-")
        ax.plot(places[0], 0, "<", color=COLOUR[BACK[0]], ms=7)
        for n, one in enumerate(through):
            edge = COLOUR["black" if one else "grey"]
            box = dict(boxstyle="round,pad=0.25", fc="white", ec=edge)
            ax.text(n + 0.5, 1, f"$f_{n}$", ha="center", va="center", fontsize=9, color=edge, bbox=box)
        ax.set(xlim=(-0.9, N + 0.6), ylim=(-0.4, 1.5))
        ax.set_axis_off()
    return fig
