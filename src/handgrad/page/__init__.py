r"""The page is the program: printed formulas, read and proved.

    page = read("05_normalization.ipynb")
    norm = page.given("eq-layer-norm", letters="x (T, D); gamma, beta (D); epsilon > 0")
    norm.prove("eq-layer-norm-dx")

`read` takes the labelled equations of a notebook or a Markdown file as they are now. `given` takes some of
them as definitions, with a list of the letters that they do not define. `prove` reads a further equation and
proves each of its "=" for every size; `holds` computes both sides on random numbers. Nothing is typed a
second time.
"""

from .checks import Page, read, stated
from .tree import Unreadable

__all__ = ["Page", "Unreadable", "read", "stated"]
