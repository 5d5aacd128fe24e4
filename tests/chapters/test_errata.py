"""Chapter 21: what belongs to it and to nobody else."""

import itertools
import re
from collections import Counter
from pathlib import Path

import nbformat
import numpy as np
import pytest
import torch
from judging import gradients, solution
from sympy import factor, summation, symbols
from torch.nn import functional

from handgrad.chapters.errata import claims
from handgrad.course import judge, plan
from handgrad.ops import attention, attention_backward

ROOT = Path(__file__).parents[2]
CLAIMS = claims.load()
TITLES = {chapter.number: chapter.name for chapter in plan.chapters(ROOT)}


# The claims -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.id)
def test_a_claim_has_its_form_and_its_place_exists(claim):
    assert claim.text in "ABCDE" and re.fullmatch(rf"{claim.text}-\S+-\d+", claim.id)
    assert claim.verdict in claims.VERDICTS and claim.group in claims.GROUPS
    assert claim.evidence in claims.EVIDENCE
    assert len(claim.says.split()) <= 25 and claim.says != claim.right
    for text in (claim.says, claim.right, claim.section):
        assert text and text == text.strip() and not re.search(r"""[|\n'"]""", text)
        assert text.count("$") % 2 == 0 and text.count("{") == text.count("}")
    if claim.chapter or claim.target:
        page = f"notebooks/{TITLES[claim.chapter]}.ipynb" if claim.chapter else "book/notation.md"
        assert f"({claim.target})=" in (ROOT / page).read_text(encoding="utf-8")


def test_every_error_has_a_claim_and_what_is_settled_is_never_called_wrong():
    verdicts = {group: {claim.verdict for claim in claims.of(group)} for group in claims.GROUPS}
    assert all(verdicts[group] for group in claims.GROUPS if group[0] == "E")
    half = {group for group in claims.GROUPS if group[0] == "E" and "wrong" not in verdicts[group]}
    assert half == {"E13", "E15", "E16", "E18", "E20", "E23"}
    assert not any("wrong" in verdicts[group] for group in claims.GROUPS if group[0] != "E")
    assert len({claim.id for claim in CLAIMS}) == len(CLAIMS)
    assert {group for group in claims.GROUPS if not verdicts[group]} == {"A2", "A3", "A9", "A16"}


def test_a_claim_that_is_called_wrong_was_shown_wrong():
    """By a run or a proof, unless it is a slip of the pen or speaks of a publication."""
    by_reading = {
        claim.group for claim in CLAIMS if claim.verdict == "wrong" and claim.evidence in claims.EVIDENCE[2:]
    }
    assert by_reading == {"E21", "E22", "E24"}


def test_a_table_has_a_row_for_each_claim_of_its_groups():
    shown = claims.table("E4 E1")
    head, rule, *rows = shown._repr_markdown_().splitlines()
    assert len(rows) == 2
    assert all(line.count("|") == 2 for line in (head, rule, *rows))
    assert (
        rows[1].startswith("| **E1.** D, 3.2: ✗ wrong (proof, chapter 2)<br>$")
        and "<br>**Right:** $" in rows[1]
    )
    assert "A4" in claims.table("A4").data and "R." not in claims.table("R").data
    with pytest.raises(ValueError, match="expected some of E1 to R, got E25"):
        claims.table("E1 E25")


def test_every_claim_stands_in_one_table_of_the_chapter():
    cells = nbformat.read(ROOT / "notebooks/21_errata.ipynb", as_version=4).cells
    tables = re.findall(r'claims\.table\("(.*)"\)', "\n".join(cell.source for cell in cells))
    assert Counter(" ".join(tables).split()) == Counter({claim.group for claim in CLAIMS})


# One verdict for each statement, through the whole book -----------------------------------------------------

LABELS = {
    "in print, and wrong": "wrong",
    "in print, to be read with care": "ambiguous",
    "left out in print": "incomplete",
}
SPOKEN_OF = re.compile(r"\bin (?:print|circulation)\b|\bone text says\b", re.IGNORECASE)
LINK = re.compile(r"{ref}`([^`<]*)<errata-([ea]\d+|rest)>`")


def gravest(found):
    """The verdict of several claims together: wrong before ambiguous before incomplete."""
    return min((claim.verdict for claim in found), key=list(claims.VERDICTS).index)


def named(text):
    """The claims of each link to an erratum; for errata-rest, those of the text and section in its words."""
    for words, group in LINK.findall(text):
        if group != "rest":
            yield claims.of(group.upper())
        else:
            yield [c for c in claims.of("R") if f"{c.text}, {c.section}" == words.strip()]


def refused(line):
    """What is wrong with a line that says what is in print: a sentence, or None.

    A row of a card has a label that says the verdict. Each of its statements names claims with that verdict,
    or the paper that it is from. A line of prose names a claim, a paper, or the list of the texts.
    """
    row = re.match(r"\| ([^|]*) \|(.*)\|$", line)
    if not (row and SPOKEN_OF.search(row[1])):
        sourced = LINK.search(line) or "{cite" in line or "</book/notation>" in line
        return None if sourced else "names no source"
    label, statements = row[1], re.split(r"(?<!\\);\s", row[2])
    if label not in LABELS:
        return f"expected one of the labels {', '.join(LABELS)}, got {label!r}"
    for statement in statements:
        groups = list(named(statement))
        if not groups and "{cite" not in statement:
            return f"names neither a claim nor a paper: {statement}"
        if not all(groups):
            return f"there is no such claim: {statement}"
        for group in groups:
            if gravest(group) != LABELS[label]:
                return f"{group[0].id} is {gravest(group)}: {statement}"
    return None


def spoken_of(file):
    """Pairs (cell, line) of the prose of a notebook that says what is in print."""
    for cell in nbformat.read(file, as_version=4).cells:
        for line in cell.source.splitlines() if cell.cell_type == "markdown" else ():
            if SPOKEN_OF.search(line) and not line.startswith("#"):
                yield cell.id, line


@pytest.mark.parametrize("title", [title for number, title in TITLES.items() if number != 21])
def test_what_a_chapter_says_is_in_print_has_the_verdict_of_the_list(title):
    lines = spoken_of(ROOT / f"notebooks/{title}.ipynb")
    assert [(cell, why) for cell, line in lines if (why := refused(line))] == []


def test_the_cards_are_read():
    """Each label stands on some card, so that the test above looks at something."""
    lines = [line for title in TITLES.values() for _, line in spoken_of(ROOT / f"notebooks/{title}.ipynb")]
    assert all(any(line.startswith(f"| {label} |") for line in lines) for label in LABELS)


@pytest.mark.parametrize(
    "line, words",
    [
        ("| in print, and wrong | a sign ({ref}`E17 <errata-e17>`) |", None),
        ("| in print, and wrong | a slip ({ref}`E22 <errata-e22>`); T² ({ref}`E16 <errata-e16>`) |", "B-1.8"),
        ("| in print, and wrong | a sign ({ref}`E17 <errata-e17>`); a divisor |", "names neither"),
        ("| the mistake in print | a sign ({ref}`E17 <errata-e17>`) |", "expected one of the labels"),
        ("| left out in print | dropout ({ref}`A, 12.9 <errata-rest>`) |", None),
        ("| left out in print | dropout ({ref}`A, 12.99 <errata-rest>`) |", "no such claim"),
        ("| in print, and wrong | a bound {cite}`kingma2015` |", None),
        ("A formula in circulation has no transpose.", "names no source"),
        ("A formula in circulation has no transpose ({ref}`E2 <errata-e2>`).", None),
    ],
)
def test_a_line_without_its_claim_is_refused(line, words):
    why = refused(line)
    assert why is None if words is None else words in why


# The answers, a second time ---------------------------------------------------------------------------------


def head(q, k, v):
    return torch.softmax(q @ k.mT / np.sqrt(q.shape[-1]), -1) @ v


def test_right_gradients_pass_the_two_refutations_and_wrong_ones_do_not():
    """The right gradients are those of autograd: whatever the loss, both sums are 0."""
    rng = np.random.default_rng(3)
    shapes = (5, 3), (7, 3), (7, 4), (5, 4)
    q, k, v, dy = (torch.tensor(rng.normal(size=shape), requires_grad=True) for shape in shapes)
    right = torch.autograd.grad((dy * head(q, k, v)).sum(), (q, k, v))
    q, k, dy = (x.detach().numpy() for x in (q, k, dy))
    dq, dk, dv = (x.numpy() for x in right)
    for wrong in ((dq, dk, dv), (2 * dq, dk, dv), (dq, 2 * dk, dv), (dq, dk, 0 * dv), (dq[::-1], dk, dv)):
        found = solution("two_refutations")(q, k, dy, *(x[None] for x in wrong))
        assert (max(found)[0] < 1e-12) == (wrong[0] is dq and wrong[1] is dk and wrong[2] is dv)


def test_a_turn_of_the_queries_is_what_the_first_refutation_says():
    """Place by place of the single 1 in N, and component by component of the row that is added."""
    rng = np.random.default_rng(4)
    q, k, v, dy = (rng.normal(size=shape) for shape in ((5, 3), (7, 3), (7, 4), (5, 4)))
    dq, dk, dv = attention_backward(dy, attention(q, k, v)[1])
    claimed = 3 * dq, dk - 0.5 * k, dv + 1
    slopes = []
    for i, j in itertools.product(range(3), range(3)):
        N = np.zeros((3, 3))
        N[i, j] = 1
        slopes.append((claimed[0] * (q @ N)).sum() - (claimed[1] * (k @ N.T)).sum())
    shifts = [(claimed[2][:, j] * 1.0).sum() - dy[:, j].sum() for j in range(4)]
    found = solution("two_refutations")(q, k, dy, *(x[None] for x in claimed))
    np.testing.assert_allclose(np.ravel(found), [np.abs(slopes).max(), np.abs(shifts).max()], rtol=1e-12)


def columns_loss(dz, x, W_q, W_k, W_v):
    """In columns, as the text has it."""
    X = x.mT
    Q, K, V = W_q @ X, W_k @ X, W_v @ X
    return (dz.mT * (V @ K.mT @ Q) / x.shape[1]).sum()


def weight_norm_loss(dy, x, v, g):
    layer = torch.nn.Linear(v.shape[0], v.shape[1], bias=False, dtype=v.dtype)
    layer = torch.nn.utils.parametrizations.weight_norm(layer, dim=0)
    weights = {
        "parametrizations.weight.original0": g[:, None],
        "parametrizations.weight.original1": v.T,
    }
    return (dy * torch.func.functional_call(layer, weights, x)).sum()


test_the_answers_are_the_gradients = gradients(
    ("columns_into_rows", columns_loss, "x W_k"),
    ("repaired_weight_norm", weight_norm_loss, "v g"),
)


def test_the_mean_of_means_is_that_of_torch():
    for case in judge.find("mean_of_means").cases:
        z, targets, keep = map(np.copy, case.inputs)  # torch indexes by no array that is read-only
        logits = torch.tensor(z, requires_grad=True)
        rows = [b for b in range(len(z)) if keep[b].any()]
        means = [
            functional.cross_entropy(logits[b][keep[b]], torch.tensor(targets[b][keep[b]])) for b in rows
        ]
        loss = sum(means) / len(means)
        loss.backward()
        found = solution("mean_of_means")(z, targets, keep)
        np.testing.assert_allclose(found[0], loss.item(), rtol=1e-12)
        np.testing.assert_allclose(found[1], logits.grad.numpy(), rtol=1e-10, atol=1e-14)


def test_the_crossover_is_counted_pair_by_pair():
    D, H, H_kv, K, F, T, i = symbols("D H H_kv K F T i", positive=True)
    square = H * 2 * K * summation(i + 1, (i, 0, T - 1))
    rest = T * (D * H * K + H * K * D + 2 * D * H_kv * K + 2 * D * F + F * D)
    at = solution("causal_crossover")(D, H, H_kv, K, F)
    assert factor(square - rest).subs(T, at).equals(0)
    assert solution("causal_crossover")(6, 2, 1, 2, 5) == 39.5


def as_printed(dy, x, v, g):
    dW, n = np.einsum("btd,btf->df", x, dy), np.linalg.norm(v, axis=0)
    dg = (dW * v).sum(0) / n
    return g / n * (dW - dg * v), dg


def test_the_line_in_print_passes_at_length_1_and_not_at_length_2():
    rng = np.random.default_rng(6)
    x, dy, v, g = (rng.normal(size=shape) for shape in ((2, 3, 4), (2, 3, 5), (4, 5), 5))
    for length, agrees in ((1.0, True), (2.0, False)):
        of_length = length * v / np.linalg.norm(v, axis=0)
        dv, dg = solution("repaired_weight_norm")(dy, x, of_length, g)
        assert np.allclose(as_printed(dy, x, of_length, g)[0], dv) == agrees
        np.testing.assert_allclose((dv * of_length).sum(axis=0), 0, atol=1e-12)
