"""The figures of chapter 01. Each function draws what it is given; the notebook computes every number."""

import numpy as np
from matplotlib.patches import FancyArrowPatch, Rectangle
from matplotlib.ticker import LogLocator, NullLocator

from handgrad.course.figures import BACK, COLOUR, FORTH, LABEL, MARKS, WIDTH, backward_graph, subplots

GAP = 1.3  # between two tables, in cells


def number(value):
    """An integer as text, with a real minus sign."""
    return f"{value:d}".replace("-", "−")


def tables(forward, backward, steps, steps_back):
    """Tables of integers from left to right, and below each of them its gradient, of the same shape.

    forward, backward: {name: integers (rows, columns)}, in the order of the forward. steps: what leads from
    each table to the next. steps_back: what leads from each gradient to the one at its left, from the left.
    """
    fig, ax = subplots(size=(WIDTH, 4.0))
    rows = max(len(values) for values in forward.values())
    for top, colour, named, words in (
        (0, FORTH[0], forward, steps),
        (rows + 1.9, BACK[0], backward, steps_back),
    ):
        left = 0.0
        for n, (name, values) in enumerate(named.items()):
            values = np.asarray(values)
            high, wide = values.shape
            above = top + (rows - high) / 2
            for (i, k), value in np.ndenumerate(values):
                ax.add_patch(Rectangle((left + k, above + i), 1, 1, fill=False, ec=COLOUR["grey"], lw=0.8))
                look = dict(ha="center", va="center", fontsize=LABEL, color=COLOUR[colour])
                ax.text(left + k + 0.5, above + i + 0.5, number(value), **look)
            ax.text(left + wide / 2, above - 0.2, name, ha="center", va="bottom", fontsize=LABEL)
            if n < len(words):
                ends = [(left + wide + 0.1, top + rows / 2), (left + wide + GAP - 0.1, top + rows / 2)]
                if named is backward:
                    ends.reverse()
                ax.add_patch(
                    FancyArrowPatch(*ends, arrowstyle="-|>", mutation_scale=12, color=COLOUR[colour], lw=1.6)
                )
                place = left + wide + GAP / 2, top + rows / 2 - 0.25
                ax.text(*place, words[n], ha="center", va="bottom", fontsize=11, color=COLOUR[colour])
            left += wide + GAP
    ax.set(xlim=(-0.1, left - GAP + 0.1), ylim=(2 * rows + 2.0, -0.8))
    ax.set_axis_off()
    return fig


def layer():
    """The example with its gradients, and the shape of each array."""
    nodes = {"$x$": (0, 1), "$c$": (0, -1), "$-$": (0.9, 0), "square": (1.95, 0), "sum": (2.9, 0)}
    nodes |= {"$L$": (3.8, 0)}
    edges = [
        ("$x$", "$-$", "(T, D)", "", r"$\mathrm{d}u$"),
        ("$c$", "$-$", "(D,)", "", r"$-\Sigma_t\,\mathrm{d}u$"),
        ("$-$", "square", "$u$\n(T, D)", "", r"$2u \circ \mathrm{d}v$"),
        ("square", "sum", "$v$\n(T, D)", "", r"$\mathrm{d}v$"),
        ("sum", "$L$", "$y$\n(D,)", "", r"$\mathrm{d}y$"),
    ]
    return backward_graph(nodes, edges, height=3.0)


def touching(x, loss, stand_in, at):
    """A loss and its stand-in over one input x (n,), both (n,), and the point (x, loss) where they touch."""
    fig, ax = subplots(size=(WIDTH, 2.9))
    ax.plot(x, loss, label=r"the loss $L$")
    ax.plot(x, stand_in, label=r"$\langle \mathrm{d}y,\, y \rangle$, moved to the same height")
    ax.plot(*at, "o", color=COLOUR["black"], zorder=3)
    ax.set(xlabel=r"one input, $x_{00}$", ylabel="loss")
    fig.legend(loc="outside upper left", ncols=2)
    return fig


def v_curve(steps, errors, best):
    """Relative errors {way: (n,)} of a slope over the steps (n,), and the predicted best step."""
    fig, ax = subplots(size=(WIDTH, 4.2))
    for mark, (way, error) in zip(MARKS, errors.items(), strict=False):
        shown = np.where(error > 0, error, np.nan)
        ax.loglog(steps, shown, marker=mark, ms=3, lw=1.2, label=way)
    ax.axvline(best, color=COLOUR["grey"], lw=1, ls=":")
    ax.annotate("predicted\nbest step", (best, 1e-22), (6, 0), textcoords="offset points", va="center")
    ax.set(xlabel="step $h$", ylabel="relative error of the slope")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(LogLocator(numticks=9))
        axis.set_minor_locator(NullLocator())
    ax.figure.legend(loc="outside upper left", ncols=2)
    return fig


def answer(axes, arriving, returning):
    """An upstream gradient (n,), and the gradients {layer: (n,)} that come back, as bars on two axes."""
    sent, back = axes
    places = np.arange(len(arriving))
    sent.bar(places, arriving, 0.6, color=COLOUR["sky"])
    sent.set(title="arrives: dy", ylim=(-1.9, 1.9))
    for n, (name, dx) in enumerate(returning.items()):
        shift = (n - (len(returning) - 1) / 2) * 0.38
        back.bar(places + shift, dx, 0.36, color=COLOUR[("vermilion", "blue")[n]], label=name)
    back.set(title="comes back: dx", ylim=(-1.9, 1.9))
    back.legend(loc="lower left", ncols=2)
    for ax in axes:
        ax.axhline(0, color=COLOUR["grey"], lw=0.8, ls="-")
        ax.set_xticks(places)
