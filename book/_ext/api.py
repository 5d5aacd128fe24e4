"""What handgrad offers as a library, from its docstrings.

A docstring is shown as it is written, as Markdown. What is set in columns, and examples, keep their lines.
"""

import importlib
import inspect
import operator
import re

OFFERED = {
    "handgrad.sums": "sizes index arrays labels total gradient prove_equal equal normal_form equation "
    "random_values evaluate",
    "handgrad.algebra": "namespace check_array check_like like root pi error_function scatter_add",
    "handgrad.ops.table": "Op shape NUMERIC_SIZES",
    "handgrad.check": "prove differences autograd module measured Pair Proof Differences Autograd TOLERANCE "
    "AUTOGRAD_TOLERANCE",
    "handgrad.page.checks": "Page.given Given.prove Given.holds Given.number",
    "handgrad.mistakes": "edited changed",
    "handgrad.mistakes.mutations": "wrong_backwards Mutant",
    "handgrad.course.ledger": "entry Entry table score refutations",
}
"""The names of each module, in the order in which they are explained; a method behind its class."""
IN_COLUMNS = re.compile(r"\w+ {2,}\S")  # such as "n     the number of terms"


def signature(name, thing):
    """How a thing is called, or its value if it is not."""
    if not callable(thing):
        return f"{name} = {thing!r}"
    if inspect.isclass(thing) and issubclass(thing, tuple):
        return f"{name}({', '.join(thing._fields)})"
    called = str(inspect.signature(thing)).partition(" ->")[0].replace("(self, ", "(")
    return name + re.sub(r"<function \S+ at 0x\w+>", "<function>", called)  # an address differs at each run


def shown(docstring):
    """A docstring as Markdown."""
    parts = re.split(r"\n\s*\n", inspect.cleandoc(docstring))
    kinds = ["pycon" if p.startswith(">>>") else "text" if IN_COLUMNS.match(p) else "" for p in parts]
    return "\n\n".join(
        f"```{kind}\n{part}\n```" if kind else part for kind, part in zip(kinds, parts, strict=True)
    )


def constants(module):
    """{name: its docstring} of the constants of a module: the string that stands below an assignment."""
    found = re.findall(r'^(\w+) = [^\n]*\n"""(.*?)"""', inspect.getsource(module), re.MULTILINE | re.DOTALL)
    return dict(found)


def entry(module, name):
    """One name as Markdown: how it is called, and its docstring. Raises ValueError if it has none."""
    thing = operator.attrgetter(name)(module)
    words = thing.__doc__ if callable(thing) else constants(module).get(name)
    if not words:
        raise ValueError(f"{module.__name__}.{name}: expected a docstring, got none")
    return f"```python\n{signature(name, thing)}\n```\n\n{shown(words)}\n"


def page(name):
    """A section for each name that a module offers, as Markdown."""
    module = importlib.import_module(name)
    return "\n".join(f"### {own}\n\n{entry(module, own)}" for own in OFFERED[name].split())
