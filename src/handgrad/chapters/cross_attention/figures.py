"""The figures of chapter 11. Each function draws what it is given; the notebook computes every number."""

import numpy as np
from matplotlib.patches import Rectangle

from handgrad.course.figures import COLOUR, WIDTH, backward_graph, heat_maps, subplots

TARGET, SOURCE = "sky", "orange"


def two_sequences(T, S, D, G, K, E):
    """The arrays of cross-attention in proportion, coloured by the sequence their rows belong to."""
    fig, ax = subplots(size=(WIDTH, 3.5))

    def box(left, top, rows, columns, name, shape, colour):
        ax.add_patch(Rectangle((left, top - rows), columns, rows, fc=COLOUR[colour], ec="white", lw=2))
        for row in range(1, rows):
            ax.plot([left, left + columns], [top - row] * 2, color="white", lw=1, ls="-")
        ax.text(left + columns / 2, top + 0.15, name, ha="center", va="bottom", fontsize=13)
        ax.text(left + columns / 2, top - rows - 0.15, shape, ha="center", va="top", fontsize=11)

    def arrow(start, end, name="", lift=0.2):
        ax.annotate("", end, start, arrowprops=dict(arrowstyle="-|>", color=COLOUR["black"], lw=1.2))
        middle = (start[0] + end[0]) / 2, (start[1] + end[1]) / 2 + lift
        ax.text(*middle, name, ha="center", va="bottom", fontsize=11)

    low = -T - 2.2
    box(0, 0, T, D, r"$\mathbf{X}$", "(T, D)", TARGET)
    box(0, low, S, G, r"$\mathbf{X}'$", "(S, D')", SOURCE)
    box(D + 2.5, 0, T, K, r"$\mathbf{Q}$", "(T, K)", TARGET)
    box(D + 2.5, low, S, K, r"$\mathbf{K}$", "(S, K)", SOURCE)
    box(D + K + 3.8, low, S, E, r"$\mathbf{V}$", "(S, E)", SOURCE)
    right = D + 2.5 + K + 4.2
    box(right, 0, T, S, r"$\mathbf{A}$", "(T, S)", TARGET)
    box(right + S + 2.2, 0, T, E, r"$\mathbf{Y}$", "(T, E)", TARGET)
    for column in range(1, S):
        ax.plot([right + column] * 2, [-T, 0], color=COLOUR[SOURCE], lw=2.5, ls="-")
    arrow((D + 0.1, -T / 2), (D + 2.4, -T / 2), r"$\mathbf{W}_Q$")
    arrow((G + 0.1, low - S / 2), (D + 2.4, low - S / 2), r"$\mathbf{W}_K,\ \mathbf{W}_V$")
    arrow((D + K + 2.6, -T / 2), (right - 0.1, -T / 2))
    arrow((D + 2.5 + K / 2, low + 1.1), (right + 0.4, -T - 0.9))
    arrow((right + S + 0.1, -T / 2), (right + S + 2.1, -T / 2))
    arrow((D + K + 3.9 + E, low - 0.6), (right + S + 2.2, -T - 0.9))
    ax.set(xlim=(-0.3, right + S + E + 3), ylim=(low - S - 1, 1.2))
    ax.set_axis_off()
    return fig


def integers():
    """Two queries, three sources: a weight and ds on each edge, and at the ends what arrives."""
    x, y, dy = "12", "32", ("4", "−6")
    a, ds = ["½¼¼", "⅔⅙⅙"], [["−6", "+1", "+5"], ["+8", "−2", "−6"]]
    memory, dv, dk = ["(1, −1)", "(0, 4)", "(0, 8)"], ["−2", "0", "0"], ["10", "−3", "−7"]
    fig, ax = subplots(size=(WIDTH, 4.4))
    frame = dict(boxstyle="round,pad=0.45", fc="white", ec=COLOUR["grey"])
    back, forth = COLOUR["vermilion"], COLOUR["blue"]
    left, right = [3.0, 1.0], [4.0, 2.0, 0.0]
    for i, row in enumerate(left):
        for j, end in enumerate(right):
            ax.plot([0, 3], [row, end], color=COLOUR["grey"], lw=1, ls="-", zorder=0)
            share = (0.22, 0.62)[i]
            place = 3 * share, row + share * (end - row)
            look = dict(va="center", fontsize=12.5)
            ax.add_patch(Rectangle((place[0] - 0.26, place[1] - 0.16), 0.62, 0.32, fc="white", ec="none"))
            ax.text(place[0] - 0.03, place[1], a[i][j], ha="right", color=forth, **look)
            ax.text(place[0] + 0.03, place[1], ds[i][j], ha="left", color=back, **look)
        ax.text(0, row, f"x = {x[i]}", ha="center", va="center", fontsize=13, bbox=frame)
        ax.text(0, row + 0.5, f"y = {y[i]}", ha="center", va="center", fontsize=12.5, color=forth)
        ax.text(0, row - 0.5, f"dy = {dy[i]}", ha="center", va="center", fontsize=12.5, color=back)
    for j, row in enumerate(right):
        ax.text(3, row, memory[j], ha="center", va="center", fontsize=13, bbox=frame)
        ax.text(3.5, row + 0.22, f"dv = {dv[j]}", va="center", fontsize=12.5, color=back)
        ax.text(3.5, row - 0.22, f"dk = {dk[j]}", va="center", fontsize=12.5, color=back)
    ax.text(0, 4.55, "queries", ha="center", fontsize=12)
    ax.text(3, 4.55, "memory", ha="center", fontsize=12)
    ax.text(1.5, -0.75, "weight a", ha="right", fontsize=12, color=forth)
    ax.text(1.56, -0.75, "  and ds on each edge", ha="left", fontsize=12, color=back)
    ax.set(xlim=(-0.55, 4.4), ylim=(-0.95, 4.9))
    ax.set_axis_off()
    return fig


def graph():
    """Cross-attention forward and backward: the memory is used twice in one layer."""
    keys, values, queries = r"$\mathbf{W}_K$", r"$\mathbf{W}_V$", r"$\mathbf{W}_Q$"
    nodes = {"X": (0, 2.2), "X′": (0, 0.5), queries: (1.5, 2.2), keys: (1.5, 1.1), values: (1.5, 0)}
    nodes |= {"softmax": (3.2, 1.7), "average": (4.9, 0.9), "L": (6.4, 0.9)}
    edges = [
        ("X", queries, "", "(T, D)", "dX"),
        ("X′", keys, "", "", "+"),
        ("X′", values, "", "(S, D′)", "+"),
        (queries, "softmax", "Q", "", "dQ"),
        (keys, "softmax", "K", "", "dK"),
        (values, "average", "V", "(S, E)", "dV"),
        ("softmax", "average", "A", "(T, S)", "dA"),
        ("average", "L", "Y", "", "dY"),
    ]
    return backward_graph(nodes, edges, height=4.2)


def layers(parts):
    """What each block returns for the memory: {title: norms (seeds, N)}; a thin line for each seed."""
    fig, ax = subplots()
    for n, (title, norms) in enumerate(parts.items()):
        colour, dash = (COLOUR["blue"], "-") if n == 0 else (COLOUR["vermilion"], "--")
        ax.plot(norms.T, color=colour, lw=0.8, ls=dash, alpha=0.5)
        ax.plot(norms.mean(axis=0), color=colour, lw=2.4, ls=dash, marker="os"[n], label=title)
    ax.set(xlabel="block n, from the first to the last", ylabel="norm of what it returns", ylim=(0, None))
    ax.set_xticks(range(norms.shape[1]))
    ax.legend()
    return fig


def alignments(weights, batch, names):
    """Weights (2, T, S) of a source that is written forth and back, side by side."""
    sides = zip(("forth", "back"), weights, batch["target_out"], batch["source"], strict=True)
    maps = {title: (a, [names[n] for n in out], [names[n] for n in read]) for title, a, out, read in sides}
    return heat_maps(maps, "weight", across="source", down="written", size=10)


def arrivals(axes, weights, sizes, batch, names, t):
    """Left: the weights (H, T, S) of row t, for each head. Right: the sizes (T, S) of what arrives."""
    left, right = axes
    read, due = ([names[n] for n in batch[name][0]] for name in ("source", "target_out"))
    places, H = np.arange(len(read)), len(weights)
    for h, a in enumerate(weights):
        look = dict(color=COLOUR[("blue", "sky")[h % 2]], label=f"head {h}")
        left.bar(places + (h - (H - 1) / 2) * 0.4, a[t], width=0.4, **look)
    left.set(title=f"weights while {due[t]} is due", ylim=(0, 1.05), xlabel="source")
    left.legend(loc="upper right", fontsize=9)
    right.bar(places, sizes[t], color=COLOUR["vermilion"], width=0.6)
    right.set(title="size of the gradient that arrives", ylim=(0, 1.05 * sizes.max()), xlabel="source")
    for ax in axes:
        ax.set_xticks(places, read)
