"""The figures of chapter 21."""

import numpy as np

from ...course.figures import COLOUR, DIVERGING, WIDTH, backward_graph, subplots

LOOKS = {"wrong": ("vermilion", ""), "ambiguous": ("sky", "//"), "incomplete": ("yellow", "..")}


def verdicts(pairs):
    """How many claims of each text are wrong, ambiguous or incomplete; pairs (text, verdict)."""
    texts = sorted({text for text, _ in pairs})
    fig, ax = subplots(size=(WIDTH, 2.5))
    left = np.zeros(len(texts))
    for verdict, (colour, hatch) in LOOKS.items():
        many = np.array([pairs.count((text, verdict)) for text in texts])
        look = dict(color=COLOUR[colour], hatch=hatch, edgecolor="white", label=verdict)
        ax.barh(texts, many, left=left, **look)
        for text, n, start in zip(texts, many, left, strict=True):
            if n:
                box = dict(boxstyle="round,pad=0.15", fc="white", ec="none")
                ax.text(start + n / 2, text, str(n), ha="center", va="center", fontsize=9, bbox=box)
        left += many
    ax.invert_yaxis()
    ax.set(xlabel="claims", ylabel="text", xlim=(0, left.max() + 1))
    fig.legend(loc="outside upper center", ncols=3)
    return fig


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


def graph():
    """Attention in columns, forward and backward, with the places of E2 to E5."""
    A = r"$\mathcal{A}$"
    nodes = {
        "X": (0, 1),
        "Q": (1.6, 2),
        "K": (1.6, 1),
        "V": (1.6, 0),
        "c": (3.3, 1.5),
        A: (4.7, 1),
        "Z": (5.9, 0.5),
    }
    edges = [
        ("X", "Q", "A", "", "Aᵀ dQ"),
        ("X", "K", "B", "", "Bᵀ dK"),
        ("X", "V", "C", "", "Cᵀ dV"),
        ("Q", "c", "(K, T)", "", "K dcᵀ/√K"),
        ("K", "c", "(K, T)", "", "Q dc/√K"),
        ("c", A, "(T, T)", "", "dc"),
        (A, "Z", "(T, T)", "", "Vᵀ E"),
        ("V", "Z", "(K, T)", "", r"E $\mathcal{A}^\top$"),
    ]
    return backward_graph(nodes, edges, height=4.6)


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
    """Errata by checks: filled where the check finds it, pale where it passes, empty without an entry."""
    names = list(found)
    fig, ax = subplots(size=(WIDTH, 0.24 * len(names) + 0.9))
    ax.set(xlim=(-0.5, len(checks) - 0.5), ylim=(len(names) - 0.5, -0.5))
    for i, name in enumerate(names):
        for j, check in enumerate(checks):
            if (entry := found[name].get(check)) is None:
                continue
            shows = entry > tolerance
            colour = COLOUR["orange"] if shows else "#E8E8E8"
            ax.add_patch(_tile(j, i, colour))
            look = dict(fontweight="bold") if shows else dict(color=COLOUR["grey"], fontstyle="italic")
            ax.text(
                j, i, _share(entry) if shows else "passes", ha="center", va="center", fontsize=8.5, **look
            )
    ax.set_xticks(range(len(checks)), [check.replace(" ", "\n") for check in checks])
    ax.set_yticks(range(len(names)), names)
    ax.xaxis.tick_top()
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    return fig


def _tile(x, y, colour):
    from matplotlib.patches import Rectangle

    return Rectangle((x - 0.48, y - 0.45), 0.96, 0.9, color=colour, lw=0)


def _share(entry):
    return "∞" if np.isinf(entry) else f"{entry:.1g}" if entry < 0.1 else f"{entry:.2g}"


def depth(found, deep):
    """What returns along the skips alone, by depth, in plain post-norm and in DeepNorm: {depth: share}."""
    fig, ax = subplots()
    for found_by_depth, colour, mark, label in (
        (found, "vermilion", "o", "LN(x + f(x))"),
        (deep, "blue", "s", "LN(αx + f(x)), DeepNorm"),
    ):
        ax.plot(
            list(found_by_depth), list(found_by_depth.values()), mark + "-", color=COLOUR[colour], label=label
        )
    depths = np.array(list(found))
    ax.plot(depths, 2.0 ** (-depths / 2), ls=":", color=COLOUR["grey"], label="2 to the −N/2")
    ax.set(
        xscale="log", yscale="log", xlabel="sub-layers", ylabel="share along the skips", ylim=(1e-160, 1e10)
    )
    ax.legend()
    return fig
