"""Sheets: what is right is proved, what is wrong is refuted, in formulas and in lines; each says which."""

from pathlib import Path

import pytest

from handgrad import __main__ as command
from handgrad.page.sheet import GOOD, outcomes

SHEETS = Path(__file__).parents[2] / "book/_static/here/sheets"
FAULTS = {"forgotten_batch": {r"\mathrm db_f = \mathrm dy_{tf}": "refuted"}, "softmax": {"dx": "differs"}}


def verdicts(text):
    return {outcome.what: outcome.verdict for outcome in outcomes(text)}


def faults(text):
    return {what: verdict for what, verdict in verdicts(text).items() if verdict not in GOOD}


@pytest.mark.parametrize(
    "path", sorted(SHEETS.rglob("*.txt")), ids=lambda path: str(path.relative_to(SHEETS))
)
def test_of_a_sheet_of_the_menu_what_is_wrong_is_found_and_nothing_else(path):
    text = path.read_text()
    assert faults(text) == FAULTS.get(path.stem, {})
    assert {"defined", "proved", *["agrees"] * ("```" in text)} <= {*verdicts(text).values()}


@pytest.mark.parametrize(
    "name, old, new, what",
    [
        ("normalization", "dy.sum(axis=0)", "dy.sum()", "dbeta"),
        ("normalization", "g - means[0] - x_hat", "g - means[0] + x_hat", "dx"),
        ("normalization", "+ epsilon)\nx_hat", ")\nx_hat", "x_hat"),
        ("forgotten_batch", "dy @ W.T", "dy @ (W.T * 1.00001)", "dx"),
        ("cross_entropy", "dz /= T", "", "dz"),
        ("cross_entropy", "dz[rows, y] -= 1", "dz[:, y] -= 1", "dz"),
        ("attention", "du.T @ q / np.sqrt(K)", "du.T @ q", "dk"),
        ("attention", "/ np.sqrt(K)\na", "\na", "u"),
        ("z_loss", "2 * lambda_ * n", "lambda_ * n", "dz"),
        ("experts", "g = m * np", "g = np", "g"),
        ("experts", "ds @ W.T + ", "", "dx"),
        ("window", "e = m * np", "e = np", "a"),
        ("window", "(1 - a.sum(axis=-1, keepdims=True)) * inner", "inner", "dn"),
        ("preferences", "(l - s)", "(l + s)", "u"),
        ("scan", "carry = a[t] * dh[t]", "carry = a[t - 1] * dh[t]", "dh"),
        ("scan", "np.append(h_0, h[:-1])", "h", "da"),
        ("scan", "dh_0, dc = carry", "dh_0, dc = dh[0]", "dh_0"),
        ("network", "carry = W.T @", "carry = W @", "dh"),
        ("network", "da.T @ before", "da.T @ h", "dW"),
        ("preferences", "np.exp(u)", "np.exp(-u)", "dw"),
    ],
)
def test_lines_that_are_wrong_differ_where_they_are(name, old, new, what):
    text = (SHEETS / f"{name}.txt").read_text()
    assert old in text and faults(text.replace(old, new, 1)).get(what) == "differs"


@pytest.mark.parametrize(
    "name, old, new",
    [
        ("normalization", r"\gamma_j\, \mathrm dy", r"\mathrm dy"),
        ("softmax", r"\sum_w p_{tw}\, \mathrm dp_{tw}", r"\sum_w \mathrm dp_{tw}"),
        ("cross_entropy", r"= \frac1T \left(", r"= \left("),
        ("attention", r"\sum_d \mathrm dy_{td} v_{sd}", r"\mathrm dy_{td} v_{sd}"),
        ("z_loss", r"2 \lambda n_t", r"\lambda n_t"),
        ("experts", r"\sum_i g_{ti}\, \mathrm dg_{ti}", r"\sum_i m_{ti} g_{ti}\, \mathrm dg_{ti}/2"),
        ("experts", r"\sum_e W_{je}\, \mathrm ds_{te} + ", ""),
        ("window", r"\left( 1 - \sum_r a_{tr} \right) ", ""),
        ("window", r"dn = -", r"dn = "),
        ("preferences", r"\sigma(-u_b)", r"\sigma(u_b)"),
        ("scan", r"a_{t+1}\, \mathrm dh_{t+1}", r"a_t\, \mathrm dh_{t+1}"),
        ("scan", r"(h_{t-1} - b_t x_t)\,", r"h_{t-1}"),
        ("network", r"\mathbf W^\top \left(", r"\mathbf W \left("),
        ("network", r"\right) \mathbf h_{t-1}^\top", r"\right) \mathbf h_t^\top"),
    ],
)
def test_a_formula_that_is_wrong_never_passes(name, old, new):
    text = (SHEETS / f"{name}.txt").read_text()
    assert old in text and set(faults(text.replace(old, new, 1)).values()) & {"refuted", "not read"}


@pytest.mark.parametrize(
    "formulas, verdict, why",
    [
        (("letters: a, B (N)", "", "b_i = a_i + B_i"), "not read", "b is defined by itself"),
        (
            ("letters: x (D)", "", r"u_i = \log x_i^2", r"u_i = 2 \log x_i"),
            "not proved",
            "one side has no value",
        ),
        (
            (
                "letters: t steps; x, y (steps); v_0",
                "",
                r"y_t = \sqrt{v_0}\, x_t",
                r"dx_t = \sqrt{v_0}\, dy_t",
            ),
            "proved",
            "",
        ),
    ],
)
def test_what_has_no_value_somewhere_is_not_refuted_for_it(formulas, verdict, why):
    *_, last = outcomes("\n".join(formulas))
    assert last.verdict == verdict and why in last.why


def test_what_cannot_be_read_or_run_is_said_at_its_place():
    bias = "letters: x (T, D); beta (D)\n\ny_{tj} = x_{tj} + \\beta_j\n"
    *_, last = outcomes(bias + "\\mathrm d\\beta_j = \\foo")
    assert last.verdict == "not read" and last.what.endswith("foo") and "\\foo" in last.why
    *_, last = outcomes(bias + "```python\ny = x\ny = x @ x\n```")
    assert last[:2] == ("y = x @ x", "stops") and last.why.startswith("ValueError")
    *_, last = outcomes(bias + "```python\nz = x\n```")
    assert last.verdict == "not read" and "expected y" in last.why
    *_, last = outcomes(bias + "```python\ny = (x + beta).T\n```")
    assert last.verdict == "differs" and "shape" in last.why
    with pytest.raises(ValueError, match="expected a formula"):
        list(outcomes("letters: x (T)"))


@pytest.mark.parametrize(
    "letters, formulas, lines, verdict",
    [
        ("x (D)", "y_j = 10^{-9} x_j", "y = 0 * x", ("y", "differs")),  # however small what is compared
        ("x (D)", "y_j = 10^{-9} x_j", "dx = 0 * dy", ("dx", "differs")),
        ("x (D)", r"p_j = e^{x_j} / \sum_k e^{x_k}" "\n" r"L = \sum_j p_j", "dx = 0 * x", ("dx", "agrees")),
        ("x (D)", "y_j = 2 x_j", "y = np.log(-np.abs(x))", ("y", "differs")),
        ("x (D)", r"y_j = \ln (-x_j^2)", "y = 0 * x", ("y", "differs")),
        ("x (D)", "y_j = 2 x_j", "y = 2 * x + 0j", ("y", "differs")),
        ("x (D)", r"L = \sum_j x_j", "L = 'a'", ("L", "differs")),
        ("x (D)", "y_j = 2 x_j", "print(1)\ny = 2 * x", ("y", "agrees")),
        ("x (D); phi function", r"y_j = \phi(x_j)", "y = x", ("y", "not read")),
        (
            "x (D); lambda",
            r"y_j = \lambda x_j",
            "_, my_ = 1, 2\ndlambda_ = (x * dy).sum()",
            ("dlambda_", "agrees"),
        ),
        ("x (D)", r"y_j = 2 x_j, \qquad z_j = 3 x_j", "", (r"y_j = 2 x_j, \qquad z_j = 3 x_j", "defined")),
        ("x (D)", "y_j = x_j + x_j\ny_j = 2 x_j", "", ("y_j = 2 x_j", "proved")),
        ("x (D)", "y_j = x_j + x_j\ny_j = 3 x_j", "", ("y_j = 3 x_j", "refuted")),
        ("x (D)", "y_j = 2 x_j = 3 x_j", "", ("y_j = 2 x_j = 3 x_j", "refuted")),
    ],
)
def test_what_small_strange_or_several_things_are_called(letters, formulas, lines, verdict):
    *_, last = outcomes(f"letters: {letters}\n{formulas}\n```python\n{lines}\n```")
    assert last[:2] == verdict


def test_the_command_says_how_it_went(tmp_path, capsys):
    wrong, right = SHEETS / "forgotten_batch.txt", tmp_path / "right.txt"
    right.write_text("letters: x (D)\n$$ y_j = x_j^2 $$\n$$ \\mathrm dx_j = 2 x_j \\mathrm dy_j $$")
    assert command.main(["prove", str(wrong)]) == 1 and "refuted" in capsys.readouterr().out
    assert command.main(["prove", str(right)]) == 0 and "for every size" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        command.main(["prove", str(tmp_path / "none.txt")])
    assert (command.main([]), command.main(["--help"]), command.main(["sing"])) == (0, 0, 2)
