"""The figures of chapter 10. Each function draws what it is given; the notebook computes every number."""

import numpy as np
from matplotlib.patches import Rectangle

from handgrad.course.figures import COLOUR, LINES, WIDTH, backward_graph, heat_maps, subplots


def one_or_two(words):
    """The weights of the word "cross" on a sentence: what one head must share out, two heads need not."""
    two = np.array([[word == "animal" for word in words], [word == "street" for word in words]], float)
    names = ["one head", "first of two", "second of two"]
    return heat_maps({"": (np.vstack([two.mean(axis=0), two]), names, words)}, "weight", height=2.3)


def cut(T, H, K):
    """One sequence (T, H·K) as rows, cut into H heads, and the heads as they are stacked: (H, T, K)."""
    fig, ax = subplots(size=(WIDTH, 3.3))
    colours = [COLOUR[LINES[h]] for h in range(H)]

    def cells(left, top, rows, columns, colour, number):
        for t, c in np.ndindex(rows, columns):
            box = Rectangle((left + c, top - t - 1), 1, 1, fc=colour(c), ec="white", lw=1.5, alpha=0.75)
            ax.add_patch(box)
            words = dict(ha="center", va="center", fontsize=9, color="white", fontweight="bold")
            ax.text(left + c + 0.5, top - t - 0.5, number(t, c), **words)

    cells(0, 0, T, H * K, lambda c: colours[c // K], lambda t, c: str(t * H * K + c))
    ax.text(H * K / 2, 0.25, "(T, HK)", ha="center", va="bottom", fontsize=12)
    ax.annotate("", (H * K + 2.6, -T / 2), (H * K + 0.4, -T / 2), arrowprops=dict(arrowstyle="->", lw=1.4))
    ax.text(H * K + 1.5, -T / 2 + 0.25, "split", ha="center", va="bottom", fontsize=12)
    ax.text(H * K + 1.5, -T / 2 - 0.25, "merge", ha="center", va="top", fontsize=12)
    ax.annotate(
        "", (H * K + 0.4, -T / 2 - 0.2), (H * K + 2.6, -T / 2 - 0.2), arrowprops=dict(arrowstyle="->", lw=1.4)
    )
    height, left = T + 0.6, H * K + 4.4
    middle = (H * height - 0.6) / 2 - T / 2
    for h in range(H):
        top = middle - h * height
        cells(left, top, T, K, lambda c, h=h: colours[h], lambda t, c, h=h: str(t * H * K + h * K + c))
        ax.text(left - 0.3, top - T / 2, f"head {h}", ha="right", va="center", fontsize=10)
    ax.text(left + K / 2, middle + 0.25, "(H, T, K)", ha="center", va="bottom", fontsize=12)
    ax.set(xlim=(-0.3, left + K + 0.8), ylim=(middle - H * height + 0.2, middle + 1.3), aspect="equal")
    ax.set_axis_off()
    return fig


def integers():
    """One query, two keys, two heads: scores, weights and outputs forward on the edges, gradients back."""
    nodes = {rf"$\mathbf{{u}}_{h}$": (0, 1 - h) for h in range(2)}
    nodes |= {rf"$\mathbf{{a}}_{h}$": (1.6, 1 - h) for h in range(2)}
    nodes |= {f"$o_{h}$": (3.1, 1 - h) for h in range(2)}
    nodes |= {r"$\mathbf{y}$": (4.4, 0.5), "$L$": (5.7, 0.5)}
    told = [("(ln 3, 0)", "(−3, 3)", "(¾, ¼)", "(0, 16)", "1", "4")]
    told += [("(−ln 3, 0)", "(3, −3)", "(¼, ¾)", "(16, 0)", "2", "2")]
    edges = []
    for h, (scores, du, weights, da, output, do) in enumerate(told):
        u, a, o = rf"$\mathbf{{u}}_{h}$", rf"$\mathbf{{a}}_{h}$", f"$o_{h}$"
        edges += [(u, a, scores, "", du), (a, o, weights, "", da), (o, r"$\mathbf{y}$", output, "", do)]
    return backward_graph(nodes, [*edges, (r"$\mathbf{y}$", "$L$", "(5, −2)", "", "(2, 1)")], height=3.4)


def reach(maps):
    """How far each token moves each output, {title: (T, T)}."""
    top = max(x.max() for x in maps.values())
    shown = {title: (x, range(len(x)), range(len(x))) for title, x in maps.items()}
    names = dict(across="token that moves", down="output that follows")
    return heat_maps(shown, "norm of the derivative", limits=(0, top), power=0.5, height=2.7, **names)


def looks(maps):
    """Weights by distance: {title: (H, distances)}, for heads trained to look back."""
    heads = {title: [f"head {h}" for h in range(len(x))] for title, x in maps.items()}
    shown = {title: (x, heads[title], range(x.shape[1])) for title, x in maps.items()}
    return heat_maps(shown, "mean weight", across="tokens back", height=2.4)
