r"""The letters that a page declares in its tables of shapes.

A row ``| $\mathbf{X}$, $\mathbf{b}$ | $(T, D)$, $(D,)$ | tokens, constants |`` says of each letter
its axes; one shape may serve all letters of its row. Behind it may stand what else is known: ``below $V$``,
``distribution``, ``$> 0$``, ``in $(0, 1)$``.
"""

import re

from .meaning import items_of, letter_of, plain_letter
from .reading import ITEM, Reading
from .tree import DEFINING, Unreadable, parse, scan

ROW = re.compile(r"^ *\| *(?P<letters>\$[^|]*\$) *\| *(?P<shapes>\$\([^|]*?) *\|", re.MULTILINE)
BETWEEN = re.compile(r",(?![^({]*[)}])")
"""The comma between two shapes, and not one within."""


class Shapes:
    """The declarations of a text's tables. Of a letter in two rows the first counts.

    items: {name of a letter: its declaration, as in `Given.letters`}
    """

    def __init__(self, text):
        self.items, self.reading = {}, Reading()
        for row in ROW.finditer(text):
            names = row["letters"].replace("$", "").split(",")
            shapes = BETWEEN.split(_plain(row["shapes"]))
            if len(shapes) == 1:
                shapes *= len(names)
            for name, shape in zip(names, shapes) if len(shapes) == len(names) else ():
                self._enter(name.strip(), shape.strip())

    def _enter(self, name, shape):
        try:
            letter = plain_letter(parse(scan(name)))
        except Unreadable:
            return
        if letter is None or letter.gradient or not all(map(self.reading.names, letter.below)):
            return
        key = self._key(letter)
        if key not in self.items and shape.startswith("(") and ITEM.fullmatch(f"{name} {shape}"):
            self.reading.declare(f"{name} {shape}")
            self.items[key] = f"{name} {shape}"

    def added(self, letters, printed, statements):
        """letters, and the tables' declarations of what these formulas use.

        A letter that ``letters`` declares, or that a statement of ``printed`` or a "where" defines, is none.
        """
        if not self.items:
            return letters
        own, found, defined = Reading(letters), {}, set()
        for statement in (*printed, *statements):
            trees = [parse(side) for side in statement.sides]
            if trees and (statement in printed or statement.opens(DEFINING)):
                first = _letter((items_of(trees[0]) or [None])[0], gradients=False)
                defined |= {self._key(first)} if first else set()
            for letter in (_letter(f) for tree in trees for f in tree.find_data("factor")):
                if letter and own.find(letter) is None and (name := self.reading.find(letter)):
                    found.setdefault(name, set()).add(self._key(letter))
        needed = [self.items[name] for name, keys in found.items() if name not in defined and keys - defined]
        return "; ".join([letters] * bool(letters) + needed)

    def _key(self, letter):
        """The name of an array without its indices and powers."""
        below = tuple(filter(self.reading.names, letter.below))
        return self.reading.key(letter._replace(below=below, above=(), gradient=False), True)


def _letter(factor, gradients=True):
    """The letter of a factor, or that whose gradient it is; without `gradients` None for a gradient."""
    letter = letter_of(factor)
    if letter and letter.gradient and not gradients:
        return None
    return letter and letter._replace(gradient=False)


def _plain(shapes):
    r"""Shapes as in `Given.letters`: without $ and \mathrm, (D,) as (D), below V as < V."""
    text = re.sub(r"\\mathrm\{?(\w+)\}?", r"\1", shapes.replace("$", "").replace(",)", ")"))
    return re.sub(r"\\([{},])", r"\1", text).replace("below", "<")
