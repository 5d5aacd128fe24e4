"""What chapter 20 reads from the records in benchmarks/results. Nothing here is asserted about a time."""

import json
from pathlib import Path

import numpy as np
from scipy.optimize import nnls

COSTS = "calls", "bytes", "operations"
KINDS = {"multiply": "element-wise", "product": "product", "matrix": "matrix × vector"}
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


def points(record):
    """{kind: [(operations a byte, operations a second)]} of the calls and of attention on record."""
    found = {}
    for row in record["calls"]:
        found.setdefault(KINDS[row["name"].split()[0]], []).append(place(row))
    for row in record["tiles"]:
        found.setdefault(f"attention, {row['way']}", []).append(place(row))
    return found


def place(row):
    return row["operations"] / row["bytes"], row["operations"] / row["seconds"]


def spread(row):
    """A median, and the middle half."""
    return f"{row['median']:.2f} ({row['low']:.2f} to {row['high']:.2f})"


def column(record, name, causal=False):
    """{way: {T: value}} of the record of memory."""
    table = {}
    for row in record["rows"]:
        if row["causal"] == causal:
            table.setdefault(row["way"], {})[row["T"]] = row[name]
    return table


def over_plain(record, causal):
    """{way: {T: seconds over those of plain attention}}."""
    took = column(record, "seconds", causal)
    return {way: {T: t / took["plain"][T] for T, t in rows.items()} for way, rows in took.items()}


def race_lines(record):
    """The record of `make bench`, a line for each step of each size."""
    for size, part in record["sizes"].items():
        for variant, row in part["variants"].items():
            ratio = {key: row[f"ratio{end}"] for key, end in ENDS.items()}
            held = "" if row["memory"] is None else f"{row['memory'] / 2**20:5.0f} MiB"
            yield f"{size} {variant:26} {spread(ratio)}  {1 / row['of_limit']:.2f} × the limit {held}"


def alone_lines(record):
    """One worker with one thread beside eager with one thread, a line for each size."""
    for size, part in record["sizes"].items():
        ratio = {key: part["alone"]["by hand"][f"ratio{end}"] for key, end in ENDS.items()}
        faster = min(part["products"], key=part["products"].get)
        yield f"{size} one thread each {spread(ratio)}; the faster products are those of {faster}"


def move_lines(record):
    """What went through the calls of attention, a line for each length and way."""
    for row in record["tiles"]:
        rate = row["bytes"] / row["seconds"] / 1e9
        text = f"T = {row['T']:4} {row['way']:6} {row['calls']:6} calls {row['bytes'] / 1e6:6.0f} MB"
        yield f"{text} {rate:5.1f} GB/s {1e3 * row['seconds']:6.1f} ms"


def price_lines(record, each, T):
    """What attention would take at T by three prices, as those of `prices`, and took: a line for each way.

    With first touch, if it is on record: each byte of a large fresh result at what a fresh array costs more.
    """
    touch = record.get("touch")
    for row in record["tiles"]:
        if row["T"] == T:
            priced = np.dot([row[cost] for cost in COSTS], each)
            text = f"T = {T:4} {row['way']:6} at the three prices {1e3 * priced:.0f} ms"
            if touch:
                priced += row["fresh"] * (touch["fresh"] - touch["at hand"]) / touch["bytes"]
                text += f", with first touch {1e3 * priced:.0f} ms"
            yield f"{text}; measured {1e3 * row['seconds']:.0f} ms"


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


def growth_lines(record):
    """The sizes of the models of `make bench`, and how our step and eager's grow with T and with D."""
    for size, part in record["sizes"].items():
        yield f"{size}: " + ", ".join(f"{letter} = {n}" for letter, n in part["size"].items())
    for letter, growth in record["growth"].items():
        yield f"{letter} = {', '.join(map(str, growth['values']))}:"
        for variant, times in growth["times"].items():
            power = growth["exponents"][variant]
            took = ", ".join(f"{1e3 * t:.1f}" for t in times)
            yield f"{variant:14} {took} ms, {letter} to the power {power:.2f}"
