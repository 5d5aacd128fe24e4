r"""Dropout with the mask passed in; kept entries are scaled up, so that the mean stays.

    forward    y  = x ∘ keep / (1 - p)
    backward   dx = dy ∘ keep / (1 - p)

Srivastava et al. (2014), section 10, in the "inverted" form, which leaves inference untouched.
"""

from ..algebra import check_array, check_number, namespace


def dropout(x, keep, p):
    """x (...), keep (...) Boolean, probability p of being dropped -> y (...), cache.

    keep=None means no dropout. Raises TypeError if `keep` is not Boolean, ValueError if p is not in [0, 1) or
    the shapes differ.
    """
    if keep is None:
        return x, {"keep": None, "shape": x.shape}
    check_number("p", p)
    if not 0 <= p < 1:
        raise ValueError(f"p: expected a probability in [0, 1), got {p}")
    check_array("keep", keep, x.shape, "Booleans")
    keep = namespace(x).asarray(keep)
    return _apply(x, keep, p), {"keep": keep, "shape": x.shape, "p": p}


def dropout_backward(dy, cache):
    """dy (...) -> dx (...)."""
    check_array("dy", dy, cache["shape"])
    return dy if cache["keep"] is None else _apply(dy, cache["keep"], cache["p"])


def _apply(x, keep, p):
    return namespace(x).where(keep, x, 0) / (1 - p)
