"""One text, three algebras: the namespace in which an operation is written.

The operations say `xp = namespace(x)` and then speak the Python array standard, so the same lines run on
NumPy arrays, on torch tensors of any device, and on object arrays of SymPy expressions or 50-digit numbers.
The few functions the standard lacks are here, and what every function asks of its arguments: arrays of one
shape and kind, whole numbers. Nothing imports torch: it is used only if the caller did.
"""

import functools
import math
from numbers import Real

import array_api_compat
import numpy as np
import sympy

from . import symbolic


def namespace(*arrays):
    """The array namespace that owns `arrays`; by convention it is called `xp`.

    Raises TypeError if an argument is no array, if the arrays belong to different libraries, or hold numbers
    of 16 bits, in which the sums of a layer overflow.
    """
    for a in arrays:
        if "float16" in str(getattr(a, "dtype", "")):
            raise TypeError(f"expected arrays of float32 or float64, got {described(a)}: convert it first")
    if any(isinstance(a, np.ndarray) and a.dtype == object for a in arrays):
        return symbolic
    return array_api_compat.array_namespace(*arrays)


def is_torch(x):
    """Whether x is a torch tensor (False, without importing torch, if the caller has not imported it)."""
    return array_api_compat.is_torch_array(x)


def is_shape(node):
    """Whether a node of a tree of shapes is a shape, a tuple, and so a leaf: `is_leaf` of optree."""
    return isinstance(node, tuple)


def like(values, x):
    """A constant NumPy array as an array of x's library and device: floating values as x is, others as int64.

    Booleans stay Booleans.
    """
    xp = namespace(x)
    if xp is symbolic:
        return values
    values = xp.asarray(values, device=array_api_compat.device(x))
    if xp.isdtype(values.dtype, "real floating"):
        return xp.astype(values, x.dtype)
    return values if values.dtype in (xp.int64, xp.bool) else xp.astype(values, xp.int64)


def root(number, x):
    """√number, a constant as exact as x is: a float, 50 digits, or the expression √number."""
    return symbolic.root(number, x) if namespace(x) is symbolic else math.sqrt(number)


def pi(x):
    """π, as exact as x is."""
    return symbolic.pi(x) if namespace(x) is symbolic else math.pi


def error_function(x):
    """erf(x) = 2/√π ∫₀ˣ exp(-t²) dt, element-wise."""
    xp = namespace(x)
    if xp is symbolic:
        return symbolic.erf(x)
    if is_torch(x):
        return xp.erf(x)
    from scipy.special import erf  # where it is used: in a browser, loading it takes a second

    return xp.asarray(erf(np.asarray(x)))


def scatter_add(index, values, rows):
    """Add row i of `values` to row `index[i]` of a zero array with `rows` rows.

    index (n,) integers, values (n, D) -> (rows, D). Rows named twice receive both values. This is the
    adjoint of looking rows up, and what the array standard has no word for.
    """
    xp = namespace(values)
    if is_torch(values):
        return xp.zeros((rows, values.shape[1]), dtype=values.dtype, device=values.device).index_add(
            0, index, values
        )
    if isinstance(values, np.ndarray):
        total = np.zeros((rows, values.shape[1]), dtype=values.dtype)
        np.add.at(total, np.asarray(index), values)
        return total
    one_hot = xp.astype(xp.arange(rows)[:, None] == index[None, :], values.dtype)  # (rows, n)
    return one_hot @ values


# What every function asks of its arguments

KINDS = {"integers": ("int",), "Booleans": ("bool",), "floating numbers or symbols": ("float", "object")}
"""What arrays may be asked to hold, with words that occur in the names of such types."""


def check_array(name, x, shape=None, kind=None):
    """Raise TypeError unless x is an array, of this kind if one is given; ValueError if it has another shape.

    None in the shape stands for any length. An array of another shape is refused even where it could be
    broadcast: a gradient would then have the wrong shape, or be wrong without an error.
    """
    got = getattr(x, "shape", None)
    if got is None:
        raise TypeError(f"{name}: expected an array{f' of {kind}' if kind else ''}, got {type(x).__name__}")
    if kind and not holds(x.dtype, kind):
        raise TypeError(f"{name}: expected {kind}, got {x.dtype}")
    if shape is not None and got != shape and not matches(got, shape):
        expected = str(tuple(shape)).replace("None", "any")
        raise ValueError(f"{name}: expected shape {expected}, got {tuple(got)}")


def check_like(name, x, wanted, shape=None):
    """Raise TypeError unless x is an array of the same kind as `wanted`; ValueError if its shape is another.

    shape: that of `wanted` if None.
    """
    if not array_api_compat.is_array_api_obj(x) or kind(x) != kind(wanted):
        raise TypeError(f"{name}: expected {described(wanted)}, got {described(x)}")
    check_array(name, x, tuple(wanted.shape if shape is None else shape))


def kind(x):
    """What arrays have in common that are used together: library, type and device."""
    return array_api_compat.array_namespace(x), x.dtype, array_api_compat.device(x)


def described(x):
    """The kind of x in words, such as "ndarray of float64"."""
    if not array_api_compat.is_array_api_obj(x):
        return type(x).__name__
    return f"{type(x).__name__} of {x.dtype}" + (f" on {x.device}" if is_torch(x) else "")


@functools.lru_cache(typed=True)  # no type of one library is compared with that of another
def holds(dtype, kind):
    """Whether arrays of this type, of any library, hold numbers of this kind, of KINDS: its name tells."""
    return any(word in getattr(dtype, "name", str(dtype)) for word in KINDS[kind])


def matches(shape, wanted):
    """Whether a shape is the wanted one, in which None is any length."""
    if len(shape) != len(wanted):
        return False
    for length, expected in zip(shape, wanted):
        if expected is not None and length != expected:
            return False
    return True


def check_names(name, entries, needed, optional=()):
    """Raise ValueError unless a dictionary has the entries that are needed, and none that nobody reads.

    TypeError if it is no dictionary.
    """
    if not isinstance(entries, dict):
        raise TypeError(f"{name}: expected a dictionary, got {type(entries).__name__}")
    if not set(needed) <= entries.keys() <= {*needed, *optional}:
        others = f", and perhaps {optional}" if optional else ""
        raise ValueError(f"{name}: expected the entries {needed}{others}, got {list(entries)}")


def check_number(name, x):
    """Raise TypeError unless x is a single number, or the symbol of one."""
    if isinstance(x, int | float):
        return
    if isinstance(x, str) or x is None or np.ndim(x):
        got = f"shape {tuple(np.shape(x))}" if np.ndim(x) else repr(x)
        raise TypeError(f"{name}: expected a number, got {got}")


def is_whole(n):
    """Whether n is an integer, of Python or NumPy, and no Boolean."""
    return isinstance(n, int | np.integer) and not isinstance(n, bool)


def check_integer(name, value, least=0, most=math.inf):
    """Raise TypeError unless value is an integer, ValueError unless least ≤ value ≤ most."""
    expected = f"an integer, {least} ≤ {name}" + (f" ≤ {most}" if most < math.inf else "")
    if not is_whole(value):
        raise TypeError(f"{name}: expected {expected}, got {value!r}")
    if not least <= value <= most:
        raise ValueError(f"{name}: expected {expected}, got {value}")


def check_amount(name, value, positive=False, below=math.inf):
    """Raise TypeError unless value is one real number or symbol, ValueError unless 0 ≤ value < below.

    positive: 0 is refused too. What is infinite or no number (NaN) is refused with the same words.
    """
    expected = f"a number, 0 {'<' if positive else '≤'} {name} < {'∞' if below == math.inf else below}"
    if isinstance(value, bool) or not isinstance(value, Real | sympy.Expr):
        raise TypeError(f"{name}: expected {expected}, got {value!r}")
    if not (0 < value < below if positive else 0 <= value < below):
        raise ValueError(f"{name}: expected {expected}, got {value}")
