"""The training step of `model`, made fast: the same parameters, loss and gradients, for NumPy and torch.

    step       forward, backward and the loss, the formulas of `ops` in place and in blocks
    kernels    what NumPy and torch say in different words
    memory     memory that one step after another uses, and threads
    sharing    rows, weights and dropout of each worker, and their gradients added
    update     clipping and AdamW in place; `engine`, which trains with all of this
    parallel   the same in several processes

Nothing outside this room imports it, but what makes the book: `train.run` takes its `engine` as an argument.
"""

from .memory import Workspace
from .step import backward, forward, loss_and_gradients
from .update import engine

__all__ = ["Workspace", "backward", "engine", "forward", "loss_and_gradients"]
