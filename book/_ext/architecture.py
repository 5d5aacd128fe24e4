"""A GPT drawn from the tokens to the loss, whose boxes are links.

Each box opens its card: what it computes, what it sends back with the mark of its evidence, its shapes, its
lines of NumPy and its chapter. The boxes stand in book/architecture.yml, which names equations and functions
and writes none; `cheat_sheet` reads them from the chapters. A card is shown by ``:target``, so it needs no
script; where there is no style all of them follow the picture.
"""

import ast
from html import escape
from pathlib import Path

import yaml
from cheat_sheet import chosen, is_gradient, line_of

ROOT = Path(__file__).parents[2]
GPT = "examples/one_page_gpt.py"
WIDTH, HEIGHT, NARROW = 124, 32, 44  # of a box, and of one whose title is a sign
BACK = '<p class="back"><a href="#architecture">The picture</a></p>'
NORMS = ((98, 332), (98, 478))  # in front of the two layers of a block


def read(root=ROOT):
    """The boxes of book/architecture.yml."""
    return yaml.safe_load((root / "book/architecture.yml").read_text(encoding="utf-8"))


def functions(root=ROOT):
    """The functions of the GPT on one page: {name: source}."""
    text = (root / GPT).read_text(encoding="utf-8")
    found = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    lines = text.splitlines()
    return {node.name: "\n".join(lines[node.lineno - 1 : node.end_lineno]) for node in found}


def problems(boxes, book, known):
    """What is wrong, given what `cheat_sheet.of_book` and `functions` read: sentences, [] if nothing is."""
    wrong = []
    for about in boxes:
        found = book[about["chapter"]][1] | book[13][1]
        wrong += [f"{about['box']}: no function {name!r}" for name in about["lines"] if name not in known]
        for item, back in [(i, False) for i in about["forward"]] + [(i, True) for i in about["backward"]]:
            try:
                _, stated, kind = chosen(item, found)
            except ValueError as error:
                wrong.append(f"{about['box']}: {error}")
                continue
            if kind is None or back and (kind == "definition" or not is_gradient(stated[0])):
                asked = "a gradient that something checks" if back else "a formula with evidence"
                wrong.append(f"{about['box']}: expected {asked}, got {item!r}")
    return wrong


def link(name, spoken, title, centre):
    """A box of the picture: a link to its card."""
    (x, y), wide = centre, WIDTH if len(title) > 3 else NARROW
    return (
        f'<a href="#box-{name}" aria-label="{escape(spoken)}">'
        f'<rect x="{x - wide / 2:g}" y="{y - HEIGHT / 2:g}" width="{wide}" height="{HEIGHT}" rx="5"/>'
        f'<text x="{x:g}" y="{y + 5:g}">{escape(title)}</text></a>'
    )


def picture(boxes):
    """The model as SVG: the stream upward, gradients downward beside it."""
    up = ["M232 640V22", "M232 502H98V448", "M98 416V394H208", "M232 356H98V302", "M98 270V250H208"]
    up += ["M148 548H208"]
    links = [link(b["box"], f"{b['title']}, chapter {b['chapter']}", b["title"], b["at"]) for b in boxes]
    links += [link("norm", "norm, chapter 5", "norm", centre) for centre in NORMS]
    links += [link("add", "plus, chapter 6", "+", (232, y)) for y in (394, 548)]
    words = [(262, 642, "tokens (B, T)"), (262, 526, "X⁰ (B, T, D)"), (262, 214, "Xᴺ (B, T, D)")]
    words += [(262, 30, "loss")]
    return (
        '<svg viewBox="0 0 360 650" role="group" aria-label="A decoder-only model from the tokens, below, to '
        'the loss, above. Every box is a link to its formulas.">'
        '<defs><marker id="up" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0 0L8 4L0 8Z"/></marker></defs>'
        '<rect class="frame" x="14" y="228" width="338" height="284" rx="8"/>'
        + "".join(f'<path class="up" d="{path}" marker-end="url(#up)"/>' for path in up)
        + '<path class="down" d="M250 22V636" marker-end="url(#up)"/>'
        + "".join(f'<text class="shape" x="{x}" y="{y}">{escape(text)}</text>' for x, y, text in words)
        + "".join(links)
        + "</svg>"
    )


def card(about, book, known):
    """The card of one box as MyST."""
    path, found, _ = book[about["chapter"]]
    found = found | book[13][1]
    formulas = [
        f"- [{sign}]{{.sign}} " + " ".join(line_of(item, found) for item in about[way])
        for sign, way in (("→", "forward"), ("←", "backward"))
    ]
    lines = [
        f'<div class="box" id="box-{about["box"]}">',
        "",
        f"**{about['title']}.** {about['says']} {{doc}}`Chapter {about['chapter']} </notebooks/{path.stem}>`",
        "",
        *formulas,
        f"- [▭]{{.sign}} {about['shapes']}",
        "",
        *(f"```python\n{known[name]}\n```\n" for name in about["lines"]),
        f"{BACK}</div>",
        "",
    ]
    return "\n".join(lines)


def page(book):
    """The picture and its cards as MyST. Raises ValueError that says what is wrong in the file."""
    boxes, known = read(), functions()
    if wrong := problems(boxes, book, known):
        raise ValueError("architecture.yml: " + "; ".join(wrong))
    cards = "\n".join(card(about, book, known) for about in boxes)
    return f'<div class="architecture" id="architecture">\n{picture(boxes)}\n\n{cards}\n</div>\n'
