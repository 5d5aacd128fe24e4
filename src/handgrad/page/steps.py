r"""Sequences over steps t = 1, 2, …: recurrences, sums from 1 to t, and proofs by induction.

A letter that its own definition uses at an earlier step, such as p_t = p_{t−1} − η g_t, is kept as a
letter at each step, and so is the part of a sum Σ_{i=1}^t that does not contain t, of which the step t
adds one term. A claim about a step t is proved by opening the letters of this step once, or by
induction: it holds at t = 1, and if it gives the value of one of its letters at t − 1, it holds at t.

A gradient runs the other way. dh_t of an h_t that h_{t+1} is made of is kept as a letter too, and opened by
the chain rule: a sum over all letters made of h_t of their gradient times their slope. Beyond the last step
gradients are 0. The gradient by a letter that every step uses is a sum over all steps; two such sums are
equal if their terms are.
"""

import itertools
import math

import sympy as sp
from sympy import Indexed, IndexedBase

from ..sums import NotProved
from .algebras import Symbols, Unprovable, depth_of
from .meaning import STEPS, UNIT, Place, Term, term, times
from .reading import names_in
from .tree import Unreadable


def has_steps(reading, t):
    """Whether a Term speaks of steps: by an index, or by a letter that has a value at each."""
    if isinstance(t, Place):
        return t.range.known == STEPS
    if isinstance(t, Term) and t.kind == "let":
        return any(has_steps(reading, x) for x in t.parts[2])
    if isinstance(t, Term) and t.kind in ("entry", "gradient"):
        if STEPS in reading.array(t.parts[0]).axes:
            return True
    if isinstance(t, tuple):
        return any(has_steps(reading, x) for x in t)
    return False


class Steps(Symbols):
    """With symbols, of which those of a sequence stay letters, step by step."""

    def __init__(self, reading, depth=0):
        super().__init__(reading, depth)
        self.runs, self.nested, self.steps = {}, 0, set()

    def shifted(self, e):
        return sp.expand(e)

    def symbol(self, name, indices, positive=False):
        flat = tuple(i for index in indices for i in index)
        if flat and flat[0].is_Integer and flat[0] < 1:
            of = name.removeprefix(OF_LOSS)
            array = self.reading.array(self.reading.output if of == f"d{self.reading.output}" else of)
            if array.axes[:1] == (STEPS,) and (flat[0] < 0 or of not in self.reading.recurrent):
                raise Unreadable(f"{name} at step {flat[0]}, and steps begin at 1")
        letter = sp.Symbol(name, positive=True) if positive else sp.Symbol(name, real=True)
        return IndexedBase(letter)[flat] if flat else letter

    def unfolded(self, definition, lead, indices, held):
        if definition.name in self.reading.recurrent and indices[0] != (0,):
            array = self.reading.array(definition.name)
            return self.symbol(definition.name, (*lead, *indices), array.kind == "positive")
        return super().unfolded(definition, lead, indices, held)

    def _sum(self, parts, at, lead, held):
        place, body = parts
        if place.range.known != STEPS:
            return super()._sum(parts, at, lead, held)
        here, last, factors = term("place", place), None, []
        for factor in body.parts if body.kind == "mul" else (body,):
            if factor.kind == "relation" and factor.parts[:2] == ("up to", here) and last is None:
                last = self.value(factor.parts[2], at, lead, held)
            elif factor != term("relation", "from", here, UNIT):  # all steps are ≥ 1
                factors.append(factor)
        if last is None:
            return sp.Sum(self.value(times(*factors), {**at, place: (EVERY,)}, lead, held), (EVERY, 1, LAST))
        i = sp.Symbol(f"step {self.nested}", integer=True, positive=True)
        self.nested += 1
        e = self.value(times(*factors), {**at, place: (i,)}, lead, held)
        self.nested -= 1
        if last.is_Integer:
            return sum((e.subs(i, n) for n in range(1, int(last) + 1)), sp.S.Zero)
        outside, e = powers_apart(e).as_independent(i, as_Add=False)
        return outside * sp.Add(*(self.run(t, i, last) for t in sp.Add.make_args(flattened(e))))

    def run(self, t, i, last):
        """The sum of t for i from 1 to last: what does not contain i, times a letter for the rest."""
        outside, inside = t.as_independent(i, as_Add=False)
        if inside.free_symbols & self.steps:
            raise Unprovable(f"a sum whose terms {inside} do not fall apart into their step and the last")
        rest = sp.Lambda(i, sp.powsimp(inside))
        name = self.runs.setdefault(rest, f"run {len(self.runs)}")
        return outside * IndexedBase(sp.Symbol(name, real=True))[last]

    # ---- opening the letters of a step

    def rule(self, atom):
        """What a letter of a sequence is at its step, from those before; None for another."""
        name, step = atom.base.label.name, atom.indices[0]
        if name.startswith(OF_LOSS):
            return self.chained(name.removeprefix(OF_LOSS), step, atom.indices[1:])
        for rest, known in self.runs.items():
            if known == name:
                before = 0 if step == 1 else atom.base[sp.expand(step - 1)]
                return sp.S.Zero if step == 0 else before + rest(step)
        if name not in self.reading.definitions:
            return None
        definition = self.reading.definitions[name]
        indices = tuple((index,) for index in atom.indices)
        if step == 0:
            return super().unfolded(definition, (), indices, frozenset())
        return self.value(definition.body, self.bound(definition.places, indices))

    def opened(self, e, first):
        """e, with all letters of the step `first` and of later ones made of those of earlier steps.

        All gradients up to the last one in it are made of those of later steps.
        """
        e = sp.sympify(e)
        ahead = [sp.expand(a.indices[0] - first) for a in e.atoms(Indexed) if is_of_loss(a)]
        if not all(n.is_Integer for n in ahead):
            raise Unprovable("gradients at steps of which nothing says how far they are apart")
        last = first + max(ahead, default=0)
        for _ in range(100):
            found = {}
            for atom in e.atoms(Indexed):
                later, name = sp.expand(atom.indices[0] - first), atom.base.label.name
                if is_of_loss(atom):
                    later = sp.expand(last - atom.indices[0])
                elif name in self.reading.definitions and name not in self.reading.recurrent:
                    later = sp.S.Zero
                if later.is_nonnegative and (value := self.rule(atom)) is not None:
                    found[atom] = value
            if not found:
                return e
            e = e.xreplace(found)
        raise Unprovable("a recurrence that does not end")

    def by(self, scalar, name, indices, held):
        if name in self.reading.definitions:
            raise Unprovable(f"a derivative by {name}, which is defined")
        entry, letter = self.free(name, indices, held), sp.Dummy(real=True)
        if not isinstance(entry, (Indexed, sp.Symbol)):
            raise Unprovable(f"a derivative by {name}, which is no letter of its own")
        scalar = self.opened(scalar, indices[0][0]) if indices else sp.sympify(scalar)
        if not scalar.has(entry):
            raise Unreadable(f"a derivative by {name} of something in which it does not occur")
        return scalar.xreplace({entry: letter}).diff(letter).xreplace({letter: entry})

    def _partial(self, parts, at, lead, held):
        if parts[0] == term("entry", self.reading.loss, ()):
            return self.gradient(*self.target(parts[1], at, lead, held), held)
        return super()._partial(parts, at, lead, held)

    def gradient(self, name, indices, held):
        reading = self.reading
        if not reading.loss and (
            reading.output in reading.recurrent or STEPS not in reading.array(reading.output).axes
        ):
            raise Unprovable(
                "a gradient through steps, and no output: write it as a letter of its own, y_t = h_t"
            )
        whole = name.removesuffix("_0")
        if whole != name and whole in reading.recurrent:
            name, indices = whole, ((sp.S.Zero,), *indices)
        if STEPS in reading.array(name).axes:
            return self.symbol(OF_LOSS + name, indices)
        entry = tuple(i for index in indices for i in index)
        return sp.Sum(self.chained(name, EVERY, entry, shared=True), (EVERY, 1, LAST))

    def chained(self, name, step, rest, shared=False):
        """The gradient by a letter at a step, from those of the letters that are made of it.

        rest: its other indices; shared: of a letter without steps, what this step adds.
        """
        found, kind = sp.S.Zero, sp.Symbol if shared and not rest else Indexed
        for made, e, arrives in self.made_of(name):
            for atom in (a for a in e.atoms(kind) if name_of(a) == name):
                own = getattr(atom, "indices", ())
                back = sp.S.Zero if shared else sp.expand(HERE - own[0])  # so many steps before
                if not back.is_Integer or back < 0:
                    raise Unprovable(f"a gradient through {made}, made of {name} at a later step")
                if own[not shared :] == rest and (step + back).is_positive:  # there is no y_0
                    letter = sp.Dummy(real=True)
                    slope = e.xreplace({atom: letter}).diff(letter).xreplace({letter: atom})
                    found += (slope * arrives).subs(HERE, step + back)
        return found

    def made_of(self, name):
        """What a letter is used in: (name, value at the step `HERE`, the gradient by it)."""
        reading = self.reading
        for made, definition in reading.definitions.items():
            if name not in names_in(definition.body):
                continue
            axes = reading.array(made).axes
            if made == reading.loss:
                outside, inside = sums_in_one(self.closed(definition, ()))
                if name in {*map(name_of, outside.atoms(Indexed, sp.Symbol))}:
                    raise Unprovable(
                        f"a gradient by {name} of a loss that holds it outside of its sum over steps"
                    )
                yield made, inside.subs(EVERY, HERE), sp.S.One
                continue
            if axes[:1] != (STEPS,) or not all(isinstance(n, int) for axis in axes[1:] for n in axis):
                raise Unprovable(f"a gradient through {made}, which is no number at each step")
            for others in itertools.product(*(range(math.prod(axis)) for axis in axes[1:])):
                indices = ((HERE,), *((sp.Integer(n),) for n in others))
                e = self.closed(definition, indices)
                if e.has(sp.Sum) or {*map(name_of, e.atoms(Indexed))} & {*self.runs.values()}:
                    raise Unprovable(f"a gradient through {made}, a sum over steps")
                yield made, e, (self.upstream if made == reading.output else self.of_loss)(made, indices)

    def of_loss(self, name, indices):
        return self.gradient(name, indices, frozenset())

    def closed(self, definition, indices):
        """What a definition says at a step, with letters of steps for those that it is made of."""
        reading, before = self.reading, self.opaque
        self.opaque = frozenset(n for n in reading.definitions if STEPS in reading.array(n).axes)
        e = sp.sympify(self.value(definition.body, self.bound(definition.places, indices)))
        self.opaque = before
        return e


HERE, EVERY = (sp.Symbol(name, integer=True, positive=True) for name in ("here", "step"))
LAST = sp.Symbol("steps", integer=True, positive=True)
OF_LOSS = "∂L/∂"
"""Before the name of a letter: the gradient by it."""


def name_of(atom):
    """The name of a letter, or of the array of an entry."""
    return atom.base.label.name if isinstance(atom, Indexed) else atom.name


def is_of_loss(atom):
    return name_of(atom).startswith(OF_LOSS)


def sums_in_one(e):
    """What is outside of all sums over every step, and the term of their sum."""
    e = sp.sympify(e)
    terms = [t.as_independent(sp.Sum, as_Add=False) for t in sp.Add.make_args(e)]
    sums = [(factor, total) for factor, total in terms if isinstance(total, sp.Sum)]
    if any(total.function.has(sp.Sum) for _, total in sums):
        raise Unprovable("a sum over steps within another")
    outside = e - sp.Add(*(factor * total for factor, total in sums))
    return outside, sp.Add(*(factor * total.function for factor, total in sums))


def powers_apart(e):
    """Powers of sums of exponents, and of products, as products of powers; 0 as a base is a limit."""
    e = sp.expand_power_base(sp.sympify(e)).replace(
        lambda x: x.is_Pow and sp.expand(x.exp).is_Add,
        lambda x: sp.Mul(*(x.base**part for part in sp.expand(x.exp).args)),
    )
    return sp.expand_power_base(e)


def flattened(e):
    """The same, and products multiplied out."""
    return powers_apart(sp.expand(powers_apart(e)))


def differs(e):
    """Whether e is plainly not 0 for some numbers: a refutation, found before anything is simplified."""
    letters = sorted(e.atoms(Indexed), key=str)
    e = e.xreplace({a: sp.Rational(2 * n + 3, 2 * n + 8) for n, a in enumerate(letters)})
    rest = sorted(e.free_symbols, key=str)
    numbers = {a: sp.Integer(3) if a.is_integer else sp.Rational(n + 2, n + 5) for n, a in enumerate(rest)}
    value = e.xreplace(numbers).evalf(30)
    return bool(value.is_Number and value.is_finite and abs(value) > 1e-12)


def is_zero(e, reading):
    """Whether e is 0, as a function of its letters, roots and powers.

    A letter in (0, 1) is 1/(1 + a positive one), if that is needed.
    """
    e = sp.sympify(e).replace(sp.sign, lambda x: x / sp.Abs(x))
    if e == 0:
        return True
    if differs(e):
        return False
    e = powers_apart(e)
    if sp.cancel(sp.together(e)) == 0 or sp.simplify(e) == 0:
        return True
    shares = {
        sp.Symbol(name, positive=True): 1 / (1 + sp.Symbol(f"{name} apart", positive=True))
        for name, array in reading.numbers.items()
        if array.kind == "within" and array.below.replace(" ", "") == "(0,1)"
    }
    return bool(shares) and sp.simplify(e.subs(shares)) == 0


def prove_steps(reading, left, right, places, what):
    """Prove that two Terms are equal at every step. Raises AssertionError at a step where they are not."""
    walk = Steps(reading, depth_of(reading, left, right))
    steps = [p for p in places if p.range.known == STEPS]
    others = [p for p in places if p.range.known != STEPS]
    for place in others:
        if not all(isinstance(size, int) for size in place.range.known or ("?",)):
            raise Unprovable(f"{what}: steps, and an index {place} over {place.range.known}")
    ranges = [itertools.product(*map(range, p.range.known)) for p in others]
    for index in itertools.product(*ranges):
        at = {p: tuple(map(sp.Integer, i)) for p, i in zip(others, index)}
        at |= {p: (sp.Symbol(p.name, integer=True, positive=True),) for p in steps}
        walk.steps = {at[p][0] for p in steps}
        difference = sp.sympify(walk.value(left, at)) - walk.value(right, at)
        if len(steps) > 1:
            raise Unprovable(f"{what}: a claim about several steps, {steps}")
        difference, term_of_sum = sums_in_one(difference)
        if not is_zero(walk.opened(term_of_sum, EVERY), reading):
            raise NotProved(f"{what}: the terms of the sums over {EVERY} differ by {term_of_sum}")
        if not steps:
            if not is_zero(walk.opened(difference, 0), reading):
                raise AssertionError(f"{what}: the sides differ by {walk.opened(difference, 0)}")
            continue
        _induction(walk, difference, at[steps[0]][0], what)


def _induction(walk, difference, t, what):
    opened = walk.opened(difference, t)
    if is_zero(opened, walk.reading):
        return
    if any(map(is_of_loss, difference.atoms(Indexed))):
        several = len({name_of(atom) for atom in opened.atoms(Indexed) if is_of_loss(atom)}) > 1
        if differs(opened) and not several:  # several may depend on each other
            raise AssertionError(f"{what}: the sides differ by {opened}")
        raise NotProved(f"{what}: the sides differ by {opened}")
    for n in (1, 2):
        at_n = walk.opened(difference.subs(t, n), 0)
        if not is_zero(at_n, walk.reading):
            raise AssertionError(f"{what}: at {t} = {n} the sides differ by {sp.simplify(at_n)}")
    # By induction: the claim at t − 1 gives one of its letters there. Where the letter's factor is 0, which
    # is so for single numbers only, the claim holds because both sides are continuous.
    unopened = sorted((a for a in difference.atoms(Indexed) if walk.rule(a) is not None), key=str)
    for letter in unopened:
        unknown = sp.Dummy(real=True)
        slope = sp.diff(difference.xreplace({letter: unknown}), unknown)
        if letter.indices[0] != t or slope.has(unknown) or is_zero(slope, walk.reading):
            continue
        value = -difference.xreplace({letter: sp.S.Zero}) / slope
        step = walk.opened(difference, t).xreplace({letter.subs(t, t - 1): value.subs(t, t - 1)})
        if is_zero(step, walk.reading):
            return
    raise NotProved(f"{what}: no induction over {t}; the sides differ by {difference}")
