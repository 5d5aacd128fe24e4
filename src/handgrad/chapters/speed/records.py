"""What chapter 20 reads from the records in benchmarks/results. Nothing here is asserted about a time."""

import json
from pathlib import Path

ENDS = {"median": "", "low": "_low", "high": "_high"}


def read(path):
    """The record in a file. Raises FileNotFoundError if there is none."""
    return json.loads(Path(path).read_text(encoding="utf-8"))


def spread(row):
    """A median, and the middle half."""
    return f"{row['median']:.2f} ({row['low']:.2f} to {row['high']:.2f})"


def race_lines(record):
    """The record of `make bench`, a line for each step of each size."""
    for size, part in record["sizes"].items():
        for variant, row in part["variants"].items():
            ratio = {key: row[f"ratio{end}"] for key, end in ENDS.items()}
            held = "" if row["memory"] is None else f"{row['memory'] / 2**20:5.0f} MiB"
            yield f"{size} {variant:26} {spread(ratio)}  {1 / row['of_limit']:.2f} × the limit {held}"


def verdicts(alone):
    """What the middle half of the rounds says of each idea that was taken out alone: three lines."""
    sides = {"above 1, so it helps": [], "around 1, which decides nothing": [], "below 1, so it harms": []}
    helps, open_, harms = sides.values()
    for idea, row in alone.items():
        (helps if row["low"] > 1 else harms if row["high"] < 1 else open_).append(idea)
    for side, found in sides.items():
        yield f"its line lies {side}: {', '.join(found) or 'none'}"
