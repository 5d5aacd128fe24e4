"""The plan of the book, the map drawn from it, and the suggested ways, which can be gone."""

import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import networkx
import numpy as np
import pytest
import yaml

from book._ext import chapter_graph, chapter_map
from handgrad.course import evidence, judge, plan

ROOT = Path(__file__).parents[2]
CHAPTERS = plan.chapters(ROOT)
ADDRESSES = {chapter.page: f"{chapter.page}.html" for chapter in CHAPTERS}


def test_every_exercise_of_the_judge_is_set_once():
    known = {topic: tuple(names) for topic, names in judge.chapters().items() if names}
    assert {chapter.topic: chapter.names for chapter in CHAPTERS if chapter.names} == known


def test_the_first_page_says_how_much_there_is():
    text = (ROOT / "book/intro.md").read_text(encoding="utf-8")
    said = re.search(r"(\d+)\nchapters, (\d+) numbered .* (\d+) exercises", text).groups()
    chapters, labels, exercises = map(int, said)
    assert chapters == len(CHAPTERS)
    assert labels == sum(
        len(evidence.equations(notebook)) for _, notebook in evidence.chapters(ROOT / "notebooks")
    )
    assert exercises == sum(len(chapter.names) for chapter in CHAPTERS)


# The map ----------------------------------------------------------------------------------------------------


def points(path, pieces=24):
    """Points along a path of SVG that consists of M, L and C, but for its beginning."""
    t = np.linspace(0, 1, pieces + 1)[1:, None]
    weights = np.hstack([(1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3])
    begin = np.zeros(2)
    for letter, numbers in re.findall(r"([MLC])([^MLC]+)", path):
        ends = np.array(numbers.split(), float).reshape(-1, 2)
        if letter != "M":
            yield from weights @ (np.vstack([begin, ends]) if letter == "C" else [begin, begin, *ends, *ends])
        begin = ends[-1]


def test_the_map_has_a_link_for_each_chapter_and_no_arrow_through_a_box():
    picture = ElementTree.fromstring(chapter_graph.picture(CHAPTERS, ADDRESSES))
    boxes = {int(a.get("data-number")): a.find("rect") for a in picture.iter("a")}
    assert [a.get("href") for a in picture.iter("a")] == list(ADDRESSES.values())
    areas = {n: [float(r.get(k)) for k in ("x", "y", "width", "height")] for n, r in boxes.items()}
    width, height = map(float, picture.get("viewBox").split()[2:])
    for x, y, w, h in areas.values():
        assert 0 <= x and x + w <= width and 0 <= y and y + h <= height
    for n, (x, y, w, h) in areas.items():
        for other, (left, top, wide, high) in areas.items():
            assert n == other or x + w < left or left + wide < x or y + h < top or top + high < y
    for path in picture.find("g").iter("path"):
        for px, py in points(path.get("d")):
            for n, (x, y, w, h) in areas.items():
                inside = x + 0.01 < px < x + w - 0.01 and y + 0.01 < py < y + h - 0.01
                assert not inside, (path.attrib, n)


def test_the_map_shows_every_need_directly_or_through_others():
    edges = chapter_graph.graph(CHAPTERS)
    for chapter in CHAPTERS:
        assert set(chapter.needs) <= networkx.ancestors(edges, chapter.number)
    for start, end in edges.edges:
        assert start in CHAPTERS[end - 1].needs
        without = edges.copy()
        without.remove_edge(start, end)
        assert start not in networkx.ancestors(without, end), "an arrow that others imply"


def test_a_circle_is_refused():
    with pytest.raises(ValueError, match="no circle"):
        chapter_graph.graph([replace(CHAPTERS[0], needs=(2,)), *CHAPTERS[1:]])


def test_a_box_in_the_way_is_refused():
    in_a_column = [
        replace(c, needs=n, at=(i, 0))
        for i, (c, n) in enumerate(zip(CHAPTERS[:3], [(), (), (1,)], strict=True))
    ]
    with pytest.raises(ValueError, match="from chapter 1 to 3"):
        chapter_graph.picture(in_a_column, ADDRESSES)


# The ways ---------------------------------------------------------------------------------------------------


def test_the_ways_are_what_they_say():
    ways = chapter_map.ways(ROOT)
    assert sum(len(stop["read"]) for stop in ways["weekend"]) == 5
    assert len(ways["course"]) == 12
    assert [n for stop in ways["course"] for n in stop["read"]] == [chapter.number for chapter in CHAPTERS]


@pytest.mark.parametrize(
    "stop, words",
    [
        ({"when": "Monday", "read": [2], "solve": {}}, "chapter 2 needs"),
        ({"when": "Monday", "read": [1], "solve": {1: [9]}}, "1: "),
        ({"when": "Monday", "read": [1], "solve": {2: [1]}}, "2: "),
    ],
)
def test_a_way_that_cannot_be_gone_is_refused(stop, words, monkeypatch):
    monkeypatch.setattr(yaml, "safe_load", lambda text: [{"way": "wrong", "stops": [stop]}])
    monkeypatch.setattr(plan, "chapters", lambda root: CHAPTERS)
    with pytest.raises(ValueError, match=f"wrong, Monday.*{words}"):
        chapter_map.ways(ROOT)


def test_hours_are_written_as_one_plans_them():
    written = [chapter_map.hours(n).replace("\xa0", " ") for n in (45, 60, 125)]
    assert written == ["45 min", "1 h 00", "2 h 05"]
