"""The figures of chapter 16. Each function draws what it is given; the notebook computes every number."""

import numpy as np
from matplotlib.patches import FancyBboxPatch

from handgrad.course.figures import COLOUR, LABEL, WIDTH, backward_graph, box, losses, subplots

MARKS = {"<pad>", "<bos>", "<eos>"}


def shift(batch, vocabulary):
    """The first sentence of a batch: what the encoder reads, what the decoder reads, and what it must say."""
    names = {"source": "the encoder reads", "target_in": "the decoder reads", "target_out": "it must say"}
    fig, ax = subplots(size=(WIDTH, 1.95))
    for y, (name, title) in enumerate(names.items()):
        ax.text(-0.15, -y, title, ha="right", va="center")
        for x, token in enumerate(vocabulary.tokens[place] for place in batch[name][0]):
            face, ink = ("grey", "grey") if token in MARKS else ("sky", "black")
            box(ax, x + 0.5, -y, token, face, high=0.52, fontsize=8.5, color=COLOUR[ink])
    ax.set(xlim=(-2.6, max(table.shape[1] for table in batch.values())), ylim=(-2.6, 0.6))
    ax.set_axis_off()
    return fig


def one_place():
    """Four words: the example worked by hand, on the edges of its graph."""
    nodes = {"x": (0, 0), "E": (0, 2), "z": (1.2, 1), "p": (2.5, 1), "L": (3.5, 1)}
    edges = [
        ("x", "z", "(ln 2, ln 3)", "", "(1, 2)/10"),
        ("E", "z", "", "(4, 2)", "dzᵀ x"),
        ("z", "p", "", "", "(0, −5, 2, 3)/10"),
        ("p", "L", "(1, 2, 3, 4)/10", "", "−q/p"),
    ]
    return backward_graph(nodes, edges, height=3.6)


def architecture(config):
    """The encoder–decoder from top to bottom, with the shapes between its parts."""
    D, F, H, N, V = config.D, config.F, config.H, config.N, config.V
    fig, ax = subplots(size=(WIDTH, 6.6))
    ax.set(xlim=(0, 10), ylim=(-11.4, 0.75))
    ax.set_axis_off()
    left, right = 2.35, 7.45

    def part(x, y, words, colour, wide=3.9):
        box(ax, x, y, words, colour, wide, 0.84, fontsize=LABEL)

    def arrow(x, top, bottom, shape=""):
        ax.annotate("", (x, bottom), (x, top), arrowprops=dict(arrowstyle="-|>", color=COLOUR["black"]))
        ax.text(x + 0.15, (top + bottom) / 2, shape, va="center", fontsize=LABEL - 1, color=COLOUR["blue"])

    def frame(x, top, bottom):
        corner = (x - 2.15, bottom - 0.6), 4.3, top - bottom + 1.2
        ax.add_patch(FancyBboxPatch(*corner, boxstyle="round,pad=0", fc="none", ec=COLOUR["grey"], ls="--"))
        ax.text(x + 2.1, bottom - 0.66, f"{N} times", ha="right", va="top", fontsize=LABEL - 1)

    for x, name, letter in ((left, "source", "S"), (right, "target_in", "T")):
        ax.text(x, 0.45, f"{name} (B, {letter})", ha="center", fontsize=LABEL, color=COLOUR["blue"])
        arrow(x, 0.35, -0.15)
        part(x, -0.6, "√D E[·] + positions", "grey")
        arrow(x, -1.05, -2.25, f"(B, {letter}, {D})")
    part(left, -2.7, "self-attention", "sky")
    part(left, -4.3, "feed-forward", "orange")
    part(right, -2.7, "causal self-attention", "sky", 4.2)
    part(right, -4.3, "cross-attention", "green")
    part(right, -5.9, "feed-forward", "orange")
    for x, y in ((left, -3.15), (right, -3.15), (right, -4.75)):
        arrow(x, y, y - 0.7)
    frame(left, -2.7, -4.3)
    frame(right, -2.7, -5.9)
    ax.plot([left, left, 4.9, 4.9], [-4.75, -6.9, -6.9, -4.3], color=COLOUR["green"], lw=1.8)
    line = dict(arrowstyle="-|>", color=COLOUR["green"], lw=1.8)
    ax.annotate("", (right - 1.95, -4.3), (4.85, -4.3), arrowprops=line)
    ax.text(left - 0.15, -7.25, f"memory X′ (B, S, {D})", va="center", ha="center", fontsize=LABEL - 1)
    arrow(right, -6.35, -7.85, f"(B, T, {D})")
    part(right, -8.3, "head: x Eᵀ", "grey")
    arrow(right, -8.75, -9.55, f"logits (B, T, {V})")
    part(right, -10.0, "softmax, cross-entropy", "grey", 4.4)
    arrow(right, -10.45, -11.2, "loss")
    about = f"{H} heads of width {D // H}\ninside feed-forward: {F}\nE is one table ({V}, {D})"
    ax.text(left, -9.4, about, ha="center", va="center", fontsize=LABEL, color=COLOUR["grey"])
    return fig


def opening(curve, floor, said, english):
    """A loss beside its floor, and below it what the model says of one number: said {update: French}."""
    fig, (ax, below) = subplots(2, 1, (WIDTH, 4.3), height_ratios=(3, 1.2))
    losses({"loss": curve}, {"floor": floor}, ax=ax)
    steps = np.array(list(said))
    ax.plot(steps, np.array(curve)[np.maximum(steps - 1, 0)], "o", color=COLOUR["vermilion"], clip_on=False)
    below.set_axis_off()
    for row, (left, words) in enumerate({"English": english, **said}.items()):
        title = left if left == "English" else f"after {left}"
        look = dict(va="center", fontsize=9.5, transform=below.transAxes)
        below.text(0.0, 1 - row / 3, title, color=COLOUR["grey"], **look)
        below.text(0.16, 1 - row / 3, words if len(words) < 70 else words[:67] + " …", **look)
    return fig


def dz_of(z, right, alpha):
    """The gradient of the logits z (V,) of one place, to two digits."""
    p, V = np.exp(z - np.logaddexp.reduce(z)), len(z)
    dz = p - (1 - alpha) * (np.arange(V) == right) - alpha / V
    return (dz.round(2) + 0.0).tolist()


def answer(ax, z, right, alpha):
    """Bars of dz = p - q, one for each word: above 0 the logit falls."""
    dz = np.array(dz_of(z, right, alpha))
    bars = ax.bar(np.arange(len(z)), dz, 0.6, color=np.where(dz > 0, COLOUR["vermilion"], COLOUR["green"]))
    ax.bar_label(bars, [f"{value:+.2f}" for value in dz], padding=3)
    ax.axhline(0, color=COLOUR["black"], lw=1)
    ax.set(ylim=(-0.95, 0.5), xticks=np.arange(len(z)), xlabel="word (1 is right)", ylabel="dz = p − q")
