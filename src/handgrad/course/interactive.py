"""Two things a reader can move: a slider over figures, and a question with an answer.

Both are ordinary values that Jupyter shows. In a running notebook they are ipywidgets, connected to Python.
In the built book, which has no Python behind it, they are a few lines of HTML with everything computed
ahead: a native slider or a native list, which keyboards and screen readers already know. The handler is one
line of JavaScript inside the element; there are no ids, so any number of them fits on a page.

>>> slider = frames(lambda ax, k: ax.plot([0, k]), [1, 2, 3], "slope", "a straight line")
>>> question = lookup("number", "21", lambda text: str(int(text) ** 2), examples=["3", "4"])
"""

import base64
import io
import os
from collections.abc import Callable, Sequence
from html import escape

from handgrad.course.figures import HEIGHT, WIDTH, style, subplots

WIDGET = "application/vnd.jupyter.widget-view+json"
MEDIA_TYPES = {"svg": "image/svg+xml", "png": "image/png"}
STATIC = "HANDGRAD_STATIC"  # set while the book is built: no widget is made that no Python would answer

SHOW_FRAME = (
    "const box = this.closest('.frames');"
    "box.querySelectorAll('img').forEach((img, i) => { img.hidden = i != this.value;"
    " if (i == this.value) { this.setAttribute('aria-valuetext', img.dataset.value);"
    " box.querySelector('output').textContent = img.dataset.value; } });"
)
SHOW_ANSWER = "this.closest('.lookup').querySelector('output').textContent = this.value;"


def frames(
    draw: Callable,
    values: Sequence,
    label: str,
    alt: str | Callable[[object], str],
    *,
    show: Callable[[object], str] = lambda value: f"{value:g}" if isinstance(value, float) else str(value),
    start: int = 0,
    rows: int = 1,
    columns: int = 1,
    size: tuple[float, float] = (WIDTH, HEIGHT),
    format: str = "svg",
    **kwargs,
):
    """Draw one figure for every value, now, and return them behind a slider.

    ``draw(ax, value)`` draws on the axes it is given; with ``rows`` or ``columns`` above 1 it is given the
    array of axes, as from ``figures.subplots``, which also takes ``size`` and ``kwargs``. The figure is
    ``ax.figure``.

    ``label`` names what the slider changes; ``show(value)`` is how a value reads beside it. ``alt(value)``
    says in words what the frame shows; a plain string is completed with label and value. ``start`` is the
    index of the first frame shown. ``format`` is "svg", or "png" for figures with very many marks.

    Raises ``ValueError`` when there is nothing to choose from, two values read alike, or a frame has no
    words.
    """
    values = list(values)
    if len(values) < 2:
        raise ValueError(f"values: expected at least 2, to have something to choose from; got {len(values)}")
    if not 0 <= start < len(values):
        raise ValueError(f"start: expected an index from 0 to {len(values) - 1}; got {start}")
    if format not in MEDIA_TYPES:
        raise ValueError(f"format: expected one of {sorted(MEDIA_TYPES)}; got {format!r}")
    _check_text("label", label)

    texts = [show(value) for value in values]
    if len(set(texts)) < len(texts):
        raise ValueError(f"values: expected each to read differently under show; got {texts}")
    pictures = []
    for value, text in zip(values, texts, strict=True):
        words = alt(value) if callable(alt) else alt and f"{alt}; {label} {text}"
        _check_text(f"alt of the frame {text}", words)
        figure, axes = subplots(rows, columns, size, **kwargs)
        with style():
            draw(axes, value)
            pictures.append(Picture(_encode(figure, format), words, *_pixels(size)))
    return Frames(label, texts, pictures, start)


def lookup(label: str, default: str, answer: Callable[[str], str], examples: Sequence[str]):
    """A box in which the reader types a text and sees ``answer(text)``; in the built page, worked examples.

    ``default`` is the text at first, and the first example. ``answer`` returns a string, whose line breaks
    are kept. It raises ``ValueError`` to refuse a text: in a running notebook the reader sees its message.

    Raises ``ValueError`` when ``default`` or an example is itself refused.
    """
    _check_text("label", label)
    texts = list(dict.fromkeys([default, *examples]))  # each once, the default first
    return Lookup(label, [(text, answer(text)) for text in texts], answer)


class Picture:
    """An encoded figure and its description."""

    def __init__(self, source, words, width, height):
        self.source, self.words, self.width, self.height = source, words, width, height

    def html(self, attributes=""):
        size = f'width="{self.width}" height="{self.height}" style="max-width: 100%; height: auto"'
        return f'<img src="{self.source}" alt="{escape(self.words)}" {size}{attributes}>'


class Frames:
    """What `frames` returns: pictures, one of which is shown."""

    def __init__(self, label, texts, pictures, start):
        self.label, self.texts, self.pictures, self.start = label, texts, pictures, start

    def __repr__(self):
        return f"{self.label}: {', '.join(self.texts)}"

    def html(self):
        images = "\n".join(
            picture.html(f' data-value="{escape(text)}"' + ("" if i == self.start else " hidden"))
            for i, (text, picture) in enumerate(zip(self.texts, self.pictures, strict=True))
        )
        text = escape(self.texts[self.start])
        slider = (
            f'<input type="range" min="0" max="{len(self.texts) - 1}" step="1" value="{self.start}"'
            f' autocomplete="off" aria-valuetext="{text}" oninput="{SHOW_FRAME}">'
        )
        return _group("frames", self.label, slider, text, images)

    def widget(self):
        import ipywidgets

        options = [(text, i) for i, text in enumerate(self.texts)]
        slider = ipywidgets.SelectionSlider(options=options, index=self.start, description=self.label)
        slider.style.description_width = "initial"
        picture = ipywidgets.HTML(self.pictures[self.start].html())
        slider.observe(lambda change: setattr(picture, "value", self.pictures[change["new"]].html()), "value")
        return ipywidgets.VBox([slider, picture])

    def _repr_mimebundle_(self, include=None, exclude=None):
        return _bundle(self)


class Lookup:
    """What `lookup` returns: a question and its answers."""

    def __init__(self, label, answers, answer):
        self.label, self.answers, self.answer = label, answers, answer

    def __repr__(self):
        return "\n".join(f"{self.label} {text}: {answer}" for text, answer in self.answers)

    def html(self):
        options = "".join(f'<option value="{escape(a)}">{escape(text)}</option>' for text, a in self.answers)
        choice = f'<select autocomplete="off" onchange="{SHOW_ANSWER}">{options}</select>'
        return _group("lookup", self.label, choice, escape(self.answers[0][1]))

    def widget(self):
        import ipywidgets

        box = ipywidgets.Text(self.answers[0][0], description=self.label, continuous_update=False)
        box.style.description_width = "initial"
        output = ipywidgets.HTML(self._paragraph(self.answers[0][1]))

        def reply(change):
            try:
                output.value = self._paragraph(self.answer(change["new"]))
            except ValueError as refusal:
                output.value = self._paragraph(str(refusal))

        box.observe(reply, "value")
        return ipywidgets.VBox([box, output])

    @staticmethod
    def _paragraph(text):
        return f'<p style="white-space: pre-line">{escape(text)}</p>'

    def _repr_mimebundle_(self, include=None, exclude=None):
        return _bundle(self)


def _group(kind, label, control, text, rest=""):
    """A labelled control, the text it sets (announced by screen readers), and what else it changes."""
    name = escape(label)
    return (
        f'<div class="{kind}" role="group" aria-label="{name}">\n'
        f"<label><span>{name}</span> {control}</label>\n"
        f'<output aria-live="polite" style="white-space: pre-line">{text}</output>\n{rest}</div>'
    )


def _bundle(shown):
    """Every way to show it. A running notebook prefers the widget; the book is told to take the HTML."""
    bundle = {"text/plain": repr(shown), "text/html": shown.html()}
    if not os.environ.get(STATIC):
        bundle[WIDGET] = shown.widget()._repr_mimebundle_()[WIDGET]
    return bundle


def _encode(figure, format):
    """The figure as a data address. Without the date, so that equal figures are equal text."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format=format, metadata={"Date": None} if format == "svg" else None)
    return f"data:{MEDIA_TYPES[format]};base64,{base64.b64encode(buffer.getvalue()).decode()}"


def _pixels(size, dots_per_inch=100):
    return [round(inches * dots_per_inch) for inches in size]


def _check_text(name, text):
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"{name}: expected words, for readers who cannot see the figure; got {text!r}")
