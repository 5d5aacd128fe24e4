"""The figures of chapter 08. Each function draws what it is given; the notebook computes every number."""

import string

import numpy as np
from matplotlib.patches import Rectangle
from scipy.spatial import ConvexHull

from handgrad.course.figures import COLOUR, DIVERGING, SEQUENTIAL, WIDTH, heat_maps, subplots


def data_flow(q, k, v, s, a, y, row=0):
    """The matrices of the forward pass as tables of coloured cells, with shapes; one query is framed."""
    fig, ax = subplots(size=(WIDTH, 4.0))
    T, K, S, E = *q.shape, *v.shape
    low = -max(T, K, S) - 3.4  # where the second line of matrices begins
    right = K + S + 4.6  # where the results stand

    def matrix(x, left, top, name, shape, colours, framed, **limits):
        rows, columns = x.shape
        extent = (left, left + columns, top - rows, top)
        ax.imshow(x, cmap=colours, extent=extent, aspect="equal", **limits)
        for c in range(columns + 1):
            ax.plot([left + c] * 2, [top - rows, top], color="white", lw=1, ls="-")
        for r in range(rows + 1):
            ax.plot([left, left + columns], [top - r] * 2, color="white", lw=1, ls="-")
        if framed:
            box = (left, top - row - 1), columns, 1
            ax.add_patch(Rectangle(*box, fill=False, ec=COLOUR["vermilion"], lw=2.2, zorder=5))
        ax.text(left + columns / 2, top + 0.25, name, ha="center", va="bottom", fontsize=13)
        ax.text(left + columns / 2, top - rows - 0.2, shape, ha="center", va="top", color=COLOUR["grey"])

    signed = dict(vmin=-2.5, vmax=2.5)
    matrix(q, 0, 0, r"$\mathbf{Q}$", "(T, K)", DIVERGING, True, **signed)
    matrix(k.T, K + 1.6, 0, r"$\mathbf{K}^\top$", "(K, S)", DIVERGING, False, **signed)
    matrix(s, right, 0, r"$\mathbf{S}$", "(T, S)", DIVERGING, True, **signed)
    matrix(a, right, low, r"$\mathbf{A}$", "(T, S)", SEQUENTIAL, True, vmin=0, vmax=a.max())
    matrix(v, right + S + 1.6, low, r"$\mathbf{V}$", "(S, E)", DIVERGING, False, **signed)
    matrix(y, right + S + E + 4.6, low, r"$\mathbf{Y}$", "(T, E)", DIVERGING, True, **signed)

    middle = -T / 2
    for place, line, sign in [
        (K + 0.8, 0, "×"),
        (K + S + 3.1, 0, "→"),
        (right + S + 0.8, low, "×"),
        (right + S + E + 3.1, low, "→"),
    ]:
        ax.text(place, line + middle, sign, ha="center", va="center", fontsize=14)
    ax.text(K + S + 3.1, middle - 1.0, r"$/\sqrt{K}$" + "\n+ mask", ha="center", va="top", fontsize=9)
    x = right + S / 2
    ax.annotate("", (x, low + 1.6), (x, -T - 1.2), arrowprops=dict(arrowstyle="->", lw=1.2))
    ax.text(x + 0.4, (low - T + 0.4) / 2, "softmax of each row", ha="left", va="center", fontsize=10)
    ax.text(0, low - 0.5, "one query:", color=COLOUR["vermilion"], va="center", fontsize=11)
    ax.text(0, low - 1.5, "one row everywhere", color=COLOUR["vermilion"], va="center", fontsize=11)
    ax.set(xlim=(-0.4, right + S + 2 * E + 5), ylim=(low - max(T, S) - 1.2, 1.6))
    ax.set_axis_off()
    return fig


def smoother(x, values, grid, curves):
    """Noisy values on a circle and what attention reads off between them; curves {label: outputs}."""
    fig, ax = subplots()
    ax.plot(x, values, "o", color=COLOUR["grey"], label="keys and their values")
    for label, y in curves.items():
        ax.plot(grid, y, label=label)
    ax.set(xlabel="angle of the query", ylabel="output", xticks=np.arange(0, 7) * np.pi / 3)
    ax.set_xticklabels([f"{60 * i}°" for i in range(7)])
    ax.legend(ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return fig


def saturation(widths, raw, scaled):
    """Norms of the softmax Jacobian (widths, rows) over K, raw and scaled: mean, and share that is dead."""
    fig, (left, right) = subplots(1, 2)
    ticks = widths[::2], [str(K) for K in widths[::2]]
    left.loglog(widths, scaled.mean(axis=1), marker="o", label=r"divided by $\sqrt{K}$")
    left.loglog(widths, raw.mean(axis=1), marker="s", label="raw scores")
    last = np.array(widths[-4:], float)
    guide = 0.7 * raw[-1].mean() * np.sqrt(last[-1] / last)
    left.loglog(last, guide, color=COLOUR["grey"], lw=1, ls=":")
    left.text(last[1], 0.8 * guide[1], r"slope $-\frac{1}{2}$", ha="right", va="top")
    left.set(title=r"mean $\|\mathbf{J}\|_F$", xlabel="K")
    left.set_yticks([0.02, 0.05, 0.1, 0.2, 0.4], ["0.02", "0.05", "0.1", "0.2", "0.4"])
    right.semilogx(widths, (scaled < 1e-3).mean(axis=1), marker="o", label=r"divided by $\sqrt{K}$")
    right.semilogx(widths, (raw < 1e-3).mean(axis=1), marker="s", label="raw scores")
    right.set(title="share of dead rows", xlabel="K", ylim=(-0.03, 1))
    right.legend()
    for ax in (left, right):
        ax.minorticks_off()
        ax.set_xticks(*ticks)
    return fig


def pull(axes, scale, weights_at, v):
    """Left: the norm of the Jacobian over the scale, and where we are. Right: the weights pull the output."""
    left, right = axes
    scales, a = np.geomspace(0.1, 100, 121), weights_at(scale)
    left.semilogx(scales, [_jacobian_norm(weights_at(x)) for x in scales], color=COLOUR["blue"])
    left.plot(scale, _jacobian_norm(a), "o", color=COLOUR["vermilion"], ms=9)
    left.set(xlabel="scale", ylabel=r"$\|\mathbf{J}\|_F$", ylim=(0, None), title="how much a score matters")
    corners = v[ConvexHull(v).vertices]
    right.fill(*corners.T, color=COLOUR["sky"], alpha=0.25, lw=0)
    right.scatter(*v.T, s=25 + 600 * a, color=COLOUR["blue"], alpha=0.75, lw=0)
    right.plot(*(a @ v), "*", color=COLOUR["vermilion"], ms=15, mec="white")
    right.set(title="output inside the hull", xticks=[], yticks=[], xlim=(-1.55, 1.55), ylim=(-1.55, 1.55))
    right.set_aspect("equal")
    for side in right.spines.values():
        side.set_visible(False)


def _jacobian_norm(a):
    return np.linalg.norm(np.diag(a) - np.outer(a, a))


def memory(lengths, square, linear):
    """Mebibytes that one head keeps for the backward, against the length: the weights, and all else."""
    fig, ax = subplots()
    ax.loglog(lengths, square, marker="o", label=r"weights $\mathbf{A}$: $TS$ numbers")
    ax.loglog(
        lengths, linear, marker="s", label=r"$\mathbf{Q}, \mathbf{K}, \mathbf{V}$: $TK + SK + SE$ numbers"
    )
    ax.set(xlabel="length T = S", ylabel="MiB for one head, float32")
    ax.set_xticks(lengths[::2], [f"{T:,}" for T in lengths[::2]])
    ax.minorticks_off()
    ax.legend()
    return fig


def leak(influences):
    """How far each token moves each output, {title: (T, T)}; above the staircase lies the future."""
    top = max(x.max() for x in influences.values())
    maps = {title: (x, range(len(x)), range(len(x))) for title, x in influences.items()}
    names = dict(across="token that moves", down="output that follows")
    fig = heat_maps(maps, "length moved per unit", limits=(0, top), power=0.5, height=2.6, **names)
    for ax, x in zip(fig.axes, influences.values(), strict=False):  # the last axes hold the colours
        for i, j in np.argwhere(x == 0):
            ax.text(j, i, "0", ha="center", va="center", color="white", fontsize=9)
        steps = np.repeat(np.arange(len(x) + 1), 2) - 0.5
        ax.plot(steps[1:], steps[:-1], color=COLOUR["vermilion"], lw=1.5, ls="-")
        ax.set(xlim=(-0.5, len(x) - 0.5), ylim=(len(x) - 0.5, -0.5))
    return fig


def lookups(maps, letters, digits, asked):
    """The weights of one page {title: (T, S)}: a row for each letter asked, a column for each entry."""
    entries = [f"{string.ascii_uppercase[n]}\n{d}" for n, d in zip(letters, digits, strict=True)]
    rows = [string.ascii_uppercase[n] for n in asked]
    maps = {title: (a, rows, entries) for title, a in maps.items()}
    return heat_maps(maps, "weight", across="entry on the page", down="letter asked", size=10)
