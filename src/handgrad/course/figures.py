"""The look of every figure in the book, and the figures that several chapters draw.

Importing this module sets Matplotlib's defaults and, inside Jupyter, shows figures as SVG. What one chapter
alone draws is in ``handgrad.chapters.TOPIC.figures``. Here is what they share: ``losses`` of trainings,
``named_levels``, ``fault_table``, ``heat_map`` and ``heat_maps``, ``market``, ``backward_graph``,
``one_query``. A notebook imports its chapter's figures as ``figures`` and this module as ``shared``. Each
function returns a ``Figure``, which a notebook shows by calling it last in a cell; ``named_levels``,
``heat_map`` and ``market`` draw on given axes.

>>> from handgrad.course.figures import COLOUR, subplots
>>> fig, ax = subplots()
>>> line, = ax.plot([0, 1], [0, 1], color=COLOUR["blue"])

Colours are those of Okabe and Ito, "Color Universal Design" (2008): readers with any common form of colour
blindness can tell them apart. Successive lines differ in dash as well, so that colour is never the only
difference. The ground is white in both of the book's themes, so a reader sees the contrasts chosen here.
"""

import matplotlib as mpl
import numpy as np
from cycler import cycler
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyBboxPatch
from matplotlib.path import Path
from matplotlib.ticker import LogFormatter
from scipy.optimize import isotonic_regression

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

PALE = {"sky": "#DCEBF5", "orange": "#FBEBCC", "green": "#D5EEE6", "grey": "#E6E6E6"}  # behind words

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


def box(ax, x, y, words, colour, wide=0.88, high=0.6, **text):
    """Write words in a rounded box around (x, y). colour: of PALE; text: how they are written."""
    where = (x - wide / 2, y - high / 2), wide, high
    frame = FancyBboxPatch(*where, boxstyle="round,pad=0,rounding_size=0.1", fc=PALE[colour], lw=0, zorder=2)
    ax.add_patch(frame)
    ax.text(x, y, words, ha="center", va="center", zorder=3, **text)


# Losses -----------------------------------------------------------------------------------------------------

MARKS = ("o", "s", "^", "D", "v", "P")
NAME = 9  # points, the size of a level's name
LONGEST = 24  # letters, the longest name of a level that leaves room for the curves


def losses(
    curves,
    levels=(),
    *,
    dots=(),
    points=(),
    diverged=(),
    mean=1,
    unit="",
    low=0,
    high=None,
    log=False,
    ax=None,
):
    """Losses over the updates of a training, beside levels known before it began.

    curves: {label: losses (N,)}, the loss of update 1 first. levels: {name: loss}, horizontal lines, their
    names in the right margin. dots: {label: losses (M,)}, at most 25 of them drawn as circles, for a second
    program whose curve should lie on the first. points: {label: pairs (update, loss)}, as of data held out.
    diverged: labels of curves that end in a cross. mean: each value is the mean of so many updates. unit: of
    the loss. low, high: the loss at the bottom and top, None for where the data end. log: logarithmic losses,
    for which `low` 0 means None. ax: axes of a figure of `subplots`; None for a figure of its own.

    Raises ValueError if there is no curve, if a curve is not one axis of finite numbers or is shorter than
    `mean`, if `diverged` names no curve, if a level is not finite, has a name of more than 24 letters, or if
    there are more levels than names fit beside the axes; if on a logarithmic axis a number is not positive.
    """
    if not curves:
        raise ValueError("curves: expected at least one, got none")
    curves = {label: _numbers(f"curves[{label!r}]", x, 1, log) for label, x in curves.items()}
    dots = {label: _numbers(f"dots[{label!r}]", x, 1, log) for label, x in dict(dots).items()}
    points = {label: _numbers(f"points[{label!r}]", x, 2) for label, x in dict(points).items()}
    levels = {name: float(_numbers(f"levels[{name!r}]", x, 0, log)) for name, x in dict(levels).items()}
    for label, x in points.items():
        if x.shape[1:] != (2,) or (log and (x[:, 1] <= 0).any()):
            raise ValueError(f"points[{label!r}]: expected pairs (update, loss), got {x.tolist()}")
    for label, x in curves.items():
        if len(x) < mean:
            raise ValueError(f"curves[{label!r}]: expected at least {mean} losses for a mean, got {len(x)}")
    for label in diverged:
        if label not in curves:
            raise ValueError(f"diverged: expected labels of curves, {list(curves)}, got {label!r}")
    for name in levels:
        if len(name) > LONGEST:
            raise ValueError(f"levels: expected names of at most {LONGEST} letters, got {name!r}")

    labels = [*curves, *dots, *points]
    columns = min(len(labels), max(1, 84 // (max(map(len, labels)) + 7)))
    if ax is None:
        _, ax = subplots(size=(WIDTH, HEIGHT + 0.2 * -(-len(labels) // columns)))
    for n, (label, x) in enumerate(curves.items()):
        x, width = np.convolve(x, np.full(mean, 1 / mean), mode="valid"), max(2.2 - 0.2 * n, 1.2)
        look = dict(color=COLOUR[LINES[n % len(LINES)]], ls=DASHES[n % len(DASHES)])
        ax.plot(np.arange(mean, mean + len(x)), x, lw=width if len(curves) > 1 else 1.4, label=label, **look)
        if label in diverged:
            end = x[-1] if high is None else min(x[-1], high)
            ax.plot(mean + len(x) - 1, end, "x", color=look["color"], ms=10, mew=2.5, clip_on=False)
    for label, x in dots.items():
        every = np.arange(0, len(x), -(-len(x) // 25))
        ax.plot(every + 1, x[every], "o", ms=4.5, mfc="none", color=COLOUR["black"], label=label)
    for n, (label, x) in enumerate(points.items()):
        ax.plot(*x.T, "sD^"[n % 3], ms=6, color=COLOUR["vermilion"], ls="none", clip_on=False, label=label)
    ax.update_datalim([(mean, level) for level in levels.values()])  # the axis ends beyond them
    if log:
        ax.set_yscale("log")
        ax.yaxis.set_major_formatter(LogFormatter())  # 3, and not 3 × 10⁰
        ax.yaxis.set_minor_formatter(LogFormatter())
    ax.set(xlabel="update", ylabel=f"loss in {unit}" if unit else "loss")
    if mean > 1:
        ax.set_ylabel(f"{ax.get_ylabel()}, mean of {mean} updates")
    ax.set_ylim(None if log and low == 0 else low, high)
    if len(labels) > 1:
        ax.figure.legend(loc="outside upper left", ncols=columns)
    named_levels(ax, levels)
    return ax.figure


def named_levels(ax, levels):
    """Dotted lines at levels {name: loss}, and their names in the right margin, apart from each other.

    Call it when all else is drawn. Raises ValueError if there are more than fit beside the axes.
    """
    if not levels:
        return
    for level in levels.values():
        ax.axhline(level, color=COLOUR["black"], lw=1, ls=":", zorder=0)
    levels = dict(sorted(levels.items(), key=lambda item: item[1]))
    look = dict(xycoords=ax.get_yaxis_transform(), textcoords="offset points", fontsize=NAME, va="center")
    line = dict(arrowstyle="-", color=COLOUR["grey"], lw=0.8, shrinkA=0, shrinkB=0)
    names = [
        ax.annotate(
            name, (1, level), (16, 0), arrowprops=line | {"relpos": (0, 0.5)}, annotation_clip=False, **look
        )
        for name, level in levels.items()
    ]
    ax.figure.draw_without_rendering()  # settles how high the axes are
    point = ax.figure.dpi / 72
    bottom, top = ax.get_window_extent().extents[[1, 3]] / point
    heights = ax.transData.transform([(0, level) for level in levels.values()])[:, 1] / point
    places = apart(heights, 1.4 * NAME, bottom, top)
    for name, place, height in zip(names, places, heights, strict=True):
        name.set_position((16, place - height))


def apart(places, gap, low, high):
    """Places nearest to the given ascending ones (n,), at least `gap` apart, from `low` to `high`.

    Raises ValueError if so many do not fit.
    """
    steps = gap * np.arange(len(places))
    if steps[-1] > high - low:
        most = int((high - low) // gap) + 1
        raise ValueError(f"levels: expected at most {most} beside axes of this height, got {len(places)}")
    return np.clip(isotonic_regression(places - steps).x, low, high - steps[-1]) + steps


def _numbers(name, x, axes, positive=False):
    """x as an array of finite numbers with so many axes; `name` stands in the message if it is none."""
    x = np.asarray(x, dtype=float)
    if x.ndim != axes or (axes and not x.size):
        raise ValueError(f"{name}: expected numbers in {axes} axes, got shape {x.shape}")
    if not np.isfinite(x).all() or (positive and (x <= 0).any()):
        raise ValueError(f"{name}: expected finite{' positive' if positive else ''} numbers, got {x}")
    return x


# Tables -----------------------------------------------------------------------------------------------------


def fault_table(errors, faults, checks, tolerance, within="passes"):
    """A table of relative errors: a row for each fault, a column for each thing that may show it.

    errors: (faults, checks), each 0 or more; an infinite error shows. A cell is coloured and names its error
    if that is above `tolerance`; else it is pale and says `within`.

    Raises ValueError if errors has another shape, or if one is negative or not a number, or if tolerance is
    not positive and finite.
    """
    errors, shape = np.asarray(errors, dtype=float), (len(faults), len(checks))
    if errors.shape != shape or not errors.size:
        raise ValueError(f"errors: expected shape {shape}, a row for each fault, got {errors.shape}")
    if not (errors >= 0).all():
        raise ValueError(f"errors: expected numbers of 0 or more, got {errors[~(errors >= 0)][0]}")
    if not 0 < tolerance < np.inf:
        raise ValueError(f"tolerance: expected a positive number, got {tolerance}")
    fig, ax = subplots(size=(WIDTH, 0.42 * len(faults) + 0.25 * (2 + max(c.count("\n") for c in checks))))
    shows = errors > tolerance
    ax.imshow(shows, cmap="Oranges", vmin=0, vmax=2.4, aspect="auto")
    for (i, j), error in np.ndenumerate(errors):
        text = _per_cent(error) if shows[i, j] else within
        look = dict(fontweight="bold") if shows[i, j] else dict(color=COLOUR["grey"], fontstyle="italic")
        ax.text(j, i, text, ha="center", va="center", **look)
    ax.set_xticks(np.arange(shape[1] - 1) + 0.5, minor=True)
    ax.set_yticks(np.arange(shape[0] - 1) + 0.5, minor=True)
    ax.grid(which="minor", color=COLOUR["grey"], lw=0.5, ls="-")
    ax.set_xticks(range(shape[1]), checks)
    ax.set_yticks(range(shape[0]), faults)
    ax.xaxis.tick_top()
    ax.tick_params(which="both", length=0)
    ax.spines[:].set_visible(False)
    return fig


def _per_cent(error):
    if np.isinf(error):
        return "∞"
    return f"{error:.0%}" if error >= 0.01 else f"{error:.0e}"


# Heat maps --------------------------------------------------------------------------------------------------


def heat_map(ax, values, rows, columns, *, limits=(0, 1), power=1, title="", across="", down="", size=9):
    """Draw values (R, C) as coloured cells on ax, a name for each row and column; return the image.

    limits: the values at both ends of the colours. power: colours go with the value's distance from the lower
    limit to this power; below 1 shows small ones. across, down: what the columns and the rows are. size: of
    the names, in points. Names of columns longer than two letters in a line are turned upright.

    Raises ValueError if values is not of shape (R, C), or if a value is outside the limits or not a number.
    """
    values, shape = np.asarray(values, dtype=float), (len(rows), len(columns))
    if values.shape != shape or not values.size:
        raise ValueError(f"values: expected shape {shape}, as many as rows and columns, got {values.shape}")
    low, high = limits
    slack = 1e-9 * (high - low)
    if not ((values >= low - slack) & (values <= high + slack)).all():
        raise ValueError(
            f"values: expected numbers from {low} to {high}, got {values.min()} to {values.max()}"
        )
    image = ax.imshow(values, cmap=SEQUENTIAL, norm=PowerNorm(power, low, high), aspect="auto")
    long = any(len(line) > 2 for name in columns for line in str(name).split("\n"))
    ax.set_xticks(range(shape[1]), columns, rotation=90 if long else 0, fontsize=size)
    ax.set_yticks(range(shape[0]), rows, fontsize=size)
    ax.tick_params(length=0)
    ax.set(xlabel=across, ylabel=down)
    ax.set_title(title, fontsize=size + 1)
    return image


def heat_maps(maps, label, *, height=None, **look):
    """Heat maps side by side with one bar of colours, named `label`: maps {title: (values, rows, columns)}.

    height: inches; None for what the names need. look: as for `heat_map`. Where all maps have the same rows,
    only the first names them.

    Raises ValueError if there is no map, and what `heat_map` raises.
    """
    if not maps:
        raise ValueError("maps: expected at least one, got none")
    _, rows, columns = zip(*maps.values(), strict=True)
    same_rows = all(list(names) == list(rows[0]) for names in rows)
    widths = [len(names) + (0 if same_rows else 2.5) for names in columns]
    height = height or 0.27 * max(map(len, rows)) + 1.6
    fig, axes = subplots(1, len(maps), (WIDTH, height), width_ratios=widths, squeeze=False)
    for ax, (title, drawn) in zip(axes[0], maps.items(), strict=True):
        image = heat_map(ax, *drawn, title=title, **look)
        if ax is not axes[0, 0]:
            ax.tick_params(labelleft=not same_rows)
            ax.set_ylabel("")
    fig.colorbar(image, ax=axes, label=label, shrink=0.8, aspect=25)
    return fig


# Attention --------------------------------------------------------------------------------------------------


def market(axes, dy, du, a, v):
    """What comes back to the scores of one query, on two axes.

    Left: values v (S, 2), as large as their weights a (S,), their average y, and dy (2,), which arrives
    there. Right: what each score gets, du (S,), vermilion where a descent lowers the score.
    """
    left, right = axes
    y, reach, places = a @ v, 1.3 * np.abs(v).max(), range(len(v))
    colours = [COLOUR["vermilion" if x > 0 else "blue"] for x in du]
    left.scatter(*v.T, s=(900 + 6600 * a) / len(v), color=colours, alpha=0.75, lw=0)
    for j, place in enumerate(v):
        left.text(*place, j, ha="center", va="center", fontsize=8, color="white", fontweight="bold")
    across = 3 * reach * np.array([-dy[1], dy[0]])
    left.plot(*np.array([y - across, y + across]).T, color=COLOUR["grey"], lw=1, ls=":")
    left.plot(*y, "*", color=COLOUR["black"], ms=13, mec="white")
    left.annotate(
        "", y + 0.43 * reach * dy, y, arrowprops=dict(arrowstyle="-|>", lw=2, color=COLOUR["black"])
    )
    left.text(*(y + 0.54 * reach * dy), "dy", ha="center", va="center", fontsize=11)
    left.set(title="values, output, dy", xticks=[], yticks=[], aspect="equal")
    left.set(xlim=(-reach, reach), ylim=(-reach, reach))
    left.spines[:].set_visible(False)
    right.barh(places, du, color=colours)
    right.axvline(0, color=COLOUR["grey"], lw=1, ls="-")
    right.set(title="du: in a row they sum to 0", xlim=(-0.36, 0.36), ylabel="score")
    right.set(xlabel="du; descent goes the other way")
    right.set_yticks(places, places)
    right.invert_yaxis()


# Graphs -----------------------------------------------------------------------------------------------------

LABEL = 12.5  # points; 9 pixels where the figure is scaled to a telephone's column of 358
BACK = ("vermilion", "--")  # the look of a gradient
FORTH = ("blue", "-")  # the look of a value
BESIDE = 4  # points from the middle of an edge to each of its lines
STOPS = (0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8)  # where a text may stand, as shares of its edge


def backward_graph(nodes, edges, height=3.4):
    """Operations from left to right: values go forward on solid lines, gradients back on dashed ones.

    nodes: {name: (column, row)}, places in any units, row 0 below row 1. edges: tuples (from, to, value,
    shape, gradient) of names and texts: the value and its shape stand beside the solid line, the gradient on
    the other side, beside the dashed one. An empty text is left out; without a gradient there is no dashed
    line. height: inches.

    Raises KeyError if an edge names no node, ValueError if one leads to the left, if nodes overlap or leave
    the figure, or if no place is left for a text beside the others and the lines, inside the figure.
    """
    for start, end, *_ in edges:
        if start == end or nodes[start][0] > nodes[end][0]:
            raise ValueError(f"edges: expected edges to the right, got one from {start!r} to {end!r}")

    fig, ax = subplots(size=(WIDTH, height))
    fig.set_layout_engine("none")
    ax.set(position=(0, 0, 1, 1), xlim=(0, 72 * WIDTH), ylim=(0, 72 * height))  # one unit is one point
    ax.set_axis_off()
    looks = [(FORTH, "values, forward"), (BACK, "gradients, backward")]
    handles = [Line2D([], [], color=COLOUR[colour], ls=dash, label=label) for (colour, dash), label in looks]
    legend = ax.legend(handles=handles, loc="upper center", ncols=2, fontsize=LABEL, borderaxespad=0)
    cells = np.array(list(nodes.values()), float)  # (nodes, 2)
    room = 72 * np.array([WIDTH, height]) - (80, 76)  # without margins and legend
    shares = (cells - cells.min(axis=0)) / np.maximum(np.ptp(cells, axis=0), 1)
    places = dict(zip(nodes, (44, 28) + room * shares, strict=True))
    look = dict(ha="center", va="center", fontsize=LABEL + 1, zorder=3)
    look["bbox"] = dict(boxstyle="round,pad=0.4", fc="white", ec=COLOUR["grey"])
    boxes = {name: ax.text(*place, name, **look) for name, place in places.items()}
    fig.draw_without_rendering()  # places the legend, and the frames around the nodes
    taken = [legend.get_window_extent()]
    for name, box in boxes.items():
        extent = box.get_bbox_patch().get_window_extent()
        if extent.count_overlaps(taken) or not _within(ax, extent):
            raise ValueError(f"nodes: expected room inside the figure for each, got none for {name!r}")
        taken.append(extent)
    lines, labels = [], []
    for start, end, value, shape, gradient in edges:
        tail, head = places[start], places[end]
        along = (head - tail) / np.linalg.norm(head - tail)
        up = np.array([-along[1], along[0]])  # a quarter turn to the left: up, for an edge to the right
        ways = [(FORTH, 1, start, end, f"{value} {shape}".strip())]
        ways += [(BACK, -1, end, start, gradient)] if gradient else []
        for (colour, dash), side, first, last, words in ways:
            shift = side * BESIDE * up if gradient else 0 * up
            ends = places[last] + shift, places[first] + shift
            arrow = dict(arrowstyle="-|>,head_width=0.25,head_length=0.5", color=COLOUR[colour], lw=1.8)
            arrow |= dict(patchA=boxes[first].get_bbox_patch(), patchB=boxes[last].get_bbox_patch())
            ax.annotate("", *ends, arrowprops=arrow | dict(ls=dash, shrinkA=2, shrinkB=2))
            lines.append(Path(ax.transData.transform(ends)))
            if words:
                labels.append((words, COLOUR[colour], tail, head, side * up))
    for label in labels:
        taken.append(_beside(ax, *label, lines, taken))
    return fig


def _beside(ax, words, colour, tail, head, out, lines, taken):
    """Write words outside an edge, where neither a line nor a place already taken is; return their extent."""
    where = dict(
        ha="center" if abs(out[0]) < 0.1 else "left" if out[0] > 0 else "right",
        va="center" if abs(out[1]) < 0.1 else "bottom" if out[1] > 0 else "top",
    )
    text = ax.text(0, 0, words, fontsize=LABEL, color=colour, **where)
    for stop in STOPS:
        text.set_position(tail + stop * (head - tail) + out * (BESIDE + 4))
        extent = text.get_window_extent()
        crossed = extent.count_overlaps(taken) or any(line.intersects_bbox(extent) for line in lines)
        if _within(ax, extent) and not crossed:
            return extent
    raise ValueError(f"edges: expected room beside each edge, got none for {words!r}; shorten or move it")


def _within(ax, extent):
    return all(ax.bbox.contains(*corner) for corner in extent.corners())


def one_query(scores, weights, values, y, du, words=None):
    """The graph of one query and its keys. dy is 1, so the gradient of a weight is the value of its key.

    All are texts: scores, weights, values and the gradients du of the scores by key, and the output y.
    words: what the keys belong to; None if that has no name.
    """
    keys = range(len(scores))
    u = [f"{word}\n$u_{j}$" for j, word in enumerate(words)] if words else [f"$u_{j}$" for j in keys]
    nodes = {u[j]: (0, 1 - j) for j in keys} | {"softmax": (1.8, 0)}
    nodes |= {f"$a_{j}$": (3.2, 1 - j) for j in keys} | {"$y$": (4.5, 0), "$L$": (5.6, 0)}
    edges = [(u[j], "softmax", scores[j], "", du[j]) for j in keys]
    edges += [("softmax", f"$a_{j}$", weights[j], "", values[j]) for j in keys]
    edges += [(f"$a_{j}$", "$y$", f"× {values[j]}", "", values[j]) for j in keys]
    return backward_graph(nodes, [*edges, ("$y$", "$L$", y, "", "1")], height=4.2)


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
