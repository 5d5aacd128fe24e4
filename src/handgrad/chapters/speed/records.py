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
