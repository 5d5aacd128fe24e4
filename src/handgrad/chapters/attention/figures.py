"""The figures of chapter 08. Each function draws what it is given; the notebook computes every number."""

import string

import numpy as np
from matplotlib.patches import Rectangle

from handgrad.course.figures import (
    COLOUR,
    DIVERGING,
    SEQUENTIAL,
    WIDTH,
    backward_graph,
    heat_maps,
    subplots,
)


def data_flow(q, k, v, s, a, y, row=0):
    """The matrices of the forward pass as tables of coloured cells, with shapes; one query is framed."""
    fig, ax = subplots(size=(WIDTH, 4.0))
    T, K, S, E = *q.shape, *v.shape
    low = -max(T, K, S) - 3.4  # where the second line of matrices begins
    right = K + S + 4.6  # where the results stand

    def matrix(x, left, top, name, shape, colours, framed, **limits):
        rows, columns = x.shape
        extent = (left, left + columns, top - rows, top)
        ax.imshow(x, cmap=colours, extent=extent, aspect="equal", **limits)
        for c in range(columns + 1):
            ax.plot([left + c] * 2, [top - rows, top], color="white", lw=1, ls="-")
        for r in range(rows + 1):
            ax.plot([left, left + columns], [top - r] * 2, color="white", lw=1, ls="-")
        if framed:
            box = (left, top - row - 1), columns, 1
            ax.add_patch(Rectangle(*box, fill=False, ec=COLOUR["vermilion"], lw=2.2, zorder=5))
        ax.text(left + columns / 2, top + 0.25, name, ha="center", va="bottom", fontsize=13)
        ax.text(left + columns / 2, top - rows - 0.2, shape, ha="center", va="top", color=COLOUR["grey"])

    signed = dict(vmin=-2.5, vmax=2.5)
    matrix(q, 0, 0, r"$\mathbf{Q}$", "(T, K)", DIVERGING, True, **signed)
    matrix(k.T, K + 1.6, 0, r"$\mathbf{K}^\top$", "(K, S)", DIVERGING, False, **signed)
    matrix(s, right, 0, r"$\mathbf{U}$", "(T, S)", DIVERGING, True, **signed)
    matrix(a, right, low, r"$\mathbf{A}$", "(T, S)", SEQUENTIAL, True, vmin=0, vmax=a.max())
    matrix(v, right + S + 1.6, low, r"$\mathbf{V}$", "(S, E)", DIVERGING, False, **signed)
    matrix(y, right + S + E + 4.6, low, r"$\mathbf{Y}$", "(T, E)", DIVERGING, True, **signed)

    middle = -T / 2
    for place, line, sign in [
        (K + 0.8, 0, "×"),
        (K + S + 3.1, 0, "→"),
        (right + S + 0.8, low, "×"),
        (right + S + E + 3.1, low, "→"),
    ]:
        ax.text(place, line + middle, sign, ha="center", va="center", fontsize=14)
    ax.text(K + S + 3.1, middle - 1.0, r"$/\sqrt{K}$", ha="center", va="top", fontsize=9)
    x = right + S / 2
    ax.annotate("", (x, low + 1.6), (x, -T - 1.2), arrowprops=dict(arrowstyle="->", lw=1.2))
    ax.text(
        x + 0.4,
        (low - T + 0.4) / 2,
        "softmax of each row,\nbehind the mask",
        ha="left",
        va="center",
        fontsize=10,
    )
    ax.text(0, low - 0.5, "one query:", color=COLOUR["vermilion"], va="center", fontsize=11)
    ax.text(0, low - 1.5, "one row everywhere", color=COLOUR["vermilion"], va="center", fontsize=11)
    ax.set(xlim=(-0.4, right + S + 2 * E + 5), ylim=(low - max(T, S) - 1.2, 1.6))
    ax.set_axis_off()
    return fig


def in_numbers():
    """One query, three keys: scores, weights and values forward on the edges, and what dy = 1 sends back."""
    nodes = {f"$u_{j}$": (0, 1 - j) for j in range(3)} | {"softmax": (1.4, 0)}
    nodes |= {f"$a_{j}$": (2.8, 1 - j) for j in range(3)} | {"$y$": (4.2, 0), "$L$": (5.4, 0)}
    scores, weights = ["ln 2", "0", "0"], ["½", "¼", "¼"]
    values, prices, pushes = "048", "048", ["−1.5", "+0.25", "+1.25"]
    edges = [(f"$u_{j}$", "softmax", scores[j], "", pushes[j]) for j in range(3)]
    edges += [("softmax", f"$a_{j}$", weights[j], "", prices[j]) for j in range(3)]
    edges += [(f"$a_{j}$", "$y$", f"× {values[j]}", "", prices[j]) for j in range(3)]
    return backward_graph(nodes, [*edges, ("$y$", "$L$", "3", "", "1")], height=4.2)


def saturation(widths, raw, scaled):
    """Norms of the softmax Jacobian (widths, rows) over K, raw and scaled: mean, and share that is dead."""
    fig, (left, right) = subplots(1, 2)
    ticks = widths[::2], [str(K) for K in widths[::2]]
    left.loglog(widths, scaled.mean(axis=1), marker="o", label=r"divided by $\sqrt{K}$")
    left.loglog(widths, raw.mean(axis=1), marker="s", label="raw scores")
    last = np.array(widths[-4:], float)
    guide = 0.7 * raw[-1].mean() * np.sqrt(last[-1] / last)
    left.loglog(last, guide, color=COLOUR["grey"], lw=1, ls=":")
    left.text(last[1], 0.8 * guide[1], r"slope $-\frac{1}{2}$", ha="right", va="top")
    left.set(title=r"mean $\|\mathbf{J}\|_F$", xlabel="K")
    left.set_yticks([0.02, 0.05, 0.1, 0.2, 0.4], ["0.02", "0.05", "0.1", "0.2", "0.4"])
    right.semilogx(widths, (scaled < 1e-3).mean(axis=1), marker="o", label=r"divided by $\sqrt{K}$")
    right.semilogx(widths, (raw < 1e-3).mean(axis=1), marker="s", label="raw scores")
    right.set(title="share of dead rows", xlabel="K", ylim=(-0.03, 1))
    right.legend()
    for ax in (left, right):
        ax.minorticks_off()
        ax.set_xticks(*ticks)
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
