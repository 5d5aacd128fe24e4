"""The figures of chapter 13. Each function draws what it is given; the notebook computes every number."""

import numpy as np
from matplotlib.patches import FancyBboxPatch

from handgrad.course.figures import COLOUR, LABEL, WIDTH, backward_graph, subplots

PALE = {"sky": "#DCEBF5", "orange": "#FBEBCC", "green": "#D5EEE6", "grey": "#EEEEEE"}


def families():
    """Three models side by side, drawn from the same boxes."""
    fig, ax = subplots(size=(WIDTH, 4.6))
    ax.set(xlim=(0, 12.4), ylim=(-7.4, 1.0))
    ax.set_axis_off()

    def box(x, y, words, colour):
        frame = (x - 1.28, y - 0.42), 2.56, 0.84
        ax.add_patch(FancyBboxPatch(*frame, boxstyle="round,pad=0,rounding_size=0.12", fc=PALE[colour], lw=0))
        ax.text(x, y, words, ha="center", va="center", fontsize=LABEL - 1.5)

    def stack(x, boxes, below):
        for n, (words, colour) in enumerate(boxes):
            y = -0.6 - 1.3 * n
            box(x, y, words, colour)
            if n + 1 < len(boxes) or below:
                ax.annotate("", (x, y - 0.86), (x, y - 0.42), arrowprops=dict(arrowstyle="-|>"))
        ax.text(x, -0.6 - 1.3 * len(boxes) + 0.1, below, ha="center", va="center", fontsize=LABEL - 1)

    read, see_all, see_past = (
        ("tables", "grey"),
        ("attention\nto all", "sky"),
        ("attention\nto the past", "orange"),
    )
    change, cross, head = ("feed-forward", "grey"), ("to the memory", "green"), ("head", "grey")
    columns = {
        1.4: [read, see_all, change, head],
        4.6: [read, see_past, change, head],
        7.75: [read, see_all, change],
        11.0: [read, see_past, cross, change, head],
    }
    for x, boxes in columns.items():
        stack(x, boxes, "" if x == 7.75 else "logits")
    for x, title in ((1.4, "encoder-only"), (4.6, "decoder-only"), (9.4, "encoder–decoder")):
        ax.text(x, 0.55, title, ha="center", fontsize=LABEL, fontweight="bold")
    look = dict(arrowstyle="-|>", color=COLOUR["green"], lw=1.8)
    ax.annotate("", (9.72, -3.2), (9.03, -3.2), arrowprops=look)
    for x in (3.0, 6.2):
        ax.plot([x, x], [-7.2, 0.8], color="#D9D9D9", lw=1, ls="-")
    return fig


def integers():
    """The small model: values on the solid edges, gradients on the dashed ones."""
    nodes = {"E, P′": (0, 2), "memory": (1.3, 2), "E, P": (0, 0), "block 0": (1.9, 0)}
    nodes |= {"block 1": (3.3, 0), "head": (4.6, 0)}
    edges = [
        ("E, P′", "memory", "1", "", "9"),
        ("memory", "block 0", "1", "", "3"),
        ("memory", "block 1", "1", "", "6"),
        ("E, P", "block 0", "(2, 3)", "", "(2, 1)"),
        ("block 0", "block 1", "(3, 4)", "", "(2, 1)"),
        ("block 1", "head", "(5, 6)", "", "(2, 1)"),
    ]
    return backward_graph(nodes, edges, height=3.8)


def graph():
    """The whole model: three uses of E, one table of positions on each side, one memory for N blocks."""
    nodes = {"P′": (0, 2.1), "E": (0, 0), "encoder": (1.3, 2.1), "P": (3.1, 2.1), "decoder": (3.3, 1)}
    nodes |= {"head": (4.4, 0), "L": (5.2, 0)}
    edges = [
        ("P′", "encoder", "(S,D)", "", "dP′"),
        ("E", "encoder", "(B,S,D)", "", "dX"),
        ("E", "decoder", "(B,T,D)", "", "dY"),
        ("P", "decoder", "(T,D)", "", "dP"),
        ("encoder", "decoder", "X′", "(B,S,D)", "dX′"),
        ("decoder", "head", "Y", "(B,T,D)", "dY"),
        ("E", "head", "(V,D)", "", "dZᵀY"),
        ("head", "L", "Z", "", "dZ"),
    ]
    return backward_graph(nodes, edges, height=4.6)


def feels(axes, sizes, t, pads=()):
    """Bars of what arrives at each input: sizes {title: (places,)}; a cross stands where it is exactly 0."""
    for ax, (title, arriving) in zip(axes.flat, sizes.items(), strict=True):
        places = np.arange(len(arriving))
        ax.bar(places, arriving, 0.65, color=COLOUR["vermilion"])
        none = places[arriving == 0]
        if none.size:
            ax.plot(none, 0 * none, "x", color=COLOUR["black"], ms=7, mew=1.6, clip_on=False, zorder=3)
        ax.set(title=title, xlabel="input", ylabel="gradient", ylim=(0, None))
        names = [f"{s}\npad" if "source" in title and s in pads else str(s) for s in places]
        ax.set_xticks(places, names)


def parts(axes, sizes, most):
    """One bar of parameters, in millions, cut into its parts: sizes {part: number}."""
    left = 0.0
    colours = ("blue", "sky", "green", "orange", "vermilion", "grey", "black")
    for colour, (name, number) in zip(colours, sizes.items(), strict=False):
        million = number / 1e6
        axes.barh(0, million, left=left, height=0.5, color=COLOUR[colour], label=name)
        if million > most / 1e6 / 14:
            dark = colour in ("blue", "green", "vermilion", "black", "grey")
            look = dict(ha="center", va="center", fontsize=10, color="white" if dark else "black")
            axes.text(left + million / 2, 0, f"{million:.1f}", **look)
        left += million
    axes.set(xlim=(0, most / 1e6), ylim=(-0.35, 0.35), yticks=[], xlabel="million parameters")
    axes.set_title(f"{sum(sizes.values()):,} parameters", fontsize=12)
    axes.figure.legend(loc="outside lower center", ncols=4, fontsize=9.5)


def shares(lengths, counted, timed, crossing):
    """The share of scores, softmax and sums in a block, by length: of multiply-adds and of seconds."""
    fig, ax = subplots()
    ax.plot(lengths, counted, "-", marker="o", color=COLOUR["blue"], label="of multiply-adds")
    ax.plot(lengths, timed, "--", marker="s", color=COLOUR["vermilion"], label="of seconds, here")
    ax.axvline(crossing, color=COLOUR["black"], lw=1, ls=":")
    ax.text(crossing * 1.06, 0.03, "2D + F", fontsize=LABEL)
    ax.axhline(0.5, color=COLOUR["black"], lw=1, ls=":")
    ax.set_xscale("log", base=2)
    ax.set_xticks(lengths, [str(n) for n in lengths])
    ax.set(ylim=(0, 1), xlabel="length n", ylabel="share of scores, softmax, sums")
    ax.legend(loc="upper left")
    return fig
