"""The figures of chapter 12. Each function draws what it is given; the notebook computes every number."""

from handgrad.course.figures import BACK, COLOUR, LABEL, backward_graph

NAMES = {"post": "post-norm", "pre": "pre-norm", "output": "output-norm"}
SHORT = {"feed-forward": "FF", "cross-attention": "cross", "self-attention": "self"}


def integers_cross():
    """The cross-attention sub-layer of the small example: values forward, gradients back."""
    nodes = {"$x_1$": (0, 2), "norm": (0.6, 0.9), "$U_a$": (2, 0.9)}
    nodes |= {"$x'$": (0.6, -0.6), "$U_r$": (2, -0.6), "+": (3.6, 2), "$L$": (4.6, 2)}
    edges = [
        ("$x_1$", "+", "(2, 2)", "", "(1, 3)"),
        ("$x_1$", "norm", "", "", "(2, −2)"),
        ("norm", "$U_a$", "(2, 4)", "", "(2, −1)"),
        ("$U_a$", "+", "(−6, 2)", "", "(1, 3)"),
        ("$x'$", "$U_r$", "(1, 0)", "", "(−1, −1)"),
        ("$U_r$", "+", "(−1, 0)", "", "(1, 3)"),
        ("+", "$L$", "(−5, 4)", "", "(1, 3)"),
    ]
    return backward_graph(nodes, edges, height=4.6)


def integers_self():
    """The self-attention sub-layer of the small example, where the normalised token is used twice."""
    nodes = {"$x_0$": (0, 2), "norm": (0.6, 0.2), "$W_a$": (2, 0.9), "$W_r$": (2, -0.6)}
    nodes |= {"+": (3.6, 2), "$x_1$": (4.6, 2)}
    edges = [
        ("$x_0$", "+", "(1, 1)", "", "(3, 1)"),
        ("$x_0$", "norm", "", "", "(−4, 4)"),
        ("norm", "$W_a$", "(1, 2)", "", "(−1, 2)"),
        ("norm", "$W_r$", "(1, 2)", "", "(−1, 1)"),
        ("$W_a$", "+", "(2, −3)", "", "(3, 1)"),
        ("$W_r$", "+", "(−1, 4)", "", "(3, 1)"),
        ("+", "$x_1$", "(2, 2)", "", "(3, 1)"),
    ]
    return backward_graph(nodes, edges, height=4.6)


def graph():
    """The backward graph of a decoder block, with shapes; norms are inside the sub-layers."""
    nodes = {"$X_0$": (0, 1), "self": (0.62, 0), "$+$": (1.2, 1), "cross": (1.85, 0), "${+}$": (2.5, 1)}
    nodes |= {"FF": (3.1, 0), "${{+}}$": (3.7, 1), "$L$": (4.5, 1), "$X'$": (1.2, -0.9)}
    edges = [
        ("$X_0$", "$+$", "$X_0$", "(T, D)", r"$\mathrm{d}X_1$"),
        ("$X_0$", "self", "", "", "+"),
        ("self", "$+$", "", "", r"$\mathrm{d}X_1$"),
        ("$+$", "${+}$", "$X_1$", "(T, D)", r"$\mathrm{d}X_2$"),
        ("$+$", "cross", "", "", "+"),
        ("cross", "${+}$", "", "", r"$\mathrm{d}X_2$"),
        ("$X'$", "cross", "(S, D)", "", r"$\mathrm{d}X'$"),
        ("${+}$", "${{+}}$", "$X_2$", "(T, D)", r"$\mathrm{d}X_3$"),
        ("${+}$", "FF", "", "", "+"),
        ("FF", "${{+}}$", "", "", r"$\mathrm{d}X_3$"),
        ("${{+}}$", "$L$", "$X_3$", "", r"$\mathrm{d}X_3$"),
    ]
    return backward_graph(nodes, edges, height=4.2)


# The gradient on every edge ---------------------------------------------------------------------------------

POST, PLUS, OUTPUT, F_BOX, PRE, JOIN = 3.15, 2.55, 2.1, 1.45, 0.85, 0.3  # heights in a sub-layer
TOP = 3.6  # where the next sub-layer begins


def flow(axes, found, step):
    """What the backward has done after so many steps, for each placement: axes (3,).

    found: {placement: a dictionary for each sub-layer, as from `flows.edges`}. Step 0: only the gradient from
    above; then three steps for each sub-layer: to the plus sign and into f, out of f, added.
    """
    for ax, (norm, parts) in zip(axes, found.items(), strict=True):
        _panel(ax, norm, parts, step)
        ax.set_title(NAMES[norm], fontsize=LABEL)
    axes[0].figure.set_layout_engine("constrained", w_pad=0, h_pad=0.02, wspace=0)


def _panel(ax, norm, parts, step):
    look = dict(ha="center", va="center", fontsize=LABEL - 2, zorder=4)
    box = dict(boxstyle="round,pad=0.25", fc="white", ec=COLOUR["grey"])
    total = len(parts) * TOP
    for k, (part, at) in enumerate(zip(SHORT, parts, strict=True)):
        base = total - (k + 1) * TOP
        before, first, second, third = (step >= 3 * k + n for n in range(4))

        def arrow(name, seen, start, end, words=None, base=base, at=at):
            (x_0, y_0), (x_1, y_1) = start, end
            ends = (x_0, base + y_0), (x_1, base + y_1)
            _arrow(ax, *ends, at[name], seen, words and (words[0], base + words[1], words[2]))

        def node(x, y, text, base=base):
            ax.text(x, base + y, text, bbox=box, **look)

        onto = POST if norm == "post" else PLUS
        arrow("dy", before, (0, TOP + (0.5 if k == 0 else 0)), (0, onto), (-0.12, TOP - 0.1, "right"))
        if norm == "post":
            node(0, POST, "LN")
            arrow("du", first, (0, POST), (0, PLUS))
        arrow("du", first, (0, PLUS), (0, JOIN), (-0.12, F_BOX, "right"))
        arrow("du", first, (0, PLUS), (1, PLUS))
        if norm == "output":
            arrow("du", first, (1, PLUS), (1, OUTPUT))
            node(1, OUTPUT, "LN")
        arrow("do", first, (1, OUTPUT if norm == "output" else PLUS), (1, F_BOX), (1.12, 1.78, "left"))
        node(1, F_BOX, SHORT[part])
        below = PRE if norm == "pre" else F_BOX
        if norm == "pre":
            node(1, PRE, "LN")
            arrow("dh", second, (1, F_BOX), (1, PRE))
        arrow("back", second, (1, below), (1, JOIN))
        arrow("back", second, (1, JOIN), (0, JOIN), (1.12, 0.42, "left"))
        if "dmemory" in at:
            arrow("dmemory", second, (1, F_BOX), (2.05, F_BOX), (1.85, F_BOX - 0.3, "center"))
        node(0, PLUS, "+")
        arrow("dx", third, (0, JOIN), (0, -0.35), (-0.12, -0.15, "right") if k == len(parts) - 1 else None)
    ax.set(xlim=(-0.75, 2.1), ylim=(-0.45, total + 0.55))
    ax.set_axis_off()


def _style(size, seen):
    colour = COLOUR[BACK[0]] if seen else "#CFCFCF"
    return dict(color=colour, lw=0.8 + 2.2 * size if seen else 0.8)


def _arrow(ax, start, end, size, seen, words=None):
    """An arrow as thick as the gradient is large; words: (x, y, side) of its number."""
    look = _style(size, seen)
    head = dict(arrowstyle="-|>,head_width=0.18,head_length=0.32", shrinkA=0, shrinkB=0)
    ax.annotate("", end, start, arrowprops=head | look, zorder=2)
    if seen and words:
        x, y, side = words
        ax.text(x, y, f"{size:.2f}", color=look["color"], ha=side, va="center", fontsize=LABEL - 0.5)


def described(found, step):
    """What a frame of `flow` shows, in words."""
    k, n = divmod(step - 1, 3)
    names = list(SHORT)
    if step == 0:
        return (
            f"The gradient from above arrives, of size {found['pre'][0]['dy']:.2f}, in all three placements."
        )
    what = ("into {}, f receives", "out of {}, its branch returns", "below {}, the sum is")[n]
    key = ("do", "back", "dx")[n]
    sizes = ", ".join(f"{NAMES[norm]} {parts[k][key]:.2f}" for norm, parts in found.items())
    more = ""
    if n == 1 and "dmemory" in found["pre"][k]:
        memory = ", ".join(f"{parts[k]['dmemory']:.2f}" for parts in found.values())
        more = f"; the memory receives {memory}"
    return f"{what.format(names[k])}: {sizes}{more}."
