"""One text, three algebras: the namespace in which an operation is written.

The operations say `xp = namespace(x)` and then speak the Python array standard, so the same lines run on
NumPy arrays, on torch tensors of any device, and on object arrays of SymPy expressions or 50-digit numbers.
The few functions the standard lacks are here. Nothing imports torch: it is used only if the caller did.
"""

import math
from numbers import Integral, Real

import array_api_compat
import numpy as np
import scipy.special
import sympy

from . import symbolic


def namespace(*arrays):
    """The array namespace that owns `arrays`; by convention it is called `xp`.

    Raises TypeError if an argument is no array, or if the arrays belong to different libraries.
    """
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
    """A constant NumPy array as an array of x's library, device and (for floating values) dtype."""
    xp = namespace(x)
    if xp is symbolic:
        return values
    values = xp.asarray(values, device=array_api_compat.device(x))
    return xp.astype(values, x.dtype) if xp.isdtype(values.dtype, "real floating") else values


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
    return xp.asarray(scipy.special.erf(np.asarray(x)))


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


def check_integer(name, value, least=0, most=math.inf):
    """Raise TypeError unless value is an integer, ValueError unless least ≤ value ≤ most."""
    expected = f"an integer, {least} ≤ {name}" + (f" ≤ {most}" if most < math.inf else "")
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name}: expected {expected}, got {value!r}")
    if not least <= value <= most:
        raise ValueError(f"{name}: expected {expected}, got {value}")


def check_number(name, value, positive=False, below=math.inf):
    """Raise TypeError unless value is one real number or symbol, ValueError unless 0 ≤ value < below.

    positive: 0 is refused too. What is infinite or no number (NaN) is refused with the same words.
    """
    expected = f"a number, 0 {'<' if positive else '≤'} {name} < {'∞' if below == math.inf else below}"
    if isinstance(value, bool) or not isinstance(value, Real | sympy.Expr):
        raise TypeError(f"{name}: expected {expected}, got {value!r}")
    if not (0 < value < below if positive else 0 <= value < below):
        raise ValueError(f"{name}: expected {expected}, got {value}")
