"""The figures of chapter 21."""

import numpy as np

from ...course.figures import COLOUR, DIVERGING, WIDTH, backward_graph, subplots


def integers():
    """E2 by hand: two tokens of width 1, in columns, values forward and gradients back."""
    # a matrix is written column by column
    a = r"$\mathcal{A}$"
    nodes = {"q": (0, 1), "k": (0, 0), "c": (1.8, 0.5), a: (3.6, 0.5), "z": (5.6, 0.5), "L": (7, 0.5)}
    edges = [
        ("q", "c", "(1, 0)", "", "(3, −3) ln 3"),
        ("k", "c", "(1, −1) ln 3", "", "(−3, −6)"),
        ("c", a, "", "", "−3 3 | −6 6"),
        (a, "z", "¾ ¼ | ¼ ¾", "", "0 16 | 0 32"),
        ("z", "L", "(2, 6)", "", "(2, 4)"),
    ]
    return backward_graph(nodes, edges, height=3.6)


def answer(axes, printed, measured):
    """Three heat maps: a gradient as printed, as measured, and their difference, in one scale."""
    limit = max(np.abs(printed).max(), np.abs(measured).max())
    titles = ("as printed", "by differences", "printed − true")
    for ax, values, title in zip(axes, (printed, measured, printed - measured), titles, strict=True):
        image = ax.imshow(values, cmap=DIVERGING, vmin=-limit, vmax=limit, aspect="auto")
        ax.set(title=title, xticks=range(values.shape[1]), yticks=range(values.shape[0]))
        ax.tick_params(length=0)
    axes[0].figure.colorbar(image, ax=list(axes), shrink=0.8, aspect=20)


def reports(found):
    """What is reported, in units of the entropy, for several chains: {seed: (numbers, entropy)}."""
    names = [name for name in next(iter(found.values()))[0] if name not in ("targets", "kept", "batches")]
    fig, ax = subplots(size=(WIDTH, 3.2))
    for mark, (numbers, level) in zip("osD", found.values(), strict=True):
        shown = [numbers[name][0] / level for name in names]
        ax.plot(shown, range(len(names)), mark, ms=7, alpha=0.8, color=COLOUR["blue"])
    ax.axvline(1, color=COLOUR["vermilion"], ls="--", lw=1.5)
    ax.text(1.03, -0.75, "entropy", color=COLOUR["vermilion"], va="center")
    ax.set_yticks(range(len(names)), names)
    ax.set(xscale="log", xlabel="reported, in entropies of the chain", ylim=(len(names) - 0.5, -1.2))
    ax.set_xticks([0.05, 0.1, 0.2, 0.5, 1, 2, 5], ["0.05", "0.1", "0.2", "0.5", "1", "2", "5"])
    ax.minorticks_off()
    return fig


def matrix(found, checks, tolerance):
    """Errata by checks, {erratum: {check: (printed, corrected)}}: what is measured on the printed form."""
    fig, ax = subplots(size=(WIDTH, 0.24 * len(found) + 0.9))
    ax.set(xlim=(-0.5, len(checks) - 0.5), ylim=(len(found) - 0.5, -0.5))
    for i, row in enumerate(found.values()):
        for check, (entry, _) in row.items():
            j, shows = checks.index(check), entry > tolerance
            colour = COLOUR["orange"] if shows else "#E8E8E8"
            ax.barh(i, 0.96, height=0.9, left=j - 0.48, color=colour)
            look = dict(fontweight="bold") if shows else dict(color=COLOUR["grey"], fontstyle="italic")
            text = f"{entry:.1g}" if entry < 0.1 else "∞" if np.isinf(entry) else f"{entry:.2g}"
            ax.text(j, i, text if shows else "passes", ha="center", va="center", fontsize=8.5, **look)
    ax.set_xticks(range(len(checks)), [check.replace(" ", "\n") for check in checks])
    ax.set_yticks(range(len(found)), list(found))
    ax.xaxis.tick_top()
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.grid(False)
    return fig
