"""The figures of chapter 12. Each function draws what it is given; the notebook computes every number."""

from handgrad.course.figures import backward_graph, heat_map


def stream():
    """A pre-norm decoder block: the residual stream, three layers beside it, and the memory."""
    nodes = {"$X_0$": (0, 1), "norm,\nself": (0.62, 0), "$+$": (1.2, 1), "norm,\ncross": (1.85, 0)}
    nodes |= {"${+}$": (2.5, 1), "norm,\nFF": (3.1, 0), "${{+}}$": (3.7, 1), "$X_3$": (4.5, 1)}
    nodes |= {"$X'$": (1.2, -0.9)}
    edges = [
        ("$X_0$", "$+$", "$X_0$", "(T, D)", r"$\mathrm{d}X_1$"),
        ("$X_0$", "norm,\nself", "", "", "+"),
        ("norm,\nself", "$+$", "", "", r"$\mathrm{d}X_1$"),
        ("$+$", "${+}$", "$X_1$", "(T, D)", r"$\mathrm{d}X_2$"),
        ("$+$", "norm,\ncross", "", "", "+"),
        ("norm,\ncross", "${+}$", "", "", r"$\mathrm{d}X_2$"),
        ("$X'$", "norm,\ncross", "(S, D)", "", r"$\mathrm{d}X'$"),
        ("${+}$", "${{+}}$", "$X_2$", "(T, D)", r"$\mathrm{d}X_3$"),
        ("${+}$", "norm,\nFF", "", "", "+"),
        ("norm,\nFF", "${{+}}$", "", "", r"$\mathrm{d}X_3$"),
        ("${{+}}$", "$X_3$", "", "", r"$\mathrm{d}X_3$"),
    ]
    return backward_graph(nodes, edges, height=4.2)


def integers_cross():
    """The cross-attention sub-layer of the small example: values forward, gradients back."""
    nodes = {"$x_1$": (0, 2), "norm": (0.6, 0.9), "$P_a$": (2, 0.9)}
    nodes |= {"$x'$": (1.2, -0.6), "$P_r$": (3.2, -0.6), "+": (3.9, 2), "$x_2$": (4.9, 2)}
    edges = [
        ("$x_1$", "+", "(2, 2)", "", "(1, 3)"),
        ("$x_1$", "norm", "", "", "(2, −2)"),
        ("norm", "$P_a$", "(2, 4)", "", "(2, −1)"),
        ("$P_a$", "+", "(−6, 2)", "", "(1, 3)"),
        ("$x'$", "$P_r$", "(1, 0)", "", "(−1, −1)"),
        ("$P_r$", "+", "(−1, 0)", "", "(1, 3)"),
        ("+", "$x_2$", "(−5, 4)", "", "(1, 3)"),
    ]
    return backward_graph(nodes, edges, height=4.2)


def integers_self():
    """The self-attention sub-layer of the small example, where the normalised token is used twice."""
    nodes = {"$x_0$": (0, 2), "norm": (0.6, 0.2), "$W_a$": (2, 0.9), "$W_r$": (3.2, -0.6)}
    nodes |= {"+": (3.9, 2), "$x_1$": (4.9, 2)}
    edges = [
        ("$x_0$", "+", "(1, 1)", "", "(3, 1)"),
        ("$x_0$", "norm", "", "", "(−4, 4)"),
        ("norm", "$W_a$", "(1, 2)", "", "(−1, 2)"),
        ("norm", "$W_r$", "(1, 2)", "", "(−1, 1)"),
        ("$W_a$", "+", "(2, −3)", "", "(3, 1)"),
        ("$W_r$", "+", "(−1, 4)", "", "(3, 1)"),
        ("+", "$x_1$", "(2, 2)", "", "(3, 1)"),
    ]
    return backward_graph(nodes, edges, height=4.2)


def reach(axes, stream, memory, target, source):
    """Sizes of the gradient, word by word: of the stream (4, T), the top first, and of the memory (1, S)."""
    most = max(stream.max(), memory.max())
    rows = [rf"$\mathrm{{d}}X_{n}$" for n in (3, 2, 1, 0)]
    heat_map(axes[0], stream / most, rows, target, power=0.4, title="the stream")
    heat_map(axes[1], memory / most, [r"$\mathrm{d}X'$"], source, power=0.4, title="the memory")
