"""Of pytest what chapters use: an error that is expected."""

import re
from contextlib import contextmanager
from types import SimpleNamespace


@contextmanager
def raises(kind, match=""):
    caught = SimpleNamespace(value=None)
    try:
        yield caught
    except kind as error:
        caught.value = error
        assert re.search(match, str(error)), f"expected {match!r} in {error}"
    else:
        raise AssertionError(f"expected {kind.__name__}, but nothing was raised")
