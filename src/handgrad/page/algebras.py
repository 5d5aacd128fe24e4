r"""What a `Term` is worth: with symbols, for every size; with numbers, or torch's where derivatives come up.

The same walk through the term serves all. They differ in what an index is, in how a sum is taken, and in
where a derivative comes from: SymPy, or torch.autograd on the numbers that were computed.
"""

import itertools
import math
from types import MappingProxyType

import numpy as np
import sympy as sp
from sympy import Indexed, IndexedBase, KroneckerDelta

from ..sums import Index, equal, gradient, labels, total
from .meaning import STEPS, Place, Term
from .reading import DERIVATIVES, entries_of, has_kind
from .tree import Unreadable


class Walk:
    """The walk through a term. A subclass says what entries, sums, functions and derivatives are."""

    def __init__(self, reading, depth=0):
        self.reading, self.depth = reading, depth
        self.memo = {}

    def value(self, t, at, lead=(), held=frozenset()):
        """The value of a Term; at is {Place: index}, lead the leading indices, held the names kept apart."""
        return getattr(self, "_" + t.kind)(t.parts, at, lead, held)

    def _number(self, parts, at, lead, held):
        return self.number(parts[0])

    def _constant(self, parts, at, lead, held):
        return self.pi

    def _size(self, parts, at, lead, held):
        return math.prod(map(self.length, self.reading.size(parts[0])))

    def _place(self, parts, at, lead, held):
        place = parts[0]
        index = at[place]
        if not isinstance(index, tuple):
            return index  # the argument of a function
        if not index:
            return self.number(0)
        result = self.as_number(index[0])
        for size, one in zip(place.range.known[1:], index[1:]):
            result = result * self.length(size) + self.as_number(one)
        return result

    def as_number(self, one):
        return one

    def _add(self, parts, at, lead, held):
        return sum((self.value(t, at, lead, held) for t in parts[1:]), self.value(parts[0], at, lead, held))

    def _mul(self, parts, at, lead, held):
        return math.prod(
            (self.value(t, at, lead, held) for t in parts[1:]), start=self.value(parts[0], at, lead, held)
        )

    def _pow(self, parts, at, lead, held):
        return self.power(*(self.value(t, at, lead, held) for t in parts))

    def _function(self, parts, at, lead, held):
        return self.function(parts[0], self.value(parts[1], at, lead, held))

    def _extreme(self, parts, at, lead, held):
        return self.extreme(parts[0], [self.value(t, at, lead, held) for t in parts[1]])

    def _apply(self, parts, at, lead, held):
        name, order, argument = parts
        return self.apply(name, order, self.value(argument, at, lead, held))

    def _let(self, parts, at, lead, held):
        definition, order, arguments = parts
        values = [self.value(a, at, lead, held) for a in arguments]
        return self.defined(definition, order, values, lead, held)

    def _sum(self, parts, at, lead, held):
        place, body = parts
        if place.range.known is None:
            raise Unreadable(f"nothing says what the index {place} of a sum runs over")
        return self.over_all([place.range.known], lambda i: self.value(body, {**at, place: i}, lead, held))

    def _choose(self, parts, at, lead, held):
        (one,) = self.index(parts[0], at, lead, held)
        return self.choose(one, [lambda t=t: self.value(t, at, lead, held) for t in parts[1]])

    def _delta(self, parts, at, lead, held):
        a, b = (self.index(p, at, lead, held) for p in parts)
        if len(a) != len(b):
            raise Unreadable("δ of indices of different kinds")
        return math.prod((self.delta(x, y) for x, y in zip(a, b)), start=self.number(1))

    def _relation(self, parts, at, lead, held):
        sign, left, right = parts
        return self.relation(sign, self.value(left, at, lead, held), self.value(right, at, lead, held))

    def _held(self, parts, at, lead, held):
        return self.value(parts[1], at, lead, held | frozenset(parts[0]))

    def _label(self, parts, at, lead, held):
        return self.as_number(self.label(parts[0], self.flat(parts[1], at, lead, held), lead))

    def index(self, p, at, lead, held):
        """An index as the tuple of those of the sizes whose product its axis is."""
        if isinstance(p, Place):
            if not isinstance(at[p], tuple):
                raise Unreadable(f"{p} is a number, and no index")
            return at[p]
        if isinstance(p, int):
            return (self.literal(p),)
        if isinstance(p, Term):
            if p.kind == "label":
                return (self.label(p.parts[0], self.flat(p.parts[1], at, lead, held), lead),)
            if p.kind == "place":
                return self.index(p.parts[0], at, lead, held)
            return (self.shifted(self.value(p, at, lead, held)),)
        if p[0] == "last":  # odd or even, of an index of an axis such as 2I
            if p[1].range.known is None or p[1].range.known[-1] != 2:
                raise Unreadable(f"{p[1]} even: expected an axis such as 2I, for {p[1]}")
            return self.index(p[1], at, lead, held)[-1:]
        return tuple(i for part in p[1:] for i in self.index(part, at, lead, held))

    def flat(self, places, at, lead, held):
        return tuple(self.index(p, at, lead, held) for p in places)

    def _entry(self, parts, at, lead, held):
        name, places = parts
        return self.named(name, self.flat(places, at, lead, held), lead, held)

    def named(self, name, indices, lead, held):
        """The entry of a letter: of what defines it, unless it is held."""
        definition = self.reading.definitions.get(name)
        if definition is None or name in held:
            if definition is None:
                return self.free(name, self.led(name, indices, lead), held)
            return self.kept(name, (*lead, *indices), held)
        own = len(definition.places)
        whole = (*lead, *indices)
        if len(whole) < own:
            raise Unreadable(f"{name}: expected {own} indices, got {len(indices)}")
        return self.unfolded(definition, whole[: len(whole) - own], whole[len(whole) - own :], held)

    def led(self, name, indices, lead):
        """Indices with the leading ones before them, as far as the letter has axes for these."""
        more = min(len(lead), max(0, len(self.reading.array(name).axes) - len(indices)))
        return (*lead[len(lead) - more :], *indices)

    def bound(self, places, indices):
        at = {}
        for place, index in zip(places, indices):
            if isinstance(place, Place):
                at[place] = index
            else:  # the pair h K + c
                rest = list(index)
                if len(rest) != len(place) - 1:
                    raise Unreadable(f"no definition for {index}, which is no pair such as 2i + 1")
                for part in place[1:]:
                    if isinstance(part, Place):
                        at[part] = (rest.pop(0),)
                    elif rest.pop(0) != part:
                        raise Unreadable(f"no definition for {index}")
        return at

    def unfolded(self, definition, lead, indices, held):
        if definition.name in self.reading.recurrent and indices and indices[0] == (0,):
            return self.start(definition.name, lead, indices[1:], held)
        if definition.name in self.reading.recurrent and indices and (indices[0][0] < 0) is True:
            raise Unreadable(f"{definition.name} at step {indices[0][0]}, before its beginning")
        return self.value(definition.body, self.bound(definition.places, indices), lead, held)

    def start(self, name, lead, indices, held):
        """Where a sequence begins: the letter p_0 of a p_t."""
        first = f"{name}_0"
        if first not in self.reading.numbers and first not in self.reading.arrays:
            raise Unreadable(f"a sequence whose beginning {first} is not known")
        return self.named(first, indices, lead, held)

    def scalar_of_loss(self, depth, held):
        """The loss: what the page calls L, or Σ dy·y over all entries of the output."""
        reading = self.reading
        if reading.loss:
            return self.named(reading.loss, (), (), held)
        if reading.output is None:
            raise Unreadable("a gradient, and no output or loss is defined")
        name = reading.output
        own = (
            len(reading.definitions[name].places)
            if name in reading.definitions
            else len(reading.array(name).axes)
        )
        leads = reading.leads(name)
        axes = leads[max(0, len(leads) - depth) :] + (reading.array(name).axes[-own:] if own else ())
        return self.over_all(axes, lambda *i: self.upstream(name, i) * self.named(name, i, (), held))

    def target(self, t, at, lead, held):
        """The letter that a derivative is by, and the indices of its entry."""
        name, places = t.parts
        indices = (*lead, *self.flat(places, at, lead, held))
        if name not in self.reading.definitions:
            axes = len(self.reading.array(name).axes)
            indices = indices[-axes:] if axes else ()
        return name, indices

    def _gradient(self, parts, at, lead, held):
        name, places = parts
        indices = (*lead, *self.flat(places, at, lead, held))
        if name == self.reading.output and not self.reading.loss:
            return self.upstream(name, indices)
        return self.gradient(name, indices, held)


def depth_of(reading, *terms):
    """How many leading axes a claim is written with that the printed definitions leave out: 1 for x̂_tj."""
    deepest = 0
    for _, name, count in (e for t in terms for e in entries_of(t)):
        if name in reading.definitions:
            deepest = max(deepest, count - len(reading.definitions[name].places))
        else:
            used = used_with(reading, name)
            deepest = max(deepest, count - used if used is not None else 0)
    return deepest


def used_with(reading, name):
    """With how many indices the definitions use a free array: 1 for x_j, though x has axes T and D."""
    counts = {
        count
        for definition in reading.definitions.values()
        for kind, used, count in entries_of(definition.body)
        if used == name and kind == "entry"
    }
    return max(counts, default=None)


# ---------------------------------------------------------------------------------------------------- symbols


class Symbols(Walk):
    """For every size: expressions of `handgrad.sums`. opaque: definitions that stay letters of their own."""

    pi = sp.pi

    def __init__(self, reading, depth=0, opaque=frozenset()):
        super().__init__(reading, depth)
        self.opaque, self.lengths, self.templates = frozenset(opaque), {}, {}
        self.kinks = set()  # what has been differentiated and has no derivative everywhere, such as |x|

    def number(self, x):
        return sp.Rational(x.numerator, x.denominator) if hasattr(x, "numerator") else sp.Integer(x)

    def length(self, size):
        if isinstance(size, int):
            return sp.Integer(size)
        return self.lengths.setdefault(size, sp.Symbol(size, integer=True, positive=True))

    def literal(self, n):
        return sp.Integer(n)

    def power(self, base, exponent):
        return base**exponent

    def function(self, name, x):
        if name == "rint":
            raise Unprovable("rounding to integers")
        if name == "ln" and (deltas := _deltas(x)):  # ln(a + b δ) is ln(a + b) if δ = 1, ln a if δ = 0
            one, none = (self.function(name, x.xreplace({deltas[0]: sp.Integer(v)})) for v in (1, 0))
            return deltas[0] * one + (1 - deltas[0]) * none
        return getattr(sp, {"ln": "log", "abs": "Abs"}.get(name, name))(x)

    def extreme(self, name, values):
        return {"min": sp.Min, "max": sp.Max}[name](*values)

    def apply(self, name, order, x):
        if self.reading.numbers[name].kind == "logistic":
            u = sp.Dummy("u")
            return sp.diff(1 / (1 + sp.exp(-u)), u, order).subs(u, x)
        return unknown_function(name, order)(x)

    def defined(self, definition, order, values, lead, held):
        arguments = [sp.Dummy(p.name, real=True) for p in definition.places]
        body = self.value(definition.body, dict(zip(definition.places, arguments)), lead, held)
        new = dict(zip(arguments, values))
        if order:
            self.kinks |= {kink.xreplace(new) for kink in kinks(body, arguments[0])}
            body = sp.diff(body, arguments[0], order)
        return body.xreplace(new)

    def choose(self, one, values):
        if one.is_Integer:
            return values[int(one)]()
        return sum((KroneckerDelta(one, n) * v() for n, v in enumerate(values)), sp.S.Zero)

    def delta(self, a, b):
        if shifted := [i for i in (a, b) if not isinstance(i, (Index, sp.Integer, Indexed))]:
            raise Unprovable(f"δ of the index {shifted[0]}")
        return KroneckerDelta(a, b)

    def relation(self, sign, a, b):
        a, b = map(sp.sympify, (a, b))
        kinds = {"≤": sp.Le, "≥": sp.Ge, "<": sp.Lt, ">": sp.Gt}
        bare = [x.replace(sp.Sum, lambda *_: sp.Dummy(real=True)) for x in (a, b)]  # its indices are its own
        entries = {entry: sp.Dummy(real=True) for x in bare for entry in x.atoms(Indexed)}
        letters = set().union(*(x.xreplace(entries).free_symbols for x in bare))
        if sign not in kinds or not all(
            type(x) in (sp.Symbol, sp.Dummy) and x.is_real and not x.is_integer for x in letters
        ):
            raise Unprovable("a condition on indices, which sums of every size do not know")
        return sp.Piecewise((1, kinds[sign](a, b)), (0, True))

    def shifted(self, e):
        return sp.sympify(e)  # a definition may take any number; an array refuses it, see `symbol`

    def label(self, name, indices, lead):
        size = math.prod(map(self.length, self.reading.array(name).below))
        base = labels(name, size)
        flat = tuple(i for index in self.led(name, indices, lead) for i in index)
        return base[flat] if flat else Index(f"label {name}", size)

    def _prod(self, parts, at, lead, held):
        raise Unprovable("a product of every length")

    _only = _prod

    def _expect(self, parts, at, lead, held):
        """E[e] = e at the mean + ½ Σ variance · ∂²e: exact if no ∂²e by one entry holds the array."""
        e, found = sp.sympify(self.value(parts[0], at, lead, no_holding(held))), False
        for name, array in self.reading.random.items():
            ours = [a for a in e.atoms(Indexed, sp.Symbol) if self.symbol_is(a, name)]
            if not ours:
                continue
            found = True
            variance, mean = (self.value(t, {}) for t in array.below)
            lengths = [self.length(size) for axis in array.axes for size in axis]
            if {len(getattr(a, "indices", ())) for a in ours} != {len(lengths)}:
                raise Unreadable(f"an expectation over {name}, some of whose indices are left out")
            own, other = (
                tuple(Index(f"{mark} {name} {n}", length, -9) for n, length in enumerate(lengths))
                for mark in ("drawn", "other")
            )
            second = gradient(gradient(e, self.symbol(name, (own,))), self.symbol(name, (own,)))
            if any(self.symbol_is(a, name) for a in second.atoms(Indexed, sp.Symbol)):
                if not equal(gradient(second, self.symbol(name, (other,))), sp.S.Zero):
                    raise Unprovable(f"an expectation of more than squares of {name}")
            at_mean, second = (
                x.replace(lambda a, n=name: self.symbol_is(a, n), lambda a, m=mean: sp.sympify(m))
                for x in (e, second)
            )
            spread = second
            for place, length in reversed(list(zip(own, lengths))):
                spread = total(lambda i, s=spread, p=place: sp.sympify(s).xreplace({p: i}), length)
            e = at_mean + variance * spread / 2
        if not found:
            raise Unreadable("an expectation of what is not random")
        return e

    @staticmethod
    def symbol_is(atom, name):
        """Whether an atom is an entry of this array."""
        if isinstance(atom, Indexed):
            return str(atom.base.label) == name
        return atom == sp.Symbol(name, real=True)

    def over_all(self, axes, f):
        sizes = [self.length(size) for axis in axes for size in axis]

        def nested(index):
            if len(index) == len(sizes):
                rest = iter(index)
                return f(*(tuple(itertools.islice(rest, len(axis))) for axis in axes))
            size = sizes[len(index)]
            if size.is_Integer:
                return sum((nested((*index, sp.Integer(n))) for n in range(size)), sp.S.Zero)
            return total(lambda i: nested((*index, i)), size)

        return nested(())

    def symbol(self, name, indices, positive=False):
        flat = tuple(i for index in indices for i in index)
        if shifted := [i for i in flat if not isinstance(i, (Index, sp.Integer, Indexed))]:
            raise Unprovable(f"the index {shifted[0]} of {name}")
        if flat:
            return IndexedBase(sp.Symbol(name, positive=True) if positive else name)[flat]
        return sp.Symbol(name, positive=True) if positive else sp.Symbol(name, real=True)

    def free(self, name, indices, held):
        array = self.reading.array(name)
        if array.kind == "distribution":
            *rest, last = indices
            raw = "weight of " + name
            (size,) = array.axes[-1]
            every = total(lambda k: self.symbol(raw, (*rest, (k,)), True), self.length(size))
            return self.symbol(raw, indices, True) / every
        return self.symbol(
            name, indices, array.kind == "positive" or array.kind == "within" and array.below[:2] == "(0"
        )

    def kept(self, name, indices, held):
        return self.symbol(name, indices)

    def upstream(self, name, indices):
        return self.symbol("d" + name, indices)

    def unfolded(self, definition, lead, indices, held):
        if definition.name in self.opaque:
            return self.symbol(definition.name, (*lead, *indices))
        return super().unfolded(definition, lead, indices, held)

    def by(self, scalar, name, indices, held):
        """The derivative by an entry that was held, which then becomes its definition again."""
        entry = (
            self.kept(name, indices, held)
            if name in self.reading.definitions
            else self.free(name, indices, held)
        )
        if entry.is_number or not isinstance(entry, (Indexed, sp.Symbol)):
            raise Unprovable(f"a derivative by {name}, which is no letter of its own")
        scalar = sp.sympify(scalar)
        base = entry.base if isinstance(entry, Indexed) else entry
        if not scalar.has(base):
            raise Unreadable(f"a derivative by {name} of something in which it does not occur")
        self.kinks |= {self.back(kink, name, len(indices), held) for kink in kinks(scalar, base)}
        return self.back(gradient(scalar, entry), name, len(indices), held)

    def back(self, e, name, axes, held):
        if name not in self.reading.definitions or name in held:
            return e
        groups = [len(a) for a in self.axes_of(name, axes)]

        def unfold(atom):
            flat = list(atom.indices) if isinstance(atom, Indexed) else []
            indices = []
            for n in groups:
                indices.append(tuple(flat[:n]))
                flat = flat[n:]
            return self.named(name, tuple(indices), (), held)

        def match(a):
            return (
                isinstance(a, Indexed) and a.base.label == sp.Symbol(name) or a == sp.Symbol(name, real=True)
            )

        return e.replace(match, unfold)

    def axes_of(self, name, count):
        reading = self.reading
        axes = reading.array(name).axes
        if count > len(axes):
            axes = (*reading.leading(name, count - len(axes)), *axes)
        return axes[len(axes) - count :]

    def _held(self, parts, at, lead, held):
        names, inner = parts
        e = self.value(inner, at, lead, held | frozenset(names))
        for name in names:
            e = self.back(e, name, len(self.reading.definitions[name].places), held)
        return e

    def gradient(self, name, indices, held):
        key = name, len(indices), held
        if key not in self.templates:
            axes = self.axes_of(name, len(indices))
            template = tuple(
                tuple(Index(f"at {n} {m}", self.length(size), -9) for m, size in enumerate(axis))
                for n, axis in enumerate(axes)
            )
            loss = self.scalar_of_loss(self.depth, held | {name})
            self.templates[key] = template, self.by(loss, name, template, held)
        template, e = self.templates[key]
        return e.xreplace({a: b for t, i in zip(template, indices) for a, b in zip(t, i)})

    def _partial(self, parts, at, lead, held):
        inner, target = parts
        name, indices = self.target(target, at, lead, held)
        scalar = self.value(inner, at, lead, held | {name})
        return self.by(scalar, name, indices, held)


def kinks(e, letter):
    """The parts of an expression that hold a letter and have no derivative everywhere, such as |x|."""

    def turns(a):
        conditions = [where for _, where in a.args] if isinstance(a, sp.Piecewise) else a.args
        return any(part.has(letter) for part in conditions)

    return set(filter(turns, sp.sympify(e).atoms(sp.Max, sp.Min, sp.Abs, sp.sign, sp.Piecewise)))


def of_indices(t, at):
    """Whether a condition is one on indices and numbers alone, so that it never changes with an argument."""
    if isinstance(t, Place):
        return isinstance(at.get(t), tuple)
    if isinstance(t, Term):
        kinds = ("relation", "number", "size", "place", "add", "mul")
        return t.kind in kinds and all(of_indices(p, at) for p in t.parts)
    return True


def no_holding(held):
    if held:
        raise Unreadable("an expectation with letters held")
    return held


def random_in(reading, t, seen=()):
    """The arrays with a law that a Term depends on, through the definitions."""
    found = set()
    for kind, name, _ in entries_of(t):
        if kind == "gradient":
            return set(reading.random)
        if name in reading.random:
            found.add(name)
        elif name in reading.definitions and name not in seen:
            found |= random_in(reading, reading.definitions[name].body, (*seen, name))
    return found


def _deltas(x):
    """The δ in a formula, outside of its sums; [] if one stands inside a sum."""
    x = sp.sympify(x)
    if any(total.has(KroneckerDelta) for total in x.atoms(sp.Sum)):
        return []
    return sorted(x.atoms(KroneckerDelta), key=str)


class Unprovable(Unreadable):
    """A formula that is read, and of which sums of every size cannot say anything."""


_UNKNOWN = {}


def unknown_function(name, order):
    """A function of which nothing is known but its derivatives, each a function of its own."""
    if (name, order) not in _UNKNOWN:
        _UNKNOWN[name, order] = type(
            name + "_prime" * order,
            (sp.Function,),
            {
                "fdiff": lambda self, argindex=1: unknown_function(name, order + 1)(*self.args),
                "is_real": True,
            },
        )
    return _UNKNOWN[name, order]


def with_examples(e):
    """An expression with an example in the place of each unknown function, so that it has numbers."""
    u, names = sp.Dummy("u"), list(dict.fromkeys(name for name, _ in _UNKNOWN))
    for (name, order), unknown in list(_UNKNOWN.items()):
        if not e.has(unknown):
            continue
        n = names.index(name)
        example = sp.tanh((1 + sp.Rational(n + 1, 10)) * u) + u**2 * sp.Rational(n + 3, 10)
        e = e.replace(unknown, lambda x, example=example, order=order: sp.diff(example, u, order).subs(u, x))
    return e


# ---------------------------------------------------------------------------------------------------- numbers


def draw(reading, rng, small=False, wide=False, equal=None):
    """Sizes and values for all free letters, {size: int} and {name: array}.

    Sizes are all different, unless they are asked to be small, or equal to a number; wide: each letter has a
    scale of its own, from 1/30 to 30.
    """
    atoms = sorted({s for sizes in reading.sizes.values() for s in sizes if isinstance(s, str)})
    least = 3 if len(atoms) < 4 else 2  # of two numbers too much is true
    spread = rng.permutation(np.arange(least, max(4, len(atoms)) + 2))
    sizes = {name: equal or int(2 + n % 2 if small else n) for name, n in zip(atoms, spread)}
    for name, product in reading.sizes.items():  # where F = 4D, arrays have axes of length F
        if name not in sizes:
            sizes[name] = math.prod(sizes.get(s, s) for s in product)

    def length(axis):
        return math.prod(sizes.get(s, s) for s in axis)

    values = {}
    for name, array in [*reading.numbers.items(), *reading.arrays.items()]:
        if name in reading.definitions or array.kind in ("function", "logistic"):
            continue
        shape = tuple(sizes.get(s, s) for axis in array.axes for s in axis)
        if array.kind == "label":
            values[name] = rng.integers(length(array.below), size=shape)
        elif array.kind == "within":
            values[name] = drawn_within(array.below, rng, shape)
        elif array.kind in ("positive", "distribution"):
            values[name] = np.asarray(rng.uniform(0.4, 1.6, size=shape))
            if array.kind == "distribution":
                values[name] /= values[name].sum(axis=-1, keepdims=True)
        else:
            values[name] = np.asarray(rng.standard_normal(shape))
        if wide and array.kind in ("array", "positive"):
            values[name] = values[name] * 30 ** rng.uniform(-1, 1)
    return sizes, values


def drawn_within(text, rng, shape):
    """Numbers of an interval such as (0, 1), or of a set such as {0, 1}."""
    ends = [float(part) for part in text.strip("()[]{} ").split(",")]
    if text.strip().startswith("{"):
        return rng.choice(ends, size=shape)
    low, high = ends
    return rng.uniform(low + 0.05 * (high - low), high - 0.05 * (high - low), size=shape)


def plain(x):
    """A number of torch, or another, as a float."""
    return float(x.detach() if hasattr(x, "detach") else x)


class Numbers(Walk):
    """With numbers in float64: every index is an int, every sum a loop; derivatives are for `Torch`."""

    def __init__(self, reading, sizes, values, depth=0, upstream=None):
        super().__init__(reading, depth)
        self.sizes, self.given, self.arrived = sizes, values, upstream or {}
        self.leaves = {name: np.asarray(value, dtype=float) for name, value in values.items()}
        self.pi = self.number(math.pi)
        self.upstreams = {}
        self.cases = {}  # {a minimum, a condition on numbers, |x|: which of its cases have come up}

    def number_of(self, t, at=MappingProxyType({})):
        """A Term as a float, NaN where it is divided by 0; at: as in `value`."""
        with np.errstate(all="ignore"):
            try:
                return plain(self.value(t, at))
            except ZeroDivisionError:
                return math.nan

    def number(self, x):
        return np.float64(x)

    def extreme(self, name, values):
        return getattr(np, name)(values)

    def power(self, base, exponent):
        return np.float64(base) ** exponent

    def function(self, name, x):
        name = {"ln": "log"}.get(name, name)
        return getattr(np, name)(x) if hasattr(np, name) else getattr(math, name)(x)

    def apply(self, name, order, x):
        raise Unreadable(f"the function {name} has no formula here")

    def defined(self, definition, order, values, lead, held):
        if order:
            raise Unreadable(f"the slope of the function {definition.name}")
        return self.value(definition.body, dict(zip(definition.places, values)), lead, held)

    def replaced(self, name, values):
        return type(self)(self.reading, self.sizes, {**self.given, name: values}, self.depth)

    def free(self, name, indices, held):
        return self.leaves[name][self.whole(name, indices)]

    def kept(self, name, indices, held):
        return self.node(name, indices, held - {name})

    def node(self, name, indices, held):
        """The number of an entry, computed once."""
        key = name, indices
        if key not in self.memo:
            definition = self.reading.definitions[name]
            split = len(indices) - len(definition.places)
            self.memo[key] = self.unfolded(definition, indices[:split], indices[split:], held)
        return self.memo[key]

    def _extreme(self, parts, at, lead, held):
        name, terms = parts
        values = [plain(self.value(t, at, lead, held)) for t in terms]
        self.cases.setdefault(Term("extreme", parts), set()).add(
            values.index({"min": min, "max": max}[name](values))
        )
        return super()._extreme(parts, at, lead, held)

    def _function(self, parts, at, lead, held):
        if parts[0] in ("abs", "sign"):
            positive = plain(self.value(parts[1], at, lead, held)) > 0
            self.cases.setdefault(Term("function", parts), set()).add(positive)
        return super()._function(parts, at, lead, held)

    def length(self, size):
        return self.sizes.get(size, size)

    def literal(self, n):
        return n

    def shifted(self, x):
        x = plain(x)
        n = round(x)
        if abs(x - n) > 1e-9:
            raise Unreadable(f"an index that is no integer: {x}")
        return n

    def choose(self, one, values):
        return values[one]()

    def delta(self, a, b):
        return self.number(int(a == b))

    def _relation(self, parts, at, lead, held):
        sign, left, right = parts
        if sign not in ("from", "up to"):
            value = super()._relation(parts, at, lead, held)
            here = Term("relation", parts)
            if not of_indices(here, at):
                self.cases.setdefault(here, set()).add(bool(value))
            return value
        place, last = left.parts[0], self.value(right, at, lead, held)
        if sign == "from":
            if last < 1 and place.range.known == STEPS:
                raise Unreadable(f"a sum over {place} from {last}, and steps begin at 1")
            return self.relation("≥", self.value(left, at, lead, held), last)
        size = math.prod(map(self.length, place.range.known))
        if last >= size and place.range.known != STEPS:  # steps count from 1
            raise Unreadable(f"the index {place} of a sum goes up to {last}, its axis has {size}")
        return self.relation("≤", self.value(left, at, lead, held), last)

    def relation(self, sign, a, b):
        a, b = plain(a), plain(b)
        holds = {"=": a == b, "≠": a != b, "≤": a <= b, "≥": a >= b, "<": a < b, ">": a > b}
        if sign not in holds:
            raise Unreadable(f"a condition with {sign}")
        return self.number(int(holds[sign]))

    def _mul(self, parts, at, lead, held):
        """A term whose condition on indices does not hold is left out, whatever it would be, such as ln 0;
        so is one with a gradient from beyond the last step."""
        for t in parts:
            if t.kind == "relation" and of_indices(t, at) and self.value(t, at, lead, held) == 0:
                return self.number(0)
            if t.kind in ("gradient", "partial"):
                by = t.parts if t.kind == "gradient" else t.parts[1].parts
                if self.is_beyond(*by, at, lead, held):
                    return self.number(0)
        return super()._mul(parts, at, lead, held)

    def is_beyond(self, name, places, at, lead, held):
        """Whether these indices are those of a step behind the last."""
        with_steps = self.reading.array(name).axes[:1] == (STEPS,)
        return with_steps and self.flat(places, at, lead, held)[0][0] > self.sizes["steps"]

    def label(self, name, indices, lead):
        axes, indices = len(self.reading.array(name).axes), self.led(name, indices, lead)
        if axes > len(indices):
            raise Unreadable(f"the label {name} with {len(indices)} indices, of {axes}")
        return int(self.given[name][self.whole(name, indices)])

    def whole(self, name, indices):
        """The place of an entry in the array; leading axes that are left out stand at 0."""
        flat = tuple(i for index in indices for i in index)
        flat = (0,) * (self.given[name].ndim - len(flat)) + flat
        sizes = [s for axis in self.reading.array(name).axes for s in axis]
        found = self.from_0(name, flat)
        for i, length, size in zip(found, self.given[name].shape, sizes):
            if i < 0 and size in STEPS:
                raise Unreadable(f"{name} at step {i + 1}, and steps begin at 1")
            if not 0 <= i < length:
                raise Unreadable(f"{name} at {i}, on an axis of length {length}")
        return found

    def from_0(self, name, flat):
        """Indices as NumPy counts them: those of a step begin at 1."""
        sizes = [s for axis in self.reading.array(name).axes for s in axis]
        leading = [None] * (len(flat) - len(sizes))
        return tuple(i - (size in STEPS) for i, size in zip(flat, leading + sizes))

    def run(self, size):
        """The values of an index: those of a step begin at 1."""
        return range(size in STEPS, self.length(size) + (size in STEPS))

    def every(self, range_):
        if range_.known is None:
            raise Unreadable("nothing says what an index of a sum runs over")
        return itertools.product(*map(self.run, range_.known))

    def _prod(self, parts, at, lead, held):
        place, body = parts
        terms = [self.value(body, {**at, place: index}, lead, held) for index in self.every(place.range)]
        return math.prod(terms[1:], start=terms[0])

    def _only(self, parts, at, lead, held):
        """A factor where its conditions hold, 1 where they do not."""
        holds = all(self.value(condition, at, lead, held) != 0 for condition in parts[1])
        return self.value(parts[0], at, lead, held) if holds else self.number(1)

    def _expect(self, parts, at, lead, held):
        names = sorted(random_in(self.reading, parts[0]))
        if not names:
            raise Unreadable("an expectation of what is not random")
        return self.averaged(names, lambda walk: walk.value(parts[0], at, lead, no_holding(held)))

    def averaged(self, names, f):
        """The mean of f(walk) over these arrays: at the mean + ½ variance · second difference, exact for
        squares. Four values on a line show that there is no more than squares."""
        if not names:
            return f(self)
        variance, mean = (self.value(t, {}) for t in self.reading.random[names[0]].below)
        middle = np.full(self.given[names[0]].shape, mean.item() if hasattr(mean, "item") else mean)

        def value(values):
            return self.replaced(names[0], values).averaged(names[1:], f)

        towards = np.random.default_rng(len(names)).standard_normal(middle.shape)
        line = [value(middle + n * towards) for n in range(4)]
        if abs(line[3] - 3 * line[2] + 3 * line[1] - line[0]) > 1e-9 * max(map(abs, line)):
            raise Unreadable(f"an expectation of more than squares of {names[0]}")
        result = line[0]
        for at in np.ndindex(middle.shape):
            step = np.zeros(middle.shape)
            step[at] = 1
            result = result + variance * (value(middle + step) + value(middle - step) - 2 * line[0]) / 2
        return result

    def over_all(self, axes, f):
        places = [list(itertools.product(*map(self.run, axis))) for axis in axes]
        terms = [f(*index) for index in itertools.product(*places)]
        return sum(terms[1:], terms[0])

    def unfolded(self, definition, lead, indices, held):
        last = self.sizes.get("steps", math.inf)
        if definition.name in self.reading.recurrent and indices and indices[0][0] > last + 1:
            raise Unreadable(f"{definition.name} at step {indices[0][0]}, and there are {last}")
        return super().unfolded(definition, lead, indices, held)

    def upstream(self, name, indices):
        key = name, indices
        if name in self.arrived:
            return self.number(self.arrived[name][self.from_0(name, [i for index in indices for i in index])])
        if key not in self.upstreams:
            seed = [ord(c) for c in name] + [i + 1 for index in indices for i in index]
            self.upstreams[key] = self.number(np.random.default_rng(seed).standard_normal())
        return self.upstreams[key]

    def as_number(self, one):
        return self.number(one)

    def named(self, name, indices, lead, held):
        if name in self.reading.definitions:
            return self.node(name, (*lead, *indices), held)
        return super().named(name, indices, lead, held)


class Torch(Numbers):
    """Numbers of torch, with derivatives: torch.autograd's, of what was computed."""

    def __init__(self, reading, sizes, values, depth=0, upstream=None):
        import torch

        self.torch = torch
        super().__init__(reading, sizes, values, depth, upstream)
        self.leaves = {
            name: torch.tensor(leaf, dtype=torch.float64, requires_grad=True)
            for name, leaf in self.leaves.items()
        }

    def _gradient(self, parts, at, lead, held):
        name, places = parts
        indices = (*lead, *self.flat(places, at, lead, held))
        if name == self.reading.output and not self.reading.loss:
            return self.upstream(name, indices)
        key = "d", name, indices, held
        if key not in self.memo:
            self.memo[key] = self.by(self.loss, name, indices, held)
        return self.memo[key]

    @staticmethod
    def loss(walk, held):
        """The loss as this walk computes it, once."""
        key = "loss", held
        if key not in walk.memo:
            walk.memo[key] = walk.scalar_of_loss(walk.depth, held)
        return walk.memo[key]

    def _partial(self, parts, at, lead, held):
        inner, target = parts
        name, indices = self.target(target, at, lead, held)
        return self.by(lambda walk, kept: walk.value(inner, at, lead, kept), name, indices, held)

    def replaced(self, name, values):
        walk = super().replaced(name, values)
        walk.leaves = {**self.leaves, name: walk.leaves[name]}
        return walk

    def number(self, x):
        return self.torch.tensor(float(x), dtype=self.torch.float64)

    def extreme(self, name, values):
        values = [v if hasattr(v, "dtype") else self.number(v) for v in values]
        return getattr(self.torch.stack(values), name)()

    def power(self, base, exponent):
        base, exponent = (x if hasattr(x, "dtype") else self.number(x) for x in (base, exponent))
        if not exponent.requires_grad and float(exponent).is_integer():
            return base ** int(exponent)
        return base**exponent

    def function(self, name, x):
        x = x if hasattr(x, "dtype") else self.number(x)
        return getattr(self.torch, {"ln": "log", "rint": "round"}.get(name, name))(x)

    def apply(self, name, order, x):
        torch = self.torch
        if not x.requires_grad:
            x = x.clone().requires_grad_()
        if self.reading.numbers[name].kind == "logistic":
            y = torch.sigmoid(x)
        else:
            seed = sum(map(ord, name)) % 7 / 7
            y = torch.tanh((1.1 + seed) * x) + (0.3 + seed) * x * x
        for _ in range(order):
            (y,) = torch.autograd.grad(y, x, create_graph=True)
        return y

    def defined(self, definition, order, values, lead, held):
        values = [v if hasattr(v, "dtype") else self.number(v) for v in values]
        if order:
            values[0] = values[0] if values[0].requires_grad else values[0].clone().requires_grad_()
            below, here, above = (
                self.defined(definition, 0, [values[0] + h, *values[1:]], lead, held).detach().item()
                for h in (-1e-6, 0, 1e-6)
            )
            if abs(above - 2 * here + below) > 1e-8 * max(1, abs(here)):
                return self.number(math.nan)  # a kink: the slopes beside it differ by more than 0.01
        y = self.value(definition.body, dict(zip(definition.places, values)), lead, held)
        for _ in range(order):
            if not y.requires_grad:
                return self.number(0)  # where it is constant, as relu is below 0
            (y,) = self.torch.autograd.grad(y, values[0], create_graph=True, allow_unused=True)
            y = self.number(0) if y is None else y
        return y

    def node(self, name, indices, held):
        """The number of an entry, computed once, so that one can ask for derivatives by it."""
        key = name, indices, held
        if key not in self.memo:
            definition = self.reading.definitions[name]
            own = len(definition.places)
            split = len(indices) - own
            if name in held:
                value = self.node(name, indices, held - {name}).detach().clone().requires_grad_()
            else:
                value = self.unfolded(definition, indices[:split], indices[split:], held)
                value = value if hasattr(value, "dtype") else self.number(value)
                if not value.requires_grad:
                    value = value.clone().requires_grad_()
            self.memo[key] = value
        return self.memo[key]

    def by(self, scalar, name, indices, held):
        value = scalar(self, held)
        value = value if hasattr(value, "dtype") else self.number(value)
        if name in self.reading.definitions:
            source, at = self.node(name, indices, held), ()
        else:
            source, at = self.leaves[name], self.whole(name, indices)
        if not value.requires_grad:
            return self.number(0)
        (g,) = self.torch.autograd.grad(
            value, source, retain_graph=True, create_graph=True, allow_unused=True
        )
        return self.number(0) if g is None else g[at] if at else g


def in_numbers(reading, sizes, values, terms=(), depth=0, upstream=None):
    """The walk that gives these terms numbers: with torch only where a derivative may come up."""
    told = *terms, *(definition.body for definition in reading.definitions.values())
    walk = Torch if upstream is not None or has_kind(told, *DERIVATIVES, "apply", "let") else Numbers
    return walk(reading, sizes, values, depth, upstream)
