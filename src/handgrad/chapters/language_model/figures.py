"""The figures of chapter 17. Each function draws what it is given; the notebook computes every number."""

from fractions import Fraction

import numpy as np

from handgrad.course.figures import COLOUR, LABEL, WIDTH, box, subplots

SHOWN = {" ": "␣", "\n": "↵"}


def shown(text):
    """The characters of a text, spaces and line breaks as signs."""
    return [SHOWN.get(character, character) for character in text]


def shift(text):
    """Two rows of cells: what each place reads, and what it is asked for."""
    rows = {"reads": shown(text[:-1]), "is asked for": shown(text[1:])}
    fig, ax = subplots(size=(WIDTH, 1.5))
    for y, (title, characters) in enumerate(rows.items()):
        ax.text(-0.3, -y, title, ha="right", va="center")
        for x, character in enumerate(characters):
            look = dict(high=0.72, family="monospace", fontsize=LABEL)
            box(ax, x + 0.5, -y, character, "orange" if y else "sky", **look)
            if y == 1:
                ax.text(x + 0.5, -1.75, str(x), ha="center", va="center", color=COLOUR["grey"], fontsize=9)
    ax.text(-0.3, -1.75, "place", ha="right", va="center", color=COLOUR["grey"], fontsize=9)
    ax.set(xlim=(-4.2, len(text) - 1), ylim=(-2.1, 0.5))
    ax.set_axis_off()
    return fig


def said(number):
    """A number as it is written by hand: ⅓ for 1/3, with a true minus."""
    known = {Fraction(1, 2): "½", Fraction(1, 3): "⅓"}
    number = Fraction(number).limit_denominator(12)
    return known.get(number, str(number).replace("-", "−"))


def averages(x, dh):
    """Places that average what was read up to them: x below, dh above, weight and share on each edge."""
    places = len(x)
    fig, ax = subplots(size=(WIDTH, 3.5))
    box = dict(boxstyle="round,pad=0.4", fc="white", ec=COLOUR["grey"])
    for t in range(places):
        mean, weight = Fraction(sum(x[: t + 1]), t + 1), Fraction(1, t + 1)
        for s in range(t + 1):
            ax.plot([s, t], [0, 1], color=COLOUR["sky"], lw=1.2, ls="-", zorder=1)
            where = 0.30 if t > s else 0.7
            across = s + where * (t - s)
            words = dict(ha="center", va="center", fontsize=LABEL - 2, zorder=2)
            words["bbox"] = dict(fc="white", ec="none", pad=0.6)
            ax.text(across, where + 0.035, said(weight), color=COLOUR["blue"], **words)
            ax.text(across, where - 0.085, said(weight * dh[t]), color=COLOUR["vermilion"], **words)
        look = dict(ha="center", va="center", fontsize=LABEL, bbox=box, zorder=3)
        ax.text(t, 1.0, f"h = {said(mean)}", **look)
        ax.text(t, 1.2, f"dh = {said(dh[t])}", ha="center", color=COLOUR["vermilion"], fontsize=LABEL)
        ax.text(t, 0.0, f"x = {said(x[t])}", **look)
        dx = sum(Fraction(dh[later], later + 1) for later in range(t, places))
        ax.text(t, -0.26, f"dx = {said(dx)}", ha="center", color=COLOUR["vermilion"], fontsize=LABEL)
    ax.set(xlim=(-0.4, places - 0.6), ylim=(-0.35, 1.32))
    ax.set_axis_off()
    return fig


def push(ax, place, text, norms, bits):
    """Bars: how hard the cost at one place pushes on the row of each. norms {place: (T,)}, bits (T,)."""
    sizes, T = norms[place], len(norms[place])
    colours = np.where(np.arange(T) <= place, COLOUR["vermilion"], COLOUR["grey"])
    ax.bar(np.arange(T), sizes, 0.8, color=colours)
    ax.axvspan(place - 0.5, place + 0.5, color="#DCEBF5", zorder=0)
    highest = max(norm.max() for norm in norms.values())
    ax.set(ylim=(0, 1.25 * highest), xlim=(-0.7, T - 0.3), ylabel="length of ∂ℓ/∂x")
    asked = shown(text[place + 1])[0]
    side = "left" if place < T / 2 else "right"
    ax.text(place, 1.13 * highest, f"asked for {asked}: {bits[place]:.1f} bits", ha=side, fontsize=10)
    ax.set_xticks(np.arange(T), shown(text[:T]), family="monospace", fontsize=10)
    ax.tick_params(length=0)


def push_in_words(place, text, norms, bits):
    """What `push` shows."""
    sizes = norms[place]
    far = [int(s) for s in np.argsort(-sizes[: place + 1])[:3]]
    names = ", ".join(f"{shown(text[s])[0]} at {s}" for s in far)
    later = "no place follows" if place + 1 == len(sizes) else "every later place gets exactly 0"
    cost = f"{shown(text[place + 1])[0]}, which costs {bits[place]:.1f} bits"
    return f"Place {place} is asked for {cost}; the largest pushes are on {names}; {later}."


def samples(after, updates):
    """What a model writes after some updates, and its bits. after: {update: {bits, sample}}"""
    fig, ax = subplots(size=(WIDTH, 0.9 * len(updates)))
    for row, update in enumerate(updates):
        bits, text = after[update]["examined, stride 128"], "".join(shown(after[update]["sample"]))
        lines = [text[at : at + 62] for at in range(0, len(text), 62)]
        ax.text(0, -row, f"{bits:.1f} bits", va="center", color=COLOUR["vermilion"], fontsize=LABEL)
        ax.text(0, -row - 0.32, f"{int(update):,} updates", va="center", color=COLOUR["grey"], fontsize=9)
        ax.text(1, -row, "\n".join(lines), va="center", family="monospace", fontsize=8.5)
    ax.set(xlim=(0, 6), ylim=(0.5 - len(updates), 0.5))
    ax.set_axis_off()
    return fig


def scaling(curves, characters, level):
    """Bits over the characters seen. curves: {parameters: {update: bits}}, level: (name, bits)."""
    fig, ax = subplots()
    look = zip(("green", "blue", "vermilion"), "os^")
    for (parameters, curve), (colour, mark) in zip(curves.items(), look):
        seen = np.array([*curve]) * characters
        ax.plot(seen, [*curve.values()], marker=mark, ms=4, ls="-", color=COLOUR[colour])
        words = dict(color=COLOUR[colour], va="center", fontsize=10)
        ax.text(seen[-1] * 1.08, [*curve.values()][-1], f"{parameters / 1e6:.2f} million", **words)
    ax.axhline(level[1], color=COLOUR["black"], lw=1, ls=":")
    ax.text(seen[0], level[1] + 0.03, level[0], fontsize=9)
    ax.set_xscale("log", base=2)
    ax.set_xticks(seen, [f"{n / 1e6:.1f}" for n in seen])
    ax.set(xlim=(None, 2.2 * seen[-1]), ylim=(level[1] - 0.15, None))
    ax.set(xlabel="million characters seen", ylabel="bits per character")
    return fig
