"""The figures of chapter 12. Each function draws what it is given; the notebook computes every number."""

from handgrad.course.figures import backward_graph, heat_map


def stream(*layers):
    """The residual stream of a pre-norm block past these layers; "cross" also reads the memory."""
    nodes, edges, start = {"$X_0$": (0, 1)}, [], "$X_0$"
    for n, layer in enumerate(layers):
        branch, plus = f"norm,\n{layer}", "$" + n * "{" + "+" + n * "}" + "$"
        nodes |= {branch: (1.25 * n + 0.6, 0), plus: (1.25 * n + 1.2, 1)}
        dx = rf"$\mathrm{{d}}X_{n + 1}$"
        edges += [(start, plus, f"$X_{n}$", "(T, D)", dx), (start, branch, "", "", "+")]
        edges.append((branch, plus, "", "", dx))
        start = plus
    end = f"$X_{len(layers)}$"
    nodes[end] = (1.25 * len(layers) + 0.7, 1)
    edges.append((start, end, "", "", dx))
    if "cross" in layers:
        nodes["$X'$"] = (1.2, -0.9)
        edges.append(("$X'$", "norm,\ncross", "(S, D)", "", r"$\mathrm{d}X'$"))
    return backward_graph(nodes, edges, height=4.2 if "cross" in layers else 3.2)


def integers_ff():
    """The feed-forward sub-layer of the small example: values forward, gradients back."""
    nodes = {"$x_1$": (0, 1), "norm": (0.4, 0), "$W_1$": (1.7, 0), "relu": (3.1, 0), "$W_2$": (4.5, 0)}
    nodes |= {"+": (4.9, 1), "$x_2$": (5.8, 1)}
    edges = [
        ("$x_1$", "+", "(2, 2)", "", "(1, 3)"),
        ("$x_1$", "norm", "", "", "(2, −2)"),
        ("norm", "$W_1$", "(2, 4)", "", "(4, 0)"),
        ("$W_1$", "relu", "(2, −2)", "", "(4, 0)"),
        ("relu", "$W_2$", "(2, 0)", "", "(4, −1)"),
        ("$W_2$", "+", "(2, 2)", "", "(1, 3)"),
        ("+", "$x_2$", "(4, 4)", "", "(1, 3)"),
    ]
    return backward_graph(nodes, edges, height=3.2)


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


def reach(ax, sizes, tokens):
    """Sizes of the gradient (3, T), token by token, the top of the block first."""
    rows = [rf"$\mathrm{{d}}X_{n}$" for n in (2, 1, 0)]
    heat_map(ax, sizes / sizes.max(), rows, tokens, power=0.4)
