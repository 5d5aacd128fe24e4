"""Parameters and products: what is printed, and what is counted."""

import numpy as np

from ... import accounting
from ...config import Config, gpt2_small, vaswani_base
from ..transformer import measures


def blocks(D=512, F=2048):
    """Parameters of an encoder and of a decoder block, as text E counts: biases in the feed-forward layer."""
    one = dict(V=2, D=D, H=8, F=F, N=1, attention_biases=False, final_norm=False)
    tables = 2 * D
    encoder = accounting.count(Config("encoder", tied=True, head_bias=False, positions="sinusoidal", **one))
    both = accounting.count(vaswani_base(**one))
    return encoder - tables, both - tables - (encoder - tables)


def base(V=50_000):
    """{what is assumed: parameters} of the base Transformer with V tokens."""
    bare = dict(V=V, attention_biases=False, feed_forward_biases=False)
    full = dict(V=V, attention_biases=True, feed_forward_biases=True)
    return {
        "all tables one, no biases": accounting.count(vaswani_base(**bare)),
        "all tables one": accounting.count(vaswani_base(**full)),
        "own head": accounting.count(vaswani_base(tied=False, **full)),
        "own head, two tables": accounting.count(vaswani_base(tied=False, shared=False, **full)),
    }


def as_printed(V=50_000, D=512, F=2048, N=6):
    """Text A's own arithmetic without its rounding: two tables, 2N encoder blocks without biases."""
    return 2 * V * D + 2 * N * (4 * D * D + 2 * D * F + 4 * D)


def stacks():
    """The parameters of the six encoder and six decoder blocks alone."""
    return accounting.count(vaswani_base(V=1, attention_biases=True)) - 512


def with_texts_E():
    """Text E's three totals, for 37 000 tokens: {preset: parameters}."""
    return {
        name: accounting.count(measures.switched([bit == "1" for bit in bits]))
        for name, bits in measures.SETTINGS.items()
    }


def shares():
    """{model: (share of the part with n² in attention, in the block, tokens from which each is half)}."""
    known = {
        "base, 50 tokens": (50, vaswani_base()),
        "base, 512 tokens": (512, vaswani_base()),
        "GPT-2, 1024": (1024, gpt2_small()),
        "GPT-3, 2048": (2048, gpt2_small(D=12288, H=96, F=49152, N=96)),
    }
    found = {}
    for name, (n, config) in known.items():
        one = Config("encoder", V=2, D=config.D, H=config.H, F=config.F, N=1)
        parts = accounting.multiply_adds(one, n)
        square = parts["scores and sums"]
        attended = square + parts["projections"]
        halves = 2 * config.D, accounting.crossover(one)
        found[name] = (square / attended, square / (attended + parts["feed-forward"]), *halves)
    return found


def products(T, D=16, H=4, F=64):
    """Multiply-adds of one encoder block, counted while it runs, and 4nD² + 2n²D + 2nDF."""
    config = Config("encoder", V=2, D=D, H=H, F=F, N=1)
    head = T * D * config.V + T * D * D * config.head_transform
    ran, _ = measures.products(config, T)
    return ran - head, 4 * T * D * D + 2 * T * T * D + 2 * T * D * F


def wider(n=20, D=64):
    """What twice the width costs, F = 4D, over the factor 2 of a cost O(n²D), n fixed; counted in a run."""
    narrow, wide = (products(n, size, 4, 4 * size)[0] for size in (D, 2 * D))
    return wide / narrow / 2


def tiny():
    """Text D's model: parameters with PyTorch's F = 2048 and with 4D, and the share of table and head."""

    def count(F):
        return accounting.count(
            Config(
                "encoder",
                V=50_257,
                D=64,
                H=2,
                F=F,
                N=2,
                positions="learned",
                T_max=64,
                tied=False,
                final_norm=False,
                norm="post",
                head_bias=True,
            )
        )

    tables = 2 * 50_257 * 64 + 50_257
    return count(2048), count(256), tables / count(2048)


def half():
    """The smallest positive float16, and what becomes of 1e-8 in it, alone and multiplied by 1024."""
    least = np.nextafter(np.float16(0), np.float16(1))
    return float(least), float(np.float16(1e-8)), float(np.float16(1e-8 * 1024))
