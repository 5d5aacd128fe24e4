"""Parameters and products: what is printed, and what is counted."""

from ... import accounting
from ...config import Config, gpt2_small, vaswani_base
from ..transformer import measures


def blocks(D=512, F=2048):
    """Parameters of an encoder and of a decoder block, as text E counts: biases in the feed-forward layer."""
    one = dict(V=2, D=D, H=8, F=F, N=1, attention_biases=False, final_norm=False)
    encoder = accounting.count(Config("encoder", tied=True, head_bias=False, positions="sinusoidal", **one))
    return encoder - 2 * D, accounting.count(vaswani_base(**one)) - encoder


def base(V=50_000):
    """{what is assumed: parameters} of the base Transformer with V tokens and all biases."""
    full = dict(V=V, attention_biases=True, feed_forward_biases=True)
    return {
        "all tables one": accounting.count(vaswani_base(**full)),
        "own head": accounting.count(vaswani_base(tied=False, **full)),
        "own head, two tables": accounting.count(vaswani_base(tied=False, shared=False, **full)),
    }


def stacks():
    """The parameters of the six encoder and six decoder blocks alone."""
    return accounting.count(vaswani_base(V=1, attention_biases=True)) - 512


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
    """Multiply-adds of one encoder block, counted while it runs."""
    config = Config("encoder", V=2, D=D, H=H, F=F, N=1)
    ran, _ = measures.products(config, T)
    return ran - T * D * config.V - T * D * D * config.head_transform


def wider(n=20, D=64):
    """By which factor twice the width makes a block more expensive, F = 4D, n fixed; counted in a run."""
    narrow, wide = (products(n, size, 4, 4 * size) for size in (D, 2 * D))
    return wide / narrow
