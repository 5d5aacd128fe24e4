"""What `check.module` runs: a PyTorch module, an autograd.Function or a function of tensors on trial.

First the gradients that PyTorch gives for it are compared with central differences. They are then what every
other use of the same backward is compared with: other memory, other tensors that require a gradient, a second
call. An autograd.Function meets all of these in training, and few of them in `torch.autograd.gradcheck`.
"""

import copy
import inspect
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch

FLOAT32_TOLERANCE = 1e-4
"""Of float32 against float64, relative: rounding is 6e-8 for each operation of some hundreds."""
SAME = 1e-12
"""Of the same backward used in another way, relative: sums may be taken in another order."""
STEPS = (1e-5, 1e-4, 1e-6)
"""Of the differences; the first that agrees counts: a kink spoils a long step, rounding a short one."""
SCALES = (1.0, 1.0, 3.0)
"""How large the numbers of each draw of the inputs are."""


class Subject(NamedTuple):
    """What is on trial, as a function of named tensors.

    run       {name: tensor} -> its outputs, a tuple
    examples  the tensors and other arguments by name, parameters of a module last
    moved     the names by which it is differentiated
    """

    run: Callable
    examples: dict
    moved: tuple


def subject(function, inputs, device):
    """A Subject in float64. Raises TypeError for what is no function of tensors."""
    is_class = inspect.isclass(function)
    if is_class and issubclass(function, torch.autograd.Function):
        apart = function.setup_context is not torch.autograd.Function.setup_context
        call, parameters = function.apply, {}
        names = _argument_names(function.forward)[0 if apart else 1 :]
    elif isinstance(function, torch.nn.Module):
        own = copy.deepcopy(function)
        parameters = {name: p.detach() for name, p in own.named_parameters()}
        trained = [name for name, p in own.named_parameters() if p.requires_grad]
        names = _argument_names(own.forward)
    elif callable(function) and not is_class:
        call, parameters, names = function, {}, _argument_names(function)
    else:
        expected = "a torch.nn.Module, a subclass of torch.autograd.Function or a function"
        raise TypeError(f"expected {expected}, got {function!r}")
    names = [names[i] if i < len(names) else f"input {i}" for i in range(len(inputs))]
    examples = dict(zip(names, inputs))
    given = {name: x for name, x in examples.items() if _is_floating(x)}
    moved = [name for name, x in given.items() if x.requires_grad] or [*given]
    if parameters:
        moved += trained

    def run(tensors):
        arguments = [tensors[name] for name in names]
        if not isinstance(function, torch.nn.Module):
            y = call(*arguments)
        else:
            dtype = next(tensors[name].dtype for name in moved)
            buffers = {name: _as(b, device, dtype).clone() for name, b in own.named_buffers()}
            state = {name: tensors[name] for name in parameters} | buffers
            y = torch.func.functional_call(own, state, tuple(arguments))
        outputs = y if isinstance(y, tuple | list) else (y,)
        return tuple(part for part in outputs if _is_floating(part))

    everything = {name: _as(x, device, torch.float64) for name, x in (examples | parameters).items()}
    return Subject(run, everything, tuple(moved))


def _argument_names(function):
    try:
        parameters = inspect.signature(function).parameters
    except ValueError:  # what is written in C has no signature
        return []
    return [name for name, p in parameters.items() if p.kind is not p.VAR_POSITIONAL]


def _is_floating(x):
    return isinstance(x, torch.Tensor) and x.is_floating_point()


def _as(x, device, dtype):
    """The same on this device, numbers of that type if they are floating; what is no tensor as it is."""
    if not isinstance(x, torch.Tensor):
        return x
    return x.detach().to(device=device, dtype=dtype if x.is_floating_point() else x.dtype)


def batches(examples, batch):
    """[(number of sequences, examples cut or repeated to it)], a batch of 1 first."""
    if not batch:
        return [(None, examples)]
    length = len(examples[batch[0]])
    places = [np.arange(n) % length for n in (1, length if length > 1 else 3)]
    return [(len(of), examples | {name: examples[name][of] for name in batch}) for of in places]


def along_the_batch(examples):
    """The tensors whose first axis is as long as that of the first; a vector of floats is a parameter."""
    tensors = {name: x for name, x in examples.items() if isinstance(x, torch.Tensor) and x.ndim}
    length = len(next(iter(tensors.values()), ()))
    first = next(iter(tensors), None)
    return [
        name
        for name, x in tensors.items()
        if len(x) == length and (name == first or x.ndim > 1 or not x.is_floating_point())
    ]


def drawn(examples, moved, inputs, draws, rng, scale):
    """Numbers for what is moved: normal ones for inputs; parameters are moved by as much as they are."""

    def draw(name, x):
        if name in draws:
            return draws[name](rng, tuple(x.shape))
        noise = rng.standard_normal(tuple(x.shape))
        if name in inputs:
            return scale * noise
        return x.cpu().numpy() + (float(x.square().mean().sqrt()) or 0.5) * noise

    return examples | {
        name: torch.as_tensor(np.asarray(draw(name, examples[name])), dtype=x.dtype, device=x.device)
        for name, x in ((name, examples[name]) for name in moved)
    }


class Backward:
    """One forward, to go back through as often as one likes."""

    def __init__(self, subject, tensors, moved=None):
        self.moved = subject.moved if moved is None else moved
        own = {name: tensors[name].detach().requires_grad_(name in self.moved) for name in subject.moved}
        self.wanted = [own[name] for name in self.moved]
        self.outputs = subject.run(tensors | own)

    def __call__(self, dys):
        """{"dx": the gradient by x}, None where PyTorch has none. dys: None for an output without use."""
        used = [(y, dy) for y, dy in zip(self.outputs, dys) if y.requires_grad and dy is not None]
        found = [None] * len(self.wanted)
        if used:
            ys, above = zip(*used)
            found = torch.autograd.grad(ys, self.wanted, above, retain_graph=True, allow_unused=True)
        found = (dx if dx is None else dx.detach() for dx in found)  # it may be an input itself
        return {f"d{name}": dx for name, dx in zip(self.moved, found)}


def judged(function, inputs, seed, batch, draws, device, tolerance):
    """The worst relative error against central differences; raises as `check.module` does."""
    rng, worst, failures = np.random.default_rng(seed), 0.0, []
    on_trial = subject(function, inputs, device)
    given = {name: on_trial.examples[name] for name in [*on_trial.examples][: len(inputs)]}
    if not on_trial.moved:
        raise ValueError("expected a floating tensor to differentiate by, got none")
    batch = along_the_batch(given) if batch is None else batch
    for size, examples in batches(on_trial.examples, batch):
        case = f"a batch of {size}" if size else "inputs of this shape"

        def draw(scale, examples=examples):
            return drawn(examples, on_trial.moved, given, draws, rng, scale)

        for scale in SCALES:
            tensors = draw(scale)
            dys = above(on_trial, tensors, rng, case)
            error, wrong = against_differences(on_trial, tensors, dys, case, tolerance)
            worst, failures = max(worst, error), failures + wrong
            if wrong:
                break
        else:
            tensors, dys = draw(1.0), [torch.as_tensor(rng.standard_normal(dy.shape)).to(dy) for dy in dys]
            for use, gradients, wanted, bound in uses(on_trial, tensors, draw(1.0), dys):
                failures += compared(gradients, wanted, f"{case}, {use}", bound)
    if failures:
        more = [f"... and {len(failures) - 9} more"] if len(failures) > 10 else []
        raise AssertionError("\n".join([*failures[: 9 if more else 10], *more]))
    return worst


def above(subject, tensors, rng, case):
    """A random gradient from above for each output. Raises ValueError where there is nothing to compare."""
    with torch.no_grad():
        try:
            once, again = subject.run(tensors), subject.run(tensors)
        except Exception as error:
            raise ValueError(
                f"{case}: the forward raises {type(error).__name__}: {error}\nbatch names the inputs "
                "whose first axis is the batch, () none; draws says how an input is drawn"
            ) from error
    if not once:
        raise ValueError("expected a floating tensor as output, or several, got none")
    if not all(y.isfinite().all() for y in once):
        raise ValueError(f"{case}: expected finite outputs, got others: draws says how an input is drawn")
    if not all(torch.allclose(y, z, rtol=SAME, atol=SAME) for y, z in zip(once, again)):
        raise ValueError("expected the same outputs twice: for dropout, call .eval() or pass what is kept")
    return [torch.as_tensor(rng.standard_normal(y.shape)).to(y) for y in once]


def against_differences(subject, tensors, dys, case, tolerance):
    """(worst relative error, failures) of all gradients, along one random direction each."""
    rng, worst, failures = np.random.default_rng(0), 0.0, []
    try:
        found = Backward(subject, tensors)(copies(dys))
    except Exception as error:
        return 0.0, [_raised(case, error)]

    @torch.no_grad()
    def terms(name, step):
        moved = tensors | {name: tensors[name] + step}
        return [dy * y for dy, y in zip(dys, subject.run(moved))]

    def loss(name, step):
        return math.fsum(float(part.sum()) for part in terms(name, step))

    for name in subject.moved:
        x, dx = tensors[name], found[f"d{name}"]
        got = torch.zeros_like(x) if dx is None else dx
        resolution = 1e-4 * sum(float(part.abs().sum()) for part in terms(name, 0))

        def along(direction, name=name, got=got, resolution=resolution):
            """(relative error, expected, got) by the step that agrees best."""
            parts, tried = direction * got, []
            claimed, size = float(parts.sum()), float(parts.square().sum().sqrt())
            for h in STEPS:
                expected = (loss(name, h * direction) - loss(name, -h * direction)) / (2 * h)
                scale = max(size, abs(expected), resolution)
                error = abs(expected - claimed) / scale if scale else abs(claimed)
                tried.append((error if math.isfinite(error) else math.inf, expected, claimed))
                if error <= tolerance:
                    break
            return min(tried)

        directions = [torch.as_tensor(rng.standard_normal(x.shape)).to(x) for _ in range(2)]
        results = [along(direction) for direction in directions]
        error = max(error for error, _, _ in results)
        if error > tolerance:  # or there are kinks along the way: many, where all numbers move
            one = _worst_entry(along, directions[results.index(max(results))])
            error, expected, claimed = along(one)
            if error > tolerance:
                said = _said(f"d{name}", case, expected, None if dx is None else claimed, one)
                failures.append(said + _factor(results, x))
        worst = max(worst, error)
    return worst, failures


def _worst_entry(along, direction):
    """An entry at which the derivative is wrong, as a tensor that is 1 there, else 0: by halving."""
    places = torch.arange(direction.numel(), device=direction.device)

    def only(places):
        part = torch.zeros_like(direction).flatten()
        part[places] = direction.flatten()[places]
        return part.reshape(direction.shape)

    def gap(places):
        _, expected, claimed = along(only(places))
        return abs(expected - claimed) if math.isfinite(claimed) else math.inf

    while len(places) > 1:
        places = max(places.tensor_split(2), key=gap)
    return (only(places) != 0).to(direction)


def _factor(results, x):
    """Words for a gradient that is right but for a factor, the same along both directions."""
    one, other = (claimed / expected if expected else math.inf for _, expected, claimed in results)
    same = x.numel() > 1 and abs(one - other) <= 1e-5 * max(1.0, abs(one))
    return f": {one:.4g} times what is expected, everywhere" if same else ""


def _said(name, case, expected, got, there):
    """One line for one failure; there: not 0 where it is found."""
    place = [int(i) for i in there.nonzero()[0]]
    came = "None, which counts as 0," if got is None else f"{got:.6g}"
    return f"{name}, {case}: expected {expected:.6g}, got {came} at {place}"


def _raised(case, error):
    return f"the backward, {case}: it raises {type(error).__name__}: {str(error).splitlines()[0]}"


def compared(gradients, wanted, case, bound):
    """A failure for each of the gradients that differs by more than the bound; None counts as 0."""
    try:
        found = gradients()
    except Exception as error:
        return [_raised(case, error)]
    failures = []
    for name, dx in found.items():
        want = wanted[name]
        gap = (want if dx is None else dx.to(want) - want).abs().nan_to_num(nan=math.inf)
        if float(gap.max()) > bound[name]:
            there = gap == gap.max()
            got = None if dx is None else float(dx[there][0])
            failures.append(_said(name, case, float(want[there][0]), got, there))
    return failures


def copies(dys):
    """For a backward that computes in what it is given."""
    return [dy.clone() for dy in dys]


def with_gaps(x):
    """The same numbers, between each two of which no number (NaN) lies in memory."""
    return torch.stack([x, torch.full_like(x, math.nan)], dim=-1)[..., 0]


def turned(x):
    """The same numbers, columns first in memory; a vector as it is."""
    return x.mT.contiguous().mT if x.ndim > 1 else x


def uses(subject, tensors, other, dys):
    """Every use of the backward: (its words, function -> {name: gradient}, what is expected, how near).

    Nothing else is expected than what the plain backward of the same numbers gives. other: other numbers.
    """
    moved = subject.moved
    plain = Backward(subject, tensors)

    def filled(dys):
        return {
            f"d{name}": torch.zeros_like(tensors[name]) if dx is None else dx.clone()
            for name, dx in zip(moved, plain(copies(dys)).values())
        }

    def backward(above=None, moved=None, changed=()):
        return lambda: Backward(subject, tensors | dict(changed), moved)(above or copies(dys))

    right = filled(dys)
    sizes = {name: float(dx.abs().max()) for name, dx in right.items()}
    largest = 1e-2 * max(sizes.values())  # a gradient that is 0 by symmetry is rounding noise
    near = {name: SAME * max(size, largest) for name, size in sizes.items()}

    def kept():
        own = {name: tensors[name].clone() for name in moved}
        received = copies(dys)
        Backward(subject, tensors | own)(received)
        return own | {f"dy of output {i}": dy for i, dy in enumerate(received)}

    before = {name: tensors[name] for name in moved}
    before |= {f"dy of output {i}": dy for i, dy in enumerate(dys)}
    yield "changed in place by the layer", kept, before, dict.fromkeys(before, 0.0)

    for words, laid in (("with gaps", with_gaps), ("transposed", turned)):
        yield f"inputs {words} in memory", backward(changed={n: laid(tensors[n]) for n in moved}), right, near
        yield f"dy {words} in memory", backward([laid(dy) for dy in copies(dys)]), right, near
    expanded = [dy.flatten()[0].expand(dy.shape) for dy in copies(dys)]
    equal = filled(expanded)
    yield "dy expanded from one number, as y.sum() sends it", backward(expanded), equal, near
    zeros = [torch.zeros_like(dy) for dy in dys]
    yield "dy = 0", backward(copies(zeros)), {name: 0 * dx for name, dx in right.items()}, near
    for name in moved if len(moved) > 1 else ():
        rest = tuple(n for n in moved if n != name)
        yield f"only {name} requires a gradient", backward(moved=(name,)), right, near
        if len(rest) > 1:
            yield f"{name} requires no gradient", backward(moved=rest), right, near
    for i in range(len(dys)) if len(dys) > 1 else ():
        padded = [dy if k == i else zero for k, (dy, zero) in enumerate(zip(dys, zeros))]
        alone = [dy.clone() if k == i else None for k, dy in enumerate(dys)]
        yield f"only output {i} is used", backward(alone), filled(padded), near

    def twice():
        once = Backward(subject, tensors)
        once(copies(dys))
        return once(copies(dys))

    def late():
        first = Backward(subject, tensors)
        Backward(subject, other)
        return first(copies(dys))

    yield "the second backward of one forward", twice, right, near
    yield "after another forward", late, right, near

    def refused(name):
        own = {n: tensors[n].clone() for n in moved}
        forward = Backward(subject, tensors | own)
        own[name].add_(1)  # PyTorch counts such changes, of what the forward has saved by its own means
        try:
            return forward(copies(dys))
        except RuntimeError:
            return {}

    for name in moved:
        words = f"{name} changed in place after the forward, and nothing refuses it"
        yield words, lambda name=name: refused(name), right, near
    single = {name: x.float() if _is_floating(x) else x for name, x in tensors.items()}
    rough = {name: FLOAT32_TOLERANCE / SAME * size for name, size in near.items()}
    yield "float32", lambda: Backward(subject, single)([dy.float() for dy in dys]), right, rough
