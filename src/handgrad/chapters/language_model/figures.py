"""The figures of chapter 17. Each function draws what it is given; the notebook computes every number."""

from fractions import Fraction

import numpy as np
from matplotlib.patches import FancyBboxPatch

from handgrad.course.figures import COLOUR, LABEL, WIDTH, backward_graph, losses, subplots

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
            colour = "#DCEBF5" if y == 0 else "#FBEBCC"
            frame = dict(boxstyle="round,pad=0,rounding_size=0.1", fc=colour, lw=0)
            ax.add_patch(FancyBboxPatch((x + 0.06, -y - 0.36), 0.88, 0.72, **frame))
            ax.text(x + 0.5, -y, character, ha="center", va="center", family="monospace", fontsize=LABEL)
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


def graph():
    """The graph of a language model with its gradients: one table at two places."""
    nodes = {"E": (0, 0), "blocks, norm": (1.3, 1), "head": (2.6, 0), "L": (3.9, 0)}
    edges = [
        ("E", "blocks, norm", "x", "(B,T,D)", "dx"),
        ("blocks, norm", "head", "h", "(B,T,D)", "dh"),
        ("E", "head", "E", "(V,D)", "dE"),
        ("head", "L", "z", "(B,T,V)", "dz"),
    ]
    return backward_graph(nodes, edges, height=3.6)


def race(ours, theirs, tolerance):
    """Left: two loss curves on top of each other. Right: their relative difference, with the tolerance."""
    fig, (left, right) = subplots(1, 2)
    losses({"by hand": ours}, dots={"PyTorch": theirs}, low=None, ax=left, unit="nats")
    difference = np.maximum(np.abs(ours / theirs - 1), 1e-17)
    right.semilogy(np.arange(1, len(ours) + 1), difference, "o", ms=4, color=COLOUR["blue"])
    right.axhline(tolerance, color=COLOUR["grey"], ls="--", lw=1)
    right.text(1, tolerance * 1.6, "tolerance", va="bottom", color=COLOUR["grey"])
    right.set(title="relative difference", xlabel="update", ylim=(5e-18, tolerance * 50))
    return fig


def by_context(bits, context, level, edges=(1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 129)):
    """Mean bits of the characters predicted from 1, 2, … characters, beside a level (name, bits)."""
    fig, ax = subplots()
    edges = np.array(edges)
    means = [bits[(context >= low) & (context < high)].mean() for low, high in zip(edges, edges[1:])]
    ax.plot(edges[:-1], means, marker="o", ms=4, color=COLOUR["blue"])
    name, height = level
    ax.axhline(height, color=COLOUR["black"], lw=1, ls=":")
    ax.text(1, height - 0.04, name, va="top", fontsize=9)
    ax.set_xscale("log", base=2)
    ax.set_xticks([1, 2, 4, 8, 16, 32, 64, 128], ["1", "2", "4", "8", "16", "32", "64", "128"])
    ax.set(xlabel="characters it was predicted from", ylabel="bits per character", ylim=(0, None))
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


def speed(lengths, measured, counted):
    """How many times faster text is written with keys and values kept: measured, and by multiply-adds."""
    fig, ax = subplots(size=(WIDTH, 2.9))
    ax.loglog(lengths, counted, color=COLOUR["grey"], ls="--", marker="s", ms=4, label="multiply-adds saved")
    ax.loglog(lengths, measured, color=COLOUR["blue"], ls="-", marker="o", ms=5, label="measured")
    ax.axhline(1, color=COLOUR["black"], lw=0.8, ls=":")
    ax.set_xticks(lengths, [str(length) for length in lengths], minor=False)
    ax.set_xticks([], minor=True)
    ax.set_yticks([1, 3, 10, 30, 100], ["1", "3", "10", "30", "100"])
    ax.set_yticks([], minor=True)
    ax.set(xlabel="characters written", ylabel="times faster")
    ax.legend(loc="upper left")
    return fig
