"""The figures of chapter 20. Each function draws what it is given; the notebook computes every number."""

import numpy as np
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, NullLocator

from handgrad.course.figures import COLOUR, LINES, WIDTH, backward_graph, subplots

MARKERS = dict(zip(["plain", "tiles", "PyTorch"], "os^"))
COLOURS = dict(zip(MARKERS, ["vermilion", "blue", "grey"]))


def shares(amounts):
    """Bars of length 1, cut into shares of amounts {title: {stage: amount}}, all with the same stages."""
    rows = {title: {k: x / sum(row.values()) for k, x in row.items()} for title, row in amounts.items()}
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


def graph():
    """The backward graph of one tile, with shapes: b queries by c keys."""
    nodes = {"Q": (0, 2), "K": (0, 1), "V": (0, 0), "S": (1, 1.5), "A": (2, 1.5), "Y": (3, 0.6)}
    edges = [
        ("Q", "S", "", "(b, K)", "dQ +="),
        ("K", "S", "", "(c, K)", "dK +="),
        ("S", "A", "", "(b, c)", "dS"),
        ("A", "Y", "", "(b, c)", "dA"),
        ("V", "Y", "", "(c, E)", "dV +="),
    ]
    return backward_graph(nodes, edges)


def numbers(edges):
    """The backward of two tiles in numbers: edges {(from, to): (value, gradient)} of those names."""
    nodes = {"v, tile 0": (0, 3), "s, tile 0": (0, 2), "s, tile 1": (0, 1), "v, tile 1": (0, 0)}
    nodes |= {"tile 0": (1, 2.5), "tile 1": (1, 0.5), "y = 5": (2, 1.5)}
    drawn = [(start, end, value, "", gradient) for (start, end), (value, gradient) in edges.items()]
    return backward_graph(nodes, drawn, height=4.4)


def market(axes, direction, values, weights, ds):
    """What comes back to the scores of a query. Left: ds of each key. Right: the values, dy as an arrow.

    direction (2,) is dy; values (S, 2), weights (S,), ds (S,). A score whose ds is positive makes the loss
    larger, and a descent lowers it.
    """
    left, right = axes
    colours = [COLOUR["vermilion" if d > 0 else "blue"] for d in ds]
    left.bar(np.arange(len(ds)), ds, color=colours, width=0.7)
    left.axhline(0, color=COLOUR["grey"], lw=1)
    left.set(title="ds of each key", xlabel="key", ylim=(-0.36, 0.36))
    left.set_xticks(np.arange(len(ds)))
    left.tick_params(axis="x", labelsize=8)
    average = weights @ values
    right.scatter(*values.T, s=30 + 900 * weights, color=colours, alpha=0.75, zorder=1)
    for j, place in enumerate(values):
        right.annotate(str(j), place, (4, 4), textcoords="offset points", fontsize=8, color=COLOUR["grey"])
    tip = average + direction
    right.annotate("", tip, average, arrowprops=dict(arrowstyle="-|>", color=COLOUR["black"], lw=1.8))
    right.text(*(average + 1.25 * direction), "dy", ha="center", va="center")
    right.plot(*average, "*", ms=13, color=COLOUR["black"], zorder=4)
    right.set(title="values, and their average y", aspect="equal")
    right.set(xlim=_room(values[:, 0]), ylim=_room(values[:, 1]))


def roofline(points, rates):
    """Operations a second over operations a byte: points {kind: [(intensity, operations a second)]}.

    rates: {"operations": of the processor, a second, "memory", "cache": bytes a second from there}.
    """
    fig, ax = subplots(size=(WIDTH, 3.6))
    x = np.geomspace(0.05, 400, 200)
    for place, dash in (("cache", "--"), ("memory", "-")):
        roof = np.minimum(rates["operations"], rates[place] * x)
        ax.loglog(x, roof / 1e9, color=COLOUR["grey"], ls=dash, lw=1.4, label=f"roof, from {place}")
    looks = zip(points.items(), ["blue", "vermilion", "green", "orange", "purple"], "os^Dv")
    for (kind, pairs), colour, mark in looks:
        intensity, rate = np.array(pairs).T
        ax.loglog(intensity, rate / 1e9, mark, color=COLOUR[colour], ms=6, label=kind, alpha=0.85)
    ax.set(xlabel="operations for a byte", ylabel="billion operations / s")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.figure.legend(loc="outside upper left", ncols=3, fontsize=9)
    return fig


def waterfall(stair, alone):
    """Left: the time of a step as ideas are added one by one: stair [{"idea", "median", "low", "high"}].

    Right: the time without one idea over the time with all: alone {idea: {"median", "low", "high"}}.
    """
    fig, axes = subplots(1, 2, (WIDTH, 3.3), width_ratios=(1.15, 1))
    left, right = axes
    for place, row in enumerate(stair):
        before = stair[place - 1]["median"] if place else 0
        low, high = sorted((before, row["median"]))
        worse = place and row["median"] > before
        colour = "grey" if place == 0 else "vermilion" if worse else "blue"
        left.barh(place, max(high - low, 0.004), left=low, color=COLOUR[colour], height=0.6)
        left.plot([row["low"], row["high"]], [place, place], color=COLOUR["black"], lw=1, ls="-")
    left.set_yticks(range(len(stair)), [row["idea"] for row in stair])
    left.set(title="added one by one", xlabel="time, readable = 1", xlim=(0, None))
    names = list(alone)
    for place, name in enumerate(names):
        row = alone[name]
        right.plot([row["low"], row["high"]], [place, place], color=COLOUR["black"], lw=1.2, ls="-")
        right.plot(
            row["median"], place, "o", color=COLOUR["blue" if row["median"] > 1 else "vermilion"], ms=7
        )
    right.axvline(1, color=COLOUR["grey"], ls="--", lw=1)
    right.set_yticks(range(len(names)), names)
    right.set(title="one taken out", xlabel="time, with it = 1")
    right.set_ylim(len(names) - 0.5, -0.5)
    left.invert_yaxis()
    return fig


def sweeps(steps):
    """The order of work in a chain of so many steps over an array, three ways: an arrow for each sweep.

    To the right: places of the array. Downwards: steps of the chain. Dotted: from one sweep to the next.
    """
    fig, axes = subplots(1, 3, (WIDTH, 2.4), sharey=True)
    cuts = {"passes": (1, steps), "blocks": (4, steps), "a loop": (1, 1)}
    for ax, (way, (blocks, rows)) in zip(axes, cuts.items(), strict=True):
        look = dict(arrowstyle="-|>", color=COLOUR["blue"], lw=1.2 if rows > 1 else 2.6, mutation_scale=7)
        last = None
        for block, row in np.ndindex(blocks, rows):
            y = row + 0.5 if rows > 1 else steps / 2
            start, end = (block + 0.1) / blocks, (block + 0.9) / blocks
            ax.annotate("", (end, y), (start, y), arrowprops=look | {"shrinkA": 0, "shrinkB": 0})
            if last:
                ax.plot([last[0], start], [last[1], y], ":", color=COLOUR["grey"], lw=0.8, zorder=0)
            last = end, y
        ax.set(title=way, xlim=(0, 1), ylim=(steps, 0), xticks=[], yticks=[], xlabel="the array")
    axes[0].set_ylabel("steps of the chain")
    return fig


def chain(record):
    """Milliseconds of a chain by each way, forward and backward: the record of `benchmarks.ideas`."""
    ways = [row["way"] for row in record["forward"]]
    fig, ax = subplots(size=(WIDTH, 0.55 * len(ways) + 1.2))
    looks = {"forward": ("blue", "", -0.19), "backward": ("orange", "//", 0.19)}
    for direction, (colour, hatch, shift) in looks.items():
        rows = [row for row in record[direction] if row["seconds"]]
        places = [ways.index(row["way"]) + shift for row in rows]
        taken = [1e3 * row["seconds"] for row in rows]
        ax.barh(places, taken, 0.36, color=COLOUR[colour], hatch=hatch, ec="white", label=direction)
        for place, row, ms in zip(places, rows, taken, strict=True):
            calls = f"{row['calls']} call{'s' * (row['calls'] != 1)}" if row["calls"] else ""
            moved = f"{calls}, {row['bytes'] / 1e6:.0f} MB" if calls else ""
            ax.annotate(moved, (ms, place), (4, 0), textcoords="offset points", va="center", fontsize=8)
    ax.set_yticks(range(len(ways)), ways)
    ax.set(xlabel="milliseconds", ylim=(len(ways) - 0.5, -0.5))
    ax.margins(x=0.3)
    ax.figure.legend(loc="outside upper right", ncols=2)
    return fig


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
