r"""From the tree of a formula to what it says: sums, entries, gradients, each index with its range.

A `Reading` knows the letters (arrays with their axes, numbers, labels, functions) and the printed
definitions. `Sentence` elaborates the sides of one statement: it finds what each index runs over, from the
arrays that it is an index of, and writes matrices entry by entry. The result is made of `Term`, and knows no
algebra: `algebras` computes it with symbols or with numbers.

Nothing is guessed. A letter that nobody declared, an index that belongs to no array or to two of unequal
lengths, a product that reads in two ways: each is refused, with its place.
"""

import functools
import math
from fractions import Fraction
from typing import NamedTuple

import lark

from .functions import NAMED, named, scripts_of, two_ways
from .tree import Unreadable, form, only, parse

EXTREMES = {"min", "max"}
LOSSES = ("L", "ell")
"""What a loss is called that nobody defines."""
WHOLE = ("bold", "sans", "cal", "whole")
"""The fonts of a letter that stands for an array; ``whole`` for one in no font, as in Y = X W."""


class Range:
    """What an index runs over: a product of sizes, or not known yet. Two may turn out to be one."""

    def __init__(self, sizes=None):
        self.sizes, self.same = sizes, None

    def root(self):
        return self.same.root() if self.same else self

    @property
    def known(self):
        return self.root().sizes

    def join(self, other, what):
        """Make both one range. Raises Unreadable if they are known and differ."""
        a, b = self.root(), other.root()
        if a is b:
            return
        if a.sizes is not None and b.sizes is not None:
            if a.sizes != b.sizes:
                raise Unreadable(
                    f"{what}: runs over {show_range(a)} in one place, {show_range(b)} in another"
                )
            return
        if a.sizes is None:
            a.same = b
        else:
            b.same = a


def show_range(range_):
    sizes = range_.known
    return "?" if sizes is None else "·".join(map(str, sizes)) or "1"


ONE = Range(())
STEPS = ("steps",)
"""What an index of a sequence runs over: t = 1, 2, …"""


class Place:
    """An index: free or bound by a sum, with its range."""

    def __init__(self, name, range_=None):
        self.name, self.range = name, range_ or Range()

    def __repr__(self):
        return self.name


class Term(NamedTuple):
    """A number as the formula writes it: a kind, and its parts."""

    kind: str
    parts: tuple

    def __repr__(self):
        return f"{self.kind}({', '.join(map(repr, self.parts))})"


def term(kind, *parts):
    return Term(kind, parts)


def number(value):
    return term("number", Fraction(value))


ZERO, UNIT = number(0), number(1)


def add(*terms):
    terms = [t for t in terms if t != ZERO]
    return terms[0] if len(terms) == 1 else term("add", *terms) if terms else ZERO


def times(*terms):
    if ZERO in terms:
        return ZERO
    terms = [t for t in terms if t != UNIT]
    return terms[0] if len(terms) == 1 else term("mul", *terms) if terms else UNIT


def power(base, exponent):
    return term("pow", base, exponent)


def minus(t):
    return times(number(-1), t)


def over(a, b):
    return times(a, power(b, number(-1)))


class Matrix(NamedTuple):
    """An array of two axes, one of which may have length 1; entry(i, j) is a Term."""

    rows: Range
    columns: Range
    entry: object
    diagonal: bool = False

    @property
    def turned(self):
        return Matrix(self.columns, self.rows, lambda i, j: self.entry(j, i), self.diagonal)

    @property
    def single(self):
        return self.rows.known == () and self.columns.known == ()

    @property
    def vector(self):
        """Whether one of its axes has length 1."""
        return () in (self.rows.known, self.columns.known)

    @property
    def upright(self):
        """A vector as a column."""
        return self if self.columns.known == () else self.turned


class Letter(NamedTuple):
    """A letter as printed: its font, hat, d, and what stands above and below it."""

    base: str
    font: str = ""
    accent: str = ""
    gradient: bool = False
    below: tuple = ()
    above: tuple = ()
    primes: int = 0

    @property
    def name(self):
        return self.base + "'" * self.primes

    @property
    def bare(self):
        """Whether nothing but primes stands at it, as at an index."""
        return self == Letter(self.base, primes=self.primes)

    def __str__(self):
        return ("d" if self.gradient else "") + self.base + (f" with a {self.accent}" if self.accent else "")


class Array(NamedTuple):
    """A letter of the reading. axes: for each, the sizes whose product it is, (H, K) for HK.

    kind: "array", "positive", "label" (integers below `below`), "function", "size".
    """

    name: str
    axes: tuple = ()
    kind: str = "array"
    below: tuple = ()


def exp(x):
    return term("function", "exp", x)


COMPOSED = {
    "sigmoid": lambda x: power(add(UNIT, exp(minus(x))), number(-1)),
    "ReLU": lambda x: term("extreme", "max", (ZERO, x)),
    "relu": lambda x: term("extreme", "max", (ZERO, x)),
    "SiLU": lambda x: over(x, add(UNIT, exp(minus(x)))),
    "softplus": lambda x: term("function", "ln", add(UNIT, exp(x))),
}
"""Functions of the table that are made of others."""


class Operator(NamedTuple):
    """LN_ε(𝐱) = x̂.

    A defined array as it depends on a free array, and on the free numbers that stand below.
    """

    argument: str
    numbers: tuple
    result: str


class Definition(NamedTuple):
    """What a letter is: for these places, this Term."""

    name: str
    places: tuple
    body: object
    label: str = ""


# ------------------------------------------------------------------------------------------ letters of a tree


def letter_of(item):
    """The Letter that a factor is; None if it is something else, or no factor."""
    if not form(item):
        return None
    scripts = item.children[1:]
    letter = _letter_of_atom(item.children[0])
    if letter is None or any(script.data == "factorial" for script in scripts):
        return None
    below, above, primes = list(letter.below), list(letter.above), letter.primes
    for script in scripts:
        if script.data == "sub":
            below.append(script.children[0])
        elif script.data == "sup":
            above.append(script.children[0])
        else:
            primes += 1
    return letter._replace(below=tuple(below), above=tuple(above), primes=primes)


def _letter_of_atom(tree):
    kind, children = tree.data, tree.children
    if kind in ("letter", "name"):
        return Letter(str(children[0]), "name" if kind == "name" else "")
    if kind == "gradient":
        letter = _letter_of_atom(children[0])
        return letter and letter._replace(gradient=True)
    if kind == "font" and len(children) == 2:
        if children[1].data == "number":
            return Letter(str(children[1].children[0]), str(children[0]))
        letter = _letter_of_atom(children[1])
        return letter and letter._replace(font=str(children[0]))
    if kind == "accent":
        letter = letter_of(children[1])
        return letter and letter._replace(accent=str(children[0]))
    return None


def clauses(tree):
    """What stands between the commas of an index or a limit; [] for words."""
    return (
        [child for child in tree.children if getattr(child, "data", "") == "clause"]
        if tree.data == "list"
        else []
    )


def words_of(tree):
    """Words or a name that stand alone in a script, such as gate, enc; None if it holds a formula."""
    if tree.data == "words":
        return str(tree.children[0]).strip()
    factor = only(tree, "factor")
    if form(factor) == "name" and len(factor.children) == 1:
        return str(factor.children[0].children[0])
    return None


def plain_letter(tree):
    """The Letter if a tree is a single factor that is one, else None."""
    return letter_of(only(tree, "factor"))


def digits(tree):
    """The number that stands alone in a tree, as text; None if it holds something else."""
    return digits_of(only(tree, "factor"))


def in_brackets(tree):
    """What stands in the round brackets that a tree consists of; None for another tree."""
    factor = only(tree, "factor")
    if form(factor) == "paren" and len(factor.children) == 1:
        return factor.children[0].children[0]
    return None


def items_of(tree):
    """The items of a tree that is one product without a sign; None for another tree."""
    product = only(tree, "product")
    return product and product.children


# ----------------------------------------------------------------------------------------------- the sentence


class Sentence:
    """The sides of one statement, elaborated together: they share their free indices.

    reading: the letters and definitions (see `page.Reading`). columns: whether a bold small letter is a
    column, as in P x; else it is a row, as everywhere in the book but where a chapter says so.
    """

    def __init__(self, reading):
        self.reading, self.free, self.summed, self.compared = reading, {}, [], set()
        self.counted = []  # the indices of sums that count from 1

    # ---- sides

    def side(self, tokens):
        """A Term or a Matrix."""
        return self.expr(parse(tokens), {})

    def pair(self, left, right, what=""):
        """Both sides as Terms, matrices entry by entry at indices of their own.

        Raises Unreadable if one is a matrix and the other neither a matrix of that shape nor a number that
        every entry equals.
        """
        if isinstance(left, Matrix) and left.single:
            left = left.entry(0, 0)
        if isinstance(right, Matrix) and right.single:
            right = right.entry(0, 0)
        if isinstance(left, Matrix) and isinstance(right, Matrix):
            left.rows.join(right.rows, f"{what}: the rows")
            left.columns.join(right.columns, f"{what}: the columns")
            i, j = self.fresh(left.rows, "row"), self.fresh(left.columns, "column")
            return left.entry(i, j), right.entry(i, j)
        if isinstance(left, Matrix) or isinstance(right, Matrix):
            raise Unreadable(f"{what}: an array on one side, a number on the other")
        return left, right

    def settle(self):
        """An index of a sum over δ alone runs over what its letter does elsewhere in the statement.

        Raises Unreadable for a letter that is summed over, and free as well.
        """
        if both := {place.name for place in self.summed} & set(self.free):
            raise Unreadable(f"the index {min(both)} is summed over, and free in another place")
        for place in self.summed:
            others = [p for p in (*self.summed, *self.free.values()) if p.name == place.name]
            known = {p.range.known for p in others} - {None}
            if place.range.known is None and len(known) == 1:
                place.range.join(Range(known.pop()), f"index {place}")

    def fresh(self, range_, name):
        return 0 if range_.known == () else Place(f"{name}", range_)

    # ---- sums and products

    def expr(self, tree, bound):
        if tree.data != "expr":
            inner = only(tree, "expr")
            if inner is None:
                raise Unreadable(f"expected a formula, got {written(tree)!r}")
            tree = inner
        sign, total = 1, None
        for child in tree.children:
            if not hasattr(child, "data"):
                sign = -1 if child.type == "MINUS" else 1
                continue
            value = self.product(child.children, bound)
            value = self.each(minus, value) if sign < 0 else value
            total = value if total is None else self.plus(total, value)
        return total

    def product(self, items, bound):
        result, operation, divided, before = None, None, False, None
        items = self.inline(items)
        while items:
            item = items.pop(0)
            if not hasattr(item, "data"):
                if operation or result is None:
                    raise Unreadable(f"{str(item)!r} stands where a factor is expected")
                operation, divided = item.type, False
                continue
            if item.data == "big":
                value, items = self.big(item, items, bound), []
            elif is_operator(item):
                value, items = self.derivative(item, items, bound), []
            else:
                value, items = self.application(item, items, bound)
            if operation == "SLASH" and is_gradient(item) and is_gradient(before):
                raise quotient_of_gradients(item)
            before = item
            if divided and operation is None:
                raise Unreadable(f"a quotient a/b c reads in two ways: {written(item)!r} stands behind it")
            result = value if result is None else self.combine(result, value, operation)
            divided, operation = operation == "SLASH", None
        if operation or result is None:
            raise Unreadable("a product that ends in a sign")
        return result

    def combine(self, a, b, operation):
        if operation == "SLASH":
            if isinstance(b, Matrix) and not b.vector:
                raise Unreadable("a quotient by a matrix")
            if isinstance(b, Matrix) and not b.single:  # a vector: entry by entry
                return self.both(over, a, b)
            return self.each(lambda x: over(x, self.scalar(b)), a)
        if operation == "ENTRYWISE":
            return self.both(times, a, b)
        if not isinstance(a, Matrix) or not isinstance(b, Matrix):
            if isinstance(a, Matrix):
                return self.each(lambda x: times(x, b), a)
            return self.each(lambda x: times(a, x), b)
        if operation == "TIMES":
            if not (a.vector and b.vector):
                raise Unreadable("A · B of matrices: write A B for their product, ⟨A, B⟩ for the inner one")
            return self.inner(a, b)
        return self.matmul(a, b)

    def matmul(self, a, b):
        if a.diagonal or b.diagonal:
            a.columns.join(b.rows, "a product of matrices")
            if b.diagonal:
                return Matrix(a.rows, b.columns, lambda i, j: times(a.entry(i, j), b.entry(j, j)))
            return Matrix(a.rows, b.columns, lambda i, j: times(a.entry(i, i), b.entry(i, j)))
        a.columns.join(b.rows, "a product of matrices: the columns of the first, the rows of the second")

        def entry(i, j):
            if a.columns.known == ():
                return times(a.entry(i, 0), b.entry(0, j))
            k = Place("k", a.columns)
            return term("sum", k, times(a.entry(i, k), b.entry(k, j)))

        product = Matrix(a.rows, b.columns, entry)
        return product

    def inner(self, a, b):
        """The sum of the products of all entries."""
        if a.rows.known != b.rows.known and a.vector:
            b = b.turned if (a.rows.known == ()) != (b.rows.known == ()) else b
        a.rows.join(b.rows, "an inner product")
        a.columns.join(b.columns, "an inner product")
        return self.all(lambda i, j: times(a.entry(i, j), b.entry(i, j)), a.rows, a.columns)

    def all(self, entry, rows, columns):
        """The sum over all entries."""
        i, j = self.fresh(rows, "k"), self.fresh(columns, "l")
        body = entry(i, j)
        for place in (j, i):
            body = term("sum", place, body) if place != 0 else body
        return body

    def scalar(self, value):
        if isinstance(value, Matrix):
            if not value.single:
                raise Unreadable("an array where a number is expected")
            return value.entry(0, 0)
        return value

    def each(self, f, value):
        if isinstance(value, Matrix):
            return Matrix(value.rows, value.columns, lambda i, j: f(value.entry(i, j)))
        return f(value)

    def both(self, f, a, b):
        """f of two values, entry by entry; a number goes with every entry, a row with every row."""
        if isinstance(a, Matrix) and isinstance(b, Matrix):
            vector, square = (a, b) if a.columns.known == () else (b, a)
            if self.reading.columns and vector.columns.known == () != vector.rows.known:
                if square.rows.known == square.columns.known == vector.rows.known:
                    raise Unreadable(
                        "a vector beside a square matrix: to be added to each row, or to each column?"
                    )
            a, b = stretched(a, b), stretched(b, a)
            a.rows.join(b.rows, "two arrays, entry by entry: the rows")
            a.columns.join(b.columns, "two arrays, entry by entry: the columns")
            return Matrix(a.rows, a.columns, lambda i, j: f(a.entry(i, j), b.entry(i, j)))
        if isinstance(a, Matrix):
            return self.each(lambda x: f(x, b), a)
        return self.each(lambda x: f(a, x), b)

    def plus(self, a, b):
        return self.both(add, a, b)

    # ---- Σ and Π

    def big(self, tree, rest, bound):
        kind = str(tree.children[0].type)
        if kind == "INTEGRAL":
            raise Unreadable("an integral")
        low = [child.children[0] for child in tree.children[1:] if child.data == "low"]
        high = [child.children[0] for child in tree.children[1:] if child.data == "high"]
        if len(low) != 1 or len(high) > 1 or not clauses(low[0]):
            raise Unreadable(f"a sum without an index, or over words: {written(tree)!r}")
        if not rest:
            raise Unreadable(f"a sum of nothing: {written(tree)!r}")
        inside, places, conditions, limits, before = dict(bound), [], [], [], {}
        for clause in clauses(low[0]):
            names = self.index_letters(clause.children[0])
            relation = str(clause.children[1]) if len(clause.children) > 1 else ""
            new = names is not None and not any(name in inside for name in names)
            if not relation and not new:
                raise Unreadable(f"the index of a sum is in use: {written(clause)!r}")
            if new:
                for name in names:
                    inside[name] = Place(name)
                    places.append(inside[name])
                    self.summed.append(inside[name])
            if new and relation == "=" and high:
                before |= self.bounds(inside[names[0]], clause.children[2], high[0], bound, limits)
            elif relation:
                before_it = {*self.free}
                condition = self.condition(clause, inside)
                self.compared |= {*self.free} - before_it  # Σ_{i<j}, where j was not named before
                if not places_of(condition).keys() & {*places}:
                    raise Unreadable(f"{written(clause)!r} below a sum names no index that it runs over")
                conditions.append(condition)
        body = self.product(rest, inside)
        if any(place in self.counted and is_number_in(place, body) for place in places):
            raise Unreadable("a place as a number in a sum from 1: places count from 0, write Σ_{i=0}^{D-1}")
        if kind == "PROD" and isinstance(body, Matrix):
            raise Unreadable("a product of matrices over an index: write the recurrence of its steps")

        def where(x, conditions):
            if kind == "PROD":
                return term("only", x, tuple(conditions)) if conditions else x
            return times(x, *conditions)

        def summed(x):
            terms = [where(with_places(x, before), with_places(tuple(conditions), before))] if before else []
            x = where(x, [*limits, *conditions])
            for place in reversed(places):
                x = term("sum" if kind == "SUM" else "prod", place, x)
            return add(*terms, x) if kind == "SUM" else times(*terms, x)

        return self.each(summed, body)

    def bounds(self, place, first, last, bound, conditions):
        """An index from … to …: 0 to n − 1 gives its range; a part of a range is a condition.

        Returns {place: 0} for a sum over steps, which count from 1, that begins before them. Raises
        Unreadable if the lower limit may lie below the range.
        """
        end = letter_of(only(last, "factor")) if place.name in self.reading.steps else None
        unknown = end and end.base.isupper() and self.reading.find(end) is None
        if unknown and end.base not in self.reading.sizes and digits(first) == "1":
            place.range.join(Range(STEPS), f"index {place}")  # to a T that is the number of steps
            return {}
        low, high = self.scalar(self.expr(first, bound)), self.scalar(self.expr(last, bound))
        names, steps = self.size_of(add(high, UNIT)), STEPS in ranges_in(high)
        if names is not None and not steps:
            self.reading.counts_from(0)
        least = smallest(low)
        early = steps and low == ZERO and (smallest(high) or 0) >= 0
        if least is None or least < 0 or steps and least < 1 and not early:
            raise Unreadable(f"a sum from {written(first)}, which may lie before the first index")
        if low == UNIT and not steps and names is None and (names := self.size_of(high)) is not None:
            self.reading.counts_from(1)
            self.counted.append(place)  # from 1 to D: all entries, whose places are not used as numbers
            place.range.join(Range(names), f"index {place}")
            return {}
        if steps or names is not None:
            place.range.join(Range(STEPS if steps else names), f"index {place}")
        here = term("place", place)
        if low != (UNIT if steps else ZERO) and not early or names is None and not steps:
            conditions.append(term("relation", "from", here, low))
        if names is None:
            conditions.append(term("relation", "up to", here, high))
        return {place: 0} if early else {}

    def size_of(self, t):
        """The sizes whose product a Term is, as (D) for (D − 1) + 1; None if it is no size."""
        if t.kind == "add":
            numbers = [p.parts[0] for p in t.parts if p.kind == "number"]
            others = [p for p in t.parts if p.kind != "number"]
            nested = [p for p in others if p.kind == "add"]
            if nested:
                return self.size_of(
                    add(
                        *[q for p in others for q in (p.parts if p.kind == "add" else [p])],
                        *[number(n) for n in numbers],
                    )
                )
            return self.size_of(others[0]) if len(others) == 1 and sum(numbers) == 0 else None
        if t.kind == "size":
            return self.reading.size(t.parts[0])
        return None

    def condition(self, clause, bound):
        """1 where a relation between indices holds, else 0."""
        left, sign, right = clause.children[0], str(clause.children[1]), clause.children[2]
        if len(clause.children) > 3:
            raise Unreadable(f"a condition of several relations: {written(clause)!r}")
        a, b = self.index_or_none(left, bound), self.index_or_none(right, bound)
        if a is not None and b is not None:
            a, b = self.joined(a, b)
            if sign == "=":
                return term("delta", a, b)
            if sign == "≠":
                return add(UNIT, minus(term("delta", a, b)))
        sides = [self.expr(e, bound) for e in (left, right)]
        return self.both(lambda x, y: term("relation", sign, x, y), *sides)

    def index_letters(self, tree):
        """The names of the letters that a limit consists of; None if it is something else."""
        items = items_of(tree)
        names = []
        for item in items or [None]:
            letter = letter_of(item)
            if letter is None or not letter.bare:
                return None
            names.append(letter.name)
        return names

    # ---- factors

    def application(self, item, items, bound):
        """The value of a factor, which takes its argument from the items behind it if it is a function."""
        letter = letter_of(item)
        if letter is not None and letter.font == "double" and letter.base == "E":
            return self.expected(letter, items, bound)
        if letter is not None and letter.font in ("double", "bold") and letter.base in "1I":
            inside = self.indicated(letter, items)
            if inside is not None:
                conditions = [self.condition(clause, bound) for clause in clauses(inside)]
                return functools.reduce(self.times, conditions), items[0 if letter.below else 1 :]
        if letter is None or letter.font not in ("", "name", "bold"):
            return self.factor(item, bound), items
        name = letter.base
        if letter.font == "name" and name == "nabla":
            return self.nabla(letter, items, bound), items[1:]
        if letter.font == "name" and name in ("Var", "Cov") and not letter.gradient:
            return self.expected(letter, items, bound)
        if letter.font == "name" and name in EXTREMES and not letter.above:
            if letter.below:
                raise Unreadable(f"{name} over an index: only {name}(a, b), of numbers, is read")
            return self.extreme(name, items, bound)
        following = items[0] if items else None
        if letter == Letter("sigma") and form(following) == "paren" and self.reading.find(letter) is None:
            letter = Letter("sigmoid", "name")  # σ(x), where σ is nothing else
        if form(following) == "square" and self.is_array(letter):
            if any(len(clause.children) == 1 for clause in clauses(following.children[0].children[0])):
                raise Unreadable(f"{letter}[…]: write an index below, as in x_{{ti}}")
        function = self.reading.function(letter)
        if named(letter) and function is None:
            return self.function(letter, items, bound)
        if form(following) != "paren":
            return self.factor(item, bound), items
        name = self.reading.find(letter) or self.reading.find(letter._replace(font="bold"))
        if name in self.reading.branches and not letter.gradient:
            return self.branch(name, letter, following, bound), items[1:]
        if operator := self.reading.operator(letter):
            return self.operated(operator, letter, following, bound), items[1:]
        if function is not None:
            arguments = [self.expr(c, bound) for c in clauses(following.children[0].children[0])]
            value = self.apply(function, letter.primes, arguments)
            return self.scripts(value, following.children[1:], bound), items[1:]
        return self.factor(item, bound), items

    def is_array(self, letter):
        return self.reading.find(self.reading.whole(letter)) in self.reading.arrays

    def differentiated(self, letter):
        """Whether a letter is the loss and nothing else, such as L² or L_i; it need not be defined."""
        if self.reading.is_loss(letter) or self.reading.loss is None:
            return self.reading.is_loss(letter)
        return letter._replace(gradient=False) == letter and self.reading.alone(letter) == self.reading.loss

    @staticmethod
    def indicated(letter, items):
        """The list of relations in 𝟙[s ≤ t], 𝟙{s ≤ t}, 𝟙(s ≤ t) or 𝟙_{s ≤ t}; None for another letter."""
        inside = letter.below[0] if len(letter.below) == 1 else None
        if not letter.below and items and form(items[0]) in ("square", "set", "paren"):
            inside = items[0].children[0].children[0] if len(items[0].children) == 1 else None
        found = clauses(inside) if inside is not None else []
        return inside if found and all(len(clause.children) > 1 for clause in found) else None

    def times(self, a, b):
        return self.both(times, a, b)

    def nabla(self, letter, items, bound):
        """∇_𝐗 L, which is d𝐗."""
        by = plain_letter(letter.below[0]) if len(letter.below) == 1 and not letter.above else None
        loss = letter_of(items[0]) if items else None
        if by is None or loss is None:
            raise Unreadable("∇: expected the loss behind it, and a letter below, as in ∇_x L")
        if self.differentiated(loss):
            return self.letter(by._replace(gradient=True), bound)
        target, value = self.letter(by, bound), self.scalar(self.factor(items[0], bound))
        if isinstance(target, Matrix):
            return self.by_array(value, target)
        return self.nested(value, [target])

    def expected(self, letter, items, bound):
        """E[x], Var(x) or Cov(x, y): over all letters whose law is declared."""
        following = items[0] if items else None
        if letter.below or letter.above or form(following) not in ("paren", "square"):
            raise Unreadable(f"{letter.base}: expected a bracket behind it, and no scripts")
        parts = clauses(following.children[0].children[0])
        inside = [self.expr(c, bound) for c in parts if len(c.children) == 1]
        if len(inside) != len(parts) or len(inside) != (2 if letter.base == "Cov" else 1):
            raise Unreadable(f"{letter.base} of {written(following.children[0])!r}")

        def mean(x):
            return term("expect", x)

        if letter.base == "E":
            value = self.each(mean, inside[0])
        else:
            a, b = (self.scalar(x) for x in (inside[0], inside[-1]))
            value = add(mean(times(a, b)), minus(times(mean(a), mean(b))))
        return self.scripts(value, following.children[1:], bound), items[1:]

    def extreme(self, name, items, bound):
        """min(a, b) or max(a, b) of numbers."""
        bracket = items and form(items[0]) == "paren"
        inside = clauses(items[0].children[0].children[0]) if bracket else []
        if len(inside) < 2 or any(len(c.children) > 1 for c in inside):
            raise Unreadable(f"{name}: expected numbers in brackets behind it")
        value = term("extreme", name, tuple(self.scalar(self.expr(c, bound)) for c in inside))
        return self.scripts(value, items[0].children[1:], bound), items[1:]

    def apply(self, function, order, arguments):
        if isinstance(function, Definition):
            if len(arguments) != len(function.places):
                raise Unreadable(f"{function.name}: expected {len(function.places)} arguments")
            values = [self.scalar(a) for a in arguments] if len(arguments) > 1 else arguments
            return (
                self.each(lambda *x: term("let", function, order, tuple(x)), values[0])
                if len(values) == 1
                else term("let", function, order, tuple(values))
            )
        if len(arguments) != 1:
            raise Unreadable(f"{function}: expected one argument")
        return self.each(lambda x: term("apply", function, order, x), arguments[0])

    def branch(self, name, letter, following, bound):
        """f(𝐱) or f_k(𝐱), of a function of one or more vectors, of which only the Jacobians have names."""
        arguments = []
        for clause in clauses(following.children[0].children[0]):
            value = self.expr(clause, bound) if len(clause.children) == 1 else None
            if not isinstance(value, Matrix) or not value.vector:
                raise Unreadable(f"{letter}: expected vectors in the brackets")
            arguments.append(value.upright)
        self.reading.applied(name, arguments)
        array = self.reading.array(name)
        if self.reading.find(letter) and self.reading.resolve(letter)[1]:
            return self.scripts(self.letter(letter, bound), following.children[1:], bound)
        value = self.open("entry", name, ((), array.axes), array, 1)
        return self.scripts(value, following.children[1:], bound)

    def operated(self, operator, letter, following, bound):
        """The value of an operator such as LN_ε(𝐱) = x̂ at another array, and with other numbers below."""
        inner = clauses(following.children[0].children[0])
        if letter.above or letter.gradient or len(inner) != 1 or len(letter.below) != len(operator.numbers):
            raise Unreadable(f"{letter}: expected what its definition shows, one array in brackets")
        argument = self.expr(inner[0], bound)
        if not isinstance(argument, Matrix) or not argument.vector:
            raise Unreadable(f"{letter}: expected a vector in the brackets")
        numbers = [self.scalar(self.expr(tree, bound)) for tree in letter.below]
        name = self.reading.instance(operator, argument.upright, numbers)
        array = self.reading.array(name)
        value = self.open("entry", name, ((), array.axes[-1:]), array, 1)
        return self.scripts(value, following.children[1:], bound)

    def function(self, letter, items, bound):
        """A function of the table `functions.NAMED` at the argument behind it."""
        name = letter.base
        base, exponent = scripts_of(letter, digits, written)
        value, rest, scripts = self.argument(name, items, bound)
        if NAMED[name].arrays:
            value = self.rowwise(name, value)
        elif name in COMPOSED:
            value = self.each(COMPOSED[name], value)
        else:
            value = self.each(lambda x: term("function", "ln" if name == "log" else name, x), value)
        if base is not None:
            below = term("function", "ln", self.scalar(self.expr(base, bound)))
            value = self.each(lambda x: over(x, below), value)
        value = self.scripts(value, scripts, bound)
        if exponent is not None:
            value = self.each(lambda x: power(x, number(digits(exponent))), value)
        return value, rest

    def argument(self, name, items, bound):
        """What a named function is taken of, the items behind it, and the scripts at its bracket."""
        kinds = [self.kind_of(item) for item in items] + ["end"]
        if kinds[0] == "(":
            inner = clauses(items[0].children[0].children[0])
            if len(inner) != 1 or len(inner[0].children) != 1:
                raise Unreadable(f"{name}: expected one argument")
            return self.expr(inner[0], bound), items[1:], items[0].children[1:]
        if kinds[0] == "Σ":
            for item in items:
                if not hasattr(item, "data"):
                    raise two_ways(name, f"Σ … {written(item)} …")
            return self.big(items[0], items[1:], bound), [], []
        first = 0
        while (
            NAMED[name].constants
            and kinds[first] == "constant"
            and kinds[first + 1] in ("constant", "factor")
        ):
            first += 1
        if kinds[first] not in ("constant", "factor", "function"):
            raise Unreadable(f"{name} of nothing: {written(items[0]) if items else ''!r} stands behind it")
        value, rest = self.application(items[first], items[first + 1 :], bound)
        behind = self.kind_of(rest[0]) if rest else "end"
        if behind not in ("end", "Σ", "function"):
            raise two_ways(name, written(rest[0]))
        for item in reversed(items[:first]):
            value = self.combine(self.factor(item, bound), value, None)
        return value, rest, []

    def kind_of(self, item):
        """What an item of a product is, to a function before it: ( Σ sign function constant factor."""
        if not hasattr(item, "data"):
            return "sign"
        if item.data == "big":
            return "Σ"
        letter = letter_of(item)
        if letter is not None and (named(letter) or letter.font == "name" and letter.base in EXTREMES):
            return "function"
        if digits_of(item) or letter == Letter("pi"):
            return "constant"
        return "(" if form(item) == "paren" else "factor"

    def rowwise(self, name, a):
        if not isinstance(a, Matrix):
            raise Unreadable(f"{name}: expected an array")
        if name in ("mean", "lse", "logsumexp"):
            if not a.vector:
                raise Unreadable(
                    f"{name} of a matrix: write it by entries, with a sum over the index that is meant"
                )
            k = Place("k", a.upright.rows)
            one = a.upright.entry(k, 0)
            if name == "mean":
                return over(term("sum", k, one), term("sum", Place("k", k.range), UNIT))
            return term("function", "ln", term("sum", k, term("function", "exp", one)))
        if name == "diag":
            if not a.vector:
                raise Unreadable("diag of a matrix: expected a vector; A_jj are the entries of its diagonal")
            vector, side = a.upright, a.upright.rows

            def entry(i, j):
                return times(term("delta", i, j), vector.entry(i, 0)) if i is not j else vector.entry(i, 0)

            return Matrix(side, side, entry, True)
        if name == "tr":
            a.rows.join(a.columns, "a trace: rows and columns")
            k = Place("k", a.rows)
            return term("sum", k, a.entry(k, k))
        if name == "colsum":
            return self.rowwise("rowsum", a.turned).turned
        if name == "rowsum":

            def row(i, j):
                k = Place("k", a.columns)
                return term("sum", k, a.entry(i, k))

            return Matrix(a.rows, a.columns, row)
        if a.columns.known == ():
            return self.rowwise(name, a.turned).turned

        def softmax(i, j):
            k = Place("k", a.columns)
            return over(
                term("function", "exp", a.entry(i, j)), term("sum", k, term("function", "exp", a.entry(i, k)))
            )

        return Matrix(a.rows, a.columns, softmax)

    def factor(self, tree, bound):
        atom, scripts = tree.children[0], tree.children[1:]
        letter = letter_of(tree)
        if letter is not None:
            return self.letter(letter, bound)
        kind, children = atom.data, atom.children
        if kind == "number":
            value = number(str(children[0]))
        elif kind in ("paren", "square", "braced", "set"):
            value = self.bracket(atom, scripts, bound)
            if scripts and scripts[0].data == "sub":
                return self.entry_of(value, scripts, bound)
        elif kind == "frac":
            value = self.fraction(atom, bound)
        elif kind == "sqrt":
            value = self.each(lambda x: power(x, number("1/2")), self.expr(children[0], bound))
        elif kind == "abs":
            value = self.each(lambda x: term("function", "abs", x), self.expr(children[0], bound))
        elif kind == "norm":
            return self.norm(self.expr(children[0], bound), scripts, bound)
        elif kind == "angle":
            a, b = (self.expr(child, bound) for child in children)
            if not isinstance(a, Matrix) or not isinstance(b, Matrix):
                raise Unreadable("an inner product of numbers")
            value = self.inner(a, b)
        elif kind == "still":
            value = self.still(atom, bound)
        elif kind == "table" and str(children[0]) == "matrix":
            value = self.table(atom, bound)
        elif kind == "table":
            value = self.cases(atom, bound)
        elif kind == "font":
            value = self.product([self._single(child, str(children[0])) for child in children[1:]], bound)
        elif kind == "letter":
            value = self.letter(_letter_of_atom(atom), bound)
        else:
            raise Unreadable(f"{written(tree)!r}: the reader knows no {kind}")
        return self.scripts(value, scripts, bound)

    @staticmethod
    def _single(atom, font):
        return lark.Tree("factor", [lark.Tree("font", [lark.Token("FONT", font), atom])])

    def bracket(self, atom, scripts, bound):
        parts = atom.children[0]
        inner = clauses(parts)
        if atom.data == "braced":
            return self.expr(parts, bound)
        if atom.data == "set" and (len(inner) > 1 or len(inner[0].children) > 1):
            raise Unreadable(f"{written(atom)!r}: the reader knows no set")
        if len(inner) > 1:
            return self.row([self.scalar(self.expr(c, bound)) for c in inner])
        if len(inner[0].children) > 1:
            if atom.data == "paren":
                raise Unreadable(f"a relation in round brackets: {written(atom)!r}")
            return self.condition(inner[0], bound)
        return self.expr(inner[0], bound)

    def row(self, values):
        length = Range((len(values),))
        row = Matrix(ONE, length, lambda i, j: term("choose", j, tuple(values)))
        return row.turned if self.reading.columns else row

    def table(self, atom, bound):
        rows = [child for child in atom.children if getattr(child, "data", "") == "row"]
        cells = []
        for row in rows:
            entries = []
            for cell in (child for child in row.children if getattr(child, "data", "") == "cell"):
                if len(cell.children) != 1:
                    raise Unreadable("a matrix with an empty entry, or words in it")
                entries.append(self.scalar(self.expr(cell.children[0], bound)))
            cells.append(tuple(entries))
        if len({len(row) for row in cells}) != 1:
            raise Unreadable("a matrix whose rows have unequal lengths")
        up, along = (ONE if n == 1 else Range((n,)) for n in (len(cells), len(cells[0])))

        def entry(i, j):
            return term("choose", i, tuple(term("choose", j, row) for row in cells))

        return Matrix(up, along, entry)

    def cases(self, atom, bound):
        """A number in cases: x > 0 and otherwise, or of one index, "j even" and "j odd"."""
        if {str(w.children[0]).strip(" .,") for w in atom.find_data("words")} != {"even", "odd"}:
            return self.alternatives(atom, bound)
        found, places = {}, set()
        for row in (child for child in atom.children if getattr(child, "data", "") == "row"):
            cells = [
                [piece for piece in cell.children if piece.data != "nothing"]
                for cell in row.children
                if hasattr(cell, "data")
            ]
            if len(cells) != 2 or len(cells[0]) != 1 or len(cells[1]) != 2 or cells[1][1].data != "words":
                raise Unreadable("cases: expected rows such as x & j even")
            place = self.index_or_none(cells[1][0], bound)
            word = str(cells[1][1].children[0]).strip(" .,")
            if not isinstance(place, Place) or word not in ("even", "odd") or word in found:
                raise Unreadable(f"cases: {written(cells[1][0])} {word}, expected j even, j odd")
            places.add(place)
            found[word] = self.scalar(self.expr(cells[0][0], bound))
        if len(found) != 2 or len(places) != 1:
            raise Unreadable("cases: expected j even, and j odd")
        return term("choose", ("last", *places), (found["even"], found["odd"]))

    def alternatives(self, atom, bound):
        """A number in cases, each with a relation; the last otherwise, or where the other does not hold."""
        total, rest, relations = ZERO, UNIT, []
        for row in (child for child in atom.children if getattr(child, "data", "") == "row"):
            cells = [
                [p for p in c.children if p.data != "nothing"] for c in row.children if hasattr(c, "data")
            ]
            if len(cells) != 2 or len(cells[0]) != 1 or not cells[1]:
                raise Unreadable("cases: expected rows such as x & x > 0, the last 0 & \\text{otherwise}")
            *words, last = cells[1]
            spoken = " ".join(str(w.children[0]).strip(" .,") for w in cells[1] if w.data == "words")
            value = self.scalar(self.expr(cells[0][0], bound))
            if last.data == "words" and not words and spoken in ("otherwise", "else"):
                total, rest = add(total, times(rest, value)), ZERO
                continue
            if rest == ZERO or last.data == "words" or spoken not in ("", "if", "for", "when", "where"):
                raise Unreadable(
                    f"cases: expected a relation, or \\text{{otherwise}} at last, got {spoken!r}"
                )
            sides = [written(child) for child in last.children]
            opposite = {"<": "≥", ">": "≤", "≤": ">", "≥": "<", "=": "≠", "≠": "="}
            holds = self.scalar(self.condition(last, bound)) if len(sides) == 3 else None
            if holds is None:
                raise Unreadable(f"cases: expected one relation, got {written(last)!r}")
            if relations == [[sides[0], opposite.get(sides[1]), sides[2]]]:
                total, rest = add(total, times(rest, value)), ZERO
                continue
            relations.append(sides)
            total = add(total, times(rest, holds, value))
            rest = times(rest, add(UNIT, minus(holds)))
        if rest != ZERO:
            raise Unreadable("cases: nothing says what is otherwise")
        return total

    def entry_of(self, value, scripts, bound):
        """(X)_{ij}, an entry of what the bracket holds."""
        places = self.positions(scripts[0].children[0], bound)
        if not isinstance(value, Matrix):
            raise Unreadable("an index at a number")
        ranges = [r for r in (value.rows, value.columns) if r.known != ()]
        if len(places) != len(ranges):
            raise Unreadable(f"{len(places)} indices at an array of {len(ranges)} axes")
        at = iter([self.within(place, r) for place, r in zip(places, ranges)])
        value = value.entry(*[0 if r.known == () else next(at) for r in (value.rows, value.columns)])
        return self.scripts(value, scripts[1:], bound)

    def scripts(self, value, scripts, bound):
        """Powers, transposes and entries of what is no letter."""
        for place, script in enumerate(scripts):
            if script.data == "sub":
                return self.entry_of(value, scripts[place:], bound)
            if script.data != "sup":
                raise Unreadable(f"a {script.data} behind a bracket")
            value = self.raised(value, script.children[0], bound)
        return value

    def raised(self, value, tree, bound, entrywise=False):
        if is_turn(tree) and isinstance(value, Matrix):
            return value.turned
        if entrywise and not digits(tree):
            raise Unreadable(f"the power {written(tree)!r} of a vector: expected a number, or ⊤")
        if not isinstance(value, Matrix) or entrywise:
            exponent = self.scalar(self.expr(tree, bound))
            return self.each(lambda x: power(x, exponent), value)
        if value.vector:
            return self.raised(value, tree, bound, entrywise=True)
        if digits(tree) == "2":
            return self.matmul(value, value)
        if value.diagonal:
            exponent = self.scalar(self.expr(tree, bound))
            return Matrix(
                value.rows,
                value.columns,
                lambda i, j: (
                    times(term("delta", i, j), power(value.entry(i, i), exponent))
                    if i is not j
                    else power(value.entry(i, i), exponent)
                ),
                True,
            )
        raise Unreadable(
            f"a power of a matrix: {written(tree)!r}; write products, or declare the inverse as an array"
        )

    def norm(self, value, scripts, bound):
        if not isinstance(value, Matrix):
            raise Unreadable("a norm of a number")
        squares = self.all(lambda i, j: power(value.entry(i, j), number(2)), value.rows, value.columns)
        names = [written(s.children[0]) for s in scripts if s.data == "sub"]
        if "F" not in names and not value.vector:
            raise Unreadable(
                "‖·‖ of a matrix: write ‖·‖_F for the root of all squares, the others are not read"
            )
        if names and names[0] not in ("F", "2"):
            raise Unreadable(
                f"‖·‖_{names[0]}: only ‖·‖ and ‖·‖_F are read, write it as a sum, such as Σ|x_j|"
            )
        scripts = [s for s in scripts if not (s.data == "sub" and names and names[0] in ("F", "2"))]
        if len(scripts) == 1 and scripts[0].data == "sup" and digits(scripts[0].children[0]) == "2":
            return squares
        return self.scripts(power(squares, number("1/2")), scripts, bound)

    # ---- derivatives

    def inline(self, items):
        """The items of a product with ∂L/∂x and ∂_x L written as fractions, and f(Q, K) as its letter f."""
        found, items = [], list(items)
        while items:
            if len(items) > 1 and self.is_call(*items[:2]):
                del items[1]
            kinds = [self.partial_of(item) for item in items[:4]]
            if (
                len(items) > 1
                and kinds[0]
                and len(kinds[0].children) == 2
                and kinds[0].children[1].data == "sub"
            ):
                sign, by = kinds[0].children[0], kinds[0].children[1].children[0]
                bare = lark.Tree("factor", [sign])
                target = only(by, "factor")
                if target is None:
                    raise Unreadable(f"a derivative by {written(by)!r}")
                found.append(fraction_of([bare, items[1]], [bare, target]))
                items = items[2:]
            elif len(items) > 4 and kinds[0] and kinds[3] and getattr(items[2], "type", "") == "SLASH":
                found.append(fraction_of(items[:2], items[3:5]))
                items = items[5:]
            else:
                found.append(items.pop(0))
        return found

    def is_call(self, item, behind):
        """Whether it is a letter with the arguments of its definition, or the loss with any, as L(θ)."""
        letter = letter_of(item)
        if letter is None or form(behind) != "paren" or len(behind.children) > 1:
            return False
        inside = behind.children[0].children[0]
        if letter.base in self.reading.called:
            return written(self.reading.called[letter.base]) == written(behind.children[0])
        return self.differentiated(letter) and all(map(plain_letter, clauses(inside)))

    @staticmethod
    def partial_of(item):
        """The factor if it is a ∂, else None."""
        return item if form(item) == "partial" else None

    def derivative(self, item, rest, bound):
        if not rest:
            raise Unreadable("a derivative of nothing")
        targets = self.targets(item.children[0].children[1], bound)
        value = self.product(rest, bound)
        return self.each(lambda x: self.nested(x, targets), value)

    def fraction(self, atom, bound):
        top, bottom = atom.children
        items, below = items_of(top), items_of(bottom)
        if items and len(items) == 3 and self.is_call(*items[1:]):
            items = items[:2]
        if items and below and form(items[0]) == form(below[0]) == "partial":
            whole = letter_of(below[-1])
            whole = whole and self.reading.whole(whole)
            loss = letter_of(items[-1])
            if len(items) == len(below) == 2 and loss and self.differentiated(loss) and whole and whole.font:
                return self.letter(whole._replace(gradient=True), bound)
            if len(items) > 1 and len(below) == 2 and whole and whole.font in WHOLE:
                target = self.letter(whole, bound)
                if isinstance(target, Matrix) and not target.single:
                    return self.by_array(self.product(items[1:], bound), target)
            targets = self.targets(bottom, bound)
            order = [digits(script.children[0]) for script in items[0].children[1:]] or ["1"]
            if order != [str(len(targets))]:
                raise Unreadable(f"∂ of order {order[0]} over {len(targets)} letters: {written(atom)!r}")
            letter = letter_of(items[1]) if len(items) == 2 else None
            if letter is not None and self.reading.is_loss(letter):
                if len(targets) != 1:
                    raise Unreadable("a second derivative of a loss that is not written out")
                return term("gradient", *targets[0].parts)
            return self.each(lambda x: self.nested(x, targets), self.product(items[1:], bound))
        if items and below and is_gradient(items[0]) and is_gradient(below[0]):
            if len(items) == len(below) == 1 and self.differentiated(
                letter_of(items[0])._replace(gradient=False)
            ):
                return self.letter(letter_of(below[0]), bound)
            raise quotient_of_gradients(atom)
        a, b = self.expr(top, bound), self.expr(bottom, bound)
        return self.combine(a, b, "SLASH")

    def by_array(self, value, target):
        """∂y/∂X: of a number an array of the shape of X; of two vectors the Jacobian, whose rows are y's."""
        if not isinstance(value, Matrix):
            return Matrix(target.rows, target.columns, lambda i, j: self.nested(value, [target.entry(i, j)]))
        if not (value.vector and target.vector):
            raise Unreadable("a derivative of a matrix, or by one: write it by entries, ∂y_i/∂x_jk")
        value, target = value.upright, target.upright

        def entry(i, j):
            return self.nested(value.entry(i, 0), [target.entry(j, 0)])

        return Matrix(value.rows, target.rows, entry)

    def targets(self, tree, bound):
        """The entries by which is differentiated, those of ∂x ∂y or ∂x² in order."""
        found = []
        items = list(items_of(tree) or [])
        while items:
            sign = items.pop(0)
            if form(sign) != "partial" or not items:
                raise Unreadable(f"a derivative by {written(tree)!r}")
            letter = letter_of(items.pop(0))
            if letter is None:
                raise Unreadable(f"a derivative by {written(tree)!r}")
            twice = False
            if letter.above and digits(letter.above[-1]) == "2" and not self.reading.squared(letter):
                letter, twice = letter._replace(above=letter.above[:-1]), True
            target = self.letter(letter, bound)
            if isinstance(target, Matrix):
                raise Unreadable(
                    f"a derivative by a whole array, {written(tree)!r}: write one by an entry, ∂/∂x_j"
                )
            if target.kind != "entry":
                raise Unreadable(f"a derivative by {written(tree)!r}, which is no entry of an array")
            found += [target] * (2 if twice else 1)
        return found

    def still(self, atom, bound):
        """What a derivative is with letters held still: ∂L/∂x at constant μ, σ²."""
        names = []
        for clause in clauses(atom.children[1]):
            letter = plain_letter(clause)
            found = letter and self.reading.find(letter)
            if found not in self.reading.definitions:
                raise Unreadable(f"held: {written(clause)!r} is no letter that is defined")
            names.append(found)
        return self.each(lambda x: term("held", tuple(names), x), self.expr(atom.children[0], bound))

    def nested(self, x, targets):
        if "expect(" in repr(x):
            raise Unreadable("a derivative of an expectation")
        for target in targets:
            x = term("partial", x, target)
        return x

    # ---- letters

    def letter(self, letter, bound):
        letter = self.reading.whole(letter) if letter.base not in bound else letter
        if letter.gradient:
            return self.of_array(letter, bound)
        base, above = letter.base, letter.above
        plain = not letter.font and not letter.accent
        powers = all(in_brackets(a) is None and words_of(a) is None for a in above)
        exponential = base == "e" and bool(above)  # e^x, also where e is an index
        if plain and not letter.below and powers and not exponential and base + "'" * letter.primes in bound:
            value = term("place", bound[base + "'" * letter.primes])
            return self.scripts(value, [_sup(a) for a in above], bound)
        known = self.reading.find(letter)
        if known is None and plain and not letter.primes:
            if base == "e" and above and not letter.below:
                if self.reading.is_size(letter):
                    raise Unreadable("e is a size here, and the base of e^x: call the size otherwise")
                return term("function", "exp", self.scalar(self.expr(above[0], bound)))
            if base == "delta" and letter.below:
                return self.delta(letter, bound)
            if base == "pi" and not letter.below:
                value = term("constant", "pi")
                return self.scripts(value, [_sup(a) for a in above], bound)
        identity = base == "I" and (letter.font == "bold" or plain and not self.reading.is_size(letter))
        if known is None and identity and not letter.below:
            side = Range()
            value = Matrix(side, side, lambda i, j: term("delta", i, j) if i is not j else UNIT)
            return self.scripts(value, [_sup(a) for a in above], bound)
        if known is None and plain and self.reading.is_size(letter):
            value = term("size", self.reading.size_name(letter))
            for a in above:
                value = self.raised(value, a, bound)
            return value
        if known is None and plain and not letter.below and not letter.primes and not above:
            name = base
            if self.reading.may_be_index(name) and name not in bound:
                return term("place", self.freed(name))
        place = bound.get(base) or (self.freed(base) if base in self.reading.steps else None)
        if known is None and plain and not letter.below and not letter.primes and place:
            return self.scripts(term("place", place), [_sup(a) for a in above], bound)
        return self.of_array(letter, bound)

    def freed(self, name):
        """The free index of this name; that of a step runs over the steps."""
        steps = Range(STEPS) if name in self.reading.steps else None
        return self.free.setdefault(name, Place(name, steps))

    def ones(self, base):
        value = number(base)
        return (
            Matrix(Range(), ONE, lambda i, j: value)
            if base == "1"
            else Matrix(Range(), Range(), lambda i, j: ZERO)
        )

    def delta(self, letter, bound):
        places = self.positions(letter.below[0], bound)
        if len(places) != 2:
            raise Unreadable(f"δ with {len(places)} indices")
        value = term("delta", *self.joined(*places))
        return self.scripts(value, [_sup(a) for a in letter.above], bound)

    def joined(self, a, b):
        """Two indices that are compared: one range."""
        ranges = [self.range_of(x) for x in (a, b)]
        if None not in ranges:
            ranges[0].join(ranges[1], f"indices {a} and {b}")
        return a, b

    def range_of(self, place):
        if isinstance(place, Place):
            return place.range
        if isinstance(place, Term) and place.kind == "label":
            return Range(place.parts[2])
        return None

    def of_array(self, letter, bound):
        """An entry, a row or the whole of an array, or of the gradient by it."""
        if letter.font == "bold" and letter.base in ("0", "1"):
            value = self.ones(letter.base)
            return self.scripts(value, [_sup(a) for a in letter.above], bound)
        name, below, above = self.reading.resolve(letter)
        if name in self.reading.branches and name not in self.reading.definitions:
            raise Unreadable(f"nothing says at which point the function {name} is meant")
        array = self.reading.array(name)
        if array.kind in ("function", "logistic"):
            raise Unreadable(f"the function {name} without its argument, or with a script")
        places, later = [], []
        for tree in above:
            inner = in_brackets(tree)
            if inner is not None and letter.font == "bold" and not later:
                places += self.positions(inner, bound, array.axes)
            elif self._bracketed_turn(tree) is not None:
                places += self.positions(self._bracketed_turn(tree), bound, array.axes)
                later.append("top")
            else:
                later.append(tree)
        if above and any(in_brackets(t) is not None or self._bracketed_turn(t) is not None for t in above):
            return self.block(letter, name, array, places, later, bound, below)
        for tree in below:
            places += self.positions(tree, bound, array.axes)
        kind = "gradient" if letter.gradient else "entry"
        if kind == "entry" and array.kind == "label":
            at = tuple(
                self.within(p, Range(a)) for p, a in zip(places, array.axes[len(array.axes) - len(places) :])
            )
            return term("label", name, at, array.below)
        left = self.left(letter, array, len(places))
        at = self.at(name, array, places, left)
        value = self.open(kind, name, at, array, left)
        for tree in later:
            entrywise = isinstance(value, Matrix) and (letter.base.islower() or len(array.axes) == 1)
            value = value.turned if tree == "top" else self.raised(value, tree, bound, entrywise)
        return value

    def _bracketed_turn(self, tree):
        """The index list of a script such as (h)⊤; None for another."""
        items = items_of(tree)
        if items and [*map(form, items)] == ["paren", "top"]:
            return items[0].children[0].children[0]
        return None

    def left(self, letter, array, written_places):
        """How many axes a letter keeps: 0, 1 for a bold small one, 2 for a bold capital."""
        if letter.font not in WHOLE:
            return 0
        axes = len(array.axes)
        if letter.font == "bold" and letter.base[0].islower():
            return min(1, axes - written_places) if axes else 0
        return min(2, axes - written_places)

    def at(self, name, array, places, left):
        """The indices within the ranges of their axes; leading axes may be left out."""
        axes = array.axes
        used = len(places) + left
        if used > len(axes):
            extra = used - len(axes)
            axes = tuple(self.reading.leading(name, extra)) + axes
        axes = axes[len(axes) - used :]
        return tuple(self.within(p, Range(a)) for p, a in zip(places, axes)), axes[len(places) :]

    def open(self, kind, name, at, array, left):
        places, rest = at
        if left == 0:
            return term(kind, name, places)
        if left == 1:
            length = Range(rest[0])
            if self.reading.columns:
                return Matrix(length, ONE, lambda i, j: term(kind, name, (*places, i)))
            return Matrix(ONE, length, lambda i, j: term(kind, name, (*places, j)))
        return Matrix(Range(rest[0]), Range(rest[1]), lambda i, j: term(kind, name, (*places, i, j)))

    def block(self, letter, name, array, places, later, bound, below):
        """W^{(h)}: of the axis that is a product (H, K), the part that belongs to h."""
        if len(places) != 1 or below:
            raise Unreadable(f"{letter}: a block with {len(places)} indices")
        kind = "gradient" if letter.gradient else "entry"
        split_axes = [n for n, a in enumerate(array.axes) if len(a) > 1]
        if not split_axes:  # an index that stands above
            left = self.left(letter, array, 1)
            value = self.open(kind, name, self.at(name, array, places, left), array, left)
        else:
            if len(split_axes) != 1 or len(array.axes) != 2:
                raise Unreadable(f"{letter}: no axis, or several, that a block is a part of")
            where, axes = split_axes[0], array.axes
            h = self.within(places[0], Range(axes[where][:1]))
            inner = axes[where][1:]

            def entry(i, j):
                pair = ("pair", h, (i, j)[where])
                return term(kind, name, (pair, j) if where == 0 else (i, pair))

            ranges = [Range(inner) if n == where else Range(a) for n, a in enumerate(axes)]
            value = Matrix(*ranges, entry)
        for tree in later:
            value = value.turned if tree == "top" else self.raised(value, tree, bound)
        return value

    def within(self, place, range_):
        """An index at an axis: it runs over this range."""
        if isinstance(place, int) and range_.known and all(isinstance(n, int) for n in range_.known):
            if place >= math.prod(range_.known):
                raise Unreadable(f"the index {place} on an axis of length {show_range(range_)}")
        elif isinstance(place, Place):
            place.range.join(range_, f"index {place}")
        elif isinstance(place, Term) and place.kind == "label":
            Range(place.parts[2]).join(range_, f"index {place.parts[0]}")
        elif isinstance(place, tuple) and place[0] == "pair" and range_.known is not None:
            sizes = range_.known
            if len(sizes) < 2:
                raise Unreadable("an index a K + b at an axis that is no product")
            self.within(place[1], Range(sizes[:1]))
            self.within(place[2], Range(sizes[1:]))
        return place

    # ---- indices

    def positions(self, tree, bound, axes=()):
        """The indices of a list: letters side by side, or separated by commas."""
        if tree.data == "words":
            raise Unreadable(f"words as an index: {written(tree)!r}")
        found = []
        for clause in [tree] if tree.data == "clause" else clauses(tree) or [tree]:
            items = items_of(clause)
            letters = items and all(letter_of(item) or digits_of(item) for item in items)
            axis = axes[len(found)] if len(found) < len(axes) else ()
            if letters and not (len(axis) > 1 and len(items) > 1 and digits_of(items[0])):
                for item in items:
                    found.append(self.position(item, bound))
            else:
                found.append(self.compound(clause, bound, axis))
        return found

    def position(self, item, bound):
        if digits_of(item):
            self.reading.counts_from(0)
            return int(digits_of(item))
        letter = letter_of(item)
        name = letter.name
        if letter.bare:
            if name in bound:
                return bound[name]
            label = self.reading.find(letter)
            if label is not None and self.reading.array(label).kind == "label":
                return term("label", label, (), self.reading.array(label).below)
            if label in self.reading.numbers:
                return self.letter(letter, bound)  # η_w for a number w
            return self.freed(name)
        value = self.letter(letter, bound)
        if isinstance(value, Term) and value.kind == "label":
            return value
        raise Unreadable(f"{written(item)!r} is no index")

    def index_or_none(self, tree, bound):
        try:
            found = self.positions(tree, bound)
        except Unreadable:
            return None
        return (
            found[0]
            if len(found) == 1 and not (isinstance(found[0], Term) and found[0].kind != "label")
            else None
        )

    def compound(self, clause, bound, axis):
        """An index hK + c or 2i + 1 at a product axis, or t + b where a definition takes numbers."""
        expr = only(clause, "expr")
        if expr is None:
            raise Unreadable(f"{written(clause)!r} is no index")
        parts = [c for c in expr.children if hasattr(c, "data")]
        signs = [c.type for c in expr.children if not hasattr(c, "data")]
        if len(axis) > 1 and "MINUS" not in signs:
            size = axis[-1]
            for n, part in enumerate(parts):
                items = part.children
                texts = [written(item) for item in items]
                if str(size) in texts and len(items) == 2:
                    outer = self.position(items[1 - texts.index(str(size))], bound)
                    rest = [p for m, p in enumerate(parts) if m != n]
                    if not rest:
                        return ("pair", outer, 0)
                    if len(rest) == 1 and len(rest[0].children) == 1:
                        return ("pair", outer, self.position(rest[0].children[0], bound))
        return self.scalar(self.expr(expr, bound))


def stretched(a, b):
    """A row as a matrix of equal rows if b has several, a column of equal columns; another array as it is."""
    if a.rows.known == () != a.columns.known and b.rows.known and b.columns.known == a.columns.known:
        return Matrix(b.rows, a.columns, lambda i, j: a.entry(0, j))
    if a.columns.known == () != a.rows.known and b.columns.known and b.rows.known == a.rows.known:
        return Matrix(a.rows, b.columns, lambda i, j: a.entry(i, 0))
    return a


def subterms(t):
    """All Terms in a Term, itself first; also those of a function's definition that it uses."""
    if isinstance(t, Term):
        yield t
    if isinstance(t, tuple):
        for part in t:
            yield from subterms(part)


def places_of(t, bound=False):
    """The indices of a Term that no sum binds, in order; all of them if so asked."""
    if isinstance(t, Place):
        return {t: None}
    if not isinstance(t, tuple) or isinstance(t, Definition):
        return {}
    found = {}
    for part in t:
        found |= places_of(part, bound)
    if isinstance(t, Term) and t.kind in ("sum", "prod") and not bound:
        found.pop(t.parts[0], None)
    return found


def is_number_in(place, t):
    """Whether an index is used as a number, as in i x_i, or compared with one, or with an index of no sum."""
    if isinstance(t, Matrix):
        return is_number_in(place, t.entry(Place("row", t.rows), Place("column", t.columns)))
    if isinstance(t, Term) and t.kind == "delta":
        return place in t.parts and any(isinstance(p, int) for p in t.parts)
    if isinstance(t, Term) and t.kind == "place":
        return t.parts[0] is place
    return isinstance(t, tuple) and not isinstance(t, Definition) and any(is_number_in(place, p) for p in t)


def with_places(t, new):
    """A Term with other indices, or numbers, in the place of some: new is {Place: Place or int}."""
    if isinstance(t, Place):
        return new.get(t, t)
    if isinstance(t, Term) and t.kind == "place" and isinstance(new.get(t.parts[0]), int):
        return number(new[t.parts[0]])
    if isinstance(t, Term):
        return Term(t.kind, tuple(with_places(p, new) for p in t.parts))
    if isinstance(t, tuple) and not isinstance(t, Definition):
        return tuple(with_places(p, new) for p in t)
    return t


def ranges_in(t):
    """What the indices of a Term run over."""
    return {place.range.known for place in places_of(t)}


def smallest(t):
    """The least that a limit of a sum may be, whatever its indices and sizes are; None if it is not plain."""
    if t.kind == "number":
        return t.parts[0]
    if t.kind == "place":
        return int(t.parts[0].range.known == STEPS)
    if t.kind in ("size", "label"):
        return int(t.kind == "size")
    parts = [smallest(part) for part in t.parts] if t.kind in ("add", "mul") else [None]
    if None in parts or t.kind == "mul" and min(parts) < 0:
        return None
    return sum(parts) if t.kind == "add" else math.prod(parts)


def is_gradient(item):
    """Whether an item of a product is dx, a gradient by a letter."""
    return form(item) == "gradient"


def quotient_of_gradients(tree):
    """The error for dy/dx, which would be a quotient of two gradients of the loss."""
    return Unreadable(f"{written(tree)!r}: dy is the gradient of the loss by y. Write ∂y/∂x for a derivative")


def fraction_of(top, bottom):
    """The factor of a fraction of two products."""
    group = [lark.Tree("list", [lark.Tree("clause", [lark.Tree("expr", [lark.Tree("product", part)])])])
             for part in (top, bottom)]  # fmt: skip
    return lark.Tree("factor", [lark.Tree("frac", group)])


def is_turn(tree):
    """Whether a script at an array is its transpose: ⊤, or a T."""
    factor = only(tree, "factor")
    if factor is None or len(factor.children) > 1:
        return False
    letter = letter_of(factor)
    return form(factor) == "top" or letter is not None and letter.base == "T" and letter.font != "bold"


def _sup(tree):
    return lark.Tree("sup", [tree])


def digits_of(item):
    """The number that a factor is, as text; None for another."""
    if form(item) == "number" and len(item.children) == 1:
        return str(item.children[0].children[0])
    return None


def is_operator(item):
    """Whether an item is ∂/∂x without anything above, which acts on all that follows."""
    if form(item) != "frac":
        return False
    top = items_of(item.children[0].children[0])
    return bool(top) and len(top) == 1 and form(top[0]) == "partial"


def written(tree):
    """A piece of a formula as text, for messages."""
    if not hasattr(tree, "data"):
        return str(tree)
    inner = "".join(written(child) for child in tree.children)
    return {
        "sub": f"_{inner}",
        "sup": f"^{inner}",
        "prime": "'",
        "frac": f"frac{inner}",
        "paren": f"({inner})",
    }.get(tree.data, inner)
