"""Of pytest what chapters use: an error that is expected."""

import re
from contextlib import contextmanager


@contextmanager
def raises(kind, match=""):
    try:
        yield
    except kind as error:
        assert re.search(match, str(error)), f"expected {match!r} in {error}"
    else:
        raise AssertionError(f"expected {kind.__name__}, but nothing was raised")
