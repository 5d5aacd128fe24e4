r"""How many parameters, multiply-adds and bytes a model needs, by formula.

One attention layer holds 2D² + 2D·D_kv weights (4D² without grouped queries) and 2D + 2D_kv biases, a
feed-forward layer 2DF (gated: 3DF) and F + D, a LayerNorm 2D, an RMSNorm D. A multiply-add is one
multiplication and one addition, two floating-point operations. For T tokens that see S, a layer costs

    projections         2TD² + 2SD·D_kv
    scores and sums     2TSD             the part that grows with the square of the length
    feed-forward        2TDF             (gated: 3TDF)

The backward computes a gradient for each of the two factors of each product: twice the forward. The causal
mask saves nothing here, since the masked scores are computed and then discarded.

PUBLISHED holds the well-known models, with the assumptions that lead to their totals.
"""

from math import prod
from typing import NamedTuple

import numpy as np
import optree

from .algebra import is_shape
from .config import Config, bert_base, gpt2_small, llama_like, shapes, vaswani_base


def parameters(config):
    """The number of parameters by formula: a dictionary part -> number."""
    D, F, V, N = config.D, config.F, config.V, config.N
    D_kv = _key_width(config)
    two = config.kind == "encoder-decoder"
    attentions, feed_forwards = (3 * N, 2 * N) if two else (N, N)
    stacks, streams = (2, 2) if two else (1, 1)

    attention = 2 * D * D + 2 * D * D_kv + (2 * D + 2 * D_kv if config.attention_biases else 0)
    if config.gated:
        feed_forward = 3 * D * F
    else:
        feed_forward = 2 * D * F + (F + D if config.feed_forward_biases else 0)
    norms = attentions + feed_forwards  # one for each sub-layer
    norms += stacks * config.final_norm + streams * config.embedding_norm + config.head_transform
    return {
        "token embeddings": V * D * (1 if config.shared or not two else 2),
        "positions": config.T_max * D * streams if config.positions == "learned" else 0,
        "segments": config.segments * D,
        "attention": attentions * attention,
        "feed-forward": feed_forwards * feed_forward,
        "norms": norms * (2 * D if config.normalization == "layer_norm" else D),
        "head": (0 if config.tied else V * D) + V * config.head_bias + (D * D + D) * config.head_transform,
    }


def total(config):
    """The number of parameters by formula."""
    return sum(parameters(config).values())


def count(config):
    """The number of parameters by counting the entries of every array, without allocating one."""
    return sum(prod(shape) for shape in optree.tree_leaves(shapes(config), is_leaf=is_shape))


def multiply_adds(config, T, S=None):
    """Multiply-adds of one forward pass over one sequence: a dictionary part -> number.

    T: its length; with an encoder and a decoder, T is the length of the target and S that of the source. Only
    products of matrices are counted. The backward costs twice as much again.
    """
    D, F, N = config.D, config.F, config.N
    D_kv = _key_width(config)

    def attention(T, S):
        return np.array([2 * T * D * D + 2 * S * D * D_kv, 2 * T * S * D])  # projections; scores and sums

    if config.kind == "encoder-decoder":
        if S is None:
            raise ValueError("S: expected the length of the source, got None")
        projections, squares = N * (attention(S, S) + attention(T, T) + attention(T, S))
        tokens = S + T
    else:
        projections, squares = N * attention(T, T)
        tokens = T
    return {
        "projections": int(projections),
        "scores and sums": int(squares),
        "feed-forward": N * tokens * D * F * (3 if config.gated else 2),
        "head": T * D * config.V + T * D * D * config.head_transform,
    }


def training_flops(config, T, S=None):
    """Floating-point operations of one training step on one sequence: forward and backward."""
    return 3 * 2 * sum(multiply_adds(config, T, S).values())


def crossover(config):
    """The length above which scores and sums cost more than the rest of a block.

    2T²D > 2TD² + 2TD·D_kv + 2TDF gives T > D + D_kv + F, which is 2D + F without grouped queries; with the
    gated layer 3F/2 stands for F.
    """
    return config.D + _key_width(config) + config.F * (3 if config.gated else 2) // 2


def cache_bytes(cache):
    """Bytes that a forward pass holds for its backward, measured: each array of the cache is counted once."""
    leaves = [leaf for leaf in optree.tree_leaves(cache) if isinstance(leaf, np.ndarray)]
    owners = {id(owner): owner for owner in map(_owner, leaves)}
    return sum(owner.nbytes for owner in owners.values())


class Published(NamedTuple):
    """A published model: the number of parameters that its paper prints, and the configuration that we count.

    extra: parameters that belong to the published file but to no computation of ours.
    """

    name: str
    printed: float
    source: str
    config: Config
    assumptions: str
    extra: int = 0

    @property
    def total(self):
        """The exact number of parameters."""
        return total(self.config) + self.extra


def _published():
    vaswani, radford = "Vaswani et al. (2017), table 3", "Radford et al. (2019), table 2"
    brown, devlin = "Brown et al. (2020), table 2.1", "Devlin et al. (2019), section 3"
    touvron = "Touvron et al. (2023), table 2"
    one_table = (
        "one table of 37 000 rows for source, target and head; attention without biases; no final norm"
    )
    tied = "tied head without bias; biases everywhere else; final norm; 1024 positions"
    older = "post-norm, 40 478 tokens, 512 positions"
    pooled = (
        "without a masked-language-model head; with the pooler, D² + D, which is one dense layer on [CLS]"
    )
    untied = "untied head, no biases, RMSNorm"
    big, no_head = dict(D=1024, H=16, F=4096), dict(head_transform=False, head_bias=False)
    gpt1 = gpt2_small(V=40478, T_max=512, norm="post", final_norm=False)

    def gpt2(D, H, N, **changes):
        return gpt2_small(D=D, H=H, F=4 * D, N=N, **changes)

    def gpt3(name, printed, **sizes):
        return Published(name, printed, brown, gpt2(**sizes, T_max=2048), tied.replace("1024", "2048"))

    return (
        Published("Transformer base", 65e6, vaswani, vaswani_base(), one_table),
        Published("Transformer big", 213e6, vaswani, vaswani_base(**big), one_table),
        Published("GPT-1", 117e6, radford, gpt1, older),
        Published("GPT-2 small", 117e6, radford, gpt2_small(), tied),
        Published("GPT-2 medium", 345e6, radford, gpt2(D=1024, H=16, N=24), tied),
        Published("GPT-2 large", 762e6, radford, gpt2(D=1280, H=20, N=36), tied),
        Published("GPT-2 XL", 1542e6, radford, gpt2(D=1600, H=25, N=48), tied),
        gpt3("GPT-3 Small", 125e6, D=768, H=12, N=12),
        gpt3("GPT-3 Medium", 350e6, D=1024, H=16, N=24),
        gpt3("GPT-3 Large", 760e6, D=1536, H=16, N=24),
        gpt3("GPT-3 XL", 1.3e9, D=2048, H=16, N=24),
        gpt3("GPT-3 2.7B", 2.7e9, D=2560, H=32, N=32),
        gpt3("GPT-3 6.7B", 6.7e9, D=4096, H=32, N=32),
        gpt3("GPT-3 13B", 13e9, D=5120, H=40, N=40),
        gpt3("GPT-3", 175e9, D=12288, H=96, N=96),
        Published("BERT base", 110e6, devlin, bert_base(**no_head), pooled, extra=768 * 769),
        Published("BERT large", 340e6, devlin, bert_base(**big, N=24, **no_head), pooled, extra=1024 * 1025),
        Published("LLaMA 7B", 6.7e9, touvron, llama_like(), untied),
    )


PUBLISHED = _published()
"""GPT-2's table prints sizes that its authors later corrected to 124, 355, 774 and 1558 million. The base
Transformer's 65 million is 63 with 37 000 tokens; the paper says "about 37000". BERT's are rounded. Two rows
of GPT-3's table do not fit together: XL has D = 2048 and 24 heads of 128, 13B D = 5140 and 40 heads of 128.
We count 16 heads, which gives the 1.3 billion printed where 24 would give 1.5, and D = 5120."""


def _key_width(config):
    return (config.H_kv or config.H) * config.K


def _owner(array):
    """The array that owns the memory of a view."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array
