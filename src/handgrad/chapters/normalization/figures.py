"""The figures of chapter 05. Each function draws what it is given; the notebook computes every number."""

import numpy as np
from matplotlib.patches import Circle

from handgrad.course.figures import COLOUR, MARKS, WIDTH, backward_graph, subplots

PLANE = np.array([[1, -1, 0], [1, 1, -2]]) / np.sqrt([[2], [6]])  # orthonormal, and orthogonal to (1, 1, 1)
REACH = 3.0  # of the plane that is drawn, to each side


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
    """How a feature reaches the normalised ones, directly and by two detours, and what comes back on each."""
    nodes = {"$x_j$": (0, 0), "mean": (0.95, 1), "variance": (0.95, -1), "normalise": (2.1, 0), "$L$": (3, 0)}
    edges = [
        ("$x_j$", "normalise", "direct", "", r"$r\,\mathrm{d}\hat{x}_j$"),
        ("$x_j$", "mean", "", "", r"$\mathrm{d}\mu\,/\,D$"),
        ("$x_j$", "variance", "", "", r"$\mathrm{d}\sigma^2 \cdot 2(x_j-\mu)\,/\,D$"),
        ("mean", "normalise", r"$\mu$", "()", r"$\mathrm{d}\mu$"),
        ("variance", "normalise", r"$\sigma^2$", "()", r"$\mathrm{d}\sigma^2$"),
        ("mean", "variance", r"$\mu$", "()", "0"),
        ("normalise", "$L$", r"$\hat{x}$", "(D,)", r"$\mathrm{d}\hat{x}$"),
    ]
    return backward_graph(nodes, edges)


def integers():
    """The three paths for the token (1, 7, 9, 15) with ε = 0, when (500, 0, 0, 0) arrives at x̂."""
    nodes = {"$x$": (0, 0), "mean": (0.95, 1), "variance": (0.95, -1), "÷": (1.75, 0), "$L$": (2.9, 0)}
    edges = [
        ("$x$", "÷", r"$x$ = (1, 7, 9, 15)", "", "(100, 0, 0, 0)"),
        ("$x$", "mean", "", "", "−25 to each"),
        ("$x$", "variance", "", "", "(−49, −7, 7, 49)"),
        ("mean", "÷", r"$\mu$ = 8", "", "−100"),
        ("variance", "÷", r"$\sigma^2$ = 25", "", "14"),
        ("÷", "$L$", "(−7, −1, 1, 7)/5", "", "(500, 0, 0, 0)"),
    ]
    return backward_graph(nodes, edges, height=3.8)


def layer():
    """The whole layer, its values forward and its gradients backward, with their shapes."""
    nodes = {"$x$": (0, 0), "mean": (0.75, 1), "variance": (0.75, -1), "÷": (1.6, 0)}
    nodes |= {
        r"$\gamma$": (1.75, 1),
        r"$\beta$": (1.75, -1),
        r"$\circ\,\gamma + \beta$": (2.6, 0),
        "$L$": (3.5, 0),
    }
    edges = [
        ("$x$", "÷", "$x$\n(B, T, D)", "", r"$r\,\mathrm{d}\hat{x}$"),
        ("$x$", "mean", "", "", r"$\mathrm{d}\mu\,/\,D$"),
        ("$x$", "variance", "", "", r"$2\,\mathrm{d}\sigma^2 (x-\mu)\,/\,D$"),
        ("mean", "÷", "$\\mu$\n(B, T, 1)", "", r"$\mathrm{d}\mu$"),
        ("variance", "÷", "$\\sigma^2$\n(B, T, 1)", "", r"$\mathrm{d}\sigma^2$"),
        ("÷", r"$\circ\,\gamma + \beta$", "$\\hat{x}$\n(B, T, D)", "", r"$\mathrm{d}\hat{x}$"),
        (r"$\gamma$", r"$\circ\,\gamma + \beta$", "(D,)", "", r"$\mathrm{d}\gamma$"),
        (r"$\beta$", r"$\circ\,\gamma + \beta$", "(D,)", "", r"$\mathrm{d}\beta$"),
        (r"$\circ\,\gamma + \beta$", "$L$", "$y$\n(B, T, D)", "", r"$\mathrm{d}y$"),
    ]
    return backward_graph(nodes, edges, height=4.4)


MIXED = ["𝟏", "x̂", "u"]
MIXES = [(1, 0, 0), (2, 1, 0), (1, 1, 0), (1, 2, 0), (0, 1, 0), (0, 2, 1), (0, 1, 1), (0, 1, 2), (0, 0, 1)]
MIXES += [(1, 0, 1), (1, 1, 1)]
"""How much of each direction an upstream gradient has, from frame to frame."""


def mixed(mix):
    """A mixture of the directions in words."""
    return " + ".join(f"{share} · {name}" for share, name in zip(mix, MIXED) if share)


def described(mix):
    """What `answer` shows of a mixture, for those who cannot see it."""
    back = "only its part along u comes back" if mix[2] else "nothing comes back"
    return f"The gradient {mixed(mix)} arrives at a token on a circle; {back}"


def answer(axes, hat, arriving, returning):
    """What one token of three features is sent, and what comes back: in its plane, and by direction.

    axes: two. hat, arriving, returning: (3,), the normalised token, dx̂, and the gradient of the token times
    its spread. The directions are 1, x̂, and u, at right angles to both.
    """
    plane, bars = axes
    here, out, back = (np.asarray(v) @ PLANE.T for v in (hat, arriving, returning))
    plane.add_patch(Circle((0, 0), np.sqrt(3), fill=False, ec=COLOUR["grey"], lw=1.2))
    plane.plot([0, here[0]], [0, here[1]], color=COLOUR["grey"], lw=0.8, ls=":")
    plane.plot(*here, "o", color=COLOUR["blue"], zorder=3)
    look = dict(angles="xy", scale_units="xy", scale=1)
    for v, colour, width in ((out, "sky", 0.022), (back, "vermilion", 0.011)):
        if np.linalg.norm(v) > 1e-3:
            plane.quiver(*here, *v, color=COLOUR[colour], width=width, zorder=4, **look)
    plane.set(xlim=(-2.3, 3.7), ylim=(-2.3, 3.7), xticks=[], yticks=[], title="in the plane of the token")
    plane.set_aspect("equal")
    plane.spines[:].set_visible(False)
    third = np.cross(hat, np.ones(3))
    basis = np.array([v / np.linalg.norm(v) for v in (np.ones(3), hat, third)])  # (3, 3), orthonormal
    places = np.arange(3)
    bars.bar(places - 0.2, basis @ arriving, 0.38, color=COLOUR["sky"], label="arrives")
    bars.bar(places + 0.2, basis @ returning, 0.38, color=COLOUR["vermilion"], label="comes back")
    bars.axhline(0, color=COLOUR["grey"], lw=0.8)
    bars.set_xticks(places, [r"$\mathbf{1}$", *MIXED[1:]])
    bars.set(ylim=(-0.2, 2.0), title="share along each direction")
    bars.legend(loc="upper left", ncols=2)


def circle(ax, points, hats, upstream, kept):
    """Tokens of three features in the plane orthogonal to (1, 1, 1): before, after, and their gradients.

    points, hats, upstream, kept: (n, 3) each; upstream is what arrives at a normalised token, kept what is
    left of it after the projection.

    Raises ValueError if a token or the tip of an arrow lies outside the part of the plane that is drawn.
    """
    before, after, arriving, left = (x @ PLANE.T for x in (points, hats, upstream, kept))  # (n, 2)
    farthest = np.abs([before, after + arriving, after + left]).max()
    if farthest > REACH:
        raise ValueError(f"expected tokens and tips of arrows within {REACH}, got {farthest:.2f}")
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
    ax.set(xlim=(-REACH, REACH), ylim=(-REACH, REACH), xticks=[], yticks=[])
    ax.set_aspect("equal")
    ax.figure.legend(loc="outside right upper")
    for side in ax.spines.values():
        side.set_visible(False)


def trap(eps, constant, projected):
    """The size of the gradient against ε, for the mean square of normalised tokens and for a projection."""
    fig, ax = subplots()
    ax.loglog(eps, projected, marker="s", color=COLOUR["vermilion"], ls="--", label="random projection")
    ax.loglog(eps, constant, marker="o", color=COLOUR["blue"], ls="-", label="mean square")
    ax.set(xlabel=r"$\varepsilon$", ylabel="largest gradient entry")
    ax.legend(loc="center left")
    return fig
