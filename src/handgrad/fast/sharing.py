"""How a batch is shared out among workers: rows, part in the mean, dropout; and their gradients added.

The loss is a mean over all targets that count, wherever they are: each worker takes the sum over its own,
divided by the number of all, and the gradients of the workers add up. Dropout is drawn for the whole
batch, so that it does not matter who computes what.
"""

import weakref

import numpy as np
import optree

from ..algebra import check_array, described
from ..model import check_batch, targets_of
from ..ops.cross_entropy import counted_targets
from ..optim import check_tree
from .memory import check_apart, empty


def check_kind(name, x):
    """The type of x. Raises TypeError unless it is an array of NumPy, of float32 or float64."""
    if not isinstance(x, np.ndarray) or x.dtype not in (np.float32, np.float64):
        raise TypeError(f"{name}: expected arrays of NumPy, of float32 or float64, got {described(x)}")
    return x.dtype


def weighted_targets(batch, config, label_smoothing, dtype):
    """Targets (B, T), 0 where they do not count, and their weights (B, T) in the mean, 0 there.

    Raises TypeError or ValueError as model.loss_and_gradients does.
    """
    check_batch(config, batch)
    targets = np.asarray(targets_of(batch))  # a quotient of torch's Booleans would be float32
    counted, m = counted_targets(targets, config.V, config.ignore_index, label_smoothing)
    return whole(targets * counted, np.intp), whole(counted / m, dtype)


def whole(x, dtype=bool):
    """x as an array of this type that lies in one piece, as the loops need it."""
    return np.ascontiguousarray(x, dtype)


def keeps_of(batch, config, draw_keep):
    """[(site, what dropout keeps there)], asked of `draw_keep` for the whole batch, as `model` asks it.

    Raises TypeError if what it returns is not Boolean, ValueError if its shape is not that which was asked.
    """
    keeps, D, H = [], config.D, config.H
    for name in ("source", "target_in", "tokens") if draw_keep else ():
        if name in batch:
            B, T = batch[name].shape
            sites = [("attention", (B, H, T, T)), ("sublayer", (B, T, D))]
            if name == "target_in":
                sites += [("attention", (B, H, T, batch["source"].shape[1])), ("sublayer", (B, T, D))]
            sites += [("hidden", (B, T, config.F)), ("sublayer", (B, T, D))]
            for site, shape in [("embedding", (B, T, D)), *sites * config.N]:
                if site in config.dropout_sites:
                    keeps.append((site, draw_keep(shape)))
                    check_array("keep", keeps[-1][1], shape, "Booleans")
    return keeps


def next_keep_of(keeps, rows):
    """next_keep(site): what dropout keeps at the next site, for some rows of the batch, or None.

    For the attention weights it has their shape (b, H, T, S); elsewhere it is rows (n, D), in one piece.
    """
    own = iter(keeps)
    sites = {site for site, _ in keeps}

    def next_keep(site):
        if site not in sites:
            return None
        keep = whole(next(own)[1][rows])
        return keep if site == "attention" else keep.reshape(-1, keep.shape[-1])

    return next_keep


def arguments_of(params, config, batch, draw_keep):
    """A function from rows of the batch to what `part_forward` is told of them: a dictionary."""
    keeps = keeps_of(batch, config, draw_keep)

    def of_rows(rows):
        own = {name: whole(array[rows], np.intp) for name, array in batch.items()}
        return dict(params=params, config=config, batch=own, next_keep=next_keep_of(keeps, rows))

    return of_rows


def receiving(out, params, workspace):
    """The arrays that receive the gradients: new ones if out is None.

    Raises TypeError or ValueError unless out is a tree of arrays like params, which can be written each by
    itself and without a change to params. What the workspace's last step wrote to is not looked at again.
    """
    leaves, tree = optree.tree_flatten(params)
    if out is None:
        return optree.tree_unflatten(tree, [empty(leaf.shape, leaf.dtype) for leaf in leaves])
    arrays, own_tree = optree.tree_flatten(out)
    known = own_tree == tree and len(workspace.received) == len(arrays + leaves)
    if not known or any(last() is not x for last, x in zip(workspace.received, arrays + leaves)):
        check_tree("out", out, params)
        check_apart("out", arrays, leaves)
        workspace.received = [weakref.ref(x) for x in arrays + leaves]
    return out


def gradients_of_others(params, workspace, jobs):
    """For each worker but the first a tree like params, in its arena: below what its forward is handed."""
    return [optree.tree_map(arena.like, params) for arena in workspace.arenas[1 : len(jobs)]]


def added_up(f, jobs, total, others, workspace):
    """f(job, grads, arena) of every worker, which adds to grads. Returns the results and the summed grads.

    The first worker adds to `total`, and the others to `others`.
    """

    def run(job, arena):
        own, grads = job
        tables = [grads[name] for name in ("embedding", "source_embedding") if name in grads]
        vectors = [leaf for leaf in optree.tree_leaves(grads) if leaf.ndim == 1]
        # the other matrices are written before they are added to
        for leaf in optree.tree_leaves(tables) + vectors:
            leaf[...] = 0
        return f(own, grads, arena)

    results = workspace.map(run, list(zip(jobs, [total, *others], strict=True)))
    for other in others:
        optree.tree_map_(lambda a, b: a.__iadd__(b), total, other)
    return results, total
