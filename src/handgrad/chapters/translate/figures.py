"""The figures of chapter 16. Each function draws what it is given; the notebook computes every number."""

import numpy as np

from handgrad.course.figures import COLOUR, WIDTH, box, losses, subplots

MARKS = {"<pad>", "<bos>", "<eos>"}


def shift(batch, vocabulary):
    """The first sentence of a batch: what the encoder reads, what the decoder reads, and what it must say."""
    names = {"source": "the encoder reads", "target_in": "the decoder reads", "target_out": "it must say"}
    fig, ax = subplots(size=(WIDTH, 1.95))
    for y, (name, title) in enumerate(names.items()):
        ax.text(-0.15, -y, title, ha="right", va="center")
        for x, token in enumerate(vocabulary.tokens[place] for place in batch[name][0]):
            face, ink = ("grey", "grey") if token in MARKS else ("sky", "black")
            box(ax, x + 0.5, -y, token, face, high=0.52, fontsize=8.5, color=COLOUR[ink])
    ax.set(xlim=(-2.6, max(table.shape[1] for table in batch.values())), ylim=(-2.6, 0.6))
    ax.set_axis_off()
    return fig


def opening(curve, floor, said, english):
    """A loss beside its floor, and below it what the model says of one number: said {update: French}."""
    fig, (ax, below) = subplots(2, 1, (WIDTH, 4.3), height_ratios=(3, 1.2))
    losses({"loss": curve}, {"floor": floor}, ax=ax)
    steps = np.array(list(said))
    ax.plot(steps, np.array(curve)[np.maximum(steps - 1, 0)], "o", color=COLOUR["vermilion"], clip_on=False)
    below.set_axis_off()
    for row, (left, words) in enumerate({"English": english, **said}.items()):
        title = left if left == "English" else f"after {left}"
        look = dict(va="center", fontsize=9.5, transform=below.transAxes)
        below.text(0.0, 1 - row / 3, title, color=COLOUR["grey"], **look)
        below.text(0.16, 1 - row / 3, words if len(words) < 70 else words[:67] + " …", **look)
    return fig
