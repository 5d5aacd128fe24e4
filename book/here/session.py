"""Runs the cells of a page as Jupyter does: in one namespace, the value of the last line shown.

What happens is printed as lines of JSON, which the page reads: {"kind": "text"}, {"kind": "shown"} with HTML,
{"kind": "error"}, and {"kind": "done"} at the end of a cell.
"""

import ast
import html
import io
import json
import linecache
import sys
import traceback

PRINTED = sys.stdout
SPACE = {"__name__": "__main__"}
LACKING = {"torch", "numba"}  # compiled for processors only; a cell that imports one is left out


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
    """Show values, as a notebook does."""
    for value in values:
        say("shown", html=shown(value))


def shown(value):
    """The HTML of a value."""
    for method in ("_repr_html_", "_repr_svg_"):
        made = getattr(value, method, lambda: None)()
        if made is not None:
            return made
    if hasattr(value, "savefig"):  # a figure of matplotlib
        drawn = io.StringIO()
        value.savefig(drawn, format="svg")
        return drawn.getvalue()
    return f"<pre>{html.escape(repr(value))}</pre>"


def run(name, source):
    """Run a cell, whose name stands in what goes wrong; the last thing told is whether it went well."""
    file = f"<{name}>"
    linecache.cache[file] = len(source), None, source.splitlines(True), file
    try:
        tree = ast.parse(source, file)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, file, "exec"), SPACE)
        if last and not source.rstrip().endswith(";"):
            value = eval(compile(ast.Expression(last.value), file, "eval"), SPACE)
            if value is not None:
                display(value)
        went_well = True
    except BaseException as error:
        went_well = isinstance(error, ModuleNotFoundError) and error.name in LACKING
        if went_well:
            say("text", name="stdout", text=f"There is no {error.name} in this page: the cell is left out.\n")
        else:
            say("error", text=told(error))
    say("done", went_well=went_well)


def told(error):
    """The traceback, from the learner's first line on."""
    frames = error.__traceback__
    while frames and frames.tb_frame.f_globals.get("__name__") == __name__:
        frames = frames.tb_next
    return "".join(traceback.format_exception(type(error), error, frames)).rstrip()


sys.stdout, sys.stderr = Told("stdout"), Told("stderr")
SPACE["display"] = display
