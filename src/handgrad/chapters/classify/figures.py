"""The figures of chapter 18. Each function draws what it is given; the notebook computes every number."""

import numpy as np

from handgrad.course.figures import COLOUR, LABEL, WIDTH, backward_graph, box, heat_map, subplots
from handgrad.names import LANGUAGES, SPECIAL

from .trials import standard_error


def shares_right(models):
    """Horizontal bars, one for each of models {title: (share right, its standard error)}."""
    fig, ax = subplots(size=(WIDTH, 0.5 * len(models) + 0.7))
    shares, errors = np.array(list(models.values())).T
    colours = [COLOUR["green" if "count" in title else "blue"] for title in models]
    ax.barh(range(len(models)), shares, 0.6, xerr=1.96 * errors, color=colours, capsize=3)
    for y, (share, error) in enumerate(zip(shares, errors)):
        ax.text(share + 1.96 * error + 0.015, y, f"{share:.1%}", va="center", fontsize=LABEL - 1)
    ax.set_yticks(range(len(models)), models)
    ax.invert_yaxis()
    ax.set(xlim=(0, 1), xlabel="share of held-out names whose language is right")
    return fig


def gains(titles, before, after):
    """From `before` to `after`, shares right (C,) of each language, in the order of what was gained."""
    fig, ax = subplots(size=(WIDTH, 4.6))
    order = np.argsort(after - before)
    rows = np.arange(len(order))
    ax.hlines(rows, before[order], after[order], color=COLOUR["grey"], lw=1.5)
    ax.plot(before[order], rows, "o", color=COLOUR["vermilion"], mfc="white", label="from scratch")
    ax.plot(after[order], rows, "o", color=COLOUR["blue"], label="pre-trained")
    ax.set_yticks(rows, [titles[k] for k in order], fontsize=9)
    ax.set(xlim=(0, 1), xlabel="share right")
    ax.legend(loc="lower center", fontsize=10)
    return fig


def rows_of_tokens(rows, asked):
    """Tokens as cells, one line for each of rows {title: tokens}; places in `asked` are coloured."""
    fig, ax = subplots(size=(WIDTH, 0.55 * len(rows) + 0.3))
    for y, (title, tokens) in enumerate(rows.items()):
        ax.text(-0.15, -y, title, ha="right", va="center", fontsize=LABEL - 1)
        for x, token in enumerate(tokens):
            special = token in SPECIAL and x not in asked
            colour = "orange" if x in asked else "grey" if special else "sky"
            word, size = (token.strip("[]"), 8) if token in SPECIAL else (token, LABEL)
            box(ax, x + 0.5, -y, word, colour, fontsize=size)
    ax.set(xlim=(-3.4, max(map(len, rows.values()))), ylim=(-len(rows) + 0.4, 0.6))
    ax.set_axis_off()
    return fig


def one_name():
    """Three classes: the example worked by hand, on the edges of its graph."""
    nodes = {"x₀": (0, 0), "W": (0, 2), "u": (1.3, 1), "p": (2.6, 1), "L": (3.6, 1)}
    edges = [
        ("x₀", "u", "(1, 2)", "", "(−4, 2)/4"),
        ("W", "u", "(2, 0, 2 | −1, 0, −1)", "", "(−3, 2, 1 | −6, 4, 2)/4"),
        ("u", "p", "(0, ln 2, 0)", "", "(−3, 2, 1)/4"),
        ("p", "L", "(1, 2, 1)/4", "", "(−4, 0, 0)"),
    ]
    return backward_graph(nodes, edges, height=3.6)


def arrived(arrivals, tokens, ax, place):
    """The lengths arrivals[place] (N + 1, T), the top of the encoder above, each line by its largest."""
    lengths = arrivals[place]
    largest = lengths.max(axis=1, keepdims=True)
    depths = ["top", *(f"below block {n}" for n in reversed(range(len(lengths) - 1)))]
    words = [token.strip("[]") if token in SPECIAL else token.replace(" ", "␣") for token in tokens]
    heat_map(ax, lengths / np.where(largest > 0, largest, 1), depths, words, power=0.5, size=10)
    for y, x in np.argwhere(lengths == 0):
        ax.text(x, y, "0", ha="center", va="center", fontsize=9, color=COLOUR["grey"])
    ax.set_title(f"asked: {'the label' if place == 0 else tokens[place]}", fontsize=LABEL - 1)


def accuracies(table, levels, examined):
    """Shares of right names by the number of labels: table {model: {labels: shares}}, a dot for each seed.

    The bars are 1.96 standard errors of a share of `examined` names to either side of the mean.
    """
    fig, ax = subplots(size=(WIDTH, 3.4))
    looks = zip(("o", "s", "^", "D"), ("blue", "vermilion", "green", "purple"))
    places = list(next(iter(table.values())))
    for (mark, colour), (title, of_model) in zip(looks, table.items()):
        means = [np.mean(of_model[n]) for n in places]
        bars = 1.96 * standard_error(np.array(means), examined)
        ax.errorbar(range(len(places)), means, bars, color=COLOUR[colour], label=title, capsize=4)
        for x, n in enumerate(places):
            ax.plot(
                [x] * len(of_model[n]), of_model[n], mark, color=COLOUR[colour], ms=5, ls="none", mfc="none"
            )
    for name, level in levels.items():
        ax.axhline(level, color=COLOUR["grey"], lw=1, ls=":")
        ax.text(len(places) - 0.72, level, name, va="bottom", ha="right", fontsize=LABEL - 2)
    ax.set_xticks(range(len(places)), [f"{n} labels" for n in places])
    ax.set(ylim=(0, 1), ylabel="share right", xlim=(-0.3, len(places) - 0.7))
    ax.legend(loc="upper left", fontsize=10)
    return fig


def confusions(counts):
    """Counts (C, C) as shares of their rows: what names of each language are called."""
    codes = list(LANGUAGES)
    fig, ax = subplots(size=(WIDTH, 6.2))
    shares = counts / counts.sum(axis=1, keepdims=True)
    image = heat_map(ax, shares, codes, codes, power=0.4, across="called", down="is", size=9)
    for i, j in np.argwhere(shares >= 0.05):
        ink = COLOUR["black"] if shares[i, j] > 0.3 else "white"
        ax.text(j, i, f"{100 * shares[i, j]:.0f}", ha="center", va="center", fontsize=7, color=ink)
    fig.colorbar(image, ax=ax, label="share of the row", shrink=0.8)
    return fig
