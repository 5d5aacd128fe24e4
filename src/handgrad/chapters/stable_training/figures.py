"""The figure of chapter 14. It draws what it is given; the notebook computes every number."""

import numpy as np

from handgrad.course.figures import WIDTH, subplots


def depth(measured):
    """Root mean squares by layer, forward and backward: {gain: mean squares (2, N + 1)}."""
    fig, axes = subplots(1, 2, size=(WIDTH, 3.5), sharey=True)
    for gain, found in measured.items():
        for ax, line in zip(axes, np.sqrt(found), strict=True):
            ax.plot(line, label=f"variance {gain} / D_in")
    for ax, name in zip(axes, ("values, forward", "gradients, backward"), strict=True):
        ax.set(yscale="log", xlabel="layer", title=name)
    axes[0].set_ylabel("root mean square")
    fig.legend(handles=[*axes[0].lines], loc="outside upper left", ncols=3)
    return fig
