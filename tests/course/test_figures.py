"""The shared figures draw what they are given, refuse the rest, and keep their texts apart and inside."""

from itertools import combinations

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.text import Text

from handgrad.chapters.normalization.figures import three_paths
from handgrad.course.figures import (
    COLOUR,
    LABEL,
    NAME,
    apart,
    backward_graph,
    fault_table,
    heat_map,
    heat_maps,
    losses,
    subplots,
)

FALLING = np.random.default_rng(0).standard_normal(60) * 0.1 + np.linspace(3, 1, 60)


def extents(fig, texts=None):
    """Places of the texts that are seen, in pixels: {text: extent}."""
    fig.draw_without_rendering()
    texts = fig.findobj(Text) if texts is None else texts
    seen = [text for text in texts if text.get_visible() and text.get_text().strip()]
    return {text: Text.get_window_extent(text) for text in seen}  # without arrows


def inside(fig):
    """Whether all that is drawn lies within the figure, to a hundredth of an inch."""
    fig.draw_without_rendering()
    drawn, (width, height) = fig.get_tightbbox(), fig.get_size_inches()
    return min(drawn.x0, drawn.y0, width - drawn.x1, height - drawn.y1) > -0.01


def overlapping(fig, texts):
    pairs = combinations(extents(fig, texts).items(), 2)
    return [(one.get_text(), two.get_text()) for (one, a), (two, b) in pairs if a.overlaps(b)]


def lines(ax):
    """The lines that the reader finds in the legend: {label: (x, y)}."""
    return {line.get_label(): line.get_data() for line in ax.lines if not line.get_label().startswith("_")}


def text(fig, words):
    (found,) = [text for text in fig.findobj(Text) if text.get_text() == words]
    return found


def test_the_checks_of_this_file_see_what_is_wrong():
    fig, ax = subplots()
    one, two = ax.text(0.5, 0.5, "one"), ax.text(0.5, 0.52, "two")
    assert overlapping(fig, [one, two]) == [("one", "two")] and inside(fig)
    fig.text(0.98, 0.5, "beyond the edge")
    assert not inside(fig)


# Losses -----------------------------------------------------------------------------------------------------


def test_losses_draws_curves_dots_points_and_levels():
    held_out = [(0, 3.0), (60, 1.1)]
    fig = losses(
        {"ours": FALLING}, {"floor": 0.9}, dots={"theirs": 2 * FALLING}, points={"held out": held_out}
    )
    drawn = lines(fig.axes[0])
    np.testing.assert_array_equal(drawn["ours"], [np.arange(1, 61), FALLING])
    np.testing.assert_array_equal(drawn["theirs"], [np.arange(1, 61, 3), 2 * FALLING[::3]])
    np.testing.assert_array_equal(np.transpose(drawn["held out"]), held_out)
    (level,) = [line for line in fig.axes[0].lines if line.get_linestyle() == ":"]
    assert list(level.get_ydata()) == [0.9, 0.9] and text(fig, "floor").xy[1] == 0.9
    assert {entry.get_text() for entry in fig.legends[0].get_texts()} == set(drawn)
    assert inside(fig)


def test_losses_takes_means_and_says_so():
    ax = losses({"ours": FALLING}, mean=10, unit="nats").axes[0]
    x, y = lines(ax)["ours"]
    assert x[0] == 10 and x[-1] == 60
    np.testing.assert_allclose(y[[0, -1]], [FALLING[:10].mean(), FALLING[-10:].mean()], rtol=1e-12)
    assert ax.get_ylabel() == "loss in nats, mean of 10 updates"


def test_curves_differ_in_colour_and_in_dash():
    drawn = losses({str(n): FALLING + n for n in range(6)}).axes[0].lines
    assert len({line.get_color() for line in drawn}) == 6
    assert len({str(line._unscaled_dash_pattern) for line in drawn}) == 6


@pytest.mark.parametrize("high, seen", [(None, 9.0), (4, 4)])
def test_a_cross_marks_where_a_curve_diverged(high, seen):
    wild = np.array([3.0, 5.0, 9.0])
    ax = losses({"right": FALLING, "wild": wild}, diverged=["wild"], high=high).axes[0]
    (cross,) = [line for line in ax.lines if line.get_marker() == "x"]
    assert cross.get_xdata() == 3 and cross.get_ydata() == seen
    assert cross.get_color() == COLOUR["vermilion"]


def test_losses_draws_on_given_axes_with_a_logarithm():
    fig, (left, right) = subplots(1, 2)
    assert losses({"ours": FALLING}, {"floor": 0.5}, ax=right, log=True) is fig
    assert not left.lines and list(lines(right)) == ["ours"] and inside(fig)
    assert right.get_yscale() == "log" and 0 < right.get_ylim()[0] <= 0.5


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize(
    "levels", [[1.0, 1.0, 1.0], [0.9, 0.95, 1.0, 1.05, 3.0], list(np.linspace(1, 1.2, 12))]
)
def test_names_of_levels_stand_apart_inside_and_in_order(levels, log):
    named = {f"a level called {n}": level for n, level in enumerate(levels)}
    fig = losses({"ours": FALLING, "theirs": FALLING}, named, log=log)
    texts = [text(fig, name) for name in named]
    assert overlapping(fig, texts) == [] and inside(fig)
    heights = [place.y0 for place in extents(fig, texts).values()]
    assert heights == sorted(heights)
    assert texts[0].get_fontsize() == NAME


def test_apart_moves_no_more_than_it_must():
    np.testing.assert_allclose(apart(np.array([1.0, 5.0, 9.0]), 2, 0, 10), [1, 5, 9])
    np.testing.assert_allclose(apart(np.array([5.0, 5.0, 9.0]), 2, 0, 10), [4, 6, 9])
    np.testing.assert_allclose(apart(np.array([-1.0, 0.0, 20.0]), 2, 0, 10), [0, 2, 10])
    with pytest.raises(ValueError, match="levels: expected at most 6 .* got 7"):
        apart(np.zeros(7), 2, 0, 10)


def curves(*values, **others):
    """The arguments of losses, with one curve."""
    return dict(curves={"a": list(values)}) | others


@pytest.mark.parametrize(
    "arguments, message",
    [
        (dict(curves={}), "curves: expected at least one"),
        (curves(), r"curves\['a'\]: expected numbers in 1 axes"),
        (curves([1.0]), r"curves\['a'\]: expected numbers in 1 axes, got shape \(1, 1\)"),
        (curves(1.0, np.nan), r"curves\['a'\]: expected finite"),
        (curves(1.0, 0.0, log=True), r"curves\['a'\]: expected finite positive"),
        (curves(1.0, mean=2), r"curves\['a'\]: expected at least 2 losses"),
        (curves(1.0, dots={"b": [np.inf]}), r"dots\['b'\]: expected finite"),
        (curves(1.0, points={"b": [(1, 2, 3)]}), r"points\['b'\]: expected pairs"),
        (curves(1.0, points={"b": [(1, -1)]}, log=True), r"points\['b'\]: expected pairs"),
        (curves(1.0, levels={"b": np.nan}), r"levels\['b'\]: expected finite"),
        (curves(1.0, levels={"b" * 25: 1.0}), "levels: expected names of at most 24"),
        (curves(1.0, levels={str(n): 1.0 for n in range(40)}), "levels: expected at most"),
        (curves(1.0, diverged=["b"]), r"diverged: expected labels of curves, \['a'\], got 'b'"),
    ],
)
def test_losses_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        losses(**arguments)


# Tables -----------------------------------------------------------------------------------------------------


def test_fault_table_says_each_error_and_colours_those_that_show():
    errors = np.array([[0.0, 1.5], [1e-10, 0.004], [1e-9, np.inf]])
    fig = fault_table(errors, ["zeros", "sign", "twice"], ["one\nhere", "two"], tolerance=1e-9)
    ax = fig.axes[0]
    words = [text.get_text() for text in ax.texts]
    assert words == ["passes", "150%", "passes", "4e-03", "passes", "∞"]
    np.testing.assert_array_equal(ax.images[0].get_array(), errors > 1e-9)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["zeros", "sign", "twice"]
    assert inside(fig) and overlapping(fig, [*ax.texts, *ax.get_xticklabels()]) == []


@pytest.mark.parametrize(
    "errors, tolerance, message",
    [
        (np.zeros((2, 1)), 1e-9, r"errors: expected shape \(1, 2\).* got \(2, 1\)"),
        ([[np.nan, 0]], 1e-9, "errors: expected numbers of 0 or more, got nan"),
        ([[0, -1]], 1e-9, "errors: expected numbers of 0 or more, got -1"),
        *(
            ([[0, 1]], bad, f"tolerance: expected a positive number, got {bad}")
            for bad in (0, np.nan, np.inf)
        ),
    ],
)
def test_fault_table_refuses(errors, tolerance, message):
    with pytest.raises(ValueError, match=message):
        fault_table(errors, ["fault"], ["a", "b"], tolerance)


# Heat maps --------------------------------------------------------------------------------------------------

WEIGHTS = np.random.default_rng(1).uniform(size=(3, 4))
ROWS, COLUMNS = ("le", "petit", "chat"), ("the", "little", "cat", "<eos>")


def test_heat_map_draws_the_values_and_names_rows_and_columns():
    fig, ax = subplots()
    image = heat_map(ax, WEIGHTS, ROWS, COLUMNS, title="one", across="read", down="written")
    np.testing.assert_array_equal(image.get_array(), WEIGHTS)
    assert image.norm(0) == 0 and image.norm(0.25) == 0.25 and image.norm(1) == 1
    assert tuple(label.get_text() for label in ax.get_xticklabels()) == COLUMNS
    assert tuple(label.get_text() for label in ax.get_yticklabels()) == ROWS
    assert text(fig, "one").get_fontsize() == ax.get_yticklabels()[0].get_fontsize() + 1
    assert (ax.get_title(loc="left"), ax.get_xlabel(), ax.get_ylabel()) == ("one", "read", "written")
    assert inside(fig)


@pytest.mark.parametrize("same", [True, False])
def test_heat_maps_name_rows_that_are_shared_once(same):
    second = (WEIGHTS / 2, ROWS, COLUMNS) if same else (WEIGHTS.T, COLUMNS, ROWS)
    fig = heat_maps({"a": (WEIGHTS, ROWS, COLUMNS), "b": second}, "weight", across="read", down="written")
    left, right, bar = fig.axes
    np.testing.assert_array_equal(right.images[0].get_array(), second[0])
    assert [ax.yaxis.get_tick_params()["labelleft"] for ax in (left, right)] == [True, not same]
    assert (left.get_ylabel(), right.get_ylabel(), bar.get_ylabel()) == ("written", "", "weight")
    assert inside(fig)


@pytest.mark.parametrize(
    "maps, message",
    [
        ({"a": (WEIGHTS.T, ROWS, COLUMNS)}, r"values: expected shape \(3, 4\).* got \(4, 3\)"),
        ({"a": (WEIGHTS + 1, ROWS, COLUMNS)}, "values: expected numbers from 0 to 1, got"),
        ({"a": (WEIGHTS - 1, ROWS, COLUMNS)}, "values: expected numbers from 0 to 1, got"),
        ({"a": (WEIGHTS * np.nan, ROWS, COLUMNS)}, "values: expected numbers from 0 to 1, got nan"),
        ({}, "maps: expected at least one"),
    ],
)
def test_heat_maps_refuses(maps, message):
    with pytest.raises(ValueError, match=message):
        heat_maps(maps, "weight")


# Graphs -----------------------------------------------------------------------------------------------------

NODES = {"x": (0, 0), "exp": (1, 1), "sum": (1.5, -1), "y": (3, 0)}
EDGES = [
    ("x", "exp", "$x$", "(T,)", "$e\\,de$"),
    ("exp", "y", "$e$", "(T,)", "$de$"),
    ("exp", "sum", "$e$", "(T,)", "$dz$"),
    ("sum", "y", "$z$", "()", "$dz$"),
    ("x", "sum", "", "", ""),
]
LONG = "a name that is far too long for its box"


def arrows(fig):
    return [text for text in fig.axes[0].texts if getattr(text, "arrow_patch", None)]


@pytest.mark.parametrize("draw", [three_paths, lambda: backward_graph(NODES, EDGES)], ids=["05", "small"])
def test_a_graph_keeps_its_texts_apart_and_inside_and_large(draw):
    fig = draw()
    texts = [text for text in fig.findobj(Text) if text.get_text()]
    assert overlapping(fig, texts) == [] and inside(fig)
    pixels = 358 / (96 * fig.get_figwidth()) * 96 / 72  # of a point, on a telephone 390 pixels wide
    assert min(text.get_fontsize() for text in texts) * pixels >= 9 and LABEL * pixels >= 9


def test_values_go_right_on_solid_lines_and_gradients_left_below_them_on_dashed_ones():
    fig = backward_graph({"a": (0, 0), "b": (1, 0)}, [("a", "b", "$v$", "(T,)", "$g$")])
    a, b = (text(fig, name).get_position()[0] for name in "ab")
    forth, back = arrows(fig)
    assert (forth.xyann[0], forth.xy[0]) == (a, b) and (back.xyann[0], back.xy[0]) == (b, a)
    looks = [(x.arrow_patch.get_linestyle(), to_hex(x.arrow_patch.get_edgecolor())) for x in (forth, back)]
    assert looks == [("-", COLOUR["blue"].lower()), ("--", COLOUR["vermilion"].lower())]
    value, gradient = (text(fig, words).get_position()[1] for words in ("$v$ (T,)", "$g$"))
    assert value > forth.xy[1] > back.xy[1] > gradient
    assert len(arrows(backward_graph(NODES, EDGES))) == 5 + 4  # none for a gradient that is not told


@pytest.mark.parametrize(
    "nodes, edges, message",
    [
        (NODES, [("y", "x", "", "", "")], "edges: expected edges to the right, got one from 'y' to 'x'"),
        (NODES, [("x", "x", "", "", "")], "edges: expected edges to the right, got one from 'x' to 'x'"),
        (NODES | {"w": (0, 0)}, EDGES, "nodes: expected room inside the figure for each, got none for 'w'"),
        ({LONG: (0, 0), "y": (1, 0)}, [], f"expected room inside the figure for each, got none for '{LONG}"),
        (NODES, [("x", "y", 2 * LONG, "", "")], "expected room beside each edge"),
        ({"x": (0, 0), "y": (1, 0)}, [("x", "y", "$v$", "", "")] * 9, "expected room beside each edge"),
    ],
)
def test_backward_graph_refuses(nodes, edges, message):
    with pytest.raises(ValueError, match=message):
        backward_graph(nodes, edges)
