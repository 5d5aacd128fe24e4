"""The gradient ledger: what each witness says about each operation, found at the moment of asking.

`entry` sets the witnesses on one operation, and its wrong gradients on the witnesses; `ledger` does so for
all of `handgrad.ops.table.OPS`; `page` writes the result as MyST Markdown. Nothing is stored: the numbers in
the book are those of the build that made its pages.
"""

import inspect
import re
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import optree

from .. import check
from ..ops.table import NUMERIC_SIZES, OPS
from ..wrong import wrong_gradients

SEED = 0


@dataclass(frozen=True)
class Entry:
    """One line of the ledger. Errors are relative and the worst over all gradients of the operation."""

    name: str
    proved: int  # identities that SymPy proved, one for each entry of each gradient
    seconds: float  # that the proof took
    float64: float  # against central differences in float64
    digits50: float  # against central differences with 50 digits
    autograd: float  # against torch.autograd, float64
    refuted: int  # wrong gradients that both float64 and autograd refuted


def entry(name):
    """Run the witnesses on the operation of that name. Raises AssertionError if one of them objects."""
    op = OPS[name]
    begin = time.perf_counter()
    proved = check.prove(op)
    seconds = time.perf_counter() - begin
    return Entry(
        name,
        proved,
        seconds,
        check.differences(op, np.random.default_rng(SEED)),
        check.differences(op, np.random.default_rng(SEED), digits=50),
        check.autograd(op, np.random.default_rng(SEED)),
        refuted(name),
    )


def refuted(name):
    """How many wrong gradients of an operation there are; AssertionError if a numeric witness accepts one."""
    count = 0
    for what, op in wrong_gradients(name).items():
        if differs(OPS[name], op):
            for witness in (check.differences, check.autograd):
                assert rejects(witness, op), f"{name}, {what}: {witness.__name__} accepts it"
            count += 1
    return count


def rejects(witness, op):
    """Whether a witness objects to an operation. Any other error than its objection is passed on."""
    try:
        witness(op, np.random.default_rng(SEED))
    except AssertionError:
        return True
    return False


def differs(op, other):
    """Whether the gradients of two operations with the same forward differ on random inputs.

    They need not: the true gradient of the keys' bias is 0, and twice that is no wrong gradient.
    """
    rng = np.random.default_rng(SEED)
    inputs, options = op.draw(NUMERIC_SIZES, rng)
    y, cache = op.forward(**inputs, **options)
    dy = np.asarray(rng.standard_normal(np.shape(y)))[()]  # a scalar has a shape too
    right, wrong = (
        np.concatenate([np.ravel(g) for g in optree.tree_leaves(f(dy, cache))])
        for f in (op.backward, other.backward)
    )
    return bool(np.abs(right - wrong).max() > 1e-9 * np.abs(right).max())


def ledger():
    """The entries of all operations, in the order of OPS."""
    return [entry(name) for name in OPS]


def power(error):
    """An error as TeX, to one digit: 2 · 10⁻¹¹; 0 if there is none."""
    if error == 0:
        return "0"
    mantissa, exponent = f"{error:.0e}".split("e")
    return rf"${mantissa}\cdot10^{{{int(exponent)}}}$"


def section(source):
    """The source with the word "section" where only a number stands: "Ba et al. (2016), section 3"."""
    return re.sub(r"(?<=\), )(?=\d)", "section ", source)


def chapter(number, folder):
    """A link to the chapter of that number in the folder of notebooks, or the words that it is planned."""
    for path in Path(folder).glob(f"{number}_*.ipynb"):
        return f"{{doc}}`/notebooks/{path.stem}`"
    return f"chapter {int(number)}, planned"


def file(function):
    """Where a function is written: `ops/normalization.py`."""
    path = Path(inspect.getsourcefile(function))
    return path.relative_to(Path(__file__).parents[1]).as_posix()


def table(entries):
    """The entries as a Markdown table."""
    head = ["Operation", "Proof", "Seconds", "float64", "50 digits", "autograd", "Refuted"]
    rows = [
        [f"`{e.name}`", f"{e.proved}", f"{e.seconds:.1f}"]
        + [power(e.float64), power(e.digits50), power(e.autograd), f"{e.refuted}"]
        for e in entries
    ]
    align = [":--"] + ["--:"] * (len(head) - 1)
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, align, *rows])


# The d of a gradient, which OPS writes as a plain letter: before an array, or before x, y or L.
GRADIENT = re.compile(r"(?<![\\A-Za-z])d(?=\\mathbf|\\hat|[xyL](?![A-Za-z]))")


def formula(op):
    """The formula of an operation as TeX, with an upright d, and one gradient on each line to fit a phone."""
    lines = GRADIENT.sub(r"\\mathrm{d}", op.formula).split(r",\; ")
    return "\\begin{gathered}\n" + ",\\\\\n".join(lines) + "\n\\end{gathered}"


def page(entries, folder):
    """The ledger as MyST Markdown: the table of the witnesses, then each formula, source, file and chapter.

    entries: from `ledger`; folder: of the chapter notebooks, to link those that exist.
    """
    parts = [table(entries)]
    for e in entries:
        op = OPS[e.name]
        facts = [section(op.source), f"`{file(op.forward)}`", chapter(op.chapter, folder)]
        parts += [f"**`{e.name}`**", f"$$\n{formula(op)}\n$$", " · ".join(facts)]
    return "\n\n".join(parts)
