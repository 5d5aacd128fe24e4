"""The figures of chapter 19. Each function draws what it is given; the notebook computes every number."""

import numpy as np
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, NullLocator

from handgrad.course.figures import COLOUR, LINES, WIDTH, subplots

MARKERS = dict(zip(["plain", "tiles", "PyTorch"], "os^"))
COLOURS = dict(zip(MARKERS, ["vermilion", "blue", "grey"]))


def shares(rows):
    """Bars of length 1, cut into shares: rows {title: {stage: share}}, all with the same stages."""
    fig, ax = subplots(size=(WIDTH, 0.75 * len(rows) + 1.1))
    stages = list(next(iter(rows.values())))
    left = np.zeros(len(rows))
    for stage, colour in zip(stages, LINES, strict=False):
        widths = np.array([row[stage] for row in rows.values()])
        ax.barh(list(rows), widths, left=left, color=COLOUR[colour], height=0.55, label=stage, ec="white")
        for y, (start, width) in enumerate(zip(left, widths)):
            if width > 0.06:
                ink = "black" if colour in ("orange", "sky", "purple") else "white"
                ax.text(start + width / 2, y, f"{width:.0%}", ha="center", va="center", color=ink, fontsize=9)
        left += widths
    ax.set(xlim=(0, 1), xticks=[])
    ax.spines[["left", "bottom"]].set_visible(False)
    ax.tick_params(left=False)
    ax.invert_yaxis()
    ax.figure.legend(loc="outside lower center", ncols=3, fontsize=9)
    return fig


def tiles(states, title=""):
    """A table of tiles, one row for each block of queries: states (n, m): 0 hidden, 1 cut, 2 whole."""
    n, m = states.shape
    fig, ax = subplots(size=(WIDTH, 0.34 * n + 0.8))
    looks = {
        0: dict(fc="white", ec="#BBBBBB", ls=":"),
        1: dict(fc="#9CC9E3", ec="white", hatch="///"),
        2: dict(fc=COLOUR["blue"], ec="white"),
    }
    names = {2: "computed", 1: "computed, partly hidden", 0: "never computed"}
    for state, look in looks.items():
        places = [(j, i) for i, j in np.ndindex(n, m) if states[i, j] == state]
        for number, (x, y) in enumerate(places):
            ax.add_patch(Rectangle((x, y), 1, 1, lw=1, **look, label=None if number else names[state]))
    ax.set(xlim=(-0.1, m + 0.1), ylim=(n + 0.1, -0.1), aspect="equal", title=title)
    ax.set(xlabel="blocks of keys", ylabel="blocks of queries", xticks=[], yticks=[])
    ax.spines[["left", "bottom"]].set_visible(False)
    ax.legend(loc="center left", bbox_to_anchor=(1.02, 0.5))
    return fig


def sweep(axes, seen, scores, values, tops, averages):
    """The state after `seen` keys. Left: exp(s - m), m the maximum so far. Right: the average so far.

    scores (S,), values (S, 2); tops and averages map each number of seen keys to m and to the average (2,).
    """
    left, right = axes
    places, bars = np.arange(len(scores)), np.exp(scores[:seen] - tops[seen])
    left.bar(places[:seen], bars, color=COLOUR["blue"], width=0.7)
    left.plot(places[seen:], np.zeros(len(scores) - seen), ".", color=COLOUR["grey"])
    left.set(
        title="exp(s − m) of the keys seen", xlabel="key", ylim=(0, 1.25), xlim=(-0.7, len(scores) - 0.3)
    )
    left.set_xticks(places)
    left.text(0.03, 0.91, f"m = {tops[seen]:.1f},  z = {bars.sum():.2f}", transform=left.transAxes)
    weights = bars / bars.sum()
    right.scatter(*values.T, s=12, color=COLOUR["grey"], zorder=2)
    right.scatter(*values[:seen].T, s=20 + 500 * weights, color=COLOUR["sky"], alpha=0.7, zorder=1)
    past = np.array([averages[n] for n in sorted(averages) if n <= seen])
    right.plot(*past.T, "-", color=COLOUR["vermilion"], lw=1.2, zorder=3)
    right.plot(*past[-1], "*", ms=13, color=COLOUR["vermilion"], zorder=4)
    right.set(title="their average", aspect="equal", xlim=_room(values[:, 0]), ylim=_room(values[:, 1]))


def _room(x):
    margin = 0.15 * np.ptp(x)
    return x.min() - margin, x.max() + margin


def memory(held):
    """Bytes over length, on logarithmic axes: held {way: {T: bytes}}, with the slopes 1 and 2 beside them."""
    fig, ax = subplots()
    for way, rows in held.items():
        lengths, sizes = np.array(list(rows)), np.array(list(rows.values())) / 2**20
        ax.loglog(lengths, sizes, marker=MARKERS[way], color=COLOUR[COLOURS[way]], ls="-", label=way)
    lengths = np.array([lengths[-3], lengths[-1]])
    for slope, way, shift in [(2, "plain", 0.45), (1, "tiles", 2.2)]:
        start = shift * held[way][int(lengths[0])] / 2**20
        guide = start * (lengths / lengths[0]) ** slope
        ax.loglog(lengths, guide, color=COLOUR["grey"], ls=":", lw=1.2)
        ax.text(lengths[-1], guide[-1], f" slope {slope}", color=COLOUR["grey"], va="center")
    _lengths(ax, held)
    ax.set(ylabel="MiB beside q, k, v and dy")
    ax.yaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    ax.legend(loc="upper left")
    return fig


def times(panels):
    """Time over that of plain attention: panels {title: {way: {T: ratio}}}, side by side."""
    fig, axes = subplots(1, len(panels), sharey=True)
    for ax, (title, held) in zip(axes, panels.items()):
        for way, rows in held.items():
            marks = dict(marker=MARKERS[way], color=COLOUR[COLOURS[way]], ls="-", label=way)
            ax.semilogx(list(rows), list(rows.values()), **marks)
        ax.axhline(1, color=COLOUR["grey"], lw=1, ls="--")
        _lengths(ax, held, every=2)
        ax.set(title=title, ylim=(0, None))
    axes[0].set(ylabel="time / time of plain")
    axes[0].legend()
    return fig


def _lengths(ax, held, every=1):
    lengths = list(next(iter(held.values())))[::every]
    ax.set_xticks(lengths, [str(T) for T in lengths])
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set(xlabel="length T")
