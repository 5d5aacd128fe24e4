"""Exercises as the notebooks of solutions state them: nothing is declared a second time.

The cell ID-answer of an exercise defines the right answer between its marks; what this uses of the cells
above is taken from there. The docstring tells what comes in and out, with shapes, "ds (B, H, T, S), q, k (B,
T, K) -> dq, dk (B, T, K)". The Markdown cell ID-hints is the list of hints. What a docstring does not say
stands in the metadata of the cell, under `handgrad`:

    asks       what it tests, a sentence for teachers that does not tell the answer
    domains    of a formula: {argument: "real", "positive", "count" or "delta"}
    draws      {argument: how it is drawn}, where that is not "normal"
    special    {case: {argument: how}}, besides the cases that every exercise has
    only       {case: words}, what it means if nothing else is wrong
    ideas      [[words, {old: new}]], a few wrong ideas that no slip makes, as changes of the right answer
    reserved   the operations of the package that do all the work

How an argument is drawn is the code of a function (rng, shape) -> array, in the words of `draws` and of
`handgrad.chapters.TOPIC.inputs`; before it may stand letters, "T S: reach", if its shape is another one.
"""

import ast
import builtins
import functools
import importlib
import importlib.util
import inspect
import json
import linecache
import re
from pathlib import Path

import numpy as np

from ... import ops
from . import draws
from .derivation import Derivation
from .function import Exercise
from .search import Idea

BEGIN = "# BEGIN SOLUTION"
_PACKAGE = Path(__file__).parents[2]
SOLUTIONS = next(
    p for p in (_PACKAGE / "solutions", _PACKAGE.parents[1] / "notebooks/solutions") if p.is_dir()
)
"""The notebooks: in the package where it is installed, else in the repository around it."""
SHAPED = re.compile(r"((?:\w+, )*\w+)(?: \(([^()]*)\))?(?:, |$)")


@functools.cache
def chapters():
    """{topic: {name: exercise}} of every chapter that has exercises, in the order of its notebook."""
    found = {path.stem[3:]: exercises(path) for path in sorted(SOLUTIONS.glob("[0-9]*.ipynb"))}
    return dict(sorted(found.items()))


def exercises(path):
    """{name: exercise} of a notebook. Raises ValueError that names the cell if one cannot be read."""
    cells = {cell["id"]: cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]}
    above, found = [], {}
    for place, cell in cells.items():
        if cell["cell_type"] != "code":
            continue
        source = "".join(cell["source"])
        if BEGIN in source:
            hints = cells.get(place.replace("-answer", "-hints"), {"source": ""})["source"]
            try:
                answer = right(source, above, found, f"<{path.name}, {place}>")
                stated = exercise(answer, cell["metadata"].get("handgrad", {}), "".join(hints), path.stem[3:])
            except (ValueError, SyntaxError, NameError) as error:
                raise ValueError(f"{path.name}, cell {place}: {error}") from error
            found[stated.name] = stated
        above += ast.parse(source).body
    return found


def exercise(answer, more, hints, topic):
    """The exercise of a right answer, and of what its cell says besides."""
    ideas = tuple(Idea(words, changes) for words, changes in more.get("ideas", ()))
    words = dict(ideas=ideas, hints=items(hints), asks=more["asks"])
    if "domains" in more:
        return Derivation(answer, more["domains"], **words)
    shapes, outputs = signature(answer.__doc__ or "")
    arguments = list(inspect.signature(answer).parameters)
    if set(shapes) != set(arguments):
        raise ValueError(f"docstring: expected shapes of {', '.join(arguments)}, found {', '.join(shapes)}")
    how = dict.fromkeys(arguments, "normal") | more.get("draws", {})
    if unknown := set(how) - set(arguments):
        raise ValueError(f"draws: expected arguments, {', '.join(arguments)}; got {', '.join(unknown)}")
    known = vars(draws) | odd_inputs(topic)
    inputs = {name: drawn(shapes[name], how[name], known) for name in arguments}
    special = {
        case: {name: drawn(inputs[name].letters, text, known) for name, text in changed.items()}
        for case, changed in more.get("special", {}).items()
    }
    return Exercise(
        answer,
        outputs=outputs,
        inputs=inputs,
        special=special,
        only=more.get("only", {}),
        reserved=tuple(getattr(ops, name) for name in more.get("reserved", ())),
        **words,
    )


def items(text):
    """The items of the list in a Markdown text, each in one line."""
    found = re.findall(r"^- (.*(?:\n  .*)*)", text, re.MULTILINE)
    return tuple(" ".join(item.split()) for item in found)


def signature(doc):
    """({argument: letters}, names of the results) of "q, k (B, T, K), g -> dq, dk (B, T, K), dg.".

    Raises ValueError if there is no arrow in it, or two.
    """
    sides = " ".join(doc.split()).split(".")[0].split(" -> ")
    if len(sides) != 2:
        raise ValueError(f"docstring: expected 'arguments -> results', got {doc!r}")
    shapes = {}
    for names, shape in SHAPED.findall(sides[0]):
        shapes |= dict.fromkeys(names.split(", "), " ".join(shape.replace(" ", "").replace(",", " ").split()))
    return shapes, tuple(name for names, _ in SHAPED.findall(sides[1]) for name in names.split(", "))


def drawn(letters, how, words):
    """The Draw that "normal" names, or "number(0.05)", or "T S: reach"."""
    shaped = re.match(r"([A-Z* ]*): ", how)
    code = how[shaped.end() :] if shaped else how
    return draws.Draw(shaped[1] if shaped else letters, eval(code, dict(words)))


def odd_inputs(topic):
    """What the room of a chapter adds to the words of `draws`."""
    name = f"handgrad.chapters.{topic}.inputs"
    return vars(importlib.import_module(name)) if importlib.util.find_spec(name) else {}


def right(source, above, found, file):
    """The function that a cell defines, with what it uses of the statements above and the answers found."""
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    tree = ast.parse(source)
    name = next(n.name for n in reversed(tree.body) if isinstance(n, ast.FunctionDef))
    scope = {"np": np, "__name__": f"handgrad.solutions.{file}"} | {
        f"right_{n}": e.answer for n, e in found.items()
    }
    for statement in used(tree.body, above, {*scope, *vars(builtins)}):
        exec(compile(ast.Module([statement], []), file, "exec"), scope)
    exec(compile(source, file, "exec"), scope)
    return scope[name]


def used(statements, above, known):
    """The functions and imports above which these statements use, directly or through one another."""
    wanted = {n.id for s in statements for n in ast.walk(s) if isinstance(n, ast.Name)} - known
    needed = [
        s for s in above if isinstance(s, ast.FunctionDef | ast.ImportFrom | ast.Import) and made(s) & wanted
    ]
    return [*used(needed, above, known | wanted), *needed] if needed else []


def made(statement):
    """The names that a function or an import gives to something."""
    if isinstance(statement, ast.FunctionDef):
        return {statement.name}
    return {(alias.asname or alias.name).split(".")[0] for alias in statement.names}
