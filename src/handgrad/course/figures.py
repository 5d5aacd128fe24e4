"""The look of every figure in the book: colours, sizes, and how a figure reaches the page.

Importing this package sets Matplotlib's defaults and, inside Jupyter, shows figures as SVG. The figures
themselves are functions in one module per chapter; each returns a ``Figure``, which a notebook shows by
naming it last in a cell.

>>> from handgrad.course.figures import COLOUR, subplots
>>> fig, ax = subplots()
>>> line, = ax.plot([0, 1], [0, 1], color=COLOUR["blue"])

Colours are those of Okabe and Ito, "Color Universal Design" (2008): readers with any common form of colour
blindness can tell them apart. Successive lines differ in dash as well, so that colour is never the only
difference. The ground is white in both of the book's themes, so a reader sees the contrasts chosen here.
"""

import matplotlib as mpl
from cycler import cycler
from matplotlib.figure import Figure

COLOUR = {
    "blue": "#0072B2",
    "vermilion": "#D55E00",
    "green": "#009E73",
    "purple": "#CC79A7",
    "orange": "#E69F00",
    "sky": "#56B4E9",
    "yellow": "#F0E442",
    "black": "#000000",
    "grey": "#6B6B6B",
}
LINES = ("blue", "vermilion", "green", "purple", "orange", "sky", "black")
DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))

SEQUENTIAL = "cividis"  # amounts: weights, probabilities, losses
DIVERGING = "RdBu_r"  # signed values around 0: gradients, scores

WIDTH, HEIGHT = 6.4, 3.2  # inches; the text column of the page is 6.4 inches wide

RC = {
    "figure.figsize": (WIDTH, HEIGHT),
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "figure.constrained_layout.use": True,
    "figure.dpi": 100,
    "savefig.dpi": 144,
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.labelsize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": COLOUR["grey"],
    "axes.axisbelow": True,
    "axes.grid": False,
    "axes.prop_cycle": cycler(color=[COLOUR[name] for name in LINES]) + cycler(linestyle=DASHES),
    "grid.color": "#D9D9D9",
    "lines.linewidth": 1.8,
    "lines.markersize": 5,
    "legend.frameon": False,
    "image.cmap": SEQUENTIAL,
    "image.interpolation": "nearest",
    "svg.hashsalt": "handgrad",  # the ids inside an SVG: the same figure is the same file
}


def style():
    """A context in which Matplotlib has the book's defaults, whatever was set before."""
    return mpl.rc_context(RC)


def subplots(rows=1, columns=1, size=(WIDTH, HEIGHT), **kwargs):
    """Return ``fig, axes`` like ``pyplot.subplots``, but outside pyplot's list of open figures.

    So a notebook shows the figure once, where it is the last value of a cell, and nothing needs closing.
    ``kwargs`` go to ``Figure.subplots`` (``sharex``, ``width_ratios``, ...).
    """
    with style():
        fig = Figure(figsize=size)
        return fig, fig.subplots(rows, columns, **kwargs)


def _show_as_svg():
    """In Jupyter, show figures as SVG, without a date inside. Elsewhere, do nothing."""
    try:
        shell = get_ipython()  # defined by IPython, and only there
    except NameError:
        return
    from matplotlib_inline.backend_inline import set_matplotlib_formats
    from matplotlib_inline.config import InlineBackend

    backend = InlineBackend.instance(parent=shell)  # remembered, should pyplot be imported later
    backend.print_figure_kwargs = {"bbox_inches": "tight", "metadata": {"Date": None}}
    backend.figure_formats = {"svg"}
    set_matplotlib_formats("svg")


mpl.rcParams.update(RC)
_show_as_svg()
