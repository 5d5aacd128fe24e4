"""Pages, and what can be done with a printed equation: prove it, compute it, show what was read."""

import itertools
import json
import math
import re
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path

import numpy as np
import sympy as sp

from ..sums import Index, NotProved, equal, kink, prove_equal
from . import second
from .algebras import (
    Symbols,
    Unprovable,
    depth_of,
    draw,
    in_numbers,
    used_with,
    with_examples,
)
from .functions import reserved
from .meaning import (
    Place,
    Range,
    Sentence,
    Term,
    items_of,
    letter_of,
    number,
    places_of,
    show_range,
    subterms,
    written,
)
from .reading import DERIVATIVES, Reading, entries_of, has_kind, names_in
from .shapes import Shapes
from .steps import Steps, has_steps, prove_steps
from .tree import CLAIMING, CONDITIONS, DEFINING, FOLLOWING, Unreadable, by_rows, conditions_in, parse, split

DISPLAY = re.compile(
    r"(?<!\\)\$\$(?P<tex>.*?)(?:\\tag\{[^{}]*\} *% *(?P<kept>eq-[\w-]+)\s*)?(?<!\\)\$\$"
    r"(?:[ \t]*\((?P<label>eq-[\w-]+)\))?",
    re.DOTALL,
)
"""A displayed formula, with a label behind it or, in JupyterLab's copies, beside its number."""
INLINE = re.compile(r"(?<![$\\])\$([^$]+)\$(?!\$)")
NO_VALUE = "neither side has a value"
RELATIONS = {"=", "≤", "≥", "<", ">", "≠", "≈"}


def read(path):
    """The labelled equations of a notebook (.ipynb) or of a Markdown file, as it is on the disk.

    Raises FileNotFoundError if there is no such file, and ValueError if it has no labelled equation or one
    label twice.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(
            f"path: expected a notebook or a Markdown file, found none at {path.resolve()}"
        )
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        text = "\n\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
    return Page(text, path.name)


def stated(tex):
    """The statements of an equation whose numbers can be asked for: all but conditions and definitions."""
    return [s for s in split(tex) if s.sides and not s.opens(CONDITIONS) and not s.opens(DEFINING)]


class Page:
    """A text with labelled equations, ``$$ … $$ (eq-label)``.

    text: Markdown; name: how messages call it.
    """

    def __init__(self, text, name="page"):
        self.name, self.equations = name, {}
        self.text, self.shapes = text, Shapes(text)
        for display in DISPLAY.finditer(text):
            label = display["label"] or display["kept"]
            if label in self.equations:
                raise ValueError(f"{name}: two equations have the label {label}")
            if label:
                self.equations[label] = display["tex"].strip()
        if not self.equations:
            raise ValueError(f"{name}: expected equations such as $$ a = b $$ (eq-label), found none")

    def __repr__(self):
        return f"{self.name}: {len(self.equations)} equations"

    def tex(self, label):
        """The TeX of an equation. Raises KeyError, with the labels there are, for another label."""
        if label not in self.equations:
            near = [other for other in self.equations if other.split("-")[1:2] == label.split("-")[1:2]]
            raise KeyError(f"label: expected one of {near or list(self.equations)}, got {label!r}")
        return self.equations[label]

    def given(self, *printed, letters="", columns=False, output=None, loss=None, lines=None, kinks=None):
        r"""The page with some of its definitions taken for granted.

        printed  labels of equations, or letters that the running text defines, ``"r"`` for $r = 1/…$; in the
                 order in which they are used
        letters  the letters that these do not define, and that no table of shapes of the page tells (see
                 `shapes.Shapes`): arrays with their axes, numbers, labels, functions, as in
                 ``x (B, T, D); F size; epsilon > 0; y (T) < V; p in (0, 1); phi function``;
                 ``q (T, V) distribution``, each entry > 0 and the sum of each row 1;
                 ``W (D, K) noise 1/D``, ``b (D) noise p (1-p) around 1-p``: drawn, for E, Var and Cov
        columns  whether a bold small letter is a column, as in 𝐏𝐱
        output   the array whose gradient arrives from above; by default the last that is defined
        loss     the number that is differentiated, if it is called neither L nor ⟨d𝐘, 𝐘⟩
        kinks    a set: derivatives of |x|, max(0, x) and cases are taken away from their kinks, and what has
                 one is put into the set; by default they are refused, unless a condition says where it is not
        lines    of an equation whose lines have names, \text{Adam} v = …, those that are taken: ``"Adam"``
        Raises Unreadable where a definition cannot be read.

        >>> squares = Page(r"$$ y_i = x_i^2 $$ (eq-y) $$ \mathrm dx_i = 2 x_i\, \mathrm dy_i $$ (eq-dx)")
        >>> given = squares.given("eq-y", letters="x (D)")
        """
        return Given(self, printed, letters, columns, output, loss, lines, kinks)

    def prove(self, *labels):
        """As `Given.prove`, with nothing given."""
        self.given().prove(*labels)

    def holds(self, *labels, draws=2):
        """As `Given.holds`, with nothing given."""
        self.given().holds(*labels, draws=draws)

    def number(self, label, part=-1, **values):
        """As `Given.number`, with nothing given."""
        return self.given().number(label, part, **values)

    @cached_property
    def _inline(self):
        """The formulas of the running text, without their spaces and with them."""
        return [(_without_spaces(tex), tex) for tex in INLINE.findall(DISPLAY.sub("", self.text))]

    def inline(self, name):
        r"""The TeX of a formula in the running text: the one that begins with ``name =``, or this very one.

        Raises Unreadable if the text has none, or several.
        """
        wanted, found = _without_spaces(name), {}
        for bare, tex in self._inline:
            if bare == wanted if "=" in name else bare.startswith(wanted + "="):
                found.setdefault(bare, tex)
        if len(found) != 1:
            those = "".join(f"\n  {tex}" for tex in found.values())
            raise Unreadable(
                f"{self.name}: expected one formula in the text that reads {name}, "
                f"found {len(found) or 'none'}{those}"
            )
        return next(iter(found.values()))


def _without_spaces(tex):
    return re.sub(r"\s|\\[,;:!]", "", tex)


class Given:
    """A page whose letters and definitions are settled, so that its equations have a meaning."""

    def __init__(self, page, printed, letters, columns, output, loss, lines=None, kinks=None):
        self.page, self.printed, self.letters, self.lines, self.kinks = page, printed, letters, lines, kinks
        self.arguments = letters, columns, output, loss
        self.reading = self._reading()

    def declared(self, *statements):
        """The letters that are declared, and those of these formulas that a table of shapes declares."""
        printed = [s for name in self.printed for s in split(self._tex(name))]
        return self.page.shapes.added(self.letters, printed, statements)

    def _tex(self, name):
        return self.page.tex(name) if name.startswith("eq-") else self.page.inline(name)

    def _reading(self, *statements):
        reading = Reading(self.declared(*statements), *self.arguments[1:], self.printed)
        reading.kinks = self.kinks
        for name in self.printed:
            label = name if name.startswith("eq-") else ""
            with _placed(label or name):
                self._define_all(reading, self._lines(split(self._tex(name))), label)
        return reading

    def _lines(self, statements):
        """The statements behind the name of a line that was asked for; all, of an equation without names."""
        if self.lines is None or not any(s.words for s in statements):
            return statements
        found, words = [], ""
        for statement in statements:
            words = statement.words or words
            found += [statement] * (words == self.lines)
        if not found:
            raise Unreadable(f"it has no line with the name {self.lines!r}")
        return found

    @staticmethod
    def _define_all(reading, statements, label):
        """Define each letter that stands first on the left of a statement, and is not defined yet."""
        for statement in statements:
            if not statement.relations or statement.relations[0] != "=" or statement.opens(CONDITIONS):
                continue
            if statement.opens(CLAIMING):  # it claims what follows from the rest
                continue
            items = items_of(parse(statement.sides[0]))
            letter = items and letter_of(items[0])
            known = letter and reading.find(letter._replace(gradient=False))
            if (
                not letter
                or letter.gradient
                or reserved(letter)
                or (known in reading.definitions or reading.operator(letter) or reading.function(letter))
                and len(items) == 2  # E(h) = … of a known E, a claim
                or known in reading.definitions
                and known not in reading.parts
                and (reading.definitions[known].label == label)
            ):
                continue
            reading.define(statement, label)

    # ---- claims

    def claims(self, label):
        """The claims of an equation, in groups with their conditions: [(reading, claims, restrictions)].

        A claim is a triple (left, relation, right) of Terms. What stands behind "with" defines a letter for
        this equation, if nobody did before; what stands behind "if" or "for" is a condition: a letter is
        replaced, or a relation restricts the numbers drawn.
        """
        with _placed(label):
            return [self._claims(group, label) for group in by_rows(split(self.page.tex(label)))]

    def _claims(self, statements, label):
        local, rest = self._reading(*statements), []
        for statement in statements:
            if statement.opens(DEFINING) and self._defines(local, statement):
                local.define(statement, label)
                statement = statement.behind_first()
            if statement:
                rest.append(statement)
        conditions, restrictions = conditions_in(rest), []
        spans = [c for c in conditions if c.relations == ("∈",)]
        rest, conditions = ([s for s in those if s not in spans] for those in (rest, conditions))
        for place, condition in enumerate(conditions):
            if other := re.search(r"\b(some|any|no|not|only|but|except|unless)\b", condition.words):
                raise Unreadable(f"a condition with {other[0]!r}: write it for all, or with a relation")
            behind = itertools.takewhile(lambda c: not c.relations, conditions[place + 1 :])
            if condition.relations:
                _quantified(condition, [t.value for c in behind for side in c.sides for t in side])
            of = self._condition(local, condition, restrictions)
            words = " ".join(c.words for c in conditions[place : place + 2])
            if of and not re.search(r"\b(all|every|each)\b", words):
                raise Unreadable(f"a condition on the index {min(of)}: write it for all {min(of)}")
        claims, sentence = [], None
        for statement in rest:
            if statement in conditions:
                continue
            if (
                statement.words.strip(" .:,").lower() not in {"", *FOLLOWING}
                and statement.words != self.lines
            ):
                raise Unreadable(f"words that the reader does not know: {statement.words!r}")
            if not statement.sides:
                continue
            if not statement.relations:
                raise Unreadable(f"{' '.join(t.value for t in statement.sides[0])}: it claims nothing")
            if unknown := set(statement.relations) - RELATIONS:
                raise Unreadable(f"the relation {unknown.pop()}")
            sentence = Sentence(local)
            sides = [sentence.side(side) for side in statement.sides]
            for left, relation, right in zip(sides, statement.relations, sides[1:]):
                left, right = sentence.pair(left, right, label)
                only_one = {p.name for p in places_of(left)} ^ {p.name for p in places_of(right)}
                if alone := sentence.compared & only_one:
                    raise Unreadable(
                        f"a sum with a condition on {min(alone)}, which stands nowhere else: "
                        "write a sum for each index, Σ_j Σ_{i<j}"
                    )
                for side in (left, right):
                    _occurs(local, side)
                local.whole_loss(depth_of(local, left, right), left, right)
                if show(left) == show(right):
                    raise Unreadable(f"both sides of {relation} are {show(left)}")
                claims.append((left, relation, right))
            sentence.settle()
            self._spanned(sentence, spans)
            free = {p.name for r in restrictions for t in r[::2] for p in places_of(t)}
            if both := free & {p.name for claim in claims for t in claim[::2] for p in places_of(t)}:
                raise Unreadable(f"the index {min(both)} of a claim, and of a condition on all entries")
        for condition in conditions:
            if condition.words == "whatever" and condition.sides and sentence:
                sentence.side(condition.sides[0])
        if local.branches and _order([t for c in claims for t in c[::2]], local) > 1:
            raise Unreadable("a second derivative, and a function of which only the first is known")
        if not claims:
            raise Unreadable("it claims nothing that the reader understands")
        return local, claims, restrictions

    @staticmethod
    def _spanned(sentence, spans):
        """See that an index runs over what "for i = 1, …, D" says."""
        for letter, size in (span.sides for span in spans):
            name, count = letter[0].value, size[0].value if len(size) == 1 else ""
            if name not in sentence.free or count not in sentence.reading.sizes:
                raise Unreadable(f"for {name} = 1, …, {count}: expected an index of the claim, and a size")
            sentence.free[name].range.join(Range(sentence.reading.size(count)), f"the index {name}")

    @staticmethod
    def _defines(reading, statement):
        if not statement.relations or statement.relations[0] != "=":
            return False
        letter = single_letter(statement.sides[0])
        return bool(letter) and not letter.gradient and reading.find(letter) is None

    @staticmethod
    def _condition(reading, statement, restrictions):
        """Take a condition for granted. Returns the indices whose every value it is about."""
        if statement.relations == ("=",):
            letter = single_letter(statement.sides[0])
            if letter and letter.base in reading.sizes and not letter.below:
                reading.sizes[letter.base] = _size_product(reading, statement.sides[1])
                return set()
            if letter:
                return reading.put(letter, statement.sides[1])
        before = len(restrictions)
        for left, relation, right in zip(statement.sides, statement.relations, statement.sides[1:]):
            if relation not in RELATIONS:
                raise Unreadable(f"the relation {relation} in a condition")
            sentence = Sentence(reading)
            sides = sentence.side(left), sentence.side(right)
            restrictions.append((sides[0], relation, sides[1]))
            named = [_free_number(a) for a, b in (sides, sides[::-1]) if getattr(b, "kind", "") == "number"]
            for name in filter(None, named):  # x > 0 says what the letter is
                if relation != "≠" and reading.numbers[name].kind in ("positive", "within"):
                    reading.numbers[name] = reading.numbers[name]._replace(kind="array", below=())
        return {p.name for r in restrictions[before:] for t in r[::2] for p in places_of(t)}

    # ---- proofs

    def prove(self, *labels):
        r"""Prove each "=" of these equations for every size; an AssertionError shows the difference.

        All values are real, and an equation is claimed where both sides have one, as x²/x = x. A relation
        such as ≥ 0 is proved where it is plain from the signs of its parts.
        What is proved is evaluated too, by `second.judge`, where PyTorch is installed and it knows the form.
        Raises Unreadable for an equation that cannot be read, NotProved where there is neither proof nor
        refutation.

        >>> page = Page(r"$$ m = \frac1D \sum_i x_i $$ (eq-mean) $$ \sum_i (x_i - m) = 0 $$ (eq-centred)")
        >>> page.given("eq-mean", letters="x (D)").prove("eq-centred")
        """
        for label in _some(labels):
            with _placed(label):
                for reading, claims, restrictions in self.claims(label):
                    self._prove(reading, claims, restrictions, label)
                _judge(self, label)

    @staticmethod
    def _prove(reading, claims, restrictions, label):
        for count, claim in enumerate(claims, start=1):
            what = f"{label}, claim {count} of {len(claims)}"
            try:
                for signs in _signs(reading, restrictions):
                    _prove(reading, *claim, what, signs)
            except NotProved:
                with _where_torch_is(), suppress(Unreadable):
                    _tried(reading, claim, restrictions)
                raise
            except AssertionError:
                kinds = {a.kind for a in (*reading.numbers.values(), *reading.arrays.values())}
                if not restrictions and kinds <= {"array", "positive"}:
                    raise  # the numbers that refuted it are such
                with suppress(Unreadable):
                    _tried(reading, claim, restrictions)  # on numbers as they are declared
                    raise NotProved(
                        f"{what}: it holds on numbers as they are declared, and the proof does not use "
                        "what is declared of them"
                    ) from None
                raise
        with _where_torch_is():
            _needed(reading, claims, restrictions)

    def refuses(self, *formulas):
        """Refute each of these formulas of the running text, ``$…$``, printed there as wrong.

        Raises AssertionError if one is right, NotProved where there is neither proof nor refutation.
        """
        for formula in _some(formulas):
            with _placed(formula):
                groups = [self._claims(g, formula) for g in by_rows(split(self.page.inline(formula)))]
                try:
                    for reading, claims, restrictions in groups:
                        for claim in claims:
                            for signs in _signs(reading, restrictions):
                                _prove(reading, *claim, formula, signs)
                except NotProved:
                    raise
                except AssertionError:
                    continue
                raise AssertionError("it is right, and was expected to be wrong")

    def holds(self, *labels, draws=2):
        r"""Compute both sides of these equations on random numbers; raise an AssertionError if they differ.

        Sizes are all different; derivatives are torch's in float64. What holds is evaluated by `second.judge`
        too, where it knows the form. ≈ asks for nothing, and is refused. draws: how often, 2 or more.

        >>> page = Page(r"$$ m = \frac1D \sum_i x_i $$ (eq-mean) $$ \sum_i (x_i - m) = 0 $$ (eq-centred)")
        >>> page.given("eq-mean", letters="x (D)").holds("eq-centred")
        """
        if draws < 2:
            raise ValueError(f"draws: expected 2 or more, got {draws}")
        for label in _some(labels):
            with _placed(label):
                for reading, claims, restrictions in self.claims(label):
                    bounds = any(relation not in "=≠" for _, relation, _ in claims)  # few numbers tell little
                    self._draws(reading, claims, restrictions, draws * (8 if bounds else 1), label)
                    _needed(reading, claims, restrictions)
                _judge(self, label)

    def holds_for_small_sizes(self, label):
        """As `holds`, once, with sizes of 2 and 3: quick, and lets pass what is true of those."""
        with _placed(label):
            for reading, claims, restrictions in self.claims(label):
                self._draws(reading, claims, restrictions, 1, label, small=True)
                _needed(reading, claims, restrictions)

    def _draws(self, reading, claims, restrictions, count, label, small=False):
        """Compare on so many draws, and on more of them until each case of a claim has come up."""
        rng, cases = np.random.default_rng(len(label)), {}
        for n in range(count + 50):
            rare = [
                t for t, seen in cases.items() if len(seen) < (len(t.parts[1]) if t.kind == "extreme" else 2)
            ]
            if n >= count and (small or not rare):
                return
            sizes, values = _restricted(reading, restrictions, rng, small, wide=n >= count)
            if not has_kind((*claims,), *DERIVATIVES, "expect"):
                self._at_zero(reading, claims, restrictions, sizes, values, rng)
                if n == 0:
                    self._at_corners(reading, claims, restrictions, rng)
            for left, relation, right in claims:
                for case, seen in _compare(reading, sizes, values, left, relation, right, rng).items():
                    cases.setdefault(case, set()).update(seen)
        bounded = {name for name, a in reading.numbers.items() if a.kind in ("positive", "within")}
        rare = [t for t in rare if not bounded & {*names_in(t)}]
        if rare and not restrictions:  # |x| for x > 0 has one case
            raise Unreadable(
                f"{show(rare[0])}: of 50 more draws none brings up all its cases: write the one that is meant"
            )

    @staticmethod
    def _at_zero(reading, claims, restrictions, sizes, values, rng):
        """Compare where each number is 0 that a condition in the claim compares: there it may jump."""
        for name in sorted({n for c in claims for t in c[::2] for n in _compared(t)} & {*values}):
            at_zero = values | {name: np.zeros_like(values[name])}
            walk = in_numbers(reading, sizes, at_zero, restrictions)
            if reading.array(name).kind == "array" and all(_true(walk, r) for r in restrictions):
                for left, relation, right in claims:
                    _compare(reading, sizes, at_zero, left, relation, right, rng)

    @staticmethod
    def _at_corners(reading, claims, restrictions, rng):
        """See that bounds are so where all numbers are 0, 1, −1 or at an end, and sizes are equal."""
        bounds = [claim for claim in claims if claim[1] in "<>≤≥"]
        for level, size in itertools.product((0, 1, -1), (1, 3)) if bounds else ():
            sizes, values = draw(reading, rng, equal=size)
            for name, value in values.items():
                array = reading.array(name)
                if array.kind in ("positive", "distribution"):
                    values[name] = np.full_like(value, np.mean(value))
                elif array.kind == "within":
                    ends = [float(x) for x in array.below.strip("()[]{} ").split(",")]
                    tied = (min(ends), max(ends)) if "{" in array.below else (np.mean(ends),) * 2
                    values[name] = np.full_like(value, tied[level == 1], dtype=float)
                elif array.kind == "array":
                    values[name] = np.full_like(value, level)
            for left, relation, right in bounds:
                terms, depth = (left, right, *restrictions), depth_of(reading, left, right)
                walk = in_numbers(reading, sizes, values, terms, depth)
                if not all(_true(walk, r) for r in restrictions):
                    continue
                for at in _everywhere(walk, left, right):
                    a, b = (walk.number_of(t, at) for t in (left, right))
                    if math.isfinite(a) and math.isfinite(b) and not _related(a, relation, b, 1e-9):
                        raise AssertionError(
                            f"not {relation} at {sizes} and equal numbers: left = {a:.9g}, right = {b:.9g}"
                        )

    def number(self, label, part=-1, **values):
        r"""The number that an equation gives for some values: its last side, or that of another statement.

        part    which statement of the equation, from 0; by default the last
        values  for each size and each letter of it, by name: ``D=64, epsilon=1e-5, n=np.ones(3)``;
                lambda_ for λ

        >>> Page(r"$$ m = \frac1D \sum_i x_i $$ (eq-mean)").given(letters="x (D)").number(
        ...     "eq-mean", D=2, x=[1.0, 3.0]
        ... )
        2.0
        """
        with _placed(label):
            chosen = stated(self.page.tex(label))[part]._replace(words="")
            beside = [s for s in split(self.page.tex(label)) if s.opens(DEFINING)]
            reading = self._reading(chosen._replace(sides=chosen.sides[-1:]), *beside)
            values = {name.removesuffix("_"): value for name, value in values.items()}
            for name, value in values.items():
                if name not in reading.sizes and reading.named(name) is None:
                    reading.declare(
                        f"{name} ({', '.join(map(str, np.shape(value)))})" if np.ndim(value) else name
                    )
            for statement in beside:
                if self._defines(reading, statement):
                    reading.define(statement, label)
            value = Sentence(reading).side(chosen.sides[-1])
            sizes = {name: v for name, v in values.items() if name in reading.sizes}
            given = {reading.named(n): np.asarray(v) for n, v in values.items() if n not in sizes}
            return in_numbers(reading, sizes, given, [value], depth_of(reading, value)).number_of(value)

    def compute(self, name, sizes, values, upstream=None):
        """All entries of a letter, or with upstream of its gradient, from the printed definitions alone.

        sizes: for each size its number; values: for each free letter its array; upstream: what arrives from
        above, of the shape of the output. Leading axes of the arrays lead those of the result.
        """
        reading = self.reading
        letter = reading.named(name)
        given = {reading.named(n): np.asarray(v) for n, v in values.items()}
        depth = depth_of_values(reading, given)
        arrived = None if upstream is None else {reading.output: upstream}
        walk = in_numbers(reading, sizes, given, (), depth, arrived)
        axes = reading.array(letter).axes
        if letter in reading.definitions and letter != reading.loss:
            axes = tuple(reading.leading(letter, depth) if depth else ()) + axes
        places = [list(itertools.product(*map(walk.run, axis))) for axis in axes]
        at = tuple(Place(f"axis {n}") for n, _ in enumerate(axes))
        entry = Term("entry" if upstream is None else "gradient", (letter, at))
        found = [walk.number_of(entry, dict(zip(at, index))) for index in itertools.product(*places)]
        return np.array(found).reshape([len(p) for p in places])

    def grounds(self, label):
        """The labels of the printed definitions on which the claims of an equation rest."""
        found = set()
        for reading, claims, _ in self.claims(label):
            terms = [t for claim in claims for t in claim[::2]]
            names = {name for t in terms for name in names_in(t)}
            if has_kind((*terms,), "gradient"):
                names |= {reading.loss or reading.output}
            reached = set().union(*(_reached(reading, name) for name in names))
            found |= {reading.definitions[n].label for n in reached & {*reading.definitions}}
        return found - {"", label}

    def shown(self, label):
        """What was read of an equation: its claims, entry by entry, and what each index runs over."""
        lines = []
        for left, relation, right in (claim for _, claims, _ in self.claims(label) for claim in claims):
            lines.append(f"{show(left)} {relation} {show(right)}")
            ranges = {p.name: show_range(p.range) for t in (left, right) for p in places_of(t, bound=True)}
            lines += (
                [f"    {', '.join(f'{name} below {size}' for name, size in ranges.items())}"]
                if ranges
                else []
            )
        return "\n".join(lines)


def show(t):
    """A Term in one line, such as Σ_k dy[k]·x_hat[k]."""
    if isinstance(t, Place):
        return t.name
    if isinstance(t, tuple) and not isinstance(t, Term):
        return ", ".join(map(show, t[1:] if t[:1] == ("pair",) else t))
    if not isinstance(t, Term):
        return str(t)
    parts = t.parts
    if t.kind in ("entry", "gradient", "label"):
        name = ("d" if t.kind == "gradient" else "") + parts[0]
        return f"{name}[{show(parts[1])}]" if parts[1] else name
    if t.kind == "add":
        return "(" + " + ".join(map(show, parts)).replace("+ -1·", "− ").replace("+ -", "− ") + ")"
    if t.kind == "mul":
        return "·".join(map(show, parts))
    if t.kind == "pow":
        base, exponent = map(show, parts)
        base = f"({base})" if parts[0].kind in ("mul", "pow", "sum", "prod", "partial") else base
        return f"√{base}" if exponent == "1/2" else f"{base}^{exponent}"
    if t.kind in ("sum", "prod"):
        return f"{'Σ' if t.kind == 'sum' else 'Π'}_{parts[0]} {show(parts[1])}"
    if t.kind == "partial":
        return f"∂/∂{show(parts[1])} {show(parts[0])}"
    if t.kind == "function":
        return f"{parts[0]}({show(parts[1])})"
    if t.kind in ("apply", "let"):
        name = parts[0] if isinstance(parts[0], str) else parts[0].name
        return f"{name}{chr(39) * parts[1]}({show(parts[2])})"
    if t.kind in ("number", "size", "place", "constant"):
        return show(parts[0])
    return f"{t.kind}({', '.join(map(show, parts))})"


def _tried(reading, claim, restrictions):
    """Compare the sides of a claim on a few numbers as they are declared, such as a mask of 0 and 1."""
    rng = np.random.default_rng(0)
    for _ in range(4):
        _compare(reading, *_restricted(reading, restrictions, rng, True), *claim, rng)


def _judge(given, label):
    """Evaluate what is proved by a second reading of the page; an AssertionError if it is wrong."""
    with _where_torch_is(), suppress(Unreadable):
        try:
            second.judge(given, label, draws=1)
        except second.Unjudged:  # a test names the forms that it does not know
            with suppress(NotProved):  # where the numbers of one draw have no root
                given.holds_for_small_sizes(label)


@contextmanager
def _where_torch_is():
    """For what is evaluated besides a proof: nothing where PyTorch is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise


def _some(labels):
    """The labels; ValueError if there are none, since then nothing would be checked."""
    if not labels:
        raise ValueError("labels: expected one or more, got none")
    return labels


def depth_of_values(reading, values):
    """How many leading axes the values have that the printed definitions leave out."""
    return max(
        (
            len(reading.array(name).axes) - used
            for name in values
            if (used := used_with(reading, name)) is not None
        ),
        default=0,
    )


class _placed:
    """Put the label in front of what went wrong."""

    def __init__(self, label):
        self.label = label

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if isinstance(error, (Unreadable, AssertionError)) and not str(error).startswith(self.label):
            error.args = (f"{self.label}: {error}",)
        if kind is ValueError:  # such as x_j beside x_tj, in sums of every size
            raise Unreadable(f"{self.label}: {error}") from error
        return False


def single_letter(tokens):
    """The Letter that a side consists of, else None."""
    items = items_of(parse(tokens))
    return letter_of(items[0]) if items and len(items) == 1 else None


def _quantified(condition, behind):
    """See that "for all j, k" behind a condition names the indices of its left side, and no others."""
    tokens = [t.value for side in condition.sides[:1] for t in side if t.type == "LETTER"]
    named = [value for value in behind if value not in {",", "and"}]
    if unknown := set(named) - {t.value for side in condition.sides for t in side}:
        raise Unreadable(f"for all {min(unknown)}: the condition before it has no such index")
    letter = single_letter(condition.sides[0]) if named else None
    indices = {t for tree in letter.below for t in written(tree) if t.isalpha()} if letter else set()
    if left := indices & {*tokens} - {*named}:
        raise Unreadable(f"for all {', '.join(named)}: and {min(left)}, on which the condition depends?")


def _size_product(reading, side):
    found = []
    for token in side:
        if token.type == "NUMBER":
            found.append(int(token.value))
        elif token.value in reading.sizes:
            found += reading.sizes[token.value]
        else:
            raise Unreadable(f"a size that is no product: {token.value}")
    return tuple(sorted(found, key=lambda size: isinstance(size, int)))


def _indices(reading, *terms):
    """Symbols for the free indices of some terms."""
    walk, at = Symbols(reading), {}
    for t in terms:
        for place in places_of(t):
            if place.range.known is None:
                raise Unreadable(f"nothing says what {place} is, or what it runs over")
            at[place] = tuple(
                Index(f"{place.name}{n or ''}", walk.length(size)) for n, size in enumerate(place.range.known)
            )
    return at


def _free_number(t):
    """The name of the letter without indices that a Term is; None for another."""
    return t.parts[0] if isinstance(t, Term) and t.kind == "entry" and not t.parts[1] else None


def _compared(t):
    """The letters that a Term compares with something, or takes the sign of."""
    signs = [one for one in subterms(t) if one.kind == "relation" or one.parts[0] == "sign"]
    parts = [part for one in signs for part in one.parts[1:] if isinstance(part, Term)]
    return [part.parts[0] for part in parts if part.kind == "entry"]


def _signs(reading, restrictions):
    """The cases of conditions such as x > 0 or x ≠ 0: {symbol of the number: itself, with its sign}.

    Other conditions are left out; what is proved without them holds with them.
    """
    cases = [{}]
    turned = {">": "<", "<": ">", "≥": "≤", "≤": "≥"}
    for left, relation, right in restrictions:
        if left == number(0):
            left, relation, right = right, turned.get(relation, relation), left
        name = _free_number(left)
        if name not in reading.numbers or name in reading.definitions or right != number(0):
            continue
        symbol, more = sp.Symbol(name, real=True), sp.Symbol(name, positive=True)
        least = sp.Symbol(name, nonnegative=True)
        signs = {">": [more], "<": [-more], "≠": [more, -more], "≥": [least], "≤": [-least]}.get(relation, [])
        cases = [{**case, symbol: sign} for case in cases for sign in signs] or cases
    return cases


def _prove(reading, left, relation, right, what, signs):
    """For each index, and for each number where an axis such as 2I has a length that is known."""
    at = _indices(reading, left, right)
    known = [i for index in at.values() for i in index if i.size.is_Integer and i.size <= 4]
    for numbers in itertools.product(*(range(int(i.size)) for i in known)):
        chosen = dict(zip(known, map(sp.Integer, numbers)))
        cases = {p: tuple(chosen.get(i, i) for i in index) for p, index in at.items()}
        _prove_at(reading, left, relation, right, what, signs, cases)


def _prove_at(reading, left, relation, right, what, signs, at):
    depth = depth_of(reading, left, right)
    if relation == "=" and (has_steps(reading, left) or has_steps(reading, right)):
        walk = Steps(reading, depth)
        prove_steps(walk, left, right, at, what)
        _smooth(walk, signs)
        return
    if relation == "=":
        for opaque in _levels(reading, left, right):
            walk = Symbols(reading, depth, opaque)
            try:
                a, b = (sp.sympify(walk.value(t, at)).xreplace(signs) for t in (left, right))
                _smooth(walk, signs)
            except Unprovable:
                if not opaque:  # p at t + b needs the definition of p
                    raise
                continue
            if not opaque:
                if a == b or _of_unknown(a, b) and equal(a, b):
                    return
                _at_jumps(a, b, what, walk.kinks)
                prove_equal(*map(with_examples, (a, b)))  # an example of φ may refute
                if _of_unknown(a, b):
                    raise NotProved(
                        f"{what}: it holds for one example of a function, and is not proved for each"
                    )
            elif equal(a, b):
                return
        return
    if relation in ("≥", "≤", ">", "<"):
        walk = Symbols(reading, depth)
        a, b = (sp.sympify(walk.value(t, at)).xreplace(signs) for t in (left, right))
        more = a - b if relation in "≥>" else b - a
        if _sign(more, strict=relation in "<>"):
            return
        raise NotProved(f"{what}: {relation} is not plain from the signs of the parts")
    raise Unprovable(f"{what}: no proof of {relation}")


def _at_jumps(a, b, what, kinks):
    """Refute what fails where two numbers are equal that a condition compares, or one is 0 with a sign.

    Of a letter that has a kink, nothing is claimed there.
    """
    kinked = {getattr(letter, "base", letter) for one in kinks for letter in one.free_symbols}
    compared = [c.lhs - c.rhs for c in (a - b).atoms(sp.core.relational.Relational)]
    compared += [jump.args[0] for jump in (a - b).atoms(sp.sign)]
    signed = [u.replace(sp.Abs, lambda x, sign=sign: sign * x) for u in compared for sign in (1, -1)]
    for _, letter, shift in filter(None, map(kink, signed)):
        base = getattr(letter, "base", letter)
        entries = {e for e in (a - b).atoms(sp.Indexed) if e.base == base}
        alone = (
            entries <= {letter} and letter.atoms(Index) <= (a - b).free_symbols
        )  # no other may be the same
        beyond = getattr(base, "label", base).is_positive and shift >= 0
        if base in kinked or beyond or not alone:
            continue
        difference = (a - b).subs(letter, -shift)
        if difference.has(sp.nan, sp.zoo):
            continue
        try:
            prove_equal(with_examples(difference), sp.S.Zero)
        except NotProved:
            continue
        except AssertionError:
            at = f"{what}: at {letter} = {-shift} the sides differ by {difference}"
            raise AssertionError(at) from None


def _smooth(walk, signs):
    """Refuse derivatives at a kink: the conditions of a claim must say where it is not."""
    if walk.reading.kinks is not None:
        walk.reading.kinks |= {str(one) for one in walk.kinks}
        return
    for one in walk.kinks:
        if (rest := one.xreplace(signs)).has(sp.Max, sp.Min, sp.Abs, sp.sign, sp.Piecewise):
            raise Unprovable(f"a derivative of {rest}, which has a kink: say where it is not, as for x ≠ 0")


def _occurs(reading, t):
    """Refuse derivatives by letters that what is differentiated does not hold: they would be 0 by mistake."""
    for one in subterms(t):
        if one.kind == "gradient":
            name, whole = one.parts[0], "a loss"
            held = {reading.output, *_reached(reading, reading.loss), *_reached(reading, reading.output)}
        elif one.kind == "partial":
            name, whole = one.parts[1].parts[0], "something"
            inside = {inner for _, inner, _ in entries_of(one.parts[0])}
            held = inside.union(*(_reached(reading, inner) for inner in inside))
        else:
            continue
        if name not in held:
            raise Unreadable(f"a derivative by {name} of {whole} in which it does not occur")


def _reached(reading, name):
    """The letters that a definition is made of, and those of theirs; itself too."""
    found, todo = set(), [name]
    while todo:
        one = todo.pop()
        if one not in found:
            found.add(one)
            if one in reading.definitions:
                todo += names_in(reading.definitions[one].body)
            if one in reading.recurrent:
                todo.append(f"{one}_0")  # where it begins
    return found


def _of_unknown(*sides):
    return any(with_examples(side) != side for side in sides)


def _levels(reading, *terms):
    """Which definitions stay closed: first all, at last none. A derivative needs them open."""
    names = frozenset(reading.definitions)
    return [frozenset()] if has_kind(terms, *DERIVATIVES, "expect") else [names, frozenset()]


def _order(t, reading):
    """How many derivatives stand inside one another; one that a definition holds counts as one more."""
    if isinstance(t, Term):
        inner = max([_order(part, reading) for part in t.parts], default=0)
        if t.kind in ("gradient", "partial"):
            return (
                1
                + inner
                + any(has_kind(d.body, *DERIVATIVES, "expect") for d in reading.definitions.values())
            )
        return inner
    return max([_order(part, reading) for part in t], default=0) if isinstance(t, (tuple, list)) else 0


def _sum_sign(e, strict):
    return all(_sign(t, False) for t in e.args) and (not strict or any(_sign(t, True) for t in e.args))


def _sign(e, strict):
    """Is e ≥ 0 (or > 0) plain from the signs of its parts?"""
    if isinstance(e, sp.exp):
        return True  # of a real number
    if e.is_number:
        return bool(e.is_positive if strict else e.is_nonnegative)
    if isinstance(e, sp.Sum):
        return _sign(e.function, strict)
    if e.is_Add and not (plain := _sum_sign(e, strict)):
        whole = sp.cancel(e)  # 1 − 1/(1 + exp x) is exp x/(1 + exp x)
        return not whole.is_Add and _sign(whole, strict) or whole.is_Add and _sum_sign(whole, strict)
    if e.is_Add:
        return plain
    if e.is_Mul:
        return all(_sign(t, strict) for t in e.args)
    if e.is_Pow and e.exp.is_Integer and e.exp.is_even and not strict:
        return True
    if e.is_Pow:
        return _sign(e.base, strict or bool(e.exp.is_negative))
    return bool(e.is_positive if strict else e.is_nonnegative)


def _restricted(reading, restrictions, rng, small, wide=False):
    for _ in range(200):
        sizes, values = draw(reading, rng, small, wide)
        walk = in_numbers(reading, sizes, values, restrictions)
        if all(_true(walk, r) for r in restrictions):
            return sizes, values
    raise Unreadable("a condition that no numbers of 200 meet")


def _needed(reading, claims, restrictions):
    """See that numbers meet the conditions, up to the edge, and that without any of them a claim may fail.

    Raises Unreadable for conditions that no numbers meet, AssertionError for one that makes no difference,
    or that is met by numbers for which a claim fails.
    """
    if not restrictions:
        return
    rng = np.random.default_rng(len(restrictions))
    _restricted(reading, restrictions, rng, small=True)
    for one in restrictions:
        others, shown = [r for r in restrictions if r is not one], f"{show(one[0])} {one[1]} {show(one[2])}"
        outside = filter(None, (_drawn(reading, one, False, others, rng) for _ in range(24)))
        fails = (_fails(reading, *numbers, claims, rng) for numbers in outside)
        if not next(fails, True) and not any(fails):
            raise AssertionError(f"the condition {shown} makes no difference")
        edge = _drawn(reading, one, True, others, rng) if one[1] in ("≤", "≥") else None
        if edge and _fails(reading, *edge, claims, rng):
            raise AssertionError(f"the condition {shown} holds where both sides are equal, and a claim fails")


def _drawn(reading, one, met, others, rng):
    """Sizes and values that meet all conditions, but for one that they meet or not; None if none are found.

    Where it says more of a free number than < or >, that number is put to where both sides are equal.
    """
    for _ in range(40):
        sizes, values = draw(reading, rng, small=True)
        for letter, bound in (one[::2], one[::-2]) if met or one[1] == "≠" else ():
            if _free_number(letter) in values:
                bound = in_numbers(reading, sizes, values, [bound]).number_of(bound)
                values[_free_number(letter)] = np.asarray(bound)
        walk = in_numbers(reading, sizes, values, [one, *others])
        if _true(walk, one) == met and all(_true(walk, r) for r in others):
            return sizes, values
    return None


def _fails(reading, sizes, values, claims, rng):
    """Whether a claim is wrong for these numbers, or says nothing."""
    try:
        for left, relation, right in claims:
            _compare(reading, sizes, values, left, relation, right, rng)
    except (AssertionError, ArithmeticError, TypeError, ValueError):
        return True
    return False


def _true(walk, restriction):
    left, relation, right = restriction
    for at in _everywhere(walk, left, right):
        if not _related(walk.number_of(left, at), relation, walk.number_of(right, at), 0.0):
            return False
    return True


def _everywhere(walk, *terms):
    """The values that the free indices of some terms have together, {Place: index}."""
    places = list(dict.fromkeys(p for t in terms for p in places_of(t)))
    if unknown := [place for place in places if place.range.known is None]:
        raise Unreadable(f"nothing says what {unknown[0]} is, or what it runs over")
    return [dict(zip(places, index)) for index in itertools.product(*(walk.every(p.range) for p in places))]


def _related(a, relation, b, slack):
    return {
        "=": abs(a - b) <= slack,
        "≠": abs(a - b) > slack,
        "≤": a <= b + slack,
        "≥": a >= b - slack,
        "<": a < b,
        ">": a > b,
    }[relation]


def _compare(reading, sizes, values, left, relation, right, rng, most=24):
    """Both sides at some random indices. Returns which cases of minima, conditions and |x| came up."""
    if relation == "≈":
        raise Unreadable("≈ says of no number how near it is")
    walk = in_numbers(reading, sizes, values, (left, right), depth_of(reading, left, right))
    everywhere = _everywhere(walk, left, right)
    differs = compared = 0
    for n in rng.permutation(len(everywhere))[:most]:
        at = everywhere[n]
        a, b = (walk.number_of(t, at) for t in (left, right))
        if a != a and b != b:
            continue  # where both are 0/0, nothing is claimed
        compared += 1
        if a != a or b != b:
            raise NotProved(f"one side has no value at {_where(sizes, at)}: say where it has, as for x > 0")
        slack = 1e-9 * max(1, abs(a), abs(b))  # hundreds of operations on numbers of order 1
        if not _related(a, "=" if relation == "≠" else relation, b, slack):
            differs += 1
            if relation != "≠":
                what = "equal" if relation == "=" else relation
                shown = f"left = {a:.9g}, right = {b:.9g}"
                raise AssertionError(f"not {what} at {_where(sizes, at)}: {shown}")
    if not compared:
        raise NotProved(f"{NO_VALUE} at {_where(sizes)}: say where they have, as for x > 0")
    if relation == "≠" and not differs:
        raise AssertionError(f"both sides are equal everywhere, at {sizes}")
    return walk.cases


def _where(sizes, at=None):
    """Sizes and indices for a message."""
    shown = [f"{name} = {size}" for name, size in sizes.items()]
    return ", ".join([*shown, *(f"{p} = {'·'.join(map(str, i))}" for p, i in (at or {}).items())])
