"""What the step asks of NumPy and of torch in different words: products, sums and chains that write to `out`.

Each function takes arrays of one library and leaves its result where it is told. Most lines serve both: the
in-place operators, and functions of the same name with `out`. Nothing imports torch: it is there if x is its.
"""

import functools
import math
import sys

import numpy as np
from scipy.special import erf, expit

LINE = 64  # bytes


def library(x):
    """The module whose array x is: numpy or torch."""
    return np if isinstance(x, np.ndarray) else sys.modules["torch"]


def check_apart(name, written, read=()):
    """Raise ValueError unless each of `written` can be written to, in memory that no other array touches."""
    if not all(x.flags.writeable for x in written if isinstance(x, np.ndarray)):
        raise ValueError(f"{name}: expected arrays that can be written to, got one to be read only")
    spans = [(*span(x), True) for x in written] + [(*span(x), False) for x in read]
    end = end_of_written = 0
    for start, stop, is_written in sorted(spans):
        if start < (end if is_written else end_of_written):
            raise ValueError(f"{name}: expected arrays with memory of their own, got two that overlap")
        end, end_of_written = max(end, stop), max(end_of_written, stop if is_written else 0)


def span(x):
    """Where the memory of x begins and ends, in bytes."""
    if isinstance(x, np.ndarray):
        return np.lib.array_utils.byte_bounds(x)
    last = sum((n - 1) * stride for n, stride in zip(x.shape, x.stride()))
    return x.data_ptr(), x.data_ptr() + (last + 1) * x.element_size()


def empty(shape, x):
    """An array of x's library, type and device, whose numbers are still to be written.

    It begins at a line of the cache, which torch sees to itself: else each load of 64 bytes needs two lines.
    """
    if not isinstance(x, np.ndarray):
        return x.new_empty(shape)
    size, line = math.prod(shape), LINE // x.itemsize
    memory = np.empty(size + line, x.dtype)
    start = -memory.ctypes.data % LINE // x.itemsize
    return memory[start : start + size].reshape(shape)


def heads(x, b, K):
    """x (b·T, H·K) -> (b, H, T, K), the same numbers."""
    return x.reshape(b, x.shape[0] // b, -1, K).swapaxes(1, 2)


# Products and sums


def linear(x, W, b, out):
    """ops.linear: x (n, D), W (D, F), b (F,) or None -> out (n, F)."""
    if b is not None and library(x) is not np:
        return library(x).addmm(b, x, W, out=out)
    library(x).matmul(x, W, out=out)
    if b is not None:
        out += b
    return out


def linear_backward(dy, x, W, dx, dW, db, arena):
    """ops.linear_backward: dy (n, F), x (n, D), W (D, F) -> dx (n, D); added to dW (D, F), db (F,) or None.

    dx may lie in the place of x. Of the first sequences dW is written: there is nothing yet to add to.
    """
    if arena.first:
        library(x).matmul(x.T, dy, out=dW)
    elif library(x) is np:
        with arena.scratch():
            dW += np.matmul(x.T, dy, out=arena.empty(*dW.shape))
    else:
        dW.addmm_(x.T, dy)
    if db is not None:
        db += column_sum(dy)
    return library(x).matmul(dy, W.T, out=dx)


def matmul(x, y, out):
    """x (b, H, n, m), y (b, H, m, l) -> out (b, H, n, l). For torch, heads lie in one piece in x and y."""
    if isinstance(x, np.ndarray):
        return np.matmul(x, y, out=out)
    rows = x.flatten(0, 1), y.flatten(0, 1)
    if out.is_contiguous():
        library(x).bmm(*rows, out=out.view(-1, *out.shape[2:]))
    else:
        out.copy_(library(x).bmm(*rows).view(out.shape))
    return out


def column_sum(x):
    """x (n, F) -> (F,). For NumPy a product with ones."""
    return ones(len(x), x.dtype) @ x if isinstance(x, np.ndarray) else x.sum(0)


@functools.lru_cache(maxsize=64)
def ones(n, dtype):
    """(n,) for NumPy, to be read only: everybody has the same."""
    array = np.ones(n, dtype)
    array.flags.writeable = False
    return array


def take(table, index, out):
    """ops.embedding: table (V, D), index (n,) within it -> out (n, D)."""
    if isinstance(table, np.ndarray):
        return np.take(table, index, axis=0, out=out, mode="clip")  # "clip" spares a copy
    return library(table).index_select(table, 0, index, out=out)


def scatter_add(index, values, out):
    """algebra.scatter_add: index (n,), values (n, D) added to out (V, D). NumPy sorts, then adds runs."""
    if not isinstance(values, np.ndarray):
        return out.index_add_(0, index, values)
    order = np.argsort(index, kind="stable")
    ordered = index[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    out[ordered[starts]] += np.add.reduceat(values[order], starts, axis=0)
    return out


# Chains


def scale_shift(x, gamma, beta, out):
    """γ ∘ x + β -> out (which may be x); β may be None, or be one number for each row."""
    if beta is not None and library(x) is not np:
        return library(x).addcmul(beta, x, gamma, out=out)
    library(x).multiply(x, gamma, out=out)
    if beta is not None:
        out += beta
    return out


def subtract_product(x, y, z, scratch):
    """x ← x - y ∘ z."""
    if not isinstance(x, np.ndarray):
        return x.addcmul_(y, z, value=-1)
    x -= np.multiply(y, z, out=scratch)
    return x


def standardize(x, eps, center, arena):
    """x (n, D) -> x_hat (n, D) and inverse_std (n, 1); without `center` the mean is taken to be 0.

    In cache blocks. Means are products with 1/D: for torch this is also quicker than its own function.
    """
    (n, D), xp = x.shape, library(x)
    x_hat, inverse_std, mean = arena.like(x), arena.empty(n, 1), arena.empty(D, 1)
    mean[...] = 1 / D
    for own, hat, r in arena.blocks(x, x_hat, inverse_std):  # (block, D) twice, (block, 1)
        if center:
            own = xp.subtract(own, own @ mean, out=hat)
        with arena.scratch():
            xp.matmul(xp.multiply(own, own, out=arena.like(own)), mean, out=r)
        r += eps
        r **= -0.5
        xp.multiply(own, r, out=hat)
    return x_hat, inverse_std


def hidden_future(T, arena):
    """(T, T): -∞ where a key comes after the query, 0 elsewhere."""
    future = arena.empty(T, T)
    future[...] = -math.inf
    return library(future).triu(future, 1)


def exponentials(s, factor, empty_rows):
    """The weights of ops.softmax over s (..., S) in its place, 0 in a row of −∞ (if `empty_rows` may be).

    For NumPy they lack a factor (..., 1): applied later, to something smaller. Returns it, or None. The row
    maxima are those of runs in one long row: numpy.max is slow along many short ones.
    """
    if not isinstance(s, np.ndarray):
        library(s).softmax(s, -1, out=s)
        if empty_rows:
            s.nan_to_num_(0.0)
        return None
    S = s.shape[-1]
    e = s.reshape(-1, S)
    top = np.maximum.reduceat(e.reshape(-1), np.arange(0, e.size, S))[:, None]
    if empty_rows:
        top = np.maximum(top, np.finfo(s.dtype).min)  # −∞ − −∞ is no number
    e -= top
    np.exp(e, out=e)
    total = np.matmul(e, ones(S, s.dtype)[:, None], out=factor.reshape(-1, 1))
    if empty_rows:
        total[total == 0] = 1
    np.reciprocal(total, out=total)
    return factor


def softmax_backward(ds, e, factor):
    """ops.softmax_backward, in place: ds (..., S) is dA times the factor, e what `exponentials` left.

    The row sum of A ∘ dA is that of O ∘ dO, which would be less work. But in float32 its rounding is another
    than that of dA, and where all dA of a row are nearly equal, what is left of them is their rounding.
    """
    if isinstance(ds, np.ndarray):
        ds -= np.vecdot(e, ds)[..., None] * factor
        ds *= e
    else:
        ds *= e
        ds.addcmul_(e, ds.sum(-1, keepdim=True), value=-1)


def drop(x, keep, p):
    """ops.dropout, and its backward, in place."""
    if keep is not None:
        x *= keep
        x *= 1 / (1 - p)
    return x


def turn(x, cos, sin):
    """ops.rotary, in place: x (b, H, T, K), cos and sin (T, K/2). Its backward: the same with -sin."""
    even, odd = x[..., 0::2], x[..., 1::2]
    turned = even * cos - odd * sin
    odd[...] = odd * cos + even * sin
    even[...] = turned


def cross_entropy(z, targets, weights, label_smoothing, arena):
    """ops.cross_entropy. z (n, V), targets and weights (n,) -> loss; z becomes its gradient. In blocks."""
    xp, smooth, loss = library(z), label_smoothing / z.shape[1], 0.0
    for s, target, weight in arena.blocks(z, targets, weights[:, None]):  # (block, V), (block,), (block, 1)
        at = xp.arange(len(s), device=s.device), target
        s -= xp.amax(s, axis=1, keepdims=True)
        wanted = (1 - label_smoothing) * s[at][:, None]
        if smooth:
            wanted += smooth * s.sum(axis=1, keepdims=True)
        xp.exp(s, out=s)
        total = s.sum(axis=1, keepdims=True)
        wanted[weight == 0] = 0  # where a target does not count, not even an infinite logit does
        loss += float((weight * (xp.log(total) - wanted)).sum())
        s *= weight / total
        if smooth:
            s -= smooth * weight
        s[at] -= (1 - label_smoothing) * weight[:, 0]
    return loss


def adamw(p, g, m, v, scratch, decay, beta_1, beta_2, root_bias, step_size, eps):
    """optim.adamw for runs of numbers: p, m and v in place. step_size and root_bias correct the bias."""
    xp = library(p)
    p *= decay
    if xp is np:
        m += np.multiply(np.subtract(g, m, out=scratch), 1 - beta_1, out=scratch)
        v *= beta_2
        v += np.multiply(np.multiply(g, g, out=scratch), 1 - beta_2, out=scratch)
    else:
        m.lerp_(g, 1 - beta_1)
        v.mul_(beta_2).addcmul_(g, g, value=1 - beta_2)
    step_size *= root_bias  # m / (√v / root_bias + ε) = root_bias m / (√v + root_bias ε)
    xp.sqrt(v, out=scratch)
    scratch += root_bias * eps
    if xp is np:
        np.divide(m, scratch, out=scratch)
        p -= np.multiply(scratch, step_size, out=scratch)
    else:
        p.addcdiv_(m, scratch, value=-step_size)


def square(x, scale, shift, out):
    """scale x² + shift -> out (which may be x)."""
    if not isinstance(x, np.ndarray):
        return library(x).addcmul(constant(shift, x.dtype, x.device), x, x, value=scale, out=out)
    np.multiply(x, x, out=out)
    out *= scale
    out += shift
    return out


@functools.cache
def constant(value, dtype, device):
    """A number as torch wants it in the place of a tensor."""
    return sys.modules["torch"].tensor(value, dtype=dtype, device=device)


# Activations: φ(x) = x ∘ gate(x). A slope is written to the place of x; the gate is used up, and a is φ(x).


def relu_gate(x, out):
    """1 where x > 0."""
    library(x).greater(x, 0, out=out)


def relu_slope(x, gate, a):
    """φ' = gate."""
    x[...] = gate


def gelu_gate(x, out):
    """Φ(x)."""
    xp = library(x)
    xp.multiply(x, 1 / math.sqrt(2), out=out)
    (erf if xp is np else xp.erf)(out, out=out)
    out += 1
    out *= 0.5


def gelu_slope(x, gate, a):
    """φ' = Φ(x) + x exp(-x²/2) / √(2π)."""
    density = x * x
    density *= -0.5
    library(x).exp(density, out=density)
    density *= 1 / math.sqrt(2 * math.pi)
    x *= density
    x += gate


TANH, CUBE = math.sqrt(2 / math.pi), math.sqrt(2 / math.pi) * 0.044715
"""u = TANH x + CUBE x³."""


def gelu_tanh_gate(x, out):
    """(1 + tanh u)/2, which is σ(2 u)."""
    xp, factor = library(x), 1 if isinstance(x, np.ndarray) else 2
    square(x, factor * CUBE, factor * TANH, out=out)
    out *= x
    if xp is np:
        np.tanh(out, out=out)
        out += 1
        out *= 0.5
    else:
        out.sigmoid_()


def gelu_tanh_slope(x, gate, a):
    """φ' = gate + φ (1 - gate) 2 u'."""
    square(x, 6 * CUBE, 2 * TANH, out=x)
    x *= a
    gated_sum(x, gate)


def silu_gate(x, out):
    """σ(x)."""
    xp = library(x)
    (expit if xp is np else xp.sigmoid)(x, out=out)


def silu_slope(x, gate, a):
    """φ' = gate + φ (1 - gate)."""
    x[...] = a
    gated_sum(x, gate)


def gated_sum(x, gate):
    """x ← gate + x (1 - gate), which is 1 + (1 - gate)(x - 1)."""
    if not isinstance(x, np.ndarray):
        return x.lerp_(constant(1.0, x.dtype, x.device), gate)
    x -= 1
    x *= np.subtract(1, gate, out=gate)
    x += 1
    return x


ACTIVATIONS = {
    "relu": (relu_gate, relu_slope),
    "gelu": (gelu_gate, gelu_slope),
    "gelu_tanh": (gelu_tanh_gate, gelu_tanh_slope),
    "silu": (silu_gate, silu_slope),
}
