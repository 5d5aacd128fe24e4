"""The figures of chapter 20 on whole training steps. Each draws a record that `make bench` wrote."""

import json
from pathlib import Path

from handgrad.course.figures import COLOUR, WIDTH, subplots


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
