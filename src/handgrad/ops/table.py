"""The table of operations, in the order in which data meets them: OPS.

The tests and the gradient ledger walk it. An entry says how an operation is called, at which size it is
proved, and where its formula comes from.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod

import optree
import sympy

from ..algebra import is_shape
from ..symbolic import symbols
from .activations import gelu, gelu_tanh, relu, silu
from .attention import attention
from .cross_entropy import cross_entropy
from .dropout import dropout
from .embedding import embedding, tied_head
from .feed_forward import feed_forward, gated_feed_forward
from .flash_attention import flash_attention
from .heads import merge_heads, repeat_heads, split_heads
from .linear import linear
from .masks import causal_mask
from .multi_head import multi_head, multi_head_backward
from .normalization import layer_norm, rms_norm
from .positions import add_positions, rotary, rotary_angles
from .softmax import softmax

NUMERIC_SIZES = dict(B=4, T=5, S=7, D=6, E=9, F=10, V=16, M=11, K=8, H=2, G=3)
"""No two letters have the same size, so that no axis passes for another. V is a power of 2: then 1/V, and
label smoothing with it, is exact in float64."""


def shape(letters, sizes):
    """The shape written in letters: "B T H*K" has three axes; sizes says what "..." stands for, in letters.

    A digit stands for itself. Raises KeyError that names the letter if sizes lacks one.

    >>> shape("... T H*K", {"...": "B", "B": 4, "T": 5, "H": 2, "K": 8})
    (4, 5, 16)
    """
    axes = letters.replace("...", sizes.get("...", "...")).split()
    factors = [factor for axis in axes for factor in axis.split("*") if not factor.isdigit()]
    if missing := [factor for factor in factors if factor not in sizes]:
        got = ", ".join(letter for letter in sizes if letter != "...")
        remedy = f"use letters of NUMERIC_SIZES, {' '.join(NUMERIC_SIZES)}, or give {missing[0]} a size"
        raise KeyError(f"sizes: expected one for {missing[0]} of {letters}, got only {got}: {remedy}")
    return tuple(
        prod(int(factor) if factor.isdigit() else sizes[factor] for factor in axis.split("*"))
        for axis in axes
    )


@dataclass(frozen=True)
class Op:
    """One operation: its pair of functions, and what is needed to check them.

    inputs     the differentiable inputs, in the order in which the backward returns their gradients: name ->
               shape in letters of NUMERIC_SIZES ("... D"; a product is "H*K"), or a dictionary of such
    sizes      the size of each letter for the proof
    leading    all that "..." may stand for, in letters; the first serves the proof
    long       sizes of one more draw: lengths beyond those of the others
    options    function (sizes, rng) -> the other arguments: tokens, masks, probabilities
    exact      arguments that are symbols in the proof
    formula    the backward in LaTeX, for the ledger; source and chapter too, "05_normalization"

    >>> def double(x):
    ...     return 2 * x, {}
    >>> def double_backward(dy, cache):
    ...     return 2 * dy
    >>> op = Op(double, double_backward, inputs=dict(x="... D"), sizes=dict(T=2, D=3), leading=("T", "B T"))
    >>> op.shapes(op.sizes)
    {'x': (2, 3)}
    >>> from handgrad.check import prove
    >>> prove(op)
    6
    """

    forward: Callable
    backward: Callable
    inputs: dict
    sizes: dict
    formula: str = ""
    source: str = ""
    chapter: str = ""
    leading: tuple = ("",)
    long: dict = field(default_factory=dict)
    options: Callable = lambda sizes, rng: {}
    exact: dict = field(default_factory=dict)

    def shapes(self, sizes):
        """The tree of shapes of the inputs, for the given size of each letter."""
        sizes = {"...": self.leading[0]} | sizes
        return optree.tree_map(lambda letters: shape(letters, sizes), self.inputs)

    def arguments(self, sizes, rng):
        """The options for the given size of each letter."""
        return self.options({"...": self.leading[0]} | sizes, rng)

    def draw(self, sizes, rng):
        """Random inputs (standard normal, float64: also γ and β) and options of these sizes."""
        inputs = optree.tree_map(rng.standard_normal, self.shapes(sizes), is_leaf=is_shape)
        return inputs, self.arguments(sizes, rng)

    def kinds(self, sizes):
        """The sizes of each kind of draw.

        All that "..." may stand for; as many tokens, each a sequence; as many keys as queries; and long.
        """
        letters = set("".join([*optree.tree_leaves(self.inputs), *self.leading]))
        changes = [{"...": axes} for axes in self.leading]
        changes += [{"T": 1, "B": sizes["B"] * sizes["T"]}] if "T" in letters else []
        changes += [{"S": sizes["T"]}] if {"S", "T"} <= letters else []
        changes += [self.long] if self.long else []
        return [sizes | change for change in changes]

    def draws(self, rng, sizes=NUMERIC_SIZES):
        """One draw of each kind."""
        return [self.draw(kind, rng) for kind in self.kinds(sizes)]


TOKENS = ("B T", "T", "B H T")
"""What "..." stands for where each token is by itself."""
SEQUENCES = ("B", "", "B H")
"""What "..." stands for before the axes of length and width."""
OF_EACH_TOKEN = dict(leading=TOKENS, long=dict(B=1, T=120))
"""Draws where parameters are used by each token: one has more tokens than any other, to be summed over."""


def _repeated_tokens(sizes, rng):
    tokens = rng.integers(0, sizes["V"], shape("...", sizes))
    tokens.flat[0] = tokens.flat[-1]
    return tokens


def _targets(sizes, rng):
    """Targets of which every third is ignored, but not the first."""
    targets = _repeated_tokens(sizes, rng)
    targets.flat[1::3] = -100
    return targets


def _mask(letters):
    """A random mask with a query that sees everything and, if there are two, one that sees nothing."""

    def draw(sizes, rng):
        mask = rng.random(shape(letters, sizes)) < 0.6
        mask[..., -1, :] = False
        mask[..., 0, :] = True
        return mask

    return draw


def _of_all_heads(sizes):
    """The sizes for an option that all heads share."""
    return sizes | {"...": sizes["..."].replace("H", "1")}


def _tiled_mask(sizes, rng):
    """A random mask for tiles of 2: query 1 sees nothing, queries 2 and 3 nothing of keys 0 and 1."""
    mask = rng.random(shape("... T S", _of_all_heads(sizes))) < 0.6
    mask[..., -1, :] = True
    mask[..., 1:2, :] = False
    mask[..., 2:4, :2] = False
    return mask


def _keep(letters):
    return lambda sizes, rng: rng.random(shape(letters, sizes)) < 0.7


def _self_attention(x, params, H, **options):
    return multi_head(x, x, params, H, **options)


def _self_attention_backward(dy, cache):
    dx, dmemory, dparams = multi_head_backward(dy, cache)
    return dx + dmemory, dparams  # x is used twice: for the queries, and as the memory


_ATTENTION_FORMULA = (
    r"d\mathbf{V}=\mathbf{A}^\top d\mathbf{Y},\; d\mathbf{A}=d\mathbf{Y}\,\mathbf{V}^\top,\; "
    r"d\mathbf{U}=\mathbf{A}\circ(d\mathbf{A}-\mathrm{rowsum}(\mathbf{A}\circ d\mathbf{A})),\; "
    r"d\mathbf{Q}=d\mathbf{U}\,\mathbf{K}/\sqrt{K},\; d\mathbf{K}=d\mathbf{U}^\top\mathbf{Q}/\sqrt{K}"
)
OF_A_HEAD = dict(inputs=dict(q="... T K", k="... S K", v="... S E"), leading=SEQUENCES)
_MULTI_HEAD = dict(W_Q="D H*K", W_K="D H*K", W_V="D H*K", W_O="H*K D")
_GROUPED = dict(W_Q="D H*G*K", W_K="D H*K", W_V="D H*K", W_O="H*G*K D")
_BIASES = dict(b_Q="H*K", b_K="H*K", b_V="H*K", b_O="D")
_eps, _scale, _alpha = sympy.symbols("epsilon scale alpha", positive=True)
_p = sympy.Rational(3, 10)


def _shipped(forward, **entry):
    """The entry of an operation whose backward stands below it, as `name_backward`."""
    return Op(forward, forward.__globals__[f"{forward.__name__}_backward"], **entry)


def _activation(forward, formula, source):
    told = dict(formula=formula, source=source, chapter="04_feed_forward")
    return _shipped(forward, inputs=dict(x="... D"), sizes=dict(B=2, T=2, D=3), leading=TOKENS, **told)


OPS = {
    "embedding": _shipped(
        embedding,
        inputs=dict(E="V D"),
        sizes=dict(B=2, T=3, V=3, D=2),
        **OF_EACH_TOKEN,
        formula=r"d\mathbf{E}_v=\sqrt{D}\sum_{t:\,\mathrm{token}_t=v}d\mathbf{y}_t",
        source="Vaswani et al. (2017), section 3.4",
        chapter="03_linear_and_embedding",
        options=lambda sizes, rng: dict(tokens=_repeated_tokens(sizes, rng), scale=1.7),
        exact=dict(scale=_scale),
    ),
    "add_positions": _shipped(
        add_positions,
        inputs=dict(x="B T D", P="M D"),
        sizes=dict(B=2, T=2, M=3, D=2),
        long=dict(T=11, M=11),
        formula=r"d\mathbf{X}=d\mathbf{Y},\; d\mathbf{P}_t=\sum_b d\mathbf{Y}_{bt}",
        source="Vaswani et al. (2017), section 3.5",
        chapter="07_positions",
    ),
    "rotary": _shipped(
        rotary,
        inputs=dict(x="... T K"),
        sizes=dict(B=2, T=2, K=4),
        leading=SEQUENCES,
        long=dict(T=40),
        formula=r"d\mathbf{x}_t=\mathbf{R}_t^\top\, d\mathbf{y}_t",
        source="Su et al. (2021), section 3.4.2",
        chapter="07_positions",
        options=lambda sizes, rng: dict(angles=rotary_angles(sizes["T"], sizes["K"])),
        exact=dict(angles=symbols("theta", (2, 2))),
    ),
    "linear": _shipped(
        linear,
        inputs=dict(x="... D", W="D F", b="F"),
        sizes=dict(B=2, T=2, D=2, F=3),
        **OF_EACH_TOKEN,
        formula=r"d\mathbf{X}=d\mathbf{Y}\,\mathbf{W}^\top,\; d\mathbf{W}=\mathbf{X}^\top d\mathbf{Y},\; "
        r"d\mathbf{b}=\textstyle\sum_t d\mathbf{y}_t",
        source="chain rule",
        chapter="03_linear_and_embedding",
    ),
    "relu": _activation(relu, r"dx=dy\cdot[x>0]", "Vaswani et al. (2017), section 3.3"),
    "gelu": _activation(gelu, r"dx=dy\,(\Phi(x)+x\varphi(x))", "Hendrycks and Gimpel (2016), section 2"),
    "gelu_tanh": _activation(
        gelu_tanh,
        r"dx=dy\,s\,(1+x(1-s)\,2u'),\; s=\tfrac12(1+\tanh u)",
        "Hendrycks and Gimpel (2016), section 2",
    ),
    "silu": _activation(silu, r"dx=dy\,\sigma(x)\,(1+x(1-\sigma(x)))", "Elfwing et al. (2018), section 2"),
    "feed_forward": _shipped(
        feed_forward,
        inputs=dict(x="... D", params=dict(W_1="D F", b_1="F", W_2="F D", b_2="D")),
        sizes=dict(B=2, T=2, D=2, F=3),
        **OF_EACH_TOKEN,
        formula=r"d\mathbf{X}=\left(d\mathbf{Y}\,\mathbf{W}_2^\top\circ\phi'(\mathbf{H})\right)\mathbf{W}_1^\top",
        source="Vaswani et al. (2017), section 3.3",
        chapter="04_feed_forward",
        options=lambda sizes, rng: dict(activation="relu", keep=_keep("... F")(sizes, rng), p=0.3),
        exact=dict(p=_p),
    ),
    "gelu_feed_forward": _shipped(
        feed_forward,
        inputs=dict(x="... D", params=dict(W_1="D F", W_2="F D")),
        sizes=dict(B=2, T=2, D=2, F=3),
        **OF_EACH_TOKEN,
        formula=r"d\mathbf{W}_1=\mathbf{X}^\top\left(d\mathbf{Y}\,\mathbf{W}_2^\top\circ\phi'(\mathbf{H})\right)",
        source="Vaswani et al. (2017), section 3.3; Hendrycks and Gimpel (2016), section 2",
        chapter="04_feed_forward",
        options=lambda sizes, rng: dict(activation="gelu"),
    ),
    "gated_feed_forward": _shipped(
        gated_feed_forward,
        inputs=dict(x="... D", params=dict(W_gate="D F", W_up="D F", W_down="F D")),
        sizes=dict(B=2, T=2, D=2, F=3),
        **OF_EACH_TOKEN,
        formula=r"d\mathbf{X}=(d\mathbf{P}\circ\mathbf{U}\circ\phi'(\mathbf{G}))\mathbf{W}_\mathrm{gate}^\top"
        r"+(d\mathbf{P}\circ\phi(\mathbf{G}))\mathbf{W}_\mathrm{up}^\top,\; "
        r"d\mathbf{P}=d\mathbf{Y}\,\mathbf{W}_\mathrm{down}^\top",
        source="Shazeer (2020), eq. 6",
        chapter="04_feed_forward",
    ),
    "softmax": _shipped(
        softmax,
        inputs=dict(s="... S"),
        sizes=dict(B=2, T=2, S=3),
        leading=TOKENS,
        long=dict(S=70),
        formula=r"d\mathbf{s}=\mathbf{a}\circ(d\mathbf{a}-\langle\mathbf{a},d\mathbf{a}\rangle)",
        source="chain rule",
        chapter="02_softmax_cross_entropy",
    ),
    "cross_entropy": _shipped(
        cross_entropy,
        inputs=dict(z="... V"),
        sizes=dict(B=2, T=2, V=3),
        **OF_EACH_TOKEN,
        formula=r"d\mathbf{z}_t=dL\,(\mathbf{p}_t-\mathbf{q}_t)/m",
        source="Szegedy et al. (2016), section 7",
        chapter="02_softmax_cross_entropy",
        options=lambda sizes, rng: dict(targets=_targets(sizes, rng), label_smoothing=0.125),
        exact=dict(label_smoothing=_alpha),
    ),
    "layer_norm": _shipped(
        layer_norm,
        inputs=dict(x="... D", gamma="D", beta="D"),
        sizes=dict(B=2, T=2, D=3),
        **OF_EACH_TOKEN,
        formula=r"d\mathbf{x}=\frac{d\hat{\mathbf{x}}-\overline{d\hat{\mathbf{x}}}-\hat{\mathbf{x}}\,"
        r"\overline{d\hat{\mathbf{x}}\circ\hat{\mathbf{x}}}}{\sqrt{\sigma^2+\varepsilon}},\; "
        r"d\hat{\mathbf{x}}=\boldsymbol{\gamma}\circ d\mathbf{y}",
        source="Ba et al. (2016), section 3",
        chapter="05_normalization",
        exact=dict(eps=_eps),
    ),
    "rms_norm": _shipped(
        rms_norm,
        inputs=dict(x="... D", gamma="D"),
        sizes=dict(B=2, T=2, D=3),
        **OF_EACH_TOKEN,
        formula=r"d\mathbf{x}=\frac{d\hat{\mathbf{x}}-\hat{\mathbf{x}}\,"
        r"\overline{d\hat{\mathbf{x}}\circ\hat{\mathbf{x}}}}{\sqrt{\overline{x^2}+\varepsilon}}",
        source="Zhang and Sennrich (2019), eq. 4",
        chapter="05_normalization",
        exact=dict(eps=_eps),
    ),
    "dropout": _shipped(
        dropout,
        inputs=dict(x="... D"),
        sizes=dict(B=2, T=2, D=3),
        leading=TOKENS,
        formula=r"d\mathbf{X}=d\mathbf{Y}\circ\mathrm{keep}/(1-p)",
        source="Srivastava et al. (2014), section 10",
        chapter="14_stable_training",
        options=lambda sizes, rng: dict(keep=_keep("... D")(sizes, rng), p=0.3),
        exact=dict(p=_p),
    ),
    "attention": _shipped(
        attention,
        **OF_A_HEAD,
        sizes=dict(B=2, T=3, S=4, K=2, E=2),
        formula=_ATTENTION_FORMULA,
        source="Vaswani et al. (2017), section 3.2.1",
        chapter="08_attention",
        long=dict(S=70),
        options=lambda sizes, rng: dict(mask=_mask("... T S")(_of_all_heads(sizes), rng)),
        exact=dict(scale=_scale),
    ),
    "attention_dropout": _shipped(
        attention,
        **OF_A_HEAD,
        sizes=dict(B=2, T=2, S=3, K=2, E=2),
        formula=r"d\mathbf{A}=(d\mathbf{Y}\,\mathbf{V}^\top)\circ\mathrm{keep}/(1-p)",
        source="Vaswani et al. (2017), section 3.2.1; Srivastava et al. (2014), section 10",
        chapter="14_stable_training",
        options=lambda sizes, rng: dict(keep=_keep("... T S")(sizes, rng), p=0.3),
        exact=dict(scale=_scale, p=_p),
    ),
    "flash_attention": _shipped(
        flash_attention,
        **OF_A_HEAD,
        sizes=dict(B=2, T=3, S=4, K=2, E=2),
        formula=r"\boldsymbol{\ell}=\log\mathrm{rowsum}(\exp\mathbf{U}),\; "
        r"\mathbf{A}=\exp(\mathbf{U}-\boldsymbol{\ell}),\; "
        r"\mathbf{D}=\mathrm{rowsum}(d\mathbf{Y}\circ\mathbf{Y}),\; "
        r"d\mathbf{U}=\mathbf{A}\circ(d\mathbf{Y}\,\mathbf{V}^\top-\mathbf{D}),\; "
        r"d\mathbf{V}=\mathbf{A}^\top d\mathbf{Y},\; "
        r"d\mathbf{Q}=d\mathbf{U}\,\mathbf{K}/\sqrt{K},\; d\mathbf{K}=d\mathbf{U}^\top\mathbf{Q}/\sqrt{K}",
        source="Dao et al. (2022), algorithm 1 and appendix B",
        chapter="19_tiles",
        options=lambda sizes, rng: dict(
            mask=_tiled_mask(sizes, rng), block=2, causal=sizes["T"] == sizes["S"]
        ),
        exact=dict(scale=_scale),
    ),
    "split_heads": _shipped(
        split_heads,
        inputs=dict(x="B T H*K"),
        sizes=dict(B=2, T=2, H=2, K=2),
        formula=r"d\mathbf{X}=\mathrm{merge}(d\mathbf{Y})",
        source="Vaswani et al. (2017), section 3.2.2",
        chapter="10_multi_head",
        options=lambda sizes, rng: dict(H=sizes["H"]),
    ),
    "merge_heads": _shipped(
        merge_heads,
        inputs=dict(x="B H T K"),
        sizes=dict(B=2, T=2, H=2, K=2),
        formula=r"d\mathbf{X}=\mathrm{split}(d\mathbf{Y})",
        source="Vaswani et al. (2017), section 3.2.2",
        chapter="10_multi_head",
    ),
    "repeat_heads": _shipped(
        repeat_heads,
        inputs=dict(x="B H S K"),
        sizes=dict(B=2, H=2, S=2, K=2, G=3),
        formula=r"d\mathbf{X}_h=\sum_{g} d\mathbf{Y}_{hg}",
        source="Ainslie et al. (2023), section 2.2",
        chapter="10_multi_head",
        options=lambda sizes, rng: dict(G=sizes["G"]),
    ),
    "cross_attention": _shipped(
        multi_head,
        inputs=dict(x="B T D", memory="B S D", params=_MULTI_HEAD | _BIASES),
        sizes=dict(B=2, T=2, S=3, D=2, H=2, K=1),
        formula=r"d\mathbf{X}=d\mathbf{Q}\,\mathbf{W}_Q^\top,\; "
        r"d\mathbf{X}_\mathrm{memory}=d\mathbf{K}\,\mathbf{W}_K^\top+d\mathbf{V}\,\mathbf{W}_V^\top",
        source="Vaswani et al. (2017), section 3.2.3",
        chapter="11_cross_attention",
        options=lambda sizes, rng: dict(H=sizes["H"], mask=_mask("B 1 T S")(sizes, rng)),
        exact=dict(scale=_scale),
    ),
    "self_attention": _shipped(
        _self_attention,
        inputs=dict(x="B T D", params=_MULTI_HEAD),
        sizes=dict(B=2, T=2, D=2, H=2, K=1),
        formula=r"d\mathbf{X}=d\mathbf{Q}\,\mathbf{W}_Q^\top+d\mathbf{K}\,\mathbf{W}_K^\top"
        r"+d\mathbf{V}\,\mathbf{W}_V^\top",
        source="Vaswani et al. (2017), section 3.2.2",
        chapter="10_multi_head",
        options=lambda sizes, rng: dict(H=sizes["H"], mask=causal_mask(sizes["T"])),
        exact=dict(scale=_scale),
    ),
    "grouped_query_attention": _shipped(
        multi_head,
        inputs=dict(x="B T D", memory="B S D", params=_GROUPED),
        sizes=dict(B=2, T=2, S=2, D=1, H=2, G=2, K=1),
        formula=r"d\mathbf{K}=\sum_{g} d\mathbf{K}_{g},\; d\mathbf{V}=\sum_g d\mathbf{V}_g",
        source="Ainslie et al. (2023), section 2.2",
        chapter="10_multi_head",
        options=lambda sizes, rng: dict(H=sizes["H"] * sizes["G"]),
        exact=dict(scale=_scale),
    ),
    "rotary_attention": _shipped(
        _self_attention,
        inputs=dict(x="B T D", params=_GROUPED | dict(b_Q="H*G*K")),
        sizes=dict(B=2, T=2, D=1, H=2, G=1, K=2),
        formula=r"d\mathbf{q}_t=\mathbf{R}_t^\top\, d\tilde{\mathbf{q}}_t,\; "
        r"d\mathbf{k}_t=\mathbf{R}_t^\top\textstyle\sum_g d\tilde{\mathbf{k}}_{gt}",
        source="Su et al. (2021), section 3.2.2; Ainslie et al. (2023), section 2.2",
        chapter="07_positions",
        options=lambda sizes, rng: dict(
            H=sizes["H"] * sizes["G"],
            mask=causal_mask(sizes["T"]),
            angles=rotary_angles(sizes["T"], sizes["K"]),
        ),
        exact=dict(scale=_scale, angles=symbols("theta", (2, 1))),
    ),
    "tied_head": _shipped(
        tied_head,
        inputs=dict(x="... D", E="V D"),
        sizes=dict(B=2, T=2, D=2, V=3),
        **OF_EACH_TOKEN,
        formula=r"d\mathbf{X}=d\mathbf{Z}\,\mathbf{E},\; d\mathbf{E}=d\mathbf{Z}^\top\mathbf{X}",
        source="Press and Wolf (2017); Vaswani et al. (2017), section 3.4",
        chapter="03_linear_and_embedding",
    ),
}
