"""Formulas are set when the book is built, by KaTeX: a page shows them at once, and asks for no script.

Beside the letters that are seen stands MathML, which a screen reader speaks. A formula that KaTeX cannot set
is a warning, and a warning stops the build. The styles and letters in book/_static/katex are KaTeX's own,
without the formats that only old browsers need.
"""

import re
from functools import cache
from pathlib import Path

from docutils import nodes
from py_mini_racer import JSEvalException, MiniRacer
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number

logger = logging.getLogger(__name__)

KATEX = Path(__file__).parents[1] / "_static/katex/katex.min.js"
MACROS = {r"\top": r"{\mathsf{T}}"}  # a transpose that is no bar on a coarse screen


@cache
def engine():
    engine = MiniRacer()
    engine.eval(KATEX.read_text())
    return engine


def setting(node, display):
    """The HTML of a formula; its TeX, and a warning, if KaTeX cannot set it."""
    options = {"displayMode": display, "macros": MACROS, "strict": "error", "output": "htmlAndMathml"}
    try:
        return engine().call("katex.renderToString", node.astext(), options)
    except JSEvalException as error:
        reason = next(line for line in str(error).splitlines() if "rror:" in line)
        logger.warning("cannot set the formula %s: %s", node.astext(), reason, location=node, type="formulas")
        return f"<code>{node.astext()}</code>"


def visit_math(self, node):
    self.body.append(self.starttag(node, "span", "", CLASS="math") + setting(node, display=False) + "</span>")
    raise nodes.SkipNode


def visit_displaymath(self, node):
    self.body.append(self.starttag(node, "div", CLASS="math"))
    if node["number"]:
        self.body.append(f'<span class="eqno">({get_node_equation_number(self, node)})')
        self.add_permalink_ref(node, "Link to this equation")
        self.body.append("</span>")
    self.body.append(setting(node, display=True) + "</div>\n")
    raise nodes.SkipNode


def hold_marks(app, doctree, docname):
    """Set the comma behind a formula with it: no line begins with a comma."""
    for node in doctree.findall(nodes.math):
        follows = node.next_node(descend=False, siblings=True)
        mark = isinstance(follows, nodes.Text) and re.match(r"[.,;:!?)]+", follows)
        if mark:
            follows.parent.replace(follows, nodes.Text(follows[mark.end() :]))
            node += nodes.Text(rf"\text{{{mark[0]}}}")


def styles(app, pagename, templatename, context, doctree):
    """A page without formulas needs none of their styles."""
    if 'class="katex' in context.get("body", ""):
        app.add_css_file("katex/katex.min.css")


def setup(app):
    app.add_html_math_renderer("katex", (visit_math, None), (visit_displaymath, None))
    app.connect("doctree-resolved", hold_marks)
    app.connect("html-page-context", styles)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
