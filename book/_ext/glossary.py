"""A glossary is a definition list of Markdown, as mystmd reads it; Sphinx has its own notation for one."""

from docutils import nodes
from sphinx import addnodes
from sphinx.domains.std import make_glossary_term
from sphinx.util.docutils import SphinxDirective


class Glossary(SphinxDirective):
    """Makes each term of the list one that the role ``{term}`` leads to."""

    has_content = True

    def run(self):
        box = addnodes.glossary("", sorted=False)
        self.state.nested_parse(self.content, self.content_offset, box)
        for term in list(box.findall(nodes.term)):
            place = (None, term.source, term.line, None, self.state.document)
            term.replace_self(make_glossary_term(self.env, term.children, *place))
        box.children[0]["classes"].append("glossary")
        return [box]


def setup(app):
    app.add_directive_to_domain("std", "glossary", Glossary, override=True)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
