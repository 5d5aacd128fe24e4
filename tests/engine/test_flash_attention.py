"""Attention in tiles is attention: the same output and gradients, in memory that grows with T, not T²."""

from dataclasses import replace

import numpy as np
import pytest

from handgrad import check, ops
from handgrad.chapters.tiles.counting import traced
from handgrad.ops.attention import attention, attention_backward
from handgrad.ops.flash_attention import _tiles, flash_attention, flash_attention_backward
from handgrad.ops.table import OPS

SAME = 1e-12  # relative, float64: rounding of sums of at most a few hundred terms
PAIR = check.Pair(flash_attention, flash_attention_backward)


def inputs(rng, T, S, K=4, E=3, lead=(2, 3)):
    return {
        n: rng.standard_normal((*lead, *shape)) for n, shape in dict(q=(T, K), k=(S, K), v=(S, E)).items()
    }


def both(pair, x, dy, **options):
    """The output and the three gradients."""
    y, cache = pair[0](**x, **options)
    return dict(zip(["y", "dq", "dk", "dv"], [y, *pair[1](dy, cache)]))


def same(got, want, tolerance=SAME):
    """Equal, each relative to its largest entry."""
    largest = max(np.abs(np.asarray(wanted)).max() for wanted in want.values())
    for name, wanted in want.items():
        a, b = np.asarray(got[name]), np.asarray(wanted)
        assert a.shape == b.shape and a.dtype == b.dtype, name
        # queries that see one key have dq = 0: rounding noise, compared at the scale of the other gradients
        scale = max(np.abs(b).max(), 1e-2 * largest)
        assert np.abs(a - b).max() <= tolerance * scale, name


MASKS = {
    "nothing": lambda rng, T, S: None,
    "causal": lambda rng, T, S: np.tri(T, S, dtype=bool),
    "padding": lambda rng, T, S: (np.arange(S) < np.array([S, max(S - 2, 1)])[:, None])[:, None, None, :],
    "queries": lambda rng, T, S: np.arange(T)[:, None] % 3 != 1,
    "keys": lambda rng, T, S: np.arange(S) % 3 != 1,
    "random": lambda rng, T, S: rng.random((T, S)) < 0.5,
    "random for each head": lambda rng, T, S: rng.random((2, 3, T, S)) < 0.3,
    "a band": lambda rng, T, S: np.abs(np.arange(T)[:, None] - np.arange(S)) < 2,
    "everything": lambda rng, T, S: np.zeros((T, S), bool),
}


@pytest.mark.parametrize("T, S", [(5, 5), (5, 7), (7, 4), (1, 6), (6, 1)])
@pytest.mark.parametrize("masked", MASKS)
def test_tiles_of_any_size_change_nothing(masked, T, S, rng):
    x, mask = inputs(rng, T, S), MASKS[masked](rng, T, S)
    dy = rng.standard_normal((2, 3, T, 3))
    plain_mask = mask[None] if masked == "keys" else mask  # attention asks for two axes
    want = both((attention, attention_backward), x, dy, mask=plain_mask, scale=0.7)
    for block in range(1, max(T, S) + 2):
        same(both(PAIR, x, dy, mask=mask, scale=0.7, block=block), want)


@pytest.mark.parametrize("T, S", [(6, 6), (4, 7), (7, 4)])
@pytest.mark.parametrize("masked", ["nothing", "padding", "random"])
def test_causal_is_the_causal_mask_beside_any_other(masked, T, S, rng):
    x, mask = inputs(rng, T, S), MASKS[masked](rng, T, S)
    dy = rng.standard_normal((2, 3, T, 3))
    past = np.tri(T, S, dtype=bool)
    want = both((attention, attention_backward), x, dy, mask=past if mask is None else mask & past)
    for block in range(1, max(T, S) + 2):
        same(both(PAIR, x, dy, mask=mask, causal=True, block=block), want)


def test_a_query_that_sees_nothing_gives_exactly_nothing(rng):
    """At the start of a tile, at its end, and as a whole tile; the rows beside it do not feel it."""
    x, dy = inputs(rng, 9, 7), rng.standard_normal((2, 3, 9, 3))
    blind = np.isin(np.arange(9), [0, 4, 6, 7, 8])
    got = both(PAIR, x, dy, mask=np.broadcast_to(~blind[:, None], (9, 7)), block=3)
    assert (got["y"][..., blind, :] == 0).all() and (got["dq"][..., blind, :] == 0).all()
    seeing = both(PAIR, x | {"q": x["q"][..., ~blind, :]}, dy[..., ~blind, :], block=3)
    same(got | {n: got[n][..., ~blind, :] for n in ["y", "dq"]}, seeing)


def test_causal_tiles_are_proved():
    """3 queries, 4 keys, tiles of 2: the diagonal crosses two tiles, one is seen whole and one not at all."""
    op = OPS["flash_attention"]
    causal = replace(op, options=lambda sizes, rng: dict(causal=True, block=2))
    assert check.prove(causal) == 2 * (3 * 2 + 4 * 2 + 4 * 2)


# The numbers: huge scores, single precision, every array library


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [1e4, -1e4])
def test_huge_scores_are_safe(size, dtype, rng):
    """The largest score of a row comes in the first tile, in the last, or in all of them."""
    s = np.array(
        [[size, 0, 0, 1, 2, 3], [3, 2, 1, 0, 0, size], [size] * 6, [-size, 0, size, 0, -size, 0]], dtype
    )
    x = dict(q=s, k=np.eye(6, dtype=dtype), v=rng.standard_normal((6, 3)).astype(dtype))
    dy = rng.standard_normal((4, 3)).astype(dtype)
    want = both((attention, attention_backward), x, dy, scale=1.0)
    # log Σ exp(s) is near 1e4: it keeps 1e4 ulps of the weights, which attention keeps whole
    tolerance = 2e4 * np.finfo(dtype).eps
    for block in (1, 2, 4, 6):
        got = both(PAIR, x, dy, scale=1.0, block=block)
        assert all(np.isfinite(g).all() for g in got.values())
        same({"y": got["y"]}, {"y": want["y"]}, 10 * np.finfo(dtype).eps)
        same(got, want, tolerance)


# The memory


def extra_memory(pair, T, **options):
    """Bytes held at most, beside q, k, v and dy, while one head goes forward and back."""
    rng = np.random.default_rng(0)
    x, dy = inputs(rng, T, T, 16, 16, lead=(1,)), rng.standard_normal((1, T, 16))

    def step():
        _, cache = pair[0](**x, **options)
        pair[1](dy, cache)

    return traced(step, ())


LENGTHS = [256, 512, 1024, 2048]


@pytest.mark.parametrize("masked", ["nothing", "causal", "causal and padding"])
def test_the_memory_is_linear_in_the_length(masked):
    tiled = [
        extra_memory(
            PAIR,
            T,
            block=32,
            causal="causal" in masked,
            mask=np.arange(T) < T - 5 if "padding" in masked else None,
        )
        for T in LENGTHS
    ]
    for shorter, longer in zip(tiled, tiled[1:]):
        assert 1.6 < longer / shorter < 2.6, tiled


def test_the_memory_of_plain_attention_is_quadratic_and_far_more():
    plain = [extra_memory((attention, attention_backward), T) for T in LENGTHS]
    for shorter, longer in zip(plain, plain[1:]):
        assert longer / shorter > 3.4, plain
    assert extra_memory(PAIR, LENGTHS[-1]) < plain[-1] / 30


def test_a_padding_mask_is_not_spread_out(rng):
    """Only its last axis is stored, whatever the number of queries."""
    _, cache = flash_attention(**inputs(rng, 64, 32), mask=MASKS["padding"](rng, 64, 32))
    assert cache["mask"].shape == (2, 1, 64, 32) and cache["mask"].strides[-2] == 0


def test_hidden_tiles_are_never_computed(rng):
    """Of 8 by 8 tiles a causal mask hides 28, whether it is named or given."""
    x = inputs(rng, 64, 64, lead=(1,))
    for options in [dict(causal=True), dict(mask=ops.causal_mask(64))]:
        _, cache = flash_attention(**x, **options, block=8)
        assert sum(1 for i in cache["rows"] for _ in _tiles(i, cache)) == 36


# Bad input
