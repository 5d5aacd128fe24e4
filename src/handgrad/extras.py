"""What an extra brings along, and the words for those who have not installed it."""

import sys
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def needs(*extras):
    """Imports in this block say, where they fail, which extra of the package is to be installed.

    Raises ModuleNotFoundError, with that sentence. A command, `handgrad` or `python -m handgrad...`, ends
    with it.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        said = f'{error}. It comes with: pip install "handgrad[{",".join(extras)}]"'
        module = getattr(sys.modules["__main__"], "__spec__", None)
        if module and module.name.startswith("handgrad.") or Path(sys.argv[0]).stem == "handgrad":
            sys.exit(said)
        raise ModuleNotFoundError(said, name=error.name) from error
