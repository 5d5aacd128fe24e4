"""The figures of chapter 19 on whole training steps. Each draws a record that `make bench` wrote."""

import json
from pathlib import Path

import numpy as np

from handgrad.course.figures import COLOUR, DASHES, LINES, MARKS, WIDTH, subplots

BARS = ("grey", "blue", "orange", "green", "vermilion", "sky", "purple")
HATCHES = ("", "//", "", "..", "\\\\", "", "xx")


def read(path):
    """The record in a file that `make bench` wrote.

    Raises FileNotFoundError if there is none, ValueError if it is no such record.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"path: expected a record of `make bench`, got {path}, which is no file")
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(f"path: expected a record of `make bench`, got {path}: {error}") from None
    keys = record.keys() if isinstance(record, dict) else ()
    missing = sorted({"machine", "sizes", "growth"} - set(keys))
    if missing:
        raise ValueError(f"path: expected a record of `make bench`, got {path} without {', '.join(missing)}")
    return record


def race(record, sizes=None):
    """How many times as fast as eager PyTorch at its fastest each variant is, one panel a size.

    The line is the interval that holds the median ratio with 95 %. sizes: names of those to draw; None: all.
    """
    sizes = {name: record["sizes"][name]["variants"] for name in sizes or record["sizes"]}
    names = list(dict.fromkeys(name for rows in sizes.values() for name in rows))
    fig, axes = subplots(1, len(sizes), (WIDTH, 0.3 * len(names) + 1), sharey=True, squeeze=False)
    for ax, (size, rows) in zip(axes[0], sizes.items(), strict=True):
        ax.axvline(1, color=COLOUR["grey"], ls="--", lw=1)
        for name, row in rows.items():
            y, ours = names.index(name), "PyTorch" not in name
            ax.plot([row["ratio_low"], row["ratio_high"]], [y, y], color=COLOUR["black"], ls="-", lw=1.2)
            ax.plot(
                row["ratio"], y, "o" if ours else "s", color=COLOUR["blue" if ours else "vermilion"], ms=7
            )
        ax.margins(x=0.1)
        ax.set(title=size, xlim=(0, None), xlabel="speed, eager = 1")
    axes[0, 0].set_yticks(range(len(names)), names)
    axes[0, 0].set_ylim(len(names) - 0.5, -0.5)
    return fig


def stages(record, name, most=5):
    """Where the step of a variant (a key of the record's "stages") spends its time, a bar for each size: its
    matrix products alone, then what it spends beside them, the `most` costly stages by name."""
    shown = {size: part for size, part in record["sizes"].items() if name in part["stages"]}
    fig, ax = subplots(size=(WIDTH, 0.55 * len(shown) + 1.7))
    shares = {}  # size -> stage -> share of the step
    for size, part in shown.items():
        row = part["stages"][name]
        products = {"matrix products": sum(part["limits"][row["limit"]]["parts"].values())}
        step = sum(row["parts"].values())
        shares[size] = {stage: seconds / step for stage, seconds in (products | row["lost"]).items()}
    order = sorted(row["lost"], key=lambda stage: -sum(share[stage] for share in shares.values()))
    groups = {stage: [stage] for stage in ("matrix products", *order[:most])} | {"others": order[most:]}
    left = np.zeros(len(shown))
    for n, (label, members) in enumerate(groups.items()):
        widths = np.array([max(0, sum(share[stage] for stage in members)) for share in shares.values()])
        look = dict(color=COLOUR[BARS[n % len(BARS)]], hatch=HATCHES[n % len(HATCHES)], edgecolor="white")
        ax.barh(range(len(shown)), widths, left=left, label=label, **look)
        left += widths
    ax.set_yticks(range(len(shown)), shown)
    ax.set(xlabel="share of the step", xlim=(0, None))
    ax.invert_yaxis()
    ax.legend(ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return fig


def growth(record):
    """Milliseconds of a step while the length T, or the width D, grows; dotted: the number of operations."""
    fig, axes = subplots(1, len(record["growth"]), (WIDTH, 3.6), sharey=True, squeeze=False)
    for ax, (letter, part) in zip(axes[0], record["growth"].items(), strict=True):
        x = part["values"]
        for n, (name, seconds) in enumerate(part["times"].items()):
            label = f"{name}: {letter}$^{{{part['exponents'][name]:.2f}}}$"
            style = dict(color=COLOUR[LINES[n]], ls=DASHES[n], marker=MARKS[n], label=label)
            ax.loglog(x, 1e3 * np.array(seconds), **style)
        guide = np.array(part["flops"]) / part["flops"][-1] * 1e3 * min(s[-1] for s in part["times"].values())
        label = f"operations: {letter}$^{{{part['exponents']['operations']:.2f}}}$"
        ax.loglog(x, guide, color=COLOUR["grey"], lw=1, ls=":", label=label)
        ax.set_xticks(x, map(str, x))
        ax.minorticks_off()
        ax.set(xlabel=letter)
        ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), fontsize=8)
    axes[0, 0].set_ylabel("milliseconds for a step")
    return fig
