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
import io
import json
import linecache
import os
import re
import signal
from collections import defaultdict
from dataclasses import asdict, dataclass, field
from pathlib import Path
from unittest import mock

from .. import page as room
from .. import sums
from ..extras import needs
from ..page import Page
from ..page.checks import DISPLAY, INLINE
from ..page.edits import edits

with needs("book"):
    import nbformat

    from . import evidence

KEPT = Path("_build/damage")
RECORD = Path("book/damage.json")
COMMAND = "python -m handgrad.course.damage --record notebooks/[0-9]*.ipynb"
QUICK = {"prove": "small", "holds": "holds"}
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


def statements(notebook):
    """(set-up, checks): the statements that make readings, and the calls (source, method, labels)."""
    setup, checks = [], []
    for _, statement in evidence.replay(notebook):
        call = statement.value if isinstance(statement, ast.Expr) else None
        method = getattr(getattr(call, "func", None), "attr", "")
        if method in ("prove", "holds"):
            checks.append((ast.unparse(call.func.value), method, [a.value for a in call.args]))
        elif not isinstance(statement, ast.Expr):
            setup.append(statement)
    return setup, checks


def readings(setup, text, name):
    """The page objects that the set-up makes of a text, whatever file it reads: {name: object}."""
    made = {}
    with mock.patch.object(room, "read", lambda path: Page(text, name)):
        exec(compile(ast.Module(list(setup), []), name, "exec"), made)
    return made


class Chapter:
    """A notebook with what its formulas are checked by.

    targets  for each label that is checked: whether it is a definition, its checks (source, label, method)
    taken    for each label of which cells only take the number: the places of these cells
    """

    def __init__(self, path):
        self.path, self.notebook = Path(path), nbformat.read(path, as_version=4)
        self.text = evidence.prose(self.notebook)
        self.setup, checks = statements(self.notebook)
        self.page = Page(self.text, self.path.name)
        self.made = readings(self.setup, self.text, self.path.name)
        asked, used = defaultdict(list), defaultdict(list)
        for source, method, labels in checks:
            repeated = [(source, label, method) for label in labels]
            for check in repeated:
                asked[check[1]].append(check)
            for name in getattr(eval(source, self.made), "printed", ()):
                used[name] += repeated
        self.targets, self.taken = {}, defaultdict(list)
        for label in self.page.equations:
            if label in asked:
                self.targets[label] = False, asked[label]
            elif label in used:
                own = (used[label][0][0], label, "holds")  # that its two forms agree
                self.targets[label] = True, list(dict.fromkeys([own, *used[label]]))
        for call in evidence.calls(self.notebook):
            if call.method == "number" and call.label not in self.targets:
                self.taken[call.label].append(call.place)

    def checks(self, label):
        """The checks of a label that are repeated, the quick ones first: before a proof, small numbers.

        One that fails as it stands is left out, such as small numbers where an index would be no integer.
        """
        asked = self.targets[label][1]
        quick = dict.fromkeys((source, name, QUICK[method]) for source, name, method in asked)
        passed = [(source, *check) for source, *check in quick if _passes(eval(source, self.made), *check)]
        return [*passed, *dict.fromkeys(check for check in asked if check[2] == "prove")]

    def mark(self, label):
        """A short text that changes with the formula, save its spaces, and with the cells that take it."""
        cells = [self.notebook.cells[place].source for place in self.taken.get(label, ())]
        seen = "".join("".join([self.page.tex(label), *cells]).split())
        return hashlib.sha256(seen.encode()).hexdigest()[:8]

    def concerned(self, label):
        """The statements of the set-up that a check of a label needs, or that read its formula."""
        sources = "\n".join(source for source, _, _ in self.targets[label][1])
        names = {node.id for node in ast.walk(ast.parse(sources)) if isinstance(node, ast.Name)}
        for statement in self.setup:
            bound = [target.id for target in getattr(statement, "targets", ())]  # by an import none
            made = self.made[bound[0]] if bound else None
            if names.intersection(bound) or label in getattr(made, "printed", (label,)):
                yield statement

    def _fate(self, setup, label, tex, checks):
        """refused, same if the edited formula is proved, alive, or what else stopped the cell.

        A claim that no check proves is proved here; for a definition, what it was is, given the edited one.
        """
        found = next(m for m in DISPLAY.finditer(self.text) if label in (m["label"], m["kept"]))
        text = f"{self.text[: found.start('tex')]}\n{tex}\n{self.text[found.end('tex') :]}"
        try:
            made = readings(setup, text, self.path.name)
            for given, *check in [(eval(source, made), *check) for source, *check in checks]:
                _check(given, *check)
        except REFUSALS:
            return "refused"
        except Exception as error:
            return type(error).__name__
        definition, asked = self.targets[label]
        proved = not definition and any(method == "prove" for _, _, method in checks)
        if not proved:
            text += f"\n\n$$\n{self.page.tex(label)}\n$$ (eq-as-it-was)\n"
            given = eval(asked[0][0], readings(setup, text, self.path.name))
            proved = _passes(given, "eq-as-it-was" if definition else label, "prove")
        return "same" if proved else "alive"

    def key(self, most):
        """What the scores depend on: the reader, the formulas of the page, and how they are read."""
        formulas = self.page.equations, INLINE.findall(self.text), self.page.shapes.items
        read = [ast.unparse(statement) for statement in self.setup], self.targets
        return hashlib.sha256(repr((_code(), most, formulas, read)).encode()).hexdigest()[:16]

    def score(self, label, most=None):
        """The score of a label; from `KEPT` if nothing has changed that it depends on."""
        kept = KEPT / f"{label}-{self.key(most)}.json"
        if kept.is_file():
            return Score(**json.loads(kept.read_text(encoding="utf-8")))
        result = Score(label, self.targets[label][0])
        setup, checks = list(self.concerned(label)), self.checks(label)
        for edit in _spread(edits(self.page.tex(label)), most):
            result.edits += 1
            fate, shown = self._fate(setup, label, edit.tex, checks), _shown(edit)
            if fate in ("same", "alive"):
                getattr(result, fate).append(shown)
                continue
            result.refused += 1
            if fate != "refused":
                result.stopped.append(f"{fate}: {shown}")
        KEPT.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(asdict(result), ensure_ascii=False, indent=1), encoding="utf-8")
        return result


def numbers(chapter, most=None):
    """The scores of the labels of which cells only take the number, {label: Score}; every cell is run.

    An edit is refused if a cell fails with it, or prints something else where its output is quoted.
    """
    alive = {label: _spread(edits(chapter.page.tex(label)), most) for label in chapter.taken}
    scores = {label: Score(label, False, True, len(found)) for label, found in alive.items()}
    names = {"__name__": "__main__"}
    with contextlib.chdir(chapter.path.parent):
        for place, cell, body in evidence.running(chapter.notebook):
            lines = cell.source.splitlines(keepends=True)
            linecache.cache[cell.id] = len(cell.source), None, lines, cell.id  # as in Jupyter: see `edited`
            code = compile(ast.Module(body, []), cell.id, "exec")
            for label in (label for label, places in chapter.taken.items() if place in places):
                if not _runs(code, names, cell):
                    raise AssertionError(f"{label}: the cell {cell.id} fails as it stands")
                alive[label] = [edit for edit in alive[label] if _runs(code, names, cell, label, edit.tex)]
            with contextlib.redirect_stdout(io.StringIO()):
                exec(code, names)
    for label, score in scores.items():
        score.alive = [_shown(edit) for edit in alive[label]]
        score.refused = score.edits - len(score.alive)
    return scores


def _runs(code, names, cell, label="", tex="", seconds=120):
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


def _spread(found, most):
    """At most so many edits, spread over the formula; all without a number."""
    step = max(1, len(found) // most) if most else 1
    return found[step // 2 :: step][:most]


def _shown(edit):
    return f"{edit.kind}: {' '.join(edit.tex[max(0, edit.start - 24) : edit.start + 40].split())}"


def _check(given, label, method):
    """Repeat a check, which raises if it fails. "small" computes with small sizes, which is quick."""
    if method == "small":
        (given.given() if isinstance(given, Page) else given).holds_for_small_sizes(label)
    else:
        getattr(given, method)(label)


def _passes(*check):
    try:
        _check(*check)
    except Exception:
        return False
    return True


# ------------------------------------------------------------------------------------------------ the record


def recorded(path=RECORD):
    """The scores that were recorded, {stem of the notebook: {label: what became of its edits}}."""
    return json.loads(Path(path).read_text(encoding="utf-8"))["chapters"]


def record(chapter, scores, most=None, path=RECORD):
    """Write the scores of one notebook to the record, in place of what it said of this notebook."""
    chapters = recorded(path) if path.is_file() else {}
    chapters[chapter.path.stem] = {}
    for score in map(asdict, scores):
        label = score.pop("label")
        chapters[chapter.path.stem][label] = {"formula": chapter.mark(label), "most": most} | score
    lines = []
    for stem, entries in sorted(chapters.items()):
        inner = ",\n".join(f'"{k}": {json.dumps(v, ensure_ascii=False)}' for k, v in entries.items())
        lines.append(f'"{stem}": {{\n{inner}\n}}')
    date = datetime.date.today().isoformat()
    head = f'{{\n"command": {json.dumps(COMMAND)},\n"date": "{date}",\n"chapters": {{\n'
    path.write_text(head + ",\n".join(lines) + "\n}\n}\n", encoding="utf-8")


def told(chapters):
    """The sum of all scores, in words."""
    every = [entry for entries in chapters.values() for entry in entries.values()]
    groups = [
        ("claims", "are true too, and say less"),
        ("definitions", "pass, as no check uses what they change"),
        (
            "formulas whose number a cell takes",
            "pass, on a side that is not read, or within what a measurement tells",
        ),
    ]
    parts = []
    for group, (name, unnoticed) in enumerate(groups):
        entries = [e for e in every if e["definition"] + 2 * e["taken"] == group]
        edits, refused = (sum(e[kind] for e in entries) for kind in ("edits", "refused"))
        same, alive = (sum(len(e[kind]) for e in entries) for kind in ("same", "alive"))
        rest = f", {same} {'says' if same == 1 else 'say'} the same" * bool(same)
        rest += f", {alive} {unnoticed}" * bool(alive)
        parts.append(f"in {len(entries)} {name}, of {edits} slips {refused} are refused{rest}")
    return "I" + "; ".join(parts)[1:] + "."


@functools.cache
def _code():
    """The reader, the sums and the judgement, as a short text."""
    files = [*sorted(Path(room.__file__).parent.glob("*.py")), Path(sums.__file__), Path(__file__)]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


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
            print(
                f"{label} ({kind}): {one.edits} edits, {one.refused} refused, "
                f"{len(one.same)} the same, {len(one.alive)} alive"
            )
            for word in ("same", "alive", "stopped"):
                for line in getattr(one, word):
                    print(f"    {word}: {line}", flush=True)
        print(f"{path}: {sum(s.refused for s in scores)} of {sum(s.edits for s in scores)} refused")
        if asked.record:
            record(chapter, scores, asked.most)
    if asked.record:
        _tell_the_readme(Path("README.md"))


def _tell_the_readme(path):
    """Bring what the README says of the record up to date: what stands behind the command in its row."""
    row = rf"(?m)^(\| `{RECORD}` \| .*{re.escape(COMMAND)}`\. ).*( \|)$"
    text = path.read_text(encoding="utf-8")
    path.write_text(re.sub(row, lambda m: m[1] + told(recorded()) + m[2], text), encoding="utf-8")


if __name__ == "__main__":
    main()
