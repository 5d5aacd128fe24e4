r"""Would a slip of the typesetter be noticed? Each printed formula is damaged; its own checks must refuse it.

`score` takes the statements of a notebook that read the page (`evidence.replay`), and runs them on copies of
the page in which one formula has one edit (`page.edits`). An edit is refused if it cannot be read any more,
if numbers show that it is wrong, or if its proof fails. What is left is true as it stands, such as δ_ji for
δ_ij: then the page proves the edited formula too, and it is counted as another way to say the same. An edit
that is neither refused nor proved has survived, and is a gap.

A definition is damaged as well: its other form, or the later equations that use it, must notice. Where a
cell only takes the number that a formula gives, the cell runs again, in a copy of the process before it.

    python -m handgrad.course.damage notebooks/05_normalization.ipynb
    python -m handgrad.course.damage --record notebooks/[0-9]*.ipynb

prints the score of each label; with --record it is written to `RECORD` as well, from which the equation index
and the README take it. Scores are kept in `_build/damage`, by what they depend on, so that a second run
tries only what has changed.
"""

import argparse
import ast
import contextlib
import datetime
import functools
import hashlib
import inspect
import io
import json
import linecache
import os
import re
import signal
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path

from .. import page as room
from .. import sums
from ..extras import needs
from ..page import Page
from ..page.checks import DISPLAY
from ..page.edits import edits

with needs("book"):
    import nbformat

    from . import evidence

KEPT = Path("_build/damage")
RECORD = Path("book/damage.json")
COMMAND = "python -m handgrad.course.damage --record notebooks/[0-9]*.ipynb"
REFUSALS = (ValueError, KeyError, AssertionError)
"""How the reader says no. Whatever else stops a cell is told as well: the reader should have said it."""


@dataclass
class Score:
    """What became of the edits of one label; taken: a cell takes its number, and no check reads it whole.

    How many, how many refused, those that say the same, those alive; those refused by accident.
    """

    label: str
    definition: bool
    taken: bool = False
    edits: int = 0
    refused: int = 0
    same: list = field(default_factory=list)
    alive: list = field(default_factory=list)
    stopped: list = field(default_factory=list)


class _Damaged:
    """Stands for `handgrad.page.read` and `Page`: every file is the text with one formula exchanged."""

    def __init__(self, text, name):
        self.text, self.name = text, name

    def __call__(self, path):
        return Page(self.text, self.name)


def statements(notebook):
    """(set-up, checks, readers): what makes readings; calls (source, method, labels); names of `read`."""
    setup, checks, readers = [], [], {"read"}
    for _, statement in evidence.replay(notebook):
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            readers |= {alias.asname or alias.name for alias in statement.names if alias.name == "read"}
            continue
        call = statement.value if isinstance(statement, ast.Expr) else None
        method = getattr(getattr(call, "func", None), "attr", "")
        if method in ("prove", "holds"):
            checks.append((ast.unparse(call.func.value), method, [a.value for a in call.args]))
        elif isinstance(statement, ast.Assign):
            setup.append(statement)
    return setup, checks, readers


def readings(setup, readers, text, name):
    """The page objects that the set-up makes of a text: {name: object}."""
    made = dict.fromkeys(readers, _Damaged(text, name))
    module = ast.Module(body=list(setup), type_ignores=[])
    exec(compile(module, name, "exec"), made)
    return made


class Chapter:
    """A notebook with what its formulas are checked by.

    targets  for each label that is checked: whether it is a definition, its checks (source, label, method)
    taken    for each label of which cells only take the number: the places of these cells
    """

    def __init__(self, path):
        self.name, self.stem = Path(path).name, Path(path).stem
        self.path, self.notebook = Path(path), (notebook := nbformat.read(path, as_version=4))
        self.text = "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
        self.setup, checks, self.readers = statements(notebook)
        self.page, self.targets = Page(self.text, self.name), {}
        self.made = readings(self.setup, self.readers, self.text, self.name)
        asked, used = {}, {}
        for source, method, labels in checks:
            for label in labels:
                asked.setdefault(label, []).append((source, label, method))
            for name in self._printed(source):
                used.setdefault(name, []).extend((source, label, method) for label in labels)
        for label in self.page.equations:
            if label in asked:
                self.targets[label] = False, asked[label]
            elif label in used:
                own = (used[label][0][0], label, "holds")  # that its two forms agree
                self.targets[label] = True, list(dict.fromkeys([own, *used[label]]))
        self._passes, self.taken = {}, {}
        for call in evidence.calls(notebook):
            if call.method == "number" and call.label not in self.targets:
                self.taken.setdefault(call.label, []).append(call.place)

    def checks(self, label):
        """The checks of a label that are repeated, the quick ones first: before a proof, small numbers.

        One that fails as it stands is left out, such as small numbers where an index would be no integer.
        """
        numbers, proofs = [], []
        for source, name, method in self.targets[label][1]:
            proofs += [(source, name, method)] if method == "prove" else []
            check = source, name, "small" if method == "prove" else method
            if check not in self._passes:
                self._passes[check] = _outcome(eval(source, self.made), name, check[2]) is None
            numbers += [check] if self._passes[check] else []
        return list(dict.fromkeys([*numbers, *proofs]))

    def mark(self, label):
        """A short text that changes with the formula, and with the cells that take its number."""
        places = self.taken.get(label, ())
        return mark_of(self.page.tex(label) + "".join(self.notebook.cells[n].source for n in places))

    def _printed(self, source):
        return getattr(eval(source, self.made), "printed", ())

    def concerned(self, label):
        """The statements of the set-up that a check of a label needs, or that read its formula."""
        names = {
            node.id
            for source, _, _ in self.targets[label][1]
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.Name)
        }
        for statement in self.setup:
            bound = {target.id for target in statement.targets}
            made = self.made[min(bound)]
            if bound & names or label in getattr(made, "printed", (label,)):
                yield statement

    def damaged(self, label, tex):
        """The text with another formula in the place of a labelled one."""
        found = next(m for m in DISPLAY.finditer(self.text) if label in (m["label"], m["kept"]))
        return self.text[: found.start("tex")] + f"\n{tex}\n" + self.text[found.end("tex") :]

    def _fate(self, setup, damaged, label, checks):
        """refused, same if the edited formula is proved, alive, or what else stopped the cell."""
        try:
            made = readings(setup, self.readers, damaged, self.name)
            asked = [(eval(source, made), name, method) for source, name, method in checks]
        except Exception as error:
            return _refusal(error)
        for given, name, method in asked:
            if error := _outcome(given, name, method):
                return _refusal(error)
        proved = any(method == "prove" for _, _, method in checks)
        if self.targets[label][0] or not proved:
            proved = self._unchanged(setup, damaged, label)
        return "same" if proved else "alive"

    def _unchanged(self, setup, damaged, label):
        """Whether a definition as it was is proved, given the damaged one; or the damaged claim is proved."""
        if not self.targets[label][0]:
            made = readings(setup, self.readers, damaged, self.name)
            return _outcome(eval(self.targets[label][1][0][0], made), label, "prove") is None
        text = f"{damaged}\n\n$$\n{self.page.tex(label)}\n$$ (eq-as-it-was)\n"
        try:
            made = readings(setup, self.readers, text, self.name)
            eval(self.targets[label][1][0][0], made).prove("eq-as-it-was")
        except Exception:
            return False
        return True

    def key(self, label, most):
        """What the score of a label depends on: the reader, the formulas of its checks, how they are read."""
        setup = [ast.unparse(statement) for statement in self.concerned(label)]
        targets = self.targets[label]
        sources = [source for source, _, _ in targets[1]] + [
            ast.unparse(s.value) for s in self.concerned(label)
        ]
        printed = {label, *(name for _, name, _ in targets[1])}.union(*map(self._printed, sources))
        formulas = {
            name: self.page.tex(name) if name.startswith("eq-") else self.page.inline(name)
            for name in printed
        }
        return hashlib.sha256(
            repr((_code(), most, setup, targets, sorted(formulas.items()))).encode()
        ).hexdigest()[:16]

    def score(self, label, most=None):
        """The score of a label; from `KEPT` if nothing has changed that it depends on."""
        kept = KEPT / f"{label}-{self.key(label, most)}.json"
        if kept.is_file():
            return Score(**json.loads(kept.read_text(encoding="utf-8")))
        definition = self.targets[label][0]
        setup, tried = list(self.concerned(label)), edits(self.page.tex(label))
        checks = self.checks(label)
        step = max(1, len(tried) // most) if most else 1
        result = Score(label, definition)
        if not checks:
            raise AssertionError(f"{label}: its checks fail as it stands")
        for edit in tried[step // 2 :: step][:most]:
            result.edits += 1
            damaged = self.damaged(label, edit.tex)
            fate = self._fate(setup, damaged, label, checks)
            shown = _shown(edit)
            if fate not in ("same", "alive"):
                result.refused += 1
                result.stopped += [f"{fate}: {shown}"] if fate != "refused" else []
            elif fate == "same":
                result.same.append(shown)
            else:
                result.alive.append(shown)
        KEPT.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(asdict(result), ensure_ascii=False, indent=1), encoding="utf-8")
        return result


def numbers(chapter, most=None):
    """The scores of the labels of which cells only take the number, {label: Score}; every cell is run.

    An edit is refused if a cell fails with it, or prints something else where its output is quoted.
    """
    scores, names = {label: Score(label, False, True) for label in chapter.taken}, {"__name__": "__main__"}
    tried = {label: edits(chapter.page.tex(label)) for label in scores}
    alive = {
        label: list(found[:: max(1, len(found) // most) if most else 1][:most])
        for label, found in tried.items()
    }
    for label, score in scores.items():
        score.edits = len(alive[label])
    with contextlib.chdir(chapter.path.parent):
        for place, cell, body in evidence.running(chapter.notebook):
            lines = cell.source.splitlines(keepends=True)
            linecache.cache[cell.id] = len(cell.source), None, lines, cell.id  # as in Jupyter: see `edited`
            code = compile(ast.Module(body, []), cell.id, "exec")
            for label in (label for label, places in chapter.taken.items() if place in places):
                if not _passes(code, names, cell):
                    raise AssertionError(f"{label}: the cell {cell.id} fails as it stands")
                alive[label] = [edit for edit in alive[label] if _passes(code, names, cell, label, edit.tex)]
            with contextlib.redirect_stdout(io.StringIO()):
                exec(code, names)
    for label, score in scores.items():
        score.alive = [_shown(edit) for edit in alive[label]]
        score.refused = score.edits - len(score.alive)
    return scores


def _passes(code, names, cell, label="", tex="", seconds=120):
    """Whether a cell passes in a copy of this process, in which a label reads otherwise."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    try:  # the copy: whatever happens, it ends here
        signal.alarm(seconds)
        printed, as_it_was = Page.tex, io.StringIO()
        Page.tex = lambda page, asked: tex if asked == label else printed(page, asked)
        with contextlib.redirect_stdout(as_it_was), contextlib.redirect_stderr(io.StringIO()):
            exec(code, names)
        quoted = "".join(output.get("text", "") for output in cell.outputs)
        os._exit(int(bool(quoted) and as_it_was.getvalue() != quoted))
    except BaseException:
        os._exit(1)


def score(path, most=None):
    """The scores of a notebook, in the order of its labels.

    path: a notebook; most: how many edits of each label are tried, spread over the formula; all by default.
    Raises what its own page raises if it cannot be read undamaged.
    """
    chapter = Chapter(path)
    return [chapter.score(label, most) for label in chapter.targets]


def _shown(edit):
    return f"{edit.kind}: {' '.join(edit.tex[max(0, edit.start - 24) : edit.start + 40].split())}"


def _outcome(given, label, method):
    """What a check raises; None if it passes. "small" computes with small sizes, which is quick."""
    try:
        if method == "small":
            (given.given() if isinstance(given, Page) else given).holds_for_small_sizes(label)
        else:
            getattr(given, method)(label)
    except Exception as error:
        return error
    return None


def _refusal(error):
    return "refused" if isinstance(error, REFUSALS) else type(error).__name__


# ------------------------------------------------------------------------------------------------ the record


def mark_of(tex):
    """A short text that changes with a formula, and not with its spaces."""
    return hashlib.sha256("".join(tex.split()).encode()).hexdigest()[:8]


def recorded(path=RECORD):
    """The scores that were recorded, {stem of the notebook: {label: what became of its edits}}."""
    return json.loads(Path(path).read_text(encoding="utf-8"))["chapters"]


def record(chapter, scores, most=None, path=RECORD):
    """Write the scores of one notebook to the record, in place of what it said of this notebook."""
    path = Path(path)
    chapters = recorded(path) if path.is_file() else {}
    chapters[chapter.stem] = {
        one.label: {"formula": chapter.mark(one.label), "most": most}
        | {name: value for name, value in asdict(one).items() if name != "label"}
        for one in scores
    }
    lines = []
    for stem, entries in sorted(chapters.items()):
        inner = ",\n".join(
            f"{json.dumps(k)}: {json.dumps(v, ensure_ascii=False)}" for k, v in entries.items()
        )
        lines.append(f"{json.dumps(stem)}: {{\n{inner}\n}}")
    date = datetime.date.today().isoformat()
    head = f'{{\n"command": {json.dumps(COMMAND)},\n"date": "{date}",\n"chapters": {{\n'
    path.write_text(head + ",\n".join(lines) + "\n}\n}\n", encoding="utf-8")


def told(chapters):
    """The sum of all scores, in words."""
    every = [e for entries in chapters.values() for e in entries.values()]
    taken = [e for e in every if e.get("taken")]
    claims, definitions = (
        [e for e in every if e["definition"] == which and not e.get("taken")] for which in (False, True)
    )

    def counted(entries, unnoticed):
        edits, refused = (sum(e[name] for e in entries) for name in ("edits", "refused"))
        same, alive = (sum(len(e[name]) for e in entries) for name in ("same", "alive"))
        rest = ", ".join(
            f"{n} {words}"
            for n, words in ((same, "says the same" if same == 1 else "say the same"), (alive, unnoticed))
            if n
        )
        return f"of {edits} slips {refused} are refused" + (f", {rest}" if rest else "")

    less, unused = "are true too, and say less", "pass, as no check uses what they change"
    unread = "pass, on a side that is not read, or within what a measurement tells"
    return (
        f"In {len(claims)} claims, {counted(claims, less)}; "
        f"in {len(definitions)} definitions, {counted(definitions, unused)}; "
        f"in {len(taken)} formulas whose number a cell takes, {counted(taken, unread)}."
    )


@functools.cache
def _code():
    """The reader, the sums and the judgement, as a short text."""
    found = hashlib.sha256(inspect.getsource(Chapter).encode() + inspect.getsource(_outcome).encode())
    for file in [*sorted(Path(room.__file__).parent.glob("*.py")), Path(sums.__file__)]:
        found.update(file.read_bytes())
    return found.hexdigest()


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Damage every printed formula, and count what is noticed.")
    parser.add_argument("notebooks", nargs="+")
    parser.add_argument("--most", type=int, help="how many edits of each label are tried; all by default")
    parser.add_argument("--record", action="store_true", help=f"write the scores to {RECORD} as well")
    asked = parser.parse_args(arguments)
    for path in asked.notebooks:
        scores, chapter = [], Chapter(path)
        taken = numbers(chapter, asked.most) if chapter.taken else {}
        for label in [*chapter.targets, *taken]:
            scores.append(one := taken.get(label) or chapter.score(label, asked.most))
            kind = "definition" if one.definition else "claim"
            same, alive = len(one.same), len(one.alive)
            print(
                f"{one.label} ({kind}): {one.edits} edits, {one.refused} refused, "
                f"{same} the same, {alive} alive"
            )
            for word in ("same", "alive", "stopped"):
                for line in getattr(one, word):
                    print(f"    {word}: {line}", flush=True)
        print(f"{chapter.name}: {sum(s.refused for s in scores)} of {sum(s.edits for s in scores)} refused")
        if asked.record:
            record(chapter, scores, asked.most)
    if asked.record:
        _tell_the_readme(Path("README.md"))
    return 0


def _tell_the_readme(path):
    """Bring what the README says of the record up to date: what stands behind the command in its row."""
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    row = rf"(?m)^(\| `{RECORD}` \| .*{re.escape(COMMAND)}`\. ).*( \|)$"
    if told_now := re.sub(row, lambda m: m[1] + told(recorded()) + m[2], text):
        path.write_text(told_now, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
