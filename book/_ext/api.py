"""The directive ``{api} MODULE``: what a module offers, from its docstrings. Content: the names, in order.

A docstring is shown as it is written, as Markdown. What is set in columns, and examples, keep their lines.
"""

import importlib
import inspect
import re

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

IN_COLUMNS = re.compile(r"\w+ {2,}\S")  # such as "n     the number of terms"


def signature(name, thing):
    """How a thing is called, or its value if it is not."""
    if not callable(thing):
        return f"{name} = {thing!r}"
    if inspect.isclass(thing) and issubclass(thing, tuple):
        return f"{name}({', '.join(thing._fields)})"
    return f"{name}{inspect.signature(thing)}".replace("<function <lambda>", "<function").partition(" ->")[0]


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
    thing = getattr(module, name)
    words = thing.__doc__ if callable(thing) else constants(module).get(name)
    if not words:
        raise ValueError(f"{module.__name__}.{name}: expected a docstring, got none")
    return f"```python\n{signature(name, thing)}\n```\n\n{shown(words)}\n"


class Api(SphinxDirective):
    """A section for each name. Argument: a module; content: the names, in order."""

    required_arguments = 1
    has_content = True

    def run(self):
        module = importlib.import_module(self.arguments[0])
        self.env.note_dependency(inspect.getsourcefile(module))
        sections = []
        for name in " ".join(self.content).split():
            section = nodes.section("", nodes.title(name, name), ids=[f"{module.__name__}.{name}"])
            text = StringList(entry(module, name).splitlines(), module.__name__)
            self.state.nested_parse(text, self.content_offset, section)
            sections.append(section)
        return sections


def setup(app):
    app.add_directive("api", Api)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
