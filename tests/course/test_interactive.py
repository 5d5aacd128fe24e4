"""The slider, the switches and the lookup: what they hold and refuse, and that the live question answers."""

from html.parser import HTMLParser
from itertools import product

import pytest

from handgrad.course.interactive import STATIC, WIDGET, frames, lookup, switches


class Elements(HTMLParser):
    """Every start tag of a page, as (name, attributes)."""

    def __init__(self, html):
        super().__init__()
        self.found = []
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))

    def all(self, tag):
        return [attributes for name, attributes in self.found if name == tag]


def line(ax, k):
    ax.plot([0, 1], [0, k])


def square(text):
    if not text.isdigit():
        raise ValueError(f"number: expected digits; got {text!r}")
    return f"{text} times {text}\nis {int(text) ** 2}"


@pytest.fixture
def slider():
    return frames(line, [0.5, 1.0, 2.0], "slope k", "a line from the origin", start=1)


def bars(ax, strip, on):
    ax.bar(range(len(on)), [(strip + 1) * value for value in on])


MASK = {
    "strips": ["query 0", "query 1"],
    "boxes": ["key 0", "key 1", "key 2"],
    "label": "mask",
    "alt": "bars",
    "presets": {"causal": [[1, 0, 0], [1, 1, 0]], "all": [[1, 1, 1], [1, 1, 1]]},
}


@pytest.fixture
def mask():
    return switches(bars, **MASK)


@pytest.fixture
def question():
    return lookup("number", "3", square, ["3", "12"])


def test_one_frame_is_visible_and_each_has_its_own_words(slider):
    images = Elements(slider.html()).all("img")
    assert ["hidden" in image for image in images] == [True, False, True]
    assert [image["alt"] for image in images] == [
        f"a line from the origin; slope k {k}" for k in ("0.5", "1", "2")
    ]
    assert len({image["src"] for image in images}) == 3
    assert all(image["src"].startswith("data:image/svg+xml,%3C?xml") for image in images)


def test_the_slider_is_native_labelled_and_starts_at_the_visible_frame(slider):
    page = Elements(slider.html())
    (control,) = page.all("input")
    assert (control["type"], control["min"], control["max"], control["value"]) == ("range", "0", "2", "1")
    assert control["aria-valuetext"] == "1"
    assert page.all("output")[0]["aria-live"] == "polite"
    assert "<label><span>slope k</span> <input" in slider.html()


def test_nothing_on_the_page_can_collide_or_come_from_elsewhere(slider, mask, question):
    for shown in (slider, mask, question):
        for _, attributes in Elements(shown.html()).found:
            assert "id" not in attributes and "for" not in attributes and "name" not in attributes
            assert not attributes.get("src", "data:").startswith("http")


def test_words_and_labels_are_escaped():
    html = frames(line, [1, 2], 'a "<b>" & c', lambda k: f'"<{k}>"').html()
    assert "<b>" not in html and [i["alt"] for i in Elements(html).all("img")] == ['"<1>"', '"<2>"']


def test_a_frame_may_have_several_axes_and_another_size():
    def pair(axes, k):
        left, right = axes
        left.plot([k, 1])
        right.plot([1, k])

    (image, _) = Elements(frames(pair, [1, 2], "k", "two lines", columns=2, size=(4, 2)).html()).all("img")
    assert (image["width"], image["height"]) == ("400", "200")


def test_a_notebook_is_offered_the_question_as_a_widget_and_the_book_is_not(question, monkeypatch):
    monkeypatch.delenv(STATIC, raising=False)
    assert set(question._repr_mimebundle_()) == {"text/plain", "text/html", WIDGET}
    monkeypatch.setenv(STATIC, "1")
    assert set(question._repr_mimebundle_()) == {"text/plain", "text/html"}


def test_what_moves_is_html_without_a_kernel(slider):
    assert slider._repr_html_() == slider.html() and not hasattr(slider, "_repr_mimebundle_")
    assert frames(line, [0.5, 1.0, 2.0], "slope k", "a line from the origin", start=1).html() == slider.html()


def test_every_setting_of_a_strip_is_drawn_and_the_first_preset_is_shown(mask):
    page = Elements(mask.html())
    images, boxes = page.all("img"), page.all("input")
    assert [image["data-value"] for image in images] == 2 * [
        "".join(bits) for bits in product("01", repeat=3)
    ]
    assert [image["data-value"] for image in images if "hidden" not in image] == ["100", "110"]
    assert ["checked" in box for box in boxes] == [True, False, False, True, True, False]
    assert all(box["type"] == "checkbox" for box in boxes)
    assert len({image["src"] for image in images}) == 2 * 8 - 1  # no bar has no height in either strip
    assert images[4]["alt"] == "bars; query 0: key 0" and images[8]["alt"] == "bars; query 1: nothing"
    assert [button["value"] for button in page.all("button")] == ["100110", "111111"]


def test_each_strip_is_drawn_with_its_own_setting():
    seen = []

    def note(_, strip, on):
        seen.append((strip, on))

    switches(note, **MASK)
    assert seen == list(product((0, 1), product((False, True), repeat=3)))


def slides(**change):
    return frames(**{"draw": line, "values": [1, 2], "label": "k", "alt": "a line"} | change)


def settings(**change):
    return switches(bars, **MASK | change)


@pytest.mark.parametrize(
    ("made", "name", "change"),
    [
        (settings, "strips", {"strips": []}),
        (settings, "strips", {"strips": ["query", "query"]}),
        (settings, "boxes", {"boxes": list("abcdefg"), "presets": {"none": [[1] * 7] * 2}}),
        (settings, "boxes", {"boxes": ["a", " ", "c"]}),
        (settings, "label", {"label": ""}),
        (settings, "alt", {"alt": lambda strip, on: None}),
        (settings, "presets", {"presets": {}}),
        (settings, "presets", {"presets": {"short": [[1, 0], [0, 1]]}}),
        (slides, "values", {"values": [1]}),
        (slides, "values", {"values": [1, 1]}),
        (slides, "start", {"start": 2}),
        (slides, "label", {"label": " "}),
        (slides, "alt", {"alt": lambda k: None}),
    ],
)
def test_bad_input_is_named(made, name, change):
    with pytest.raises(ValueError, match=f"^{name}.*expected.*got"):
        made(**change)


def test_the_lookup_holds_each_example_once_with_its_answer(question):
    options = Elements(question.html()).all("option")
    assert [option["value"] for option in options] == [square("3"), square("12")]
    assert ">3 times 3\nis 9</output>" in question.html()


def test_the_text_box_answers_and_shows_why_it_refuses(question):
    box, output = question.widget().children
    box.value = "5"
    assert "is 25" in output.value
    box.value = "five"
    assert "expected digits; got &#x27;five&#x27;" in output.value


def test_a_mistake_in_the_answer_is_not_taken_for_a_refusal():
    def broken(text):
        return {"1": "one"}[text]

    box, _ = lookup("number", "1", broken, []).widget().children
    with pytest.raises(KeyError):
        box.value = "2"


def test_a_refused_example_stops_the_build():
    with pytest.raises(ValueError, match="expected digits"):
        lookup("number", "3", square, ["three"])
