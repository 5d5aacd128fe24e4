"""From the times of a race to what is said about it."""

import numpy as np

from .variants import EAGER

BARS = (
    ("NumPy", "M S", "ratio", 1.10),
    ("torch", "S", "ratio", 1.20),
    ("torch", "M", "ratio", 1.05),
    ("NumPy", "S M G", "memory", 0.80),
    ("torch", "S M G", "memory", 0.80),
)
"""What is wanted of a library's fused step, at which sizes: to eager, `ratio` at least, `memory` at most."""


def quartiles(values):
    """The middle of the values, and the middle of each half."""
    median, low, high = np.percentile(values, [50, 25, 75])
    return {"median": float(median), "low": float(low), "high": float(high)}


def summary(taken):
    """From [(seconds, parts), ...]: the times, their quartiles, and the median of each part if there are."""
    times, parts = zip(*taken)
    row = {"times": [round(t, 7) for t in times]}
    if parts[0]:
        row["parts"] = {part: float(np.median([p[part] for p in parts])) for part in parts[0]}
    return row | quartiles(row["times"])


def judge(record):
    """Add to the record of one size what follows from its times: medians, ratios, shares, losses."""
    rows, eager = record["variants"], record["variants"][EAGER]
    for row in rows.values():
        rounds = quartiles(np.divide(eager["times"], row["times"]))  # a slow moment has hit both
        row |= {"ratio": rounds["median"], "ratio_low": rounds["low"], "ratio_high": rounds["high"]}
        row["tokens_per_second"] = record["tokens"] / row["median"]
        row["of_limit"] = record["limits"][row["limit"]]["median"] / row["median"]
    for row in record["stages"].values():
        products = record["limits"][row["limit"]]["parts"]
        alone = {"attention": products["scores and sums"]}
        alone["linear layers"] = sum(products.values()) - products["scores and sums"]
        lost = {stage: seconds - alone.get(stage, 0) for stage, seconds in row["parts"].items()}
        row["lost"] = dict(sorted(lost.items(), key=lambda item: -item[1]))
    return record


def exponent(sizes, amounts):
    """The p of the power law amount = c · sizeᵖ that fits best, in logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(amounts), 1)[0])


def met(record):
    """Each bar at each size: (what, wanted, got, whether it is met)."""
    for library, sizes, what, wanted in BARS:
        for size in filter(record["sizes"].get, sizes.split()):
            rows = record["sizes"][size]["variants"]
            fused = [row for name, row in rows.items() if name.startswith(f"{library}, fused")]
            if not fused:
                continue
            best, title = min(fused, key=lambda row: row["median"]), f"{library}, fused, at {size}: {what}"
            if what == "ratio":
                yield f"{title} to eager", f"≥ {wanted:.2f}", f"{best['ratio']:.2f}", best["ratio"] >= wanted
                continue
            eager = [s["memory"] for s in record["sizes"][size]["settings"] if s["variant"] == EAGER]
            if best["memory"] is None:
                continue
            share = best["memory"] / min(eager)
            yield f"{title} of eager's", f"≤ {wanted:.2f}", f"{share:.2f}", share <= wanted


def table(head, rows):
    """A table in Markdown; the first column is text, the others are numbers."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines) + "\n"


def spread(row, prefix="", scale=1, digits=1):
    low, high = row[f"{prefix}low"], row[f"{prefix}high"]
    return f"{scale * low:.{digits}f}–{scale * high:.{digits}f}"


def section(name, record):
    """One size in Markdown."""
    size = ", ".join(f"{letter} {number}" for letter, number in record["size"].items())
    rounds = len(record["variants"][EAGER]["times"])
    text = [f"## {name} on {record['device']}: {size}\n"]
    text += [
        f"{record['tokens']} tokens, {record['flops'] / 1e9:.1f} GFLOP a step,"
        f" {record['flops_causal'] / 1e9:.1f} without the pairs that the mask hides; {rounds} rounds.\n"
    ]
    head = ["variant", "setting", "ms", "quartiles", "× eager", "quartiles", "tokens/s", "GFLOP/s"]
    rows = [
        [
            *(variant, row["setting"], f"{1e3 * row['median']:.1f}", spread(row, scale=1e3)),
            *(f"{row['ratio']:.2f}", spread(row, "ratio_", digits=2), f"{row['tokens_per_second']:.0f}"),
            f"{record['flops_causal'] / row['median'] / 1e9:.0f}",
            f"{row['of_limit']:.0%}",
            "—" if row["memory"] is None else f"{row['memory'] / 2**20:.0f}",
        ]
        for variant, row in record["variants"].items()
    ]
    text += [table([*head, "of the limit", "extra MiB"], rows)]
    text += [f"Absent: {variant}: {why}.\n" for variant, why in record["absent"].items()]
    for variant, row in record["stages"].items():
        three = [f"{stage} {1e3 * lost:.1f} ms" for stage, lost in list(row["lost"].items())[:3]]
        text += [f"Lost by {variant}, {row['setting']}, beside its products: {', '.join(three)}.\n"]
    swept = [[s["variant"], s["setting"], f"{1e3 * s['median']:.1f}"] for s in record["settings"]]
    return "\n".join([*text, "Settings tried:\n", table(["variant", "setting", "ms"], swept)])


def markdown(record):
    """The whole record in Markdown."""
    machine = "; ".join(f"{name} {value}" for name, value in record["machine"].items())
    text = ["# How fast a training step is\n", f"{machine}.\n"]
    text += [
        "Setting: workers × threads; kept: the allocator keeps memory. × eager: eager's time over this"
        " one in the same round, the median of all rounds. Limit: the matrix products of a step alone, in the"
        " same library and setting. Extra: at the peak, beside parameters, moments and batch.\n"
    ]
    text += [section(name, part) for name, part in record["sizes"].items()]
    text += [
        "## Wanted and got\n",
        table(
            ["", "wanted", "got", "met"],
            [[what, wanted, got, "yes" if met else "no"] for what, wanted, got, met in met(record)],
        ),
    ]
    for letter, part in record["growth"].items():
        head = [f"ms at {letter} =", *part["values"], "exponent"]
        rows = [
            [name, *(f"{1e3 * seconds:.1f}" for seconds in times), f"{part['exponents'][name]:.2f}"]
            for name, times in part["times"].items()
        ]
        operations = [f"{flops / 1e9:.2f}" for flops in part["flops"]]
        rows += [["GFLOP", *operations, f"{part['exponents']['operations']:.2f}"]]
        text += [f"## Growth with {letter}\n", table(head, rows)]
    return "\n".join(text)
