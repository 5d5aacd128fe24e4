"""The figures of chapter 04. Each function draws what it is given; the notebook computes every number."""

import numpy as np
from matplotlib.patches import Rectangle

from handgrad.course.figures import COLOUR, DASHES, DIVERGING, LINES, WIDTH, backward_graph, subplots


def rows(stages, row):
    """The layer as tables {title: (T, width)}, with one row framed; zeros are white."""
    widths = [max(table.shape[1], 2) for table in stages.values()]
    fig, axes = subplots(1, len(stages), (WIDTH, 2.3), width_ratios=widths)
    top = max(np.abs(table).max() for table in stages.values())
    for ax, (title, table) in zip(axes, stages.items(), strict=True):
        ax.imshow(table, cmap=DIVERGING, vmin=-top, vmax=top, aspect="auto")
        ax.set_xticks(np.arange(table.shape[1] - 1) + 0.5, minor=True)
        ax.set_yticks(np.arange(len(table) - 1) + 0.5, minor=True)
        ax.grid(which="minor", color="#D9D9D9", lw=0.6, ls="-")
        frame = dict(fill=False, ec=COLOUR["black"], lw=2.2, clip_on=False, zorder=3)
        ax.add_patch(Rectangle((-0.5, row - 0.5), table.shape[1], 1, **frame))
        ax.set_title(title)
        ax.set_xticks([])
        ax.set_yticks([])
        ax.tick_params(which="both", length=0)
        ax.spines[:].set_visible(False)
    axes[0].set_yticks(range(len(table)), [f"token {t}" for t in range(len(table))])
    return fig


def integers():
    """One backward in integers: token (1, 2), three hidden units with ReLU, dy = (1, −1)."""
    nodes = {"$x$": (0, 0), r"$W_1$": (1, 1), "ReLU": (2, 0), r"$W_2$": (3, 1), "$L$": (4, 0)}
    edges = [
        ("$x$", r"$W_1$", "(1, 2)", "", "(−2, 4)"),
        (r"$W_1$", "ReLU", "(3, 2, −2)", "", "(1, 3, 0)"),
        ("ReLU", r"$W_2$", "(3, 2, 0)", "", "(1, 3, −1)"),
        (r"$W_2$", "$L$", "(8, −1)", "", "(1, −1)"),
    ]
    return backward_graph(nodes, edges, height=2.9)


def layer():
    """The whole layer, its values forward and its gradients backward, with their shapes."""
    nodes = {"$X$": (0, 0), "affine 1": (1, 0), r"$\phi$": (1.9, 0), "affine 2": (2.8, 0), "$L$": (3.7, 0)}
    nodes |= {r"$W_1$": (0.6, 1), r"$b_1$": (0.6, -1), r"$W_2$": (2.4, 1), r"$b_2$": (2.4, -1)}
    edges = [
        ("$X$", "affine 1", "$X$\n(T, D)", "", r"$\mathrm{d}X$"),
        (r"$W_1$", "affine 1", "(D, F)", "", r"$\mathrm{d}W_1$"),
        (r"$b_1$", "affine 1", "(F,)", "", r"$\mathrm{d}b_1$"),
        ("affine 1", r"$\phi$", "$H$\n(T, F)", "", r"$\mathrm{d}H$"),
        (r"$\phi$", "affine 2", "$A$\n(T, F)", "", r"$\mathrm{d}A$"),
        (r"$W_2$", "affine 2", "(F, D)", "", r"$\mathrm{d}W_2$"),
        (r"$b_2$", "affine 2", "(D,)", "", r"$\mathrm{d}b_2$"),
        ("affine 2", "$L$", "$Y$\n(T, D)", "", r"$\mathrm{d}Y$"),
    ]
    return backward_graph(nodes, edges, height=4.2)


def gated():
    """The gated layer, its values forward and its gradients backward, with their shapes."""
    nodes = {"$X$": (0, 0), r"$\cdot\,W_\mathrm{gate}$": (0.8, 1), r"$\phi$": (1.75, 1)}
    nodes |= {r"$\cdot\,W_\mathrm{up}$": (0.8, -1), r"$\circ$": (2.3, 0), r"$\cdot\,W_\mathrm{down}$": (3, 0)}
    nodes |= {"$L$": (3.9, 0)}
    edges = [
        ("$X$", r"$\cdot\,W_\mathrm{gate}$", "$X$ (T, D)", "", r"$\mathrm{d}G\,W_\mathrm{gate}^\top$"),
        ("$X$", r"$\cdot\,W_\mathrm{up}$", "$X$", "", r"$\mathrm{d}U\,W_\mathrm{up}^\top$"),
        (r"$\cdot\,W_\mathrm{gate}$", r"$\phi$", "$G$ (T, F)", "", r"$\mathrm{d}G$"),
        (r"$\phi$", r"$\circ$", "$A$ (T, F)", "", r"$\mathrm{d}A$"),
        (r"$\cdot\,W_\mathrm{up}$", r"$\circ$", "$U$ (T, F)", "", r"$\mathrm{d}U$"),
        (r"$\circ$", r"$\cdot\,W_\mathrm{down}$", "$P$", "", r"$\mathrm{d}P$"),
        (r"$\cdot\,W_\mathrm{down}$", "$L$", "$Y$\n(T, D)", "", r"$\mathrm{d}Y$"),
    ]
    return backward_graph(nodes, edges, height=4.0)


NAMES = {"relu": "ReLU", "gelu": "GELU", "gelu_tanh": "GELU, tanh", "silu": "SiLU"}


def slopes(axes, places, curves, at, back):
    """On two axes: derivatives {name: (n,)} over places (n,), and what each returns at one place.

    at: the place, back: {name: number}.
    """
    plot, bars = axes
    for n, (name, curve) in enumerate(curves.items()):
        look = dict(color=COLOUR[LINES[n]], ls=DASHES[n], lw=1.6)
        plot.plot(places, curve, label=NAMES[name], **look)
        plot.plot(at, back[name], "o", color=COLOUR[LINES[n]], ms=6, zorder=4)
    plot.axvline(at, color=COLOUR["grey"], lw=0.8, ls=":")
    plot.axhline(0, color=COLOUR["grey"], lw=0.8, ls="-")
    plot.set(xlabel="h", ylabel="φ′(h)", ylim=(-0.25, 1.25))
    plot.legend(loc="upper left", fontsize=9)
    colours = [COLOUR[LINES[n]] for n in range(len(back))]
    bars.barh(range(len(back)), back.values(), color=colours, height=0.6)
    for n, number in enumerate(back.values()):
        bars.text(max(number, 0) + 0.04, n, f"{number:.2f}", va="center", fontsize=9)
    bars.axvline(0, color=COLOUR["grey"], lw=0.8, ls="-")
    bars.axvline(1, color=COLOUR["grey"], lw=0.8, ls=":")
    bars.set_yticks(range(len(back)), [NAMES[name] for name in back], fontsize=9)
    bars.set(xlim=(-0.25, 1.5), ylim=(len(back) - 0.5, -0.5), xlabel="dh, when da = 1 arrives")


def gap(places, difference):
    """The exact GELU less its tanh form, (n,) over places (n,)."""
    fig, ax = subplots(size=(WIDTH, 2.4))
    ax.plot(places, 1e4 * difference, color=COLOUR["blue"], ls="-")
    ax.axhline(0, color=COLOUR["grey"], lw=0.8, ls="-")
    ax.set(xlabel="x", ylabel="difference · 10⁴")
    return fig


def activity(shares):
    """How often each hidden unit is above 0, units in order: {label: (F,)} shares of the positions."""
    fig, ax = subplots(size=(WIDTH, 2.9))
    for label, share in shares.items():
        ax.plot(np.sort(share)[::-1], label=label)
    ax.set(xlabel="hidden unit, the busiest first", ylabel="share of positions", ylim=(0, 1))
    ax.legend(loc="upper right")
    return fig
