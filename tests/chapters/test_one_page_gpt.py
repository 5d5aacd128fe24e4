"""The GPT on one page has the gradients of the package, of PyTorch and of differences, and learns."""

import importlib.util
from pathlib import Path

import numpy as np
import optree
import pytest
import torch
from torch.nn import functional

from handgrad import check, manual, model
from handgrad.config import Config

ROOT = Path(__file__).parents[2]
PLACE = ROOT / "examples" / "one_page_gpt.py"
spec = importlib.util.spec_from_file_location("one_page_gpt", PLACE)
gpt = importlib.util.module_from_spec(spec)
spec.loader.exec_module(gpt)

V, T, D, H, N, F = 11, 6, 12, 3, 2, 20


@pytest.fixture
def drawn():
    """Parameters far from their beginning, rows that repeat tokens, targets; shorter than the positions."""
    rng = np.random.default_rng(1)
    params = {
        name: p + 0.3 * rng.standard_normal(p.shape) for name, p in gpt.initial(rng, V, T, D, N, F).items()
    }
    return params, rng.integers(4, size=(3, T - 1)), rng.integers(V, size=(3, T - 1))


def gradients(params, tokens, targets):
    z, cache = gpt.forward(params, tokens, H)
    loss, dz = gpt.cross_entropy(z, targets)
    return loss, gpt.backward(dz, cache)


def as_shipped(flat):
    """{name: array} as the package's tree."""
    blocks = []
    for n in range(N):
        block = {}
        for layer, own in (("attention", "self_attention"), ("feed_forward", "feed_forward")):
            of_layer = {k.split(".")[2]: p for k, p in flat.items() if k.startswith(f"{n}.{layer}.")}
            block[f"{own}_norm"] = {k: of_layer.pop(k) for k in ("gamma", "beta")}
            block[own] = of_layer
        blocks.append(block)
    final = {k: flat[k] for k in ("gamma", "beta")}
    return {"embedding": {"E": flat["E"], "P": flat["P"]}, "decoder": blocks, "decoder_norm": final}


def test_its_loss_and_gradients_are_those_of_the_package(drawn):
    params, tokens, targets = drawn
    config = Config(
        *["decoder", V, D, H, F, N],
        norm="pre",
        final_norm=True,
        positions="learned",
        T_max=T,
        activation="gelu_tanh",
        attention_biases=False,
        feed_forward_biases=False,
    )
    batch = {"tokens": tokens, "target_out": targets}
    wanted_loss, wanted = model.loss_and_gradients(as_shipped(params), config, batch)
    loss, grads = gradients(params, tokens, targets)
    np.testing.assert_allclose(loss, wanted_loss, rtol=1e-13)
    mine = as_shipped(grads)
    assert optree.tree_structure(mine) == optree.tree_structure(wanted)
    optree.tree_map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-13), mine, wanted)


def torch_loss(params, tokens, targets):
    x = params["E"][tokens] + params["P"][: tokens.shape[1]]

    def norm(x, names):
        return functional.layer_norm(x, (D,), params[f"{names}gamma"], params[f"{names}beta"])

    for n in range(N):
        names = f"{n}.attention."
        h = norm(x, names)
        q, k, v = ((h @ params[f"{names}W_{m}"]).unflatten(-1, (H, -1)).transpose(1, 2) for m in "QKV")
        o = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + o.transpose(1, 2).flatten(-2) @ params[f"{names}W_O"]
        names = f"{n}.feed_forward."
        hidden = functional.gelu(norm(x, names) @ params[f"{names}W_1"], approximate="tanh")
        x = x + hidden @ params[f"{names}W_2"]
    z = norm(x, "") @ params["E"].T
    return functional.cross_entropy(z.flatten(0, 1), targets.flatten())


def by_autograd(params, tokens, targets):
    leaves = {name: torch.tensor(p, requires_grad=True) for name, p in params.items()}
    loss = torch_loss(leaves, torch.tensor(tokens), torch.tensor(targets))
    loss.backward()
    return loss.item(), {name: leaf.grad.numpy() for name, leaf in leaves.items()}


def worst(grads, wanted):
    """The largest error of any array, relative to the largest entry of that array."""
    assert set(grads) == set(wanted)
    return max(np.abs(grads[name] - wanted[name]).max() / np.abs(wanted[name]).max() for name in wanted)


def test_its_gradients_are_those_of_automatic_differentiation(drawn):
    wanted_loss, wanted = by_autograd(*drawn)
    loss, grads = gradients(*drawn)
    np.testing.assert_allclose(loss, wanted_loss, rtol=1e-12)
    assert worst(grads, wanted) < 1e-11  # rounding, in float64


def test_its_gradients_are_those_of_differences(drawn):
    params, tokens, targets = drawn
    _, grads = gradients(params, tokens, targets)
    for name in ("E", "P", "gamma", "1.attention.W_K", "0.feed_forward.beta"):

        def loss(p, name=name):
            return gradients(params | {name: p}, tokens, targets)[0]

        assert worst({name: grads[name]}, {name: check.measured(loss, params[name])}) < 1e-7


@pytest.mark.parametrize(
    "old, new",
    [
        ("dx = dx + through", "dx = through"),
        ('np.add.at(grads["E"], tokens, dx)', "pass"),
        ("du.mT @ q", "du @ q"),
        ("dq + dk + dv", "dq + dk"),
        ("0.5 * (1 + s) + ", ""),
        (" - dn.mean(-1, keepdims=True)", ""),
    ],
)
def test_a_wrong_line_is_noticed(drawn, old, new):
    """The comparison with PyTorch is one that can fail."""
    source = PLACE.read_text(encoding="utf-8")
    assert source.count(old) == 1
    wrong = {"__name__": "wrong"}
    exec(source.replace(old, new), wrong)
    params, tokens, targets = drawn
    z, cache = wrong["forward"](params, tokens, H)
    grads = wrong["backward"](gpt.cross_entropy(z, targets)[1], cache)
    assert worst(grads, by_autograd(*drawn)[1]) > 0.01


def test_adamw_takes_the_steps_of_pytorch(drawn):
    params = {name: p for name, p in drawn[0].items() if p.ndim == 2}
    leaves = [torch.tensor(p, requires_grad=True) for p in params.values()]
    optimizer = torch.optim.AdamW(leaves, lr=0.01, betas=(0.9, 0.99), eps=1e-8, weight_decay=0.1)
    m, v = ({name: np.zeros_like(p) for name, p in params.items()} for _ in range(2))
    rng = np.random.default_rng(2)
    for step in range(1, 6):
        grads = {name: rng.standard_normal(p.shape) for name, p in params.items()}
        for leaf, gradient in zip(leaves, grads.values()):
            leaf.grad = torch.tensor(gradient)
        optimizer.step()
        gpt.adamw(params, grads, m, v, step, rate=0.01)
    for p, leaf in zip(params.values(), leaves):
        np.testing.assert_allclose(p, leaf.detach(), rtol=1e-12)


def test_norms_do_not_decay():
    params, zero = {"gamma": np.ones(3)}, {"gamma": np.zeros(3)}
    gpt.adamw(params, zero, dict(zero), dict(zero), 1, rate=0.1)
    np.testing.assert_array_equal(params["gamma"], 1)


def test_it_learns_more_than_pairs_of_characters_tell():
    """The text is the same on every Python; counts of characters pay 4.61 bits, of pairs 3.57."""
    text, held_out = manual.split(once=True)
    rng = np.random.default_rng(0)
    params = {name: np.float32(p) for name, p in gpt.initial(rng, manual.V, 32, 64, 2).items()}
    losses = np.array([*gpt.train(params, text, 4, 300, rng, B=16, rate=5e-3)])
    z, cache = gpt.forward(params, text[None, :32], 4)
    found = gpt.backward(z, cache) | params | {"z": z}
    assert {array.dtype for array in found.values()} == {np.dtype(np.float32)}
    assert abs(losses[0] - np.log2(manual.V)) < 0.1
    assert losses[60:80].mean() < 4.61 and losses[-40:].mean() < 3.57
    written = gpt.write(params, [*map(int, text[:4])], 4, 40, rng)
    assert len(written) == 44 and set(written) <= set(range(manual.V))


def test_it_stands_alone_on_one_page():
    source = PLACE.read_text(encoding="utf-8")
    lines = len(source.splitlines())
    assert lines <= 250
    for page in ("README.md", "book/one_page.md"):
        assert f"{lines} lines of NumPy" in (ROOT / page).read_text(encoding="utf-8")
    imports = [line for line in source.splitlines() if line.startswith(("import", "from"))]
    assert imports == ["from pydoc_data.topics import topics", "import numpy as np"]
