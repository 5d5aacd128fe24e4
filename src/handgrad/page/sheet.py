r"""A sheet: formulas that somebody types, one a line, and lines of NumPy beside them.

    # A bias
    letters: x (T, D); beta (D)

    y_{tj} = x_{tj} + \beta_j
    \mathrm d\beta_j = \sum_t \mathrm dy_{tj}

    ```python
    y = x + beta
    dbeta = dy.sum(axis=0)
    ```

A formula whose left side is a new letter defines it; each other one is proved for every size, or refuted.
The lines see each letter as an array under its name, the gradient from above as ``dy``; what they bind to the
name of a letter, or to ``dx`` for a gradient, is compared with the formulas.
"""

import argparse
import contextlib
import itertools
import keyword
import re
import traceback
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..sums import NotProved
from .algebras import Numbers, draw
from .checks import Page, single_letter
from .meaning import STEPS
from .reading import Reading, names_in
from .tree import Unreadable, scan, split

TITLE = re.compile(r"^#.*$", re.MULTILINE)
LETTERS = re.compile(r"^letters:(.*)$", re.MULTILINE)
LINES = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
TOLERANCE = 1e-7  # relative to the largest entry; central differences in float64 are good to some 1e-10


class Outcome(NamedTuple):
    """What became of a formula or of an array.

    what: as it was typed; verdict: "defined", "proved", "refuted", "not proved", "not read", "agrees",
    "differs" or "stops"; why: what there is to say.
    """

    what: str
    verdict: str
    why: str = ""


GOOD = {"defined", "proved", "agrees"}


def parts(text):
    """The letters of a sheet, its formulas and its lines."""
    letters = " ".join(m.strip() for m in LETTERS.findall(text))
    formulas = _formulas(TITLE.sub("", LETTERS.sub("", LINES.sub("", text))))
    return letters, formulas, "".join(LINES.findall(text))


def outcomes(text):
    """An `Outcome` for each formula of a sheet, and for each array that its lines make, as each is found.

    Nothing behind a formula that cannot be read is looked at if it was to define a letter: what follows would
    be refused for a reason that is not its own.
    """
    letters, formulas, lines = parts(text)
    if not formulas:
        raise ValueError("text: expected a formula in a line of its own, found none")
    steps = max((_read(formulas, letters, columns) for columns in (True, False)), key=_readable)
    for formula, label, given, new, claims, error in steps:
        if error:
            yield Outcome(formula, "not read", error)
            return
        if new:
            yield Outcome(formula, "defined", ", ".join(sorted(new)))
        if claims:
            yield _proved(given, label, formula)
    if lines.strip():
        yield from compared(given.reading, lines)


class _Step(NamedTuple):
    """A formula as it is read: what is known with it, what it defines, whether it claims something."""

    formula: str
    label: str
    given: object = None
    new: frozenset = frozenset()
    claims: bool = False
    error: str = ""


def _read(formulas, letters, columns):
    """The `_Step` of each formula, to the first that cannot be read; columns: whether vectors are columns."""
    labels = [f"eq-{n}" for n in range(1, len(formulas) + 1)]
    shown = (with_upright_d(formula, letters) for formula in formulas)
    page = Page("\n".join(f"$$ {tex} $$ ({label})" for label, tex in zip(labels, shown)), "sheet")
    given, defining, steps = page.given(letters=letters, columns=columns, kinks=set()), [], []
    for label, formula in zip(labels, formulas):
        try:
            statements, new = split(page.tex(label)), frozenset()
            if not any(statement.relations for statement in statements):
                raise Unreadable("it says nothing: a formula has =, and letters stand behind 'letters:'")
            if not _begins_with_a_known_letter(given.reading, statements):
                behind = page.given(*defining, label, letters=letters, columns=columns, kinks=set())
                new = frozenset(behind.reading.definitions.keys() - given.reading.definitions.keys())
            used = new & {n for d in given.reading.definitions.values() for n in names_in(d.body)}
            if used := {name for name in used if STEPS not in given.reading.array(name).axes}:  # but h_{t-1}
                raise Unreadable(
                    f"{min(used)} is used above, where it is free: d{min(used)} for its gradient?"
                )
            if primed := [n for n in new if n.rstrip("'") in given.reading.definitions]:
                raise Unreadable(f"{primed[0]} would be a new letter: write a derivative as dy/dx")
        except Unreadable as error:
            return [*steps, _Step(formula, label, error=_without(label, error))]
        if new:
            given, defining = behind, [*defining, label]
        claims = sum(len(statement.relations) for statement in statements) > len(new)
        steps.append(_Step(formula, label, given, new, claims))
    return steps


def _readable(steps):
    """How many of the formulas can be read."""
    count = 0
    for step in steps:
        with contextlib.suppress(Unreadable):
            count += not step.error and bool(not step.claims or step.given.claims(step.label))
    return count


def with_upright_d(tex, letters=""):
    r"""The formula with \\mathrm d for the d of a gradient, such as dx or d\mathbf{x}; not in an index.

    Where d is one of the letters, it is a gradient's only if nothing stands between. In dy/dx it is a ∂.
    """
    with contextlib.suppress(Unreadable):
        tokens, changes, depth = scan(tex), {}, [False]
        for before, token, after in zip([None, *tokens], tokens, [*tokens[1:], None]):
            if token.type == "LBRACE":
                depth.append(depth[-1] or before is not None and before.type == "SUB")
            elif token.type == "RBRACE":
                depth.pop()
            elif (token.type, token.value) == ("LETTER", "d") and not depth[-1] and after is not None:
                close = tex[token.end : after.start].strip("{") == "" and tex[token.start] == "d"
                known = re.search(r"\bd\b", letters) and after.start > token.end
                if after.type in ("LETTER", "FONT", "ACCENT") and close and not known:
                    changes[token[2:]] = r"\mathrm{d}"
        changes |= dict.fromkeys(_of_quotients(tokens), r"\partial ")
        for (start, end), new in sorted(changes.items(), reverse=True):
            tex = tex[:start] + new + tex[end:]
    return tex


def _of_quotients(tokens):
    """Where the two d of dy/dx stand, for each fraction of this form."""
    for place, token in enumerate(tokens):
        if token.type == "FRAC":
            depth, opened = 0, []
            for inner, after in zip(tokens[place + 1 :], tokens[place + 2 :]):
                depth += {"LBRACE": 1, "RBRACE": -1}.get(inner.type, 0)
                opened += [after] * (depth == 1 and inner.type == "LBRACE")
                if depth == 0 and len(opened) == 2:
                    break
            if all(d.type == "D" or (d.type, d.value) == ("LETTER", "d") for d in opened):
                yield from (d[2:] for d in opened)


def _formulas(text):
    """What stands between dollars, or else each line that is not empty."""
    displayed = re.findall(r"\$\$(.*?)\$\$", text, re.DOTALL)
    return [tex.strip() for tex in displayed or text.splitlines() if tex.strip()]


def _begins_with_a_known_letter(reading, statements):
    """Whether the first left side is a letter that has its definition: what follows is a claim about it."""
    letter = statements[0].sides and single_letter(statements[0].sides[0])
    return (
        bool(letter) and reading.find(reading.whole(letter._replace(gradient=False))) in reading.definitions
    )


def _proved(given, label, formula):
    try:
        given.prove(label)
        away = f", away from the kinks of {', '.join(sorted(given.kinks))}" if given.kinks else ""
        given.kinks.clear()
        return Outcome(formula, "proved", f"for every size{away}")
    except NotProved as error:
        return Outcome(formula, "not proved", _without(label, error))
    except AssertionError as error:
        return Outcome(formula, "refuted", _without(label, error))
    except Unreadable as error:
        return Outcome(formula, "not read", _without(label, error))
    except ModuleNotFoundError as error:
        why = f"some numbers refute it; whether any that are declared do, only {error.name} could tell"
        return Outcome(formula, "not proved", why)


def _without(label, error):
    return re.sub(rf"^{label}(, claim \d+ of \d+)?: ", "", str(error))


def compared(reading: Reading, lines, seed=0):
    """An `Outcome` for each array that the lines bind to the name of a letter, or to that of its gradient."""
    rng = np.random.default_rng(seed)
    sizes, values = draw(reading, rng)
    shapes = {name: _shape(reading, name, sizes) for name in {*reading.arrays, *reading.numbers}}
    upstream = {}
    if reading.output and not reading.loss:
        upstream[reading.output] = rng.standard_normal(shapes[reading.output])
    space = {"np": np} | {name: np.array(value) for name, value in values.items()} | sizes
    space |= {f"{name}_": space[name] for name in filter(keyword.iskeyword, values)}  # lambda_
    space |= {f"d{name}": np.array(value) for name, value in upstream.items()}
    for name in values:  # X and x are one array, where x_t is a row of it
        space.setdefault(name[:1].upper() + name[1:], space[name])
    for name, value in upstream.items():
        space.setdefault(f"d{name[:1].upper()}{name[1:]}", np.array(value))
    before = dict(space)
    try:
        with np.errstate(all="ignore"):  # a NaN is shown where it stands
            exec(compile(lines, "<lines>", "exec"), space)
    except Exception as error:  # whatever the lines do
        number = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == "<lines>"]
        number = number or [getattr(error, "lineno", 1) or 1]
        line = lines.splitlines()[number[0] - 1].strip()
        yield Outcome(line, "stops", f"{type(error).__name__}: {error}")
        return
    found = False
    for name, value in space.items():
        if before.get(name) is value or name.startswith("_"):
            continue
        letter = _letter(reading, name)
        gradient = letter is None and name.startswith("d")
        letter = _letter(reading, name[1:]) if gradient else letter
        if letter not in shapes or reading.array(letter).kind == "label":
            continue
        if not gradient and letter not in reading.definitions:
            continue
        found = True
        try:
            with np.errstate(all="ignore"):
                right, noise = _numbers(reading, letter, gradient, sizes, values, upstream, shapes[letter])
        except Unreadable as error:
            yield Outcome(name, "not read", str(error))
            continue
        yield _compare(name, np.asarray(value), right, noise)
    if not found:
        known = ", ".join(sorted(reading.definitions))
        yield Outcome(
            lines.strip(), "not read", f"they make no letter of the formulas: expected {known}, or dx …"
        )


def _letter(reading, name):
    """The letter that a name of the lines means, lambda_ or W_1; None for a name of their own."""
    with contextlib.suppress(Unreadable):
        return reading.named(name.removesuffix("_"))


def _shape(reading, name, sizes):
    return tuple(sizes.get(s, s) for axis in reading.array(name).axes for s in axis)


class Moved(Numbers):
    """Numbers, of which one entry is moved from where it is."""

    def __init__(self, reading, sizes, values, upstream, moved, by):
        super().__init__(reading, sizes, values, upstream=upstream)
        self.moved, self.distance = moved, by

    def free(self, name, indices, held):
        return super().free(name, indices, held) + self._step(name, indices)

    def unfolded(self, definition, lead, indices, held):
        return super().unfolded(definition, lead, indices, held) + self._step(definition.name, indices)

    def _step(self, name, indices):
        return self.distance if (name, indices) == self.moved else 0.0


def _numbers(reading, letter, gradient, sizes, values, upstream, shape):
    """The array of a letter by the formulas alone, or of its gradient by central differences of the loss.

    Beside it what rounding may have done to an entry: it is all there is of one that should be 0.
    """
    found, groups = np.empty(shape), [len(axis) for axis in reading.array(letter).axes]
    noise = 1e-14 * max(np.abs(value).max() for value in values.values())
    first = [int(size in STEPS) for axis in reading.array(letter).axes for size in axis]  # steps begin at 1
    for at in np.ndindex(shape):
        rest = map(sum, zip(at, first))
        indices = tuple(tuple(itertools.islice(rest, n)) for n in groups)
        if gradient:
            step = 1e-5 * max(1.0, abs(np.asarray(values.get(letter, 1.0)).max()))
            up, down = (
                Moved(reading, sizes, values, upstream, (letter, indices), h).scalar_of_loss(0, frozenset())
                for h in (step, -step)
            )
            found[at] = (up - down) / (2 * step)
            noise = 1e-15 * abs(up) / step
        else:
            found[at] = Numbers(reading, sizes, values, upstream=upstream).named(
                letter, indices, (), frozenset()
            )
    return found, noise


def _compare(name, own, right, noise):
    """Axes of length 1 are left aside, as keepdims makes them."""
    if own.dtype.kind not in "biuf":
        return Outcome(name, "differs", "it holds something else than real numbers")
    if np.squeeze(own).shape != right.shape:
        return Outcome(name, "differs", f"its shape is {own.shape}, expected {right.shape}")
    own = np.squeeze(own)
    apart = np.nan_to_num(np.abs(own - right), nan=np.inf)
    if not np.all(apart <= TOLERANCE * np.abs(right).max() + noise):
        at = np.unravel_index(np.argmax(apart), right.shape)
        where = f"at {list(map(int, at))} " if at else ""
        worst = f"{where}it is {float(own[at]):.6g}, by the formulas {float(right[at]):.6g}"
        return Outcome(name, "differs", worst)
    return Outcome(name, "agrees", f"with the formulas, in all {right.size} entries")


def main(arguments=None):
    parser = argparse.ArgumentParser(
        prog="handgrad prove", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="the sheet")
    file = parser.parse_args(arguments).file
    wrong = False
    try:
        for what, verdict, why in outcomes(file.read_text(encoding="utf-8")):
            print(f"{verdict:10} {what}\n{'':10} {why}", flush=True)
            wrong |= verdict not in GOOD
    except (OSError, ValueError) as error:
        parser.error(str(error))
    return int(wrong)
