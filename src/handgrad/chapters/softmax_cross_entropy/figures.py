"""The figures of chapter 02. Each function draws what it is given; the notebook computes every number."""

from handgrad.course.figures import COLOUR, DASHES, LINES, backward_graph, subplots


def chances(curves):
    """The probability of the right token after each step, {loss: (steps,)}, each named at its curve."""
    fig, ax = subplots()
    for n, (label, chance) in enumerate(curves.items()):
        ax.semilogy(chance, color=COLOUR[LINES[n]], ls=DASHES[n])
        ax.annotate(label, (60, chance[60]), (0, -14), textcoords="offset points", color=COLOUR[LINES[n]])
    ax.set(xlabel="step", ylabel="probability of the right character", ylim=(1e-4, 2))
    ax.set_yticks([1e-3, 1e-2, 1e-1, 1], ["1 in 1,000", "1 in 100", "1 in 10", "1"])
    return fig


def integers():
    """One backward in integers: exponentials 6, 3, 1, the second token right, and 30 arriving."""
    nodes = {"$z$": (0, 0), "exp": (1.5, 0), "sum": (2.4, 1), "÷": (3.1, 0), "$-\\ln p_1$": (4.6, 0)}
    edges = [
        ("$z$", "exp", "(ln 6, ln 3, 0)", "", "(18, −21, 3)"),
        ("exp", "÷", "(6, 3, 1)", "", "(0, −10, 0)"),
        ("exp", "sum", "", "", "3 to each"),
        ("sum", "÷", "10", "", "3"),
        ("÷", "$-\\ln p_1$", "(6, 3, 1)/10", "", "(0, −100, 0)"),
    ]
    return backward_graph(nodes, edges, height=3.2)
