"""The figures of chapter 13. Each function draws what it is given; the notebook computes every number."""

from matplotlib.patches import FancyBboxPatch

from handgrad.course.figures import COLOUR, LABEL, WIDTH, backward_graph, box, subplots

ARROW = dict(arrowstyle="-|>", shrinkA=0, shrinkB=0, color=COLOUR["black"])


def arrow(ax, start, end, **look):
    ax.annotate("", end, start, zorder=1, arrowprops=ARROW | look)


def gpt():
    """A decoder-only model from the tokens, below, to the loss: the stream, and what is added to it."""
    fig, ax = subplots(size=(5.2, 6.6))
    ax.set(xlim=(-5.6, 4.4), ylim=(-0.7, 12.5))
    ax.set_axis_off()
    ax.add_patch(FancyBboxPatch((-4.4, 2.7), 6.9, 5.5, boxstyle="round,pad=0.1", fc="#FAFAFA", ec="#BBBBBB"))
    ax.text(2.75, 5.3, "× N", fontsize=LABEL + 5, va="center")
    arrow(ax, (0, -0.1), (0, 12.1), color=COLOUR["blue"], lw=2.6)
    green, grey = {0.5: "look up E", 10.05: "head: times Eᵀ"}, {9.0: "norm", 11.1: "softmax, −ln p"}
    for colour, boxes in (("green", green), ("grey", grey)):
        for y, words in boxes.items():
            box(ax, 0, y, words, colour, 2.56, 0.84, fontsize=LABEL)
    for y, layer, colour in ((3.4, "masked attention", "orange"), (5.9, "feed-forward", "sky")):
        ax.plot([0, -2.5], [y - 0.42, y - 0.42], "-", color=COLOUR["black"], lw=1.2, zorder=1)
        arrow(ax, (-2.5, y - 0.42), (-2.5, y - 0.2))
        box(ax, -2.5, y + 0.22, "norm", "grey", 3.2, 0.84, fontsize=LABEL)
        box(ax, -2.5, y + 1.2, layer, colour, 3.2, 0.84, fontsize=LABEL)
        ax.plot([-2.5, -2.5], [y + 0.6, y + 1.9], "-", color=COLOUR["black"], lw=1.2, zorder=1)
        arrow(ax, (-2.5, y + 1.9), (-0.3, y + 1.9))
    for y in (1.9, 5.3, 7.8):
        look = dict(ha="center", va="center", fontsize=LABEL + 1, zorder=3)
        ax.text(0, y, "+", bbox=dict(boxstyle="circle,pad=0.15", fc="white", ec=COLOUR["grey"]), **look)
    box(ax, -3.2, 1.9, "positions P", "green", 2.56, 0.84, fontsize=LABEL)
    arrow(ax, (-1.9, 1.9), (-0.3, 1.9))
    look = dict(fontsize=LABEL, color=COLOUR["blue"], va="center")
    for y, shape in ((-0.3, "tokens (B, T)"), (2.42, "X⁰ (B, T, D)"), (8.42, "Xᴺ (B, T, D)")):
        ax.text(0.25, y, shape, **look)
    ax.text(1.45, 10.58, "Z (B, T, V)", **look)
    ax.text(0.25, 12.1, "loss", **look)
    return fig


def families():
    """Three models side by side, drawn from the same boxes."""
    fig, ax = subplots(size=(WIDTH, 4.0))
    ax.set(xlim=(0, 12.4), ylim=(-6.3, 1.0))
    ax.set_axis_off()
    read, change, head = ("tables", "grey"), ("feed-forward", "grey"), ("head", "grey")
    see_all, see_past = ("attention\nto all", "sky"), ("attention\nto the past", "orange")
    columns = {
        1.4: [read, see_all, change, head],
        4.6: [read, see_past, change, head],
        7.75: [read, see_all, change],
        11.0: [read, see_past, ("to the memory", "green"), change, head],
    }
    for x, boxes in columns.items():
        for n, (words, colour) in enumerate(boxes):
            y = -0.6 - 1.3 * n
            box(ax, x, y, words, colour, 2.56, 0.84, fontsize=LABEL - 1.5)
            if n + 1 < len(boxes):
                arrow(ax, (x, y - 0.42), (x, y - 0.86))
    for x, title in ((1.4, "encoder-only"), (4.6, "decoder-only"), (9.4, "encoder–decoder")):
        ax.text(x, 0.55, title, ha="center", fontsize=LABEL, fontweight="bold")
    arrow(ax, (9.03, -3.2), (9.72, -3.2), color=COLOUR["green"], lw=1.8)
    return fig


def integers():
    """The small model: values on the solid edges, gradients on the dashed ones."""
    nodes = {"P": (0, 2), "E": (0, 0), "blocks": (1.5, 2), "head": (3.2, 1), "L": (4.4, 1)}
    edges = [
        ("P", "blocks", "0 1", "", "−1 2"),
        ("E", "blocks", "2 2; 1 2", "", "2 3; −3 −1"),
        ("blocks", "head", "2 3; 1 3", "", "2 3; −3 −1"),
        ("E", "head", "1 2 −1", "", "5 −1 −4"),
        ("head", "L", "Z", "", "dZ"),
    ]
    return backward_graph(nodes, edges, height=3.6)
