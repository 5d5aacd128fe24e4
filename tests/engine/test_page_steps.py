"""Recurrences over steps and sums from 1 to t, proved by induction from what is printed."""

import pytest

from handgrad.page import Unreadable
from handgrad.page.checks import Page
from handgrad.sums import NotProved

UPDATES = r"""
$$ \begin{aligned}
\text{plain} && p_t &= p_{t-1} - \eta\, g_t \\
\text{moving} && u_t &= \beta\, u_{t-1} + g_t
\end{aligned} $$ (eq-updates)
with $u_0 = 0$.
"""
LETTERS = "t steps; g, p, u (steps); p_0; beta in (0, 1); eta > 0"


def moving(claim):
    page = Page(UPDATES + f"$$ {claim} $$ (eq-claim)")
    return page.given("u_0", "eq-updates", lines="moving", letters=LETTERS)


@pytest.mark.parametrize(
    "claim",
    [
        r"u_t = \sum_{i=1}^{t} \beta^{t-i}\, g_i",
        r"\sum_{i=1}^{t} \beta^{t-i} = \frac{1 - \beta^t}{1 - \beta}",
        r"u_t = \frac{1 - \beta^t}{1 - \beta} \quad\text{for all } g_i = 1",
        r"u_1 = g_1",
        r"\frac{\partial u_t}{\partial g_t} = 1",
    ],
)
def test_true_claims_about_steps_are_proved_and_hold(claim):
    given = moving(claim)
    given.prove("eq-claim")
    given.holds("eq-claim")


@pytest.mark.parametrize(
    "claim",
    [
        r"u_t = \sum_{i=1}^{t} \beta^{t+i}\, g_i",
        r"u_t = \sum_{i=2}^{t} \beta^{t-i}\, g_i",
        r"\sum_{i=1}^{t} \beta^{t-i} = \frac{1 - \beta^{t+1}}{1 - \beta}",
        r"\sum_{i=1}^{t} \beta^{ti} = \frac{1 - \beta^t}{1 - \beta}",
        r"\frac{\partial u_t}{\partial g_t} = \beta",
    ],
)
def test_false_claims_about_steps_are_refused(claim):
    with pytest.raises((AssertionError, ValueError)):
        moving(claim).prove("eq-claim")


def test_a_line_must_have_the_name_that_is_asked_for():
    page = Page(UPDATES)
    with pytest.raises(Unreadable, match="no line"):
        page.given("u_0", "eq-updates", lines="heavy", letters=LETTERS)


def test_a_sequence_without_a_beginning_is_refused():
    page = Page(UPDATES + "$$ u_1 = g_1 $$ (eq-claim)")
    with pytest.raises(Unreadable, match="u_0"):
        page.given("eq-updates", lines="moving", letters=LETTERS).prove("eq-claim")


def test_a_power_is_no_index_of_another_letter():
    page = Page(r"$$ \beta_1^2/\beta_2 = \beta_1 \beta_1/\beta_2 $$ (eq-claim)")
    page.given(letters="beta_1, beta_2 > 0").prove("eq-claim")


def recurrence(forward, claim):
    *definitions, letters = forward
    tex = [*definitions, claim]
    page = Page("".join(f"\n$$ {one} $$ (eq-{n})\n" for n, one in enumerate(tex)))
    return page.given(
        *(f"eq-{n}" for n in range(len(definitions))), letters=letters, columns=True
    ), f"eq-{len(definitions)}"


LINEAR = (r"h_t = a_t h_{t-1} + b_t x_t", "y_t = c_t h_t", "t steps; a, b, c, x, h, y (steps); h_0")
TANH = (r"h_t = \tanh(a h_{t-1} + x_t)", "y_t = c h_t", "t steps; a, c; x, h, y (steps); h_0")
GATE = (
    r"g_t = \frac{1}{1 + e^{-x_t}}",
    "h_t = g_t h_{t-1} + (1 - g_t) u_t",
    "y_t = h_t",
    "t steps; g, u, x, h, y (steps); h_0",
)
FITTED = (
    r"h_t = a h_{t-1} + x_t",
    r"L = \frac12 \sum_{t=1}^T (h_t - y_t)^2",
    "t steps; x, h, y (steps); a; h_0",
)
LSTM = (
    r"f_t = \frac{1}{1 + e^{-x_t - u h_{t-1}}}",
    r"g_t = \tanh(x_t + w h_{t-1})",
    "c_t = f_t c_{t-1} + g_t",
    r"h_t = \tanh(c_t)",
    "y_t = h_t",
    "t steps; f, g, c, h, x, y (steps); u, w; h_0; c_0",
)
CELL = (
    "c_t = f_t c_{t-1} + u_t h_{t-1}",
    r"h_t = o_t \tanh(c_t)",
    "y_t = h_t",
    "t steps; c, f, u, h, o, y (steps); h_0; c_0",
)
NETWORK = (
    r"\mathbf h_t = \tanh(\mathbf W \mathbf h_{t-1} + \mathbf U \mathbf x_t + \mathbf b)",
    r"\mathbf y_t = \mathbf h_t",
    "t steps; h, y (steps, D); x (steps, K); W (D, D); U (D, K); b (D); h_0 (D)",
)
MEMORY = (
    r"\mathbf f_t = \sigma(\mathbf W \mathbf h_{t-1} + \mathbf U \mathbf x_t)",
    r"\mathbf g_t = \tanh(\mathbf Q \mathbf h_{t-1} + \mathbf x_t)",
    r"\mathbf c_t = \mathbf f_t \odot \mathbf c_{t-1} + \mathbf g_t",
    r"\mathbf h_t = \tanh(\mathbf c_t)",
    r"\mathbf y_t = \mathbf h_t",
    "t steps; c, h, y, f, g, x (steps, D); W, U, Q (D, D); h_0, c_0 (D)",
)
SELECTIVE = (
    r"h_{tdn} = a_{tdn} h_{t-1,dn} + b_{tn} x_{td}",
    r"y_{td} = \sum_n c_{tn} h_{tdn}",
    "t steps; h (steps, D, N); a (steps, D, N) in (0, 1); b, c (steps, N); x, y (steps, D); h_0 (D, N)",
)
WRITER = (
    r"h_{ti} = \tanh(\sum_j W_{ij} h_{t-1,j} + x_{ti})",
    r"z_{tv} = \sum_i M_{vi} h_{ti}",
    r"p_{tv} = \frac{e^{z_{tv}}}{\sum_u e^{z_{tu}}}",
    r"L = -\sum_{t=1}^T \ln p_{t y_t}",
    "t steps; h, x (steps, D); z, p (steps, V); W (D, D); M (V, D); h_0 (D); y (steps) < V",
)
STEEP = (
    r"h_{ti} = \max(0, \sum_j W_{ij} h_{t-1,j} + x_{ti})",
    "y_{ti} = h_{ti}",
    "t steps; h, x, y (steps, D); W (D, D); h_0 (D)",
)
THROUGH_STEPS = [  # what is right, and an edit that makes it wrong
    (LINEAR, r"\mathrm dh_t = c_t\, \mathrm dy_t + a_{t+1}\, \mathrm dh_{t+1}", "a_{t+1}", "a_t"),
    (LINEAR, r"\mathrm dh_t = c_t\, \mathrm dy_t + a_{t+1}\, \mathrm dh_{t+1}", "c_t", "c_{t+1}"),
    (LINEAR, r"\mathrm da_t = h_{t-1}\, \mathrm dh_t", "h_{t-1}", "h_t"),
    (LINEAR, r"\mathrm da_t = h_{t-1}\, \mathrm dh_t", "dh_t", "dy_t"),
    (LINEAR, r"\mathrm dc_t = h_t\, \mathrm dy_t", "= h_t", "= h_{t-1}"),
    (LINEAR, r"\mathrm dh_0 = a_1\, \mathrm dh_1", "dh_1", "dh_2"),
    (LINEAR, r"\mathrm dx_2 = b_2\, \mathrm dh_2", "dh_2", "dh_3"),
    (
        LINEAR,
        r"\mathrm dx_t = b_t (c_t\, \mathrm dy_t + a_{t+1}\, \mathrm dh_{t+1})",
        "a_{t+1}",
        "a_t a_{t+1}",
    ),
    (
        FITTED,
        r"\frac{\partial L}{\partial h_t} = h_t - y_t + a \frac{\partial L}{\partial h_{t+1}}",
        "- y_t",
        "",
    ),
    (FITTED, r"\mathrm da = \sum_{t=1}^T h_{t-1}\, \mathrm dh_t", "h_{t-1}", "h_t"),
    (FITTED, r"\mathrm dx_1 = h_1 - y_1 + a\, (h_2 - y_2) + a^2\, \mathrm dx_3", "a^2", "a^3"),
    (LSTM, r"\mathrm df_t = c_{t-1}\, \mathrm dc_t", "c_{t-1}", "c_t"),
    (LSTM, r"\mathrm dc_t = (1 - h_t^2)\, \mathrm dh_t + f_{t+1}\, \mathrm dc_{t+1}", "f_{t+1}", "f_t"),
    (LSTM, r"\mathrm dw = \sum_t h_{t-1} (1 - g_t^2)\, \mathrm dg_t", "g_t^2", "h_t^2"),
    (TANH, r"\mathrm dx_t = (1 - h_t^2)\, \mathrm dh_t", "h_t^2", "h_t"),
    (TANH, r"\mathrm dh_t = c\, \mathrm dy_t + a\, \mathrm dx_{t+1}", "x_{t+1}", "x_t"),
    (TANH, r"\mathrm da = \sum_t h_{t-1}\, \mathrm dx_t", "h_{t-1}", "h_t"),
    (TANH, r"\mathrm dc = \sum_t h_t\, \mathrm dy_t", "h_t", "2 h_t"),
    (GATE, r"\mathrm dg_t = (h_{t-1} - u_t)\, \mathrm dh_t", "- u_t", ""),
    (GATE, r"\mathrm dx_t = g_t (1 - g_t) (h_{t-1} - u_t)\, \mathrm dh_t", "1 - g_t", "2 - g_t"),
    (CELL, r"\mathrm dh_t = \mathrm dy_t + u_{t+1}\, \mathrm dc_{t+1}", "u_{t+1}", "u_t"),
    (
        NETWORK,
        r"\mathrm dh_{ti} = \mathrm dy_{ti} + \sum_j W_{ji} (1 - h_{t+1,j}^2)\, \mathrm dh_{t+1,j}",
        "W_{ji}",
        "W_{ij}",
    ),
    (
        NETWORK,
        r"\mathrm d\mathbf W = \sum_{t=1}^T ((1 - \mathbf h_t^2) \odot \mathrm d\mathbf h_t)\,"
        r" \mathbf h_{t-1}^\top",
        r"\mathbf h_{t-1}",
        r"\mathbf h_t",
    ),
    (NETWORK, r"\mathrm db_i = \sum_t (1 - h_{ti}^2)\, \mathrm dh_{ti}", "^2", ""),
    (NETWORK, r"\mathrm dh_{0,i} = \sum_j W_{ji} (1 - h_{1j}^2)\, \mathrm dh_{1j}", "h_{1j}^2", "h_{1i}^2"),
    (NETWORK, r"\frac{\partial h_{ti}}{\partial h_{t-1,j}} = (1 - h_{ti}^2)\, W_{ij}", "W_{ij}", "W_{ji}"),
    (
        MEMORY,
        r"\mathrm d\mathbf c_t = (1 - \mathbf h_t^2) \odot \mathrm d\mathbf h_t"
        r" + \mathbf f_{t+1} \odot \mathrm d\mathbf c_{t+1}",
        "f_{t+1}",
        "f_t",
    ),
    (
        MEMORY,
        r"\mathrm d\mathbf Q = \sum_t ((1 - \mathbf g_t^2) \odot \mathrm d\mathbf g_t) \mathbf h_{t-1}^\top",
        "g_t^2",
        "h_t^2",
    ),
    (
        MEMORY,
        r"\mathrm d\mathbf h_t = \mathrm d\mathbf y_t"
        r" + \mathbf Q^\top ((1 - \mathbf g_{t+1}^2) \odot \mathrm d\mathbf g_{t+1})"
        r" + \mathbf W^\top (\mathbf f_{t+1} \odot (1 - \mathbf f_{t+1}) \odot \mathrm d\mathbf f_{t+1})",
        r"\mathbf Q^\top",
        r"\mathbf Q",
    ),
    (
        SELECTIVE,
        r"\mathrm dh_{tdn} = c_{tn} \mathrm dy_{td} + a_{t+1,dn} \mathrm dh_{t+1,dn}",
        "a_{t+1,dn}",
        "a_{tdn}",
    ),
    (SELECTIVE, r"\mathrm db_{tn} = \sum_d x_{td} \mathrm dh_{tdn}", "dh_{tdn}", "dy_{td}"),
    (WRITER, r"\mathrm dz_{tv} = p_{tv} - \delta_{v y_t}", "p_{tv}", "2 p_{tv}"),
    (
        WRITER,
        r"\mathrm dh_{ti} = \sum_v M_{vi} \mathrm dz_{tv}"
        r" + \sum_j W_{ji} (1 - h_{t+1,j}^2) \mathrm dh_{t+1,j}",
        "dh_{t+1,j}",
        "dh_{tj}",
    ),
    (
        CELL,
        r"\mathrm dc_t = f_{t+1}\, \mathrm dc_{t+1} + o_t (1 - \tanh(c_t)^2)\, \mathrm dh_t",
        "f_{t+1}",
        "f_t",
    ),
]


@pytest.mark.parametrize(("forward", "claim", "old", "new"), THROUGH_STEPS)
def test_a_gradient_through_any_number_of_steps(forward, claim, old, new):
    given, label = recurrence(forward, claim)
    given.prove(label)
    given.holds(label)
    assert old in claim
    given, label = recurrence(forward, claim.replace(old, new))
    with pytest.raises(AssertionError) as refuted:
        given.prove(label)
    assert not isinstance(refuted.value, NotProved)
    with pytest.raises((AssertionError, Unreadable)):  # c_{t+1} beyond the last step
        given.holds(label)


@pytest.mark.parametrize(
    ("forward", "claim", "why"),
    [
        (
            (LINEAR[0], LINEAR[2]),
            r"\mathrm da_t = h_{t-1}\, \mathrm dh_t",
            "write it as a letter of its own, y_t = h_t",
        ),
        (
            (LINEAR[0], r"y_t = \sum_{i=1}^t h_i", LINEAR[2]),
            r"\mathrm dx_t = b_t\, \mathrm dh_t",
            "a sum over steps",
        ),
        ((LINEAR[0], "y_t = h_{t+1}", LINEAR[2]), r"\mathrm dh_t = \mathrm dy_t", "h at a later step"),
        (
            (r"h_{t+1} = a_t h_t", "y_t = h_t", LINEAR[2]),
            r"\mathrm dh_t = \mathrm dy_t",
            "write it for the step itself",
        ),
        (LINEAR, r"\mathrm dx_0 = \mathrm dh_1", "x at step 0, and steps begin at 1"),
        (LINEAR, r"\mathrm dh_{-1} = \mathrm dy_{-1} + a_0\, \mathrm dh_0", "step -1, and steps begin at 1"),
    ],
)
def test_a_gradient_that_no_chain_of_steps_gives_is_refused(forward, claim, why):
    with pytest.raises(Unreadable, match=why):
        given, label = recurrence(forward, claim)
        given.prove(label)


def test_sums_up_to_a_step_may_stand_in_sums_over_entries():
    state = (
        r"S_{tij} = S_{t-1,ij} + k_{ti} v_{tj}",
        "t steps; S (steps, K, V); k (steps, K); v (steps, V); S_0 (K, V)",
    )
    claim = r"\sum_i S_{tij} = \sum_i S_{0,ij} + \sum_{s=1}^t \sum_i k_{si} v_{sj}"
    for right, n in ((True, claim), (False, claim.replace("k_{si}", "k_{ti}"))):
        given, label = recurrence(state, n)
        if right:
            given.prove(label)
        else:
            with pytest.raises(AssertionError):
                given.prove(label)


def test_quotients_of_sums_over_steps_are_no_quotient_of_terms():
    forward = ("h_t = h_{t-1} + x_t", r"L = \sum_{t=1}^T h_t^2", "t steps; h, x (steps); h_0")
    given, label = recurrence(forward, r"\frac{\sum_t x_t}{\sum_t h_t} = \frac{\sum_t 2 x_t}{\sum_t 2 h_t}")
    with pytest.raises(Unreadable, match="of sums over steps"):
        given.prove(label)


def test_a_kink_in_a_recurrence_is_told():
    given, label = recurrence(STEEP, r"\mathrm dx_{ti} = \mathbb 1[h_{ti} > 0]\, \mathrm dh_{ti}")
    with pytest.raises(Unreadable, match="which has a kink"):
        given.prove(label)
