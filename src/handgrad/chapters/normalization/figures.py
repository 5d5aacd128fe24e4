"""The figures of chapter 05. Each function draws what it is given; the notebook computes every number."""

import numpy as np
from matplotlib.patches import Circle

from handgrad.course.figures import COLOUR, WIDTH, subplots

MARKS = ("o", "s", "^", "D", "v", "P")
PLANE = np.array([[1, -1, 0], [1, 1, -2]]) / np.sqrt([[2], [6]])  # orthonormal, and orthogonal to (1, 1, 1)


def one_scale(stages):
    """Tokens as rows of dots, one dot for each feature, {title: (T, D)}: before, centred, normalised."""
    fig, axes = subplots(1, len(stages), (WIDTH, 2.5), sharey=True)
    for ax, (title, x) in zip(axes, stages.items(), strict=True):
        for t, row in enumerate(x):
            ax.plot(row, np.full(len(row), t), MARKS[t], alpha=0.75, ls="none")
        ax.axvline(0, color=COLOUR["grey"], lw=0.8, ls=":", zorder=0)
        ax.set(title=title, xlabel="value of a feature")
    axes[0].set_yticks(range(len(x)), [f"token {t}" for t in range(len(x))])
    axes[0].set_ylim(len(x) - 0.5, -0.5)
    return fig


def three_paths():
    """How a change of one input reaches the loss: directly, through the mean, through the variance."""
    fig, ax = subplots(size=(WIDTH, 3.0))
    places = {"x": (0, 0), "mu": (3.4, 1.5), "var": (3.4, -1.5), "hat": (7.0, 0), "L": (9.2, 0)}
    names = {
        "x": r"$x_j$",
        "mu": r"$\mu$",
        "var": r"$\sigma^2$",
        "hat": r"$\hat x_0, \ldots, \hat x_{D-1}$",
        "L": r"$L$",
    }
    for key, (x, y) in places.items():
        box = dict(boxstyle="round,pad=0.35", fc="white", ec=COLOUR["grey"])
        ax.text(x, y, names[key], ha="center", va="center", fontsize=13, bbox=box, zorder=3)

    def arrow(start, end, colour, style="-", bend=0.0):
        line = dict(arrowstyle="-|>", color=COLOUR[colour], lw=2, ls=style, shrinkA=16, shrinkB=16)
        line["connectionstyle"] = f"arc3,rad={bend}"
        if end == "hat":
            line["shrinkB"] = 46
        if start == "hat":
            line["shrinkA"] = 52
        ax.annotate("", places[end], places[start], arrowprops=line)

    arrow("x", "hat", "blue")
    arrow("x", "mu", "vermilion", "--")
    arrow("mu", "hat", "vermilion", "--")
    arrow("x", "var", "green", "-.")
    arrow("var", "hat", "green", "-.")
    arrow("mu", "var", "grey", ":")
    arrow("hat", "L", "black")
    ax.text(1.8, 0.12, "direct", color=COLOUR["blue"], ha="center", va="bottom")
    ax.text(1.2, 1.05, r"$\partial\mu/\partial x_j = 1/D$", color=COLOUR["vermilion"], ha="right")
    ax.text(1.2, -1.2, r"$\partial\sigma^2/\partial x_j = 2(x_j-\mu)/D$", color=COLOUR["green"], ha="right")
    ax.text(3.55, 0.55, "adds up to 0", color=COLOUR["grey"], ha="left")
    ax.set(xlim=(-2.6, 9.8), ylim=(-2.1, 2.1))
    ax.set_axis_off()
    return fig


def circle(ax, points, hats, upstream, kept):
    """Tokens of three features in the plane orthogonal to (1, 1, 1): before, after, and their gradients.

    points, hats, upstream, kept: (n, 3) each; upstream is what arrives at a normalised token, kept what is
    left of it after the projection.
    """
    before, after, arriving, left = (x @ PLANE.T for x in (points, hats, upstream, kept))  # (n, 2)
    ax.add_patch(Circle((0, 0), np.sqrt(3), fill=False, ec=COLOUR["grey"], lw=1.2))
    for a, b in zip(before, after, strict=True):
        ax.plot(*np.transpose([a, b]), color=COLOUR["grey"], lw=0.8, ls=":")
    ax.plot(*before.T, "o", mfc="white", color=COLOUR["grey"], label=r"token, mean removed")
    ax.plot(*after.T, "o", color=COLOUR["blue"], label=r"$\hat{\mathbf{x}}$")
    arrows = dict(angles="xy", scale_units="xy", scale=1, width=0.006)
    ax.quiver(*after.T, *arriving.T, color=COLOUR["sky"], label=r"$\mathrm{d}\hat{\mathbf{x}}$", **arrows)
    ax.quiver(
        *after.T,
        *left.T,
        color=COLOUR["vermilion"],
        label=r"$\mathbf{P}\,\mathrm{d}\hat{\mathbf{x}}$",
        **arrows,
    )
    ax.set(xlim=(-2.7, 2.7), ylim=(-2.7, 2.7), xticks=[], yticks=[])
    ax.set_aspect("equal")
    ax.figure.legend(loc="outside right upper")
    for side in ax.spines.values():
        side.set_visible(False)


def refutations(errors, rules, checks, tolerance):
    """A table of relative errors: a row for each wrong backward, a column for each way of checking it."""
    fig, ax = subplots(size=(WIDTH, 0.42 * len(rules) + 1.1))
    errors = np.asarray(errors)
    passes = errors <= tolerance
    ax.imshow(passes, cmap="Oranges", vmin=-0.1, vmax=1.9, aspect="auto")
    for i, j in np.ndindex(*errors.shape):
        text = "passes" if passes[i, j] else f"{errors[i, j]:.0%}"
        ax.text(j, i, text, ha="center", va="center", fontweight="bold" if passes[i, j] else "normal")
    ax.set_xticks(range(len(checks)), checks)
    ax.set_yticks(range(len(rules)), rules)
    ax.xaxis.tick_top()
    ax.tick_params(length=0)
    for side in ax.spines.values():
        side.set_visible(False)
    return fig


def trap(eps, constant, projected):
    """The size of the gradient against ε, for the mean square of normalised tokens and for a projection."""
    fig, ax = subplots()
    ax.loglog(eps, projected, marker="s", color=COLOUR["vermilion"], ls="--", label="random projection")
    ax.loglog(eps, constant, marker="o", color=COLOUR["blue"], ls="-", label="mean square")
    ax.set(xlabel=r"$\varepsilon$", ylabel="largest gradient entry")
    ax.legend(loc="center left")
    return fig


def curves(losses, levels):
    """Losses {label: values} over steps, beside levels {label: value} known before the training began."""
    fig, ax = subplots(size=(WIDTH, 3.6))
    for label, loss in losses.items():
        ax.plot(loss, label=label)
    for label, level in levels.items():
        ax.axhline(level, color=COLOUR["black"], lw=1, ls=":")
        ax.text(1.0, level, f" {label}", transform=ax.get_yaxis_transform(), va="center", fontsize=9)
    ax.set(xlabel="step", ylabel="loss in nats per letter", ylim=(0, None))
    ax.legend(loc="lower left")
    return fig
