"""The figures of chapter 04. Each function draws what it is given; the notebook computes every number."""

from handgrad.course.figures import COLOUR, DASHES, LINES, WIDTH, backward_graph, subplots

NAMES = {"relu": "ReLU", "gelu": "GELU", "silu": "SiLU"}


def phrases(scores, wanted):
    """Scores {map: (4,)} of bad, good, not bad, not good, beside those that are wanted (4,)."""
    fig, axes = subplots(1, len(scores), (WIDTH, 2.9), sharey=True)
    for ax, (title, score) in zip(axes, scores.items(), strict=True):
        for n, word in enumerate(["bad", "good"]):
            look = dict(color=COLOUR[LINES[n]])
            ax.plot([0, 1], score[n::2], ls=DASHES[n], lw=2.2, label=word, **look)
            ax.plot([0, 1], wanted[n::2], "o", mfc="none", ms=9, mew=2, **look)
        ax.set_xticks([0, 1], ["alone", "with not"])
        ax.set(title=title, xlim=(-0.3, 1.3), ylim=(-1.4, 1.4))
    axes[0].set(ylabel="score")
    fig.legend(*ax.get_legend_handles_labels(), loc="outside upper left", ncols=2)
    return fig


def integers():
    """One backward in integers: token (1, 2), three hidden units with ReLU, dy = (1, −1)."""
    nodes = {"$x$": (0, 0), r"$W_1$": (1, 1), "ReLU": (2, 0), r"$W_2$": (3, 1), "$L$": (4, 0)}
    edges = [
        ("$x$", r"$W_1$", "(1, 2)", "", "(−2, 4)"),
        (r"$W_1$", "ReLU", "(3, 2, −2)", "", "(1, 3, 0)"),
        ("ReLU", r"$W_2$", "(3, 2, 0)", "", "(1, 3, −1)"),
        (r"$W_2$", "$L$", "(8, −1)", "", "(1, −1)"),
    ]
    return backward_graph(nodes, edges, height=2.9)


def slopes(axes, places, curves, at, back):
    """On two axes: derivatives {name: (n,)} over places (n,), and what each returns {name: number} at one."""
    plot, bars = axes
    for n, (name, curve) in enumerate(curves.items()):
        look = dict(color=COLOUR[LINES[n]])
        plot.plot(places, curve, label=NAMES[name], ls=DASHES[n], lw=1.6, **look)
        plot.plot(at, back[name], "o", ms=6, zorder=4, **look)
        bars.barh(n, back[name], height=0.6, **look)
        bars.text(max(back[name], 0) + 0.04, n, f"{back[name]:.2f}", va="center", fontsize=9)
    plot.set(xlabel="h", ylabel="φ′(h)", ylim=(-0.25, 1.25))
    plot.legend(loc="upper left", fontsize=9)
    bars.set_yticks(range(len(back)), [NAMES[name] for name in back], fontsize=9)
    bars.set(xlim=(-0.25, 1.5), ylim=(len(back) - 0.5, -0.5), xlabel="dh, when da = 1 arrives")
    for line in (plot.axvline(at), plot.axhline(0), bars.axvline(0), bars.axvline(1)):
        line.set(color=COLOUR["grey"], lw=0.8)
