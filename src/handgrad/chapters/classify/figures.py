"""The figures of chapter 18. Each function draws what it is given; the notebook computes every number."""

import numpy as np

from handgrad.course.figures import COLOUR, LABEL, WIDTH, backward_graph, box, subplots
from handgrad.names import SPECIAL

from .trials import standard_error


def two_tasks(tasks):
    """Two uses of one encoder, from below: tasks {title: (tokens, encoder, place, answer above it)}."""
    fig, axes = subplots(len(tasks), 1, (WIDTH, 1.9 * len(tasks)))
    for ax, (title, (tokens, encoder, place, answer)) in zip(axes, tasks.items()):
        _row(ax, tokens, 0, {place})
        for x in range(len(tokens)):
            _arrow(ax, x + 0.5, 0.33, "grey")
        box(ax, len(tokens) / 2, 1, encoder, "green", wide=len(tokens) - 0.12)
        _arrow(ax, place + 0.5, 1.33, "vermilion")
        box(ax, place + 0.5, 2, answer, "orange", wide=1.5)
        ax.text(-0.4, 1, title, ha="right", va="center", fontsize=LABEL - 1)
        ax.set(xlim=(-3.4, len(tokens)), ylim=(-0.4, 2.4))
        ax.set_axis_off()
    return fig


def rows_of_tokens(rows, asked):
    """Tokens as cells, one line for each of rows {title: tokens}; places in `asked` are coloured."""
    fig, ax = subplots(size=(WIDTH, 0.55 * len(rows) + 0.3))
    for y, (title, tokens) in enumerate(rows.items()):
        ax.text(-0.15, -y, title, ha="right", va="center", fontsize=LABEL - 1)
        _row(ax, tokens, -y, asked)
    ax.set(xlim=(-3.4, max(map(len, rows.values()))), ylim=(-len(rows) + 0.4, 0.6))
    ax.set_axis_off()
    return fig


def _row(ax, tokens, y, asked):
    for x, token in enumerate(tokens):
        special = token in SPECIAL and x not in asked
        colour = "orange" if x in asked else "grey" if special else "sky"
        word, size = (token.strip("[]"), 8) if token in SPECIAL else (token, LABEL)
        box(ax, x + 0.5, y, word, colour, fontsize=size)


def _arrow(ax, x, y, colour):
    arrow = dict(arrowstyle="->", color=COLOUR[colour], lw=1)
    ax.annotate("", (x, y + 0.36), (x, y), arrowprops=arrow)


def one_name():
    """Three classes: the example worked by hand, on the edges of its graph."""
    nodes = {"x₀": (0, 0), "W": (0, 2), "u": (1.3, 1), "p": (2.6, 1), "L": (3.6, 1)}
    edges = [
        ("x₀", "u", "(1, 2)", "", "(−4, 2)/4"),
        ("W", "u", "(2, 0, 2 | −1, 0, −1)", "", "(−3, 2, 1 | −6, 4, 2)/4"),
        ("u", "p", "(0, ln 2, 0)", "", "(−3, 2, 1)/4"),
        ("p", "L", "(1, 2, 1)/4", "", "(−4, 0, 0)"),
    ]
    return backward_graph(nodes, edges, height=3.6)


def accuracies(shares, labels, least, examined):
    """The share of right names by the number of labels: shares {model: (labels, seeds)}, a dot for each seed.

    The bars are 1.96 standard errors of a share of `examined` names to either side of the mean; `least` is
    what can be had for nothing.
    """
    fig, ax = subplots(size=(WIDTH, 3.4))
    places = np.arange(len(labels))
    for colour, (title, of_seeds) in zip(("vermilion", "blue", "green"), shares.items()):
        mean = of_seeds.mean(axis=1)
        ax.errorbar(places, mean, 1.96 * standard_error(mean, examined), color=COLOUR[colour], capsize=4)
        ax.plot(places, of_seeds, "o", color=COLOUR[colour], ms=5, mfc="none")
        ax.text(places[-1] + 0.1, mean[-1], title, color=COLOUR[colour], va="center", fontsize=LABEL - 1)
    ax.axhline(least, color=COLOUR["grey"], lw=1, ls=":")
    ax.text(places[-1] + 0.1, least, "always Icelandic", va="bottom", fontsize=LABEL - 2)
    ax.set_xticks(places, [f"{n} labels" for n in labels])
    ax.set(ylim=(0, 1), ylabel="share right", xlim=(-0.3, places[-1] + 0.8))
    return fig
