"""The search for a repair: which change of the learner's own lines makes the answer right?

The rules that make wrong answers of right ones are applied to the learner's function, and others that put in
what is missing: a factor, a term, a sum, `keepdims`, brackets, letters of an einsum, `np.add.at` for `+=`.
What is found is a fact: with this change the function gives the right results in every case. Where no change
is found, a value of the right answer is put in the place of one of the learner's: if that makes it right, all
else is.
"""

import ast
import copy
import inspect
import itertools
import re
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ...mistakes.mutations import Program
from ...mistakes.rules import expression, headers, is_product
from .attempt import attempt, listed, quoted
from .changes import (
    INSERTED,
    RULES,
    TURNED,
    counted,
    exchanged,
    functions_of,
    inserted,
    is_computed,
    is_number,
    is_returned_name,
    mended,
    nodes,
    pasted,
    returned_names,
    said,
    surrounded,
)
from .observe import name_factor
from .search import Finding, Search, results_of, same
from .values import (
    is_harmless,
    key,
    lines_run,
    proportional,
    right_lines,
    right_variables,
    value_of,
    variables,
)

TRIALS, PAIRS = 1000, 800
"""So many changed functions are run, and so many with two changes: about a second."""
MANY, NEAREST = 300, 3
"""Of so many changes, so many that bring an answer nearest to the right one are followed by a second."""
FEW = 3
"""A change that makes fewer numbers right is none to speak of."""
RIGHT = "right_value_here"
"""The name of what is exchanged for one of the learner's values."""
MOVED = ("name", "names", "order")
"""Kinds of changes that may stand at a name which is returned: it is another that should be."""
TRULY = "your function is right in all cases."
"""Behind what makes it right."""
WRONG_LINE = "One line makes a wrong result of right values."
LINES = 300_000
"""So many lines of a learner's function are run at most, however often it loops: half a second."""


def repair(answer, search, given):
    """The Repair of a learner's function, or None.

    search: the Search of the exercise; given: the results of the function as it stands. None if the function
    has no source, or may run for ever, or gives other results here.
    """
    if not inspect.isfunction(answer):
        return None
    try:
        program = Program(answer, search.names, search.outputs, lines=True)
    except (ValueError, SyntaxError, IndexError):
        return None
    if any(isinstance(node, ast.While) for node in ast.walk(program.tree)):
        return None
    state = {name: program.names.get(name) for name in names_of(answer.__code__)}
    program.names |= {n: copy.deepcopy(x) for n, x in state.items() if isinstance(x, list | dict | set)}
    found = Repair(program, search, given)
    return found if found.probe is not None and found.same_results() else None


def names_of(code):
    """The names that a function and those inside it look up: what stands there in lists is the learner's."""
    inner = (names_of(part) for part in code.co_consts if inspect.iscode(part))
    return {*code.co_names, *code.co_freevars}.union(*inner)


@dataclass
class Repair:
    """A learner's function, the Search of the exercise, and the function's results in every case."""

    program: Program
    search: Search
    given: list
    moved: dict = field(default_factory=dict)
    scaled: list = field(default_factory=list)
    nearer: list = field(default_factory=list)
    parts: dict = field(default_factory=dict)
    before: dict = field(default_factory=dict)

    @property
    def right(self):
        return self.search.right

    @property
    def outputs(self):
        return self.search.outputs

    @cached_property
    def wrong(self):
        """The outputs that are wrong."""
        return self.search.wrong(self.given)

    @cached_property
    def good(self):
        """The outputs that are right."""
        return self.search.good(self.given)

    @cached_property
    def _bad(self):
        """The numbers of the cases that are wrong."""
        return [i for i, (g, r) in enumerate(zip(self.given, self.right)) if not same(g, r, self.wrong)]

    @cached_property
    def probe(self):
        """The case in which changes are tried first: one that is wrong, the second if it is; or None."""
        return 1 if 1 in self._bad else next(iter(self._bad), None)

    @cached_property
    def trials(self):
        """How many changed functions are run."""
        return min(TRIALS, LINES // (1 + lines_run(self.program, self.search.cases[self.probe])))

    def same_results(self):
        """Whether the function gives its results here, too."""
        return same(self._run((), self.probe), self.given[self.probe], self.outputs)

    def one(self):
        """The Finding of a change that makes it right, or of one for each wrong result; or None."""
        changes = self._mending(self.trials)
        return self._told(changes) if changes else None

    def _mending(self, trials):
        """A change that makes it right, or one for each wrong result; none if they are not found.

        Kept are those that mend some of the results, those after which nothing but a factor is wrong, and
        those that make one more of its values right.
        """
        for change, fitting in itertools.islice(self._changes(), trials):
            results = self._run((change,), self.probe)
            good = [name for name in self.wrong if same(results, self.right[self.probe], [name])]
            if good and self._right((change,), [*good, *self.good]):
                if good == self.wrong:
                    return [change]
                self.parts.setdefault(tuple(good), change)
            if not any(isinstance(x, str) for x in results.values()):
                if not good and self._factors(results, self.probe):
                    self.scaled.append(change)
                if change.kind not in INSERTED:
                    self.moved.setdefault(tuple(x.round(9).tobytes() for x in results.values()), change)
                if fitting:
                    self.nearer.append(change)
        parts = covering(self.parts, self.wrong)
        return parts if parts and self._right(parts, self.outputs) else []

    @cached_property
    def _found(self):
        """The learner's variables in the case in which changes are tried."""
        return variables(self.program, self.search.cases[self.probe])

    @cached_property
    def _edits(self):
        """Every change of what stands there, the cheap ones first; what is returned by its name is left."""
        own = [change for rule in RULES for change in rule(self.program)]
        own += counted(self.program, self._found)
        edits = [*own, *self.program.edits_of(self._found, self.search.cases[self.probe].sizes)]
        returned = {id(node) for node in returned_names(self.program)}
        edits = [e for e in edits if id(e.changes[0][0]) not in returned or e.kind in MOVED]
        return sorted(edits, key=lambda change: change.cost)

    @cached_property
    def _right_keys(self):
        """The keys of what the right answer computes on the way: as it stands, and as the last step of a loop
        leaves it.
        """
        arrays = [values[self.probe] for values in self.search.values.values()]
        if nodes(self.program, ast.For):
            arrays += [array[-1] for array in arrays if array.ndim > 1]
        return {key(array) for array in arrays if np.any(array != array.ravel()[:1])}

    @cached_property
    def _steps(self):
        """Those that are new: what the learner has already, and the arguments, are no news."""
        inputs = self.search.cases[self.probe].inputs
        return self._right_keys - {key(x) for x in (*inputs, *self._found.values())}

    @cached_property
    def _insertions(self):
        """[[(expression, code around A, kind of change), the value it makes]] of all that may be missing, the
        likeliest first.
        """
        functions, found = functions_of(self.search.program), []
        values = {text: self._value(expression(text)) for text in self._bricks()}
        values = {text: value for text, value in values.items() if is_number(value)}
        for place in self.program.places(self._found):
            value = self._value(place.node)
            if is_returned_name(place) or not is_number(value):
                continue
            inside = is_product(place.parent) and is_product(
                place.node
            )  # the product around it is a place, too
            with np.errstate(all="ignore"):
                ways = surrounded(np.asarray(value), {} if inside else values, functions)
                whole = ast.unparse(place.node)  # what is a part of it already is no term that is missing
                found += [
                    (i, (place.node, text, kind), made)
                    for i, (text, kind, made) in enumerate(ways)
                    if kind != "plus" or text[7:-1] not in whole
                ]
        return [new for _, *new in sorted(found, key=lambda new: new[0])]

    def _bricks(self):
        """What may be missing, as code: numbers, variables, lengths, roots, sums, means, and what stands
        elsewhere.
        """
        loops = {name for node in nodes(self.program, ast.For) for name in names_in(node.target)}
        numbers = [n for n, x in self._found.items() if is_number(x) and np.ndim(x) == 0 and n not in loops]
        arrays = {n: x for n, x in self._found.items() if is_number(x) and np.ndim(x)}
        axes = [(name, axis) for name, x in [*arrays.items()][:2] for axis in range(1, x.ndim + 1)]
        lengths = [f"{name}.shape[-{axis}]" for name, axis in axes]
        forms = [f"{name}.{kind}(axis=-1, keepdims=True)" for kind in ("sum", "mean") for name in arrays]
        roots = [f"{name} ** 0.5" for name in [*numbers, *lengths]]
        elsewhere = [ast.unparse(p.node) for p in self.program.places(self._found) if is_computed(p.node)]
        entries = [text for text in elsewhere if loops and re.fullmatch(r"\w+\[[\w, ]+\]", text)]
        return dict.fromkeys(["2", "-1", *entries, *numbers, *arrays, *lengths, *forms, *roots, *elsewhere])

    def line(self):
        """The Finding of the line of a wrong result that is made of right values only; or None.

        They are arguments, and variables that the right answer has as well.
        """
        right = right_variables(self.program, self.search)
        for name in self.wrong:
            line, value = self._made(name)
            used = names_in(value) if line else ()
            arrays = {n for n in used if isinstance(self._found.get(n), np.ndarray | float)}
            mine = arrays & set(right)
            given = arrays - mine <= self._given
            if given and (mine or arrays and self.wrong != [*self.outputs]):
                own, names = f"In your line `{said(line)}`", [f"`{n}`" for n in sorted(mine or arrays)]
                what = f"{listed(names)} {'is' if len(names) == 1 else 'are'} right, and its result is not."
                return Finding(WRONG_LINE, f"{own}: {what}", f"{own}.")
        return None

    @property
    def _given(self):
        """The names of the arguments that still hold what came in."""
        arguments = [node.arg for node in self.program.tree.args.args]
        inputs = zip(arguments, self.search.cases[self.probe].inputs)
        return {name for name, x in inputs if key(self._found.get(name)) == key(x)}

    def _made(self, name):
        """(the one statement that makes a result, the expression in it); or (None, None)."""
        returned = self.program.tree.body[-1]
        if not isinstance(returned, ast.Return):
            return None, None
        results = returned.value
        parts = results.elts if isinstance(results, ast.Tuple) else [results]
        if len(parts) != len(self.outputs):
            return None, None
        part = parts[self.outputs.index(name)]
        if not isinstance(part, ast.Name):
            return returned, part
        made = [
            (statement, statement.value)
            for statement in nodes(self.program, ast.Assign | ast.AugAssign)
            for target in getattr(statement, "targets", None) or [statement.target]
            if ast.unparse(target).partition("[")[0] == part.id and not is_empty(statement.value)
        ]
        return made[0] if len(made) == 1 else (None, None)

    def further(self):
        """The Finding of several changes, of which the first brings it nearer to the right; or None."""
        for first in self._steps_on[:NEAREST]:
            program = Program(self.program.source(first), self.program.names, self.outputs, lines=True)
            results = [self._run((first,), place) for place in range(len(self.right))]
            rest = Repair(program, self.search, results)
            if second := rest.probe is not None and rest._mending(self.trials // 2):
                return self._rewritten([first, *second], program.source(*second))
        return None

    @cached_property
    def _steps_on(self):
        """The changes that bring it nearer to the right answer, in another case too; the best ones first."""
        tried = {id(c): c for c in (*self.parts.values(), *self.nearer, *self.moved.values())}
        made = [(self._progress(change, self.probe), change) for change in [*tried.values()][:MANY]]
        best = sorted(
            (found for found in made if any(found[0])),
            key=lambda found: (found[0], -len(found[1].changes), -found[1].cost),
            reverse=True,
        )
        other = self._bad[-1]  # the same case if no other is wrong
        return [change for _, change in best[: 4 * NEAREST] if any(self._progress(change, other))]

    def _progress(self, change, place):
        """(how many more variables of the right answer it has after a change, how many more right numbers in
        its results, how many more values that come up in the right answer); none if something right is lost.
        """
        if place not in self.before:
            keys = {code: key(values[place]) for code, values in self.search.values.items()}
            named = {key for code, key in keys.items() if code.isidentifier()}
            numbers = self._right_numbers(self.given[place], place)
            self.before[place] = self._keys(place), numbers, named, {*keys.values()}
        before, numbers, named, steps = self.before[place]
        results, after = self._run((change,), place), self._keys(place, change)
        if not (before & named <= after and same(results, self.right[place], self.good)):
            return 0, 0, 0
        new = after - before
        return len(new & named), self._right_numbers(results, place) - numbers, len(new & steps)

    def _keys(self, place, *changes):
        """The keys of its variables in a case, after these changes."""
        return {key(x) for x in variables(self.program, self.search.cases[place], *changes).values()}

    def _right_numbers(self, results, place):
        """How many numbers of the wrong results are right in a case, of those that are not 0."""
        pairs = [(results[name], self.right[place][name]) for name in self.wrong]
        pairs = [(g, r) for g, r in pairs if not isinstance(g, str) and g.shape == r.shape]
        return sum(int((np.isclose(g, r, rtol=1e-9, atol=0) & (r != 0)).sum()) for g, r in pairs)

    def nearly(self):
        """The Finding of a change after which more is right, though not all; or None."""
        if len(self.right) == 1:
            return None
        right = sum(int((self.right[self.probe][name] != 0).sum()) for name in self.wrong)
        wrong = right - self._right_numbers(self.given[self.probe], self.probe)
        for change in self._steps_on:
            if (numbers := self._progress(change, self.probe)[1]) >= max(FEW, wrong / 2):
                kind = f"{mended(change)} Mending this makes more of it right, though not all."
                where = quoted(self.search.cases[self.probe].name)
                then = f"With this {numbers} more numbers are right in the case {where}, but not all."
                return self._finding(kind, [change], then)
        return None

    def _rewritten(self, changes, source):
        """The Finding for changes one after another: each line that they change, and what it should be."""
        trees = (self.program.tree, ast.parse(source).body[0])
        before, after = ([said(statement) for statement, _ in headers(tree.body)] for tree in trees)
        lines = [(a, b) for a, b in zip(before, after) if a != b]
        told = [f"In your line `{a}`: it should be `{b}`." for a, b in lines]
        then = f"With {'this' if len(lines) == 1 else 'these'} {TRULY}"
        many = "Two things are wrong." if len(changes) == 2 else "Several things are wrong."
        own = [f"In your line `{a}`." for a, _ in lines]
        return Finding(f"{many} {mended(*changes)}", " ".join([*told, then]), " ".join(own))

    def part(self, name):
        """The Finding of a change that makes this result right, and leaves the right ones so; or None."""
        for outputs, change in self.parts.items():
            if name in outputs:
                return self._finding(mended(change), [change], f"With this {listed(outputs)} would be right.")
        return None

    def _factors(self, results, place):
        """{wrong output: its factor} to the right one in a case, if all have one and all else is right."""
        right = self.right[place]
        if not same(results, right, self.good):
            return {}
        pairs = {name: (right[name], results[name]) for name in self.wrong}
        factors = {n: r.shape == x.shape and proportional(r, x) for n, (r, x) in pairs.items()}
        return factors if all(factors.values()) else {}

    def but_a_factor(self):
        """The Finding of a change after which results are right but for a factor with a name; or None."""
        for change in self.scaled[:5]:
            runs = [self._run((change,), place) for place in range(len(self.right))]
            if any(isinstance(x, str) for run in runs for x in run.values()):
                continue
            factors = [self._factors(run, place) for place, run in enumerate(runs)]
            sizes = [case.sizes for case in self.search.cases]
            words = [name_factor([f[n] for f in factors], sizes) for n in self.wrong if all(factors)]
            if words and all(words) and not re.search(r"\d\.\d", "".join(words)):
                then = " and ".join(f"`{n}` is {w}" for n, w in zip(self.wrong, words))
                kind = f"Two things are wrong. {mended(change)} Once this is mended, {then}."
                return self._finding(kind, [change])
        return None

    def two(self):
        """The Finding of two changes that make it right, of those that `one` has tried; or None."""
        pairs = itertools.combinations(self.moved.values(), 2)
        for pair in sorted(pairs, key=lambda pair: pair[0].cost + pair[1].cost)[: min(PAIRS, self.trials)]:
            right = same(self._run(pair, self.probe), self.right[self.probe], self.wrong)
            if right and self._right(pair, self.outputs):
                return self._told(pair)
        return None

    def value(self):
        """The Finding of a value that, exchanged for one of the right answer, makes it right; or None.

        It is one for all wrong results, or else one for each: the first in the order of the lines, and of the
        expressions of a line the smallest.
        """
        right = self.right[self.probe].values()
        steps = [v for v in self.search.values.values() if not any(equal(v[self.probe], r) for r in right)]
        known = {key(values[self.probe]) for values in self.search.values.values()}
        made = {}
        for place in self._computed(self._found):
            there, loops = self._value(place), self._loops(place)
            if key(there) in known:  # it is right, though another value there may be right as well
                continue
            for values, n in itertools.product(steps, range(len(loops) + 1)):
                axes = values[self.probe].ndim - n
                if axes < 0 or is_number(there) and axes not in (0, np.ndim(there)):
                    continue
                index = f"[{', '.join(loops[:n])}]" if n else ""
                new = exchanged(place, expression(f"{RIGHT}{index}"), "value")
                results = self._run((new,), self.probe, values)
                good = [n for n in self.wrong if same(results, self.right[self.probe], [n])]
                if good and self._right((new,), [*good, *self.good], values):
                    made.setdefault(tuple(good), new)
            if tuple(self.wrong) in made:
                break
        changes = covering(made, self.wrong)
        old = [c.changes[0][0] for c in changes]
        texts = [f"In your line `{self._statement(o)}`: `{said(o)}` has a wrong value." for o in old]
        lines = dict(zip(texts, changes))
        if not 1 <= len(lines) <= 2:
            return None
        kind = (
            TURNED["value"]
            if len(lines) == 1
            else "Two values are wrong, or what they are made of; what comes after them is right."
        )
        then = f"With the right value there {TRULY}"
        return Finding(kind, " ".join([*lines, then]), " ".join(map(self._at, lines.values())))

    def _computed(self, found):
        """The expressions of each line that compute something of an array, the inner ones first."""
        arrays, lines = {name for name, x in found.items() if isinstance(x, np.ndarray)}, {}
        for place in self.program.places(found):
            if names_in(place.node) & arrays and not is_returned_name(place):
                lines.setdefault(place.node.lineno, []).append(place.node)
        return [node for line in sorted(lines) for node in reversed(lines[line])][: self.trials // 8]

    def _loops(self, node):
        """The numbers that the loops around an expression count, the outer ones first."""
        loops = [loop for loop in nodes(self.program, ast.For) if any(node is n for n in ast.walk(loop))]
        counted = (loop for loop in loops if getattr(getattr(loop.iter, "func", None), "id", "") == "range")
        return [loop.target.id for loop in counted if isinstance(loop.target, ast.Name)]

    def _at(self, change):
        """The learner's lines, and the expressions in them."""
        places = {(self._statement(old), said(old)): None for old, _ in change.changes}
        said_of = (f"`{line}`, at `{old}`" if line not in ("", old) else f"`{old}`" for line, old in places)
        return " ".join(f"In your line {place}." for place in said_of)

    def _statement(self, node):
        """The first line of the learner's statement in which an expression stands; "" if it is not known."""
        for statement, parts in headers(self.program.tree.body):
            if statement is node or any(node in ast.walk(part) for part in parts):
                return said(statement)
        return ""

    def _run(self, changes, place, values=None):
        """output -> array, or the kind of failure. values: in each case, of what is exchanged."""
        try:
            function = self.program.function(*changes)
        except (SyntaxError, ValueError, TypeError):  # of two changes, one may leave no place for the other
            return dict.fromkeys(self.outputs, "no program")
        if values:
            function.__globals__[RIGHT] = np.array(values[place])
        run = attempt(function, self.search.cases[place].inputs, self.outputs, told=False)
        return results_of(run, self.outputs)

    def _right(self, changes, outputs, values=None):
        """Whether these outputs are right in every case."""
        return all(same(self._run(changes, i, values), right, outputs) for i, right in enumerate(self.right))

    def _changes(self):
        """(a change, whether what it changes has a value of the right answer then) of all worth a trial.

        First come changes of what stands there, then what may be missing, if it fits; then what does not fit.
        Lines that are known to be right come last.
        """
        if not self._found:
            return
        lines = right_lines(self.program, right_variables(self.program, self.search))
        sound = {id(node) for line in lines for node in ast.walk(line)}
        edits = [(change, self._fits(change)) for change in self._edits]
        edits.sort(key=lambda edit: not edit[1])
        late = [id(change.changes[0][0]) in sound for change, _ in edits]
        early = [edit for edit, last in zip(edits, late) if not last]
        half = self.trials // 2
        yield from early[:half]
        new = [(key(made) in self._steps, id(one[0]) in sound, one, made) for one, made in self._insertions]
        fitting = {  # a plain 2 may be a length in this case
            (id(one[0]), one[1].endswith("(2)"), key(made)): one
            for fits, _, one, made in reversed(new)
            if fits
        }
        for one in sorted(reversed(fitting.values()), key=lambda new: self._is_right(new[0])):
            yield inserted(*one), True
        yield from early[half:]
        others = (one for fits, last, one, made in new if not last and np.isfinite(made).all())
        yield from ((inserted(*one), False) for one in others)
        yield from (edit for edit, last in zip(edits, late) if last)

    def _fits(self, change):
        """Whether what is changed has a value of the right answer then."""
        new = change.changes[0][1]
        single = len(change.changes) == 1 and isinstance(new, ast.expr)
        return single and key(self._value(new)) in self._steps

    def _value(self, node):
        """The value of an expression by the learner's variables; None if it has none, or does more."""
        return value_of(node, self.program, self._found) if is_harmless(node) else None

    def _is_right(self, node):
        """Whether an expression has a value of the right answer."""
        return key(self._value(node)) in self._right_keys

    def _told(self, changes):
        """The Finding of changes that make it right."""
        two = "Two things are wrong. " if len({mended(change) for change in changes}) > 1 else ""
        which = "this" if len(changes) == 1 else "these"
        return self._finding(two + mended(*changes), changes, f"With {which} {TRULY}")

    def _finding(self, kind, changes, *then):
        """The Finding of these words, with the lines that change, and what is so then."""
        own = dict.fromkeys(map(self._at, changes))
        return Finding(kind, " ".join([*map(self._line, changes), *then]), " ".join(own))

    def _line(self, change):
        """The learner's lines, and what stands there then."""
        lines = {}
        for old, new in change.changes:
            line = self._statement(old)
            pairs = lines.setdefault(line, Counter())
            pairs[f"`{pasted(line, said(old), said(new))}` in place of `{said(old)}`"] += 1
        texts = []
        for line, pairs in lines.items():
            told = ", ".join(f"{pair}, {n} times" if n > 1 else pair for pair, n in pairs.items())
            texts.append(f"In your line `{line}`: {told}." if line else f"{told}.")
        return " ".join(texts)


def names_in(node):
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def is_empty(node):
    """Whether it only makes room for what comes: zeros of some shape."""
    return getattr(getattr(node, "func", None), "attr", "") in ("zeros", "zeros_like", "empty", "empty_like")


def equal(value, right):
    """Whether a value is a result but for a factor, in whatever order of the axes."""
    return any((key(value) or "?")[1:] == (key(sign * right) or "!")[1:] for sign in (1, -1))


def covering(made, wrong):
    """Of {outputs: a change that mends them} as few as mend all that are wrong; none if they do not."""
    left, chosen = set(wrong), []
    for outputs in sorted(made, key=len, reverse=True):
        if left & set(outputs):
            chosen.append(made[outputs])
            left -= set(outputs)
    return [] if left else chosen
