"""The figures of chapter 14. Each function draws what it is given; the notebook computes every number."""

import numpy as np

from handgrad.course import figures as shared
from handgrad.course.figures import COLOUR, WIDTH, subplots

from . import halves

RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def by_hand(x, keep, y, dx, dy):
    """Four features through dropout with p = 1/2: a row of boxes each, values forward and gradients back."""
    fig, ax = subplots(size=(WIDTH, 2.9))
    box = dict(boxstyle="round,pad=0.35", fc="white", ec=COLOUR["grey"])
    look = dict(ha="center", va="center", fontsize=12)
    for i in range(len(x)):
        factor = "× 2" if keep[i] else "× 0"
        ax.text(0, -i, f"{x[i]}", bbox=box, **look)
        ax.text(1, -i, factor, bbox=box | dict(fc="#eeeeee" if keep[i] else "#cccccc"), **look)
        ax.text(2, -i, f"{y[i]}", bbox=box, **look)
        for start, end in ((0.14, 0.8), (1.2, 1.86)):
            forth = dict(arrowstyle="-|>", color=COLOUR["blue"])
            back = dict(arrowstyle="-|>", color=COLOUR["vermilion"], ls="--")
            ax.annotate("", (end, 0.09 - i), (start, 0.09 - i), arrowprops=forth)
            ax.annotate("", (start, -0.09 - i), (end, -0.09 - i), arrowprops=back)
        ax.text(-0.42, -i, f"{dx[i]}", color=COLOUR["vermilion"], **look)
        ax.text(2.42, -i, f"{dy[i]}", color=COLOUR["vermilion"], **look)
    for column, name, colour in (
        (0, "x", "blue"),
        (1, "keep", "black"),
        (2, "y", "blue"),
        (-0.42, "dx", "vermilion"),
        (2.42, "dy", "vermilion"),
    ):
        ax.text(column, 0.75, name, color=COLOUR[colour], fontweight="bold", **look)
    ax.set(xlim=(-0.75, 2.75), ylim=(0.4 - len(x), 1.1))
    ax.set_axis_off()
    return fig


def graph():
    """One linear layer of a training in half precision, with the formats on its edges."""
    cast = "round →\n← ÷ s"
    nodes = {"W": (0, 0), cast: (1.3, 0), "x": (1, 1)}
    nodes |= {"linear": (2.7, 0), "loss": (3.7, 0), "× s": (4.6, 0)}
    edges = [
        ("W", cast, "float32", "", "dW"),
        (cast, "linear", "float16", "", "s dW"),
        ("x", "linear", "(B, T, D)", "", "s dx"),
        ("linear", "loss", "y", "", "s dy"),
        ("loss", "× s", "L", "", "s"),
    ]
    return shared.backward_graph(nodes, edges, height=2.9)


def depth(measured, laws, names=("forward", "gradient")):
    """Root mean squares by level, forward and backward: measured {c: (2, N + 1)} beside their laws."""
    fig, axes = subplots(1, 2, size=(WIDTH, 3.3), sharey=True)
    for n, (c, found) in enumerate(measured.items()):
        colour = COLOUR[("blue", "vermilion", "green")[n]]
        for ax, line, law in zip(axes, found, laws[c], strict=True):
            ax.plot(np.sqrt(line), color=colour, ls=("-", "--", "-.")[n], label=f"c = {c}")
            ax.plot(np.arange(0, len(law), 4), np.sqrt(law)[::4], "o", mfc="none", color=colour, ms=5)
    for ax, name in zip(axes, names, strict=True):
        ax.set(yscale="log", xlabel="layer", title=name)
    axes[0].set_ylabel("root mean square")
    axes[0].legend()
    return fig


KINDS = ("logits", "parameters")


def histogram(ax, exponents, power, lost, over):
    """Gradients by exponent, moved by a scale 2**power; what float16 has no number for is shaded.

    exponents: arrays of log2 of sizes, one for each of KINDS; lost: the share of each that becomes 0; over:
    whether a gradient overflows.
    """
    bins = np.arange(-56, 26)
    for k, (name, values) in enumerate(zip(KINDS, exponents, strict=True)):
        heights, _ = np.histogram(np.clip(values + power, -55.5, 24.5), bins)
        look = dict(color=COLOUR[("blue", "vermilion")[k]], ls=("-", "--")[k], where="post")
        ax.step(bins[:-1], heights / len(values), label=f"{name}: {lost[k]:.2%} become 0", **look)
    ax.axvspan(-56, -25, color=COLOUR["grey"], alpha=0.25, lw=0)
    ax.axvspan(16, 25, color=COLOUR["orange"], alpha=0.3, lw=0)
    ax.text(-54, 0.08, "become 0")
    ax.text(20.5, 0.08, "∞", ha="center")
    ax.set(xlim=(-56, 25), ylim=(0, 0.19), xlabel="exponent of s · gradient, base 2", ylabel="share")
    step = "is left out" if over else "is taken"
    raised = str(power).translate(RAISED)
    ax.set_title(f"s = 2{raised}: the step {step}", fontsize=10)
    ax.legend(loc="upper left", fontsize=9)


def histogram_words(gradients):
    """A function from the power of two of the scale to the words for that frame."""

    def words(power):
        lost = [
            f"{halves.lost(g, 2.0**power):.1%} of the {name}"
            for g, name in zip(gradients, KINDS, strict=True)
        ]
        over = any((np.abs(g) * 2.0**power >= 65520).any() for g in gradients)
        end = "some overflow" if over else "none overflows"
        return f"Scale 2 to the power {power}: {lost[0]} and {lost[1]} become 0, {end}."

    return words


def window(powers, gaps, rare, floats, dull):
    """Loss above the floor after a training in float16, by the power of two of the scale."""
    fig, ax = subplots(size=(WIDTH, 3.2))
    ax.plot(powers, gaps, "o-", color=COLOUR["blue"], label="all contexts")
    ax.plot(powers, rare, "s--", color=COLOUR["vermilion"], label="mean of the rare contexts")
    for level, colour in zip(floats, ("blue", "vermilion"), strict=True):
        ax.axhline(level, color=COLOUR[colour], lw=1, ls=":")
    ax.axhline(dull, color=COLOUR["black"], lw=1, ls=":")
    ax.text(powers[0], dull * 1.12, "unigram", fontsize=9)
    ax.set(yscale="log", xlabel="power of two of the loss scale", ylabel="nats above the floor")
    ax.legend(loc=(0.4, 0.3))
    return fig
