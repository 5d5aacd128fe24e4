"""Three things a reader can move: a slider over figures, rows of switches, and a question with an answer.

They are ordinary values that Jupyter shows: a few lines of HTML with everything computed ahead, which move
without Python, in the built book as in a notebook whose kernel has stopped. A native slider, native boxes to
tick and a native list are what keyboards and screen readers already know. The handler is one line of
JavaScript inside the element; there are no ids, so any number of them fits on a page. Only the question is an
ipywidget in a running notebook, where Python answers what the reader types.

>>> slider = frames(lambda ax, k: ax.plot([0, k]), [1, 2, 3], "slope", "a straight line")
>>> mask = switches(lambda ax, t, on: ax.bar([0, 1], on), ["q"], ["k", "l"], "mask", "bars", {"a": [[1, 1]]})
>>> question = lookup("number", "21", lambda text: str(int(text) ** 2), examples=["3", "4"])
"""

import io
import os
from html import escape
from itertools import product
from urllib.parse import quote

import numpy as np

from handgrad.course.figures import HEIGHT, WIDTH, style, subplots
from handgrad.course.quiz import OWN_KEYS, Shown

WIDGET = "application/vnd.jupyter.widget-view+json"
STATIC = "HANDGRAD_STATIC"  # set while the book is built: no widget is made that no Python would answer

SHOW_FRAME = (
    "const box = this.closest('.frames');"
    "box.querySelectorAll('img').forEach((img, i) => { img.hidden = i != this.value;"
    " if (i == this.value) { this.setAttribute('aria-valuetext', img.dataset.value);"
    " box.querySelector('output').textContent = img.dataset.value; } });"
)
SHOW_STRIP = (
    "const strip = this.closest('.strip'), boxes = [...strip.querySelectorAll('input')];"
    "const on = boxes.map(box => +box.checked).join('');"
    "strip.querySelectorAll('img').forEach(img => { img.hidden = img.dataset.value != on;"
    " if (!img.hidden) strip.querySelector('output').textContent = img.alt; });"
)
SET_ALL = (
    "const boxes = this.closest('.switches').querySelectorAll('input');"
    "boxes.forEach((box, i) => { box.checked = this.value[i] == '1'; });"
    "boxes.forEach(box => box.dispatchEvent(new Event('input')));"
)
PLAIN = " /:;,=()!*?@$+-_.~"
"""What an SVG may hold as it is, in the address of an image inside an attribute."""
UNSEEN = "position: absolute; clip-path: inset(50%); width: 1px; height: 1px; overflow: hidden"
SHOW_ANSWER = "this.closest('.lookup').querySelector('output').textContent = this.value;"


def frames(draw, values, label, alt, *, start=0, rows=1, columns=1, size=(WIDTH, HEIGHT), **kwargs):
    """Draw one figure for every value, now, and return them behind a slider.

    ``draw(ax, value)`` draws on the axes it is given; with ``rows`` or ``columns`` above 1 it is given the
    array of axes, as from ``figures.subplots``, which also takes ``size`` and ``kwargs``. The figure is
    ``ax.figure``.

    ``label`` names what the slider changes. ``alt(value)`` says in words what the frame shows; a plain string
    is completed with label and value. ``start`` is the index of the first frame shown.

    Raises ``ValueError`` when there is nothing to choose from, two values read alike, or a frame has no
    words.
    """
    values = list(values)
    if len(values) < 2:
        raise ValueError(f"values: expected at least 2, to have something to choose from; got {len(values)}")
    if not 0 <= start < len(values):
        raise ValueError(f"start: expected an index from 0 to {len(values) - 1}; got {start}")
    _check_text("label", label)

    texts = [f"{value:g}" if isinstance(value, float) else str(value) for value in values]
    if len(set(texts)) < len(texts):
        raise ValueError(f"values: expected each to read differently; got {texts}")
    images = []
    for i, (value, text) in enumerate(zip(values, texts, strict=True)):
        words = alt(value) if callable(alt) else alt and f"{alt}; {label} {text}"
        _check_text(f"alt of the frame {text}", words)
        figure, axes = subplots(rows, columns, size, **kwargs)
        with style():
            draw(axes, value)
            images.append(_image(figure, words, text, i == start))
    shown = escape(texts[start])
    slider = (
        f'<input {OWN_KEYS} type="range" min="0" max="{len(texts) - 1}" step="1"'
        f' value="{start}" autocomplete="off" aria-valuetext="{shown}" oninput="{SHOW_FRAME}">'
    )
    html = _group("frames", label, slider, shown, "\n".join(images))
    return Shown(f"{label}: {', '.join(texts)}", html)


def switches(draw, strips, boxes, label, alt, presets, *, size=(WIDTH, 1.0), **kwargs):
    """Boxes to tick, a strip of them for each picture: every setting of every strip is drawn now.

    ``strips`` and ``boxes`` are names: of the pictures, below each other, and of the boxes that each has.
    ``draw(axes, r, on)`` draws picture r where ``on`` is a tuple of Booleans, one for each box; no picture
    depends on the boxes of other strips. ``axes`` come from ``figures.subplots``, which also takes ``size``
    and ``kwargs``, among them ``rows`` and ``columns`` for several axes side by side.

    ``presets`` are named settings of everything, arrays of 0 and 1 (strips, boxes), each a button; the first
    is shown at the start. ``label`` names the whole, ``alt(r, on)`` says in words what a picture shows; a
    plain string is completed with the strip's name and what is on.

    Raises ``ValueError`` when there are no strips, fewer than 1 or more than 6 boxes, two equal names, no
    preset, a preset of another shape, or a picture without words.
    """
    for name, texts in (("strips", strips), ("boxes", boxes)):
        for text in texts:
            _check_text(name, text)
        if len(set(texts)) < len(texts) or not texts:
            raise ValueError(f"{name}: expected at least one name, each once; got {list(texts)}")
    if len(boxes) > 6:
        raise ValueError(f"boxes: expected at most 6, for 64 pictures a strip; got {len(boxes)}")
    _check_text("label", label)
    if not presets:
        raise ValueError(f"presets: expected at least one, to begin with; got {presets!r}")
    settings = {name: np.asarray(preset).astype(bool) for name, preset in presets.items()}
    for name, preset in settings.items():
        if preset.shape != (len(strips), len(boxes)):
            expected = (len(strips), len(boxes))
            raise ValueError(f"presets: expected the shape {expected}; got {preset.shape} for {name!r}")

    lines = []
    for r, (strip, shown) in enumerate(zip(strips, next(iter(settings.values())), strict=True)):
        images, words, shown = [], {}, tuple(map(bool, shown))
        for on in product((False, True), repeat=len(boxes)):
            names = ", ".join(name for name, is_on in zip(boxes, on, strict=True) if is_on) or "nothing"
            words[on] = alt(r, on) if callable(alt) else alt and f"{alt}; {strip}: {names}"
            _check_text(f"alt of {strip} with {names}", words[on])
            figure, axes = subplots(size=size, **kwargs)
            with style():
                draw(axes, r, on)
                images.append(_image(figure, words[on], _bits(on), on == shown))
        lines.append(_strip(strip, boxes, shown, words[shown], images))
    press = f'{OWN_KEYS} type="button" onclick="{SET_ALL}"'
    buttons = " ".join(
        f'<button {press} value="{_bits(preset.ravel())}">{escape(name)}</button>'
        for name, preset in settings.items()
    )
    group = f'<div class="switches" role="group" aria-label="{escape(label)}">'
    html = f"{group}\n<p>{escape(label)}: {buttons}</p>\n" + "\n".join(lines) + "</div>"
    return Shown(f"{label}: {', '.join(settings)}", html)


def lookup(label, default, answer, examples):
    """A box in which the reader types a text and sees ``answer(text)``; in the built page, worked examples.

    ``default`` is the text at first, and the first example. ``answer`` returns a string, whose line breaks
    are kept. It raises ``ValueError`` to refuse a text: in a running notebook the reader sees its message.

    Raises ``ValueError`` when ``default`` or an example is itself refused.
    """
    _check_text("label", label)
    texts = list(dict.fromkeys([default, *examples]))  # each once, the default first
    return Lookup(label, [(text, answer(text)) for text in texts], answer)


class Lookup(Shown):
    """What `lookup` returns: a question and its answers."""

    def __init__(self, label, answers, answer):
        self.label, self.answers, self.answer = label, answers, answer
        options = "".join(f'<option value="{escape(a)}">{escape(text)}</option>' for text, a in answers)
        choice = f'<select {OWN_KEYS} autocomplete="off" onchange="{SHOW_ANSWER}">{options}</select>'
        html = _group("lookup", label, choice, escape(answers[0][1]))
        super().__init__("\n".join(f"{label} {text}: {answer}" for text, answer in answers), html)

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
        """A running notebook prefers the widget; the book is told to take the HTML."""
        bundle = {"text/plain": repr(self), "text/html": self.html()}
        if not os.environ.get(STATIC):
            bundle[WIDGET] = self.widget()._repr_mimebundle_()[WIDGET]
        return bundle


def _group(kind, label, control, text, rest=""):
    """A labelled control, the text it sets (announced by screen readers), and what else it changes."""
    name = escape(label)
    return (
        f'<div class="{kind}" role="group" aria-label="{name}">\n'
        f"<label><span>{name}</span> {control}</label>\n"
        f'<output aria-live="polite" style="white-space: pre-line">{text}</output>\n{rest}</div>'
    )


def _strip(strip, boxes, shown, words, images):
    """A row of boxes to tick and its pictures; shown: which boxes are on at the start, in words too."""
    ticks = "".join(
        f'<label><input {OWN_KEYS} type="checkbox" autocomplete="off"{" checked" if on else ""}'
        f' oninput="{SHOW_STRIP}"> <span>{escape(name)}</span></label>'
        for name, on in zip(boxes, shown, strict=True)
    )
    name, pictures = escape(strip), "\n".join(images)
    return (
        f'<div class="strip" role="group" aria-label="{name}">\n'
        f"<span>{name}</span> {ticks}\n"
        f'<output aria-live="polite" style="{UNSEEN}">{escape(words)}</output>\n{pictures}</div>'
    )


def _image(figure, words, value, shown):
    """The figure as an element that is found by its value; words: what it shows."""
    width, height = (round(100 * inches) for inches in figure.get_size_inches())
    size = f'width="{width}" height="{height}" style="max-width: 100%; height: auto"'
    source, hidden = _encode(figure), "" if shown else " hidden"
    return f'<img src="{source}" alt="{escape(words)}" {size} data-value="{escape(value)}"{hidden}>'


def _bits(on):
    """Booleans as a word of 0 and 1."""
    return "".join("01"[bool(value)] for value in on)


def _encode(figure):
    """The figure as a data address. Without the date, so that equal figures are equal text.

    It stays text, which a server compresses; in base64 it would hardly shrink.
    """
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    return f"data:image/svg+xml,{quote(buffer.getvalue(), safe=PLAIN)}"


def _check_text(name, text):
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"{name}: expected words, for readers who cannot see the figure; got {text!r}")
