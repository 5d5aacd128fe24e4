"""The figures of chapter 11. Each function draws what it is given; the notebook computes every number."""

from matplotlib.patches import Rectangle

from handgrad.course.figures import COLOUR, WIDTH, backward_graph, subplots

TARGET, SOURCE = "blue", "orange"


def fetched(pairs):
    """Sentences under each other, a line from each word written to the word it needs.

    pairs: tuples (read, written, needed): two lists of words, and for each word written a place in the first.
    """
    fig, axes = subplots(1, len(pairs), (WIDTH, 2.0))
    look = dict(ha="center", va="center", fontsize=12)
    for ax, (read, written, needed) in zip(axes, pairs, strict=True):
        for s, word in enumerate(read):
            ax.text(s, 1, word, color=COLOUR["black"], **look)
        for t, word in enumerate(written):
            place = (t + 0.5) * (len(read) - 1) / (len(written) - 0.2)
            ax.text(place, 0, word, color=COLOUR["black"], fontweight="bold", **look)
            ax.plot([place, needed[t]], [0.16, 0.86], color=COLOUR[TARGET], lw=2, ls="-")
        ax.set(xlim=(-0.9, len(read) - 0.1), ylim=(-0.25, 1.25))
        ax.set_axis_off()
    return fig


def integers():
    """Two queries, three sources: a weight and du on each edge, and at the ends what arrives."""
    x, y, dy = "12", "32", ("4", "−6")
    a, du = ["½¼¼", "⅔⅙⅙"], [["−6", "+1", "+5"], ["+8", "−2", "−6"]]
    memory, dv, dk = ["(1, −1)", "(0, 4)", "(0, 8)"], ["−2", "0", "0"], ["10", "−3", "−7"]
    fig, ax = subplots(size=(WIDTH, 4.4))
    frame = dict(boxstyle="round,pad=0.45", fc="white", ec=COLOUR["grey"])
    back, forth = COLOUR["vermilion"], COLOUR["blue"]
    look = dict(va="center", fontsize=12.5)
    for t, left in enumerate((3.0, 1.0)):
        for s, right in enumerate((4.0, 2.0, 0.0)):
            ax.plot([0, 3], [left, right], color=COLOUR["grey"], lw=1, ls="-", zorder=0)
            share = (0.22, 0.62)[t]
            at, up = 3 * share, left + share * (right - left)
            ax.add_patch(Rectangle((at - 0.26, up - 0.16), 0.72, 0.32, fc="white", ec="none"))
            ax.text(at - 0.06, up, a[t][s], ha="right", color=forth, **look)
            ax.text(at + 0.06, up, f"({du[t][s]})", ha="left", color=back, **look)
            ax.text(3, right, memory[s], ha="center", bbox=frame, **look)
            ax.text(3.5, right + 0.22, f"dv = {dv[s]}", color=back, **look)
            ax.text(3.5, right - 0.22, f"dk = {dk[s]}", color=back, **look)
        ax.text(0, left, f"x = {x[t]}", ha="center", bbox=frame, **look)
        ax.text(0, left + 0.5, f"y = {y[t]}", ha="center", color=forth, **look)
        ax.text(0, left - 0.5, f"dy = {dy[t]}", ha="center", color=back, **look)
    ax.text(0, 4.55, "targets", ha="center", fontsize=12)
    ax.text(3, 4.55, "memory", ha="center", fontsize=12)
    ax.text(1.5, -0.75, "weight a", ha="right", fontsize=12, color=forth)
    ax.text(1.56, -0.75, "  and du on each edge", ha="left", fontsize=12, color=back)
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


def arrivals(axes, weights, sizes, words):
    """Left: the weights (S,) of one target. Right: the sizes (S,) of what its loss sends to each source."""
    bars = ((weights, TARGET, "weights", 1), (sizes, SOURCE, "size of the gradient", 2))
    for ax, (values, colour, title, top) in zip(axes, bars, strict=True):
        ax.bar(range(len(words)), values, color=COLOUR[colour], width=0.6)
        ax.set(title=title, ylim=(0, top), yticks=(0, top / 2, top))
        ax.set_xticks(range(len(words)), words, rotation=30)
