"""The figures of chapter 16. Each function draws what it is given; the notebook computes every number."""

import numpy as np
from matplotlib.patches import FancyBboxPatch

from handgrad.course.figures import COLOUR, SEQUENTIAL, WIDTH, subplots

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


def race(ours, theirs, tolerance):
    """Left: two loss curves on top of each other. Right: their relative difference, with the tolerance."""
    fig, (left, right) = subplots(1, 2)
    updates = np.arange(1, len(ours) + 1)
    left.plot(updates, ours, color=COLOUR["blue"], label="gradients by hand")
    left.plot(updates, theirs, "o", ms=4, mfc="none", color=COLOUR["vermilion"], label="PyTorch")
    left.set(title="loss", xlabel="update")
    left.legend()
    difference = np.maximum(np.abs(ours / theirs - 1), 1e-17)
    right.semilogy(updates, difference, "o", ms=4, color=COLOUR["blue"])
    right.axhline(tolerance, color=COLOUR["grey"], ls="--", lw=1)
    right.text(1, tolerance * 1.6, "tolerance", va="bottom", color=COLOUR["grey"])
    right.set(title="relative difference", xlabel="update", ylim=(5e-18, tolerance * 50))
    return fig


def training(losses, levels, held_out=()):
    """The loss of every update, horizontal lines for levels {title: loss}, points held_out (update, loss)."""
    fig, ax = subplots()
    ax.plot(np.arange(1, len(losses) + 1), losses, color=COLOUR["blue"], lw=1.4, label="training batch")
    if len(held_out):
        ax.plot(*np.transpose(held_out), "o", color=COLOUR["vermilion"], label="numbers held out")
    for title, level in levels.items():
        ax.axhline(level, color=COLOUR["grey"], ls="--", lw=1)
        ax.text(len(losses), level + 0.05, title, ha="right", va="bottom", color=COLOUR["grey"])
    ax.set(xlabel="update", ylabel="loss", ylim=(0, None))
    ax.legend(loc="center right")
    return fig


def heads(weights, source, target):
    """Cross-attention weights (N, H, T, S) of one sentence: blocks from top to bottom, heads side by side."""
    N, H = weights.shape[:2]
    fig, axes = subplots(N, H, size=(WIDTH, 2.1 * N + 0.5), sharex=True, sharey=True, squeeze=False)
    for n, h in np.ndindex(N, H):
        axes[n, h].imshow(weights[n, h], cmap=SEQUENTIAL, vmin=0, vmax=1, aspect="auto")
        axes[n, h].set_title(f"block {n + 1}, head {h + 1}", fontsize=9)
        _words(axes[n, h], source, target, fontsize=6.5)
    return fig


def alignment(ax, weights, source, target, title=""):
    """Draw the weights (T, S) of one head: a row for each word written, a column for each word read."""
    image = ax.imshow(weights, cmap=SEQUENTIAL, vmin=0, vmax=1, aspect="auto")
    _words(ax, source, target, fontsize=9)
    ax.set(title=title, xlabel="read", ylabel="written")
    return image


def alignments(maps, label="weight"):
    """Maps side by side: each of them (weights, source, target), as for `alignment`, with one colour bar
    that `label` names."""
    widths = [len(source) + 2.5 for _, source, _ in maps]
    height = 0.27 * max(len(target) for *_, target in maps) + 1.3
    fig, axes = subplots(1, len(maps), size=(WIDTH, height), width_ratios=widths, squeeze=False)
    for ax, (weights, source, target) in zip(axes[0], maps, strict=True):
        image = alignment(ax, weights, source, target)
    fig.colorbar(image, ax=axes[0, -1], label=label, fraction=0.08)
    return fig


def _words(ax, source, target, fontsize):
    ax.set_xticks(range(len(source)), source, rotation=90, fontsize=fontsize)
    ax.set_yticks(range(len(target)), target, fontsize=fontsize)
    ax.tick_params(length=0)


def compared(curves, floor):
    """Loss curves {title: losses}, and the floor that no honest model passes."""
    fig, ax = subplots()
    for title, losses in curves.items():
        ax.plot(np.arange(1, len(losses) + 1), losses, label=title)
    ax.axhline(floor, color=COLOUR["grey"], ls="--", lw=1)
    ax.text(0, floor - 0.08, "floor", va="top", color=COLOUR["grey"])
    ax.set(xlabel="update", ylabel="loss", ylim=(0, None))
    ax.legend()
    return fig
