"""The figures of chapter 03. Each function draws what it is given; the notebook computes every number."""

import numpy as np

from handgrad.course.figures import COLOUR, DIVERGING, LABEL, LINES, MARKS, WIDTH, backward_graph, subplots


def table(ax, values, title, rows=None, columns=None, colour="blue", reach=None):
    """A matrix (R, C) as a table of numbers, 0 written as a pale dot; with `reach` its cells are coloured.

    rows, columns: their names. reach: the number at both ends of the colours, or None for white cells.
    """
    values = np.asarray(values, float)
    shade = values if reach else 0 * values
    ax.imshow(shade, cmap=DIVERGING, vmin=-2 * (reach or 1), vmax=2 * (reach or 1), aspect="equal")
    for (i, j), value in np.ndenumerate(values):
        look = dict(color=COLOUR["grey"]) if value == 0 else dict(color="black")
        text = "·" if value == 0 else f"{value:g}".replace("-", "−")
        ax.text(j, i, text, ha="center", va="center", fontsize=LABEL, **look)
    ax.set_xticks(np.arange(values.shape[1] - 1) + 0.5, minor=True)
    ax.set_yticks(np.arange(values.shape[0] - 1) + 0.5, minor=True)
    ax.grid(which="minor", color="#D9D9D9", lw=0.8, ls="-")
    ax.set_xticks(range(len(columns or [])), columns or [], fontsize=LABEL)
    ax.set_yticks(range(len(rows or [])), rows or [], fontsize=LABEL)
    ax.tick_params(which="both", length=0)
    ax.set_title(title, fontsize=LABEL, color=COLOUR[colour], loc="center")
    ax.spines[:].set_visible(True)
    for spine in ax.spines.values():
        spine.set(color=COLOUR[colour], lw=1.4)


def product(values, gradients):
    """X, W, Y above, their gradients below, each below its own: {title: matrix} twice, in the same order."""
    widths = [np.shape(matrix)[1] for matrix in values.values()]
    fig, axes = subplots(2, 3, (WIDTH, 4.0), width_ratios=widths)
    for line, colour, matrices in zip(axes, ("blue", "vermilion"), (values, gradients), strict=True):
        for ax, (title, matrix) in zip(line, matrices.items(), strict=True):
            table(ax, matrix, title, colour=colour)
    return fig


def one_hot(O, E, X):
    """The look-up as a product: one-hot rows O (T, V), the table E (V, D), the rows X (T, D) so chosen."""
    T, V = np.shape(O)
    fig, axes = subplots(1, 3, (WIDTH, 2.7), width_ratios=[V, np.shape(E)[1] + 0.4, np.shape(X)[1] + 0.4])
    positions, tokens = [f"t = {t}" for t in range(T)], [str(v) for v in range(V)]
    table(axes[0], O, f"one-hot O  ({T}, {V})", positions, tokens)
    table(axes[1], E, f"E  ({V}, {np.shape(E)[1]})", tokens)
    table(axes[2], X, f"X = OE  ({T}, {np.shape(X)[1]})", positions)
    return fig


def layer():
    """Look-up, linear layer, and the table once more as the head: values forward, gradients back, shapes."""
    nodes = {"$E$": (0, 0), "look up": (0.6, 1), r"$\times W + b$": (2.0, 1), r"$\times E^{\top}$": (3.4, 1)}
    nodes |= {"$W$, $b$": (1.1, 2), "$L$": (4.6, 1)}
    edges = [
        ("$E$", "look up", "", "", "sparse $\\mathrm{d}E$"),
        ("$E$", r"$\times E^{\top}$", "$E$ (V, D)", "", "dense $\\mathrm{d}E$"),
        ("look up", r"$\times W + b$", "$X$\n(B, T, D)", "", r"$\mathrm{d}X$"),
        ("$W$, $b$", r"$\times W + b$", "(D, D), (D,)", "", r"$\mathrm{d}W$, $\mathrm{d}b$"),
        (r"$\times W + b$", r"$\times E^{\top}$", "$Y$\n(B, T, D)", "", "$\\mathrm{d}Y$"),
        (r"$\times E^{\top}$", "$L$", "$Z$\n(B, T, V)", "", r"$\mathrm{d}Z$"),
    ]
    return backward_graph(nodes, edges, height=4.4)


def two_gradients(axes, tokens, look_up, head, reach):
    """What the look-up and what the head send to each row of E: two tables (V, D) on two axes."""
    rows = [f"token {v}" + " ●" * int((np.asarray(tokens) == v).sum()) for v in range(len(look_up))]
    table(axes[0], look_up, "from the look-up", rows, colour="vermilion", reach=reach)
    table(axes[1], head, "from the head", colour="vermilion", reach=reach)


def by_rank(ranks, curves, levels):
    """Losses by the rank of a table: curves {label: a list of losses for each rank}, levels {name: loss}."""
    fig, ax = subplots(size=(WIDTH, 3.9))
    for n, (label, losses) in enumerate(curves.items()):
        losses = [np.atleast_1d(x) for x in losses]
        look = dict(color=COLOUR[LINES[n]], marker=MARKS[n])
        ax.plot(ranks, [np.median(x) for x in losses], ls=("-", "--", "-.")[n], label=label, **look)
        for r, x in zip(ranks, losses, strict=True):
            ax.plot([r] * len(x), x, ls="none", alpha=0.6, **look)
    for name, level in levels.items():
        ax.axhline(level, color=COLOUR["black"], lw=1, ls=":")
        ax.annotate(
            name,
            (1, level),
            (4, 0),
            xycoords=ax.get_yaxis_transform(),
            textcoords="offset points",
            va="center",
            fontsize=LABEL - 2,
        )
    ax.set_xscale("log", base=2)
    ax.set_xticks(ranks, [str(r) for r in ranks])
    ax.minorticks_off()
    ax.set(xlabel="rank r", ylabel="loss in nats per character")
    fig.legend(loc="outside upper left", ncols=2)
    return fig
