"""`check.module` on trial: it accepts the layers of PyTorch, and refuses what gradcheck lets pass."""

import copy
from pathlib import Path

import numpy as np
import optree
import pytest

from handgrad import check
from handgrad.mistakes.mutations import wrong_backwards
from handgrad.ops.table import OPS

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

# Wrong backwards that gradcheck passes ----------------------------------------------------------------------


class Linear(torch.autograd.Function):
    """y = x Wᵀ with the right backward."""

    @staticmethod
    def forward(ctx, x, W):
        ctx.save_for_backward(x, W)
        return x @ W.mT

    @staticmethod
    def backward(ctx, dy):
        return Linear.gradients(dy, *ctx.saved_tensors)

    @staticmethod
    def gradients(dy, x, W):
        return dy @ W, dy.mT @ x


def linear(gradients):
    """Linear with another backward: a function (dy, x, W) -> dx, dW."""

    def backward(ctx, dy):
        return gradients(dy, *ctx.saved_tensors)

    return type("Linear", (Linear,), {"backward": staticmethod(backward)})


class Unsaved(Linear):
    """Keeps its tensors itself, so that PyTorch does not see them change before the backward."""

    @staticmethod
    def forward(ctx, x, W):
        ctx.kept = x, W
        return x @ W.mT

    @staticmethod
    def backward(ctx, dy):
        return Linear.gradients(dy, *ctx.kept)


class Shared(Linear):
    """Keeps them where the next call overwrites them: a layer used twice."""

    @staticmethod
    def forward(ctx, x, W):
        Shared.kept = x.clone(), W.clone()
        return x @ W.mT

    @staticmethod
    def backward(ctx, dy):
        return Linear.gradients(dy, *Shared.kept)


class Frozen(Linear):
    """Asks for the wrong one of two: the first layer of a network, whose input needs no gradient."""

    @staticmethod
    def backward(ctx, dy):
        return Linear.backward(ctx, dy) if ctx.needs_input_grad[0] else (None, None)


def spoiling(dy, x, W):
    """Computes in the gradient that it was given, which another branch still needs."""
    gradients = Linear.gradients(dy, x, W)
    dy.mul_(0)
    return gradients


def reads_memory(dy, x, W):
    """Takes dy to lie in memory row by row, as a kernel does that is handed a pointer."""
    return Linear.gradients(dy.as_strided(dy.shape, (dy.shape[1], 1)), x, W)


def mean_over_the_batch(dy, x, W):
    return dy @ W, dy.mT @ x / len(x)


def not_transposed(dy, x, W):
    return dy @ W.mT, dy.mT @ x


def squared(dy, x, W):
    """Right for a gradient from above of zeros and ones, of which gradcheck takes no others."""
    return dy @ W, (dy * dy).mT @ x


class RMSNorm(torch.autograd.Function):
    """y = x / √(mean x² + ε), in the backward without ε: wrong by less than what gradcheck allows."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt()

    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensors
        r = x.square().mean(-1, keepdim=True).rsqrt()
        x_hat = r * x
        return r * (dy - x_hat * (dy * x_hat).mean(-1, keepdim=True))


def normal(*shape):
    """A tensor as gradcheck takes it: float64, and it requires a gradient."""
    return torch.tensor(np.random.default_rng(len(shape)).standard_normal(shape), requires_grad=True)


X, W, ONE = normal(3, 4), normal(5, 4), torch.eye(4, dtype=torch.float64, requires_grad=True)
LET_PASS = [  # function, what gradcheck is given, the first words of check.module
    (Unsaved, (X, W), "dW, a batch of 1, x changed in place after the forward, and nothing refuses it: "),
    (Shared, (X, W), "dx, a batch of 1, after another forward: "),
    (Frozen, (X, W), "dW, a batch of 1, only W requires a gradient: expected .* None, which counts as 0"),
    (linear(spoiling), (X, W), "dy of output 0, a batch of 1, changed in place by the layer: "),
    (linear(reads_memory), (X, W), "dx, a batch of 1, dy with gaps in memory: expected .* got nan"),
    (linear(mean_over_the_batch), (X[:1], W), "dW, a batch of 3: .* 0.3333 times .* expected, everywhere"),
    (linear(not_transposed), (X, ONE), "dx, a batch of 1: expected "),
    (linear(squared), (X, W), "dW, a batch of 1: expected "),
    (RMSNorm, (X,), "dx, a batch of 1: expected "),
]


def test_the_page_has_a_row_for_each():
    page = (Path(__file__).parents[2] / "book" / "own_layer.md").read_text(encoding="utf-8")
    rows = page.partition("| why `gradcheck` passes it |")[2].partition("\n\n")[0].strip().splitlines()
    assert len(rows) - 1 == len(LET_PASS), "the first is the line below the head"


@pytest.mark.parametrize("wrong, inputs, words", LET_PASS, ids=lambda x: getattr(x, "__name__", ""))
def test_what_gradcheck_lets_pass_is_refused(wrong, inputs, words):
    assert torch.autograd.gradcheck(wrong.apply, inputs)
    with pytest.raises(AssertionError, match=f"^{words}") as refused:
        check.module(wrong, *inputs)
    assert len(str(refused.value).splitlines()) <= 10


# Right ones -------------------------------------------------------------------------------------------------

ACCEPTED = {
    "function": (Linear, X, W),
    "linear": (nn.Linear(4, 3), torch.ones(5, 4)),
    "one feature": (nn.Linear(1, 1), torch.ones(1, 1)),
    "normalization": (nn.LayerNorm(6), torch.ones(2, 5, 6)),
    "kinks": (F.relu, torch.ones(5, 4)),
    "a gradient that is 0 by symmetry": (lambda x: x.softmax(-1), torch.ones(5, 4)),
    "views of an input": (lambda x: x.chunk(2, -1), torch.ones(3, 4)),
    "written in C": (F.scaled_dot_product_attention, *[torch.ones(2, 2, 5, 4)] * 3),
    "attention": (nn.MultiheadAttention(8, 2, batch_first=True), *[torch.ones(2, 5, 8)] * 3),
    "recurrence": (nn.LSTM(3, 4, batch_first=True), torch.ones(2, 5, 3)),
    "integers": (nn.Embedding(10, 4), torch.tensor([[1, 2, 2], [0, 9, 1]])),
    "targets": (nn.CrossEntropyLoss(), torch.ones(5, 4), torch.tensor([0, 3, 3, 1, 2])),
    "block": (nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval(), torch.ones(2, 5, 8)),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_a_right_one_is_accepted(name):
    assert 0 <= check.module(*ACCEPTED[name]) < check.TOLERANCE[15]


def test_the_module_and_its_numbers_stay_as_they_are():
    layer = nn.BatchNorm1d(4)
    before = copy.deepcopy(layer.state_dict())
    check.module(layer, torch.ones(5, 4), batch=())
    for name, x in layer.state_dict().items():
        assert x.dtype == before[name].dtype and torch.equal(x, before[name])


def test_a_frozen_parameter_is_not_asked_for():
    class Half(nn.Linear):
        def forward(self, x):
            return Linear.apply(x, self.weight.detach()) + self.bias

    with pytest.raises(AssertionError, match="^dweight, a batch of 1: expected .* got None"):
        check.module(Half(4, 3), torch.ones(2, 4))
    layer = Half(4, 3)
    layer.weight.requires_grad_(False)
    check.module(layer, torch.ones(2, 4))


def test_only_inputs_that_require_a_gradient_are_asked_for_if_one_does():
    half = lambda x, w: x * w.detach()  # noqa: E731
    with pytest.raises(AssertionError, match="^dw, a batch of 1"):
        check.module(half, torch.ones(2, 3), torch.ones(3))
    check.module(half, torch.ones(2, 3, requires_grad=True), torch.ones(3))


def half(dy, x, W):
    return (dy.half() @ W.half()).to(dy) if x.dtype == torch.float32 else dy @ W, dy.mT @ x


def one_wrong_entry(dy, x, W):
    dx, dW = Linear.gradients(dy, x, W)
    dW[17, 23] *= 1.001
    return dx, dW


REFUSED = [  # (dy, x, W) -> dx, dW; the inputs; the first words
    (half, (X, W), "dx, a batch of 1, float32: expected"),
    (
        lambda dy, x, W: (dy @ W, x.mT @ dy),
        (X, W),
        r"the backward, a batch of 1: it raises RuntimeError.*\[4, 5\]",
    ),
    (one_wrong_entry, (torch.ones(3, 40), torch.ones(30, 40)), r"dW, a batch of 1: .* at \[17, 23\]\n"),
]


@pytest.mark.parametrize("gradients, inputs, words", REFUSED)
def test_few_digits_another_shape_and_one_entry_are_refused(gradients, inputs, words):
    with pytest.raises(AssertionError, match=f"^{words}"):
        check.module(linear(gradients), *inputs)


def test_an_output_that_nobody_uses_sends_nothing():
    class Two(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return 2 * x, 3 * x

        @staticmethod
        def backward(ctx, dy, dz):
            return None if dz is None else 2 * dy + 3 * dz if dy is not None else 3 * dz

    with pytest.raises(
        AssertionError, match="^dx, a batch of 1, only output 0 is used: expected .* got None"
    ):
        check.module(Two, X)


@pytest.mark.parametrize(
    "function, inputs, error, words",
    [
        ("no function", (X, W), TypeError, "expected a torch.nn.Module, a subclass"),
        (int, (X,), TypeError, "expected a torch.nn.Module, a subclass"),
        (torch.log, (X,), ValueError, "expected finite outputs, got others: draws says how"),
        (nn.Dropout(), (X,), ValueError, "expected the same outputs twice: for dropout"),
        (nn.BatchNorm1d(4), (X,), ValueError, "a batch of 1: the forward raises ValueError.*\nbatch names"),
        (lambda x: x.argmax(), (X,), ValueError, "expected a floating tensor as output"),
        (lambda n: n + 1, (torch.arange(3),), ValueError, "expected a floating tensor to differentiate by"),
    ],
)
def test_what_cannot_be_tried_is_said(function, inputs, error, words):
    with pytest.raises(error, match=words):
        check.module(function, *inputs)


def test_inputs_may_be_drawn_otherwise():
    assert check.module(torch.log, X, draws={"input 0": lambda rng, shape: rng.uniform(0.1, 1, shape)}) < 1e-7


# Wrong backwards by the hundred -----------------------------------------------------------------------------


def as_function(op, options, structure, backward):
    """A pair of this package as an autograd.Function of the leaves of its inputs."""

    class Pair(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *leaves):
            ctx.save_for_backward(*leaves)
            return op.forward(*optree.tree_unflatten(structure, leaves), **options)[0]

        @staticmethod
        def backward(ctx, dy):
            _, cache = op.forward(*optree.tree_unflatten(structure, ctx.saved_tensors), **options)
            return tuple(optree.tree_leaves(backward(dy, cache)))

    return Pair


SIZES = dict(B=2, T=3, S=4, D=4, F=5, V=4, K=2, E=3)


SUMMED = ["-2", "(0, 1)"]
"""Of these mutants PyTorch sums what is left: a gradient that has too many axes is the right one for it."""


@pytest.mark.parametrize("name", ["linear", "softmax", "layer_norm", "gated_feed_forward"])
def test_every_wrong_backward_that_an_edit_makes_is_refused(name):
    op = OPS[name]
    inputs, options = op.draw(SIZES, np.random.default_rng(0))
    leaves, structure = optree.tree_flatten([*optree.tree_map(torch.tensor, inputs).values()])

    def accepts(backward):
        try:
            check.module(as_function(op, options, structure, backward), *leaves)
        except AssertionError:
            return False
        return True

    assert accepts(op.backward)
    accepted = [m.place for m in wrong_backwards(op) if not m.same and accepts(m.backward)]
    over = [f"In `dgamma`: the sum runs over axis {axes}, not over axis tokens" for axes in SUMMED]
    assert [place.partition(", in ")[0] for place in accepted] == (over if name == "layer_norm" else [])
