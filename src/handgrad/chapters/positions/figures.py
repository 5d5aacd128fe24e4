"""The figures of chapter 07. Each function draws what it is given; the notebook computes every number."""

import numpy as np

from handgrad.course.figures import (
    COLOUR,
    DASHES,
    DIVERGING,
    HEIGHT,
    LINES,
    WIDTH,
    backward_graph,
    heat_maps,
    subplots,
)


def table(P):
    """The table P (T, D): a column for each position, a row for each feature."""
    fig, ax = subplots(size=(WIDTH, 3.4))
    image = ax.imshow(P.T, cmap=DIVERGING, vmin=-1, vmax=1, aspect="auto")
    ax.set(xlabel="position t", ylabel="column j")
    fig.colorbar(image, ax=ax, label="entry", shrink=0.8, aspect=25)
    return fig


def products(curves):
    """Scalar products of two rows by their distance b, as a share of D/2: curves {D: (offsets,)}."""
    fig, ax = subplots()
    for width, curve in curves.items():
        ax.plot(np.arange(len(curve)), curve / (width / 2), label=f"D = {width}")
    ax.axhline(0, color=COLOUR["black"], lw=0.8, ls="-")
    ax.set(xlabel="distance b", ylabel="product, as a share of D/2", xlim=(0, None))
    ax.legend()
    return fig


def integers():
    """One pair turned by the angle with cosine 3/5: values forward on the edges, gradients back."""
    nodes = {"$x_0$": (0, 1), "$x_1$": (0, 0), "turn": (1.5, 0.5), "$y_0$": (3, 1), "$y_1$": (3, 0)}
    nodes["$L$"] = (4.4, 0.5)
    edges = [("$x_0$", "turn", "5", "", "7"), ("$x_1$", "turn", "10", "", "−1")]
    edges += [("turn", "$y_0$", "−5", "", "5"), ("turn", "$y_1$", "10", "", "5")]
    edges += [("$y_0$", "$L$", "", "", ""), ("$y_1$", "$L$", "", "", "")]
    return backward_graph(nodes, edges, height=3.4)


def graph():
    """Where positions enter, forward and backward: added to the tokens, and turned into the queries."""
    linear, last = r"$\mathbf{W}_Q$", "scores"
    nodes = {
        "tokens": (0, 2),
        "P": (0, 0),
        "add": (1.5, 1),
        linear: (3.1, 1),
        "turn": (4.6, 1),
        last: (6.2, 1),
    }
    edges = [
        ("tokens", "add", "X", "(B, T, D)", "dX"),
        ("P", "add", "", "(T, D)", "dP"),
        ("add", linear, "Y", "", "dY"),
        (linear, "turn", "Q", "", "dQ"),
        ("turn", last, "RQ", "", "d(RQ)"),
    ]
    return backward_graph(nodes, edges, height=3.8)


def turning(axes, x, y, dy, dx):
    """Left: a pair y after the turn and the gradient dy that arrives. Right: the pair x and its gradient."""
    left, right = axes
    for ax, vector, back, names in ((left, y, dy, ("y", "dy")), (right, x, dx, ("x", "dx"))):
        size = np.linalg.norm(vector)
        around = np.linspace(0, 2 * np.pi, 200)
        ax.plot(size * np.cos(around), size * np.sin(around), color="#BBBBBB", lw=0.8, ls="-")
        for arrow, name, colour in ((vector, names[0], "blue"), (back, names[1], "vermilion")):
            look = dict(arrowstyle="-|>,head_width=0.3,head_length=0.6", lw=2.2, color=COLOUR[colour])
            look |= dict(ls="-" if colour == "blue" else "--", shrinkA=0, shrinkB=0)
            ax.annotate("", arrow, (0, 0), arrowprops=look)
            ax.text(*(1.22 * arrow), name, ha="center", va="center", fontsize=12, color=COLOUR[colour])
        ax.set(xlim=(-2.9, 2.9), ylim=(-2.9, 2.9), xticks=[], yticks=[])
        ax.set_aspect("equal")
        ax.spines[:].set_visible(False)
    right.set_title("before the turn")
    left.set_title("after the turn")


def attended(maps, seen):
    """Weights of one line {title: (T, T)}; the dotted lines stand where the lengths of training end."""
    maps = {title: (a, range(len(a)), range(len(a))) for title, a in maps.items()}
    fig = heat_maps(maps, "weight", across="key", down="query", size=7, height=2.7)
    for ax in fig.axes[: len(maps)]:
        ax.axhline(seen - 0.5, color="white", lw=1, ls=":")
        ax.axvline(seen - 0.5, color="white", lw=1, ls=":")
        names = [n if n % 5 == 0 else "" for n in range(len(next(iter(maps.values()))[0]))]
        ax.set_xticks(range(len(names)), names)
        ax.set_yticks(range(len(names)), names)
    return fig


def lengths(sizes, losses, level):
    """Loss beyond the lengths of training: {title: (seeds, sizes)}, beside that of a reader without order."""
    fig, ax = subplots(size=(WIDTH, HEIGHT + 0.3))
    for n, (title, rows) in enumerate(losses.items()):
        look = dict(color=COLOUR[LINES[n]], ls=DASHES[n])
        ax.plot(sizes, np.mean(rows, axis=0), marker="os^D"[n], label=title, **look)
        ax.fill_between(sizes, np.min(rows, axis=0), np.max(rows, axis=0), color=look["color"], alpha=0.15)
    ax.plot(sizes, level, color=COLOUR["black"], lw=1, ls=":", label="without order")
    ax.set(xlabel="length of the line", ylabel="loss beyond position 7", ylim=(-0.15, None))
    ax.set_xticks(sizes, sizes)
    fig.legend(loc="outside upper left", ncols=4)
    return fig
