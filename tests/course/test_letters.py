"""The letters of formulas, and what a check has to do with."""

import pytest

from handgrad.course import evidence, letters


@pytest.mark.parametrize(
    "tex, found",
    [
        (r"\mathrm{d}\hat x_j", {"dxhat"}),
        (r"\mathrm{d}\mathbf{W}_Q", {"dwq"}),
        (r"\mathrm{d}\boldsymbol{\gamma}", {"dgamma"}),
        (r"\frac{\partial a_{ij}}{\partial s_{nr}}", {"a", "ds"}),
        (r"\mathbf{q}\cdot\mathbf{k}", {"q", "k"}),
        (r"\left.\frac{\partial L}{\partial x_j}\right|_{\mu,\,\sigma^2}", {"l", "dx"}),
        (r"e^{u_{ij} + m_{ij}}", {"u", "m"}),
        (r"\mathbf{P}^2", {"p"}),
        (r"\sum_{k=0}^{D-1} \varepsilon", {"d", "epsilon"}),
    ],
)
def test_letters(tex, found):
    assert letters.letters(tex) == found


@pytest.mark.parametrize(
    "formula, sides",
    [
        (r"x = y = z", [{"x"}]),
        (r"\begin{aligned} x &= y \\ &= z, \\ u &\ge v \end{aligned}", [{"x"}, {"u"}]),
        (r"\begin{split} &x + y \\ &\qquad = z \\ \ge 0, \\ &u \\ &= v \end{split}", [{"x", "y"}, {"u"}]),
        (r"x &= y \\ &\quad {} - z \\ &\quad + v \\ &= u", [{"x"}]),
        (r"x \\ + y \\ = z \\ -u = v", [{"x", "y"}, {"u"}]),
        (r"x = 2 y, \\ \text{with } y \\ &= 3, \\ u \\ \leftarrow v", [{"x"}, {"u"}]),
        (r"\mu &= a, & \hat x_j &= b", [{"mu"}, {"xhat"}]),
        (r"x = f(u, v = 1), \qquad y = 2", [{"x"}, {"y"}]),
        (r"x = 2 y, \qquad\text{with } y = 3", [{"x"}]),
        (r"x = 2 y \quad\text{for } a = 0,\ b > 0", [{"x"}]),
        (r"x_i = y_i, \qquad\text{that is}\quad \mathbf{x} = \mathbf{y}", [{"x"}]),
        (r"x = 1, \text{so that } y \approx 2", [{"x"}, {"y"}]),
        (r"x = \begin{cases} 1 & t \le 1 \\ 2 & t \ge 1 \end{cases}", [{"x"}]),
        (r"\tfrac76 = 1", [set()]),
        (r"\text{no statement}", []),
    ],
)
def test_left_sides(formula, sides):
    assert letters.left_sides(formula) == sides


SETTING = r"""
D, K = sizes("D K")
j, (x, g) = index("j", D), arrays(r"x \mathrm{d}\hat{y}")
loss = total(lambda k: x[k] * g[k], D)
def slope(m):
    return gradient(loss, x[m])
width, height = measure(x), 2
dA = dict(a=height)
"""


def mentioned(code):
    known = letters.definitions(evidence.parse(SETTING))
    tree = evidence.parse(code)
    return letters.mentions(tree, letters.definitions(tree, known))


@pytest.mark.parametrize(
    "code, some",
    [
        ("x", {"x"}),
        ("g[j]", {"g", "dyhat"}),
        ("loss", {"loss", "x", "g"}),
        ("slope(j)", {"dx"}),
        ("gradient(loss, g[j])", {"dg", "ddyhat"}),
        ("loss.diff(x)", {"dx"}),
        ("width", {"x"}),
        ("dA", {"da", "height"}),
        ("again = loss\nprove_equal(again, 0)", {"again", "x"}),
        ('check.prove(OPS["attention"])', {"dq", "dk", "dv"}),
        ('op = OPS["attention"]\ncheck.prove(op)', {"dq", "dk", "dv"}),
    ],
)
def test_what_a_check_mentions(code, some):
    assert some <= mentioned(code)


@pytest.mark.parametrize(
    "code, other",
    [
        ("loss", "dx"),
        ("height", "x"),
        ("loss", "total"),
        ("total(lambda x: g[x], D)", "x"),
        ("D + K + j", "k"),
        ("D + K + j", "j"),
        ('OPS["no such operation"]', "dx"),
        ("x = 1\ndA", "x"),
    ],
)
def test_what_a_check_does_not_mention(code, other):
    assert other not in mentioned(code)
