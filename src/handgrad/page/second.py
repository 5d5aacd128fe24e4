r"""A second reading of printed formulas, with numbers alone: the judge of the prover.

It shares the tree of a formula with `meaning` and `algebras`, and nothing that they make of it. There a
formula becomes a term for one entry; here it becomes whole arrays of torch, whose axes have names: that of an
index, "row" and "column" of a matrix, and ⟨B⟩ of a leading axis that the formula leaves out. A defined letter
is one array, computed once; the loss is the sum over all axes that there are, and a gradient is torch's, by
the whole array. So a sum that a gradient leaves out differs, whatever the prover thinks of it.

`judge` draws unequal sizes, with batches and repeated tokens, and compares both sides of each claim. A form
that it does not know raises `Unjudged`; it never agrees by silence.
"""

import itertools
import math
import re
from typing import NamedTuple

import numpy as np

from ..sums import NotProved
from .functions import NAMED, reserved
from .meaning import (
    LOSSES,
    Letter,
    clauses,
    digits,
    digits_of,
    in_brackets,
    is_gradient,
    is_operator,
    is_turn,
    items_of,
    letter_of,
    written,
)
from .reading import ITEM, letter_named, qualifier
from .tree import (
    CLAIMING,
    CONDITIONS,
    DEFINING,
    Unreadable,
    by_rows,
    conditions_in,
    form,
    only,
    parse,
    scan,
    split,
)

SLACK = 1e-9
"""Relative to the largest finite number of both sides, in float64, after hundreds of operations."""
ROUNDING = 1e-12
"""What hundreds of operations on numbers of order 1 may leave of a difference that is 0."""


class Unjudged(ValueError):
    """A formula with a form that this reading does not know."""


class NeedSize(Exception):
    """An index whose length is not known yet."""


class Value(NamedTuple):
    """A tensor, and the name of each of its axes."""

    t: object
    names: tuple = ()
    eye: bool = False  # a multiple of the identity, whose size its company says

    @property
    def open(self):
        """The axes of a matrix or vector that it has."""
        return {"row", "column"} & {*self.names}


class Defined(NamedTuple):
    """What a page says of a letter: its indices, or its arguments, and the tree of its right side."""

    places: list
    body: object
    function: bool = False


class Free(NamedTuple):
    """A letter without a definition: its axes, each a tuple of sizes, and what is drawn for it."""

    axes: tuple
    kind: str = ""


# ----------------------------------------------------------------------------------------------- named axes


def spread(value, names):
    """The tensor with these axes in this order, of length 1 where it has none."""
    order = [value.names.index(n) for n in names if n in value.names]
    t = value.t.permute(order) if order else value.t
    for place, name in enumerate(names):
        if name not in value.names:
            t = t.unsqueeze(place)
    return t


def both(f, a, b):
    """f of two values on all axes that either has."""
    names = (*a.names, *(n for n in b.names if n not in a.names))
    return Value(f(spread(a, names), spread(b, names)), names)


def dense(a, n):
    """A multiple of the identity as a matrix of n rows."""
    eye = Value(a.t.new_zeros(n, n).fill_diagonal_(1), ("row", "column"))
    return both(lambda x, y: x * y, Value(a.t, a.names), eye)


def entrywise(f, a, b):
    """f of two values, entry by entry; a number goes with every entry, a vector with all of its kind."""
    if a.eye and b.eye:
        return both(f, a, b)._replace(eye=True)
    if a.eye or b.eye:
        n = max(length(v, axis) for v in (a, b) for axis in v.open)
        if n == 1:
            raise Unjudged("an identity whose size nothing says")
        a, b = (dense(v, n) if v.eye else v for v in (a, b))
    if not (a.open <= b.open or b.open <= a.open):
        raise Unjudged(f"arrays of unlike shapes: {a.names} and {b.names}")
    return both(f, a, b)


def times(a, b):
    if (a.eye or b.eye) and a.open and b.open:
        one = a if a.eye else b
        number = Value(
            one.t.sum([one.names.index("row"), one.names.index("column")]),
            tuple(n for n in one.names if n not in one.open),
        )
        return times(number, b if a.eye else a)
    return both(lambda x, y: x * y, a, b)._replace(eye=a.eye or b.eye)


def summed(value, name, how="sum"):
    """A value summed over an axis; how: or what else torch makes of its entries, such as "prod"."""
    rest = tuple(n for n in value.names if n != name)
    return Value(getattr(value.t, how)(value.names.index(name)), rest)


def renamed(value, new):
    return value._replace(names=tuple(new.get(n, n) for n in value.names))


def turned(value):
    return renamed(value, {"row": "column", "column": "row"})


def length(value, name):
    return value.t.shape[value.names.index(name)]


def matmul(a, b):
    """A product of matrices: the columns of the first with the rows of the second."""
    if not a.open or not b.open or a.eye or b.eye:
        return times(a, b)
    if "column" in a.names and "row" in b.names:
        if length(a, "column") == length(b, "row") == 1:
            raise Unjudged("a product whose length nothing says")
        return summed(times(renamed(a, {"column": "inner"}), renamed(b, {"row": "inner"})), "inner")
    if "column" not in a.names and "row" not in b.names:
        return times(a, b)
    raise Unjudged(f"a product of arrays of shapes {a.names} and {b.names}")


# ------------------------------------------------------------------------------------------------ the letters


def spelled(letter, base, below, above):
    """The name of a letter, with those of its scripts that belong to it."""
    font = letter.font if letter.font in ("sans", "cal", "double") else ""
    scripts = "".join(f"_{qualifier(t)}" for t in (*below, *above))
    return f"{font} {letter.accent} {base}{scripts}".strip() + "'" * letter.primes


def is_name(tree):
    """Whether a script of a new letter belongs to its name: words, numbers, capitals."""
    text = qualifier(tree)
    return text is not None and not (len(text) == 1 and text.islower())


class Second:
    """The letters and definitions of one claim, with numbers for all free letters.

    given: as `checks.Given`; statements: those of the claim; rng: where sizes and numbers come from.
    """

    def __init__(self, given, statements, rng):
        import torch

        self.torch, self.rng = torch, rng
        self.letters, (_, self.columns, self.output, self.loss) = given.declared(*statements), given.arguments
        self.sizes, self.letters_free, self.defined, self.cases = {}, {}, {}, {}
        self.steps, self.last, self.index_sizes, self.vectorial = set(), None, {}, {}
        self.lengths = set()  # what was found of the lengths of indices
        self.hint = None  # the size of an identity that nothing else says
        self.noisy = set()  # the letters that have a value in each state of a law
        self.of_gradients = set()  # the letters that are made of gradients
        self.first = set()  # where places count from, once a formula says so
        self.points = {}  # where the functions of vectors are used
        self.values, self.memo, self.count, self.active = {}, {}, itertools.count(), set()
        for item in filter(None, (part.strip() for part in re.split(r";|\n", self.letters))):
            self.declare(item)
        for name in given.printed:
            labelled = name.startswith("eq-")
            tex = given.page.tex(name) if labelled else given.page.inline(name)
            for statement in given._lines(split(tex)):
                self.learn(statement, labelled)

    # ---- declarations and definitions

    def declare(self, item):
        found = ITEM.fullmatch(item)
        names, kind = [n.strip() for n in found["names"].split(",")], (found["kind"] or "").strip()
        if kind.startswith("=") and not found["shape"]:
            self.sizes |= {name: self.product_of(kind[1:]) for name in names}
        elif kind == "size" and not found["shape"]:
            for name in names:
                self.product_of(name)
        elif kind == "steps":
            self.steps |= {*names}
        elif kind.startswith("function by"):
            (name,), (axis,) = names, (self.product_of(found["shape"].strip("() ")),)
            slopes = []
            for text in kind.removeprefix("function by").split(","):
                letter = letter_named(text)
                slope = (self.resolve(letter._replace(font="bold")) or [None])[0]
                if slope is None:
                    slope = spelled(letter, letter.base, letter.below, letter.above)
                    self.letters_free[slope] = Free((axis, axis))
                slopes.append(slope)
            letter = letter_named(name)
            name = spelled(letter, letter.base, letter.below, letter.above)
            self.vectorial[name] = slopes
            self.letters_free[f"{name} at 0"] = Free((axis,))
        else:
            parts = [p.strip() for p in (found["shape"] or "()").strip("() ").split(",")]
            axes = tuple(self.product_of(p) for p in parts if p and p != "1")
            if kind.startswith("<"):
                self.product_of(kind[1:])
            for name in names:
                letter = letter_named(name)
                self.letters_free[spelled(letter, letter.base, letter.below, letter.above)] = Free(axes, kind)

    def product_of(self, text):
        if text.strip() == "steps":
            return ("steps",)
        found = []
        for name in re.findall(r"\d+|[A-Za-z](?:_(?:\w\w+|\w))?'*", text):
            known = self.sizes.get(name, (name,))
            found += known
            if not name.isdigit():
                self.sizes.setdefault(name, (name,))
        return tuple(sorted(found, key=str.isdigit))

    def learn(self, statement, labelled=True, beside=False):
        """Enter the letter that a statement defines, if it is not known yet; returns whether it did."""
        if statement.relations[:1] != ("=",) or statement.opens((*CONDITIONS, *CLAIMING)):
            return False
        beside = beside or statement.opens(DEFINING)
        items = items_of(parse(statement.sides[0])) or [None]
        if not all(map(form, items)):
            return False
        letter = letter_of(items[0])
        if letter is None or letter.gradient or reserved(letter) or len(items) > 2:
            return False
        body = parse(statement.sides[1])
        if len(items) == 2:
            name = spelled(letter, letter.base, letter.below, letter.above)
            if form(items[1]) != "paren" or name in self.defined or len(items[1].children) > 1:
                return False
            arguments = [letter_of(only(c, "factor")) for c in clauses(items[1].children[0].children[0])]
            if any(a is None or a.font for a in arguments):
                return False  # an operator on arrays
            self.defined[name] = Defined([a.name for a in arguments], body, True)
            return True
        known = self.resolve(letter)
        if known is not None and known[0] in self.defined:
            return False
        free = self.letters_free.get(known[0]) if known is not None else None
        items = [i for t in known[1] for i in self.index_items(t)] if free else []
        if items and any(i.data != "factor" or digits_of(i) for i in items) and free.axes[0] != ("steps",):
            self.cases.setdefault(known[0], []).append((items, body))
            self.output_is(known[0], labelled and not beside)
            return True
        if known is not None and not [t for t in known[1] if digits(t)]:
            name, below = known[0], known[1]
        else:
            square = [t for t in letter.above if digits(t) == "2"] if not letter.font else []
            below = [t for t in letter.below if not is_name(t)]
            above = [t for t in letter.above if t not in square]
            name = spelled(letter, letter.base, [t for t in letter.below if is_name(t)], above)
            name += "^2" if square else ""
        places = [self.place_name(item) for t in below for item in self.index_items(t)]
        if letter.font in ("bold", "sans", "cal"):
            small = letter.font == "bold" and letter.base[0].islower()
            places += ["column", "row"][: 1 if small else 2][::-1]
            if self.columns and small:
                places[-1] = "row"
        self.defined[name] = Defined(places, body)
        used = {
            (self.resolve(letter) or [""])[0] for letter in map(letter_of, body.find_data("factor")) if letter
        }
        if used & self.of_gradients or any(
            t.type in ("D", "PARTIAL") or t.value == "nabla" for t in statement.sides[1]
        ):
            self.of_gradients.add(name)  # made of gradients: no output
        else:
            self.output_is(name, labelled and not beside)
        return True

    def output_is(self, name, may):
        if self.last is None or may:
            self.last = name

    def assumed(self, statement):
        """Take a condition such as ε = 0 or g_i = i as what a free letter is; returns whether it is one."""
        if statement.relations != ("=",):
            return False
        factor = only(parse(statement.sides[0]), "factor")
        letter = letter_of(factor) if factor is not None else None
        known = self.resolve(letter) if letter is not None and not letter.gradient else None
        if known is None and letter is not None and letter.base in self.sizes and not letter.below:
            raise Unjudged("a condition on sizes")
        if known is None or known[0] in self.defined or known[0] not in self.letters_free or known[2]:
            return False
        if letter.font:
            raise Unjudged("a condition on a whole array")
        places = [self.place_name(item) for t in known[1] for item in self.index_items(t)]
        if any(self.is_label_or_number(self.resolve(Letter(p))) for p in places):
            raise Unjudged("a condition on some entries")
        self.defined[known[0]] = Defined(places, parse(statement.sides[1]))
        return True

    @staticmethod
    def place_name(item):
        letter = letter_of(item)
        if letter is None or letter.below or letter.above or letter.font:
            raise Unjudged("a definition at an index that is no letter")
        return letter.name

    def resolve(self, letter):
        """(name, index trees, scripts above) of a known letter; None for an unknown one."""
        naming = [t for t in letter.above if qualifier(t) and not digits(t)]
        for ups, downs in itertools.product((naming, []), ([t for t in letter.below if qualifier(t)], [])):
            below = [t for t in letter.below if t not in downs]
            above = [t for t in letter.above if t not in ups]
            for base in dict.fromkeys((letter.base, self.other_case(letter, below))):
                name = spelled(letter, base, downs, ups)
                if f"{name}^2" in self.defined and [t for t in above if digits(t) == "2"]:
                    return f"{name}^2", below, [t for t in above if digits(t) != "2"]
                if name in self.defined or name in self.letters_free or name in self.vectorial:
                    return name, below, above
        return None

    @staticmethod
    def other_case(letter, below):
        if len(letter.base) > 1 or letter.font == "cal" or not (below or letter.font in ("bold", "sans")):
            return letter.base
        return letter.base.swapcase()

    # ---- numbers

    def draw(self):
        """Draw unequal sizes, and numbers for all free letters; forget what was computed."""
        torch = self.torch
        atoms = sorted({s for product in self.sizes.values() for s in product if not s.isdigit()})
        spread_over = self.rng.permutation(np.arange(2, max(5, len(atoms) + 3)))
        if any(free.kind.startswith("noise") for free in self.letters_free.values()):
            spread_over = self.rng.permutation([1 + n % 2 for n in range(1, len(atoms) + 1)])
        self.size = {name: int(n) for name, n in zip(atoms, spread_over)} | {"steps": 6}
        self.values, self.memo, self.index_sizes, self.noisy = {}, {}, {}, set()
        for name, free in self.letters_free.items():
            shape = [self.long(axis) for axis in free.axes]
            kind = free.kind
            if kind in ("function", "logistic"):
                continue
            if kind.startswith("<"):
                self.values[name] = torch.tensor(
                    self.rng.integers(self.long(self.product_of(kind[1:])), size=shape)
                )
                continue
            if kind.startswith("in"):
                text = kind[2:].strip()
                ends = [float(x) for x in text.strip("()[]{} ").split(",")]
                if text.startswith("{"):
                    drawn = self.rng.choice(ends, size=shape)
                else:
                    drawn = ends[0] + (ends[1] - ends[0]) * self.rng.uniform(0.05, 0.95, size=shape)
            elif kind in ("> 0", ">0", "distribution"):
                drawn = self.rng.uniform(0.4, 1.6, size=shape)
                drawn = drawn / drawn.sum(-1, keepdims=True) if kind == "distribution" else drawn
            elif kind.startswith("noise"):
                continue
            elif kind:
                raise Unjudged(f"a letter that is {kind}")
            else:
                drawn = self.rng.standard_normal(shape)
            self.values[name] = torch.tensor(np.asarray(drawn, float), requires_grad=True)
        if any(free.kind.startswith("noise") for free in self.letters_free.values()):
            self.draw_noise()

    def long(self, axis):
        return math.prod(int(s) if s.isdigit() else self.size[s] for s in axis)

    def number(self, x):
        return Value(self.torch.tensor(float(x), dtype=self.torch.float64))

    def arange(self, n, name):
        return Value(self.torch.arange(n, dtype=self.torch.float64), (name,))

    # ---- sums and products

    def expr(self, tree, env):
        inner = tree if tree.data == "expr" else only(tree, "expr")
        if inner is None:
            raise Unjudged(f"{written(tree)!r}")
        sign, thunks = 1, []
        for child in inner.children:
            if not hasattr(child, "data"):
                sign = -1 if child.type == "MINUS" else 1
            else:
                thunks.append((sign, lambda c=child: self.product(c.children, env)))
        values = self.retried([thunk for _, thunk in thunks])
        total = None
        signed = [value._replace(t=s * value.t) for (s, _), value in zip(thunks, values)]
        if len(values) > 1 and any(v.eye for v in values):
            n = max([length(v, axis) for v in values for axis in v.open], default=1)
            n = n if n > 1 else self.hint
            signed = [dense(v, n) if v.eye and n else v for v in signed]
        for value in signed:
            total = value if total is None else entrywise(lambda x, y: x + y, total, value)
        return total

    def retried(self, thunks):
        """The values of all; one that needs a length is tried again when the others have said it."""
        found, failed = {}, {}
        while len(found) < len(thunks):
            for n, thunk in enumerate(thunks):
                if n not in found and failed.get(n, (-1,))[0] < len(self.lengths):
                    try:
                        found[n] = thunk()
                    except NeedSize as error:
                        failed[n] = len(self.lengths), error
            waiting = [failed[n] for n in range(len(thunks)) if n not in found]
            if waiting and all(learnt == len(self.lengths) for learnt, _ in waiting):
                raise waiting[0][1]
        return [found[n] for n in range(len(thunks))]

    def product(self, items, env):
        operation, units, items = None, [], list(items)
        while items:
            item = items.pop(0)
            if not hasattr(item, "data"):
                operation = item.type
                continue
            if item.data == "big":
                units.append((operation, lambda i=item, r=tuple(items): self.big(i, list(r), env)))
                items = []
            else:
                thunk, items = self.unit(item, items, env)
                if units and units[-1][0] == "SLASH" and operation is None:
                    raise Unjudged("a quotient with a factor behind it")
                units.append((operation, thunk))
            operation = None
        result = None
        for (sign, _), value in zip(units, self.retried([thunk for _, thunk in units])):
            if result is None:
                result = value
            elif sign == "SLASH":
                if value.open:
                    raise Unjudged("a quotient by an array")
                result = both(lambda x, y: x / y, result, value)._replace(eye=result.eye)
            elif sign == "ENTRYWISE":
                result = entrywise(lambda x, y: x * y, result, value)
            elif sign == "TIMES" and result.open and value.open:
                if len(result.open) > 1 or result.open != value.open:
                    raise Unjudged("a dot between arrays")
                result = summed(times(result, value), *result.open)
            else:
                result = matmul(result, value)
        return result

    def unit(self, item, items, env):
        """What computes a factor, with its argument from behind it, and the items that are left."""
        letter = letter_of(item)
        following = items[0] if items and form(items[0]) else None
        bracket = form(following) == "paren"
        if is_operator(item):
            rest = tuple(items)
            return lambda: self.derivative(item.children[0].children[1], self.product(rest, env), env), []
        if letter == Letter("sigma") and bracket and self.resolve(letter) is None:
            letter = Letter("sigmoid", "name")
        if letter is not None and not letter.gradient:
            if letter.font == "double" and letter.base == "1" and following is not None and not letter.below:
                return (lambda: self.factor(following, env)), items[1:]
            if letter.font == "name" and letter.base in NAMED and not self.is_function(letter):
                return self.named(letter, items, env)
            if letter.font == "name" and letter.base in ("min", "max") and bracket:
                return (lambda: self.extreme(letter.base, following, env)), items[1:]
            if letter.font in ("name", "double") and letter.base in ("Var", "Cov", "E"):
                return (lambda: self.expected(letter, following, env)), items[1:]
            if self.is_function(letter) and bracket:
                name = self.bare(letter)
                return (lambda: self.applied(name, letter.primes, following, env)), items[1:]
            known = self.resolve(letter)
            if known and known[0] in self.vectorial and bracket:
                return (lambda: self.branch(letter, known, following, env)), items[1:]
            if letter.base == "nabla" and letter.font == "name" and following is not None:
                by, loss = letter_of(only(letter.below[0], "factor")), letter_of(following)
                if loss is None or not is_loss_name(loss) or len(items) > 1 and form(items[1]) == "paren":
                    raise Unjudged("∇ of something else than the loss")
                return (lambda: self.letter(by._replace(gradient=True), env)), items[1:]
        return (lambda: self.factor(item, env)), items

    @staticmethod
    def bare(letter):
        return spelled(letter._replace(primes=0), letter.base, letter.below, letter.above)

    def is_function(self, letter):
        """Whether the page declares or defines a function of this name."""
        free, rule = self.letters_free.get(self.bare(letter), Free(())), self.defined.get(self.bare(letter))
        return bool(rule and rule.function) or free.kind in ("function", "logistic")

    def named(self, letter, items, env):
        name, takes = letter.base, NAMED[letter.base]
        if letter.primes or letter.below and name != "log" or not items:
            raise Unjudged(f"{name} with scripts, or of nothing")
        first, scripts = items[0], []
        if getattr(first, "data", "") == "big":
            rest = items[1:]
            if any(not hasattr(item, "data") for item in rest):
                raise Unjudged(f"{name} of a sum, with more behind it")
            thunk, items = (lambda: self.big(first, rest, env)), []
        elif form(first) == "paren":
            inner = clauses(first.children[0].children[0])
            thunk, scripts, items = (lambda: self.expr(inner[0], env)), first.children[1:], items[1:]
        else:
            taken = []
            while items and (digits_of(items[0]) or letter_of(items[0]) == Letter("pi")) and len(items) > 1:
                if not hasattr(items[1], "data") or not takes.constants:
                    break
                taken.append(items.pop(0))
            inner, items = self.unit(items[0], items[1:], env)
            if items and (
                not hasattr(items[0], "data") or items[0].data != "big" and not self.starts(items[0])
            ):
                raise Unjudged(f"{name} of several factors")

            def thunk():
                value = inner()
                for one in taken:
                    value = times(self.factor(one, env), value)
                return value

        def compute():
            value = self.table(name, thunk())
            if letter.below:
                base = self.expr(letter.below[0], env)
                value = both(lambda x, y: x / self.torch.log(y), value, base)
            value = self.scripts(value, scripts, env)
            if letter.above and not digits(letter.above[0]):
                raise Unjudged(f"a power of {name}")
            return Value(value.t ** int(digits(letter.above[0])), value.names) if letter.above else value

        return compute, items

    @staticmethod
    def starts(item):
        letter = letter_of(item)
        return letter is not None and letter.font == "name" and letter.base in {*NAMED, "min", "max"}

    def table(self, name, value):
        torch = self.torch
        if not NAMED[name].arrays:
            f = {"ln": "log", "rint": "round", "ReLU": "relu", "SiLU": "silu"}.get(name, name)
            f = getattr(torch, f, None) or getattr(torch.nn.functional, f)
            return Value(f(value.t), value.names)
        if not value.open:
            raise Unjudged(f"{name} of a number")
        if name == "diag":
            if len(value.open) > 1:
                raise Unjudged("diag of a matrix")
            (axis,) = value.open
            n = length(value, axis)
            row, column = (renamed(self.arange(n, axis), {axis: a}) for a in ("row", "column"))
            eye = both(lambda x, y: (x == y).double(), row, column)
            return times(renamed(value, {axis: "row"}), eye)
        if name == "tr":
            n = self.arange(length(value, "row"), "inner")
            return summed(self.at(value, {"row": n, "column": n}), "inner")
        if name in ("mean", "lse", "logsumexp"):
            if len(value.open) > 1:
                raise Unjudged(f"{name} of a matrix")
            return summed(value, *value.open, "mean" if name == "mean" else "logsumexp")
        axis = "row" if name == "colsum" or "column" not in value.names else "column"
        dim = value.names.index(axis)
        if name == "softmax":
            return Value(torch.softmax(value.t, dim), value.names)
        return Value(value.t.sum(dim, keepdim=True).expand_as(value.t), value.names)

    def expected(self, letter, following, env):
        """E, Var or Cov over all letters with a law, whose two values each occur equally often."""
        if form(following) not in ("paren", "square") or letter.below:
            raise Unjudged("an expectation of another form")
        inside = [self.expr(c, env) for c in clauses(following.children[0].children[0])]

        def mean(value):
            return summed(value, "ω", "mean") if "ω" in value.names else value

        value = mean(inside[0])
        if letter.base != "E":
            a, b = inside[0], inside[-1]
            value = entrywise(lambda x, y: x - y, mean(times(a, b)), times(mean(a), mean(b)))
        return self.scripts(value, following.children[1:], env)

    def draw_noise(self):
        """Two values with the right mean and variance for each entry of a law, in all combinations."""
        noisy = {name: free for name, free in self.letters_free.items() if free.kind.startswith("noise")}
        shapes = {name: [self.long(axis) for axis in free.axes] for name, free in noisy.items()}
        bits = sum(map(math.prod, shapes.values()))
        if bits > 14:
            raise Unjudged("laws of too many entries")
        states = 2.0 * ((np.arange(2**bits)[:, None] >> np.arange(bits)) & 1) - 1
        for name, free in noisy.items():
            text = f"{free.kind.removeprefix('noise')} around 0"
            tex = [
                re.sub(r"(?<!\\)\b[A-Za-z]{2,}", lambda m: "\\" + m[0], t) for t in text.split(" around ")[:2]
            ]
            variance, middle = (float(self.expr(parse(scan(t)), {}).t.detach()) for t in tex)
            n = math.prod(shapes[name])
            mine, states = states[:, :n], states[:, n:]
            drawn = self.torch.tensor(middle + math.sqrt(variance) * mine.reshape(-1, *shapes[name]))
            self.values[name] = drawn
        for name, value in self.values.items():
            if value.is_floating_point():
                each = value if name in noisy else value.expand(2**bits, *value.shape)
                self.values[name] = each.detach().clone().requires_grad_()
        self.memo = {}
        self.noisy = {name for name, value in self.values.items() if value.is_floating_point()}

    def extreme(self, name, following, env):
        f = getattr(self.torch, {"min": "minimum", "max": "maximum"}[name])
        values = [self.expr(c, env) for c in clauses(following.children[0].children[0])]
        result = values[0]
        for value in values[1:]:
            result = both(f, result, value)
        return self.scripts(result, following.children[1:], env)

    def applied(self, name, order, following, env):
        """A function of the page at its arguments; with primes its derivative by the first of them."""
        torch, arguments = self.torch, clauses(following.children[0].children[0])
        values = [self.expr(c, env) for c in arguments]
        if order and not values[0].t.requires_grad:
            values[0] = Value(values[0].t.clone().requires_grad_(), values[0].names)
        if name in self.defined:
            y = self.expr(self.defined[name].body, dict(zip(self.defined[name].places, values)))
        elif self.letters_free[name].kind == "logistic":
            y = Value(torch.sigmoid(values[0].t), values[0].names)
        else:
            mark = sum(map(ord, name)) % 5 / 5
            y = Value(torch.sin((1 + mark) * values[0].t) + mark * values[0].t ** 2, values[0].names)
        for _ in range(order):
            y = self.slope(y, values[0])
        return self.scripts(y, following.children[1:], env)

    def branch(self, letter, known, following, env):
        """f(𝐱) of a function of vectors with given Jacobians, used at one point: any affine one will do."""
        name, arguments = known[0], []
        for clause in clauses(following.children[0].children[0]):
            value = self.expr(clause, env)
            if len(value.open) != 1 or any(not n.startswith("⟨") for n in {*value.names} - value.open):
                raise Unjudged(f"{name} of no vector")
            arguments.append(renamed(value, dict.fromkeys(value.open, "inner")))
        if name in self.memo:
            before = self.points[name]
            if any(a.names != b.names or not self.torch.equal(a.t, b.t) for a, b in zip(before, arguments)):
                raise Unjudged(f"{name} at two points")
        else:
            total = renamed(self.node(f"{name} at 0"), {self.node(f"{name} at 0").names[0]: f"{name}:k"})
            for slope, argument in zip(self.vectorial[name], arguments, strict=True):
                matrix = Value(self.node(slope).t, (f"{name}:k", "inner"))
                total = both(lambda x, y: x + y, total, summed(times(matrix, argument), "inner"))
            order = (*(n for n in total.names if n != f"{name}:k"), f"{name}:k")
            self.memo[name], self.points[name] = Value(spread(total, order), order), arguments
        items = [item for tree in known[1] for item in self.index_items(tree)]
        keep = self.kept(letter, 0 if items else 1)
        return self.scripts(self.entries(self.memo[name], items, keep, env), following.children[1:], env)

    def slope(self, y, x):
        """dy/dx of a function that works on each number by itself."""
        if not y.t.requires_grad:
            return self.number(0)
        if {*y.names} != {*x.names}:
            raise Unjudged("a derivative of a function that holds other indices")
        (g,) = self.torch.autograd.grad(y.t.sum(), x.t, create_graph=True, allow_unused=True)
        return self.number(0) if g is None else Value(g, x.names)

    # ---- Σ and Π

    def big(self, tree, rest, env):
        kind = str(tree.children[0].type)
        low = [c.children[0] for c in tree.children[1:] if c.data == "low"]
        high = [c.children[0] for c in tree.children[1:] if c.data == "high"]
        if kind == "INTEGRAL" or len(low) != 1 or not clauses(low[0]) or not rest:
            raise Unjudged("an integral, or a sum over words or of nothing")
        inside, bound, conditions, loops = dict(env), {}, [], {}
        for clause in clauses(low[0]):
            sign = str(clause.children[1]) if len(clause.children) > 1 else ""
            if sign in ("∈", "⊆") or len(clause.children) > 3:
                raise Unjudged("a sum over sets, or between two relations")
            items = items_of(clause.children[0]) or []
            letters = map(letter_of, items)
            names = [i and i.name for i in letters if i is None or not i.below]
            fresh = (
                bool(names) and len(names) == len(items) and not any(n in bound or n in env for n in names)
            )
            if not sign and not fresh:
                raise Unjudged("an index of a sum that is in use")
            first = digits(clause.children[2]) if fresh and sign == "=" and high else None
            whole = self.sizes.get(written(high[0])) if first == "1" else None
            if whole and names[0] not in self.steps:  # from 1 to D: all entries of an axis
                self.count_from(1)
                pending = bound[names[0]] = inside[names[0]] = Pending(f"{names[0]}#{next(self.count)}")
                pending.value = self.arange(self.long(whole), pending.name)
                continue
            if fresh and sign == "=" and high:
                loops[names[0]] = self.expr(clause.children[2], env), self.expr(high[0], env)
                if any(limit.names for limit in loops[names[0]]):
                    first, last = loops.pop(names[0])
                    conditions.append(lambda e, n=names[0], a=first: self.relation("≥", self.read(n, e), a))
                    conditions.append(lambda e, n=names[0], a=last: self.relation("≤", self.read(n, e), a))
                else:
                    inside[names[0]] = None
                    continue
            elif sign:
                conditions.append(lambda e, c=clause: self.condition(c, e))
            for name in names if fresh else ():
                bound[name] = inside[name] = Pending(f"{name}#{next(self.count)}")
                if sign == "=" and high and not last.names:
                    inside[name].value = self.arange(round(last.t.item()) + 1, inside[name].name)
                if name in self.steps:
                    raise Unjudged("a sum over all steps")
        if not bound and not loops:
            raise Unjudged("a sum that binds no index")
        body, fill = lambda e: self.product(rest, e), float(kind == "PROD")
        if not loops:
            return self.folded(kind, fill, body, conditions, bound, inside)
        (name, (first, last)), *more = loops.items()
        if more or bound:
            raise Unjudged("a sum over several indices, one with limits")
        terms = []
        for n in range(round(first.t.item()), round(last.t.item()) + 1):
            here = inside | {name: self.number(n)}
            value = body(here)
            for condition in conditions:
                value = both(lambda x, m: self.torch.where(m > 0, x, fill), value, condition(here))
            terms.append(value)
        result = self.number(fill)
        for value in terms:
            result = both((lambda x, y: x * y) if kind == "PROD" else (lambda x, y: x + y), result, value)
        return result

    def folded(self, kind, fill, body, conditions, bound, inside):
        value = body(inside)
        for condition in conditions:
            value = both(lambda x, m: self.torch.where(m > 0, x, fill), value, condition(inside))
        for pending in bound.values():
            if pending.value is None:
                raise NeedSize(f"nothing says what {pending.name} runs over")
            name = pending.name
            if name not in value.names:
                value = both(lambda x, y: x + 0 * y, value, pending.value)
            value = summed(value, name, kind.lower())
        return value

    def read(self, name, env):
        """An index as a number."""
        value = env[name]
        if isinstance(value, Pending):
            if value.value is None:
                raise NeedSize(name)
            return value.value
        return value

    def condition(self, clause, env):
        if len(clause.children) != 3:
            raise Unjudged("several relations in one condition")
        left, sign, right = clause.children
        return self.compared(str(sign), left, right, env)

    def compared(self, sign, left, right, env):
        """1 where a relation holds, else 0; an index that is compared with a label runs over its values."""
        sides = [only(t, "factor") or t for t in (left, right)]
        ranges = [self.range_of(t, env) for t in sides]

        def side(t, n):
            letter = letter_of(t)
            index = letter and not letter.below and len(letter.base) == 1 and letter.base.islower()
            if index and n is not None and self.resolve(letter) is None:
                return self.index(t, n, env)
            return self.expr(t, env) if t.data != "factor" else self.factor(t, env)

        thunks = [lambda: side(sides[0], ranges[1]), lambda: side(sides[1], ranges[0])]
        return self.relation(sign, *self.retried(thunks))

    def range_of(self, tree, env):
        """How many values a label or an index has; None for something else, or where it is not known yet."""
        letter = letter_of(tree)
        if letter is not None and not letter.below and not letter.font:
            held = env.get(letter.base)
            if isinstance(held, Pending) and held.value is not None:
                return held.value.t.shape[0]
            if letter.base in self.index_sizes:
                return self.index_sizes[letter.base]
        known = self.resolve(letter) if letter is not None else None
        free = self.letters_free.get(known[0]) if known else None
        return self.long(self.product_of(free.kind[1:])) if free and free.kind.startswith("<") else None

    def relation(self, sign, a, b):
        f = {"=": "eq", "≠": "ne", "≤": "le", "≥": "ge", "<": "lt", ">": "gt"}.get(sign)
        if f is None or a.open or b.open:
            raise Unjudged(f"the relation {sign}")
        return both(lambda x, y: getattr(self.torch, f)(x, y).double(), a, b)

    # ---- factors

    def factor(self, tree, env):
        atom, scripts = tree.children[0], tree.children[1:]
        letter = letter_of(tree)
        if letter is not None:
            return self.letter(letter, env)
        kind, children = atom.data, atom.children
        if kind == "number":
            value = self.number(str(children[0]))
        elif kind == "braced":
            value = self.expr(children[0], env)
        elif kind in ("paren", "square"):
            inner = clauses(children[0])
            if len(inner) > 1:
                parts = [self.expr(c, env) for c in inner]
                value = self.stacked(parts, "row" if self.columns else "column")
            elif len(inner[0].children) > 1:
                value = self.condition(inner[0], env)
            else:
                value = self.expr(inner[0], env)
        elif kind == "frac":
            value = self.fraction(atom, env)
        elif kind == "sqrt":
            value = self.expr(children[0], env)
            value = Value(value.t.sqrt(), value.names)
        elif kind == "abs":
            value = self.expr(children[0], env)
            value = Value(value.t.abs(), value.names)
        elif kind == "norm":
            whole = self.expr(children[0], env)
            value = times(whole, whole)
            for axis in value.open:
                value = summed(value, axis)
            names = [written(s.children[0]) for s in scripts if s.data == "sub"]
            if "2" in names and len(whole.open) > 1:
                raise Unjudged("a spectral norm")
            scripts = [s for s in scripts if not (s.data == "sub" and names and names[0] in ("F", "2"))]
            if len(scripts) == 1 and scripts[0].data == "sup" and digits(scripts[0].children[0]) == "2":
                return value
            value = Value(value.t.sqrt(), value.names)
        elif kind == "angle":
            a, b = (self.expr(child, env) for child in children)
            if not a.open or len(a.open) != len(b.open):
                raise Unjudged("an inner product of unlike arrays")
            value = times(a, b if a.open == b.open else turned(b))
            for axis in value.open:
                value = summed(value, axis)
        elif kind == "table" and str(children[0]) == "matrix":
            rows = [c for c in children if getattr(c, "data", "") == "row"]
            cells = [
                [c.children[0] for c in row.children if getattr(c, "data", "") == "cell"] for row in rows
            ]
            value = self.stacked(
                [self.stacked([self.expr(c, env) for c in row], "column") for row in cells], "row"
            )
        elif kind == "font":
            value = None
            for child in children[1:]:
                one = self.letter(Letter(str(child.children[0]), str(children[0])), env)
                value = one if value is None else matmul(value, one)
        else:
            raise Unjudged(f"the form {kind}")
        return self.scripts(value, scripts, env)

    def stacked(self, values, axis):
        if len(values) == 1:
            return values[0]
        names = tuple(dict.fromkeys(n for v in values for n in v.names))
        if axis in names:
            raise Unjudged("a matrix of matrices")
        return Value(
            self.torch.stack(self.torch.broadcast_tensors(*(spread(v, names) for v in values))),
            (axis, *names),
        )

    def scripts(self, value, scripts, env):
        for script in scripts:
            if script.data == "factorial":
                value = Value((self.torch.lgamma(value.t + 1)).exp(), value.names)
            elif script.data == "sub":
                items = [item for t in [script.children[0]] for item in self.index_items(t)]
                axes = [a for a in ("row", "column") if a in value.names]
                if len(items) != len(axes):
                    raise Unjudged("an entry of another array")
                at = {a: self.index(i, length(value, a), env) for a, i in zip(axes, items)}
                value = self.at(value, at)
            elif script.data == "sup":
                value = self.raised(value, script.children[0], env)
            else:
                raise Unjudged("a prime behind a bracket")
        return value

    def raised(self, value, tree, env, entry_by_entry=False):
        if value.open and is_turn(tree):
            return turned(value)
        if value.open and not entry_by_entry:
            if digits(tree) == "2" and len(value.open) == 2:
                return matmul(value, value)
            raise Unjudged("a power of a matrix")
        exponent = self.expr(tree, env)
        if exponent.open:
            raise Unjudged("an array as an exponent")
        whole = not exponent.names and exponent.t.item().is_integer() and not exponent.t.requires_grad
        if whole:
            return Value(value.t ** int(exponent.t), value.names)
        return both(lambda x, y: x**y, value, exponent)

    def letter(self, letter, env):
        name, powers = letter.name, letter.above
        plain = not letter.font and not letter.accent and not letter.gradient
        if plain and not letter.below and name in env and not (name == "e" and letter.above):
            return self.powered(self.read(name, env), powers, env)
        known = self.resolve(letter)
        size = "_".join([name, *(qualifier(t) or "" for t in letter.below)])
        if plain and size in self.sizes and not self.is_number(known):
            return self.powered(self.number(self.long(self.sizes[size])), powers, env)
        if known is None and plain and not letter.primes and not letter.below:
            if name == "e" and letter.above:
                value = self.expr(letter.above[0], env)
                return Value(value.t.exp(), value.names)
            if name == "pi":
                return self.powered(self.number(math.pi), powers, env)
        if known is None and plain and name == "delta" and letter.below:
            items = [item for t in letter.below for item in self.index_items(t)]
            if len(items) != 2:
                raise Unjudged("δ without two indices")
            return self.powered(self.compared("=", *items, env), powers, env)
        if known is None and letter.font == "bold" and not letter.below and letter.base in ("0", "1", "I"):
            if letter.base == "0":
                return self.number(0)
            one = self.torch.ones(1, 1, dtype=self.torch.float64)
            value = Value(one, ("row", "column"), True) if letter.base == "I" else Value(one[0], ("row",))
            return self.powered(value, powers, env)
        if known is None and plain and not letter.below and len(letter.base) == 1 and letter.base.islower():
            return self.powered(self.free_index(name), powers, env)
        if known is None:
            raise Unjudged(f"the letter {letter}")
        return self.of_array(letter, *known, env)

    def is_label_or_number(self, known):
        free = self.letters_free.get(known[0]) if known else None
        return free is not None and (not free.axes or free.kind.startswith("<"))

    def is_number(self, known):
        return known is not None and known[0] in self.letters_free and not self.letters_free[known[0]].axes

    def free_index(self, name):
        if name in self.steps:
            raise NeedSize(name)
        if name not in self.index_sizes:
            raise NeedSize(name)
        return self.arange(self.index_sizes[name], name)

    def powered(self, value, above, env, entry_by_entry=False):
        for tree in above:
            value = self.raised(value, tree, env, entry_by_entry)
        return value

    def of_array(self, letter, name, below, above, env):
        """The entries of a letter, or of the gradient by it, that the indices name; bold ones keep axes."""
        items = [item for tree in below for item in self.index_items(tree)]
        block = [in_brackets(t) for t in above if in_brackets(t) is not None]
        above = [t for t in above if in_brackets(t) is None]
        if letter.font == "bold" and block or any(self.in_both(t) is not None for t in above):
            items = [item for t in block or [self.in_both(t) for t in above] for item in self.index_items(t)]
            above = [only(t, "product").children[1] if self.in_both(t) is not None else t for t in above]
            return self.block(letter, name, items, above, env)
        if block:
            raise Unjudged("brackets above a letter")
        rule = self.defined.get(name)
        if rule is not None and any(p in self.steps for p in rule.places):
            if letter.gradient:
                raise Unjudged("a gradient by a letter of a sequence")
            return self.powered(self.at_step(name, rule, items, env), above, env)
        node = self.slopes(name) if letter.gradient else self.node(name)
        free = self.letters_free.get(name)
        if free is not None and free.axes[:1] == (("steps",),):
            return self.powered(self.of_sequence(node, name, items, env), above, env)
        keep = 0
        if (
            not letter.font and not items and not (free and free.kind.startswith("<"))
        ):  # Y, printed as a number is, and an array: whole
            keep = min(2, self.own_axes(name, node))
        if letter.font in ("bold", "sans", "cal"):
            most = 1 if letter.font == "bold" and letter.base[0].islower() else 2
            keep = min(most, len(node.names) - len(items))
            if most == 1 and len(node.names) == len(items):
                keep = 0
        value = self.entries(node, items, self.kept(letter, keep), env)
        small = letter.base.islower() and letter.font == "bold" or not letter.font and len(value.open) == 1
        return self.powered(value, above, env, small)

    def own_axes(self, name, node):
        """How many axes a letter has besides those that its definition leaves out."""
        free = self.letters_free.get(name)
        return len(free.axes) if free else sum(n.startswith(f"{name}:") for n in node.names)

    def kept(self, letter, keep):
        if keep == 1:
            return ["row" if self.columns else "column"]
        return ["row", "column"][:keep]

    @staticmethod
    def in_both(tree):
        """The index list of a script such as (h)⊤."""
        items = items_of(tree) or []
        return items[0].children[0].children[0] if [*map(form, items)] == ["paren", "top"] else None

    def block(self, letter, name, items, above, env):
        """W^{(h)}: the part of an axis HK that belongs to h, or an index that stands above."""
        node = self.slopes(name) if letter.gradient else self.node(name)
        axes = self.letters_free[name].axes if name in self.letters_free else ()
        split_at = [n for n, a in enumerate(axes) if len(a) > 1]
        above = [t if hasattr(t, "data") and t.data != "factor" else t for t in above]
        if len(items) != 1 or len(split_at) > 1 or split_at and len(axes) != 2:
            raise Unjudged("a block of another array")
        if not split_at:
            value = self.entries(node, items, self.kept(letter, min(2, len(node.names) - 1)), env)
        else:
            h = self.index(items[0], self.long(axes[split_at[0]][:1]), env)
            inner = self.long(axes[split_at[0]][1:])
            axis = ("row", "column")[split_at[0]]
            at = both(lambda x, y: x * inner + y, h, self.arange(inner, axis))
            other = ("row", "column")[1 - split_at[0]]
            whole = self.arange(node.t.shape[1 - split_at[0]], other)
            where = [at, whole] if split_at[0] == 0 else [whole, at]
            value = self.at(node, dict(zip(node.names, where)))
        for tree in above:
            if tree.data == "factor":
                value = turned(value)
            else:
                value = self.raised(value, tree, env)
        return value

    def entries(self, node, items, keep, env):
        """Entries of an array whose leading axes may be left out; keep: the axes of a matrix that stay."""
        at = self.last_axes(node, items, len(keep), env)
        for name, axis in zip(node.names[len(node.names) - len(keep) :], keep):
            at[name] = self.arange(length(node, name), axis)
        return self.at(node, at)

    def last_axes(self, node, items, behind, env):
        """{axis: index} for these indices, which belong to the last axes but for those behind them."""
        first = len(node.names) - len(items) - behind
        if first < 0:
            raise Unjudged("more indices than axes")
        names = node.names[first : first + len(items)]
        thunks = [lambda i=i, n=n: self.index(i, length(node, n), env) for i, n in zip(items, names)]
        return dict(zip(names, self.retried(thunks)))

    def at(self, value, at):
        """An array at these indices, {axis: integers with names}; the other axes stay."""
        torch = self.torch
        whole = {n: at.get(n) or self.arange(length(value, n), n) for n in value.names}
        names = tuple(dict.fromkeys(n for index in whole.values() for n in index.names))
        where = []
        for axis, index in whole.items():
            t = spread(index, names)
            if bool((t < 0).any()) or bool((t >= length(value, axis)).any()) or bool((t != t.round()).any()):
                raise Unjudged(f"an index beyond the axis {axis}")
            where.append(t.long())
        return Value(value.t[tuple(torch.broadcast_tensors(*where))] if where else value.t, names)

    # ---- indices

    def index_items(self, tree):
        """The indices of a script: letters and numbers side by side, or expressions between commas."""
        if tree.data == "words":
            raise Unjudged("words as an index")
        found = []
        for clause in [tree] if tree.data == "clause" else clauses(tree) or [tree]:
            items = items_of(clause)
            single = items and all(letter_of(i) or digits_of(i) for i in items)
            if single and not (len(items) > 1 and digits_of(items[0])):
                if any(len(digits_of(i) or "") > 1 for i in items):
                    raise Unjudged("a number of several digits as an index")
                found += items
            else:
                found.append(clause)
        return found

    def index(self, item, n, env):
        """An index as integers; n: the length of its axis, which a letter takes over."""
        if item.data == "factor":
            letter = letter_of(item)
            if digits_of(item):
                self.count_from(0)
                return self.number(digits_of(item))
            name, bare = letter.name, letter.bare
            if bare and name in env:
                held = env[name]
                if isinstance(held, Pending) and held.value is None and n is not None:
                    held.value = self.arange(n, held.name)
                    self.lengths.add((held.name.split("#")[0], n))
                if isinstance(held, Pending) and n is not None and held.value.t.shape[0] != n:
                    raise Unjudged(f"the index {name} on axes of two lengths")
                return self.read(name, env)
            if bare and not self.is_label_or_number(self.resolve(letter)):
                known = self.index_sizes.get(name)
                if known is None and n is not None and name not in self.steps:
                    known = self.index_sizes[name] = n
                    self.lengths.add((name, n))
                if n is not None and known != n and name not in self.steps:
                    raise Unjudged(f"the index {name} on axes of two lengths")
                return self.free_index(name)
            value = self.letter(letter, env)
        else:
            if n is not None:
                self.parts_of(item, n, env)
            value = self.expr(item, env)
        if value.open:
            raise Unjudged("an array as an index")
        return value

    def count_from(self, first):
        self.first = self.first or {first}
        if first not in self.first:
            raise Unjudged("places that count from 0, and from 1")

    def parts_of(self, item, n, env):
        """Of an index such as hK + c or 2i + 1 on an axis of length n: h and i run below n / K, c below K."""
        parts = [part.children for part in item.iter_subtrees() if part.data == "product"]
        sizes, letters = [], []
        for items in parts:
            found = [*filter(form, items)]
            numbers = [i for i in found if digits_of(i) or written(i) in self.sizes]
            if len(items) == len(found) == 2 and len(numbers) == 1:
                (other,) = [i for i in found if i not in numbers]
                sizes.append(int(digits_of(numbers[0]) or self.long(self.sizes.get(written(numbers[0]), ()))))
                self.index(other, n // sizes[-1], env)
            elif len(items) == len(found) == 1 and not numbers:
                letters += found
        if len(sizes) == 1:
            for letter in letters:
                self.index(letter, sizes[0], env)

    # ---- defined letters

    def node(self, name):
        """The whole array of a letter: of a definition ⟨leading axes⟩ and its places, computed once."""
        if name in self.memo:
            return self.memo[name]
        if name in self.cases:
            return self.put_together(name)
        if name in self.letters_free and name not in self.defined:
            axes = self.letters_free[name].axes
            if name not in self.values:
                raise Unjudged(f"the function {name}, without an argument")
            names = self.lead_names(axes)
            noisy = ["ω"] * (name in self.noisy)
            self.memo[name] = Value(self.values[name], (*noisy, *names))
            return self.memo[name]
        if name in self.vectorial:
            raise Unjudged(f"the function {name}, at no point yet")
        rule = self.defined[name]
        if rule.function:
            raise Unjudged(f"the function {name}, without an argument")
        places = [p for p in rule.places if p not in ("row", "column")]
        env = {p: Pending(f"{name}:{p}") for p in places}
        if name in self.active:
            raise Unjudged(f"{name} is defined by itself")
        self.active.add(name)
        try:
            return self.made(name, rule, places, env)
        finally:
            self.active.discard(name)

    def put_together(self, name):
        """An array whose entries are defined in cases, such as y_2i and y_(2i+1)."""
        axes = self.letters_free[name].axes
        shape = [self.long(axis) for axis in axes]
        whole = self.torch.full(shape, math.nan, dtype=self.torch.float64)
        for items, body in self.cases[name]:
            letters = {
                t.children[0].children[0].value
                for item in items
                for t in ([item] if item.data == "factor" else item.find_data("factor"))
                if t.children[0].data == "letter"
            } - {*self.sizes}
            env = {letter: Pending(f"{name}:{letter}") for letter in letters}
            for item, n in zip(items[len(items) - len(shape) :], shape):
                if item.data == "factor" and not digits_of(item):
                    self.index(item, n, env)
            value = self.expr(body, env)
            at = [self.index(item, None, env) for item in items]
            names = tuple(dict.fromkeys(n for index in at for n in index.names))
            if {*value.names} - {*names} or len(items) != len(shape):
                raise Unjudged(f"cases of {name} with other indices")
            where = self.torch.broadcast_tensors(*(spread(index, names).long() for index in at))
            whole = whole.index_put(where, spread(value, names).expand(where[0].shape))
        if bool(whole.isnan().any()):
            raise Unjudged(f"cases that leave out entries of {name}")
        self.memo[name] = Value(whole, tuple(f"⟨{n}⟩" for n in range(len(shape))))
        return self.memo[name]

    def made(self, name, rule, places, env):
        """The array of a definition: its body at all places, of which some have a length only afterwards."""
        axes = self.letters_free[name].axes if name in self.letters_free else ()
        self.hint = self.long(axes[-1]) if len(axes) > 1 and axes[-1] == axes[-2] else None
        for place in places:
            if name in self.letters_free:
                env[place].value = self.declared(name, rule, place, env[place].name)
        value = self.expr(rule.body, env)
        for place in places:
            if env[place].value is None:
                env[place].value = self.declared(name, rule, place, env[place].name)
                value = self.expr(rule.body, env)
            if env[place].name not in value.names:
                value = both(lambda x, y: x + 0 * y, value, env[place].value)
        own = [env[p].name for p in places] + [p for p in rule.places if p in value.open]
        if value.open - {*rule.places} and (len(value.open) == 1 or not rule.places):
            own += sorted(value.open, reverse=True)  # a row where a column is the custom; Y = X W
        leads = [n for n in value.names if n not in own]
        if any(n[0] not in "⟨ω" for n in leads):
            raise Unjudged(f"an index on the right of {name} that is not on its left: {leads}")
        order = tuple(sorted(leads, key=self.rank) + own)
        t = value.t.permute([value.names.index(n) for n in order])
        t = t if t.requires_grad else t.clone().requires_grad_()
        own_names = [f"{name}:{n}" for n in own]
        if name in self.letters_free and len(self.letters_free[name].axes) == len(own):
            own_names = self.lead_names(self.letters_free[name].axes)
        self.memo[name] = Value(t, (*order[: len(leads)], *own_names))
        return self.memo[name]

    @staticmethod
    def lead_names(axes):
        """The names of the axes of a declared letter: of two alike the last has the bare one."""
        names = ["⟨" + "·".join(axis) + "⟩" for axis in axes]
        return [f"{n}{names[k + 1 :].count(n) or ''}" for k, n in enumerate(names)]

    def declared(self, name, rule, place, named):
        """The range of a place that the right side does not tell, from the letter's declared axes."""
        free = self.letters_free.get(name)
        if free is None:
            raise Unjudged(f"nothing says what {place} runs over")
        axes = free.axes[len(free.axes) - len(rule.places) :]
        return self.arange(self.long(axes[rule.places.index(place)]), named)

    def rank(self, lead):
        """Where a leading axis stands among others: its place in the longest declared shape that has it."""
        shapes = sorted((f.axes for f in self.letters_free.values()), key=len, reverse=True)
        for axes in shapes:
            names = ["⟨" + "·".join(axis) + "⟩" for axis in axes]
            if lead in names:
                return names.index(lead) - len(axes)
        return 0

    def at_step(self, name, rule, items, env):
        """A letter of a sequence at a step, from its definition; at 0 the letter that is called so."""
        indices = [self.index(item, None, env) for item in items]
        if len(items) != len(rule.places) or any(index.names for index in indices):
            raise Unjudged("a sequence at an index that is no number")
        step = round(indices[0].t.item())
        if step == 0 and f"{name}_0" in {*self.defined, *self.letters_free}:
            return self.entries(self.node(f"{name}_0"), items[1:], [], env)
        if step < 1:
            raise Unjudged("a sequence before its beginning")
        key = name, *(i.t.item() for i in indices)
        if key not in self.memo:
            self.memo[key] = self.expr(rule.body, dict(zip(rule.places, indices)))
        return self.memo[key]

    def of_sequence(self, node, name, items, env):
        """A free letter that has a value at each step 1, 2, …"""
        step, *rest = [self.index(items[0], None, env), *items[1:]]
        if step.names:
            raise Unjudged("a sequence at an index that is no number")
        if round(step.t.item()) == 0 and f"{name}_0" in self.letters_free:
            return self.entries(self.node(f"{name}_0"), rest, [], env)
        picked = self.at(node, {node.names[0]: Value(step.t - 1)})
        return self.entries(picked, rest, [], env)

    # ---- derivatives

    def root(self):
        """The name of what is differentiated, and whether it is the output, with a gradient from above."""
        if self.loss or self.output:
            letter = letter_named(self.loss or self.output)
            known = self.resolve(letter if letter.font else letter._replace(font="bold"))
            return (known or [None])[0], not self.loss
        number = "ell" in self.defined and not self.defined["ell"].places
        loss = next((name for name in ("L", "cal  L", "ell"[: 3 * number]) if name in self.defined), None)
        return (loss, False) if loss else (self.last, True)

    def upstream(self, node):
        if "upstream" not in self.memo:
            shape = [1 if name == "ω" else n for name, n in zip(node.names, node.t.shape)]
            drawn = np.random.default_rng(7).standard_normal(shape) * np.ones(tuple(node.t.shape))
            self.memo["upstream"] = Value(self.torch.tensor(drawn), node.names)
        return self.memo["upstream"]

    def slopes(self, name):
        """The gradient of the whole loss by a whole array."""
        root, is_output = self.root()
        if root in self.defined and self.defined[root].function:
            raise Unjudged("a loss with its arguments")
        if root is None or any(p in self.steps for p in self.defined.get(root, Defined([], None)).places):
            raise Unjudged("a gradient, and no loss")
        top = self.node(root)
        if is_output and name == root:
            return self.upstream(top)
        loss = (top.t * self.upstream(top).t).sum() if is_output else top.t.sum()
        node = self.node(name)
        (g,) = self.torch.autograd.grad(loss, node.t, create_graph=True, allow_unused=True)
        if g is None:
            raise Unjudged(f"a gradient by {name}, on which the loss does not depend")
        return Value(g, node.names)

    def fraction(self, atom, env):
        top, bottom = atom.children
        items = items_of(top)
        below = items_of(bottom)
        if items and below and form(items[0]) == form(below[0]) == "partial":
            letter = letter_of(items[1]) if len(items) == 2 else None
            loss = letter is not None and is_loss_name(letter)
            if len(items) > 2 and form(items[2]) == "paren":
                raise Unjudged("a loss with its arguments")
            if loss and (letter_of(below[-1]).font or self.resolve(letter) is None):
                if len(below) != 2:
                    raise Unjudged("a second derivative of a loss that is not written out")
                return self.letter(letter_of(below[1])._replace(gradient=True), env)
            order = [digits(script.children[0]) for script in items[0].children[1:]] or ["1"]
            value = self.product(items[1:], env)
            return self.derivative(bottom, value, env, order[0])
        if items and below and is_gradient(items[0]) and is_gradient(below[0]):
            if len(items) + len(below) > 2 or letter_of(items[0]).base not in LOSSES:
                raise Unjudged("a quotient of gradients")
            return self.letter(letter_of(below[0]), env)
        values = self.retried([lambda: self.expr(top, env), lambda: self.expr(bottom, env)])
        if values[1].open:
            raise Unjudged("a quotient by an array")
        return both(lambda x, y: x / y, *values)

    def derivative(self, bottom, value, env, order=None):
        """∂value/∂x_j, each entry by each, from torch."""
        items, found = list(items_of(bottom)), []
        while items:
            if form(items.pop(0)) != "partial" or not items:
                raise Unjudged("a derivative by something else")
            letter = letter_of(items.pop(0))
            twice = bool(letter.above) and digits(letter.above[-1]) == "2"
            known = self.resolve(letter)
            if twice and not (known and known[0].endswith("^2")):
                letter = letter._replace(above=letter.above[:-1])
                found += [letter]
            found.append(letter)
        if order is not None and order != str(len(found)):
            raise Unjudged("a derivative of another order")
        for letter in found:
            value = self.jacobian(value, letter, env)
        return value

    def jacobian(self, value, letter, env):
        known = self.resolve(letter)
        if known is None or letter.font in ("bold", "sans") or known[2] or value.open:
            raise Unjudged("a derivative by a whole array, or of one")
        node = self.node(known[0])
        flat = value.t.reshape(-1)
        rows = []
        for one in flat:
            g = None
            if one.requires_grad:
                (g,) = self.torch.autograd.grad(one, node.t, create_graph=True, allow_unused=True)
            rows.append(self.torch.zeros_like(node.t) if g is None else g)
        outer = tuple(f"of {n}" for n in value.names)
        inner = tuple(f"by {n}" for n in node.names)
        whole = Value(self.torch.stack(rows).reshape((*value.t.shape, *node.t.shape)), outer + inner)
        at = {f"of {n}": self.arange(length(value, n), n) for n in value.names}
        at |= {f"by {n}": self.arange(length(node, n), n) for n in node.names}
        items = [item for tree in known[1] for item in self.index_items(tree)]
        if self.own_axes(known[0], node) and not items:
            raise Unjudged("a derivative by a whole array")
        at |= {f"by {n}": index for n, index in self.last_axes(node, items, 0, env).items()}
        if self.letters_free.get(known[0], Free(())).axes[:1] == (("steps",),):  # steps count from 1
            step = at[f"by {node.names[0]}"]
            at[f"by {node.names[0]}"] = Value(step.t - 1, step.names)
        return self.at(whole, at)


class Pending:
    """An index whose length is found where it is first used."""

    def __init__(self, name):
        self.name, self.value = name, None


def is_loss_name(letter):
    return letter.base in LOSSES and letter == Letter(letter.base, letter.font) and letter.font in ("", "cal")


# ------------------------------------------------------------------------------------------------ the verdict


def judge(given, label, draws=2):
    """Compare the sides of each claim of an equation on numbers; returns how many were compared.

    Raises AssertionError where they differ, Unjudged for a form that this reading does not know.
    """
    rng = np.random.default_rng(len(label) + 1)
    try:
        groups = by_rows(split(given.page.tex(label)))
        return sum(_judged(given, group, label, rng, draws) for group in groups)
    except NeedSize as error:
        raise Unjudged(f"the length of an index, {error}") from None
    except Unreadable as error:
        raise Unjudged(str(error)) from None
    except RuntimeError as error:
        if "size of tensor" not in str(error):
            raise
        raise Unjudged(f"arrays of unlike sizes: {error}") from None


def _judged(given, statements, label, rng, draws):
    second = Second(given, statements, rng)
    claims, conditions = [], conditions_in(statements)
    for statement in (s for s in statements if s not in conditions):
        if statement.opens(DEFINING) and second.learn(statement, beside=True):
            claims += filter(None, [statement.behind_first()])
        elif statement.relations:
            claims.append(statement)
    if not claims:
        raise Unjudged("no claim")
    conditions = [c for c in conditions if c.relations and not second.assumed(c)]
    compared = 0
    for _ in range(draws):
        _meet(second, conditions)
        for statement in claims:
            compared += _compare(second, statement, label)
    return compared


def _meet(second, conditions):
    """Draw numbers that meet the conditions."""
    for _ in range(300):
        second.draw()
        if all(_true(second, statement) for statement in conditions):
            second.memo, second.index_sizes = {}, {}
            return
    raise Unjudged("a condition that no numbers meet")


def _true(second, statement):
    sides = [parse(side) for side in statement.sides]
    values = second.retried([lambda s=s: second.expr(s, {}) for s in sides])
    return all(
        bool(second.relation(sign, a, b).t.all())
        for a, sign, b in zip(values, statement.relations, values[1:])
    )


def _compare(second, statement, label):
    torch, second.index_sizes = second.torch, {}
    sides = [parse(side) for side in statement.sides]
    free = sorted(_steps_of(statement, second.steps))
    compared = 0
    for at in itertools.product(range(1, 5), repeat=len(free)):
        env = {name: second.number(n) for name, n in zip(free, at)}
        values = second.retried([lambda s=s, env=env: second.expr(s, env) for s in sides])
        for a, sign, b in zip(values, statement.relations, values[1:]):
            if sign not in "=≤≥<>≠":
                raise Unjudged(f"the relation {sign}")
            if a.open != b.open and not (a.t.numel() == 1 or b.t.numel() == 1):
                raise Unjudged(f"sides of unlike shapes, {a.names} and {b.names}")
            x, y = both(lambda s, t: torch.stack(torch.broadcast_tensors(s, t)), a, b).t.detach()
            known = x.isfinite() | y.isfinite()  # where neither has a value, nothing is claimed
            if bool((x.isnan() != y.isnan()).any()) or not bool(known.any()):
                if any(free.kind.startswith("in {") for free in second.letters_free.values()):
                    raise Unjudged("no number on one side, such as of a row that masks all keys")
                raise NotProved(f"{label}: one side has no value: say where it has, as for x > 0")
            x, y = x[known], y[known]
            finite = torch.stack([x, y]).nan_to_num(posinf=0.0, neginf=0.0)
            slack = max(SLACK * float(finite.abs().max()), ROUNDING)
            ok = {
                "=": (x == y) | ((x - y).abs() <= slack), "≠": (x - y).abs() > slack, "≤": x <= y + slack,
                "≥": x >= y - slack, "<": x < y, ">": x > y,
            }[sign]  # fmt: skip
            if not (bool(ok.any()) if sign == "≠" else bool(ok.all())):
                where = int((~ok).nonzero()[0])
                raise AssertionError(
                    f"{label}: {'not equal' if sign == '=' else f'not {sign}'} on numbers: "
                    f"left = {float(x[where]):.9g}, right = {float(y[where]):.9g}"
                )
            compared += 1
    return compared


def _steps_of(statement, steps):
    """The steps of a claim that no sum binds."""
    tokens = [t for side in statement.sides for t in side]
    bound = {
        tokens[n + 3].value
        for n, t in enumerate(tokens[:-3])
        if t.type == "SUM" and tokens[n + 1].type == "SUB"
    }
    return {t.value for t in tokens if t.type == "LETTER" and t.value in steps} - bound
