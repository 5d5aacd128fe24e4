"""From the times of a race to what is said about it."""

import numpy as np

from .variants import EAGER, EAGER_HALVES, HAND

RATIO = {"S": 1.20, "M": 1.10, "G": 1.00}
WHERE_NUMPY_IS_FASTER = 0.05
ALONE_RATIO = 1.10
LIMIT = {"S": 1.25, "M": 1.10, "G": 1.10}
MEMORY = 0.80
"""What is wanted of our step at its fastest: eager's time over ours, at least, and more where NumPy has the
faster products; the same with one thread each; our time over that of our products, at most; and our extra
memory over that of the leanest setting of eager, at most."""
DRAWS = 2000  # of as many rounds as there are, for an interval


def quartiles(values):
    """The middle of the values, and the middle of each half."""
    median, low, high = np.percentile(values, [50, 25, 75])
    return {"median": float(median), "low": float(low), "high": float(high)}


def interval(values, draws=DRAWS, seed=0):
    """The ends of the interval that holds the median of the values with 95 %, by the bootstrap.

    As many values are drawn from them again and again, and each drawing has a median.
    """
    drawn = np.random.default_rng(seed).choice(values, (draws, len(values)))
    low, high = np.percentile(np.median(drawn, axis=1), [2.5, 97.5])
    return float(low), float(high)


def ratio(times, own):
    """Times over our own of the same rounds, which a slow moment hits alike: the median, its interval."""
    rounds = np.divide(times, own)
    low, high = interval(rounds)
    return {"ratio": float(np.median(rounds)), "ratio_low": low, "ratio_high": high}


def fastest(rows):
    """The row with the least median."""
    return min(rows, key=lambda row: row["median"])


def eager_of(rows):
    """The rows of eager PyTorch, with one worker or two."""
    return [row for name, row in rows.items() if name in (EAGER, EAGER_HALVES)]


def ours_of(rows):
    """The rows of our step, in all variants."""
    return [row for name, row in rows.items() if name.startswith(HAND)]


def alone(rows):
    """From {variant: rows with one worker and one thread}: the fastest of each, and its ratio to eager's."""
    best = {name: fastest(own) for name, own in rows.items()}
    if EAGER not in best:
        return {}
    return {
        name: {key: row[key] for key in ("setting", "median", "low", "high")}
        | ratio(best[EAGER]["times"], row["times"])
        for name, row in best.items()
    }


def summary(taken):
    """From [(seconds, parts), ...]: the times, their quartiles, and the median of each part if there are."""
    times, parts = zip(*taken)
    row = {"times": [round(t, 7) for t in times]}
    if parts[0]:
        row["parts"] = {part: float(np.median([p[part] for p in parts])) for part in parts[0]}
    return row | quartiles(row["times"])


def judge(record):
    """Add to the record of one size what follows from its times: medians, ratios, shares, losses."""
    rows, eager = record["variants"], fastest(eager_of(record["variants"]))
    for row in rows.values():
        row |= ratio(eager["times"], row["times"])
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


def faster_product(part):
    """The library with the faster products at a size, or None where they were not measured."""
    return min(part["products"], key=part["products"].get) if part["products"] else None


def met(record):
    """Each bar at each size: (what, wanted, got, whether it is met)."""
    for size in filter(record["sizes"].get, RATIO):
        part = record["sizes"][size]
        ours = ours_of(part["variants"])
        if not ours:
            continue
        best, wanted = fastest(ours), RATIO[size]
        if faster_product(part) == "numpy":
            wanted += WHERE_NUMPY_IS_FASTER
        yield at_least(f"{size}: eager's time over ours", wanted, best["ratio"])
        lone = [row for name, row in part["alone"].items() if name != EAGER]
        if lone:
            yield at_least(f"{size}: the same, one thread each", ALONE_RATIO, fastest(lone)["ratio"])
        yield at_most(f"{size}: our time over its products'", LIMIT[size], 1 / best["of_limit"])
        held = [
            s["memory"]
            for s in part["settings"]
            if s["variant"] in (EAGER, EAGER_HALVES) and s["memory"] is not None
        ]
        if best["memory"] is not None and held:
            yield at_most(f"{size}: our extra memory over eager's least", MEMORY, best["memory"] / min(held))


def at_least(what, wanted, got):
    return what, f"≥ {wanted:.2f}", f"{got:.2f}", got >= wanted


def at_most(what, wanted, got):
    return what, f"≤ {wanted:.2f}", f"{got:.2f}", got <= wanted


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
    head = ["variant", "setting", "ms", "quartiles", "× eager", "95 %", "tokens/s", "GFLOP/s"]
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
    if record["alone"]:
        lines = [
            [
                *(variant, row["setting"], f"{1e3 * row['median']:.1f}", spread(row, scale=1e3)),
                *(f"{row['ratio']:.2f}", spread(row, "ratio_", digits=2)),
            ]
            for variant, row in record["alone"].items()
        ]
        text += ["One worker, one thread each:\n", table([*head[:6]], lines)]
    if record["products"]:
        faster, times = faster_product(record), record["products"]
        each = ", ".join(f"{library} {1e3 * seconds:.1f} ms" for library, seconds in times.items())
        text += [f"The products alone, one thread: {each}. The faster: {faster}.\n"]
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
        "Setting: workers × threads; kept: the allocator keeps memory. × eager: eager's time (its fastest"
        " setting, with one worker or two) over this one in the same round, the median of all rounds. 95 %:"
        f" the interval that holds this median, by the bootstrap ({DRAWS} drawings of the rounds). Limit: the"
        " matrix products of a step alone, in the same library and setting."
        " Extra: at the peak, beside parameters, moments and batch.\n"
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
        rows += [[f"setting, {name}", *settings, ""] for name, settings in part["settings"].items()]
        operations = [f"{flops / 1e9:.2f}" for flops in part["flops"]]
        rows += [["GFLOP", *operations, f"{part['exponents']['operations']:.2f}"]]
        text += [f"## Growth with {letter}\n", table(head, rows)]
    return "\n".join(text)
