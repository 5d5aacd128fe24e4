"""The gradient ledger: what each witness says about each operation, found at the moment of asking.

`entry` sets the witnesses on one operation, and the wrong backwards that edits make of it on the witnesses;
`ledger` does so for all of `handgrad.ops.table.OPS`; `page` writes the result as MyST Markdown. `fast_entry`
compares the fast step, which trains the models, with the readable one, whose lines are proved. Nothing is
stored: the numbers in the book are those of the build that made its pages.
"""

import inspect
import re
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import optree

from .. import check, model
from ..algebra import is_shape
from ..config import bert_base, gpt2_small, llama_like, named, shapes, vaswani_base
from ..extras import needs
from ..mistakes.mutations import wrong_backwards
from ..ops.table import OPS
from .tables import markdown

with needs("fast"):
    from ..fast import step

SEED = 0
SMALL = dict(V=23, D=16, H=4, F=24, N=2, pad=0)
MODELS = {
    "Vaswani et al.": vaswani_base(**SMALL),
    "GPT-2": gpt2_small(**SMALL, T_max=9),
    "BERT": bert_base(**SMALL, T_max=9),
    "LLaMA": llama_like(**SMALL, H_kv=2),
}

IDENTITIES = {
    "what stands between is linear: a factor may be multiplied before it or after it": [
        "In `dE`: the factor `scale` belongs to `scale * rows`, not to `reshape(dy, (-1, dy.shape[-1]))`.",
        "In `dE`: the factor `scale` belongs to `scale * rows`, not to `scatter_add(index, scale * "
        "rows, V)`.",
        "In `dx`: the factor `x` belongs to `x * density`, not to "
        "`namespace(x).exp(-x * x / 2) / root(2 * pi(x), x)`.",
        "In `density`: the factor `x` belongs to `-x * x / 2`, not to `x`.",
        "In `dx`: the factor `x` belongs to `x * (1 - s) * two_du`, not to `root(2 / pi(x), x)`.",
        "In `dx`: the factor `x` belongs to `x * (1 - s) * two_du`, not to "
        "`2 * a + 6 * a * 44715 / 1000000 * (x * x)`.",
        "In `dg`: the factor `u` belongs to `dproduct * u`, not to `act_backward(dproduct * u, active)`.",
        "In `dg`: the factor `dproduct` belongs to `dproduct * u`, not to `act_backward(dproduct * "
        "u, active)`.",
        "In `dz`: the factor `dloss` belongs to `dloss * (p - q) / m`, not to "
        "`where(counted[..., None], dz, 0)`.",
        "In `through_variance`: the factor `x_hat` belongs to `x_hat * mean(dx_hat * x_hat)`, not to "
        "`through_variance`.",
        "In `through_rms`: the factor `x_hat` belongs to `x_hat * mean(dx_hat * x_hat)`, not to "
        "`through_rms`.",
        "In `dx`: the factor `inverse_std` belongs to "
        "`inverse_std * (dx_hat - through_mean - through_variance)`, not to `gamma * dy`.",
        "In `dx`: the factor `inverse_std` belongs to "
        "`inverse_std * (dx_hat - through_mean - through_variance)`, not to `dx`.",
        "In `dx`: the factor `inverse_rms` belongs to `inverse_rms * (dx_hat - through_rms)`, not to "
        "`gamma * dy`.",
        "In `dx`: the factor `inverse_rms` belongs to `inverse_rms * (dx_hat - through_rms)`, not to `dx`.",
        "In `dq`: the factor `scale` belongs to `scale * (dscores @ k)`, not to `dq`.",
        "In `dk`: the factor `scale` belongs to `scale * (dscores.mT @ q)`, not to `dk`.",
        "In `dq`: the factor `scale` belongs to `scale * dq`, not to `dscores @ k[..., j, :]`.",
        "In `dk`: the factor `scale` belongs to `scale * dk`, not to `dscores.mT @ q[..., i, :]`.",
    ],
    "factors may change places, and so may terms": [
        "Everywhere: `Phi` and `x` are exchanged.",
        "Everywhere: `density` and `x` are exchanged.",
        "In all of `dx`: `density` and `x` are exchanged.",
        "Everywhere: `s` and `x` are exchanged.",
        "Everywhere: `two_du` and `x` are exchanged.",
        "In all of `dx`: `two_du` and `x` are exchanged.",
        "Everywhere: `sigma` and `x` are exchanged.",
        "In all of `(dx_up, dW_up, _)`: `a` and `dproduct` are exchanged.",
        "In all of `dg`: `dproduct` and `u` are exchanged.",
        "Everywhere: `dx_gate` and `dx_up` are exchanged.",
        "In all of `dx`: `dx_gate` and `dx_up` are exchanged.",
        "Everywhere: `through_mean` and `through_variance` are exchanged.",
        "In all of `dx`: `through_mean` and `through_variance` are exchanged.",
        "In all of `dgamma`: `dy` and `x_hat` are exchanged.",
        "In all of `D`: `dy` and `y` are exchanged.",
        "Everywhere: `dmemory` and `dx` are exchanged.",
        "In all of `dx`: `dmemory` and `dx` are exchanged.",
    ],
    "x is the memory too, and its two gradients are added": [
        "multi_head_backward: In `the results`: they are in the wrong order.",
        "multi_head_backward: Everywhere: `dmemory_v` and `dx` are exchanged.",
    ],
    "its mean over the features is 0 already": [
        "In `x_hat`: the mean is taken away from `x_hat`.",
        "In `through_variance`: the mean is taken away from `x_hat`.",
        "In `dgamma`: the mean is taken away from `x_hat`.",
        "In `dx`: the mean is taken away from `through_variance`.",
        "In `dx`: the mean is taken away from `dx`.",
        "In `dz`: the mean is taken away from `dz`.",
        "In `dq`: the mean is taken away from `dscores`.",
        "In `dk`: the mean is taken away from `dscores`.",
        "In `dP`: the mean is taken away from `unused`.",
    ],
    "the features of x̂ sum to 0, so a shift of the other factor is not felt": [
        "In `through_variance`: the mean is taken away from `dx_hat`.",
    ],
    "the weights of a row sum to 1, so a shift of dA is taken away again": [
        "In `dscores`: the mean is taken away from `da`.",
    ],
    "there is no dropout here": [
        "In `da`: `dropout_backward` is left out, around `dy @ v.mT`.",
        "In `dh`: `dropout_backward` is left out, around `da`.",
    ],
    "here each head of keys serves one head of queries": [
        "In `dv`: `repeat_heads_backward` is left out, around `dv`.",
        "In `dk`: `repeat_heads_backward` is left out, around `dk`.",
        "Everywhere: `repeat_heads_backward` is left out.",
        "multi_head_backward: In `dv`: `repeat_heads_backward` is left out, around `dv`.",
        "multi_head_backward: In `dk`: `repeat_heads_backward` is left out, around `dk`.",
        "multi_head_backward: Everywhere: `repeat_heads_backward` is left out.",
    ],
    "rows_dy is dy, its tokens in one axis": [
        "In `dx`: `dy` stands where `rows_dy` should, in `rows_dy @ W.T`.",
        "In `db`: the sum runs over axis -2, not over axis 0, in `sum(rows_dy, axis=0)`.",
    ],
}
"""Why an edit changes nothing: each identity with the edits that it explains, and no edit without one."""


@dataclass(frozen=True)
class Entry:
    """One line of the ledger. Errors are relative and the worst over all gradients of the operation."""

    name: str
    proved: int  # identities that SymPy proved, one for each entry of each gradient
    seconds: float  # that the proof took
    float64: float  # against central differences in float64
    digits50: float  # against central differences with 50 digits
    autograd: float  # against torch.autograd, float64
    mutants: int  # wrong backwards; the proof and autograd refuted each of them
    float64_refuted: int  # of them, by differences in float64; 50 digits refuted the others
    same: dict  # edits that change nothing, with the identity that is the reason


def entry(name, op=None, identities=IDENTITIES):
    """Run the witnesses on an operation, and its wrong backwards on the witnesses: an `Entry`.

    op: an `Op`; that of OPS by this name if it is left out. identities: {why an edit changes nothing: the
    places of such edits, as `mutations.wrong_backwards` words them}.
    Raises AssertionError if a witness objects to the right backward or accepts a wrong one, or if an edit
    changes nothing and no identity says why; KeyError if OPS has no such name.

    >>> row = entry("softmax")
    >>> row.proved, row.float64_refuted == row.mutants
    (18, True)
    """
    op = OPS[name] if op is None else op
    why = {place: identity for identity, places in identities.items() for place in places}
    begin = time.perf_counter()
    proofs = [check.Proof(op, op.sizes | {"...": axes}) for axes in op.leading[:2]] or [check.Proof(op)]
    proved = sum(proof(op.backward) for proof in proofs)
    seconds = time.perf_counter() - begin
    float64, digits50 = (check.Differences(op, np.random.default_rng(SEED), digits=d) for d in (15, 50))
    autograd = check.Autograd(op, np.random.default_rng(SEED))
    errors = [witness(op.backward) for witness in (float64, digits50, autograd)]
    made = wrong_backwards(op)
    wrong, same = ([mutant for mutant in made if mutant.same is kind] for kind in (False, True))
    missed = [mutant for mutant in wrong if not rejects(float64, mutant)]
    trials = {"Proof accepts": (wrong, proofs), "Autograd accepts": (wrong, [autograd])}
    trials["differences accept"] = missed, [digits50]
    for fails, (mutants, witnesses) in trials.items():
        for mutant in mutants:
            if not any(rejects(witness, mutant) for witness in witnesses):
                raise AssertionError(f"{name}: {fails} it. {mutant.place}")
    for mutant in same:
        if mutant.place not in why:
            raise AssertionError(f"{name}: this changes nothing, and nobody says why. {mutant.place}")
        for proof in proofs:
            proof(mutant.backward)
    reasons = {mutant.place: why[mutant.place] for mutant in same}
    return Entry(name, proved, seconds, *errors, len(wrong), len(wrong) - len(missed), reasons)


def rejects(witness, mutant):
    """Whether a witness refutes a wrong backward. Any other error is passed on, "not proved" too."""
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="The use of `x.T` on tensors")  # a wrong edit uses it
            witness(mutant.backward)
    except check.NotProved:
        raise
    except AssertionError:
        return True
    return False


def ledger():
    """The entries of all operations, in the order of OPS."""
    return [entry(name) for name in OPS]


@dataclass(frozen=True)
class FastEntry:
    """What the comparison of the fast step with the readable one found, for one model."""

    name: str
    gradients: int  # arrays that were compared
    error: float  # the worst, relative to the largest entry of its array


def fast_entry(name, loss_and_gradients=step.loss_and_gradients):
    """Compare the loss and every gradient of a small model, float64, with random parameters and batch.

    name: of MODELS. Both steps add the same numbers in another order, so 1e-12
    is allowed: a few thousand roundings. Raises AssertionError beyond it.
    """
    config, rng = MODELS[name], np.random.default_rng(SEED)
    params = optree.tree_map(
        lambda shape: rng.standard_normal(shape) / 4 + (len(shape) == 1) / 2, shapes(config), is_leaf=is_shape
    )
    names = ("source", "target_in") if config.kind == "encoder-decoder" else ("tokens",)
    batch = {key: rng.integers(1, 9, (3, 7)) for key in (*names, "target_out")}
    if config.segments:
        batch["segments"] = rng.integers(0, config.segments, (3, 7))
    for key in (*names, "target_out"):
        batch[key][1, 5:] = config.pad
    wanted = model.loss_and_gradients(params, config, batch, label_smoothing=0.1)
    got = loss_and_gradients(params, config, batch, label_smoothing=0.1)
    errors = {"the loss": abs(float(got[0]) - wanted[0]) / abs(wanted[0])}
    errors |= relative_errors(got[1], wanted[1])
    for place, error in errors.items():
        if not error <= 1e-12:
            raise AssertionError(f"{name}, {place}: relative error {error:.1e}")
    return FastEntry(name, len(errors) - 1, max(errors.values()))


def relative_errors(grads, wanted):
    """{place: the error of this gradient, relative to its largest entry}, for two trees of gradients.

    The bias of the keys moves all scores of a row alike: its gradient is 0 but for rounding, and is compared
    on the scale of the largest gradient. Raises AssertionError if the trees hold other gradients.
    """
    paths = optree.tree_paths(wanted)
    if optree.tree_paths(grads) != paths:
        raise AssertionError("the gradients are others")
    largest = max(np.abs(x).max() for x in optree.tree_leaves(wanted))
    errors = {}
    for path, x, y in zip(paths, optree.tree_leaves(grads), optree.tree_leaves(wanted), strict=True):
        size = largest if path[-1] == "b_K" else np.abs(y).max()
        errors[named(path)] = np.abs(np.asarray(x) - y).max() / size
    return errors


def fast_table(entries):
    """What `fast_entry` found, as a Markdown table."""
    rows = [[e.name, str(e.gradients), power(e.error)] for e in entries]
    return markdown(["Model", "Gradients", "Worst error"], rows)


def power(error):
    """An error as TeX, to one digit: 2 · 10⁻¹¹; 0 if there is none."""
    mantissa, exponent = f"{error:.0e}".split("e")
    return rf"${mantissa}\cdot10^{{{int(exponent)}}}$" if error else "0"


def file(function):
    """Where a function is written: `ops/normalization.py`."""
    path = Path(inspect.getsourcefile(function))
    return path.relative_to(Path(__file__).parents[1]).as_posix()


def table(entries):
    """What the witnesses say of the right backwards, as a Markdown table."""
    rows = [
        [f"`{e.name}`", f"{e.proved}", f"{e.seconds:.1f}"]
        + [power(e.float64), power(e.digits50), power(e.autograd)]
        for e in entries
    ]
    proved, seconds = sum(e.proved for e in entries), sum(e.seconds for e in entries)
    rows.append(["all", f"{proved}", f"{seconds:.1f}", "", "", ""])
    return markdown(["Operation", "Proof", "Seconds", "float64", "50 digits", "autograd"], rows)


def refutations(entries):
    """How many wrong backwards each witness refuted, and how many edits change nothing, as a table."""
    rows = [[f"`{e.name}`", e.mutants, e.mutants, e.float64_refuted, e.mutants, len(e.same)] for e in entries]
    rows.append(["all", *(sum(column) for column in zip(*(row[1:] for row in rows)))])
    head = ["Operation", "Mutants", "Proof", "float64", "autograd", "Same"]
    return markdown(head, [[str(cell) for cell in row] for row in rows])


def score(entries):
    """What the witnesses make of the wrong backwards, in a sentence."""
    wrong, found = (sum(column) for column in zip(*((e.mutants, e.float64_refuted) for e in entries)))
    every = (
        f"Of {wrong} wrong backwards, the proof and `torch.autograd` refute every one. Central differences "
    )
    if found == wrong:
        return every + "do so in float64."
    return every + (
        f"refute {found} in float64; the other {wrong - found} change a constant by less than they can see, "
        "and are refuted with 50 digits."
    )


# The d of a gradient, which OPS writes as a plain letter: before an array, or before x, y or L.
GRADIENT = re.compile(r"(?<![\\A-Za-z])d(?=\\mathbf|\\hat|[xyL](?![A-Za-z]))")


def formula(op):
    """The formula of an operation as TeX, with an upright d, and one gradient on each line to fit a phone."""
    lines = GRADIENT.sub(r"\\mathrm{d}", op.formula).split(r",\; ")
    return "\\begin{gathered}\n" + ",\\\\\n".join(lines) + "\n\\end{gathered}"


def page(entries):
    """What `ledger` found as MyST Markdown: the witnesses, then each formula, source, file and chapter."""
    parts = [table(entries), refutations(entries), score(entries)]
    for e in entries:
        op = OPS[e.name]
        facts = [op.source, f"`{file(op.forward)}`", f"{{doc}}`/notebooks/{op.chapter}`"]
        parts += [f"**`{e.name}`**", f"$$\n{formula(op)}\n$$", " · ".join(facts)]
        if e.same:
            lines = "\n".join(f"- {place} Reason: {reason}." for place, reason in e.same.items())
            parts.append(f":::{{dropdown}} Edits that change nothing ({len(e.same)})\n{lines}\n:::")
    return "\n\n".join(parts)
