r"""A sheet of *Prove here* as a part of a page: ``{sheet} experts`` shows its letters, formulas and lines.

The file in book/_static/here/sheets is the only text: the page shows it, *Prove here* opens it, and a test
proves it.
"""

from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from handgrad.page.sheet import parts

SHEETS = Path(__file__).parents[1] / "_static/here/sheets"


class Sheet(SphinxDirective):
    """The sheet of this name; one that is in the menu has a link that opens it there."""

    required_arguments = 1

    def run(self):
        (name,) = self.arguments
        file = SHEETS / f"{name}.txt"
        self.env.note_dependency(str(file))
        letters, formulas, lines = parts(file.read_text(encoding="utf-8"))
        tex = r" \\[0.4em] ".join(formula.replace("=", "&=", 1) for formula in formulas)
        tex = rf"\begin{{aligned}} {tex} \end{{aligned}}"
        shown = [nodes.paragraph("", "", nodes.Text("Letters: "), nodes.literal(text=letters))]
        shown.append(
            nodes.math_block(tex, tex, number=None, label=None, nowrap=True, docname=self.env.docname)
        )
        if lines.strip():
            shown.append(nodes.literal_block(lines.rstrip(), lines.rstrip(), language="python"))
        if "/" not in name:
            where = f"prove_here.html?example={name}"
            link = nodes.reference("", "Open it in Prove here", refuri=where, internal=True)
            shown.append(nodes.paragraph("", "", link))
        return shown


def setup(app):
    app.add_directive("sheet", Sheet)
    return {"parallel_read_safe": True}
