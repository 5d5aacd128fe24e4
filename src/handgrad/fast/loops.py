r"""Chains of element-wise steps, each as one compiled loop: a number is read, goes through its whole formula,
and is written, once. A loop names the lines of `ops` that it compiles, and reads as they do.

`of_kind(dtype)` holds them for float32 or float64. Each is compiled when it is first called, and kept on
disk. They work in place, on arrays that lie in one piece; a door before each checks type, layout and shape.
What is no faster as a loop is none: NumPy adds biases, sums columns and reads rows of a table.

Numba has no exp that takes several numbers at once. So exp is written out here, and the others with it: tanh
and σ are fractions of exp, and Φ, the distribution function of N(0, 1), is exp(-x²/2) times a polynomial.
Every constant has the type of the arrays: one number of 64 bits would make all that follows twice as wide.
"""

import functools
import math
import pickle
from types import SimpleNamespace

import numpy as np
from numba import njit
from numba.extending import register_jitable
from numpy.polynomial import chebyshev
from scipy.special import erfcx

OTHER_TYPES = {"keep": np.bool_, "hidden": np.bool_, "targets": np.intp, "index": np.intp}
"""Arguments that hold no numbers of the loop's own type."""

ANY_ORDER = {"reassoc", "contract", "nsz", "arcp"}
"""A sum may be taken in any order; ∞, and what is no number, stay what they are."""


def kept(f, **options):
    """A function that numba compiles, and keeps on disk if there is a folder where it may."""
    try:
        return njit(f, cache=True, **options)
    except RuntimeError as error:
        if "no locator" not in str(error):
            raise
        return njit(f, **options)


def loop(dtype, writes, **shapes):
    """Compile a function whose first arguments are arrays of these shapes, in letters, or None.

    writes: the names of those that it writes to. Called, it raises TypeError for an array of another type or
    with gaps, ValueError for another shape or an array that is written and may only be read, RuntimeError if
    what numba keeps on disk is damaged.
    """
    number = np.dtype(dtype).type
    wanted = [
        (name, np.dtype(OTHER_TYPES.get(name, dtype)), tuple(s.split()), name in writes.split())
        for name, s in shapes.items()
    ]

    def decorate(f):
        run = kept(f, nogil=True, error_model="numpy", fastmath=ANY_ORDER)

        @functools.wraps(f)
        def door(*arguments):
            sizes = {}
            for (name, own, letters, written), x in zip(wanted, arguments):
                if x is None:
                    continue
                if not isinstance(x, np.ndarray):
                    raise TypeError(f"{name}: expected an array of NumPy, got {type(x).__name__}")
                if x.dtype != own or not x.flags.c_contiguous:
                    gaps = "" if x.flags.c_contiguous else " with gaps"
                    raise TypeError(f"{name}: expected {own} in one piece, got {x.dtype}{gaps}")
                fits = len(letters) == x.ndim
                if not (fits and all(sizes.setdefault(*pair) == pair[1] for pair in zip(letters, x.shape))):
                    expected = ", ".join(str(sizes.get(letter, letter)) for letter in letters)
                    raise ValueError(f"{name}: expected shape ({expected}), got {x.shape}")
                if written and not x.flags.writeable:
                    raise ValueError(f"{name}: expected an array to write to, got one to be read only")
            try:
                return run(*(number(x) if isinstance(x, float) else x for x in arguments))
            except (EOFError, pickle.UnpicklingError) as error:
                raise RuntimeError(
                    f"numba's cache: expected what numba wrote, got a damaged file ({error}); "
                    f"remove the folder {run.stats.cache_path}"
                ) from error

        return door

    return decorate


def of_kind(dtype):
    """All loops for arrays of this type, by their names. Raises TypeError but for float32 and float64."""
    dtype = np.dtype(dtype)
    if dtype not in (np.float32, np.float64):
        raise TypeError(f"dtype: expected float32 or float64, got {dtype}")
    return _loops(dtype)


@functools.cache
def _loops(dtype):
    single, number, array = dtype == np.float32, dtype.type, functools.partial(loop, dtype)
    zero, half, one, two, infinity = map(number, (0, 0.5, 1, 2, math.inf))

    # exp(x) = 2ⁿ exp(r), and r = x - n ln 2 is at most ln(2)/2 in size, so that few terms of the series do.
    # ln 2 is taken away in two parts; the first has so few digits that n times it is exact.

    integer, bits, bias = (np.int32, 23, 127) if single else (np.int64, 52, 1023)
    per_ln2, ln2_high = number(1 / math.log(2)), number(0.693359375 if single else 6.93145751953125e-1)
    ln2_low = number(math.log(2) - 0.693359375 if single else 1.42860682030941723212e-6)
    lowest, highest = number(-87 if single else -708), number(88 if single else 709)
    series = tuple(number(1 / math.factorial(k)) for k in range(7 if single else 13, -1, -1))

    @register_jitable(fastmath={"contract"})
    def exp(x):
        n = np.floor((highest if x > highest else lowest if x < lowest else x) * per_ln2 + half)
        r = x - n * ln2_high - n * ln2_low
        y = zero
        for c in series:
            y = y * r + c
        y *= integer((integer(n) + integer(bias)) << integer(bits)).view(number)
        return zero if x < lowest else y  # exactly 0: products with what is nearly 0 are slow

    @register_jitable
    def largest(row):
        """The maximum, of four runs at a time: one of them would wait for each comparison."""
        a = b = c = d = -infinity
        whole = row.size // 4 * 4
        for j in range(0, whole, 4):
            a = row[j] if row[j] > a else a
            b = row[j + 1] if row[j + 1] > b else b
            c = row[j + 2] if row[j + 2] > c else c
            d = row[j + 3] if row[j + 3] > d else d
        for j in range(whole, row.size):
            a = row[j] if row[j] > a else a
        return max(max(a, b), max(c, d))

    # φ(x) = x ∘ gate(x), and φ' from both: ops.activations

    per_root_2, per_root_2_pi = number(1 / math.sqrt(2)), number(1 / math.sqrt(2 * math.pi))
    linear, cubic = number(math.sqrt(2 / math.pi)), number(math.sqrt(2 / math.pi) * 0.044715)
    slowness, beyond = number(0.4), number(1000)

    def tail(t):
        """exp(z²) erfc(z)/2 over r, where r = 1/(1 + 0.4 z) = (1 - t)/2: smooth for t from -1 to 1."""
        return erfcx((2 / (1 - t) - 1) / 0.4) / (1 - t)

    fitted = chebyshev.cheb2poly(chebyshev.chebinterpolate(tail, 10 if single else 22))
    tail_series = tuple(number(c) for c in fitted[::-1])

    @register_jitable(inline="always")
    def relu_gate(x):
        return one if x > zero else zero

    @register_jitable(inline="always")
    def relu_slope(x, gate):
        return gate

    @register_jitable(inline="always")
    def gelu_gate(x):
        r = one / (one + slowness * per_root_2 * abs(x))
        t, y = one - two * r, zero
        for c in tail_series:
            y = y * t + c
        y *= r * exp(-half * x * x)  # Φ(-|x|)
        return one - y if x > zero else y

    @register_jitable(inline="always")
    def gelu_slope(x, gate):
        return gate + x * exp(-half * x * x) * per_root_2_pi

    @register_jitable(inline="always")
    def gelu_tanh_gate(x):
        u = -two * x * (linear + cubic * x * x)
        return one / (one + exp(beyond if u > beyond else u))  # of infinity, exp is no number

    @register_jitable(inline="always")
    def gelu_tanh_slope(x, gate):
        return gate * (one + x * (one - gate) * two * (linear + number(3) * cubic * x * x))

    @register_jitable(inline="always")
    def silu_gate(x):
        return one / (one + exp(-x))

    @register_jitable(inline="always")
    def silu_slope(x, gate):
        return gate * (one + x * (one - gate))

    def activation(gate, slope):
        @array("h a", h="n F", a="n F", b="F", up="n F", keep="n F")
        def active(h, a, b, up, keep, scale):
            """h ← h + b;  a ← φ(h) ∘ up ∘ keep/(1 - p). What is None is left out; scale = 1/(1 - p)."""
            for i in range(h.shape[0]):
                for j in range(h.shape[1]):
                    x = h[i, j]
                    if b is not None:
                        x += b[j]
                        h[i, j] = x
                    y = x * gate(x)
                    if up is not None:
                        y *= up[i, j]
                    if keep is not None:
                        y = y * scale if keep[i, j] else zero
                    a[i, j] = y

        @array("h da up", h="n F", da="n F", up="n F", keep="n F")
        def active_backward(h, da, up, keep, scale):
            """h ← a, once more;  da ← dh = da ∘ φ'(h) ∘ up;  up ← dup = da ∘ φ(h); all ∘ keep/(1 - p)."""
            for i in range(h.shape[0]):
                for j in range(h.shape[1]):
                    x, dy = h[i, j], da[i, j]
                    g = gate(x)
                    y, dx = x * g, dy * slope(x, g)
                    dup = dy * y
                    if keep is not None:
                        y, dx, dup = (
                            (y * scale, dx * scale, dup * scale) if keep[i, j] else (zero, zero, zero)
                        )
                    if up is not None:
                        u = up[i, j]
                        up[i, j] = dup
                        y, dx = y * u, dx * u
                    h[i, j], da[i, j] = y, dx

        return active, active_backward

    activations = {
        "relu": activation(relu_gate, relu_slope),
        "gelu": activation(gelu_gate, gelu_slope),
        "gelu_tanh": activation(gelu_tanh_gate, gelu_tanh_slope),
        "silu": activation(silu_gate, silu_slope),
    }

    # ops.layer_norm; without β, ops.rms_norm

    @array("x_hat inverse_std y", x="n D", gamma="D", beta="D", x_hat="n D", inverse_std="n", y="n D")
    def normalize(x, gamma, beta, x_hat, inverse_std, y, eps):
        """x̂ ← (x - mean(x)) / √(var(x) + ε);  y ← γ ∘ x̂ + β. y may be x."""
        n, D = x.shape
        for i in range(n):
            mean, variance = zero, zero
            if beta is not None:
                for j in range(D):
                    mean += x[i, j]
                mean /= number(D)
            for j in range(D):
                variance += (x[i, j] - mean) * (x[i, j] - mean)
            r = one / np.sqrt(variance / number(D) + eps)
            inverse_std[i] = r
            for j in range(D):
                x_hat[i, j] = (x[i, j] - mean) * r
                y[i, j] = gamma[j] * x_hat[i, j]
                if beta is not None:
                    y[i, j] += beta[j]

    @array(
        "dgamma dbeta dx", dy="n D", x_hat="n D", inverse_std="n", gamma="D", dgamma="D", dbeta="D", dx="n D"
    )
    def normalize_backward(dy, x_hat, inverse_std, gamma, dgamma, dbeta, dx, add):
        """dx ← r (γ ∘ dy - mean(γ ∘ dy) - x̂ ∘ mean(γ ∘ dy ∘ x̂));  dγ += Σ dy ∘ x̂;  dβ += Σ dy.

        dx may be dy; with `add` it is added to what is there.
        """
        n, D = dy.shape
        for i in range(n):
            through_mean, through_variance = zero, zero
            for j in range(D):
                if dbeta is not None:
                    through_mean += gamma[j] * dy[i, j]
                through_variance += gamma[j] * dy[i, j] * x_hat[i, j]
            through_mean, through_variance = through_mean / number(D), through_variance / number(D)
            r = inverse_std[i]
            for j in range(D):
                own = dy[i, j]
                dgamma[j] += own * x_hat[i, j]
                if dbeta is not None:
                    dbeta[j] += own
                own = r * (gamma[j] * own - through_mean - x_hat[i, j] * through_variance)
                dx[i, j] = dx[i, j] + own if add else own

    @array("y", x_hat="n D", gamma="D", beta="D", y="n D")
    def scale_shift(x_hat, gamma, beta, y):
        """y ← γ ∘ x̂ + β."""
        for i in range(y.shape[0]):
            for j in range(y.shape[1]):
                y[i, j] = gamma[j] * x_hat[i, j]
                if beta is not None:
                    y[i, j] += beta[j]

    @array("out", x="n D", y="n D", keep="n D", out="n D")
    def dropped_sum(x, y, keep, out, scale):
        """out ← x + y ∘ keep/(1 - p): ops.dropout and the connection around. No x: 0. No keep: all."""
        for i in range(out.shape[0]):
            for j in range(out.shape[1]):
                own = y[i, j]
                if keep is not None:
                    own = own * scale if keep[i, j] else zero
                out[i, j] = own if x is None else x[i, j] + own

    # ops.softmax, of blocks of queries

    @array("s", s="b H t S", hidden="b keys")
    def softmax(s, hidden, before, scale):
        """s ← softmax(scale ∘ s) over the keys that a query sees, 0 elsewhere, and 0 if it sees none.

        It sees what is not hidden and, unless before < 0, comes no later than itself: the block's first query
        has `before` keys before its own.
        """
        for i in range(s.shape[0]):
            for h in range(s.shape[1]):
                for t in range(s.shape[2]):
                    row, total = s[i, h, t], zero
                    if hidden is not None:
                        for j in range(row.size):
                            row[j] = -infinity if hidden[i, j] else row[j]
                    if before >= 0:
                        row[before + t + 1 :] = -infinity
                    top = largest(row)
                    top = zero if top == -infinity else top
                    for j in range(row.size):
                        row[j] = exp(scale * (row[j] - top))
                        total += row[j]
                    total = one if total == zero else one / total
                    for j in range(row.size):
                        row[j] *= total

    @array("da", da="n S", a="n S")
    def softmax_backward(da, a, scale):
        """da ← dscores = scale ∘ a ∘ (da - Σ a ∘ da).

        The sum is that of o ∘ do, which would be less work. But in float32 its rounding is not that of da,
        and where all da of a row are nearly equal, what is left of them is their rounding.
        """
        for i in range(da.shape[0]):
            total = zero
            for j in range(da.shape[1]):
                total += a[i, j] * da[i, j]
            for j in range(da.shape[1]):
                da[i, j] = scale * a[i, j] * (da[i, j] - total)

    # The rest

    @array("y", y="n width", cos="T half", sin="T half")
    def turn(y, cos, sin):
        """ops.rotary of the heads that lie side by side in a row of y; T rows are a sequence."""
        T, pairs = cos.shape
        if y.shape[1] % (2 * pairs):
            raise ValueError("y: expected a width that the heads divide")
        for i in range(y.shape[0]):
            for start in range(0, y.shape[1], 2 * pairs):
                for k in range(pairs):
                    even, odd = y[i, start + 2 * k], y[i, start + 2 * k + 1]
                    y[i, start + 2 * k] = even * cos[i % T, k] - odd * sin[i % T, k]
                    y[i, start + 2 * k + 1] = odd * cos[i % T, k] + even * sin[i % T, k]

    @array("table", index="n", values="n D", table="V D")
    def scatter_add(index, values, table):
        """table[index[i]] += values[i], one after another: ops.embedding_backward."""
        for i in range(index.size):
            if not 0 <= index[i] < table.shape[0]:
                raise IndexError("index: expected rows of the table")
        for i in range(index.size):
            for j in range(values.shape[1]):
                table[index[i], j] += values[i, j]

    @array("z", z="n V", targets="n", weights="n")
    def cross_entropy(z, targets, weights, smoothing):
        """Σ weight (log Σ exp(z) - q · z), where q is the smoothed target;  z ← weight (softmax(z) - q)."""
        n, V = z.shape
        loss, smooth = 0.0, smoothing / number(V)
        for i in range(n):
            if not 0 <= targets[i] < V:
                raise IndexError("targets: expected logits of a row")
        for i in range(n):
            row, weight, total, mean = z[i], weights[i], zero, zero
            if weight == zero:
                row[:] = zero  # what does not count counts nothing, not even an infinite logit
                continue
            top = largest(row)
            wanted = row[targets[i]] - top
            for j in range(V):
                x = row[j] - top
                mean += x
                row[j] = exp(x)
                total += row[j]
            wanted *= one - smoothing
            if smoothing > zero:
                wanted += smooth * mean
            loss += weight * (np.log(total) - wanted)
            for j in range(V):
                row[j] = weight * (row[j] / total - smooth)
            row[targets[i]] -= (one - smoothing) * weight
        return loss

    @array("p m v", p="P", g="P", m="P", v="P")
    def adamw(p, g, m, v, factor, decay, new_1, new_2, root_bias, step_size, eps):
        """optim.adamw of g ∘ factor; new = 1 - β, step_size = rate/(1 - β₁ᵗ), root_bias = √(1 - β₂ᵗ)."""
        for i in range(p.size):
            own = g[i] * factor
            m[i] += new_1 * (own - m[i])
            v[i] += new_2 * (own * own - v[i])
            p[i] = decay * p[i] - step_size * m[i] / (np.sqrt(v[i]) / root_bias + eps)

    names = (exp, normalize, normalize_backward, scale_shift, dropped_sum, softmax, softmax_backward)
    names += (turn, scatter_add, cross_entropy, adamw)
    return SimpleNamespace(number=number, activations=activations, **{f.__name__: f for f in names})
