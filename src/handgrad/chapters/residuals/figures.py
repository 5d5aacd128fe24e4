"""The figures of chapter 06. Each function draws what it is given; the notebook computes every number."""

import numpy as np
from matplotlib.ticker import NullLocator

from handgrad.course.figures import COLOUR, DASHES, FORTH, LINES, WIDTH, backward_graph, subplots

LOOK = {"none": 0, "pre": 1, "post": 2, "output": 3}
NAMES = {"none": "no norm", "pre": "pre-norm", "post": "post-norm", "output": "output-norm"}


def integers():
    """Two residual sub-layers of width 2, values forward and gradients back."""
    nodes = {
        "$x$": (0, 0),
        "$f_0$": (0.95, 1),
        "+": (1.9, 0),
        "$f_1$": (2.75, 1),
        "+ ": (3.6, 0),
        "$L$": (4.6, 0),
    }
    edges = [
        ("$x$", "+", "(1, 2)", "", "(2, 3)"),
        ("$x$", "$f_0$", "", "", "(3, 4)"),
        ("$f_0$", "+", "(4, 1)", "", "(2, 3)"),
        ("+", "+ ", "(5, 3)", "", "(1, 2)"),
        ("+", "$f_1$", "", "", "(1, 1)"),
        ("$f_1$", "+ ", "(2, 3)", "", "(1, 2)"),
        ("+ ", "$L$", "(7, 6)", "", "(1, 2)"),
    ]
    return backward_graph(nodes, edges, height=3.4)


def graph():
    """A pre-norm sub-layer, its values forward and its gradients back, with their shapes."""
    nodes = {"$x$": (0, 0), "LN": (0.55, 1), "$f$": (2.1, 1), "+": (2.75, 0), "$L$": (4, 0)}
    edges = [
        ("$x$", "+", "$x$  (B, T, D)", "", r"$\mathrm{d}y$"),
        ("$x$", "LN", "$x$", "", "by chapter 5"),
        ("LN", "$f$", "$h$  (B, T, D)", "", r"$\mathrm{d}h = J^\top\mathrm{d}y$"),
        ("$f$", "+", "$f(h)$", "", r"$\mathrm{d}y$"),
        ("+", "$L$", "$y$\n(B, T, D)", "", r"$\mathrm{d}y$"),
    ]
    return backward_graph(nodes, edges, height=3.6)


def placements():
    """Where the norm stands in each of the four sub-layers: the stream upwards, the branch at its right."""
    fig, axes = subplots(1, 4, (WIDTH, 3.0))
    box = dict(boxstyle="round,pad=0.3", fc="white", ec=COLOUR["grey"])
    for ax, (place, name) in zip(axes, NAMES.items(), strict=True):
        ax.plot([0, 0], [0, 5], color=COLOUR[FORTH[0]], lw=1.8, ls="-")
        ax.plot([0, 1, 1, 0], [0.6, 0.6, 3.6, 3.6], color=COLOUR[FORTH[0]], lw=1.2, ls="-")
        parts = [(1, 2.1, "$f$", "black"), (0, 3.6, "+", "black")]
        parts += {
            "none": [],
            "pre": [(1, 1.2, "LN", "vermilion")],
            "post": [(0, 4.4, "LN", "vermilion")],
            "output": [(1, 3.0, "LN", "vermilion")],
        }[place]
        for across, up, text, colour in parts:
            ax.text(across, up, text, ha="center", va="center", bbox=box, color=COLOUR[colour])
        ax.text(0.1, 0.0, "$x$", va="center")
        ax.text(0.1, 5.0, "$y$", va="center")
        ax.set(xlim=(-0.6, 1.6), ylim=(-0.2, 5.3), title=name)
        ax.set_axis_off()
    return fig


def path_lengths(measured, expected):
    """Shares (N + 1,) of the gradient's square that return by paths through so many branches."""
    fig, ax = subplots(size=(WIDTH, 2.7))
    places = np.arange(len(measured))
    ax.bar(places, measured, 0.7, color=COLOUR["sky"], label="measured, mean of all draws")
    ax.plot(places, expected, "o", color=COLOUR["vermilion"], label="binomial coefficient / $2^N$")
    ax.set(xlabel="branches on the path", ylabel="share of the square", xticks=places)
    fig.legend(loc="outside upper left", ncols=2)
    return fig


def by_depth(panels, low=None, high=None):
    """Sizes by depth, {title: {place: (seeds, N + 1)}}: the median as a line, all seeds within the band."""
    fig, axes = subplots(1, len(panels), (WIDTH, 3.5), sharey=True, squeeze=False)
    for ax, (title, curves) in zip(axes[0], panels.items(), strict=True):
        for place, sizes in curves.items():
            draw_band(ax, np.asarray(sizes), LOOK[place], NAMES[place])
        ax.set(yscale="log", title=title, xlabel="sub-layer", ylim=(low, high))
        ax.yaxis.set_minor_locator(NullLocator())
    axes[0][0].set_ylabel("size of the gradient")
    found = {label: h for ax in axes[0] for h, label in zip(*ax.get_legend_handles_labels())}
    fig.legend(found.values(), found.keys(), loc="outside upper left", ncols=4)
    return fig


def draw_band(ax, sizes, n, label):
    """The median of sizes (seeds, N + 1) as the n-th kind of line, and the band of all seeds."""
    places, colour = np.arange(sizes.shape[1]), COLOUR[LINES[n]]
    ax.plot(places, np.median(sizes, axis=0), color=colour, ls=DASHES[n], label=label)
    ax.fill_between(places, sizes.min(axis=0), sizes.max(axis=0), color=colour, alpha=0.18, lw=0)


def growth(curves, law):
    """The size of the stream by depth, {place: (seeds, N + 1)}, beside a law (N + 1,)."""
    fig, ax = subplots(size=(WIDTH, 3.0))
    for place, sizes in curves.items():
        draw_band(ax, np.asarray(sizes), LOOK[place], NAMES[place])
    places = np.arange(0, len(law), 4)
    ax.plot(places, law[places], "o", mfc="none", color=COLOUR["black"], label=r"$\sqrt{1 + \ell}$")
    ax.set(yscale="log", xlabel=r"sub-layer $\ell$", ylabel="size of the stream")
    ax.legend(fontsize=9, loc="upper left")
    return fig


def last(depths, sizes, laws):
    """The gradient of the last sub-layer's weights by depth, {place: (depths, seeds)}, and laws (depths,)."""
    fig, ax = subplots(size=(WIDTH, 3.0))
    for place, found in sizes.items():
        n, found = LOOK[place], np.asarray(found)
        look = dict(color=COLOUR[LINES[n]])
        ax.errorbar(
            depths,
            np.median(found, axis=1),
            [np.median(found, axis=1) - found.min(axis=1), found.max(axis=1) - np.median(found, axis=1)],
            fmt="os"[n % 2],
            capsize=3,
            label=NAMES[place],
            **look,
        )
        ax.plot(depths, laws[place], ls="--", lw=1.2, **look)
    ax.set(
        xscale="log", yscale="log", xlabel="sub-layers", ylabel=r"length of the last $\mathrm{d}\mathbf{W}_2$"
    )
    ax.set_xticks(depths, depths)
    ax.set_yticks([20, 40, 80, 160], [20, 40, 80, 160])
    ax.minorticks_off()
    ax.legend(loc="lower left")
    return fig


def collapse(curves):
    """How unlike tokens are behind so many attention layers, {label: (seeds, layers + 1)}."""
    fig, ax = subplots(size=(WIDTH, 3.2))
    for n, (label, spreads) in enumerate(curves.items()):
        draw_band(ax, np.maximum(spreads, 1e-17), n, label)
    ax.set(yscale="log", xlabel="attention layers", ylabel="share that is unlike", ylim=(1e-17, 5))
    ax.figure.legend(loc="outside upper left", ncols=2)
    return fig


def answer(ax, sizes, laws, scale):
    """The gradient by depth at one scale: {place: (seeds, N + 1)} and laws {place: (N + 1,)}."""
    for place, found in sizes.items():
        draw_band(ax, np.asarray(found), LOOK[place], NAMES[place])
        places = np.arange(0, len(laws[place]), 3)
        ax.plot(places, laws[place][places], "o", ms=4, mfc="none", color=COLOUR["black"])
    ax.set(yscale="log", ylim=(1e-2, 1e6), xlim=(-0.5, 24.5), xlabel="sub-layer")
    ax.set(ylabel="size of the gradient", title=f"each branch times {scale:g}")
    ax.legend(loc="upper right", fontsize=9)


def described(scale):
    """What `answer` shows at one scale, for those who cannot see it."""
    grown = (1 + scale**2) ** 12
    return (
        f"Each branch is multiplied by {scale:g}. Without a norm the gradient grows by {grown:.3g} from "
        f"the last sub-layer to the first; pre-norm by {np.sqrt(1 + 24 * scale**2):.2g}; post-norm does not"
    )
