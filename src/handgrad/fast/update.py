"""The update of the fast step: clipping and AdamW in place, over one vector for all parameters."""

import math

import numpy as np
import optree

from ..algebra import check_like
from ..optim import check_tree, checked, clip_factor, norm_of
from ..train import check_loss
from . import step
from .loops import of_kind
from .memory import Workspace, check_apart, empty, shares
from .sharing import check_kind

SHARE = 2**20  # numbers that are worth several workers


def engine(state, config, recipe, gradients=None):
    """An engine of `train.run`: what `train.update` does, by the fast step.

    Returns a function (state, batch, draw_keep) -> next state. The arrays of `state` are copied once, into
    one vector for all parameters and one for each moment; then every update works in place, and the states
    it returns share these vectors: they hold the numbers of the last one. gradients: a function that takes
    and returns what `model.loss_and_gradients` does, in place of this step's own.

    The function raises ValueError for any state but `state` at first and then the one that it returned last,
    RuntimeError after an update that was broken off half way, and errors as `train.update`.
    """
    for name in "mv":
        check_tree(f"state.moments[{name!r}]", state.moments[name], state.params)
    p, params = flatten(state.params)
    g, grads = flatten(state.params)
    (m, first), (v, second) = (flatten(state.moments[name]) for name in "mv")
    workspace, moments, last = Workspace(), {"step": state.step, "m": m, "v": v}, state

    def update_in_place(state, batch, draw_keep):
        nonlocal last
        if state.params is not last.params or state.moments is not last.moments:
            expected = f"expected the last of this engine, after update {last.step}"
            raise ValueError(f"state: {expected}, got another, after update {state.step}")
        if moments["step"] != last.step:
            raise RuntimeError(
                f"state: expected all of update {moments['step']}, but it was broken off half way"
            )
        arguments = dict(draw_keep=draw_keep, label_smoothing=recipe.label_smoothing)
        if gradients is None:
            loss, _ = step.loss_and_gradients(
                params, config, batch, **arguments, workspace=workspace, out=grads
            )
        else:
            loss, new = gradients(params, config, batch, **arguments)
            check_tree("grads", new, params)
            optree.tree_map_(np.copyto, grads, new)
        check_loss(loss, state)
        options = recipe.adam | dict(max_norm=recipe.longest, workspace=workspace)
        adamw_in_place(p, g, moments, recipe.rate(state.step + 1), **options)
        after = {"step": moments["step"], "m": first, "v": second}
        last = state.after(params, after, loss, batch=batch, config=config)
        return last

    return update_in_place


def flatten(tree):
    """Copy a tree of arrays into one vector. Returns the vector, and the tree of its pieces: views of it.

    Raises ValueError if the tree has no array, or arrays of several types.
    """
    leaves = optree.tree_leaves(tree)
    if len({leaf.dtype for leaf in leaves}) != 1:
        raise ValueError(
            f"tree: expected arrays of one type, got {sorted({str(leaf.dtype) for leaf in leaves})}"
        )
    ends = np.cumsum([math.prod(leaf.shape) for leaf in leaves]).tolist()
    vector = empty((ends[-1],), leaves[0].dtype)
    views = [
        vector[a:b].reshape(leaf.shape) for a, b, leaf in zip([0, *ends[:-1]], ends, leaves, strict=True)
    ]
    for view, leaf in zip(views, leaves, strict=True):
        view[...] = leaf
    return vector, optree.tree_unflatten(optree.tree_structure(tree), views)


def _norm(g):
    """The length of a vector, in one product unless squares leave the range of its type."""
    with np.errstate(over="ignore"):
        square = float(g @ g)
    return math.sqrt(square) if 1e-30 < square < math.inf else norm_of(g)


def adamw_in_place(
    p, g, state, rate, beta_1=0.9, beta_2=0.999, eps=1e-8, weight_decay=0.01, max_norm=None, workspace=None
):
    """`optim.clip_by_global_norm`, unless max_norm is None, and `optim.adamw`: in place, in one pass.

    p, g and the moments state["m"] and state["v"] are vectors of one length, such as `flatten` makes; p and
    the state change. workspace: its workers share long vectors. Returns the norm of g, or None.
    Raises TypeError or ValueError unless the four are vectors of one kind and length, each in one piece and
    with memory of its own, and errors as both functions do.
    """
    vectors = {"p": p, "g": g, "m": state["m"], "v": state["v"]}
    dtype = check_kind("p", p)
    for name, vector in vectors.items():
        check_like(name, vector, p, (p.size,))
        if not vector.flags.c_contiguous:
            raise ValueError(f"{name}: expected a vector in one piece, got one with gaps")
    check_apart("p, g, m, v", vectors.values())
    numbers = dict(rate=rate, beta_1=beta_1, beta_2=beta_2, eps=eps, weight_decay=weight_decay)
    rate, beta_1, beta_2, eps, weight_decay = checked([], [], **numbers)
    norm = None if max_norm is None else _norm(g)
    factor = 1.0 if norm is None else clip_factor(norm, max_norm, 1e-6)
    state["step"] += 1
    root_bias, step_size = math.sqrt(1 - beta_2 ** state["step"]), rate / (1 - beta_1 ** state["step"])
    workspace = workspace or Workspace(workers=1)
    numbers = (factor, 1 - rate * weight_decay, 1 - beta_1, 1 - beta_2, root_bias, step_size, eps)

    def run(job, arena):
        of_kind(dtype).adamw(p[job], g[job], state["m"][job], state["v"][job], *numbers)

    workspace.map(run, shares(len(p), 1 if len(p) < SHARE else len(workspace.arenas)))
    return norm
