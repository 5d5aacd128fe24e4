r"""The letters of a page, and what its printed definitions make of them.

Letters are declared as a table of shapes is written, ``x (B, T, D); gamma (D); epsilon > 0``. A name is that
of a single token or a single head where the formula leaves leading axes out: in x_j of an x (T, D), the token
t is the same everywhere; and a definition printed for one token, x̂_j, holds for each, x̂_tj.
"""

import re

from .meaning import (
    LOSSES,
    STEPS,
    WHOLE,
    Array,
    Definition,
    Letter,
    Matrix,
    Operator,
    Place,
    Range,
    Sentence,
    Term,
    clauses,
    digits,
    in_brackets,
    items_of,
    letter_of,
    places_of,
    plain_letter,
    subterms,
    term,
    with_places,
    words_of,
    written,
)
from .tree import GREEK, Unreadable, form, only, parse, scan

ITEM = re.compile(
    r"(?P<names>[^(<>=]+?)\s*(?P<shape>\([^)]*\))?\s*(?P<kind>>\s*0|<\s*\w+|distribution|"
    r"function by [\w', ]+|function|logistic|size|steps|noise\s.+|in\s+[(\[{].*|=.*)?$"
)
"""One entry of a list of letters: names, a shape, and what else is known."""


class Reading:
    """Letters and definitions, in which printed formulas have a meaning.

    letters      for each array, number and function: an `Array`
    definitions  for each defined letter: a `Definition`
    sizes        for each size the sizes whose product it is: D may be (H, K)
    columns      whether a bold small letter is a column
    output       the array whose upstream gradient is given, if no loss L is defined; the last one defined
    """

    def __init__(self, letters="", columns=False, output=None, loss=None, printed=()):
        self.arrays, self.numbers, self.definitions, self.sizes = {}, {}, {}, {}
        self.operators, self.branches, self.points = {}, {}, {}
        self.columns, self.printed_output, self.printed_loss = columns, output, loss
        self.last = None
        self.apart = _in_both_cases(letters) | _in_both_cases(" ".join([letters, *printed]), "sf|cal")
        self.parts = {}  # of a letter that is defined at 2i and at 2i + 1: what is defined so far
        self.slopes = set()  # what is made of gradients, and is no output
        self.first = None  # where places count from, once a formula says so
        self.called = {}  # of a letter such as f(Q, K), what stands in its brackets
        self.kinks = None  # a set: derivatives are taken away from kinks, which are put into it
        self.steps = set()
        self._recurrent, self._counted = set(), 0
        for item in filter(None, (part.strip() for part in re.split(r";|\n", letters))):
            self.declare(item)

    # ---- declarations

    def declare(self, item):
        """Enter one entry of a list of letters. Raises Unreadable for what is none, or stands there twice."""
        found = ITEM.fullmatch(item)
        if not found:
            raise Unreadable(f"letters: expected such as 'x, y (T, D)' or 'epsilon > 0', got {item!r}")
        kind = (found["kind"] or "").strip()
        names = [name.strip() for name in found["names"].split(",")]
        if kind.startswith("=") and not found["shape"]:
            for name in names:
                self.sizes[name] = self._sizes(kind[1:])
            return
        if kind == "size" and not found["shape"]:
            for name in names:
                self._sizes(name)
            return
        if kind == "steps":
            self.steps |= set(names)
            self.sizes["steps"] = STEPS
            return
        axes = self._axes(found["shape"])
        below, sort = (), "array"
        if kind.startswith("function by"):
            self._branch(names, kind.removeprefix("function by").split(","), axes)
            return
        if kind.startswith("<"):
            sort, below = "label", self._sizes(kind[1:])
        elif kind.startswith(">"):
            sort = "positive"
        elif kind.startswith("noise"):
            sort, below = "noise", self._law(kind.removeprefix("noise"))
        elif kind.startswith("in"):
            sort, below = "within", kind[2:].strip()
        elif kind:
            sort = kind
        for name in names:
            self._enter(letter_named(name), Array("", axes, sort, below))

    def _law(self, text):
        """Variance and mean of the independent entries of an array, as Terms: ``p(1-p) around p``."""
        found = []
        for part in f"{text} around 0".split(" around ")[:2]:
            tex = re.sub(r"(?<!\\)\b[A-Za-z]{2,}", lambda m: tex_name(m[0]), part)
            sentence = Sentence(self)
            found.append(sentence.scalar(sentence.side(scan(tex))))
            if sentence.free:
                raise Unreadable(
                    f"letters: the law {text.strip()!r} has letters that no entry before it declares"
                )
        return tuple(found)

    @property
    def random(self):
        """The arrays whose entries are drawn, by name: what an expectation averages over."""
        return {n: a for n, a in {**self.numbers, **self.arrays}.items() if a.kind == "noise"}

    def _branch(self, names, slopes, axes):
        """A vector-valued function of vectors, of which nothing is known but how its Jacobians are called.

        It is used at one point. There it has any value and any Jacobians J_kj = ∂f_k/∂x_j, one for each of
        its arguments, so for first derivatives c_k + Σ_j J_kj x_j with any c and 𝐉 stands for every function.
        A Jacobian is square, unless it is declared before.
        """
        if len(names) != 1 or len(axes) != 1:
            raise Unreadable("letters: expected one function, with one axis, such as 'f (D) function by J'")
        name, found = self._enter(letter_named(names[0]), Array("", axes)), []
        for text in slopes:
            slope = letter_named(text)
            known = self.arrays.get(self.key(slope, True))
            if known is not None and (
                known.kind != "array" or len(known.axes) != 2 or known.axes[0] != axes[0]
            ):
                raise Unreadable(f"letters: {text.strip()} is declared, and not as a Jacobian of {name}")
            found.append(known.name if known else self._enter(slope, Array("", axes * 2)))
        taken = [slope for slopes, _ in self.branches.values() for slope in slopes]
        if len({*found, *taken}) < len(found) + len(taken):
            raise Unreadable(f"letters: two Jacobians of one name, of {name}")
        self.branches[name] = tuple(found), name + " at its point"
        self.arrays[name + " at its point"] = Array(name + " at its point", axes)

    def applied(self, name, arguments):
        """Enter at which point a function is used. Raises Unreadable for a second point."""
        slopes, constant = self.branches[name]
        if len(arguments) != len(slopes):
            raise Unreadable(f"{name}: expected {len(slopes)} arguments, one for each Jacobian")
        k = Place("k", Range(self.arrays[name].axes[0]))
        parts, point = [Term("entry", (constant, (k,)))], []
        for slope, argument in zip(slopes, arguments):
            argument.rows.join(Range(self.arrays[slope].axes[1]), f"the argument of {name}")
            probe, m = Place("entry"), Place("m", argument.rows)
            point.append(repr(argument.entry(probe, 0)))
            if places_of(argument.entry(probe, 0)).keys() - {probe}:
                raise Unreadable(f"{name} at an array with an index of its own")
            product = Term("mul", (Term("entry", (slope, (k, m))), argument.entry(m, 0)))
            parts.append(Term("sum", (m, product)))
        if name in self.definitions:
            if self.points[name] != point:
                raise Unreadable(f"{name} is used at two points, and its Jacobian is known at one")
            return
        self.points[name] = point
        self.definitions[name] = Definition(name, (k,), Term("add", tuple(parts)))

    def _axes(self, shape):
        parts = [part.strip() for part in (shape or "()").strip("() ").split(",")]
        return tuple(self._sizes(part) for part in parts if part and part != "1")

    def _sizes(self, text):
        """The sizes whose product a text is: HK, 2I, D, H_kv K."""
        if text.strip() == "steps":
            return STEPS
        found = []
        for name in re.findall(r"\d+|[A-Za-z](?:_(?:\w\w+|\w))?'*", text):
            known = self.sizes.get(name)
            found += known if known else [int(name) if name.isdigit() else name]
            if not name.isdigit():
                self.sizes.setdefault(name, (name,))
        if not found:
            raise Unreadable(f"letters: expected a size such as D or HK, got {text.strip()!r}")
        return tuple(sorted(found, key=lambda size: isinstance(size, int)))

    def _enter(self, letter, array, new=None):
        name = self.key(letter, bool(array.axes))
        where = self.arrays if array.axes else self.numbers
        if name in where:
            raise Unreadable(
                f"two declarations of one letter: {name}; a capital and a small letter are one, but for sizes"
            )
        where[name] = array._replace(name=name)
        return name

    # ---- names

    def key(self, letter, indexed):
        """The one name of a letter, in whatever font: entries x_ti and the array 𝐗 are both x."""
        base = letter.base
        if f"{letter.font} {base}" in self.apart:
            pass
        elif letter.font in ("bold", "sans", "whole") or indexed and letter.font not in ("name", "cal"):
            base = base[:1].lower() + base[1:] if len(base) == 1 else base
        name = f"{letter.font} {base}" if letter.font in ("sans", "cal") else base
        name += f"_{letter.accent}" if letter.accent else ""
        for tree in letter.below:
            name += f"_{qualifier(tree)}"
        for tree in letter.above:
            name += f"_{qualifier(tree)}"
        return name + "'" * letter.primes

    def candidates(self, letter):
        """The ways to read a letter.

        (name, indices below, scripts above), the most of it in the name first.
        """
        naming = [t for t in letter.above if qualifier(t) and not digits(t)]  # β₁² is no β₂
        for ups in [True, False] if naming else [False]:
            for downs in [True, False] if any(map(qualifier, letter.below)) else [False]:
                below = [t for t in letter.below if not (downs and qualifier(t))]
                above = [t for t in letter.above if not (ups and t in naming)]
                named = letter._replace(
                    below=tuple(t for t in letter.below if downs and qualifier(t)),
                    above=tuple(t for t in letter.above if ups and t in naming),
                    gradient=False,
                )
                yield named, below, above

    def find(self, letter):
        """The name of a known letter, or None."""
        found = self._resolved(letter)
        return found and found[0]

    def counts_from(self, first):
        """Enter whether places count from 0, as x_0 and Σ_{i=0}^{D-1} say, or from 1, as Σ_{i=1}^D does."""
        if {first, self.first} == {0, 1}:
            raise Unreadable("a place that counts from 0 beside a sum from 1: write Σ_{i=0}^{D-1}, and x_0")
        self.first = first

    def whole(self, letter):
        """The letter as the array that it is, in the font ``whole``, if it has no index and no font.

        So 𝐘 may be written Y, if nothing else is called so: a number, a size, the loss.
        """
        new = letter._replace(font="whole")
        if (
            letter.font not in ("", "name")
            or self._resolved(letter)
            or self.is_size(letter)
            or letter.base == "L"
        ):
            return letter
        found = self._resolved(new)
        return new if found and not found[1] and found[0] in self.arrays else letter

    def _resolved(self, letter):
        for named, below, above in self.candidates(letter):
            if any(len(words_of(t) or "") > 1 for t in below):
                continue  # m_all is no entry of m
            small, exact = self.key(named, True), self.key(named, False)
            squares = [t for t in above if digits(t) == "2"]
            if squares and not letter.font:
                for where, name in ((self.numbers, f"{exact}^2"), (self.arrays, f"{small}^2")):
                    if name in where:
                        return name, below, [t for t in above if t not in squares]
            bare = not below and letter.font not in WHOLE
            order = [(self.numbers, exact), (self.arrays, small)]
            if bare and not any(in_brackets(t) is not None for t in above):
                order = [(self.numbers, exact)]
                if small in self.arrays and self.arrays[small].kind == "label":
                    order.append((self.arrays, small))
            elif letter.font not in WHOLE or small in self.arrays:
                order = [(self.arrays, small), (self.numbers, exact)]
            for where, name in order:
                if name in where:
                    return name, below, above
        return None

    def named(self, text):
        """The name of the letter that somebody calls so in a list of letters.

        X_hat, W_Q, epsilon; or None.
        """
        letter = letter_named(text)
        for where, name in ((self.numbers, self.key(letter, False)), (self.arrays, self.key(letter, True))):
            if name in where:
                return name
        return None

    def alone(self, letter):
        """The name of a known letter that has no index and no power here; None for another."""
        name, *scripts = self._resolved(letter) or (None, (), ())
        return None if any(scripts) else name

    def resolve(self, letter):
        """As `find`, with the scripts that are indices and powers.

        Raises Unreadable for an unknown letter.
        """
        found = self._resolved(letter)
        if found is None:
            shown = f"{letter}{''.join('_' + written(t) for t in letter.below)}"
            if letter.gradient:
                raise Unreadable(f"unknown letter {shown}: nothing defines or declares {letter.base}")
            if len(letter.base) > 1 and letter.font == "name":
                raise Unreadable(f"{shown} is no function or letter known here: write it out, or define it")
            steps = f"; a sequence, as in t steps; {letter.base} (steps)" if "-1" in shown else ""
            raise Unreadable(
                f"unknown letter {shown}: declare it, as in {letter.base} (D), or define it{steps}"
            )
        return found

    def array(self, name):
        return self.numbers.get(name) or self.arrays[name]

    def squared(self, letter):
        return (self.find(letter._replace(gradient=False)) or "").endswith("^2")

    def function(self, letter):
        """The function that a letter names: a `Definition` with an argument, a name, or None."""
        if letter.gradient or letter.below or letter.above:
            return None
        name = self.key(letter._replace(primes=0), False)
        array = self.numbers.get(name)
        if array is None or array.kind not in ("function", "logistic"):
            return None
        return self.definitions.get(name) or name

    def is_size(self, letter):
        return self.size_name(letter) in self.sizes

    def size_name(self, letter):
        return "_".join([letter.base, *(qualifier(t) or "" for t in letter.below)]) + "'" * letter.primes

    def size(self, name):
        return self.sizes[name]

    def may_be_index(self, name):
        return len(name) == 1 and name.islower()

    def is_loss(self, letter):
        plain = letter == Letter(letter.base, letter.font) and letter.font in ("", "cal")
        return plain and letter.base in LOSSES and self.find(letter) is None

    # ---- definitions

    def define(self, statement, label=""):
        """Enter what a statement defines: the left side of its first "=". Returns its name."""
        if not statement.relations or statement.relations[0] != "=":
            raise Unreadable(f"{label}: expected a definition, a letter = …")
        left, right = statement.sides[0], statement.sides[1]
        items = items_of(parse(left))
        if items and len(items) == 2 and form(items[1]):
            return self._define_function(items, right, statement, label)
        letter = letter_of(items[0]) if items and len(items) == 1 else None
        if not letter or letter.gradient:
            raise Unreadable(f"{label}: expected a letter on the left, to be defined")
        return self._define_letter(letter, right, statement, label)

    def _define_letter(self, letter, right, statement, label):
        known = self._resolved(letter)
        if known is not None and STEPS in self._axes_of(known[0]) and [*map(digits, known[1])] == ["0"]:
            known = None  # where a sequence begins, u_0, is a letter of its own
        if known is not None and known[0] in self.definitions and known[0] not in self.parts:
            raise Unreadable(f"{label}: two definitions of one letter, {known[0]}")
        sentence, squared = Sentence(self), False
        if known is None and letter.font in ("", "name") and all(map(self.names, letter.below)):
            value = Sentence(self).expr(parse(right), {})
            if isinstance(value, Matrix) and not value.single:
                if self.is_size(letter):
                    raise Unreadable(f"{label}: {letter} is a size already: call one of them otherwise")
                letter = letter._replace(font="whole")
                known = self._resolved(letter)
        if known is not None:
            name, below, above = known
            if above:
                raise Unreadable(f"{label}: a power of {name} on the left")
        else:
            named, below, above = self._new(letter)
            squared = len(above) == 1 and digits(above[0]) == "2" and not letter.font
            if above and not squared:
                raise Unreadable(f"{label}: {letter} with a power on the left")
            array = letter.font in ("bold", "whole")
            name = self.key(named, bool(below) or array) + ("^2" if squared else "")
            if name in self.definitions or name in self.arrays and not below and not array:
                raise Unreadable(f"{label}: two letters with the name {name}")
        places = [p for tree in below for p in sentence.positions(tree, {}, self._axes_of(name))]
        if not all(isinstance(p, Place) for p in places) or len(set(places)) < len(places):
            places = self._paired(places, name, label)
        bound = {p.name: p for p in flat(places)}
        body = sentence.expr(parse(right), bound)
        sentence.free = {k: p for k, p in sentence.free.items() if k not in bound}
        if isinstance(body, Matrix) and body.single and letter.font not in ("bold", "whole"):
            body = body.entry(0, 0)
        if isinstance(body, Matrix):
            if letter.font not in WHOLE:
                raise Unreadable(
                    f"{label}: an array on the right of the number {letter}: write all its indices, "
                    f"or a row in bold, as in \\mathbf{{{letter.base}}}_t"
                )
            both = [(body.rows, "row"), (body.columns, "column")]
            own = [Place(n, r) for r, n in both if r.known != ()]
            if letter.font == "bold" and letter.base[0].islower() and len(own) == 2:
                raise Unreadable(f"{label}: a matrix on the right of the vector {letter}")
            entries = iter(own)
            at = [0 if r.known == () else next(entries) for r, _ in both]
            places, body = [*places, *own], body.entry(*at)
        declared = self._axes_of(name)
        if declared:
            if len(declared) < len(places):
                raise Unreadable(f"{label}: {name} is declared with fewer axes")
            for place, axis in zip(places, declared[len(declared) - len(places) :]):
                sentence.within(place, Range(axis))
        for place in flat(places):
            if place.range.known is None:
                raise Unreadable(f"{label}: nothing says what {place} runs over, in the definition of {name}")
        axes = declared or tuple(p.range.known for p in places)
        if name not in self.numbers and name not in self.arrays:
            (self.arrays if axes else self.numbers)[name] = Array(name, axes)
        free = [name for name, place in sentence.free.items() if place.range.known is None]
        if free or sentence.free:
            raise Unreadable(
                f"{label}: {', '.join(sentence.free)} on the right of {name}, and not on the left: an index "
                "without its sum, or a letter that nobody has declared"
            )
        if name in self.parts or any(_literal(p) is not None for p in places):
            places, body = self._part(name, tuple(places), axes, body, label)
        self.definitions[name] = Definition(name, tuple(places), body, label)
        if name in self.recurrent and STEPS not in axes:
            raise Unreadable(
                f"{label}: {name} is defined by itself; a capital letter and a small one are one"
            )
        beside = statement.words.lower().startswith(("with", "where")) or not label
        if has_kind(body, *DERIVATIVES) or self.slopes & {*names_in(body)}:
            self.slopes.add(name)
            beside = True
        if self.last is None or not beside:
            self.last = name  # what the running text defines, or a line behind "with", is not the output
        return name

    def _part(self, name, places, axes, body, label):
        """One of the cases of a definition, such as y_2i beside y_(2i+1).

        Together with the others, if it is the last.
        """
        where = [n for n, p in enumerate(places) if _literal(p) is not None]
        size = axes[where[0]][-1] if len(where) == 1 else None
        known = self.parts.setdefault(name, {})
        number = _literal(places[where[0]]) if where else None
        if not isinstance(size, int) or not 0 <= number < size or number in known:
            raise Unreadable(
                f"{label}: {name} is defined at {places}, expected one number on an axis such as 2I"
            )
        if known:
            first = next(iter(known.values()))[0]
            if len(first) != len(places):
                raise Unreadable(
                    f"{label}: {name} is defined with {len(places)} indices and with {len(first)}"
                )
            own, theirs = list(flat(places)), list(flat(first))
            if len(own) != len(theirs) or where != [
                n for n, p in enumerate(first) if _literal(p) is not None
            ]:
                raise Unreadable(f"{label}: the cases of {name} have unlike indices")
            body, places = with_places(body, dict(zip(own, theirs))), first
        known[number] = places, body
        if len(known) < size:
            return places, body
        del self.parts[name]
        case, at = Place("case", Range((size,))), where[0]
        last = ("pair", places[at][1], case) if isinstance(places[at], tuple) else case
        bodies = tuple(known[n][1] for n in range(size))
        return (*places[:at], last, *places[at + 1 :]), term("choose", case, bodies)

    def put(self, letter, side):
        """Give a free letter a value from here on, as the condition of a claim does: ε = 0, p_tj = 1/V.

        Returns the indices of its entries.
        """
        name, below, above = self.resolve(letter)
        if above or name in self.definitions or letter.gradient:
            raise Unreadable(f"the condition on {letter} is no value of a free letter")
        sentence = Sentence(self)
        axes = self.array(name).axes
        places = [p for tree in below for p in sentence.positions(tree, {}, axes)]
        if not all(isinstance(p, Place) for p in places) or letter.font == "bold":
            raise Unreadable(f"the condition on {letter} is no value of all its entries")
        body = sentence.expr(parse(side), {p.name: p for p in places})
        for place, axis in zip(places, axes[len(axes) - len(places) :]):
            sentence.within(place, Range(axis))
        self.definitions[name] = Definition(name, tuple(places), sentence.scalar(body))
        return {p.name for p in places}

    def _paired(self, places, name, label):
        if all(isinstance(p, (Place, tuple, int)) and not isinstance(p, Term) for p in places):
            if len(set(flat(places))) == len([*flat(places)]):
                return places
        if any(isinstance(p, Term) and p.kind == "add" for p in places):
            raise Unreadable(
                f"{label}: {name} is defined at a later step: write it for the step itself, h_t = … h_{{t-1}}"
            )
        raise Unreadable(f"{label}: {name} is defined at {places}, expected indices")

    def _axes_of(self, name):
        array = self.arrays.get(name)
        return array.axes if array else ()

    def _new(self, letter):
        """A letter that is defined here: what of its scripts belongs to its name."""
        below = [t for t in letter.below if not self.names(t)]
        above = [t for t in letter.above if not (qualifier(t) and not digits(t))]
        named = letter._replace(
            below=tuple(t for t in letter.below if self.names(t)),
            above=tuple(t for t in letter.above if t not in above),
        )
        return named, below, above

    @staticmethod
    def names(tree):
        """Whether a script belongs to the name of a letter, as in W_Q, b_1, and is no index."""
        text = qualifier(tree)
        return text is not None and not (len(text) == 1 and text.islower())

    def _define_function(self, items, right, statement, label):
        letter = letter_of(items[0])
        inner = items[1].children[0]
        if letter is None or inner.data != "paren" or letter.primes or len(items[1].children) > 1:
            raise Unreadable(f"{label}: expected a letter or a function of letters on the left")
        arguments = [plain_letter(c) for c in clauses(inner.children[0])]
        if None in arguments:
            raise Unreadable(f"{label}: expected letters as arguments of {letter}")
        if any(a.base == "e" for a in arguments):
            raise Unreadable(f"{label}: an argument that is called e, as e^x is the exponential")
        known, value = [self.find(self.whole(a)) for a in arguments], plain_letter(parse(right))
        arrays = any(a.font or a.base.isupper() for a in arguments)  # relu(x) is a function of each number
        value = value and self.find(self.whole(value))
        loss = letter.base in LOSSES and letter == Letter(letter.base, letter.font) and None not in known
        if loss or letter.font == "name" and {*known} <= {*self.arrays} and arrays and not value:
            self.called[letter.base] = inner
            return self._define_letter(letter, right, statement, label)
        if len(arguments) == 1 and self.find(arguments[0]) in self.arrays:
            return self._define_operator(letter, arguments[0], right, label)
        name = self.key(letter, False)
        if name in self.definitions:
            raise Unreadable(f"{label}: two definitions of one letter, {name}")
        if name not in self.numbers:
            self.numbers[name] = Array(name, (), "function")
        places = tuple(Place(a.base + "'" * a.primes) for a in arguments)
        if any(a.below or a.above for a in arguments) or len({p.name for p in places}) < len(places):
            raise Unreadable(f"{label}: expected different letters without indices as arguments of {letter}")
        body = Sentence(self).expr(parse(right), {p.name: p for p in places})
        if isinstance(body, Matrix):
            raise Unreadable(f"{label}: an array as the value of the function {name}")
        self.definitions[name] = Definition(name, places, body, label)
        return name

    def operator(self, letter):
        """The operator that a letter names, such as LN_ε; or None."""
        return self.operators.get(self.key(letter._replace(below=(), above=()), False))

    def _define_operator(self, letter, argument, right, label):
        """LN_ε(𝐱) = x̂, where x̂ is defined by 𝐱 and ε, which are free."""
        value = plain_letter(parse(right))
        below = [plain_letter(tree) for tree in letter.below]
        found = [other and self.find(other) for other in (argument, value, *below)]
        name = self.key(letter._replace(below=(), above=()), False)
        if None in found or letter.above or found[1] not in self.definitions:
            raise Unreadable(
                f"{label}: expected known letters around {letter}, and a defined one on the right"
            )
        if any(other in self.definitions for other in (found[0], *found[2:])) or name in self.operators:
            raise Unreadable(f"{label}: {letter}, or a letter that it depends on, is defined already")
        if len(self.definitions[found[1]].places) != 1:
            raise Unreadable(f"{label}: expected a vector as the value of {letter}")
        self.operators[name] = Operator(found[0], tuple(found[2:]), found[1])
        return name

    def instance(self, operator, argument, numbers):
        """The name of a copy of what an operator's value depends on, with other values for its letters."""
        mark = f" of {len(self.definitions)}"
        free = (operator.argument, *operator.numbers)
        depends = {}

        def follows(name):  # does this letter depend on what is replaced?
            if name not in depends:
                depends[name] = name in free
                used = self.definitions[name].body if name in self.definitions else ()
                depends[name] |= any([follows(other) for other in names_in(used)])
            return depends[name]

        follows(operator.result)
        renamed = {name: name + mark for name, does in depends.items() if does}
        if operator.argument not in renamed:
            raise Unreadable(f"{operator.result} does not depend on {operator.argument}")
        for name, new in renamed.items():
            array = self.array(name)._replace(name=new)
            (self.arrays if array.axes else self.numbers)[new] = array
            if name in self.definitions:
                old = self.definitions[name]
                self.definitions[new] = old._replace(name=new, body=with_names(old.body, renamed))
        argument.rows.join(Range(self.array(operator.argument).axes[-1]), f"the argument in brackets, {mark}")
        place = Place("entry", argument.rows)
        bodies = [((place,), argument.entry(place, 0)), *[((), number) for number in numbers]]
        for name, (places, body) in zip(free, bodies):
            if places_of(body).keys() - {*places}:
                raise Unreadable("an operator at an array with an index of its own")
            self.definitions[name + mark] = Definition(name + mark, places, body)
        return operator.result + mark

    def left_out(self, name, within=()):
        """The leading axes that the letters below a definition are used without: {letter: axes}."""
        found, definition = {}, self.definitions.get(name)
        for kind, used, count in entries_of(definition.body) if definition and name not in within else ():
            if kind == "gradient":
                continue
            own = len(self.definitions[used].places) if used in self.definitions else 0
            if own and count < own:
                inner, written_there = {used: self.array(used).axes[: own - count]}, 0
            elif used in self.definitions:
                inner, written_there = self.left_out(used, (*within, name)), count - own
            else:
                inner, written_there = {used: self.array(used).axes}, count
            for letter, axes in inner.items():
                rest = axes[: max(0, len(axes) - written_there)]
                found[letter] = max(found.get(letter, ()), rest, key=len)
        return found

    def leads(self, name):
        """The leading axes that the formulas for a defined letter leave out."""
        return max(self.left_out(name).values(), key=len, default=())

    def leading(self, name, extra):
        """The last `extra` of these axes. Raises Unreadable if there are fewer."""
        longest = self.leads(name)
        if len(longest) < extra:
            raise Unreadable(f"{name}: {extra} indices too many; a word below it is written \\text{{…}}")
        return longest[len(longest) - extra :]

    def whole_loss(self, depth, *terms):
        """See that each gradient is by the whole loss.

        Letters may be used without leading axes, for one token of all. A gradient by a letter that has these
        axes is that of its token; one by a letter that all tokens share is a sum over them. depth: how many
        of these axes are written. Raises Unreadable for a gradient that leaves such a sum out.
        """
        root = self.loss or self.output
        left_out = self.left_out(root) if root else {}
        longest = max(left_out.values(), key=len, default=())
        written_axes = longest[len(longest) - depth :]
        for letter, axes in left_out.items():
            if axes and axes[-depth:] != written_axes[-len(axes) :] and depth:
                raise Unreadable(f"{letter} is used without {axes}, and other letters without {longest}")
        hidden = {axis for axes in left_out.values() for axis in axes[: max(0, len(axes) - depth)]}
        for kind, name, count in (e for t in terms for e in entries_of(t)) if longest else ():
            own = self.array(name).axes
            if name in self.definitions:
                own = self.leads(name) + own
            rest = {*own[: max(0, len(own) - count)]}
            if early := rest & {*longest} - hidden:
                raise Unreadable(f"{name} without its index over {_shown(early)}, which others have")
            if kind == "gradient" and (shared := hidden - rest):
                raise Unreadable(
                    f"the gradient by {name} is a sum over {_shown(shared)}, where {name} is used each time: "
                    "write the index and the sum, or declare the letters for one of them"
                )

    @property
    def recurrent(self):
        """The sequences.

        The letters that their own definitions lead back to, as p_t = p_{t−1} − η g_t does.
        """
        if len(self.definitions) != self._counted:
            uses = {name: {used for _, used, _ in entries_of(d.body)} for name, d in self.definitions.items()}
            self._recurrent, self._counted = {n for n in uses if n in _led_to(n, uses)}, len(uses)
        return self._recurrent

    @property
    def output(self):
        """The name of the array whose upstream gradient is given; None if a loss is defined."""
        if self.printed_output:
            return self.named(self.printed_output)
        return None if self.loss else self.last

    @property
    def loss(self):
        """The name of the loss, if it is defined."""
        if self.printed_loss:
            return self.named(self.printed_loss)
        known = [name for name in ("L", "cal L") if name in self.definitions and not self.printed_output]
        known += ["ell"] * ("ell" in self.definitions and "ell" in self.numbers and not self.printed_output)
        return known[0] if known else None


def _in_both_cases(letters, fonts="bf|sf|cal"):
    r"""The capitals of a font that are letters of their own: \mathsf{C} where \mathsf{c} is named as well."""
    found = set(re.findall(rf"\\math({fonts})\{{(\w)\}}", letters))
    names = {"bf": "bold", "sf": "sans", "cal": "cal"}
    return {
        f"{names[font]} {base}" for font, base in found if base.isupper() and (font, base.lower()) in found
    }


def _shown(axes):
    return ", ".join(sorted("·".join(map(str, axis)) for axis in axes))


def _literal(place):
    """The number that an index is, or that a pair ends in; None for a letter."""
    if isinstance(place, tuple) and not isinstance(place, Term):
        place = place[-1]
    return place if isinstance(place, int) else None


def _led_to(name, uses):
    found, todo = set(), [*uses[name]]
    while todo:
        one = todo.pop()
        if one not in found:
            found.add(one)
            todo += uses.get(one, ())
    return found


def flat(places):
    for place in places:
        if isinstance(place, tuple) and not isinstance(place, Term):
            yield from (p for p in place[1:] if isinstance(p, Place))
        elif isinstance(place, Place):
            yield place


def entries_of(t):
    """The entries of arrays in a Term: (kind, name, number of indices)."""
    for one in subterms(t):
        if one.kind in ("entry", "gradient", "label"):
            yield one.kind, one.parts[0], len(one.parts[1])


def has_kind(t, *kinds):
    """Whether a Term is of one of these kinds, or has a part that is."""
    return any(one.kind in kinds for one in subterms(t))


DERIVATIVES = "gradient", "partial"
"""The kinds of Terms that differentiate."""


def names_in(t):
    """The names of all letters in a Term, also of those whose gradient is taken, or that are held."""
    found = []
    for one in subterms(t):
        if one.kind in ("entry", "gradient", "label", "apply"):
            found.append(one.parts[0])
        elif one.kind == "held":
            found += one.parts[0]
        elif one.kind == "let":
            found.append(one.parts[0].name)
    return found


def with_names(t, new):
    """A Term with other names of its letters.

    Raises Unreadable where it holds the gradient of one of them.
    """
    if isinstance(t, Term) and t.kind in ("entry", "gradient", "label"):
        if t.kind == "gradient" and t.parts[0] in new:
            raise Unreadable(f"an operator whose value holds the gradient by {t.parts[0]}")
        rest = tuple(with_names(part, new) for part in t.parts[1:])
        return t._replace(parts=(new.get(t.parts[0], t.parts[0]), *rest))
    if isinstance(t, Term) and t.kind == "held":
        return t._replace(parts=(tuple(new.get(n, n) for n in t.parts[0]), with_names(t.parts[1], new)))
    if isinstance(t, Term):
        return t._replace(parts=with_names(t.parts, new))
    if isinstance(t, Definition):
        return t._replace(body=with_names(t.body, new))
    return tuple(with_names(part, new) for part in t) if isinstance(t, tuple) else t


def qualifier(tree):
    """What a script adds to a name, such as Q, 1, gate, (2), ⋆.

    None if it can only be an index or a power.
    """
    if words_of(tree) is not None:
        return words_of(tree)
    if digits(tree) is not None:
        return digits(tree)
    if form(only(tree, "factor")) == "star":
        return "*"
    inner = in_brackets(tree)
    if inner is not None:
        return digits(inner) or words_of(inner)
    letter = plain_letter(tree)
    if letter is not None and not letter.below and not letter.above and not letter.gradient:
        return letter.base + "'" * letter.primes if len(letter.base) == 1 else letter.base
    return None


def letter_named(text):
    r"""The Letter that a name in a list of letters means: TeX, or gamma, x_hat, W_gate, b_1, X'."""
    tex = text.strip()
    if "\\" not in tex:
        base, *more = tex.split("_")
        if more and more[0] in ("hat", "bar", "tilde"):
            base, more = rf"\{more[0]} {tex_name(base)}", more[1:]
        else:
            base = tex_name(base)
        tex = base + "".join(
            "_{" + (rf"\mathrm{{{m}}}" if len(m) > 1 and m.isalpha() else m) + "}" for m in more
        )
    letter = plain_letter(parse(scan(tex)))
    if letter is None:
        raise Unreadable(f"letters: expected the name of a letter, got {text!r}")
    return letter


def tex_name(base):
    bare = base.rstrip("'")
    if bare in GREEK:
        return rf"\{base}"
    return rf"\mathrm{{{bare}}}" + base[len(bare) :] if len(bare) > 1 else base
