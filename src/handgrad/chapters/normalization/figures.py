"""The figures of chapter 05. Each function draws what it is given; the notebook computes every number."""

import numpy as np

from handgrad.course.figures import COLOUR, LINES, MARKS, WIDTH, backward_graph, named_levels, subplots


def by_depth(signals):
    """The size of a signal after each layer, {label: (layers,)}, each named at its end."""
    fig, ax = subplots()
    for (label, sizes), colour in zip(signals.items(), LINES, strict=False):
        ax.semilogy(np.arange(1, len(sizes) + 1), sizes, color=COLOUR[colour])
        ax.annotate(label, (len(sizes), sizes[-1]), (6, 0), textcoords="offset points", va="center")
    ax.set(xlabel="layers", ylabel="size of the numbers", xlim=(0, len(sizes)))
    return fig


def three_paths():
    """One backward of the token (1, 7, 9, 15), ε = 0, a path in each row; (500, 0, 0, 0) arrives at x̂."""
    nodes, edges = {}, []
    paths = [("mean", r"$\mu$", "8", "−25 to each", "−100")]
    paths += [("variance", r"$\sigma^2$", "25", "(−49, −7, 7, 49)", "14")]
    for row, (name, middle, value, last, first) in enumerate([("direct", "", "", "", ""), *paths]):
        x, hat, loss = (f"${letter}{'{}' * row}$" for letter in ("x", r"\hat{x}", "L"))  # a name for each row
        nodes |= {x: (0, -row), hat: (2.3, -row), loss: (3.6, -row)}
        edges.append((hat, loss, "(−7, −1, 1, 7)/5", "", "(500, 0, 0, 0)"))
        if middle:
            nodes[middle] = (1.5, -row)
            edges += [(x, middle, name, "", last), (middle, hat, value, "", first)]
        else:
            edges.append((x, hat, name, "", "(100, 0, 0, 0)"))
    return backward_graph(nodes, edges, height=3.6)


def ends(losses, levels):
    """Losses at the end of trainings, {network: {setting: loss}}, beside levels {name: loss} known before."""
    fig, ax = subplots(size=(WIDTH, 3.4))
    top = 1.15 * max(levels.values())
    for n, (label, those) in enumerate(losses.items()):
        places, y = np.arange(len(those)) + 0.16 * (n - (len(losses) - 1) / 2), np.array([*those.values()])
        look = dict(color=COLOUR[LINES[n]], ms=8, ls="none")
        ax.plot(places, np.where(y < top, y, np.nan), MARKS[n], label=label, **look)
        lost = ~(y < top)
        ax.plot(places[lost], np.full(lost.sum(), 0.96 * top), "x", mew=2.5, **look)
    ax.set_xticks(range(len(those)), [*those])
    ax.set(ylim=(0, top), xlim=(-0.5, len(those) - 0.5), ylabel="loss in nats per letter")
    fig.legend(loc="outside upper left", ncols=len(losses))
    named_levels(ax, levels)
    return fig
