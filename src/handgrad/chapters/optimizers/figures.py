"""The figures of chapter 15. Each function draws what it is given; what moves is walked here, by frames."""

import numpy as np
from matplotlib.ticker import NullLocator

from handgrad.course.figures import COLOUR, DASHES, LINES, WIDTH, backward_graph, subplots

from ... import optim
from . import valley


def weights(panels):
    """What each past gradient counts, {title: (weights, corrected weights)}, both (t,), g₁ first."""
    fig, axes = subplots(1, len(panels), (WIDTH, 2.6), sharey=True)
    for ax, (title, (plain, corrected)) in zip(axes, panels.items(), strict=True):
        places = np.arange(1, len(plain) + 1)
        ax.bar(places, corrected, 0.8, color=COLOUR["sky"], label="divided by their sum")
        ax.bar(places, plain, 0.45, color=COLOUR["blue"], label="as they are")
        ax.set(title=f"{title}, sum {plain.sum():.2f}", xlabel="gradient $i$")
        ax.set_xticks(places if len(places) < 10 else [1, 10, 20, 30])
    axes[0].set_ylabel("weight of $g_i$ in $m_t$")
    handles, labels = axes[0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside upper left", ncols=2)
    return fig


def integers():
    """A step of gradient descent, with the loss behind it, in integers."""
    nodes = {
        "$p_0$": (0, 0),
        r"$\nabla L$": (1.1, 1),
        r"$\times\,\eta$": (2.3, 1),
        "−": (3.3, 0),
        "$L$": (4.6, 0),
    }
    edges = [
        ("$p_0$", "−", "(1, 0)", "", "(−3, −2)"),
        ("$p_0$", r"$\nabla L$", "(1, 0)", "", "(8, 5)"),
        (r"$\nabla L$", r"$\times\,\eta$", "(2, 1)", "", "(3, 2)"),
        (r"$\times\,\eta$", "−", "(2, 1)", "", "(3, 2)"),
        ("−", "$L$", "(−1, −1)", "", "(−3, −2)"),
    ]
    return backward_graph(nodes, edges, height=3.4)


def graph():
    """A step of gradient descent and its backward, with letters and shapes."""
    d = r"\mathrm{d}"
    nodes = {
        "$p$": (0, 0),
        r"$\nabla L$": (0.9, 1),
        r"$\times\,\eta$": (2.9, 1),
        "−": (3.6, 0),
        "$L$": (4.8, 0),
    }
    edges = [
        ("$p$", "−", "$p$  (n,)", "", rf"${d}p'$"),
        ("$p$", r"$\nabla L$", "", "", rf"$-\eta\,\mathbf{{H}}\,{d}p'$"),
        (r"$\nabla L$", r"$\times\,\eta$", "$g$  (n,)", "", rf"$-\eta\,{d}p'$"),
        (r"$\times\,\eta$", "−", r"$\eta g$", "", rf"$-{d}p'$"),
        ("−", "$L$", "$p'$  (n,)", "", rf"${d}p'$"),
    ]
    return backward_graph(nodes, edges, height=3.8)


def edges(curves, rates, limits):
    """Factor per step over rate times curvature, {β: (law, measured at every third)}, and each edge."""
    fig, ax = subplots(size=(WIDTH, 3.2))
    for n, (beta, (law, measured)) in enumerate(curves.items()):
        colour = COLOUR[LINES[n]]
        ax.plot(rates, law, color=colour, ls=DASHES[n], label=f"β = {beta:g}")
        ax.plot(rates[::3], measured, "o", ms=4, mfc="none", color=colour)
        ax.plot(limits[beta], 1, "|", ms=18, mew=2, color=colour)
    ax.axhline(1, color=COLOUR["grey"], lw=0.8, ls="-")
    ax.set(xlabel=r"rate × curvature, $\eta h$", ylabel="factor per step", ylim=(0, 1.6))
    ax.legend(loc="lower right")
    return fig


def decay(curves, initial):
    """How two parameters shrink, {title: {label: |p| (steps + 1,)}}."""
    fig, axes = subplots(1, len(curves), (WIDTH, 2.8), sharey=True)
    for ax, (title, lines) in zip(axes, curves.items(), strict=True):
        for n, (label, p) in enumerate(lines.items()):
            ax.plot(p, color=COLOUR[LINES[n]], ls=DASHES[n], label=label)
        ax.set(title=title, xlabel="update", ylim=(0, 1.1 * initial))
    axes[0].set_ylabel("mean of $p$")
    handles, labels = axes[0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside upper left", ncols=2)
    return fig


def schedules(curves, peak):
    """Learning rates {label: (steps,)} over the updates, as shares of the peak."""
    fig, ax = subplots(size=(WIDTH, 2.8))
    for n, (label, rates) in enumerate(curves.items()):
        ax.plot(
            np.arange(1, len(rates) + 1),
            np.asarray(rates) / peak,
            color=COLOUR[LINES[n]],
            ls=DASHES[n],
            label=label,
        )
    ax.set(xlabel="update", ylabel="rate / peak", ylim=(0, 1.08))
    ax.legend(loc="upper right")
    return fig


def noise(law, measured):
    """The root mean square (updates,) of Adam's step on pure noise, over the rate."""
    fig, ax = subplots(size=(WIDTH, 2.7))
    t = np.arange(1, len(law) + 1)
    ax.plot(t, law, color=COLOUR["blue"], label="by the sum of squared weights")
    shown = [n for n in (1, 2, 3, 5, 8, 13, 21, 34, 55, 89) if n <= len(law)]
    ax.plot(
        shown,
        np.asarray(measured)[np.array(shown) - 1],
        "o",
        ms=4,
        mfc="none",
        color=COLOUR["black"],
        label="measured",
    )
    ax.set(xscale="log", xlabel="update", ylabel="step / rate", ylim=(0, 1.1))
    ax.legend(loc="upper right")
    return fig


def contours(ax):
    """The valley, as lines of equal loss."""
    x, y = np.meshgrid(np.linspace(-3.6, 3.0, 120), np.linspace(-2.3, 2.3, 90))
    height = valley.loss(np.stack([x, y], axis=-1))
    ax.contour(x, y, np.sqrt(height), 9, colors=COLOUR["grey"], linewidths=0.6, linestyles="-")
    ax.plot(0, 0, "*", color=COLOUR["black"], ms=8)
    ax.set(xlim=(-3.6, 3.0), ylim=(-2.3, 2.3), xticks=[], yticks=[], aspect="equal")


def arrow(ax, start, along, colour, label=None):
    """An arrow from a place along a vector of the plane."""
    ax.annotate("", start + along, start, arrowprops=dict(arrowstyle="-|>", color=COLOUR[colour], lw=2.2))
    if label:
        ax.plot([], [], color=COLOUR[colour], ls="-", label=label)


def rate_answer(axes, rate, walks, ends, slope):
    """Left: walks {name: places}. Right: the loss after the walk of SGD over rates (x, y), and its slope."""
    left, right = axes
    contours(left)
    for n, (name, places) in enumerate(walks.items()):
        shown = np.clip(places, -9, 9)
        left.plot(*shown.T, marker="o", ms=2.5, lw=1.3, color=COLOUR[LINES[n]], ls=DASHES[n], label=name)
    left.legend(loc="lower right", fontsize=8)
    rates, losses = ends
    here = np.interp(rate, rates, losses)
    right.plot(rates, losses, color=COLOUR["blue"])
    right.plot(rate, here, "o", color=COLOUR["vermilion"])
    reach = 0.022 / np.hypot(1, slope / 40)
    right.plot(
        [rate - reach, rate + reach],
        [here - reach * slope, here + reach * slope],
        color=COLOUR["vermilion"],
        ls="-",
    )
    right.set(xlabel="rate η", ylabel="loss after 10 steps of SGD", ylim=(-0.6, 6), xlim=(0, 0.185))
    right.set_title(f"dη = {slope:.3g}")


def beta_answer(axes, beta, places, starts, gradients, velocities):
    """Left: a walk with momentum, with arrows at one place. Right: how far each place is from the bottom."""
    left, right = axes
    contours(left)
    left.plot(*places.T, marker="o", ms=2.5, lw=1.3, color=COLOUR["blue"], ls="-")
    for start, g, u in zip(starts, gradients, velocities, strict=True):
        arrow(left, start, -g, "vermilion")
        arrow(left, start, -u, "green")
    left.plot([], [], color=COLOUR["vermilion"], ls="-", label="−η g")
    left.plot([], [], color=COLOUR["green"], ls="-", label="−η u")
    left.legend(loc="lower right", fontsize=8)
    right.semilogy(np.maximum(valley.loss(places), 1e-12), color=COLOUR["blue"])
    right.yaxis.set_minor_locator(NullLocator())
    right.set(xlabel="step", ylabel="loss", ylim=(5e-9, 30))
    right.set_title(f"β = {beta:g}, in the end {valley.loss(places[-1]):.1e}")


def eps_answer(ax, eps, g, steps):
    """A gradient g (2,) and Adam's first step for it, for every ε of a list; the chosen one stands out."""
    for other, step in steps.items():
        arrow(ax, np.zeros(2), step, "sky" if other != eps else "blue")
    along = -g / np.linalg.norm(g) * 1.1
    ax.plot(*np.stack([0 * along, along]).T, color=COLOUR["vermilion"], ls="--", label="against the gradient")
    ax.plot([], [], color=COLOUR["blue"], ls="-", label="Adam’s first step / η")
    ax.set(xlim=(-1.25, 0.25), ylim=(-1.2, 0.2), aspect="equal", title=f"ε = {eps:g}")
    ax.set(xlabel="first parameter, gradient 3", ylabel="second parameter, gradient 0.3")
    ax.legend(loc="upper left", fontsize=9)


def gaps(panels, levels):
    """Loss above the best over rates, {title: {name: (rates, gaps (rates, R))}}: median, and all seeds."""
    fig, axes = subplots(1, len(panels), (WIDTH, 3.4), sharey=True)
    for ax, (title, curves) in zip(axes, panels.items(), strict=True):
        for n, (name, (rates, found)) in enumerate(curves.items()):
            colour = COLOUR[LINES[n]]
            ax.plot(rates, np.median(found, axis=1), color=colour, ls=DASHES[n], label=name)
            ax.fill_between(rates, found.min(axis=1), found.max(axis=1), color=colour, alpha=0.18, lw=0)
        for label, level in levels.items():
            ax.axhline(level, color=COLOUR["black"], lw=1, ls=":")
            ax.text(rates[-1] if title else rates[0], level, label, fontsize=8, va="bottom", ha="right")
        ax.set(xscale="log", yscale="log", xlabel="rate", title=title, ylim=(0.008, 1.5))
        ax.yaxis.set_minor_locator(NullLocator())
    axes[0].set_ylabel("loss above the best, nats")
    handles, labels = axes[0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside upper left", ncols=3)
    return fig


# What moves: each value of a slider is walked, drawn and put into words -------------------------------------

LINE = np.linspace(0.001, 0.185, 120)
NAMES = {"SGD": "sgd", "momentum 0.9": "momentum", "Adam": "adam"}
GRADIENT = np.array([3.0, 0.3])
EPSILONS = (1e-8, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)


def _sgd(rate):
    return valley.walk(optim.sgd, optim.sgd_init, rate, 10)


def rate_picture(axes, value):
    """Ten steps of three optimizers, and the loss of SGD after them with its tangent."""
    walks = {
        label: valley.walk(getattr(optim, name), getattr(optim, f"{name}_init"), value, 10)
        for label, name in NAMES.items()
    }
    ends = [valley.loss(_sgd(float(x))[-1]) for x in LINE]
    slope = valley.rate_gradient(walks["SGD"], value)
    rate_answer(axes, value, walks, (LINE, ends), slope)


def rate_words(value):
    """What `rate` shows, for those who cannot see it."""
    places = _sgd(value)
    return (
        f"Rate {value:g}: after ten steps SGD has the loss {valley.loss(places[-1]):.3g}, and the derivative "
        f"of this loss by the rate, the slope of the tangent, is {valley.rate_gradient(places, value):.3g}"
    )


def beta_picture(axes, value):
    """Forty steps with momentum, with the step of the gradient and of the velocity at four places."""
    places = valley.walk(optim.momentum, optim.momentum_init, 0.1, 40, beta=value)
    at = [1, 3, 6, 10]
    gradients, velocities = 0.1 * places[at] @ valley.H, [places[n] - places[n + 1] for n in at]
    beta_answer(axes, value, places, places[at], gradients, velocities)


def beta_loss(value):
    """The loss after forty steps with this β."""
    return valley.loss(valley.walk(optim.momentum, optim.momentum_init, 0.1, 40, beta=value)[-1])


def beta_words(value):
    """What `beta` shows, for those who cannot see it."""
    return (
        f"β = {value:g}: a walk in the valley with arrows; after 40 steps the loss is {beta_loss(value):.1e}"
    )


def first_step(eps):
    """Adam's first step, over the rate, for the gradient (3, 0.3)."""
    return optim.adam(np.zeros(2), GRADIENT, optim.adam_init(np.zeros(2)), 1.0, eps=eps)[0]


def eps_picture(ax, value):
    """Adam's first step for one gradient at every ε; the chosen one stands out."""
    eps_answer(ax, value, GRADIENT, {e: first_step(e) for e in EPSILONS})


def eps_words(value):
    """What `eps` shows, for those who cannot see it."""
    across, up = first_step(value)
    return f"ε = {value:g}: for the gradient (3, 0.3) Adam’s first step is ({across:.3f}, {up:.3f}) η"
