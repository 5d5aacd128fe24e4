"""What `fused` asks of NumPy and of torch in different words: products, sums and chains that write to `out`.

Each function takes arrays of one library and leaves its result where it is told. Most lines serve both: the
in-place operators, and functions of the same name with `out`. Nothing imports torch: it is there if x is its.
"""

import math
import sys

import numpy as np
from scipy.special import erf


def library(x):
    """The module whose array x is: numpy or torch."""
    return np if isinstance(x, np.ndarray) else sys.modules["torch"]


def empty(shape, x):
    """An array of x's library, type and device, whose numbers are still to be written."""
    return np.empty(shape, x.dtype) if isinstance(x, np.ndarray) else x.new_empty(shape)


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


def linear_backward(dy, x, W, dx, dW, db):
    """ops.linear_backward: dy (n, F), x (n, D), W (D, F) -> dx (n, D), dW (D, F), db (F,) or None."""
    xp = library(x)
    xp.matmul(x.T, dy, out=dW)
    if db is not None:
        column_sum(dy, db)
    xp.matmul(dy, W.T, out=dx)


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


def column_sum(x, out):
    """x (n, F) -> out (F,): for NumPy a product with ones."""
    if isinstance(x, np.ndarray):
        return np.matmul(np.ones(len(x), x.dtype), x, out=out)
    return library(x).sum(x, 0, out=out)


def row_mean(x):
    """x (n, D) -> (n, 1): for NumPy a product."""
    D = x.shape[1]
    return x @ np.full((D, 1), 1 / D, x.dtype) if isinstance(x, np.ndarray) else x.mean(1, keepdim=True)


def row_dot(x, y, K):
    """x, y (n, H·K) -> (n, H): x · y in each piece of K."""
    x, y = x.reshape(len(x), -1, K), y.reshape(len(y), -1, K)
    return np.vecdot(x, y) if isinstance(x, np.ndarray) else (x * y).sum(-1)


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
    """γ ∘ x + β -> out; β may be None."""
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
    """x (n, D) -> x_hat (n, D) and inverse_std (n, 1); without `center` the mean is taken to be 0."""
    (n, D), xp = x.shape, library(x)
    if center and xp is not np:
        x_hat, _, inverse_std = xp.native_layer_norm(x, (D,), None, None, eps)
        return x_hat, inverse_std
    x_hat, inverse_std = arena.like(x), arena.empty(n, 1)
    for own, hat, r in arena.blocks(x, x_hat, inverse_std):  # (block, D) twice, (block, 1)
        if center:
            own = xp.subtract(own, row_mean(own), out=hat)
        r[:] = row_dot(own, own, D)
        r *= 1 / D
        r += eps
        r **= -0.5
        xp.multiply(own, r, out=hat)
    return x_hat, inverse_std


def standardize_backward(d, x_hat, inverse_std, center, arena):
    """d = dx̂ (n, D) -> dx (n, D) in its place: r ∘ (dx̂ - mean(dx̂) - x̂ ∘ mean(dx̂ ∘ x̂))."""
    for own, hat, r in arena.blocks(d, x_hat, inverse_std):  # (block, D) twice, (block, 1)
        used = arena.used
        product = library(d).multiply(own, hat, out=arena.like(own))
        through_variance = row_mean(product)  # (block, 1)
        if center:
            own -= row_mean(own)
        subtract_product(own, hat, through_variance, scratch=product)
        own *= r
        arena.used = used
    return d


def fold(norm, params, names, arena):
    """Move γ and β of a norm into the linear layers of those names that follow it. Returns their W and b.

        (γ ∘ x̂ + β) W + b = x̂ (γ ∘ W) + (β W + b)

    The sub-layer then takes x̂, and γ and β cost as much as a weight is large, and not as much as x is.
    """
    folded = {}
    for name in names:
        W = params[f"W_{name}"]  # (D, F)
        folded[f"W_{name}"] = library(W).multiply(W, norm["gamma"][:, None], out=arena.like(W))
        if "beta" in norm:
            folded[f"b_{name}"] = norm["beta"] @ W + params.get(f"b_{name}", 0)
    return folded


def fold_backward(dfolded, norm, params, names, dnorm, dparams):
    """Gradients of what `fold` returned -> dnorm, dparams. With G = x̂ᵀ dy, dγ is the row sum of W ∘ G."""
    for dparam in dnorm.values():
        dparam[...] = 0
    for name in names:
        W, G, dW = params[f"W_{name}"], dfolded[f"W_{name}"], dparams[f"W_{name}"]
        dnorm["gamma"] += row_dot(W, G, W.shape[1])[:, 0]
        library(W).multiply(G, norm["gamma"][:, None], out=dW)
        if "beta" in norm:
            db = dfolded[f"b_{name}"]
            dnorm["beta"] += W @ db
            dW += norm["beta"][:, None] * db
            if f"b_{name}" in dparams:
                dparams[f"b_{name}"][...] = db


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
    total = np.matmul(e, np.ones((S, 1), s.dtype), out=factor.reshape(-1, 1))
    if empty_rows:
        total[total == 0] = 1
    np.reciprocal(total, out=total)
    return factor


def drop(x, mask, p):
    """ops.dropout, and its backward, in place."""
    if mask is not None:
        x *= mask
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
        loss += float((weight * (xp.log(total) - wanted)).sum())
        s *= weight / total
        if smooth:
            s -= smooth * weight
        s[at] -= (1 - label_smoothing) * weight[:, 0]
    return loss


def adamw(p, g, m, v, scratch, decay, beta_1, beta_2, root_bias, step, eps):
    """optim.adamw for runs of numbers: p, m and v in place. step and root_bias hold the bias corrections."""
    xp = library(p)
    p *= decay
    if xp is np:
        m += np.multiply(np.subtract(g, m, out=scratch), 1 - beta_1, out=scratch)
        v *= beta_2
        v += np.multiply(np.multiply(g, g, out=scratch), 1 - beta_2, out=scratch)
    else:
        m.lerp_(g, 1 - beta_1)
        v.mul_(beta_2).addcmul_(g, g, value=1 - beta_2)
    xp.sqrt(v, out=scratch)
    scratch *= 1 / root_bias
    scratch += eps
    if xp is np:
        np.divide(m, scratch, out=scratch)
        p -= np.multiply(scratch, step, out=scratch)
    else:
        p.addcdiv_(m, scratch, value=-step)


def affine(x, scale, shift, out):
    """scale x + shift -> out."""
    if not isinstance(x, np.ndarray):
        return library(x).add(x.new_tensor(shift), x, alpha=scale, out=out)
    np.multiply(x, scale, out=out)
    out += shift
    return out


# Activations: x -> φ(x) in its place, φ'(x) in slope. scratch is one more array of this shape.


def relu(x, slope, scratch):
    xp = library(x)
    xp.greater(x, 0, out=slope)
    xp.clip(x, 0, None, out=x)


def gelu(x, slope, scratch):
    """Φ(x) stands in scratch."""
    xp = library(x)
    xp.multiply(x, 1 / math.sqrt(2), out=scratch)
    (erf if xp is np else xp.erf)(scratch, out=scratch)
    scratch += 1
    scratch *= 0.5
    xp.multiply(x, x, out=slope)
    slope *= -0.5
    xp.exp(slope, out=slope)
    slope *= 1 / math.sqrt(2 * math.pi)
    slope *= x
    slope += scratch
    x *= scratch


def gelu_tanh(x, slope, scratch):
    """With σ = (1 + tanh u)/2: φ = x σ and, in terms of it, φ' = 1 + (1 - σ)(2 φ u' - 1)."""
    xp, c = library(x), math.sqrt(2 / math.pi)
    a = 0.044715 * c
    xp.multiply(x, x, out=slope)
    affine(slope, 2 * a, 2 * c, out=scratch)
    scratch *= x  # 2 u
    sigmoid(scratch)
    affine(slope, 6 * a, 2 * c, out=slope)  # 2 u'
    x *= scratch  # φ
    slope *= x
    if xp is not np:
        slope.addcmul_(slope, scratch, value=-1).add_(scratch)
        return
    slope -= 1
    np.subtract(1, scratch, out=scratch)  # 1 - σ
    slope *= scratch
    slope += 1


def silu(x, slope, scratch):
    """φ = x σ and, in terms of it, φ' = φ + σ (1 - φ)."""
    xp = library(x)
    scratch[...] = x
    sigmoid(scratch)
    x *= scratch
    xp.subtract(scratch, xp.multiply(x, scratch, out=slope), out=slope)
    slope += x


def sigmoid(x):
    """σ(x) = (1 + tanh(x/2))/2, in place."""
    if not isinstance(x, np.ndarray):
        return x.sigmoid_()
    x *= 0.5
    np.tanh(x, out=x)
    x *= 0.5
    x += 0.5
    return x


ACTIVATIONS = {"relu": relu, "gelu": gelu, "gelu_tanh": gelu_tanh, "silu": silu}
