"""Runs the cells of a page as Jupyter does: in one namespace, the value of the last line shown.

What happens is printed as lines of JSON, which the page reads: {"kind": "text"}, {"kind": "shown"} with HTML,
{"kind": "error"}, {"kind": "left"} with the reason why a cell cannot run here, {"kind": "done"} at the end.

A cell that stands as the book has it, below cells that do, has run where the book was built. If it fails
here, the page lacks something: the cell is left out, and so is every other that needs names it should make.
"""

import ast
import base64
import builtins
import dis
import html
import io
import json
import linecache
import logging
import os
import sys
import traceback
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

PRINTED = sys.stdout
HERE = Path(__file__).parent
LOST = set()  # names that cells which cannot run here should have made


def say(kind, **rest):
    PRINTED.write(json.dumps({"kind": kind, **rest}) + "\n")
    PRINTED.flush()


class Told(io.TextIOBase):
    """What a cell prints."""

    def __init__(self, name):
        self.name = name

    def write(self, text):
        if text:
            say("text", name=self.name, text=text)
        return len(text)


def display(*values):
    """Show values, as a notebook does. What holds formulas is not typeset here, and says so."""
    for value in values:
        made = shown(value)
        say("shown", html=made, formulas="tex2jax_process" in made)


def shown(value):
    """The HTML of a value."""
    for method in ("_repr_html_", "_repr_svg_"):
        made = getattr(value, method, lambda: None)()
        if made is not None:
            return made
    if hasattr(value, "savefig"):  # a figure of matplotlib
        drawn = io.BytesIO()
        value.savefig(drawn, format="svg", bbox_inches="tight")
        source = base64.b64encode(drawn.getvalue()).decode()
        return f'<img alt="what this cell draws" src="data:image/svg+xml;base64,{source}">'
    return f"<pre>{html.escape(repr(value))}</pre>"


class Missing:
    """Stands for what a cell imports and this page lacks. Importing it is no error; using it is."""

    def __init__(self, module):
        self._module = module

    def __getattr__(self, name):
        raise ModuleNotFoundError(f"There is no {self._module} in this page", name=self._module)

    def __call__(self, *args, **kwargs):
        return self.__getattr__("__call__")


def import_in_cell(name, globals=None, locals=None, fromlist=(), level=0):
    """The import of a cell: what the book has and this page lacks is a `Missing`; a misspelling raises."""
    try:
        return builtins.__import__(name, globals, locals, fromlist, level)
    except ModuleNotFoundError as error:
        if error.name not in ELSEWHERE:
            raise
        if not fromlist:
            return Missing(error.name)
        if len(fromlist) == 1:
            return SimpleNamespace(**{fromlist[0]: Missing(error.name)})
        each = {n: getattr(import_in_cell(name, globals, locals, (n,), level), n) for n in fromlist}
        return SimpleNamespace(**each)


def run(name, source, shipped=False):
    """Run a cell, whose name stands in what goes wrong; the last thing told is whether it went well.

    shipped: it stands as the book has it, and so do those above.
    """
    file = f"<{name}>"
    linecache.cache[file] = len(source), None, source.splitlines(True), file
    before = dict(SPACE)
    try:
        tree = ast.parse(source, file)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, file, "exec"), SPACE)
        if last and not source.rstrip().endswith(";"):
            value = eval(compile(ast.Expression(last.value), file, "eval"), SPACE)
            if value is not None:
                display(value)
    except BaseException as error:
        why = lacking(error) or (shipped and f"it ends with {type(error).__name__}: {first_line(error)}")
        if why:
            return leave_out(name, source, why, before)
        say("error", text=told(error))
        return say("done", went_well=False)
    say("done", went_well=True)


def leave_out(name, source, why, before=None):
    """Go on without a cell: the names that it has not made are lost, also where a cell above made them."""
    before = dict(SPACE) if before is None else before
    for earlier, step in pairwise(dis.get_instructions(compile(source, f"<{name}>", "exec"))):
        own = step.argval
        imported = earlier.opname.startswith("IMPORT") and own in SPACE
        if step.opname == "STORE_NAME" and not imported and SPACE.get(own) is before.get(own):
            SPACE.pop(own, None)
            LOST.add(own)
    say("left", text=f"This cell cannot run here: {why}.")
    say("done", went_well=True)


def lacking(error):
    """What a cell needs and this page does not have, in words; None for another error."""
    if isinstance(error, NameError) and error.name in LOST:
        return f"it needs {error.name}, made by a cell that cannot run here"
    if isinstance(error, ModuleNotFoundError) and error.name in ELSEWHERE:
        return f"it needs {error.name}, which is not in this page"
    return None


def first_line(error):
    return (str(error).strip().splitlines() or [""])[0][:200]


def told(error):
    """The traceback, without the lines of this file."""
    whole = traceback.TracebackException.from_exception(error)
    whole.stack = traceback.StackSummary.from_list(f for f in whole.stack if f.filename != __file__)
    return "".join(whole.format()).rstrip()


logging.getLogger("matplotlib").setLevel("ERROR")  # which warns that it cannot keep its list of fonts
sys.stdout, sys.stderr = Told("stdout"), Told("stderr")
SPACE = {"__name__": "__main__", "display": display}
SPACE["__builtins__"] = {**vars(builtins), "__import__": import_in_cell}
ELSEWHERE = set()  # the modules that are there where the book is built
if HERE.joinpath("notebooks").is_dir():
    ELSEWHERE.update(HERE.joinpath("elsewhere.txt").read_text().split())
    os.chdir(HERE / "notebooks")  # what a chapter reads lies beside it
