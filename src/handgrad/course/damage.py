r"""Would a slip of the typesetter be noticed? Each printed formula is damaged; its own checks must refuse it.

`score` takes the statements of a notebook that read the page (`evidence.replay`), and runs them on copies of
the page in which one formula has one edit (`page.edits`). An edit is refused if it cannot be read any more,
if numbers show that it is wrong, or if its proof fails. What is left is true as it stands, such as δ_ji for
δ_ij: then the page proves the edited formula too, and it is counted as another way to say the same. An edit
that is neither refused nor proved has survived, and is a gap.

A definition is damaged as well: its other form, or the later equations that use it, must notice.

    python -m handgrad.course.damage notebooks/05_normalization.ipynb

prints the score of each label. Scores are kept in `_build/damage`, by what they depend on.
"""

import argparse
import ast
import hashlib
import json
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path

from .. import page as room
from .. import sums
from ..extras import needs
from ..page import Page
from ..page.edits import edits

with needs("book"):
    import nbformat

    from . import evidence

KEPT = Path("_build/damage")


@dataclass
class Score:
    """What became of the edits of one label.

    How many, those refused, those that say the same, those alive.
    """

    label: str
    definition: bool
    edits: int = 0
    refused: int = 0
    same: list = field(default_factory=list)
    alive: list = field(default_factory=list)


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


def score(path, most=None):
    """The scores of a notebook, in the order of its labels; from `KEPT` if nothing changed.

    path: a notebook; most: how many edits of each label are tried, spread over the formula; all by default.
    Raises what its own page raises if an undamaged check fails.
    """
    path = Path(path)
    key = _key(path)
    kept = KEPT / f"{path.stem}-{most or 'all'}-{key}.json"
    if kept.is_file():
        return [Score(**entry) for entry in json.loads(kept.read_text(encoding="utf-8"))]
    notebook = nbformat.read(path, as_version=4)
    text = "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    setup, checks, readers = statements(notebook)
    whole = Page(text, path.name)
    made = readings(setup, readers, text, path.name)
    asked = {}
    for source, method, labels in checks:
        for label in labels:
            asked.setdefault(label, []).append((source, method))
    used = {}
    for source, _, labels in checks:
        given = eval(source, made)
        for name in getattr(given, "printed", ()):
            used.setdefault(name, []).extend((source, label) for label in labels)
    scores = []
    for label, tex in whole.equations.items():
        if label in asked:
            targets = [(source, label, method) for source, method in asked[label]]
        elif label in used:
            own = [(source, label) for source, _ in used[label][:1]]  # that its two forms agree
            targets = [(source, other, "holds") for source, other in dict.fromkeys(own + used[label])]
        else:
            continue
        result = Score(label, label not in asked)
        tried = edits(tex)
        step = max(1, len(tried) // most) if most else 1
        for edit in tried[step // 2 :: step][:most]:
            result.edits += 1
            damaged = text.replace(tex, edit.tex)
            fate = _fate(setup, readers, damaged, path.name, targets, result.definition)
            shown = f"{edit.kind}: {' '.join(edit.tex[max(0, edit.start - 24) : edit.start + 40].split())}"
            if fate == "refused":
                result.refused += 1
            elif fate == "same":
                result.same.append(shown)
            else:
                result.alive.append(shown)
        scores.append(result)
    KEPT.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps([asdict(s) for s in scores], ensure_ascii=False, indent=1), encoding="utf-8")
    return scores


def _fate(setup, readers, text, name, targets, definition):
    """refused, same (the edited formula is proved), or alive. Whatever stops a cell refuses."""
    try:
        made = readings(setup, readers, text, name)
    except Exception:
        return "refused"
    proved = not definition
    for source, label, _ in targets:
        given = eval(source, made)
        try:
            given.holds(label, draws=1, exact=False)
        except Exception:
            return "refused"
    for source, label, method in targets if proved else ():
        try:
            eval(source, made).prove(label)
        except Exception:
            if method == "prove":
                return "refused"
            proved = False
    return "same" if proved else "alive"


def _key(path):
    """What the score of a notebook depends on: its own text, and the code of the reader and of the sums."""
    code = sorted(Path(room.__file__).parent.glob("*.py"))
    found = hashlib.sha256()
    for file in [*code, Path(sums.__file__), Path(__file__), path]:
        found.update(file.read_bytes())
    return found.hexdigest()[:16]


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Damage every printed formula, and count what is noticed.")
    parser.add_argument("notebooks", nargs="+")
    for path in parser.parse_args(arguments).notebooks:
        scores = score(path)
        for one in scores:
            kind = "definition" if one.definition else "claim"
            same, alive = len(one.same), len(one.alive)
            print(
                f"{one.label} ({kind}): {one.edits} edits, {one.refused} refused, "
                f"{same} the same, {alive} alive"
            )
            for line in one.alive:
                print(f"    alive: {line}")
        print(
            f"{Path(path).name}: {sum(s.refused for s in scores)} of {sum(s.edits for s in scores)} refused"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
