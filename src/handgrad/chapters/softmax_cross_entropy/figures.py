"""The figures of chapter 02. Each function draws what it is given; the notebook computes every number."""

import numpy as np

from handgrad.course.figures import COLOUR, DASHES, LINES, WIDTH, backward_graph, subplots


def three_steps(stages, right):
    """One row of logits on its way to probabilities: {title: (V,)}, a bar for each token, one is right."""
    fig, axes = subplots(1, len(stages), (WIDTH, 2.5))
    for ax, (title, x) in zip(axes, stages.items(), strict=True):
        colours = [COLOUR["blue" if j == right else "sky"] for j in range(len(x))]
        bars = ax.bar(range(len(x)), x, color=colours)
        ax.bar_label(bars, [f"{value:.3g}" for value in x], padding=2)
        ax.set_xticks(range(len(x)), [f"{j}\n(right)" if j == right else str(j) for j in range(len(x))])
        ax.set(title=title, ylim=(0, 1.2 * max(x)), yticks=[], xlabel="token")
        ax.spines["left"].set_visible(False)
    return fig


def integers():
    """One backward in integers: exponentials 6, 3, 1, the second token right, and 30 arriving."""
    nodes = {"$u = e^z$": (0, 0), "sum": (0.95, 1), "÷": (1.9, 0), "$-\\ln p_1$": (3, 0)}
    edges = [
        ("$u = e^z$", "÷", "(6, 3, 1)", "", "(0, −10, 0)"),
        ("$u = e^z$", "sum", "", "", "3 to each"),
        ("sum", "÷", "$U$ = 10", "", "3"),
        ("÷", "$-\\ln p_1$", "(6, 3, 1)/10", "", "(0, −100, 0)"),
    ]
    return backward_graph(nodes, edges, height=3.2)


def layer():
    """Softmax and loss with shapes: values forward, gradients backward."""
    nodes = {
        "$z$": (0, 0),
        "softmax": (0.9, 0),
        "mean of $-\\ln$": (2.2, 0),
        "$L$": (3.2, 0),
        "$q$": (1.5, 1),
    }
    edges = [
        ("$z$", "softmax", "(B, T, V)", "", r"$\mathrm{d}z$"),
        ("softmax", "mean of $-\\ln$", "$p$\n(B, T, V)", "", r"$\mathrm{d}p$"),
        ("$q$", "mean of $-\\ln$", "(B, T, V)", "", ""),
        ("mean of $-\\ln$", "$L$", "()", "", "1"),
    ]
    return backward_graph(nodes, edges, height=3.2)


def reply(axes, p, targets, gradients):
    """What comes back to four logits: probabilities beside what is wanted, and dz for several targets.

    axes: two. p: (V,). targets, gradients: {label: (V,)}, in the same order; token 0 is the right one.
    """
    above, below = axes
    places, width = np.arange(len(p)), 0.8 / len(gradients)
    above.bar(places, p, 0.8, color=COLOUR["sky"], label="$p$")
    for n, (label, q) in enumerate(targets.items()):
        colour = COLOUR[("blue", "vermilion")[n]]
        above.hlines(q, places - 0.45, places + 0.45, color=colour, lw=2, ls=DASHES[n], label=f"$q$, {label}")
    above.set(ylim=(0, 1.35), title="probabilities")
    above.legend(loc="upper right", fontsize=9)
    for n, (label, dz) in enumerate(gradients.items()):
        shift = (n - (len(gradients) - 1) / 2) * width
        below.bar(places + shift, dz, width, color=COLOUR[("blue", "vermilion")[n]], label=label)
    below.axhline(0, color=COLOUR["grey"], lw=0.8, ls="-")
    below.set(ylim=(-1.05, 0.65), title="what comes back, $dz$", xlabel="token")
    below.legend(loc="lower right", fontsize=9)
    for ax in axes:
        ax.set_xticks(places, ["0\n(right)", *map(str, places[1:])])


def mislabelled(x, plotted, meant):
    """Two losses against x (n,): the curve as printed, and the one that the printed axis label promises."""
    fig, ax = subplots(size=(WIDTH, 3.0))
    ax.plot(x, plotted, label="as plotted: logits $(x, -x)$")
    ax.plot(x, meant, label="as labelled: logits $(x, 0)$")
    ax.axvline(0, color=COLOUR["grey"], lw=0.8, ls=":")
    ax.set(xlabel="$x$", ylabel="loss if token 0 is right", ylim=(0, None))
    ax.legend(loc="upper right")
    return fig


def excesses(curves, laws):
    """How far above the optimum, against updates, both logarithmic: {label: (updates, excess)} and laws."""
    fig, ax = subplots(size=(WIDTH, 3.7))
    for n, (label, (updates, excess)) in enumerate(curves.items()):
        ax.loglog(updates, excess, color=COLOUR[LINES[n]], ls=DASHES[n], label=label)
    for label, (updates, excess) in laws.items():
        ax.loglog(updates, excess, color=COLOUR["black"], ls=":", lw=1.2, label=label)
    ax.axhline(1e-3, color=COLOUR["grey"], lw=0.8, ls="-")
    ax.annotate("$10^{-3}$ nats", (1, 1e-3), (0, 4), textcoords="offset points", fontsize=9)
    ax.set(xlabel="update", ylabel="nats above the optimum")
    fig.legend(loc="outside upper left", ncols=2)
    return fig
