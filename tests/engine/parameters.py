"""Configurations, parameters and batches for the tests of models."""

from itertools import product

import numpy as np
import optree

from handgrad.algebra import is_shape
from handgrad.config import CHOICES, Config, bert_base, gpt2_small, llama_like, shapes, vaswani_base

SITES = ("embedding", "attention", "hidden", "sublayer")


def models(T_max, **sizes):
    """{name: Config}: each kind of stack with each place of the norms, the models in print, and odd ones."""

    def plain(kind, norm, **changes):
        return Config(kind, **sizes | dict(norm=norm, pad=0) | changes)

    pairs = product(CHOICES["kind"], CHOICES["norm"])
    biases, wide = dict(attention_biases=True, head_bias=True), sizes | dict(H=4)
    learned = dict(positions="learned", T_max=T_max, embedding_norm=True)
    return {f"{kind}, {norm}": plain(kind, norm) for kind, norm in pairs} | {
        "Vaswani": vaswani_base(**sizes, pad=0),
        "GPT-2": gpt2_small(**sizes, T_max=T_max),
        "GPT-2, padded": gpt2_small(**sizes, T_max=T_max, pad=0),
        "BERT": bert_base(**sizes, T_max=T_max),
        "Llama": llama_like(**wide, H_kv=2),
        "one head of keys": llama_like(**wide, H_kv=1, pad=0, norm="output"),
        "source table of its own": plain("encoder-decoder", "pre", shared=False, final_norm=True, **biases),
        "three tables": plain("encoder-decoder", "post", shared=False, tied=False, **biases),
        "one table, another head": plain("encoder-decoder", "output", tied=False, scale_embedding=True),
        "learned positions": plain("encoder-decoder", "pre", **learned),
        "rotary": plain("encoder-decoder", "pre", positions="rotary", H_kv=1, activation="silu"),
        "GELU in the gate": plain("encoder-decoder", "pre", activation="geglu", attention_biases=False),
        "no positions": plain("encoder-decoder", "pre", D=9, H=3, positions="none"),
        "rms_norm": plain("encoder", "post", normalization="rms_norm", activation="gelu", final_norm=True),
        "transformed head": plain("decoder", "pre", head_transform=True, tied=False, activation="gelu_tanh"),
        "no biases": plain("decoder", "output", attention_biases=False, feed_forward_biases=False),
    }


def sites_of(config):
    """Where dropout can act; a gated layer has none inside."""
    return tuple(site for site in SITES if not (config.gated and site == "hidden"))


def draws(seed, p):
    """A `draw_keep` that draws the same again when it is made again."""
    rng = np.random.default_rng(seed)
    return lambda shape: rng.random(shape) >= p


def changed(tree, path, value):
    """A copy of the tree with another value at the path; without that leaf if it is None."""
    if not path:
        return value
    first, *rest = path
    tree = tree.copy()
    if value is None and not rest:
        del tree[first]
    else:
        tree[first] = changed(tree.get(first) if isinstance(tree, dict) else tree[first], rest, value)
    return tree


def random_params(config, rng, dtype=np.float64):
    """Parameters of ordinary size with nothing left at 0 or 1: γ away from 1, β and biases away from 0."""

    def draw(path, shape):
        values = rng.standard_normal(shape)
        if path[-1] == "gamma":
            values = 1 + 0.5 * values
        elif path[-1].startswith("W_"):
            values /= np.sqrt(shape[0])
        elif path[-1] == "E" and config.scale_embedding:
            values /= np.sqrt(config.D)
        return values.astype(dtype)

    return optree.tree_map_with_path(draw, shapes(config), is_leaf=is_shape)


def random_batch(config, rng, B=3, T=5, S=6, blind=False):
    """Tokens that repeat, rows padded to different lengths, and some targets that do not count, but one does.

    With `blind`, one row begins with padding: a causal query there sees nothing.
    """

    def rows(length):
        different = min(config.V, max(9, B * length // 4))  # fewer than positions: some repeat
        tokens = rng.integers(1, different, (B, length))
        if config.pad is not None:
            for b in range(1, max(B, 2)):  # the first row is full, unless it is the only one
                tokens[b % B, length - b % length :] = config.pad
            if blind:
                tokens[0, : 1 + length // 4] = config.pad
        return tokens

    if config.kind == "encoder-decoder":
        batch = {"source": rows(S), "target_in": rows(T), "target_out": rows(T)}
    else:
        batch = {"tokens": rows(T), "target_out": rows(T)}
    if config.pad is None:
        batch["target_out"][0, -1] = -100
    if np.all(batch["target_out"] == config.ignore_index):  # there is one token
        batch["target_out"][0, 0] = 1
    if config.segments:
        batch["segments"] = rng.integers(0, config.segments, batch["tokens"].shape)
    return batch
