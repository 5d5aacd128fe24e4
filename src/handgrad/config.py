"""What a model is: its configuration, the published ones by name, and the tree of its parameters."""

import math
from dataclasses import dataclass, fields
from functools import lru_cache

import numpy as np
import optree

from .algebra import check_array, holds, is_shape, is_whole
from .blocks import PLACEMENTS, SITES
from .ops import ACTIVATIONS, GATED

CHOICES = {
    "kind": ("encoder-decoder", "decoder", "encoder"),
    "norm": PLACEMENTS,
    "normalization": ("layer_norm", "rms_norm"),
    "activation": (*ACTIVATIONS, *GATED),
    "positions": ("sinusoidal", "learned", "rotary", "none"),
}


@dataclass(frozen=True)
class Config:
    """What a model is. Raises ValueError, with the name of the field, if the values do not fit together.

    NumPy's numbers become Python's own: a float64 among them would make float64 of a model in float32.
    """

    kind: str  # "encoder-decoder", "decoder" or "encoder"
    V: int  # vocabulary
    D: int  # width of the model
    H: int  # heads; each has width K = D / H
    F: int  # feed-forward width
    N: int  # blocks in each stack
    H_kv: int | None = None  # heads of keys and values; None: H; fewer: grouped queries
    norm: str = "post"  # where the norms stand: "post", "pre" or "output" (see blocks)
    normalization: str = "layer_norm"  # or "rms_norm"
    eps: float = 1e-5  # ε inside the root of every norm
    final_norm: bool = False  # a norm after the last block of each stack
    embedding_norm: bool = False  # a norm after the sum of embeddings and positions
    activation: str = "relu"  # "relu", "gelu", "gelu_tanh", "silu"; gated: "swiglu", "geglu"
    attention_biases: bool = True  # b_Q, b_K, b_V, b_O
    feed_forward_biases: bool = True  # b_1, b_2; the gated layer has none
    positions: str = "sinusoidal"  # "learned", "rotary": turned into queries and keys, or "none"
    T_max: int | None = None  # rows of the learned position table
    rotary_base: float = 10000.0  # base of the rotary frequencies
    segments: int = 0  # number of segment kinds that have an embedding; 0: none
    scale_embedding: bool = False  # multiply token embeddings by √D
    shared: bool = True  # encoder-decoder: source and target use one embedding table
    tied: bool = True  # the head uses the embedding table (of the target)
    head_bias: bool = False  # b_out, one number for each word
    head_transform: bool = False  # dense layer, activation and norm before the logits (BERT)
    pad: int | None = None  # the token that is padding; None: there is none
    p: float = 0.0  # dropout probability
    dropout_sites: tuple = ("embedding", "sublayer")  # where dropout acts, of blocks.SITES
    std: float | None = None  # initial weights N(0, std²); None: Xavier
    scaled_residuals: bool = False  # initial weights that end a sub-layer divided by √(number of sub-layers)

    def __post_init__(self):
        def expect(fits, name, expected):
            if not fits:
                raise ValueError(f"{name}: expected {expected}, got {getattr(self, name)!r}")

        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.generic):
                object.__setattr__(self, field.name, value := value.item())  # the way in, of a frozen class
            if field.type is bool:
                expect(isinstance(value, bool), field.name, "True or False")
        for name, choices in CHOICES.items():
            expect(getattr(self, name) in choices, name, f"one of {choices}")
        for name in ("V", "D", "H", "F", "N"):
            expect(is_positive(getattr(self, name)), name, "a positive integer")
        expect(self.D % self.H == 0, "D", f"a multiple of H = {self.H}")
        fits = self.H_kv is None or (is_positive(self.H_kv) and self.H % self.H_kv == 0)
        expect(fits, "H_kv", f"None or a divisor of H = {self.H}")
        fits = is_positive(self.T_max) or (self.T_max is None and self.positions != "learned")
        expect(fits, "T_max", "the number of learned positions")
        fits = self.positions != "sinusoidal" or self.D % 2 == 0
        expect(fits, "D", "an even number for sinusoidal positions")
        fits = self.positions != "rotary" or self.K % 2 == 0
        expect(fits, "D", f"a multiple of 2 H = {2 * self.H} for rotary")
        expect(is_finite(self.eps) and self.eps >= 0, "eps", "a number that is not negative")
        expect(is_finite(self.rotary_base) and self.rotary_base > 0, "rotary_base", "a positive number")
        expect(is_whole(self.segments) and self.segments >= 0, "segments", "an integer that is not negative")
        fits = self.pad is None or (is_whole(self.pad) and 0 <= self.pad < self.V)
        expect(fits, "pad", f"None or a token below V = {self.V}")
        expect(is_finite(self.p) and 0 <= self.p < 1, "p", "a probability in [0, 1)")
        fits = isinstance(self.dropout_sites, tuple) and all(site in SITES for site in self.dropout_sites)
        expect(fits, "dropout_sites", f"a part of {SITES}")
        fits = not (self.gated and "hidden" in self.dropout_sites)
        expect(fits, "dropout_sites", 'no "hidden" in the gated layer')
        expect(not (self.gated and self.head_transform), "head_transform", "False with the gated activation")
        expect(self.kind == "encoder" or not self.segments, "segments", '0 unless the kind is "encoder"')
        fits = self.std is None or (is_finite(self.std) and self.std > 0)
        expect(fits, "std", "None or a positive number")

    @property
    def ignore_index(self):
        """The target that does not count in the loss: the padding, or -100 without one."""
        return -100 if self.pad is None else self.pad

    @property
    def gated(self):
        """Whether the feed-forward layer is gated."""
        return self.activation in GATED

    @property
    def K(self):
        """The width of one head."""
        return self.D // self.H


def is_positive(n):
    """Whether n is an integer above 0."""
    return is_whole(n) and n > 0


def is_finite(x):
    """Whether x is a number, neither infinite nor NaN."""
    return isinstance(x, int | float) and not isinstance(x, bool) and math.isfinite(x)


def vaswani_base(**changes):
    """Vaswani et al. (2017), sections 3.1 to 3.5 and table 3, base; no biases in attention (3.2.2)."""
    config = dict(kind="encoder-decoder", V=37000, D=512, H=8, F=2048, N=6, norm="post", activation="relu")
    config |= dict(positions="sinusoidal", scale_embedding=True, attention_biases=False, eps=1e-6, p=0.1)
    return Config(**config | changes)


def gpt2_small(**changes):
    """Radford et al. (2019), section 2.3 and table 2, first row; the form of GELU is that of their code."""
    config = dict(kind="decoder", V=50257, D=768, H=12, F=3072, N=12, norm="pre", final_norm=True)
    config |= dict(activation="gelu_tanh", positions="learned", T_max=1024, std=0.02, scaled_residuals=True)
    return Config(**config | dict(p=0.1, dropout_sites=("embedding", "attention", "sublayer")) | changes)


def bert_base(**changes):
    """Devlin et al. (2019), section 3 and appendix A.2, with the masked-language-model head of their code."""
    config = dict(kind="encoder", V=30522, D=768, H=12, F=3072, N=12, norm="post", activation="gelu")
    config |= dict(positions="learned", T_max=512, segments=2, embedding_norm=True, std=0.02, pad=0)
    config |= dict(head_transform=True, head_bias=True, p=0.1, eps=1e-12)
    return Config(**config | dict(dropout_sites=("embedding", "attention", "sublayer")) | changes)


def llama_like(**changes):
    """Touvron et al. (2023), section 2.2, with the sizes of Llama 2 7B; H_kv < H as in Llama 2 70B."""
    config = dict(kind="decoder", V=32000, D=4096, H=32, F=11008, N=32, norm="pre", final_norm=True)
    config |= dict(normalization="rms_norm", activation="swiglu", positions="rotary", tied=False, std=0.02)
    return Config(**config | dict(attention_biases=False, feed_forward_biases=False) | changes)


def shapes(config):
    """The tree of parameters, a shape in place of each array."""
    D, F, V, T_max = config.D, config.F, config.V, config.T_max
    D_kv = (config.H_kv or config.H) * config.K
    norm = {"gamma": (D,)} | ({"beta": (D,)} if config.normalization == "layer_norm" else {})
    attention = {"W_Q": (D, D), "W_K": (D, D_kv), "W_V": (D, D_kv), "W_O": (D, D)}
    if config.attention_biases:
        attention |= {"b_Q": (D,), "b_K": (D_kv,), "b_V": (D_kv,), "b_O": (D,)}
    if config.gated:
        feed_forward = {"W_gate": (D, F), "W_up": (D, F), "W_down": (F, D)}
    else:
        feed_forward = {"W_1": (D, F), "W_2": (F, D)}
        feed_forward |= {"b_1": (F,), "b_2": (D,)} if config.feed_forward_biases else {}
    positions = {"P": (T_max, D)} if config.positions == "learned" else {}
    head = {} if config.tied else {"W_out": (D, V)}
    head |= {"b_out": (V,)} if config.head_bias else {}
    head |= {"W_transform": (D, D), "b_transform": (D,)} if config.head_transform else {}

    def block(*names):
        parts = {"self_attention": attention, "cross_attention": attention, "feed_forward": feed_forward}
        return {name: dict(parts[name]) for name in names} | {f"{name}_norm": dict(norm) for name in names}

    tree = {"embedding": {"E": (V, D)} | positions}
    if config.segments:
        tree["embedding"]["E_segment"] = (config.segments, D)
    if config.kind == "encoder-decoder":
        tree["source_embedding"] = ({} if config.shared else {"E": (V, D)}) | positions
        tree["source_embedding_norm"] = dict(norm) if config.embedding_norm else {}
        tree["encoder"] = [block("self_attention", "feed_forward") for _ in range(config.N)]
        names = ("self_attention", "cross_attention", "feed_forward")
        tree["decoder"] = [block(*names) for _ in range(config.N)]
    else:
        tree[config.kind] = [block("self_attention", "feed_forward") for _ in range(config.N)]
    for stack in ("encoder", "decoder"):
        tree[f"{stack}_norm"] = dict(norm) if config.final_norm and stack in tree else {}
    tree["embedding_norm"] = dict(norm) if config.embedding_norm else {}
    tree["head"], tree["head_norm"] = head, dict(norm) if config.head_transform else {}
    return {name: part for name, part in tree.items() if part}


@lru_cache(maxsize=64)
def leaves_of(config):
    """The paths and the shapes of the leaves of `shapes`, and the structure of the tree."""
    return optree.tree_flatten_with_path(shapes(config), is_leaf=is_shape)


def check_params(config, params, name="params"):
    """Raise ValueError unless this is the tree of `shapes`, TypeError unless its arrays are of one type.

    Floating numbers or symbols: an object array holds whatever the operations can compute with.
    """
    kind, (paths, wanted, structure) = "floating numbers or symbols", leaves_of(config)
    leaves, got = optree.tree_flatten(params)
    if got != structure:
        given = optree.tree_paths(params)
        for path in paths:
            if path not in given:
                raise ValueError(f"{name}: expected {named(path)}, which is missing")
        for path in given:
            if path not in paths:
                raise ValueError(f"{name}: expected nothing at {named(path)}, which this model does not have")
        raise ValueError(f"{name}: expected the tree {structure}, got {got}")
    for path, shape, leaf in zip(paths, wanted, leaves, strict=True):
        if getattr(leaf, "shape", None) != shape:
            check_array(f"{name}{named(path)}", leaf, shape)
    types = {leaf.dtype for leaf in leaves}
    if len(types) > 1 or not holds(*types, kind):
        raise TypeError(f"{name}: expected {kind} of one type, got {sorted(map(str, types))}")


def named(path):
    """The path of a leaf as it is written in Python: ["encoder"][0]["self_attention"]["W_Q"]."""
    return "".join(f'["{key}"]' if isinstance(key, str) else f"[{key}]" for key in path)


def init(config, rng, dtype=np.float64):
    """Random parameters: γ = 1, β and biases 0, and the weights by one of three published rules.

    std = None        weights uniform in ±√(6 / (fan in + fan out)): Glorot and Bengio (2010), equation 16.
                      Embeddings N(0, 1/D), so that √D E has variance 1. (Vaswani et al. do not print a rule.)
    std               every weight and embedding N(0, std²). 0.02: Radford et al. (2018), section 4.1, and the
                      code of BERT, which also redraws what is beyond two standard deviations.
    scaled_residuals  besides, the weights that end a sub-layer are divided by the root of the number of
                      sub-layers of the stack: Radford et al. (2019), section 2.3.
    """
    sublayers = config.N * (3 if config.kind == "encoder-decoder" else 2)

    def draw(path, shape):
        name = path[-1]
        if name == "gamma":
            return np.ones(shape, dtype)
        if name == "beta" or name.startswith("b_"):
            return np.zeros(shape, dtype)
        if config.std is not None:
            w = rng.normal(0, config.std, shape)
        elif name.startswith("W_"):
            limit = math.sqrt(6 / sum(shape))
            w = rng.uniform(-limit, limit, shape)
        else:
            w = rng.normal(0, 1 / math.sqrt(config.D), shape)
        if config.scaled_residuals and name in ("W_O", "W_2", "W_down"):
            w /= math.sqrt(sublayers)
        return w.astype(dtype)

    return optree.tree_map_with_path(draw, shapes(config), is_leaf=is_shape)
