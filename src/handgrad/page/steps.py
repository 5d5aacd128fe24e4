r"""Sequences over steps t = 1, 2, …: recurrences, sums from 1 to t, and proofs by induction.

A letter that its own definition uses at an earlier step, such as p_t = p_{t−1} − η g_t, is kept as a
letter at each step, and so is the part of a sum Σ_{i=1}^t that does not contain t, of which the step t
adds one term. A claim about a step t is proved by opening the letters of this step once, or by
induction: it holds at t = 1, and if it gives the value of one of its letters at t − 1, it holds at t.

A gradient runs the other way. dh_t of an h_t that h_{t+1} is made of is kept as a letter too, and opened by
the chain rule: a sum over all letters made of h_t of their gradient times their slope. Beyond the last step
gradients are 0. The gradient by a letter that every step uses is a sum over all steps; two such sums are
equal if their terms are.

A letter may be an array at each step. Sums over its entries are those of `handgrad.sums`, which knows no
steps: for them, and for derivatives, h_{t−1,i} is the entry i of a letter called "h at t − 1".
"""

from contextlib import suppress

import numpy as np
import sympy as sp
from sympy import Indexed, IndexedBase

from .. import sums, symbolic
from ..sums import Index, NotProved
from .algebras import Symbols, Unprovable, kinks
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
        if flat and flat[0].is_Integer and flat[0] < 1 and self.is_sequence(name):
            if flat[0] < 0 or name.removeprefix(OF_LOSS) not in self.reading.recurrent:
                raise Unreadable(f"{name} at step {flat[0]}, and steps begin at 1")
        letter = sp.Symbol(name, positive=True) if positive else sp.Symbol(name, real=True)
        return IndexedBase(letter)[flat] if flat else letter

    def is_sequence(self, name):
        """Whether a letter of this name has a step as its first index."""
        if name in self.runs.values():
            return True
        reading, of = self.reading, name.removeprefix(OF_LOSS)
        return reading.array(reading.output if of == f"d{reading.output}" else of).axes[:1] == (STEPS,)

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
            return Each() * self.value(times(*factors), {**at, place: (EVERY,)}, lead, held)
        i = sp.Symbol(f"step {self.nested}", integer=True, positive=True)
        self.nested += 1
        e = self.value(times(*factors), {**at, place: (i,)}, lead, held)
        self.nested -= 1
        if last.is_Integer:
            return sum((e.subs(i, n) for n in range(1, int(last) + 1)), sp.S.Zero)
        return self.up_to(e, i, last)

    def up_to(self, e, i, last):
        """The sum of e for i from 1 to last, by its terms; a sum over entries goes in front."""
        outside, e = powers_apart(e).as_independent(i, as_Add=False)
        if isinstance(e, sp.Sum):
            return outside * e.func(self.up_to(e.function, i, last), *e.limits)
        terms = sp.Add.make_args(flattened(e))
        return outside * sp.Add(
            *(self.run(t, i, last) if len(terms) == 1 else self.up_to(t, i, last) for t in terms)
        )

    def run(self, t, i, last):
        """The sum of t for i from 1 to last: what does not contain i, times a letter for the rest."""
        outside, inside = t.as_independent(i, as_Add=False)
        if inside.free_symbols & self.steps:
            raise Unprovable(f"a sum whose terms {inside} do not fall apart into their step and the last")
        others = sorted((k for k in inside.free_symbols if isinstance(k, Index)), key=str)
        own = {k: Index(f"other {n}", k.size, -9) for n, k in enumerate(others)}
        rest = sp.Lambda((i, *own.values()), sp.powsimp(inside).xreplace(own))
        name = self.runs.setdefault(rest, f"run {len(self.runs)}")
        return outside * IndexedBase(sp.Symbol(name, real=True))[last, *others]

    # ---- opening the letters of a step

    def rule(self, atom):
        """What a letter of a sequence is at its step, from those before; None for another."""
        name, step = atom.base.label.name, atom.indices[0]
        if name.startswith(OF_LOSS):
            return self.chained(name.removeprefix(OF_LOSS), step, atom.indices[1:])
        for rest, known in self.runs.items():
            if known == name:
                others = atom.indices[1:]
                before = 0 if step == 1 else atom.base[sp.expand(step - 1), *others]
                return sp.S.Zero if step == 0 else before + rest(step, *others)
        if name not in self.reading.definitions:
            return None
        definition = self.reading.definitions[name]
        indices = tuple((index,) for index in atom.indices)
        if step == 0:
            return super().unfolded(definition, (), indices, frozenset())
        return self.value(definition.body, self.bound(definition.places, indices))

    def openings(self, e, first):
        """e, with the first gradient by one letter made of others, then more letters, at last all there are.

        What needs little is found equal soon, where all letters make it long.
        """
        e = sp.sympify(e)
        gradients = [a for a in self.letters(e) if is_of_loss(a)]
        for name in sorted({*map(name_of, gradients)}):
            ours = [a for a in gradients if name_of(a) == name]
            earliest = min((a.indices[0] for a in ours), key=lambda step: sp.expand(step - first))
            one = e.xreplace({a: self.rule(a) for a in ours if a.indices[0] == earliest})
            yield one
            yield self.opened(one, first + 1, False)
            yield self.opened(one, first, False)
        yield self.opened(e, first)

    def opened(self, e, first, gradients=True):
        """e, with all letters of the step `first` and of later ones made of those of earlier steps.

        All gradients up to the last one in it are made of those of later steps, if they are asked for.
        """
        e = sp.sympify(e)
        ahead = [sp.expand(a.indices[0] - first) for a in self.letters(e) if is_of_loss(a)]
        if not all(n.is_Integer for n in ahead):
            raise Unprovable("gradients at steps of which nothing says how far they are apart")
        last = first + max(ahead, default=0)
        for _ in range(100):
            found = {}
            for atom in self.letters(e):
                later, name = sp.expand(atom.indices[0] - first), name_of(atom)
                if is_of_loss(atom):
                    later = sp.expand(last - atom.indices[0]) if gradients else sp.S.NegativeOne
                elif name in self.reading.definitions and name not in self.reading.recurrent:
                    later = sp.S.Zero
                if later.is_nonnegative and (value := self.rule(atom)) is not None:
                    found[atom] = value
            if not found:
                return e
            e = e.xreplace(found)
            if e.atoms(Index) and sp.count_ops(e) > LONG:
                raise NotProved("with all letters of a step written out the sides are too long to compare")
        raise Unprovable("a recurrence that does not end")

    def letters(self, e):
        """The entries of sequences in e."""
        return {a for a in e.atoms(Indexed) if self.is_sequence(name_of(a))}

    def at_steps(self, e):
        """e, with each letter of a sequence called after its step, and what brings them back."""
        names = {}

        def called(a):
            letter, name = a.base.label, f"{name_of(a)} at {a.indices[0]}"
            if isinstance(letter, Index):  # a label
                name = Index(name, letter.size)
            else:
                name = sp.Symbol(name, **letter._assumptions_orig)
            names[name] = a.base, a.indices[0]
            return IndexedBase(name)[a.indices[1:]] if a.indices[1:] else name

        def back(x):
            x = x.replace(
                lambda a: isinstance(a, Indexed) and a.base.label in names,
                lambda a: names[a.base.label][0][names[a.base.label][1], *a.indices],
            )
            return x.xreplace({name: base[step] for name, (base, step) in names.items()})

        within = {a: called(a) for a in self.letters(e) if isinstance(a.base.label, Index)}  # another's index
        e = e.xreplace(within)
        return e.xreplace({a: called(a) for a in self.letters(e)}), back

    def slope(self, e, entry):
        """The derivative by one entry of a letter, at its step."""
        (e, entry), back = self.at_steps(sp.Tuple(e, entry))
        self.kinks |= {back(kink) for kink in kinks(e, getattr(entry, "base", entry))}
        return back(sums.gradient(e, entry))

    def by(self, scalar, name, indices, held):
        reading, recurrent = self.reading, name in self.reading.recurrent
        if name in reading.definitions and not recurrent:
            raise Unprovable(f"a derivative by {name}, which is defined")
        entry = self.symbol(name, indices) if recurrent else self.free(name, indices, held)
        if not isinstance(entry, (Indexed, sp.Symbol)):
            raise Unprovable(f"a derivative by {name}, which is no letter of its own")
        scalar = self.opened(scalar, indices[0][0] + int(recurrent)) if indices else sp.sympify(scalar)
        beside = (
            {name_of(a) for a in self.letters(scalar) if a.indices[0] == entry.args[1:2][0]}
            if recurrent
            else ()
        )
        if made := {*beside} & reading.recurrent - {name}:
            raise Unprovable(f"a derivative by {name} beside {min(made)} of the same step")
        same = [a for a in scalar.atoms(type(entry)) if name_of(a) == name]
        if not any(a.args[1:2] == entry.args[1:2] or not self.is_sequence(name) for a in same):
            raise Unreadable(f"a derivative by {name} of something in which it does not occur")
        return self.slope(scalar, entry)

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
        return Each() * self.chained(name, EVERY, entry, shared=True)

    def chained(self, name, step, rest, shared=False):
        """The gradient by a letter at a step, from those of the letters that are made of it.

        rest: its other indices; shared: of a letter without steps, what this step adds.
        """
        reading, found = self.reading, sp.S.Zero
        for made, definition in reading.definitions.items():
            if name not in names_in(definition.body):
                continue
            axes = reading.array(made).axes
            if made != reading.loss and axes[:1] != (STEPS,):
                raise Unprovable(f"a gradient through {made}, which has no value at each step")

            def through(*others, made=made, definition=definition):
                e, arrives = self.made(made, definition, others, name)
                entries = self.entries(e, name, rest, made, shared).items()
                return sum(
                    (
                        (self.slope(e, one) * arrives).subs(HERE, step + back)
                        for back, one in entries
                        if (step + back).is_positive
                    ),  # there is no y_0
                    sp.S.Zero,
                )

            found += self.over_all(axes[1:], through)
        return found

    @staticmethod
    def entries(e, name, rest, made, shared):
        """The entries of a letter in e, by how many steps they stand before `HERE`."""
        found, kind = {}, sp.Symbol if shared and not rest else Indexed
        for atom in (a for a in e.atoms(kind) if name_of(a) == name):
            own = getattr(atom, "indices", ())
            back = sp.S.Zero if shared else sp.expand(HERE - own[0])
            if not back.is_Integer or back < 0:
                raise Unprovable(f"a gradient through {made}, made of {name} at a later step")
            found[back] = atom.base[(*own[: not shared], *rest)] if own else atom
        return found

    def made(self, made, definition, others, name):
        """What a letter is at the step `HERE`, and the gradient by it."""
        if made == self.reading.loss:
            outside, inside = sums_in_one(self.closed(definition, ()))
            if name in {*map(name_of, outside.atoms(Indexed, sp.Symbol))}:
                raise Unprovable(
                    f"a gradient by {name} of a loss that holds it outside of its sum over steps"
                )
            return inside.subs(EVERY, HERE), sp.S.One
        indices = ((HERE,), *others)
        e = self.closed(definition, indices)
        if e.atoms(Each) or {*map(name_of, e.atoms(Indexed))} & {*self.runs.values()}:
            raise Unprovable(f"a gradient through {made}, a sum over steps")
        return e, (self.upstream if made == self.reading.output else self.of_loss)(made, indices)

    def of_loss(self, name, indices):
        return self.gradient(name, indices, frozenset())

    def closed(self, definition, indices):
        """What a definition says at a step, with letters of steps for those that it is made of."""
        reading, before = self.reading, self.opaque
        self.opaque = frozenset(n for n in reading.definitions if STEPS in reading.array(n).axes)
        e = sp.sympify(self.value(definition.body, self.bound(definition.places, indices)))
        self.opaque = before
        return e


class Each(sp.Dummy):
    """A factor that says: summed over `EVERY` step. Each sum has its own, so that none cancels another."""

    def __new__(cls):
        return super().__new__(cls, "Σ", real=True)


HERE, EVERY = (sp.Symbol(name, integer=True, positive=True) for name in ("here", "step"))
LONG = 1000
"""More operations on arrays than these are not compared: it would take minutes."""
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
    each = e.atoms(Each)
    terms = [e.diff(one) for one in each]
    if any(t.atoms(Each) for t in terms):
        raise Unprovable("a product, or a function, of sums over steps")
    return e.xreplace(dict.fromkeys(each, sp.S.Zero)), sp.Add(*terms)


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
    """Whether numbers in (0, 1) show that e is not 0: a refutation, found before anything is simplified."""
    values = sums.random_values(e, np.random.default_rng(0))
    values = {letter: value if letter.is_integer else 0.6 * value for letter, value in values.items()}
    with suppress(ValueError):  # of a function of which nothing is known
        return abs(sums.evaluate(e, values, digits=30)) > 1e-12
    return False


def is_zero(e, walk):
    """Whether e is 0, as a function of its letters, roots and powers; of arrays, by sums of every size.

    A letter in (0, 1) is 1/(1 + a positive one), if that is needed.
    """
    e, _ = walk.at_steps(sp.sympify(e))
    if e == 0:
        return True
    if differs(e):
        return False
    if e.atoms(Index):
        return sums.equal(e, sp.S.Zero)
    e = e.replace(sp.sign, lambda x: x / sp.Abs(x)).replace(symbolic.step, lambda x: (1 + x / sp.Abs(x)) / 2)
    e = powers_apart(e)
    if sp.cancel(sp.together(e)) == 0 or sp.simplify(e) == 0:
        return True
    shares = {
        sp.Symbol(name, positive=True): 1 / (1 + sp.Symbol(f"{name} apart", positive=True))
        for name, array in walk.reading.numbers.items()
        if array.kind == "within" and array.below.replace(" ", "") == "(0,1)"
    }
    return bool(shares) and sp.simplify(e.subs(shares)) == 0


def refuse(e, walk, what):
    """Say of sides that differ by e that they do, if numbers show it, or else that it is not known."""
    if differs(walk.at_steps(e)[0]):
        raise AssertionError(f"{what} the sides differ by {symbolic.shortened(e)}")
    raise unsettled(e, what)


def unsettled(e, what):
    """The error for a difference of which nobody knows whether it is 0."""
    return NotProved(f"{what} left − right, not shown to be 0: {symbolic.shortened(e)}")


def prove_steps(walk, left, right, at, what):
    """Prove that two Terms are equal at every step. Raises AssertionError at a step where they are not."""
    steps = [p for p in at if p.range.known == STEPS]
    if len(steps) > 1:
        raise Unprovable(f"{what}: a claim about several steps, {steps}")
    at = at | {p: (sp.Symbol(p.name, integer=True, positive=True),) for p in steps}
    walk.steps = {at[p][0] for p in steps}
    difference = sp.sympify(walk.value(left, at)) - walk.value(right, at)
    difference, term_of_sum = sums_in_one(difference)
    if not any(is_zero(opened, walk) for opened in walk.openings(term_of_sum, EVERY)):
        raise unsettled(term_of_sum, f"{what}: of the terms of the sums over {EVERY},")
    if steps:
        _induction(walk, difference, at[steps[0]][0], what)
    elif not any(is_zero(opened, walk) for opened in walk.openings(difference, 0)):
        refuse(walk.opened(difference, 0), walk, f"{what}:")


def _induction(walk, difference, t, what):
    if any(is_zero(opened, walk) for opened in walk.openings(difference, t)):
        return
    if any(map(is_of_loss, walk.letters(difference))):
        opened = walk.opened(difference, t)
        if len({name_of(a) for a in walk.letters(opened) if is_of_loss(a)}) > 1:  # each may hold others
            raise unsettled(opened, f"{what}:")
        refuse(opened, walk, f"{what}:")
    for n in (1, 2):
        if not is_zero(at_n := walk.opened(difference.subs(t, n), 0), walk):
            refuse(at_n, walk, f"{what}: at {t} = {n}")
    if is_zero(walk.opened(difference, t) - difference.subs(t, t - 1), walk):
        return  # the sides differ by as much as they did at t − 1
    # By induction: the claim at t − 1 gives one of its letters there. Where the letter's factor is 0, which
    # is so for single numbers only, the claim holds because both sides are continuous.
    letters = (a for a in walk.letters(difference) if a.free_symbols <= difference.free_symbols)
    unopened = sorted((a for a in letters if walk.rule(a) is not None), key=str)
    for letter in unopened:
        unknown = sp.Dummy(real=True)
        slope = sp.diff(difference.xreplace({letter: unknown}), unknown)
        if letter.indices[0] != t or slope.has(unknown) or is_zero(slope, walk):
            continue
        value = -difference.xreplace({letter: sp.S.Zero}) / slope
        step = walk.opened(difference, t).xreplace({letter.subs(t, t - 1): value.subs(t, t - 1)})
        if is_zero(step, walk):
            return
    raise unsettled(difference, f"{what}: no induction over {t};")
