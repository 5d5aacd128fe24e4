"""What the page shows of code and of Markdown, for which it has neither colours nor formulas."""

from html import escape

from session import display

__all__ = ["Code", "Markdown", "display"]


class Code:
    def __init__(self, data, language=None):
        self.data = data

    def _repr_html_(self):
        return f"<pre>{escape(self.data)}</pre>"


class Markdown(Code):
    def _repr_html_(self):
        return f'<pre class="tex2jax_process">{escape(self.data)}</pre>'
