"""The figures of chapter 16. Each function draws what it is given; the notebook computes every number."""

import numpy as np
from matplotlib.patches import FancyBboxPatch

from handgrad.chapters.translate.trials import tokens_of
from handgrad.course.figures import (
    COLOUR,
    DASHES,
    LABEL,
    LINES,
    WIDTH,
    backward_graph,
    heat_maps,
    losses,
    subplots,
)

MARKS = {"<pad>", "<bos>", "<eos>"}


def sentences(rows):
    """Tokens as cells of a table, one row for each entry of rows {title: tokens}; marks are grey."""
    fig, ax = subplots(size=(WIDTH, 0.55 * len(rows) + 0.3))
    for y, (title, tokens) in enumerate(rows.items()):
        ax.text(-0.15, -y, title, ha="right", va="center")
        for x, token in enumerate(tokens):
            mark = token in MARKS
            face, ink = ("#E6E6E6", COLOUR["grey"]) if mark else ("#DCEBF5", COLOUR["black"])
            box = (x + 0.07, -y - 0.26), 0.86, 0.52
            ax.add_patch(FancyBboxPatch(*box, boxstyle="round,pad=0,rounding_size=0.1", fc=face, lw=0))
            ax.text(x + 0.5, -y, token, ha="center", va="center", fontsize=8.5, color=ink)
    longest = max(map(len, rows.values()))
    ax.set(xlim=(-2.6, longest), ylim=(-len(rows) + 0.4, 0.6))
    ax.set_axis_off()
    return fig


def shift(batch, vocabulary):
    """The first sentence of a batch: what the encoder reads, what the decoder reads, and what it must say."""
    names = {"source": "the encoder reads", "target_in": "the decoder reads", "target_out": "it must say"}
    return sentences({title: tokens_of(batch[name][0], vocabulary) for name, title in names.items()})


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


def whole_model():
    """The graph of the model and its gradients: one table at three places."""
    nodes = {"E": (0, 0), "encoder": (1, 2), "decoder": (2, 1), "head": (3, 0), "L": (4, 0)}
    edges = [
        ("E", "encoder", "x", "(B,S,D)", "dx"),
        ("E", "decoder", "x", "(B,T,D)", "dx"),
        ("encoder", "decoder", "memory", "(B,S,D)", "dmemory"),
        ("decoder", "head", "x", "(B,T,D)", "dx"),
        ("E", "head", "E", "(V,D)", "dE"),
        ("head", "L", "z", "(B,T,V)", "dz"),
    ]
    return backward_graph(nodes, edges, height=4.4)


PALE = {"sky": "#DCEBF5", "orange": "#FBEBCC", "green": "#D5EEE6", "grey": "#EEEEEE"}


def architecture(config):
    """The encoder–decoder from top to bottom, with the shapes between its parts."""
    D, F, H, N, V = config.D, config.F, config.H, config.N, config.V
    fig, ax = subplots(size=(WIDTH, 6.6))
    ax.set(xlim=(0, 10), ylim=(-11.4, 0.75))
    ax.set_axis_off()
    left, right = 2.35, 7.45

    def box(x, y, words, colour, width=3.9):
        frame = (x - width / 2, y - 0.42), width, 0.84
        ax.add_patch(FancyBboxPatch(*frame, boxstyle="round,pad=0,rounding_size=0.15", fc=PALE[colour], lw=0))
        ax.text(x, y, words, ha="center", va="center", fontsize=LABEL)

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
        box(x, -0.6, "√D E[·] + positions", "grey")
        arrow(x, -1.05, -2.25, f"(B, {letter}, {D})")
    box(left, -2.7, "self-attention", "sky")
    box(left, -4.3, "feed-forward", "orange")
    box(right, -2.7, "causal self-attention", "sky", 4.2)
    box(right, -4.3, "cross-attention", "green")
    box(right, -5.9, "feed-forward", "orange")
    for x, y in ((left, -3.15), (right, -3.15), (right, -4.75)):
        arrow(x, y, y - 0.7)
    frame(left, -2.7, -4.3)
    frame(right, -2.7, -5.9)
    ax.plot([left, left, 4.9, 4.9], [-4.75, -6.9, -6.9, -4.3], color=COLOUR["green"], lw=1.8)
    line = dict(arrowstyle="-|>", color=COLOUR["green"], lw=1.8)
    ax.annotate("", (right - 1.95, -4.3), (4.85, -4.3), arrowprops=line)
    ax.text(left - 0.15, -7.25, f"memory (B, S, {D})", va="center", ha="center", fontsize=LABEL - 1)
    arrow(right, -6.35, -7.85, f"(B, T, {D})")
    box(right, -8.3, "head: x Eᵀ", "grey")
    arrow(right, -8.75, -9.55, f"logits (B, T, {V})")
    box(right, -10.0, "softmax, cross-entropy", "grey", 4.4)
    arrow(right, -10.45, -11.2, "loss")
    about = f"{H} heads of width {D // H}\ninside feed-forward: {F}\nE is one table ({V}, {D})"
    ax.text(
        left, -9.4, about, ha="center", va="center", fontsize=LABEL, color=COLOUR["grey"], linespacing=1.5
    )
    return fig


def answer_of_the_gradient(axes, smoothing, z, right):
    """Left: probabilities p and target q of a few words. Right: dz = p − q, for one smoothing."""
    p, V = np.exp(z - np.logaddexp.reduce(z)), len(z)
    q = (1 - smoothing) * (np.arange(V) == right) + smoothing / V
    values, gradient = axes
    words, width = np.arange(V), 0.38
    values.bar(words - width / 2, p, width, color=COLOUR["blue"], label="p, the model")
    look = dict(color="white", edgecolor=COLOUR["vermilion"], hatch="//", label="q, the target")
    values.bar(words + width / 2, q, width, **look)
    values.set(ylim=(0, 1.05), xticks=words, xlabel="word", title="probability")
    values.legend(loc="upper right")
    colours = np.where(p > q, COLOUR["vermilion"], COLOUR["green"])
    gradient.bar(words, p - q, 0.6, color=colours)
    for word, value in enumerate(p - q):
        end = dict(va="bottom" if value >= 0 else "top", ha="center")
        gradient.text(word, value + (0.015 if value >= 0 else -0.015), f"{round(value, 2) + 0.0:+.2f}", **end)
    gradient.axhline(0, color=COLOUR["black"], lw=1)
    gradient.set(ylim=(-0.95, 0.5), xticks=words, xlabel="word", title="dz: above 0, the logit falls")


def in_words(smoothing, z, right):
    """What `answer_of_the_gradient` shows."""
    p, V = np.exp(z - np.logaddexp.reduce(z)), len(z)
    gradient = p - (1 - smoothing) * (np.arange(V) == right) - smoothing / V
    return f"label smoothing {smoothing}: dz of words 0 to {V - 1} is {(gradient.round(2) + 0.0).tolist()}"


def scale(shares, book):
    """Exact match by digits: {sentences: shares (seeds, 6)} of models, {sentences: shares (6,)} of a book.

    Left, a line through the means of the seeds and a dot for each; right, the book. Numbers of one digit are
    left out: there are too few.
    """
    fig, axes = subplots(1, 2, (WIDTH, 3.3), sharey=True)
    digits = np.arange(2, 7)
    for n, sentences in enumerate(shares):
        look = dict(color=COLOUR[LINES[n]], ls=DASHES[n])
        of_seeds = np.asarray(shares[sentences])[:, 1:]
        axes[0].plot(digits, of_seeds.mean(axis=0), label=f"{sentences:,}", **look)
        places = np.broadcast_to(digits, of_seeds.shape)
        axes[0].plot(places, of_seeds, "o", color=look["color"], ms=3.5, mfc="none")
        axes[1].plot(digits, book[sentences][1:], marker="o", ms=3.5, mfc="none", **look)
    axes[0].set(ylabel="share that is right", ylim=(0, 1.03), title="model")
    axes[1].set(title="phrase book")
    for ax in axes:
        ax.set(xlabel="digits of the number", xticks=digits)
    fig.legend(loc="outside upper left", ncols=4, title="sentences", alignment="left")
    return fig


def race(ours, theirs, tolerance):
    """Left: two loss curves on top of each other. Right: their relative difference, with the tolerance."""
    fig, (left, right) = subplots(1, 2)
    losses({"gradients by hand": ours}, dots={"PyTorch": theirs}, low=None, ax=left)
    updates = np.arange(1, len(ours) + 1)
    difference = np.maximum(np.abs(ours / theirs - 1), 1e-17)
    right.semilogy(updates, difference, "o", ms=4, color=COLOUR["blue"])
    right.axhline(tolerance, color=COLOUR["grey"], ls="--", lw=1)
    right.text(1, tolerance * 1.6, "tolerance", va="bottom", color=COLOUR["grey"])
    right.set(title="relative difference", xlabel="update", ylim=(5e-18, tolerance * 50))
    return fig


def heads(weights, written, read):
    """Cross-attention weights (N, H, T, S) of one sentence: blocks from top to bottom, heads side by side."""
    N, H = weights.shape[:2]
    maps = {f"block {n}, head {h}": (weights[n, h], written, read) for n, h in np.ndindex(N, H)}
    return heat_maps(maps, "weight", side_by_side=H, height=2.1 * N + 0.5, size=6.5)
