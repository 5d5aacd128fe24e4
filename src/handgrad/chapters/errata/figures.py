"""The figures of chapter 20. Each function draws what it is given; the notebook computes every number."""

from handgrad.course.figures import COLOUR, WIDTH, subplots


def edges(x, W, dy):
    """✎ Inputs x (D,) at the left, gradients dy (F,) at the right, weights W (D, F) between them."""
    fig, ax = subplots(size=(WIDTH, 2.5))
    rows = [len(dy) * (i + 0.5) / len(x) - 0.5 for i in range(len(x))]  # as high as the outputs
    box = dict(boxstyle="round,pad=0.35", fc="white", ec=COLOUR["grey"])
    for i, (value, row) in enumerate(zip(x, rows, strict=True)):
        for j, weight in enumerate(W[i]):
            ax.plot([0, 1], [row, j], color=COLOUR["grey"], lw=1, ls="-")
            ax.text(0.25, row + 0.25 * (j - row), f"{weight:g}", va="center", backgroundcolor="white")
        ax.text(0, row, f"x = {value:g}", ha="center", va="center", bbox=box)
    for j, arriving in enumerate(dy):
        ax.text(1, j, f"dy = {arriving:g}", ha="center", va="center", bbox=box, color=COLOUR["vermilion"])
    ax.set(xlim=(-0.2, 1.2), ylim=(len(dy) - 0.5, -0.5))
    ax.set_axis_off()
    return fig


def bars(ax, dx):
    """✎ A bar for each entry of dx (D,), on axes given by `interactive.frames`."""
    ax.bar(range(len(dx)), dx, color=COLOUR["vermilion"])
    ax.axhline(0, color=COLOUR["black"], lw=0.8, ls="-")
    ax.set(ylim=(-6, 6), ylabel="dx")
    ax.set_xticks(range(len(dx)), [f"input {i}" for i in range(len(dx))])
