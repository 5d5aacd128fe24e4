"""The figures of chapter 16. Each function draws what it is given; the notebook computes every number."""

import numpy as np
from matplotlib.patches import FancyBboxPatch

from handgrad.course.figures import COLOUR, WIDTH, heat_maps, losses, subplots

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
    losses({"gradients by hand": ours}, dots={"PyTorch": theirs}, low=None, ax=left)
    updates = np.arange(1, len(ours) + 1)
    difference = np.maximum(np.abs(ours / theirs - 1), 1e-17)
    right.semilogy(updates, difference, "o", ms=4, color=COLOUR["blue"])
    right.axhline(tolerance, color=COLOUR["grey"], ls="--", lw=1)
    right.text(1, tolerance * 1.6, "tolerance", va="bottom", color=COLOUR["grey"])
    right.set(title="relative difference", xlabel="update", ylim=(5e-18, tolerance * 50))
    return fig


def heads(weights, source, target):
    """Cross-attention weights (N, H, T, S) of one sentence: blocks from top to bottom, heads side by side."""
    N, H = weights.shape[:2]
    titles = {(n, h): f"block {n + 1}, head {h + 1}" for n, h in np.ndindex(N, H)}
    maps = {title: (weights[place], target, source) for place, title in titles.items()}
    return heat_maps(maps, "weight", side_by_side=H, height=2.1 * N + 0.5, size=6.5)
