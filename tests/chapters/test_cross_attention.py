"""Chapter 11: its exercises derived again; its task and its stacks."""

import numpy as np
import pytest
import torch
from judging import check_gradients, solution

from handgrad.chapters.cross_attention import figures, stacks, torch_layer, writer
from handgrad.ops import multi_head, multi_head_backward

# The answers, derived a second time by automatic differentiation of the forward -----------------------------


def gate_loss(dy, c, alpha):
    return (dy * (torch.tanh(alpha)[None, :, None, None] * c).sum(1)).sum()


def frozen_loss(memory, dk, dv, W_K, W_V, learns):
    """Frozen matrices are constants; the memory is read by all layers."""
    kept = torch.as_tensor(learns)[:, None, None]
    W_K, W_V = (torch.where(kept, W, W.detach()) for W in (W_K, W_V))
    keys, values = (torch.einsum("bsd,ndk->nbsk", memory, W) for W in (W_K, W_V))
    return (dk * keys).sum() + (dv * values).sum()


def coverage_loss(s, wish):
    return ((torch.softmax(s, -1).sum(1) - wish) ** 2).sum() / 2


def norm_loss(parts, u, gamma):
    memory = gamma * torch.nn.functional.rms_norm(u, u.shape[-1:], eps=0.0)
    return sum((part * memory).sum() for part in parts)


def latent_loss(dy, latents, k, v, real):
    s = torch.einsum("tk,bsk->bts", latents, k) / k.shape[-1] ** 0.5
    s = s.masked_fill(~torch.as_tensor(real)[:, None], -torch.inf)
    return (dy * (torch.softmax(s, -1) @ v)).sum()


@pytest.mark.parametrize(
    "name, loss, by",
    [
        ("gated_gradients", gate_loss, (1, 2)),
        ("frozen_layers", frozen_loss, (0, 3, 4)),
        ("normalised_once", norm_loss, (1, 2)),
        ("latent_queries", latent_loss, (1, 2, 3)),
    ],
)
def test_the_answers_are_the_gradients(name, loss, by):
    check_gradients(name, lambda *inputs: (loss(*inputs), [inputs[i] for i in by]))


def test_the_coverage_is_differentiated_by_scores():
    rng = np.random.default_rng(0)
    s, wish = torch.tensor(rng.normal(size=(3, 4, 6)), requires_grad=True), rng.normal(size=(3, 6))
    (found,) = torch.autograd.grad(coverage_loss(s, torch.tensor(wish)), s)
    a = torch.softmax(s, -1).detach().numpy()
    np.testing.assert_allclose(solution("coverage_ds")(a, wish), found, rtol=1e-9, atol=1e-12)


# Answers ----------------------------------------------------------------------------------------------------


def latents(of_latents=lambda ds, k: (ds @ k).sum(0), rule=None, hide=True, more=None):
    def answer(dy, latents, k, v, real):
        scale = k.shape[-1] ** -0.5
        s = scale * latents @ k.mT
        s = np.where(real[:, None], s, -1e30) if hide else s
        e = np.exp(s - s.max(-1, keepdims=True))
        a = e / e.sum(-1, keepdims=True)
        da = dy @ v.mT
        ds = rule(a, da) if rule else a * (da - (a * da).sum(-1, keepdims=True))
        found = [scale * of_latents(ds, k), scale * (ds.mT @ latents), a.mT @ dy]
        return tuple(more(found) if more else found)

    return answer


# The task ---------------------------------------------------------------------------------------------------


def test_what_is_written_is_the_source_forth_or_back():
    batch = writer.lines(np.random.default_rng(0), B=50)
    assert writer.allowed(batch["source"], batch["target_out"]).all()
    np.testing.assert_array_equal(batch["target_in"][:, 1:], batch["target_out"][:, :-1])
    spoilt = batch["target_out"].copy()
    spoilt[:, 3] = (spoilt[:, 3] + 1) % writer.V
    assert not writer.allowed(batch["source"], spoilt).any()


@pytest.mark.parametrize("V, S, T", [(3, 5, 4), (2, 6, 4), (4, 4, 3), (2, 5, 6)])
def test_the_bounds_are_the_entropies(V, S, T):
    for view, level in writer.bounds(V, S, T).items():
        np.testing.assert_allclose(writer.counted(writer.VIEWS[view], V, S, T), level)


@pytest.mark.parametrize("slip", [None, "no order", "own states"])
def test_the_writers_gradients_are_those_of_its_forward(slip):
    params, batch = writer.initial(1, N=2), writer.lines(np.random.default_rng(2), B=3)
    rng = np.random.default_rng(3)
    z, cache = writer.forward(params, batch, slip=slip)
    dz = rng.standard_normal(z.shape)
    grads, parts = writer.backward(dz, cache)
    assert len(parts) == 2 and (slip != "own states" or not np.any(parts))
    for name in ("E", "P", "P_source", "W_out"):
        way = rng.standard_normal(params[name].shape)
        sides = [
            writer.forward(params | {name: params[name] + h * way}, batch, slip=slip)[0]
            for h in (1e-6, -1e-6)
        ]
        np.testing.assert_allclose(
            np.sum(grads[name] * way), np.sum(dz * (sides[0] - sides[1])) / 2e-6, rtol=1e-5, atol=1e-7
        )


def test_a_lines_losses_arrive_one_by_one():
    params, batch = writer.initial(0, N=2), writer.lines(np.random.default_rng(4), B=2)
    z, cache = writer.forward(params, batch)
    p = np.exp(z) / np.exp(z).sum(-1, keepdims=True)
    whole = sum(writer.backward(p - np.eye(p.shape[-1])[batch["target_out"]], cache)[1])
    np.testing.assert_allclose(writer.arrivals(params, batch).sum(axis=1), whole, atol=1e-12)


# Stacks and padding -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("norm", ["post", "pre", "output"])
def test_what_the_blocks_return_adds_up_to_the_memorys_gradient(norm):
    f, memory, dy, way = stacks.stack(norm, N=3, seed=0)
    parts = stacks.returned(f(memory)[1], dy)
    slope = stacks.measured(f, memory, dy, way)
    np.testing.assert_allclose(np.sum(parts * way), slope, rtol=1e-7)
    assert abs(np.sum(parts[-1] * way) / slope - 1) > 1e-3  # the last block alone is not enough


def test_padding_that_is_masked_neither_speaks_nor_learns():
    is_pad = np.array([[True, False, False, True], [False, False, True, False]])
    assert stacks.leaks(~is_pad[:, None, None], is_pad) == (0, 0)
    assert min(stacks.leaks(None, is_pad)) > 0.1


def test_only_self_attention_mixes_targets():
    reached = stacks.hears(T=5, S=3, row=2)
    assert reached["self-attention"] == ([0, 1, 2], [])
    assert reached["cross-attention"] == ([2], [0, 1, 2])
    assert reached["feed-forward"] == ([2], [])


def test_pytorchs_layer_is_ours():
    rng = np.random.default_rng(5)
    x, memory, dy = (rng.standard_normal(shape) for shape in ((2, 3, 6), (2, 5, 4), (2, 3, 6)))
    shapes = dict(W_Q=(6, 6), W_K=(4, 6), W_V=(4, 6), W_O=(6, 6))
    params = {name: rng.standard_normal(shape) for name, shape in shapes.items()}
    real = np.array([[True, False, True, True, False], [True] * 5])
    y, cache = multi_head(x, memory, params, 3, mask=real[:, None, None])
    dx, dmemory, dparams = multi_head_backward(dy, cache)
    wanted = torch_layer.both(x, memory, dy, params, real, 3)
    for name, mine in (dict(y=y, dx=dx, dmemory=dmemory) | dparams).items():
        np.testing.assert_allclose(mine, wanted[name], rtol=1e-10, atol=1e-12)


def test_the_figures_draw_what_they_are_given():
    texts = {text.get_text() for text in figures.integers().axes[0].texts}
    assert {"dk = 10", "dk = −3", "dk = −7", "dv = −2", "+8", "⅔"} <= texts
    lines = figures.layers({"post-norm": np.ones((2, 3))}).axes[0].lines
    assert [len(line.get_ydata()) for line in lines] == [3, 3, 3]
