"""The training step of `model`, made fast: the same parameters, loss and gradients, on arrays of NumPy.

    loops      chains of element-wise steps, each as one compiled loop
    memory     memory that one step after another uses, and threads
    sharing    rows, weights and dropout of each worker, and their gradients added
    step       forward, backward and the loss: the formulas of `ops`, in place and in blocks
    update     clipping and AdamW in place; `engine`, which trains with all of this

numba compiles the loops: the extra `fast`. Without it `engine` is that of the readable step, and says so.
Nothing outside this room imports it, but what makes the book: `train.run` takes its `engine` as an argument.
"""

import warnings

from ..train import readable

try:
    from .memory import Workspace, torch_product
    from .step import backward, forward, loss_and_gradients
    from .update import engine
except ModuleNotFoundError as error:
    if error.name != "numba":
        raise

    def engine(state, config, recipe, gradients=None):
        """The engine of the readable step, which is slower: `train.readable`, with its errors."""
        warnings.warn("without numba the readable step trains: pip install handgrad[fast]", stacklevel=2)
        return readable(state, config, recipe, **({"gradients": gradients} if gradients else {}))

    def __getattr__(name):
        if name in ("Workspace", "backward", "forward", "loss_and_gradients", "torch_product"):
            raise ImportError(f"{name}: expected numba to be there: pip install handgrad[fast]", name="numba")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    __all__ = ["engine"]
else:
    __all__ = ["Workspace", "backward", "engine", "forward", "loss_and_gradients", "torch_product"]
