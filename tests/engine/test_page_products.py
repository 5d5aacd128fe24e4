"""Products over an index, with numbers: of every length they have no proof here."""

import pytest

from handgrad.page import Page
from handgrad.page.algebras import Unprovable

TELESCOPE = r"$$ \prod_{k=\ell}^{N-1} \frac{k + 2}{k + 1} = \frac{N + 1}{\ell + 1} $$ (eq-a)"


def test_a_product_is_computed_and_not_proved():
    page = Page(TELESCOPE).given(letters="ell < N")
    page.holds("eq-a")
    with pytest.raises(Unprovable, match="a product of every length"):
        page.prove("eq-a")


@pytest.mark.parametrize(
    "old, new", [("k + 2", "k + 3"), (r"k=\ell", "k=0"), ("{N + 1}", "{N}"), (r"\prod", r"\sum")]
)
def test_a_wrong_product_is_refuted(old, new):
    with pytest.raises(AssertionError):
        Page(TELESCOPE.replace(old, new)).given(letters="ell < N").holds("eq-a")


def test_a_product_leaves_out_what_its_limits_leave_out():
    page = Page(r"$$ \prod_{k=2}^{N-1} x_k = \frac{\prod_{k=0}^{N-1} x_k}{x_0 x_1} $$ (eq-a)")
    page.given(letters="x (N)").holds("eq-a")
