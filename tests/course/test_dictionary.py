"""The symbols of the equations are those of the notation, and what breaks this is noticed."""

from pathlib import Path

import nbformat
import pytest

from handgrad.course import dictionary, evidence

ROOT = Path(__file__).parents[2]
NOTATION = (ROOT / "book" / "notation.md").read_text(encoding="utf-8")
CHAPTERS = [
    pytest.param(int(path.stem[:2]), path, id=path.stem)
    for path in sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))
]
BOOK = dictionary.read(NOTATION)

PAGE = r"""
| Letter | Stands for |
| :-- | :-- |
| $\mathbf{X}$, $\mathbf{W}_Q$ | tokens, a weight |
| $D$, $D'$ | widths |
| $j$ | a feature |

| Letter | Here and everywhere | And also |
| :-- | :-- | :-- |
| $m$ | | a mean, in chapters 2 and 4 to 6; $\mathbf{m}$, a row, in chapter 3 |
| $r$, $\rho$ | | a rate, in chapter 3 |

| | Here | Another text |
| :-- | :-- | :-- |
| Width | $D$ | $q$ |
"""
SMALL = dictionary.read(PAGE)


@pytest.mark.parametrize(
    "tex, found",
    [
        (r"\mathrm{d}\hat x_j = \frac{\partial L}{\partial x}", r"\mathrm{d} \hat x_ j L x"),
        (r"\mathbf{W}_Q^{(h)} + \mathbf{1c}^\top", r"\mathbf{W} h \mathbf{1} \mathbf{c}"),
        (r"w^O_{hK+c,\,l}", "w_ h K c l"),
        (r"w^{(2)}_{fj} + b_\mathrm{max} + L_\text{no way} + h_{\min}", "w_ f j b L h"),
        (r"e^{s_{ij}} e_{vi} \sqrt{e}", "e^ s_ i j e_ v e"),
        (r"\mathrm{relu}'(x) \ge \sigma^2_\ell \quad\text{if } T > 0", r"\mathrm{relu} ' x \sigma_ \ell T"),
        (r"\boldsymbol\Pi \mathsf{k}_{rt} \varepsilon", r"\boldsymbol{\Pi} \mathsf{k} r t \varepsilon"),
        (r"\bigg( \left\| y_0 \right\| \bigg)^{N-1} \\[4pt] \Phi", r"\| y_ N \Phi"),
        (r"\eta^\star n!", r"\eta \star n !"),
    ],
)
def test_symbols(tex, found):
    assert sorted(dictionary.symbols(tex)) == sorted(found.split())


def test_an_array_allows_its_rows_and_entries():
    assert dictionary.allowed(r"\mathbf{X}") == {r"\mathbf{X}", r"\mathbf{x}", "x_"}
    assert dictionary.allowed(r"\boldsymbol{\gamma}") == {r"\boldsymbol{\gamma}", r"\gamma_"}
    assert dictionary.allowed("D") == {"D"}


@pytest.mark.parametrize(
    "words, chapters",
    [
        ("in chapter 7", (7,)),
        ("in chapters 2, 4 to 6 and 20, and elsewhere", (2, 4, 5, 6, 20)),
        ("a row, in chapter 3, and another, in chapter 5", (3, 5)),
        ("in 7 chapters", ()),
    ],
)
def test_chapters_of(words, chapters):
    assert dictionary.chapters_of(words) == chapters


# The book ---------------------------------------------------------------------------------------------------


def text(path):
    """The prose of a chapter with its exercises and solutions."""
    paths = [path, path.parent / "exercises" / path.name, path.parent / "solutions" / path.name]
    return "\n\n".join(evidence.prose(nbformat.read(one, as_version=4)) for one in paths)


@pytest.mark.parametrize("number, path", CHAPTERS)
def test_every_symbol_of_a_chapter_is_in_the_dictionary(number, path):
    equations = evidence.equations(nbformat.read(path, as_version=4))
    assert dictionary.gaps(BOOK, number, [equation.formula for equation in equations]) == {}


@pytest.mark.parametrize("number, path", CHAPTERS)
def test_every_second_meaning_is_used_in_its_chapter(number, path):
    assert dictionary.idle(BOOK, number, text(path)) == []


def test_the_page_itself():
    formulas = [formula for _, formula in evidence.displayed(NOTATION)]
    assert dictionary.gaps(BOOK, 0, formulas) == {}
    assert BOOK.twice == ()
    assert {second.chapter for second in BOOK.seconds} <= {parameters.values[0] for parameters in CHAPTERS}
    assert len(BOOK.general) > 80 and len(BOOK.seconds) > 200


# What is wrong, and noticed ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "chapter, tex, missing",
    [
        (1, r"x_j + \mathbf{x} + \mathbf{W} + D' - D", "'"),
        (1, r"x + x_j", "x"),
        (1, r"D_j", "D_"),
        (1, r"\mathbf{D} = D", r"\mathbf{D}"),
        (1, r"\mathrm{swish}(x_j)", r"\mathrm{swish}"),
        (1, r"\hat x_j", r"\hat"),
        (1, "m", "m"),
        (3, "m", "m"),
        (2, r"\mathbf{m}", r"\mathbf{m}"),
        (2, r"\rho", r"\rho"),
        (2, "m_j", ""),
        (5, "m", ""),
        (3, r"m_j + \rho r", ""),
        (3, r"\mathbf{m}", ""),
    ],
)
def test_a_symbol_that_is_not_listed_for_its_chapter_is_a_gap(chapter, tex, missing):
    assert list(dictionary.gaps(SMALL, chapter, ["j", tex])) == missing.split()


def test_a_second_meaning_that_nobody_uses_is_idle():
    meaning = "a mean, in chapters 2 and 4 to 6"
    assert dictionary.idle(SMALL, 4, "Here $M$ is no mean, and $$x = \\mathbf{X}$$ none.") == [
        f"m: {meaning}"
    ]
    assert dictionary.idle(SMALL, 4, "Words, $a$ word, $$a = m_j .$$ Not all.") == []
    assert len(dictionary.idle(SMALL, 3, r"There is $\mathbf{m}$.")) == 1
    assert dictionary.idle(SMALL, 3, r"There are $\mathbf{m}$ and $\rho$, not the other.") == []
    assert dictionary.idle(SMALL, 7, "Nothing is listed for this chapter.") == []


def test_a_symbol_with_two_rows_is_noticed():
    again = PAGE.replace("| $j$ | a feature |", "| $j$ | a feature |\n| $\\mathbf{x}$, $j$ | a wish |")
    assert set(dictionary.read(again).twice) == {"j", r"\mathbf{x}", "x_"}
    assert SMALL.twice == ()


@pytest.mark.parametrize(
    "old, new, message",
    [
        (", in chapters 2 and 4 to 6", "", "expected a chapter with each second meaning of"),
        ("$j$ |", "the letter |", "expected a symbol in the first column .* got 'the letter'"),
        ("$j$ |", "$12$ |", "expected a symbol in the first column"),
    ],
)
def test_a_page_that_cannot_be_read_is_refused(old, new, message):
    assert old in PAGE
    with pytest.raises(ValueError, match=message):
        dictionary.read(PAGE.replace(old, new, 1))
