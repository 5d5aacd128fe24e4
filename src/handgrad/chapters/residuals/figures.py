"""The figures of chapter 06. Each function draws what it is given; the notebook computes every number."""

from itertools import product

import numpy as np
from matplotlib.ticker import NullLocator

from handgrad.course.figures import BACK, COLOUR, DASHES, FORTH, LINES, WIDTH, backward_graph, subplots

LOOK = {"none": 0, "pre": 1, "post": 2, "output": 3}
NAMES = {"none": "no norm", "pre": "pre-norm", "post": "post-norm", "output": "output-norm"}


def integers():
    """Two residual sub-layers of width 2, values forward and gradients back."""
    nodes = {
        "$x$": (0, 0),
        "$f_0$": (0.95, 1),
        "+": (1.9, 0),
        "$f_1$": (2.75, 1),
        "+ ": (3.6, 0),
        "$L$": (4.6, 0),
    }
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
    """Where the norm stands in each of the four sub-layers: the stream upwards, the branch at its right."""
    fig, axes = subplots(1, 4, (WIDTH, 3.0))
    box = dict(boxstyle="round,pad=0.3", fc="white", ec=COLOUR["grey"])
    for ax, (place, name) in zip(axes, NAMES.items(), strict=True):
        ax.plot([0, 0], [0, 5], color=COLOUR[FORTH[0]], lw=1.8, ls="-")
        ax.plot([0, 1, 1, 0], [0.6, 0.6, 3.6, 3.6], color=COLOUR[FORTH[0]], lw=1.2, ls="-")
        parts = [(1, 2.1, "$f$", "black"), (0, 3.6, "+", "black")]
        parts += {
            "none": [],
            "pre": [(1, 1.2, "LN", "vermilion")],
            "post": [(0, 4.4, "LN", "vermilion")],
            "output": [(1, 3.0, "LN", "vermilion")],
        }[place]
        for across, up, text, colour in parts:
            ax.text(across, up, text, ha="center", va="center", bbox=box, color=COLOUR[colour])
        ax.text(0.1, 0.0, "$x$", va="center")
        ax.text(0.1, 5.0, "$y$", va="center")
        ax.set(xlim=(-0.6, 1.6), ylim=(-0.2, 5.3), title=name)
        ax.set_axis_off()
    return fig


def by_depth(panels, low=None, high=None):
    """Sizes by depth, {title: {place: (seeds, N + 1)}}: the median as a line, all seeds within the band."""
    fig, axes = subplots(1, len(panels), (WIDTH, 3.5), sharey=True, squeeze=False)
    for ax, (title, curves) in zip(axes[0], panels.items(), strict=True):
        for place, sizes in curves.items():
            draw_band(ax, np.asarray(sizes), LOOK[place], NAMES[place])
        ax.set(yscale="log", title=title, xlabel="sub-layer", ylim=(low, high))
        ax.yaxis.set_minor_locator(NullLocator())
    axes[0][0].set_ylabel("size of the gradient")
    found = {label: h for ax in axes[0] for h, label in zip(*ax.get_legend_handles_labels())}
    fig.legend(found.values(), found.keys(), loc="outside upper left", ncols=4)
    return fig


def draw_band(ax, sizes, n, label):
    """The median of sizes (seeds, N + 1) as the n-th kind of line, and the band of all seeds."""
    places, colour = np.arange(sizes.shape[1]), COLOUR[LINES[n]]
    ax.plot(places, np.median(sizes, axis=0), color=colour, ls=DASHES[n], label=label)
    ax.fill_between(places, sizes.min(axis=0), sizes.max(axis=0), color=colour, alpha=0.18, lw=0)


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


def alike(curves):
    """How far tokens differ by depth, {label: (seeds, N + 1)}, on a linear scale from 0."""
    fig, ax = subplots(size=(WIDTH, 2.8))
    for n, (label, shares) in enumerate(curves.items()):
        draw_band(ax, shares, n, label)
    ax.set(ylim=(0, 1), xlim=(0, None), xlabel="layer", ylabel="share that differs")
    ax.legend(loc="center right", bbox_to_anchor=(1, 0.38))
    return fig
