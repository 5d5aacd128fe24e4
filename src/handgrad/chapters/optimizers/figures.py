"""The figures of chapter 15: a valley in which optimizers walk, and curves that the chapter measures."""

import numpy as np
from matplotlib.ticker import NullLocator

from handgrad.course.figures import COLOUR, DASHES, LINES, WIDTH, named_levels, subplots

from ... import optim

# The valley -------------------------------------------------------------------------------------------------

CURVATURES = np.array([1.0, 50.0])  # along, across
START = np.array([-3.0, -0.6])
NAMES = {"SGD": "sgd", "momentum 0.9": "momentum", "Adam": "adam"}


def height(p):
    """½ Σ hᵢ pᵢ² of places p (..., 2)."""
    return 0.5 * (CURVATURES * p**2).sum(axis=-1)


def walk(name, rate, steps=40):
    """The places (steps + 1, 2) of the shipped optimizer of this name, down the valley."""
    p, state = START, getattr(optim, f"{name}_init")(START)
    places = [p]
    for _ in range(steps):
        p, state = getattr(optim, name)(p, CURVATURES * p, state, rate)
        places.append(p)
    return np.array(places)


def valley(axes, rate):
    """Left: the first ten steps of three optimizers. Right: the loss of each over forty."""
    left, right = axes
    x, y = np.meshgrid(np.linspace(-3.6, 3.0, 120), np.linspace(-1.6, 1.6, 90))
    levels = np.sqrt(height(np.stack([x, y], axis=-1)))
    left.contour(x, y, levels, 9, colors=COLOUR["grey"], linewidths=0.6, linestyles="-")
    left.plot(0, 0, "*", color=COLOUR["black"], ms=8)
    left.set(xlim=(-3.6, 3.0), ylim=(-1.6, 1.6), xticks=[], yticks=[], aspect="equal", title="ten steps")
    for n, (label, name) in enumerate(NAMES.items()):
        places, look = walk(name, rate), dict(color=COLOUR[LINES[n]], ls=DASHES[n], lw=1.3)
        left.plot(*np.clip(places[:11], -9, 9).T, marker="o", ms=2.5, **look)
        right.semilogy(np.clip(height(places), 1e-9, 1e9), label=label, **look)
    right.yaxis.set_minor_locator(NullLocator())
    right.set(xlabel="step", title="loss", ylim=(1e-3, 1e3))
    right.legend(loc="lower left", fontsize=8)


def in_words(rate):
    """What `valley` shows, for those who cannot see it."""
    ends = ", ".join(f"{label} {height(walk(name, rate)[-1]):.1e}" for label, name in NAMES.items())
    return f"Rate {rate:g}: three walks in a long valley; the losses after forty steps are {ends}"


# What is measured -------------------------------------------------------------------------------------------


def schedules(curves):
    """Learning rates {label: (updates,)}, as shares of the peak."""
    fig, ax = subplots(size=(WIDTH, 2.6))
    for n, (label, rates) in enumerate(curves.items()):
        ax.plot(np.arange(1, len(rates) + 1), rates, color=COLOUR[LINES[n]], ls=DASHES[n], label=label)
    ax.set(xlabel="update", ylabel="rate / peak", ylim=(0, 1.08))
    ax.legend(loc="upper right")
    return fig


def sweep(results, levels, top):
    """Bits on held-out text by the peak of the rate, {name: {rate: bits}}; a cross: it diverged."""
    fig, ax = subplots()
    for n, (name, bits) in enumerate(results.items()):
        rates, colour = np.array([*bits]), COLOUR[LINES[n]]
        values = np.fmin([*bits.values()], top)
        ax.plot(rates, values, marker="o", ls=DASHES[n], color=colour, label=name)
        lost = values == top
        ax.plot(rates[lost], np.full(lost.sum(), top), "x", ms=10, mew=2.5, color=colour, clip_on=False)
    ax.set(xscale="log", xlabel="peak of the learning rate", ylabel="bits per character", ylim=(3, top))
    ax.figure.legend(loc="outside upper left", ncols=3)
    named_levels(ax, levels)
    return fig


def groups(bars, names):
    """Bits {label: (groups,)} of each group of characters, side by side."""
    fig, ax = subplots()
    width = 0.8 / len(bars)
    for n, (label, bits) in enumerate(bars.items()):
        places = np.arange(len(names)) + (n - (len(bars) - 1) / 2) * width
        drawn = ax.bar(places, bits, width * 0.92, color=COLOUR[LINES[n]], label=label)
        ax.bar_label(drawn, fmt="%.1f", fontsize=9)
    ax.set_xticks(range(len(names)), names)
    ax.set_ylabel("bits per character")
    fig.legend(loc="outside upper left", ncols=3)
    return fig
