"""The form of a notebook: short cells, more prose than code, words for pictures, only quoted outputs.

    python -m handgrad.course.rules NOTEBOOK ...

prints what the notebooks break, and exits with 1 if that is anything. Each rule is a function of a notebook
(from `nbformat.read`) that returns complaints, [] if it is kept: `ALWAYS` for every notebook, `IN_CHAPTERS`
for chapters as well.
"""

import argparse
import ast
import functools
import io
import math
import re
import sys
import tokenize
from itertools import pairwise
from pathlib import Path
from statistics import median

from ..extras import needs

with needs("book"):
    import nbformat

    from . import evidence
    from .consistency import LINK, PLACE
    from .evidence import NOT_RUN
    from .runs import parse

# Reading ----------------------------------------------------------------------------------------------------


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def imported(tree, names=()):
    """What the names of a cell stand for: {local name: dotted origin}, beginning from those of earlier cells.

    A name that the cell assigns or defines itself no longer stands for what was imported.
    """
    names = dict(names)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                first = alias.name.split(".")[0]
                names[alias.asname or first] = alias.name if alias.asname else first
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.pop(node.name, None)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.pop(node.id, None)
    return names


def origin(node, names):
    """The dotted name an expression stands for, or None: "handgrad.check.prove" for ``check.prove``."""
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute):
        base = origin(node.value, names)
        return base and f"{base}.{node.attr}"
    return None


def with_names(notebook):
    """Yield (code cell, its tree, what its names stand for) with the imports of the cells before it."""
    names = {}
    for cell in code_cells(notebook):
        tree = parse(cell.source)
        names = imported(tree, names)
        yield cell, tree, names


def lines_of_code(source):
    """Lines that say something: no empty ones, no comments, no imports."""
    tree = parse(source)
    imports = [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]
    lines = len(re.findall(r"(?m)^[ \t]*[^\s#]", source))
    return lines - sum(node.end_lineno - node.lineno + 1 for node in imports)


def words_of_code(source):
    """Names, keywords, numbers and strings: operators and brackets are not words."""
    kinds = (tokenize.NAME, tokenize.NUMBER, tokenize.STRING)
    return sum(token.type in kinds for token in tokenize.generate_tokens(io.StringIO(source).readline))


def words_of_prose(source):
    """Words of a Markdown cell outside formulas, code and addresses."""
    source = re.sub(r"```.*?```|\$\$.*?\$\$|\$[^$]*\$|`[^`]*`|https?:\S+", " ", source, flags=re.DOTALL)
    return len(re.findall(r"[^\W\d_]{2,}", source))


def opening(notebook):
    """The first three cells of text, which say what the chapter is about."""
    texts = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    return " ".join(texts[:3])


# Rules for every notebook -----------------------------------------------------------------------------------

ALWAYS, IN_CHAPTERS = [], []


def rule(group):
    """Make of a generator of complaints a function that lists them, and enter it in a group of rules."""

    def enter(complain):
        group.append(functools.wraps(complain)(lambda notebook: list(complain(notebook))))
        return group[-1]

    return enter


@rule(ALWAYS)
def rule_kernel(notebook):
    kernel = notebook.metadata.get("kernelspec", {}).get("name")
    if kernel != "python3":
        yield f"kernelspec: expected python3, got {kernel}"


@rule(ALWAYS)
def rule_ids(notebook):
    """An id is words with hyphens, so that a cell can be named and its history followed."""
    ids = [cell.get("id", "") for cell in notebook.cells]
    yield from (f"{i!r}: {ids.count(i)} cells have this id" for i in sorted(set(ids)) if ids.count(i) > 1)
    readable = re.compile(r"(?![0-9a-f]{8}(-|$))[a-z][a-z0-9]*([-_][a-z0-9]+)*")
    yield from (f"{i!r}: an id is readable words with hyphens" for i in ids if not readable.fullmatch(i))


def is_quoted(cell):
    """Whether the text quotes what this cell prints, so that the output is stored and compared."""
    return "quoted" in cell.metadata.get("tags", [])


def is_plain_text(output):
    """Whether an output is text that the cell printed or returned, which can be compared."""
    if output.output_type == "stream":
        return output.name == "stdout"
    return output.output_type == "execute_result" and set(output.data) == {"text/plain"}


@rule(ALWAYS)
def rule_outputs(notebook):
    """A quoted cell stores its text and a count, and a test compares it; every other cell is bare."""
    for cell in code_cells(notebook):
        if not is_quoted(cell):
            if cell.outputs or cell.execution_count is not None:
                yield f"{cell.id}: stores an output or a count, but is not tagged quoted"
        elif not cell.outputs:
            yield f"{cell.id}: is tagged quoted, but stores no output"
        elif cell.execution_count is None:
            yield f"{cell.id}: stores an output without a count: run tools/outputs.py"
        elif not all(map(is_plain_text, cell.outputs)):
            yield f"{cell.id}: a quoted output is plain text, printed or returned"


@rule(ALWAYS)
def rule_runs(notebook):
    """Every cell runs, in tests and in the build; one that must raise says so with pytest.raises."""
    for cell in code_cells(notebook):
        if tags := sorted(set(cell.metadata.get("tags", [])) & NOT_RUN):
            yield f"{cell.id}: tagged {tags}, so it need not run, or may fail"


SET_UP = {"sys.path", "os.environ", "os.chdir"}


@rule(ALWAYS)
def rule_no_plumbing(notebook):
    for cell, tree, names in with_names(notebook):
        for line in cell.source.splitlines():
            if re.match(r"\s*[%!]\s*(pip|conda|matplotlib)\b|\s*!", line):
                yield f"{cell.id}: installation and set-up belong to the environment: {line.strip()}"
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and (name := origin(node, names)) in SET_UP:
                yield f"{cell.id}: {name} is set-up"
            if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names):
                yield f"{cell.id}: `from {node.module} import *` hides where a name comes from"


# The functions that draw from the global state, or set it, and from what to draw.
GLOBAL = {
    r"numpy\.random\.(?!(default_rng|Generator|SeedSequence|PCG64)$)\w+": "np.random.default_rng(seed)",
    r"random\.(?!Random$)\w+": "random.Random(seed)",
    r"torch\.(manual_seed|seed|cuda\.manual_seed)": "a torch.Generator",
}
TORCH_DRAWS = re.compile(r"torch\.(rand|randn|randint|randperm|normal|bernoulli|multinomial)")


@rule(ALWAYS)
def rule_random_state(notebook):
    """Random numbers come from a seeded generator, so that a cell gives the same whatever ran before it."""
    for cell, tree, names in with_names(notebook):
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            name, keywords = origin(call.func, names) or "", [k.arg for k in call.keywords]
            for pattern, instead in GLOBAL.items():
                if re.fullmatch(pattern, name):
                    yield f"{cell.id}: {name} uses the global state; draw from {instead}"
            if name == "numpy.random.default_rng" and not (call.args or keywords):
                yield f"{cell.id}: default_rng() without a seed gives other numbers each time"
            if TORCH_DRAWS.fullmatch(name) and "generator" not in keywords:
                yield f"{cell.id}: {name} without generator= draws from the global state"


# Rules for chapters -----------------------------------------------------------------------------------------


@rule(IN_CHAPTERS)
def rule_cells_are_short(notebook):
    lines = [lines_of_code(cell.source) for cell in code_cells(notebook) if cell.source.strip()] or [0]
    ninth = sorted(lines)[math.ceil(0.9 * len(lines)) - 1]
    if median(lines) > 3:
        yield f"the median code cell has {median(lines)} lines, expected at most 3"
    if ninth > 12:
        yield f"one cell in ten has {ninth} lines of code or more, expected at most 12"


@rule(IN_CHAPTERS)
def rule_more_prose_than_code(notebook):
    prose = words_of_prose(evidence.prose(notebook))
    code = sum(words_of_code(re.sub(r"(?m)^\s*[%!].*$", "", cell.source)) for cell in code_cells(notebook))
    if prose < code:
        yield f"{prose} words of prose for {code} words of code"


@rule(IN_CHAPTERS)
def rule_imports_where_used(notebook):
    """A name is imported where it is first used, or one cell before; figures are drawn elsewhere."""
    trees = [(cell, parse(cell.source)) for cell in code_cells(notebook)]
    used = [{node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} for _, tree in trees]
    for place, (cell, tree) in enumerate(trees):
        imports = [node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
        new = imported(ast.Module(imports, []))
        near = set().union(*used[place : place + 2])
        for name in (name for name in new if name not in near):
            yield f"{cell.id}: imports {name}, not used in this cell or the next"
        if any(name.split(".")[0] in ("matplotlib", "seaborn", "plotly") for name in new.values()):
            yield f"{cell.id}: figures are drawn by the package, not in a notebook"


@rule(IN_CHAPTERS)
def rule_names_mean_one_thing(notebook):
    """No name is bound in two cells, so that a cell run again finds what it found the first time.

    Loops may share their variables, and cells their imports; a loop may not take the name of something else.
    """
    bound, looped, found = {}, {}, set()
    for cell, tree, from_elsewhere in with_names(notebook):
        found |= set(from_elsewhere)
        names, loops = bindings(tree)
        for name in sorted((names | loops) & found):
            yield f"{cell.id}: binds {name}, which is imported"
        for name in sorted(names):
            if name in bound:
                yield f"{cell.id}: binds {name} again, which {bound[name]} has bound"
            elif name in looped and looped[name] != cell.id:
                yield f"{cell.id}: binds {name}, over which {looped[name]} has looped"
            bound.setdefault(name, cell.id)
        for name in sorted(loops):
            if bound.get(name, cell.id) != cell.id:
                yield f"{cell.id}: loops over {name}, which {bound[name]} has bound"
            looped.setdefault(name, cell.id)


def bindings(tree):
    """The names that a cell binds in the notebook itself, save by import: (by assignment, by a loop)."""
    nodes = list(in_the_open(tree))
    looping = [n for node in nodes if isinstance(node, ast.For) for n in ast.walk(node.target)]
    defined = {node.name for node in nodes if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    return defined | stored(node for node in nodes if node not in looping), stored(looping)


SCOPES = ast.FunctionDef, ast.ClassDef, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp


def in_the_open(node):
    """The nodes below one whose names are those of the notebook: none in a function or a comprehension."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, SCOPES):
            yield from in_the_open(child)


def stored(nodes):
    """The names that nodes bind: not those that they only index."""
    return {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)} - {"_"}


# What moves, and how many arguments it has, alt the last.
MOVES = {"handgrad.course.interactive.frames": 4, "handgrad.course.interactive.switches": 5}
FIGURES = re.compile(r"handgrad\.(course\.figures|chapters\.\w+\.(figures|races))\.")


@rule(IN_CHAPTERS)
def rule_pictures_have_text(notebook):
    """A cell that shows a figure says what it shows, to those who cannot see it, and has a caption."""
    for cell, tree, names in with_names(notebook):
        last = tree.body[-1].value if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        name = origin(last.func, names) or "" if isinstance(last, ast.Call) else ""
        alt, caption = cell.metadata.get("alt", ""), cell.metadata.get("caption", "")
        moves, lacks = MOVES.get(name), f"{cell.id}: shows a figure; its metadata"  # alt is the last argument
        if FIGURES.match(name) and len(alt.split()) < 4:
            yield f"{lacks} alt must describe it, got {alt!r}"
        if (FIGURES.match(name) or moves) and len(caption.split()) < 4:
            yield f"{lacks} caption must say it, got {caption!r}"
        if moves and len(last.args) < moves and "alt" not in [k.arg for k in last.keywords]:
            yield f"{cell.id}: {name.removeprefix('handgrad.course.')} without alt"


@rule(IN_CHAPTERS)
def rule_answers_stay_closed(notebook):
    """A cell of asserts that follows a folded answer is folded as well: it would give the answer away."""
    for text, cell in pairwise(notebook.cells):
        folded = text.cell_type == "markdown" and re.search(r":class: dropdown|\{dropdown\}", text.source)
        if not folded or cell.cell_type != "code" or "hide-input" in cell.metadata.get("tags", []):
            continue
        if any(isinstance(node, ast.Assert) for node in ast.walk(parse(cell.source))):
            yield f"{cell.id}: asserts what {text.id} answers when unfolded; tag it hide-input"


@rule(IN_CHAPTERS)
def rule_states_its_time(notebook):
    """The metadata hold the reading time and the budget for the run, and the opening says both in words."""
    stated = notebook.metadata.get("handgrad", {})
    if stated.get("budget") not in (60, 240):
        yield f"metadata handgrad.budget: expected 60 seconds, 240 for training, got {stated.get('budget')}"
    minutes = stated.get("reading_minutes")
    if not isinstance(minutes, int) or not re.search(rf"\b{minutes}\s+minutes", opening(notebook)):
        yield f"metadata handgrad.reading_minutes is {minutes}: the opening must name the same number"
    if not re.search(r"\b(run|runs|running|execute|executes)\b", opening(notebook)):
        yield "the opening does not say how long the notebook runs"


SECOND = re.compile(r"^## Second reading$", re.MULTILINE)


@rule(IN_CHAPTERS)
def rule_core_stands_alone(notebook):
    """A chapter of two depths says how long its core takes, and nothing in the core leads behind it.

    The core ends at the heading "Second reading". To that heading, and to other chapters, anything may lead.
    """
    core, *second = SECOND.split(evidence.prose(notebook))
    if not second:
        return
    behind = set(PLACE.findall(second[0]))
    for _, label in LINK.findall(core):
        if label in behind:
            yield f"the core leads to {label}, in the second reading"
    minutes = notebook.metadata.get("handgrad", {}).get("core_minutes")
    if not isinstance(minutes, int) or not re.search(rf"\b{minutes}\s+minutes for the core", core):
        yield f"metadata handgrad.core_minutes is {minutes}: the opening says 'N minutes for the core'"


# What the headings of a chapter announce, in this order; two may share a heading.
SKELETON = {
    "the shipped lines": r"shipped|lines",
    "what breaks": r"break|wrong|without|forget",
    "training": r"train",
    "exercises": r"exercise",
    "the claims again": r"now|again|able",
    "the card": r"\bcard\b",
    "further reading": r"reading",
}


@rule(IN_CHAPTERS)
def rule_skeleton(notebook):
    """The opening says what one will be able to do; headings announce the parts in order; there is a quiz."""
    if "able to" not in opening(notebook):
        yield "the opening does not say what one will be able to do"
    if not any("quiz(" in cell.source for cell in code_cells(notebook)):
        yield "there is no quiz"
    left = re.findall(r"^#{1,3} (.+)$", evidence.prose(notebook), flags=re.MULTILINE)
    for part, word in SKELETON.items():
        place = [i for i, title in enumerate(left) if re.search(word, title, re.IGNORECASE)]
        if not place:
            yield f"no heading announces {part}, or it is out of order"
        left = left[place[0] if place else 0 :]


@rule(IN_CHAPTERS)
def rule_equations(notebook):
    """Every displayed equation has a label and a cell that checks it; see `evidence`."""
    yield from evidence.problems(notebook)


# The command ------------------------------------------------------------------------------------------------


def is_chapter(path):
    """Whether the file is a chapter: notebooks/NN_topic.ipynb, not in a folder of exercises or solutions."""
    path = Path(path).resolve()
    return path.parent.name == "notebooks" and re.match(r"\d\d_\w+\.ipynb", path.name) is not None


def complaints(path):
    """What the notebook in a file breaks, as sentences; [] if it keeps all rules that are meant for it.

    Of a notebook in which a code cell is not Python nothing else is said.
    """
    notebook, wrong = nbformat.read(path, as_version=4), []
    for cell in code_cells(notebook):
        try:
            parse(cell.source)
        except SyntaxError as error:
            wrong.append(f"{cell.id}: line {error.lineno} is not Python: {error.msg}")
    rules = ALWAYS + IN_CHAPTERS if is_chapter(path) else ALWAYS
    return wrong or [complaint for rule in rules for complaint in rule(notebook)]


def main(arguments=None):
    parser = argparse.ArgumentParser(
        prog="python -m handgrad.course.rules",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("notebooks", nargs="+", type=Path, metavar="NOTEBOOK")
    arguments = parser.parse_args(arguments)
    found = [f"{path}: {complaint}" for path in arguments.notebooks for complaint in complaints(path)]
    print("\n".join(found) or "no rule is broken")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
