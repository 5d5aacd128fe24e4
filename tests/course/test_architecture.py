"""The picture of a GPT: each of its boxes says what the chapters have checked."""

import copy
import re

import pytest

from book._ext import architecture, cheat_sheet

BOOK, BOXES, KNOWN = cheat_sheet.of_book(), architecture.read(), architecture.functions()


def test_every_box_is_right_and_each_link_of_the_picture_has_its_card():
    assert architecture.problems(BOXES, BOOK, KNOWN) == []
    linked = re.findall(r'href="#box-([a-z-]+)"', architecture.picture(BOXES))
    assert {about["box"] for about in BOXES} == set(linked)


@pytest.mark.parametrize(
    "what, reason",
    [
        (dict(lines=["layer_norms"]), "no function 'layer_norms'"),
        (dict(forward=["eq-nothing"]), "no equation of this label"),
        (dict(backward=["eq-layer-norm-dx 9"]), "expected a statement"),
        (dict(backward=["eq-layer-norm"]), "expected a gradient"),
    ],
)
def test_what_is_wrong_is_refused(what, reason):
    boxes = copy.deepcopy(BOXES)
    next(about for about in boxes if about["box"] == "norm").update(what)
    wrong = architecture.problems(boxes, BOOK, KNOWN)
    assert len(wrong) == 1 and reason in wrong[0]
