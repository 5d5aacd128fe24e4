"""What chapter 20 reads from the records in benchmarks/results. Nothing here is asserted about a time."""

import json
from pathlib import Path

import numpy as np
from scipy.optimize import nnls

COSTS = "calls", "bytes", "operations"
KINDS = {"multiply": "entry by entry", "product": "product", "matrix": "matrix × vector"}
ENDS = {"median": "", "low": "_low", "high": "_high"}
NEAR, FAR = 2e6, 2e7  # bytes: below, arrays stay in the cache of most processors; above, they do not


def read(path):
    """The record in a file. Raises FileNotFoundError if there is none."""
    return json.loads(Path(path).read_text(encoding="utf-8"))


def prices(calls):
    """c, 1/w and 1/r: seconds for a call, a byte and an operation, by least relative errors.

    calls: [{"calls", "bytes", "operations", "seconds"}], of which those count that stay in the cache.
    """
    near = [row for row in calls if row["bytes"] < NEAR]
    table = np.array([[row[cost] / row["seconds"] for cost in COSTS] for row in near])
    return nnls(table, np.ones(len(table)))[0]


def rates(calls):
    """Operations a second, and bytes a second from cache and memory: the best of the calls on record."""
    near, far = ([row for row in calls if (row["bytes"] < NEAR) == side] for side in (True, False))
    far = [row for row in far if row["bytes"] > FAR]
    return {
        "operations": max(row["operations"] / row["seconds"] for row in near),
        "cache": max(row["bytes"] / row["seconds"] for row in near),
        "memory": max(row["bytes"] / row["seconds"] for row in far),
    }


def points(calls):
    """{kind: [(operations a byte, operations a second)]} of the calls on record."""
    found = {}
    for row in calls:
        place = row["operations"] / row["bytes"], row["operations"] / row["seconds"]
        found.setdefault(KINDS[row["name"].split()[0]], []).append(place)
    return found


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


def chain_lines(record):
    """How fast the loop of the chain moves its bytes, beside the best rates of calls: a line for each way."""
    for direction in ("forward", "backward"):
        (row,) = (row for row in record["chain"][direction] if row["way"] == "loop")
        yield f"the loop, {direction}: {row['bytes'] / row['seconds'] / 1e9:.0f} GB/s"
    best = rates(record["calls"])
    yield f"best of a call: {best['memory'] / 1e9:.0f} GB/s from memory, {best['cache'] / 1e9:.0f} from cache"
