"""The figures of chapter 07. Each function draws what it is given; the notebook computes every number."""

import numpy as np

from handgrad.course.figures import COLOUR, DIVERGING, HEIGHT, MARKS, WIDTH, backward_graph, subplots


def two_sentences(panels, names):
    """What a model computes for two sentences: panels {title: two rows of outputs}, names of both."""
    fig, axes = subplots(1, len(panels), size=(WIDTH, 2.9), sharey=True)
    for ax, (title, outputs) in zip(axes, panels.items()):
        for row, name, look in zip(outputs, names, ("o", "x")):
            colour, size = (COLOUR["blue"], 9) if look == "o" else (COLOUR["vermilion"], 6)
            ax.plot(row, look, color=colour, ms=size, mfc="none", mew=1.8, ls="none", label=name)
        ax.set(title=title, xlabel="output", xticks=[])
    axes[0].set_ylabel("sum over the words")
    fig.legend(*axes[0].get_legend_handles_labels(), loc="outside upper left", ncols=2)
    return fig


def table(P):
    """The table P (T, D): a column for each position, a row for each feature."""
    fig, ax = subplots(size=(WIDTH, 3.0))
    image = ax.imshow(P.T, cmap=DIVERGING, vmin=-1, vmax=1, aspect="auto")
    ax.set(xlabel="position t", ylabel="column j")
    fig.colorbar(image, ax=ax, label="entry", shrink=0.8, aspect=25)
    return fig


def integers():
    """One pair turned by the angle with cosine 3/5: values forward on the edges, gradients back."""
    nodes = {"$x_0$": (0, 1), "$x_1$": (0, 0), "turn": (1.5, 0.5), "$y_0$": (3, 1), "$y_1$": (3, 0)}
    nodes["$L$"] = (4.4, 0.5)
    edges = [("$x_0$", "turn", "5", "", "7"), ("$x_1$", "turn", "10", "", "−1")]
    edges += [("turn", "$y_0$", "−5", "", "5"), ("turn", "$y_1$", "10", "", "5")]
    edges += [("$y_0$", "$L$", "", "", ""), ("$y_1$", "$L$", "", "", "")]
    return backward_graph(nodes, edges, height=3.0)


def turning(axes, x, y, dy, dx):
    """Left: a pair y after the turn and the gradient dy that arrives. Right: the pair x and its gradient."""
    titles = ("after the turn", "before the turn")
    for ax, title, arrows in zip(axes, titles, ({"y": y, "dy": dy}, {"x": x, "dx": dx})):
        ax.set(xlim=(-2.9, 2.9), ylim=(-2.9, 2.9), xticks=[], yticks=[], title=title, aspect="equal")
        for (name, arrow), colour in zip(arrows.items(), ("blue", "vermilion")):
            look = dict(arrowstyle="-|>,head_width=0.3,head_length=0.6", lw=2.2, color=COLOUR[colour])
            look |= dict(ls="-" if colour == "blue" else "--", shrinkA=0, shrinkB=0)
            ax.annotate("", arrow, (0, 0), arrowprops=look)
            ax.text(*(1.22 * arrow), name, ha="center", va="center", fontsize=12, color=COLOUR[colour])


def lengths(sizes, losses, level):
    """Loss beyond the lengths of training: {title: (seeds, sizes)}, beside that of a reader without order."""
    fig, ax = subplots(size=(WIDTH, HEIGHT + 0.3))
    for n, (title, rows) in enumerate(losses.items()):
        ax.plot(sizes, np.mean(rows, axis=0), marker=MARKS[n], label=title)
    ax.plot(sizes, level, color=COLOUR["black"], lw=1, ls=":", label="without order")
    ax.set(xlabel="length of the line", ylabel="loss beyond position 7", ylim=(-0.15, None), xticks=sizes)
    fig.legend(loc="outside upper left", ncols=5)
    return fig
