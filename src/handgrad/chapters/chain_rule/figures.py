"""The figures of chapter 01. Each function draws what it is given; the notebook computes every number."""

import numpy as np
from matplotlib.patches import FancyArrowPatch, Rectangle
from matplotlib.ticker import LogLocator, NullLocator

from handgrad.course.figures import BACK, COLOUR, FORTH, LABEL, MARKS, WIDTH, backward_graph, subplots


def stages():
    """v = wx, y = v + x, u = y − q and L = u² for w = −2, x = 3, q = −5: values and gradients on a graph."""
    nodes = {"$w$": (0, 1), "$x$": (0, -0.75), r"$\times$": (1, 1), "$+$": (2, 0), "$-$": (3, 0)}
    nodes |= {"$q$": (2.2, -1), "square": (4, 0), "$L$": (5, 0)}
    edges = [("$w$", r"$\times$", "−2", "", "12"), ("$x$", r"$\times$", "3", "", "−8")]
    edges += [(r"$\times$", "$+$", "−6", "", "4"), ("$x$", "$+$", "3", "", "4")]
    edges += [("$+$", "$-$", "−3", "", "4"), ("$q$", "$-$", "−5", "", "−4")]
    edges += [("$-$", "square", "2", "", "4"), ("square", "$L$", "4", "", "1")]
    return backward_graph(nodes, edges, height=3.2)


def tables():
    """Sums of squares of three points around a centre, and its backward, as tables of integers."""
    points, centre, dy = np.array([[1, 4], [3, 1], [5, 2]]), np.array([[2, 1]]), np.array([[1, -2]])
    copies, u, dv = centre.repeat(3, axis=0), points - centre, dy.repeat(3, axis=0)
    du = 2 * u * dv
    forth = [("c", centre), ("copies", copies), ("u", u), ("u²", u**2), ("y", (u**2).sum(0, keepdims=True))]
    back = [("dc", -du.sum(0, keepdims=True)), ("− du", -du), ("du", du), ("copies", dv), ("dy", dy)]
    fig, ax = subplots(size=(WIDTH, 4.0))
    _line(ax, 0, forth, ["copy", "X −", "square", "sum"], COLOUR[FORTH[0]], "-|>")
    _line(ax, 4.9, back, ["sum", "−", "× 2u", "copy"], COLOUR[BACK[0]], "<|-")
    ax.set(xlim=(-0.1, 15.3), ylim=(8, -0.8))
    ax.set_axis_off()
    return fig


def _line(ax, top, named, steps, colour, arrow):
    """Tables [(name, integers)] side by side, three rows high in all; between them arrows with words."""
    for n, (name, values) in enumerate(named):
        left, above = 3.3 * n, top + (3 - len(values)) / 2
        for (i, k), value in np.ndenumerate(values):
            ax.add_patch(Rectangle((left + k, above + i), 1, 1, fill=False, ec=COLOUR["grey"], lw=0.8))
            text = f"{value:d}".replace("-", "−")
            ax.text(left + k + 0.5, above + i + 0.5, text, ha="center", va="center", color=colour)
        ax.text(left + 1, above - 0.2, name, ha="center", va="bottom", fontsize=LABEL)
    look = dict(arrowstyle=arrow, mutation_scale=12, color=colour, lw=1.6)
    for n, word in enumerate(steps):
        left = 3.3 * n + 2.1
        ax.add_patch(FancyArrowPatch((left, top + 1.5), (left + 1.1, top + 1.5), **look))
        ax.text(left + 0.55, top + 1.25, word, ha="center", va="bottom", fontsize=11, color=colour)


def v_curve(steps, errors, best):
    """Relative errors {way: (n,)} of a slope over the steps (n,), and the predicted best step."""
    fig, ax = subplots(size=(WIDTH, 4.2))
    for mark, (way, error) in zip(MARKS, errors.items(), strict=False):
        ax.loglog(steps, np.where(np.array(error) > 0, error, np.nan), marker=mark, ms=3, lw=1.2, label=way)
    ax.axvline(best, color=COLOUR["grey"], lw=1, ls=":")
    ax.annotate("predicted\nbest step", (best, 1e-15), (6, 0), textcoords="offset points", va="center")
    ax.set(xlabel="step $h$", ylabel="relative error of the slope")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(LogLocator(numticks=9))
        axis.set_minor_locator(NullLocator())
    fig.legend(loc="outside upper left", ncols=3)
    return fig
