"""The figures of chapter 03. Each function draws what it is given; the notebook computes every number."""

import numpy as np

from handgrad.course.figures import (
    COLOUR,
    LABEL,
    LINES,
    MARKS,
    WIDTH,
    backward_graph,
    named_levels,
    subplots,
)


def passage(characters, kept, width=43):
    """A text (n,) in lines of so many characters: those that are `kept` (n,) marked, the others pale."""
    lines = -(-len(characters) // width)
    fig, ax = subplots(size=(WIDTH, 0.28 * lines))
    ax.set(xlim=(0, width), ylim=(lines, 0))
    ax.set_axis_off()
    marked = dict(color=COLOUR["black"], fontweight="bold")
    marked["bbox"] = dict(boxstyle="square,pad=0.12", fc=COLOUR["orange"], ec="none")
    for n, (character, last) in enumerate(zip(characters, kept, strict=True)):
        look = marked if last else dict(color=COLOUR["grey"])
        where = dict(ha="center", va="center", family="monospace", fontsize=LABEL)
        ax.text(n % width + 0.5, n // width + 0.5, character, **where, **look)
    return fig


def table(ax, values, title, rows=(), columns=()):
    """A matrix (R, C) as a table of numbers, 0 written as a pale dot. rows, columns: their names."""
    values = np.asarray(values, float)
    ends = np.array(values.shape) - 0.5
    ax.set(xlim=(-0.5, ends[1]), ylim=(ends[0], -0.5), aspect="equal")
    for (i, j), value in np.ndenumerate(values):
        text = f"{value:g}".replace("-", "−") if value else "·"
        colour = COLOUR["black" if value else "grey"]
        ax.text(j, i, text, ha="center", va="center", fontsize=LABEL, color=colour)
    ax.xaxis.tick_top()
    ax.set_xticks(range(len(columns)), columns, fontsize=LABEL, color=COLOUR["vermilion"])
    rows = [str(name).replace("-", "−") for name in rows]
    ax.set_yticks(range(len(rows)), rows, fontsize=LABEL, color=COLOUR["blue"])
    ax.tick_params(length=0)
    ax.set_title(title, fontsize=LABEL, loc="center")
    ax.spines[:].set_visible(True)


def equation(parts, signs, height=1.9):
    """Matrices side by side, a sign behind each but the last.

    parts: {title: (matrix, names of its rows, of its columns)}, the names may be left out.
    """
    widths = [np.shape(matrix)[1] for matrix, *_ in parts.values()]
    fig, axes = subplots(1, len(parts), (WIDTH, height), width_ratios=widths)
    for ax, (title, (matrix, *names)) in zip(axes, parts.items(), strict=True):
        table(ax, matrix, title, *names)
    for ax, sign in zip(axes, signs, strict=False):
        place = dict(xycoords="axes fraction", textcoords="offset points", ha="center", va="center")
        ax.annotate(sign, (1, 0.5), (9, 0), fontsize=LABEL + 2, **place)
    fig.get_layout_engine().set(w_pad=0.1)
    return fig


def layer():
    """Look-up, linear layer, and the table once more as the head: values forward, gradients back, shapes."""
    nodes = {"$E$": (0, 0), "look up": (0.6, 1), r"$\times W$": (2.0, 1), r"$\times E^{\top}$": (3.4, 1)}
    nodes |= {"$W$": (1.1, 2), "$L$": (4.6, 1)}
    edges = [
        ("$E$", "look up", "", "", "sparse $\\mathrm{d}E$"),
        ("$E$", r"$\times E^{\top}$", "$E$ (V, D)", "", "dense $\\mathrm{d}E$"),
        ("look up", r"$\times W$", "$X$\n(T, D)", "", r"$\mathrm{d}X$"),
        ("$W$", r"$\times W$", "(D, D)", "", r"$\mathrm{d}W$"),
        (r"$\times W$", r"$\times E^{\top}$", "$Y$\n(T, D)", "", "$\\mathrm{d}Y$"),
        (r"$\times E^{\top}$", "$L$", "$Z$\n(T, V)", "", r"$\mathrm{d}Z$"),
    ]
    return backward_graph(nodes, edges, height=4.4)


def by_rank(ends, levels):
    """Losses by rank, ends {rank: losses}, a line through their means; levels {name: loss}."""
    fig, ax = subplots(size=(WIDTH, 3.6))
    ax.plot([*ends], [np.mean(those) for those in ends.values()], color=COLOUR[LINES[0]])
    for r, those in ends.items():
        ax.plot([r] * len(those), those, ls="none", color=COLOUR[LINES[0]], marker=MARKS[0])
    ax.set_xscale("log", base=2)
    ax.set_xticks([*ends], [*map(str, ends)])
    ax.set(xlabel="rank r", ylabel="loss in nats per character")
    named_levels(ax, levels)
    return fig
