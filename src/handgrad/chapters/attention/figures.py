"""The figures of chapter 08. Each function draws what it is given; the notebook computes every number."""

import string

import numpy as np
from matplotlib.patches import Rectangle

from handgrad.course.figures import COLOUR, DIVERGING, SEQUENTIAL, WIDTH, heat_maps, one_query, subplots


def data_flow(q, k, v, u, a, y, row=0):
    """The matrices of the forward pass as tables of coloured cells, with shapes; one query is framed."""
    fig, ax = subplots(size=(WIDTH, 2.1))
    signed = dict(cmap=DIVERGING, vmin=-2.5, vmax=2.5)
    weights = dict(cmap=SEQUENTIAL, vmin=0, vmax=a.max())
    factors = ((q, "Q", "(T, K)", "×"), (k.T, r"K^\top", "(K, S)", r"$/\sqrt{K}$" + "\n→"))
    averages = ((a, "A", "(T, S)", "×"), (v, "V", "(S, E)", "→"), (y, "Y", "(T, E)", ""))
    left = 0
    for x, name, shape, sign in (*factors, (u, "U", "(T, S)", "softmax\n→"), *averages):
        rows, columns = x.shape
        colours = weights if name == "A" else signed
        ax.pcolormesh(left + np.arange(columns + 1), -np.arange(rows + 1), x, edgecolor="white", **colours)
        if name in "QUAY":
            frame = Rectangle((left, -row - 1), columns, 1, fill=False, ec=COLOUR["vermilion"], lw=2.2)
            ax.add_patch(frame)
        middle = left + columns / 2
        ax.text(middle, 0.3, rf"$\mathbf{{{name[0]}}}{name[1:]}$", ha="center", fontsize=13)
        ax.text(middle, -rows - 0.2, shape, ha="center", va="top", color=COLOUR["grey"])
        gap = 3.8 if name == "U" else 2
        ax.text(left + columns + gap / 2, -1.5, sign, ha="center", va="center")
        left += columns + gap
    ax.set(xlim=(-0.3, left), ylim=(-6.2, 1.2), aspect="equal")
    ax.set_axis_off()
    return fig


def in_numbers():
    """One query and the keys of three words, in numbers: forward on the edges, and what dy = 1 sends back."""
    words = ["animal", "street", "because"]
    return one_query(["ln 2", "0", "0"], ["½", "¼", "¼"], "048", "3", ["−1.5", "+0.25", "+1.25"], words)


def saturation(widths, raw, scaled):
    """Mean norms of the softmax Jacobian over K, of raw and of scaled scores."""
    fig, ax = subplots()
    ax.loglog(widths, scaled, marker="o", label=r"divided by $\sqrt{K}$")
    ax.loglog(widths, raw, marker="s", label="raw scores")
    ax.set(xlabel="K", ylabel=r"mean $\|\mathbf{J}\|_F$")
    ax.set_xticks(widths, map(str, widths))
    ax.set_yticks([0.02, 0.05, 0.1, 0.2, 0.4], ["0.02", "0.05", "0.1", "0.2", "0.4"])
    ax.minorticks_off()
    ax.legend()
    return fig


def sentences(rows, weights, ids, vocabulary):
    """The weights (rows, S) of the last word on each word of a sentence."""
    words = [vocabulary[n] for n in ids[:-1]] + ["(last)"]
    look = dict(across="word that answers", down="", size=9, height=2.4)
    return heat_maps({"": (weights, rows, words)}, "weight", **look)


def lookups(maps, letters, digits, asked):
    """The weights of one page {title: (T, S)}: a row for each letter asked, a column for each entry."""
    entries = [f"{string.ascii_uppercase[n]}\n{d}" for n, d in zip(letters, digits, strict=True)]
    rows = [string.ascii_uppercase[n] for n in asked]
    maps = {title: (a, rows, entries) for title, a in maps.items()}
    return heat_maps(maps, "weight", across="entry on the page", down="letter asked", size=10)
