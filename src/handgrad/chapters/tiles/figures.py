"""The figures of chapter 19. Each function draws what it is given; the notebook computes every number."""

from fractions import Fraction

import numpy as np
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, NullLocator

from handgrad.course.figures import COLOUR, WIDTH, backward_graph, subplots

LOOKS = {"plain": ("o", "vermilion"), "tiles": ("s", "blue"), "PyTorch": ("^", "grey")}


def tiles(states):
    """A table of tiles, one row for each block of queries: states (n, m): 0 hidden, 1 cut, 2 whole."""
    n, m = states.shape
    fig, ax = subplots(size=(WIDTH, 0.34 * n + 0.8))
    looks = {
        "computed": dict(fc=COLOUR["blue"], ec="white"),
        "computed, partly hidden": dict(fc="#9CC9E3", ec="white", hatch="///"),
        "never computed": dict(fc="white", ec="#BBBBBB", ls=":"),
    }
    for state, (name, look) in zip((2, 1, 0), looks.items()):
        for i, j in np.argwhere(states == state):
            ax.add_patch(Rectangle((j, i), 1, 1, lw=1, **look, label=name))
            name = None
    ax.set(xlim=(-0.1, m + 0.1), ylim=(n + 0.1, -0.1), aspect="equal", xticks=[], yticks=[])
    ax.set(xlabel="blocks of keys", ylabel="blocks of queries")
    ax.spines[["left", "bottom"]].set_visible(False)
    ax.legend(loc="center left", bbox_to_anchor=(1.02, 0.5))
    return fig


def fading(before, after):
    """What each key adds to z: before (n,) after tile 0, after (m,) after tile 1, with `before` dotted."""
    fig, axes = subplots(1, 2, size=(WIDTH, 2.0), sharey=True)
    keys, n = range(len(after)), len(before)
    for tile, (ax, heights) in enumerate(zip(axes, (before, after))):
        ax.bar(keys[:n], heights[:n], color=COLOUR["blue"])
        ax.bar(keys[n : len(heights)], heights[n:], color=COLOUR["vermilion"])
        for s, height in enumerate(heights):
            ax.text(s, height + 0.02, str(Fraction(height)), ha="center", va="bottom")
        ax.set(xlim=(-0.6, len(keys) - 0.4), ylim=(0, 1.25 * before.max()), yticks=[])
        ax.set_xticks(keys, [f"key {s}" for s in keys])
        ax.set_title(f"after tile {tile}: z = {heights.sum():g}")
        ax.spines["left"].set_visible(False)
    axes[1].bar(keys[:n], before, fc="none", ec=COLOUR["grey"], ls=":")
    return fig


def numbers(edges):
    """The backward of two tiles in numbers: edges {(from, to): (value, gradient)} of those names."""
    nodes = {"v, tile 0": (0, 3), "u, tile 0": (0, 2), "u, tile 1": (0, 1), "v, tile 1": (0, 0)}
    nodes |= {"tile 0": (1, 2.5), "tile 1": (1, 0.5), "y = 5": (2, 1.5)}
    drawn = [(start, end, value, "", gradient) for (start, end), (value, gradient) in edges.items()]
    return backward_graph(nodes, drawn, height=4.4)


def memory(held):
    """Bytes over length, on logarithmic axes: held {way: {T: bytes}}, with the slopes 1 and 2 beside them."""
    fig, ax = subplots()
    ax.set(xscale="log", yscale="log", xlabel="length T", ylabel="MiB beside q, k, v and dy")
    for way, rows in held.items():
        mark, colour = LOOKS[way]
        ax.plot(
            list(rows), np.array(list(rows.values())) / 2**20, mark, color=COLOUR[colour], ls="-", label=way
        )
    lengths = np.array(list(held["plain"]))
    for slope, way, shift in [(2, "plain", 0.45), (1, "tiles", 2.2)]:
        start = shift * held[way][int(lengths[-3])] / 2**20
        guide = start * (lengths[[-3, -1]] / lengths[-3]) ** slope
        ax.plot(lengths[[-3, -1]], guide, color=COLOUR["grey"], ls=":", lw=1.2)
        ax.text(lengths[-1], guide[-1], f" slope {slope}", color=COLOUR["grey"], va="center")
    ax.set_xticks(lengths, map(str, lengths))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    ax.legend(loc="upper left")
    return fig
