"""Recognise a forgotten factor: is one answer always the same multiple of the other?"""

POWERS = {
    1: "{n}",
    -1: "1/{n}",
    0.5: "√{n}",
    -0.5: "1/√{n}",
    2: "{n}²",
    -2: "1/{n}²",
}
NUMBERS = {2: "twice", 0.5: "half of", 4: "four times", 0.25: "a quarter of", 3: "three times"}


def name_factor(ratios, sizes, tolerance=1e-7):
    """The factor that explains all `ratios` (given / expected, one per case), in words, or None.

    sizes: one dictionary per case, letter -> number. A letter explains the ratios only if it takes at
    least two values, so a letter and a plain number are never mistaken for each other.
    """

    def explained(values):
        return all(abs(r - v) <= tolerance * abs(v) for r, v in zip(ratios, values))

    count = len(ratios)
    if explained([-1] * count):
        return "the right answer with the opposite sign"
    letters = [
        n for n in sizes[0] if all(n in s and s[n] > 0 for s in sizes) and len({s[n] for s in sizes}) > 1
    ]
    for letter in letters:
        for power, name in POWERS.items():
            for sign, words in ((1, ""), (-1, "minus ")):
                if explained([sign * s[letter] ** power for s in sizes]):
                    return f"{words}{name.format(n=letter)} times the right answer"
    if explained([ratios[0]] * count):
        return f"{NUMBERS.get(round(ratios[0], 9), f'{ratios[0]:.6g} times')} the right answer"
    return None
