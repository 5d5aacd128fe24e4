"""Loops of `handgrad.fast` as NumPy passes: one call of NumPy after another over the same arrays.

What the fast step of `ideas` does without its loops. A pass goes over whole arrays, or over so many rows at a
time that the first array has about `block` numbers in them, which stay in the cache from pass to pass.
"""

import inspect
import math
import threading
from functools import wraps
from types import SimpleNamespace

import numpy as np

from handgrad.ops.activations import ACTIVATIONS

LINEAR, CUBIC = math.sqrt(2 / math.pi), math.sqrt(2 / math.pi) * 0.044715


def of_kind(dtype, block=None):
    """What `ideas` calls of `fast.loops.of_kind`, by its names, and `scratch`: the arrays between passes."""
    number, scratch = np.dtype(dtype).type, {}

    def like(x, name):
        """Scratch of the shape and kind of x: what an earlier call used under this name."""
        key = threading.get_ident(), name, x.shape, type(x)
        if key not in scratch:
            scratch[key] = np.empty_like(x, order="C")
        return scratch[key]

    def by_rows(names):
        """Cut these arguments into blocks of rows; the rest stays whole."""
        names = names.split()

        def decorate(f):
            signature = inspect.signature(f)

            @wraps(f)
            def run(*args):
                given = signature.bind(*args).arguments
                n, size = len(given[names[0]]), given[names[0]].size
                rows = n if block is None else max(1, block * n // size)
                parts = (slice(start, start + rows) for start in range(0, n, rows))
                cut = {name: given[name] for name in names if given[name] is not None}
                found = [f(**given | {name: x[part] for name, x in cut.items()}) for part in parts]
                return None if found[0] is None else sum(found)

            return run

        return decorate

    def phi(name, x, out, slope=None):
        """out ← φ(x), and slope ← φ'(x) if there is one; in place for the φ of the benchmark, gelu_tanh."""
        if name != "gelu_tanh":
            forward, backward = ACTIVATIONS[name]
            y, cache = forward(x)
            if slope is not None:
                slope[...] = backward(np.ones_like(x), cache)
            out[...] = y
            return
        u = np.multiply(x, x, out=like(x, "u"))
        if slope is not None:
            np.multiply(u, 6 * CUBIC, out=slope)
            slope += 2 * LINEAR  # 2u'
            slope *= x
        u *= CUBIC
        u += LINEAR
        u *= x
        gate = np.tanh(u, out=u)  # s = (1 + tanh(u))/2
        gate += 1
        gate *= 0.5
        np.multiply(x, gate, out=out)
        if slope is not None:  # s (1 + x (1 - s) 2u')
            slope *= np.subtract(1, gate, out=like(x, "rest"))
            slope += 1
            slope *= gate

    def activation(name):
        @by_rows("h a up keep")
        def active(h, a, b, up, keep, scale):
            if b is not None:
                h += b
            phi(name, h, a)
            if up is not None:
                a *= up
            drop(a, keep, scale)

        @by_rows("h da up keep")
        def active_backward(h, da, up, keep, scale):
            y, slope = h, like(h, "slope")  # φ(h) takes the place of h
            phi(name, h, y, slope)
            if up is not None:
                slope *= up
                dup = np.multiply(da, y, out=like(h, "dup"))
                y *= up
                np.copyto(up, dup)
                drop(up, keep, scale)
            da *= slope
            drop(h, keep, scale), drop(da, keep, scale)

        return active, active_backward

    def drop(x, keep, scale):
        if keep is not None:
            x *= keep
            x *= scale

    @by_rows("x x_hat inverse_std y")
    def normalize(x, gamma, beta, x_hat, inverse_std, y, eps):
        mean = x.mean(axis=-1, keepdims=True) if beta is not None else 0
        np.subtract(x, mean, out=x_hat)
        square = np.multiply(x_hat, x_hat, out=like(x, "square"))
        inverse_std[...] = 1 / np.sqrt(square.mean(axis=-1) + eps)
        x_hat *= inverse_std[:, None]
        scale_shift_whole(x_hat, gamma, beta, y)

    def scale_shift_whole(x_hat, gamma, beta, y):
        np.multiply(x_hat, gamma, out=y)
        if beta is not None:
            y += beta

    scale_shift = by_rows("x_hat y")(scale_shift_whole)

    @by_rows("dy x_hat inverse_std dx")
    def normalize_backward(dy, x_hat, inverse_std, gamma, dgamma, dbeta, dx, add):
        through = np.multiply(dy, x_hat, out=like(dy, "through"))
        dgamma += through.sum(axis=0)
        own = np.multiply(dy, gamma, out=like(dy, "own"))
        if dbeta is not None:
            dbeta += dy.sum(axis=0)
        through *= gamma
        np.multiply(x_hat, through.mean(axis=-1, keepdims=True), out=through)
        if dbeta is not None:
            own -= own.mean(axis=-1, keepdims=True)
        own -= through
        own *= inverse_std[:, None]
        np.add(dx if add else 0, own, out=dx)

    @by_rows("out x y keep")
    def dropped_sum(x, y, keep, out, scale):
        own = y
        if keep is not None:
            own = np.multiply(y, keep, out=like(y, "own"))
            own *= scale
        np.add(0 if x is None else x, own, out=out)

    def softmax(s, hidden, before, scale):
        rows = None if hidden is None else np.repeat(hidden, s.shape[1], axis=0)
        softmax_of_heads(s.reshape(-1, *s.shape[2:]), rows, before, scale)

    @by_rows("s hidden")
    def softmax_of_heads(s, hidden, before, scale):
        if hidden is not None:
            np.copyto(s, -np.inf, where=hidden[:, None])
        if before >= 0:
            np.copyto(s, -np.inf, where=~np.tri(*s.shape[1:], before, dtype=bool))
        top = s.max(axis=-1, keepdims=True)
        s -= np.where(np.isneginf(top), number(0), top)
        s *= scale
        np.exp(s, out=s)
        total = s.sum(axis=-1, keepdims=True)
        s /= np.where(total == 0, number(1), total)

    @by_rows("da a")
    def softmax_backward(da, a, scale):
        da -= np.multiply(a, da, out=like(a, "product")).sum(axis=-1, keepdims=True)
        da *= a
        da *= scale

    def scatter_add(index, values, table):
        np.add.at(table, index, values)

    @by_rows("z targets weights")
    def cross_entropy(z, targets, weights, smoothing):
        rows, V = np.arange(len(z)), z.shape[1]
        z[weights == 0] = 0
        z -= z.max(axis=-1, keepdims=True)
        wanted = (1 - smoothing) * z[rows, targets] + (smoothing * z.mean(axis=-1) if smoothing else 0)
        np.exp(z, out=z)
        total = z.sum(axis=-1)
        loss = float((weights * (np.log(total) - wanted)).sum(dtype=np.float64))
        z /= total[:, None]
        z -= number(smoothing / V)
        z[rows, targets] -= number(1 - smoothing)
        z *= weights[:, None]
        return loss

    names = (normalize, normalize_backward, scale_shift, dropped_sum, softmax, softmax_backward)
    names += (scatter_add, cross_entropy)
    activations = {name: activation(name) for name in ("relu", "gelu", "gelu_tanh", "silu")}
    own = {f.__name__: f for f in names} | {"scale_shift": scale_shift}
    return SimpleNamespace(number=number, activations=activations, scratch=scratch, **own)
