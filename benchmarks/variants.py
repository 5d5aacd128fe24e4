"""What is compared: training steps that compute the same, and the matrix products that none can do without.

A step is forward, loss, backward and AdamW of a decoder in the form of GPT-2 (pre-norm, learned positions,
GELU in the form with tanh, biases, tied head), without dropout, in float32. `VARIANTS` is the table.
"""

import time
from collections import Counter, namedtuple
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial, wraps
from inspect import isfunction
from typing import NamedTuple

import numpy as np
import optree

from handgrad import model, optim
from handgrad.config import gpt2_small, init
from handgrad.fast import Workspace, torch_product, update
from handgrad.fast import step as fast_step
from handgrad.fast.loops import of_kind
from handgrad.fast.memory import shares

Size = namedtuple("Size", "D N H T B V F")
SIZES = {
    "S": Size(D=64, N=4, H=4, T=64, B=32, V=100, F=256),
    "M": Size(D=256, N=4, H=8, T=256, B=8, V=1000, F=1024),
    "G": Size(D=768, N=1, H=12, T=1024, B=1, V=1000, F=3072),
}
TINY = Size(D=16, N=1, H=2, T=16, B=2, V=11, F=32)

ADAMW = {"eps": 0.01, "weight_decay": 0.01}
RATE = 0.01
"""Adam divides the size of a gradient away, and a check of the losses would not see a wrong factor. With an ε
well above the gradients, their size counts. The time of a step does not depend on it."""


def config_of(size):
    """The model of a size."""
    D, N, H, T, _, V, F = size
    return gpt2_small(D=D, N=N, H=H, T_max=T, V=V, F=F, p=0.0, dropout_sites=(), std=None)


def problem(size, dtype=np.float32):
    """Parameters with no bias left at 0 and no γ at 1, and a batch: the same numbers in every process."""
    rng = np.random.default_rng(0)
    params = init(config_of(size), rng, np.float32)
    for vector in filter(lambda p: p.ndim == 1, optree.tree_leaves(params)):
        vector += 0.1 * rng.standard_normal(len(vector), np.float32)
    tokens, targets = rng.integers(size.V, size=(2, size.B, size.T))
    return optree.tree_map(lambda p: p.astype(dtype), params), {"tokens": tokens, "target_out": targets}


class AbsentError(RuntimeError):
    """A variant cannot run on this machine; the message says why."""


class Step(NamedTuple):
    """A training step that is ready to run."""

    run: Callable  # () -> the loss before the update, or None if there is none
    release: Callable = lambda: None  # gives back what is kept beside parameters, moments and batch
    parts: dict = {}  # seconds of the parts of the last run, where they are known


def wait(device):
    """Until what was asked of the device is done."""
    if device == "cuda":
        import torch

        torch.cuda.synchronize()


# Gradients by hand


def readable(size, workers, device, dtype=np.float32):
    """`model` and `optim.adamw`, as the chapters derive them."""
    (params, batch), config = problem(size, dtype), config_of(size)
    state = optim.adamw_init(params)

    def run():
        nonlocal params, state
        loss, grads = model.loss_and_gradients(params, config, batch)
        params, state = optim.adamw(params, grads, state, RATE, **ADAMW)
        return float(loss)

    return Step(run)


def by_hand(size, workers, device, product=np.matmul):
    """`fast.step` and `update.adamw_in_place`. product: what multiplies two matrices."""
    (params, batch), config = problem(size), config_of(size)
    vector, params = update.flatten(params)
    m, v = (update.flatten(optree.tree_map(lambda p: 0 * p, params))[0] for _ in "mv")
    state = {"step": 0, "m": m, "v": v}
    workspace = gradient = grads = None

    def run():
        nonlocal workspace, gradient, grads
        if workspace is None:
            workspace = Workspace(workers, product=product)
            gradient, grads = update.flatten(params)
        loss, _ = fast_step.loss_and_gradients(params, config, batch, workspace=workspace, out=grads)
        update.adamw_in_place(vector, gradient, state, RATE, **ADAMW, workspace=workspace)
        return float(loss)

    def release():
        nonlocal workspace, gradient, grads
        workspace = gradient = grads = None

    return Step(run, release)


MATRICES = ("linear", "multi_head", "feed_forward", "head")
STAGES = {
    "linear layers": (*MATRICES, *(f"{name}_backward" for name in MATRICES)),
    "attention": ("attention", "attention_backward"),
    "softmax": ("softmax", "softmax_backward"),
    "activation": ("active", "active_backward"),
    "normalisation": ("normalize", "normalize_backward", "scale_shift"),
    "residuals": ("sublayer", "sublayer_backward", "dropped_sum"),
    "cross-entropy": ("cross_entropy",),
    "embedding": ("embed", "embed_backward"),
    "optimiser": ("adamw_in_place",),
}
"""Functions of a step, and loops, by stage. What they call counts with them, unless it has a stage itself."""


def staged(build, size, workers, device):
    """A variant with a clock in each function of STAGES: its parts are the stages, and the rest."""
    parts, stages, since = Counter(), ["the rest"], time.perf_counter()

    def turn(change):
        """The time since the last turn belongs to the innermost stage."""
        nonlocal since
        now = time.perf_counter()
        parts[stages[-1]] += now - since
        since = now
        change()

    def clocked(f, stage):
        @wraps(f)
        def timed(*args, **kwargs):
            turn(lambda: stages.append(stage))
            try:
                return f(*args, **kwargs)
            finally:
                turn(stages.pop)

        timed.without_clock = f
        return timed

    stage_of = {function: stage for stage, functions in STAGES.items() for function in functions}
    for space in (vars(fast_step), vars(of_kind(np.dtype(np.float32))), vars(update)):
        for name, f in list(space.items()):
            if isfunction(f) and f.__name__ in stage_of:
                f = getattr(f, "without_clock", f)  # without the clock of another size
                space[name] = clocked(f, stage_of[f.__name__])
    step = build(size, workers, device)

    def run():
        nonlocal since
        parts.clear()
        since = time.perf_counter()
        loss = step.run()
        turn(lambda: None)
        return loss

    return Step(run, step.release, parts)


# Gradients by PyTorch


def peer(kind, size, workers, device):
    """PyTorch at its best: see `peers`. kind: "eager", "compiled" or "nn.Transformer"."""
    import torch

    from . import peers

    params, batch = problem(size)
    net = peers.load(config_of(size), params, lean=kind != "nn.Transformer").to(device)
    tokens, targets = (torch.tensor(batch[name], device=device) for name in ("tokens", "target_out"))
    loss_of = net
    if kind == "compiled":
        torch._dynamo.reset()  # what was compiled for another size
        loss_of = torch.compile(net, dynamic=False)
        try:
            loss_of(tokens, targets).backward()
        except torch._dynamo.exc.BackendCompilerFailed as error:
            raise AbsentError(str(error).strip().splitlines()[0]) from None
    optimizer = torch.optim.AdamW(net.parameters(), RATE, fused=True, **ADAMW)

    def run():
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(tokens, targets)
        loss.backward()
        optimizer.step()
        return loss.item()

    return Step(run, optimizer.zero_grad)


def halves(B):
    """The sequences of each of two workers, and the weight of their mean loss in that of all."""
    return [(rows, (rows.stop - rows.start) / B) for rows in shares(B, 2)]


def eager_halves(size, workers, device):
    """Eager PyTorch in two threads with half of the sequences each. The two share the parameters.

    Raises AbsentError if there is only one sequence.
    """
    if size.B == 1:
        raise AbsentError("one sequence cannot be shared out")
    import torch

    from . import peers

    params, batch = problem(size)
    net = peers.load(config_of(size), params, lean=True)
    weights = list(net.parameters())
    jobs = [
        (*(torch.tensor(batch[name][rows]) for name in ("tokens", "target_out")), share)
        for rows, share in halves(size.B)
    ]
    threads = ThreadPoolExecutor(2, initializer=partial(torch.set_num_threads, 1))
    optimizer = torch.optim.AdamW(weights, RATE, fused=True, **ADAMW)

    def part(tokens, targets, share):
        loss = share * net(tokens, targets)
        return loss.item(), torch.autograd.grad(loss, weights)

    def run():
        optimizer.zero_grad(set_to_none=True)
        (loss, grads), (other_loss, others) = threads.map(lambda job: part(*job), jobs)
        torch._foreach_add_(grads, others)
        for weight, gradient in zip(weights, grads, strict=True):
            weight.grad = gradient
        optimizer.step()
        return loss + other_loss

    return Step(run, optimizer.zero_grad)


# The limit


def limit(library, size, workers, device, queries=32):
    """The products of a step alone, each worker with its share of the sequences.

    A linear layer has three: y, dx and dW. Attention has six, of each pair of query and key: done for all
    pairs, or for `queries` queries at a time with the keys up to the last of them; the faster one counts.
    Each block of the model has arrays of its own, as in a step: none is still in the cache from the last one.
    """
    D, N, H, T, B, V, F = size
    rng, K, workers = np.random.default_rng(0), D // H, min(workers, B)
    b, matmul, array = B // workers, np.matmul, np.asarray
    if library == "torch":
        import torch

        matmul, array = torch.matmul, partial(torch.tensor, device=device)

    def draw(*shape):
        return array(rng.standard_normal(shape, dtype=np.float32))

    def linear(rows, i, o):
        x, W, y, dx, dW = draw(rows, i), draw(i, o), draw(rows, o), draw(rows, i), draw(i, o)
        return [(x, W, y), (y, W.T, dx), (x.T, y, dW)]

    def attention(block):
        q, k, v, do, y, dk, dv = (draw(b, H, T, K) for _ in range(7))
        for start in range(0, T, block):
            rows, keys = slice(start, min(T, start + block)), slice(0, min(T, start + block))
            a, s = (draw(b, H, rows.stop - start, keys.stop) for _ in range(2))
            for left, right in ((q, k), (do, v)):  # the scores; the gradient of the weights
                yield left[:, :, rows], right[:, :, keys].mT, s
            for right in (v, k):  # the outputs; the gradient of the queries
                yield a, right[:, :, keys], y[:, :, rows]
            for right, out in ((do, dv), (q, dk)):  # the gradients of the values and of the keys
                yield a.mT, right[:, :, rows], out[:, :, keys]

    def products():
        return {
            "projections": [job for _ in range(4 * N) for job in linear(b * T, D, D)],
            "scores and sums": [job for _ in range(N) for job in attention(T)],
            "scores and sums in blocks": [job for _ in range(N) for job in attention(queries)],
            "feed-forward": [
                job for _ in range(N) for i, o in ((D, F), (F, D)) for job in linear(b * T, i, o)
            ],
            "head": linear(b * T, D, V),
        }

    shares, threads, parts = [products() for _ in range(workers)], ThreadPoolExecutor(workers), Counter()

    def multiply(jobs):
        for x, y, out in jobs:
            matmul(x, y, out=out)

    def run():
        for part in shares[0]:
            start = time.perf_counter()
            others = threads.map(multiply, [share[part] for share in shares[1:]])
            multiply(shares[0][part])
            list(others)
            wait(device)
            parts[part] = time.perf_counter() - start
        blocks = parts.pop("scores and sums in blocks")
        parts["scores and sums"] = min(blocks, parts["scores and sums"])

    return Step(run, parts=parts)


# The table


class Setting(NamedTuple):
    """How a variant uses the machine."""

    workers: int = 1  # threads that share the sequences
    threads: int = 1  # for matrix products; several workers that have work take one each
    kept: bool = False  # whether the allocator of the C library keeps what it is given back

    def __str__(self):
        return f"{self.workers} × {self.threads}{', kept' if self.kept else ''}"


class Variant(NamedTuple):
    """A way to compute a step, or only its products."""

    build: Callable  # (size, workers, device) -> Step
    library: str  # "numpy" or "torch"
    settings: tuple  # all are tried, and the fastest is taken


ALONE, THREADS, HALVES = Setting(), Setting(threads=2), Setting(workers=2, threads=2)
KEPT_ALONE = Setting(kept=True)
KEPT = (KEPT_ALONE, Setting(1, 2, True))
ALL = (ALONE, THREADS, *KEPT)
REFERENCE, HAND, EAGER, EAGER_HALVES = "reference", "by hand", "PyTorch, eager", "PyTorch, eager, 2 workers"
VARIANTS = {
    "NumPy, readable": Variant(readable, "numpy", ALL),
    HAND: Variant(by_hand, "numpy", (ALONE, THREADS)),
    f"{HAND}, 2 workers": Variant(by_hand, "numpy", (HALVES,)),
    f"{HAND}, torch's product": Variant(
        partial(by_hand, product=torch_product), "torch", (ALONE, THREADS, HALVES)
    ),
    EAGER: Variant(partial(peer, "eager"), "torch", ALL),
    EAGER_HALVES: Variant(eager_halves, "torch", (HALVES, HALVES._replace(kept=True))),
    "PyTorch, compiled": Variant(partial(peer, "compiled"), "torch", ALL),
    "PyTorch, nn.Transformer": Variant(partial(peer, "nn.Transformer"), "torch", KEPT),
}
STAGED = {f"stages of {name}": name for name in (HAND, f"{HAND}, torch's product")}
HELPERS = {
    REFERENCE: Variant(partial(readable, dtype=np.float64), "numpy", (THREADS,)),
    **{
        f"products, {library}": Variant(partial(limit, library), library, ())
        for library in ("numpy", "torch")
    },
    **{
        key: VARIANTS[name]._replace(build=partial(staged, VARIANTS[name].build))
        for key, name in STAGED.items()
    },
}
