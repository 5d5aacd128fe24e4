"""The figures of chapter 20. Each function draws what it is given; the notebook computes every number."""

import numpy as np

from handgrad.course.figures import COLOUR, LINES, WIDTH, subplots

CHANGES = {  # by the names of the record
    "readable": "the readable step",
    "in place": "results overwrite memory at hand",
    "nothing hidden": "attention leaves hidden keys out",
    "blocks": "cheap steps in blocks of rows",
    "loops": "chains of cheap steps in one pass",
    "recomputation": "outputs computed again, not kept",
    "workspace": "memory of the last step used again",
    "two workers": "two cores",
}


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


def costs(lengths, measured, alone):
    """Nanoseconds a number in arrays of such lengths: measured, and by each cost alone {name: seconds}."""
    fig, ax = subplots(size=(WIDTH, 2.8))
    for (name, each), colour in zip(alone.items(), LINES, strict=False):
        height = 1e9 * np.broadcast_to(each, len(lengths))
        end = 0 if height[0] > height[-1] else -1
        ax.plot(lengths, height, "--", color=COLOUR[colour], lw=1.4)
        ax.annotate(name, (lengths[end], height[end]), (12, 0), textcoords="offset points", va="center")
    ax.plot(lengths, 1e9 * measured, "o", color=COLOUR["black"])
    lowest = 1e9 * min(np.min(measured), *map(np.max, alone.values()))
    ax.set(xscale="log", yscale="log", ylim=(lowest / 3, None))
    ax.set(xlabel="numbers in the array", ylabel="nanoseconds a number")
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


def chain(record, ways=None):
    """Milliseconds of a chain by some ways or all, forward and backward: the record of `benchmarks.ideas`."""
    ways = ways or [row["way"] for row in record["forward"]]
    fig, ax = subplots(size=(WIDTH, 0.55 * len(ways) + 1.2))
    looks = {"forward": ("blue", "", -0.19), "backward": ("orange", "//", 0.19)}
    for direction, (colour, hatch, shift) in looks.items():
        rows = [row for row in record[direction] if row["way"] in ways and row["seconds"]]
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


def stair(rows):
    """The time of a step as ideas are added one by one: rows [{"idea", "median", "low", "high"}]."""
    fig, ax = subplots(size=(WIDTH, 0.36 * len(rows) + 0.9))
    before = 0
    for place, row in enumerate(rows):
        low, high = sorted((before, row["median"]))
        colour = "grey" if place == 0 else "vermilion" if row["median"] > before else "blue"
        ax.barh(place, max(high - low, 0.004), left=low, color=COLOUR[colour], height=0.6)
        ax.plot([row["low"], row["high"]], [place, place], color=COLOUR["black"], lw=1, ls="-")
        ax.annotate(f"{row['median']:.2f}", (high, place), (6, 0), textcoords="offset points", va="center")
        before = row["median"]
    ax.set_yticks(range(len(rows)), [CHANGES[row["idea"]] for row in rows])
    ax.set(xlabel="time, readable = 1", xlim=(0, 1.08))
    ax.invert_yaxis()
    return fig


def race(sizes):
    """How many times as fast as eager PyTorch at its fastest each step is: a panel a size of `make bench`.

    The line is the interval that holds the median ratio with 95 %.
    """
    names = list(dict.fromkeys(name for part in sizes.values() for name in part["variants"]))
    fig, axes = subplots(1, len(sizes), (WIDTH, 0.3 * len(names) + 1), sharey=True, squeeze=False)
    for ax, (size, part) in zip(axes[0], sizes.items(), strict=True):
        ax.axvline(1, color=COLOUR["grey"], ls="--", lw=1)
        for name, row in part["variants"].items():
            y, theirs = names.index(name), "PyTorch" in name
            ax.plot([row["ratio_low"], row["ratio_high"]], [y, y], color=COLOUR["black"], ls="-", lw=1.2)
            colour = COLOUR["vermilion" if theirs else "blue"]
            ax.plot(row["ratio"], y, "s" if theirs else "o", color=colour, ms=7)
        ax.margins(x=0.1)
        ax.set(title=size, xlim=(0, None), xlabel="speed, eager = 1")
        ax.set_yticks(range(len(names)), names)
        ax.set_ylim(len(names) - 0.5, -0.5)
    return fig
