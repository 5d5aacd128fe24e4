"""The figures of chapter 14. Each function draws what it is given; the notebook computes every number."""

import numpy as np

from handgrad.course.figures import COLOUR, WIDTH, subplots

RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def depth(measured):
    """Root mean squares by layer, forward and backward: {gain: mean squares (2, N + 1)}."""
    fig, axes = subplots(1, 2, size=(WIDTH, 3.3), sharey=True)
    for gain, found in measured.items():
        for ax, line in zip(axes, np.sqrt(found), strict=True):
            ax.plot(line, label=f"variance {gain} / D_in")
    for ax, name in zip(axes, ("values, forward", "gradients, backward"), strict=True):
        ax.set(yscale="log", xlabel="layer", title=name)
    axes[0].set_ylabel("root mean square")
    axes[0].legend()
    return fig


def by_hand(x, keep, y, dx, dy):
    """Features through dropout with p = 1/2: a row of boxes each, values forward and gradients back."""
    fig, ax = subplots(size=(WIDTH, 2.9))
    look = dict(ha="center", va="center", fontsize=12)
    for i, kept in enumerate(keep):
        boxes = ((f"{x[i]}", "white"), ("× 2" if kept else "× 0", "#eeeeee"), (f"{y[i]}", "white"))
        for column, (words, face) in enumerate(boxes):
            box = dict(boxstyle="round,pad=0.35", fc=face, ec=COLOUR["grey"])
            ax.text(column, -i, words, bbox=box, **look)
        for start, end in ((0.14, 0.8), (1.2, 1.86)):
            forth = dict(arrowstyle="-|>", color=COLOUR["blue"])
            back = dict(arrowstyle="-|>", color=COLOUR["vermilion"], ls="--")
            ax.annotate("", (end, 0.09 - i), (start, 0.09 - i), arrowprops=forth)
            ax.annotate("", (start, -0.09 - i), (end, -0.09 - i), arrowprops=back)
    names = ((0, "x", "blue", ()), (1, "mask", "black", ()), (2, "y", "blue", ()))
    for column, name, colour, numbers in (
        *names,
        (-0.42, "dx", "vermilion", dx),
        (2.42, "dy", "vermilion", dy),
    ):
        ax.text(column, 0.75, name, color=COLOUR[colour], fontweight="bold", **look)
        for i, number in enumerate(numbers):
            ax.text(column, -i, f"{number}", color=COLOUR[colour], **look)
    ax.set(xlim=(-0.75, 2.75), ylim=(0.4 - len(x), 1.1))
    ax.set_axis_off()
    return fig


def histogram(ax, groups, power, lost):
    """Gradients {name: array} by exponent, times 2**power; lost(array, power): the share that becomes 0."""
    bins = np.arange(-56, 26)
    for name, g in groups.items():
        exponents = np.log2(np.abs(g[g != 0])) + power
        heights, _ = np.histogram(np.clip(exponents, -55.5, 24.5), bins)
        label = f"{name}: {lost(g, power):.1%} become 0"
        ax.step(bins[:-1], heights / heights.sum(), where="post", label=label)
    ax.axvspan(-56, -25, color=COLOUR["grey"], alpha=0.25, lw=0)
    ax.axvspan(16, 25, color=COLOUR["orange"], alpha=0.3, lw=0)
    ax.text(-54, 0.08, "become 0")
    ax.text(20.5, 0.08, "∞", ha="center")
    ax.set(xlim=(-56, 25), ylim=(0, 0.36), xlabel="exponent of s · gradient, base 2", ylabel="share")
    ax.set_title(f"s = 2{str(power).translate(RAISED)}", fontsize=10)
    ax.legend(loc="upper left", fontsize=9)
