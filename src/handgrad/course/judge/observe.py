"""What can be said of a wrong result without knowing the mistake: its shape, its factor, where it is off."""

import itertools

import numpy as np

from .attempt import THE_LOSS, Failure, is_a_loss, listed, quoted
from .values import proportional

POWERS = {1: "{n}", -1: "1/{n}", 0.5: "√{n}", -0.5: "1/√{n}", 2: "{n}²", -2: "1/{n}²"}
UNKNOWN = "not by a mistake known here"
NUMBERS = {2: "twice", 0.5: "half of", 4: "four times", 0.25: "a quarter of", 3: "three times"}


def relative_error(given, expected, name):
    """max |given - expected| / max |expected|; the error itself where all expected numbers are 0.

    Infinite where there is nothing to compare, or a number is not finite.
    """
    if isinstance(given, Failure) or given.arrays[name].shape != expected.arrays[name].shape:
        return np.inf
    g, e = given.arrays[name].astype(float), expected.arrays[name]
    if not np.all(np.isfinite(g)):
        return np.inf
    return float(np.max(np.abs(g - e)) / (np.max(np.abs(e)) or 1.0))


def close(a, b, tolerance=1e-9):
    """Equal shapes, and equal numbers up to rounding; NaN equals NaN."""
    if a.shape != b.shape:
        return False
    finite = np.abs(b[np.isfinite(b)])
    scale = finite.max() if finite.size and finite.max() > 0 else 1.0
    return bool(np.allclose(a, b, rtol=0, atol=tolerance * scale, equal_nan=True))


def side_effect(given, names):
    """Names the arguments that the function changed in place."""
    changed = sorted({i for g in given if not isinstance(g, Failure) for i in g.changed})
    if not changed:
        return ""
    return (
        f"It changes its argument {listed([f'`{names[i]}`' for i in changed])} in place. The caller still "
        "needs it: write the result into a new array (`x = x - m`, not `x -= m`)."
    )


def wrong_precision(given):
    """Names the results that came back in less than double precision."""
    narrow = {
        name: str(array.dtype)
        for g in given
        if not isinstance(g, Failure)
        for name, array in g.arrays.items()
        if array.dtype in (np.float32, np.float16)
    }
    if not narrow:
        return ""
    return (
        f"{listed(list(narrow))}: the inputs are float64, the result is "
        f"{listed(sorted(set(narrow.values())))}. Some line converts to a narrower type; a check of "
        "gradients needs all the digits."
    )


def observe(name, pairs):
    """One general observation about a wrong output; pairs are (given, expected, case), the wrong cases
    only."""
    pairs = [(1.0 * given, 1.0 * expected, case) for given, expected, case in pairs]  # of Booleans too
    if reshaped := [pair for pair in pairs if pair[0].shape != pair[1].shape]:
        given, expected, case = reshaped[0]
        text = f"{name} has shape {given.shape}, expected {expected.shape}, in the case {quoted(case.name)}."
        if all(is_a_loss(g, [name]) for g, _, _ in reshaped):
            return f"{text} {THE_LOSS}"
        if all(g.size == e.size and close(g.reshape(e.shape), e) for g, e, _ in reshaped):
            ones = all(g.squeeze().shape == e.squeeze().shape for g, e, _ in reshaped)
            what = (
                "an axis of length 1 was kept or lost"
                if ones
                else "axes are merged, or not merged, otherwise"
            )
            return f"{text} The numbers are right: {what}."
        if all(g.ndim >= 2 and close(g.swapaxes(-1, -2), e) for g, e, _ in reshaped):
            return text + " It is the transpose of the right answer."
        more = all(g.ndim > e.ndim for g, e, _ in reshaped)
        if more and all(close(g.sum(tuple(range(g.ndim - e.ndim))), e) for g, e, _ in reshaped):
            return text + " Summed over the axes that stand before, it would be right."
        for axis, kind in itertools.product(range(expected.ndim), ("sum", "mean")):
            if all(e.ndim > axis and is_reduced(g, e, axis, kind) for g, e, _ in reshaped):
                return f"{text} It is the {kind} of the right answer over axis {axis}."
        return text
    for given, _, case in pairs:
        if not np.all(np.isfinite(given)):
            what = "NaN" if np.any(np.isnan(given)) else "infinite numbers"
            bad = int(np.sum(~np.isfinite(given)))
            return f"{name} contains {what} ({bad} of {given.size} numbers) in the case {quoted(case.name)}."
    if all(np.abs(given).max() <= 1e-14 * np.abs(expected).max() for given, expected, _ in pairs):
        rounding = ", up to rounding" if any(np.any(given) for given, _, _ in pairs) else ""
        return f"{name} is 0 everywhere{rounding}, and should not be."
    if words := constant_factor(pairs):
        return f"{name} is exactly {words}."
    square = [(g, e) for g, e, _ in pairs if g.ndim >= 2 and g.shape[-1] == g.shape[-2]]
    if len(square) == len(pairs) and all(close(g.swapaxes(-1, -2), e) for g, e in square):
        return f"{name} is the transpose of the right answer."
    worst = max(
        float(np.max(np.abs(g - e)) / np.max(np.abs(e))) if np.any(e) else np.inf for g, e, _ in pairs
    )
    if worst < 1e-4:
        return (
            f"{name} agrees to about {int(-np.log10(worst))} digits only. Was it computed in float32, by "
            "differences, or with another ε?"
        )
    given, expected, case = pairs[0]
    if words := confined(pairs):
        return f"{name} is wrong {words} only."
    place = np.unravel_index(np.argmax(np.abs(given - expected)), given.shape)
    wanted, got = told_apart(expected[place], given[place])
    return (
        f"{name} is wrong, and {UNKNOWN}. The largest difference in the case "
        f"{quoted(case.name)} is at index {tuple(map(int, place))}: expected {wanted}, got {got}."
    )


def confined(pairs):
    """Where alone it is wrong, in every case, in words: at one end of an axis; "" if nowhere."""
    axes = pairs[0][1].ndim
    for axis, (rest, end) in itertools.product(range(axes), ((slice(1, None), "0"), (slice(-1), "-1"))):
        good = (slice(None),) * axis + (rest,)
        if all(g.shape == e.shape and np.any(e[good]) and close(g[good], e[good]) for g, e, _ in pairs):
            name = ("row", "column")[axis] if axes == 2 else "entry" if axes == 1 else f"axis {axis}, at"
            return f"in {name} {end}"
    return ""


def is_reduced(given, expected, axis, kind):
    """Whether it is the sum or the mean over an axis, which may be kept."""
    reduced = getattr(expected, kind)(axis=axis)
    return given.size == reduced.size and close(given.reshape(reduced.shape), reduced)


def constant_factor(pairs):
    """The factor between given and expected, in words, if every wrong case is an exact multiple."""
    ratios = [proportional(expected, given) for given, expected, _ in pairs]
    return name_factor(ratios, [case.sizes for _, _, case in pairs]) if all(ratios) else None


def name_factor(ratios, sizes, tolerance=1e-7):
    """The factor that explains all `ratios` (given / expected, one per case), in words, or None.

    sizes: one dictionary per case, letter -> number. A letter explains the ratios only if it takes at
    least two values, or an odd one, so a letter and a plain number are never mistaken for each other. A
    factor that cannot be told from 1 is none.
    """

    def explained(values):
        return all(abs(r - v) <= tolerance * abs(v) for r, v in zip(ratios, values))

    count = len(ratios)
    if explained([1] * count):
        return None
    if explained([-1] * count):
        return "the right answer with the opposite sign"
    letters = [n for n in sizes[0] if all(n in s and s[n] > 0 for s in sizes)]
    letters = [n for n in letters if len({s[n] for s in sizes}) > 1 or sizes[0][n] % 0.5]
    for letter in letters:
        for power, name in POWERS.items():
            for sign, words in ((1, ""), (-1, "minus ")):
                if explained([sign * s[letter] ** power for s in sizes]):
                    return f"{words}{name.format(n=letter)} times the right answer"
    if explained([ratios[0]] * count):
        return f"{NUMBERS.get(round(ratios[0], 9), f'{shortest(ratios[0])} times')} the right answer"
    numbers = [s | {"2": 2, "3": 3} for s in sizes]
    for (one, a), (other, b) in itertools.product(itertools.product([*letters, "2", "3"], POWERS), repeat=2):
        for sign, words in ((1, ""), (-1, "minus ")) if one < other else ():
            if explained([sign * s[one] ** a * s[other] ** b for s in numbers]):
                both = f"{POWERS[a].format(n=one)} · {POWERS[b].format(n=other)}"
                return f"{words}{both} times the right answer"
    return None


def shortest(number, tolerance=1e-9):
    """The number as text, with as few digits as give it up to a relative error of `tolerance`."""
    texts = (f"{number:.{digits}g}" for digits in range(1, 18))
    return next(text for text in texts if abs(float(text) - number) <= tolerance * abs(number))


def told_apart(a, b):
    """Two numbers as text, with as many digits as it takes to tell them apart; no -0."""
    a, b = float(a) + 0.0, float(b) + 0.0
    for digits in range(6, 18):
        texts = f"{a:.{digits}g}", f"{b:.{digits}g}"
        if texts[0] != texts[1] or a == b:
            break
    return texts
