"""Data-parallel training: several processes, on one machine or on several, share the rows of each batch.

    torchrun --nproc_per_node 2 -m handgrad.fast.parallel --updates 1600 --checkpoint parallel.npz

starts two processes on this machine. For two processes on each of two machines, run this on both:

    torchrun --nnodes 2 --nproc_per_node 2 --rdzv_backend c10d --rdzv_endpoint first:29500 \\
        -m handgrad.fast.parallel --updates 1600 --checkpoint parallel.npz

`first` is one of them, by a name or an address under which both reach it, and 29500 one of its free ports.

Every process holds all parameters, and draws every batch and what dropout keeps from the same generator. It
takes the hand-written gradients of its own share of the rows. Together they are the gradient of the batch:

    dL = Σ m_r/m dL_r            over the processes r, whose shares have m_r counted targets, and m in all

A plain mean of the dL_r would be another gradient, unless all m_r are equal. One sum over all processes of
one vector, by `all_reduce` through gloo, and each takes the step that a single process would take: clipping
and AdamW see the same gradient, up to rounding. torch carries numbers here, and differentiates nothing.
"""

import argparse
import functools
import zlib
from pathlib import Path

import numpy as np
from optree import tree_leaves, tree_map
from optree.integrations.numpy import tree_ravel

from .. import data, model, train
from ..algebra import check_array
from ..config import gpt2_small, vaswani_base
from ..extras import needs
from ..model import check_batch, targets_of

with needs("oracle", "fast"):
    import torch
    import torch.distributed as dist

    from . import step, update
    from .memory import Workspace, shares
    from .sharing import keeps_of


def rows_of(rank, processes, B):
    """The slice of the B rows of a batch that process `rank` takes; two slices differ by one row at most.

    Raises ValueError if there are fewer rows than processes.
    """
    if B < processes:
        raise ValueError(f"batch: expected a row for each of {processes} processes, got {B} rows")
    return shares(B, processes)[rank]


def share_of(batch, draw_keep, rows):
    """The given rows of a batch, and of what dropout keeps, which is drawn for all of it.

    What it returns raises ValueError if what is drawn has another shape.
    """
    B = len(batch["target_out"])

    def draw_share(shape):
        whole = (B, *shape[1:])
        keep = draw_keep(whole)
        check_array("keep", keep, whole)
        return keep[rows]

    return {name: array[rows] for name, array in batch.items()}, draw_keep and draw_share


def weighted_share(params, config, batch, draw_keep, label_smoothing, rows, gradients):
    """What these rows add to the whole batch: the weight m_r/m, and their loss and gradients times it.

    gradients: as `model.loss_and_gradients`, and errors as there. Rows without a counted target add 0.
    """
    check_batch(config, batch)  # all of it: who looks at other rows must come to the same
    share, draw_keep = share_of(batch, draw_keep, rows)
    own, all_counted = train.counted(share, config), train.counted(batch, config)
    if own == 0 < all_counted:
        keeps_of(share, config, draw_keep)  # draws them, so that the generators stay equal
        loss, grads = 0.0, tree_map(np.zeros_like, params)
    else:
        loss, grads = gradients(params, config, share, draw_keep=draw_keep, label_smoothing=label_smoothing)
    weight, dtype = own / max(all_counted, 1), tree_leaves(params)[0].dtype
    part = {"weight": np.asarray(weight, dtype), "loss": np.asarray(weight * loss, dtype)}
    return part | {"grads": tree_map(lambda g: weight * g, grads)}


def in_parallel(gradients):
    """The function `gradients`, taken by all processes of the group together: each gets the whole result.

    gradients: as `model.loss_and_gradients`, for a share of the rows. The result takes the same arguments,
    for the whole batch, which every process must pass. It raises ValueError if a batch has fewer rows than
    there are processes, RuntimeError if the processes came with different batches, of which check sums tell;
    and errors as `gradients`.
    """

    def loss_and_gradients(params, config, batch, draw_keep=None, label_smoothing=0.0):
        processes = dist.get_world_size()
        rows = rows_of(dist.get_rank(), processes, len(targets_of(batch)))
        options = {"draw_keep": draw_keep, "label_smoothing": label_smoothing}
        share = weighted_share(params, config, batch, **options, rows=rows, gradients=gradients)
        checked = np.asarray(check_sum(batch), share["loss"].dtype)
        vector, unravel = tree_ravel(share | {"checked": checked})
        dist.all_reduce(torch.from_numpy(vector))  # in place: the sum over all processes
        whole = unravel(vector)
        if whole["checked"] != processes * checked:
            raise RuntimeError("batch: expected the same in every process, got other check sums elsewhere")
        if abs(whole["weight"] - 1) > 1e-5:  # the weights of thousands of processes, rounded to float32
            raise RuntimeError(f"batch: expected weights that sum to 1, got {whole['weight']}")
        return whole["loss"], whole["grads"]

    return loss_and_gradients


def check_sum(batch):
    """A number that another batch is not likely to have; below 2¹², so that float32 adds 4,000 exactly."""
    total = 0
    for name in sorted(batch):
        total = zlib.crc32(np.ascontiguousarray(batch[name]), zlib.crc32(name.encode(), total))
    return total % 2**12


ENGINES = {
    "readable": (train.readable, model.loss_and_gradients),
    "fast": (update.engine, functools.partial(step.loss_and_gradients, workspace=Workspace(workers=1))),
}
"""Engines of `train.run`, each with the gradients of a share of the rows."""


def problem(kind, updates, batch_size, p):
    """The training of chapter 16, or of a decoder alone on its French sentences: draw, config, recipe."""
    pairs, _ = data.number_pairs(np.random.default_rng(16), train=4000, held_out=3000)
    sizes = dict(V=len(pairs.vocabulary), D=64, H=4, F=256, N=2, p=p, pad=pairs.vocabulary.pad)
    recipe = train.Recipe(updates, batch_size, peak=0.002, warmup=min(100, max(1, updates // 4)))
    if kind == "encoder-decoder":
        return pairs.draw, vaswani_base(**sizes), recipe

    def draw(rng, size):
        batch = pairs.draw(rng, size)
        return {"tokens": batch["target_in"], "target_out": batch["target_out"]}

    return draw, gpt2_small(**sizes, T_max=pairs.target.shape[1]), recipe


def options():
    """The options of the command line."""
    parser = argparse.ArgumentParser("handgrad.fast.parallel", description=__doc__.partition("\n")[0])
    parser.add_argument("--kind", choices=("encoder-decoder", "decoder"), default="encoder-decoder")
    parser.add_argument("--updates", type=int, default=1600, help="updates of the whole training, at least 2")
    parser.add_argument("--batch-size", type=int, default=128, help="sentences of all processes together")
    parser.add_argument("--p", type=float, default=0.0, help="dropout probability")
    parser.add_argument("--seed", type=int, default=16)
    parser.add_argument("--dtype", choices=("float32", "float64"), default="float32")
    parser.add_argument("--engine", choices=tuple(ENGINES), default="fast")
    parser.add_argument("--checkpoint", type=Path, help="file to write; if it is there, go on from it")
    parser.add_argument(
        "--every", type=int, help="updates between two checkpoints; if left out, one at the end"
    )
    return parser


def main(arguments=None):
    """Train as the options say, in the group of torchrun. Process 0 alone reads, writes and prints."""
    parser = options()
    chosen = parser.parse_args(arguments)
    if chosen.updates < 2:  # the rate rises in one and falls in another
        parser.error(f"--updates: expected at least 2, got {chosen.updates}")
    if not dist.is_torchelastic_launched():
        parser.error("expected to be started by torchrun --nproc_per_node N -m handgrad.fast.parallel")
    draw, config, recipe = problem(chosen.kind, chosen.updates, chosen.batch_size, chosen.p)
    dist.init_process_group("gloo")
    first, path, state = dist.get_rank() == 0, chosen.checkpoint, None
    if first and path and path.exists():
        state = train.load(path, config, recipe)
    elif first:
        state = train.start(config, chosen.seed, np.dtype(chosen.dtype))
    engine, gradients = ENGINES[chosen.engine]
    how = dict(engine=functools.partial(engine, gradients=in_parallel(gradients)), progress=first)
    saved = dict(checkpoint=path, every=chosen.every) if first else {}
    train.run(received(state, config, recipe), draw, config, recipe, **how, **saved)
    dist.destroy_process_group()


def received(state, config, recipe):
    """The state that process 0 gives, in every process; what the others give is not looked at.

    Raises ValueError in a process that was started with another config or recipe than process 0.
    """
    box = [(state, config, recipe)]
    dist.broadcast_object_list(box)
    state, *settings = box[0]
    for name, first, own in zip(("config", "recipe"), settings, (config, recipe)):
        if own != first:
            raise ValueError(f"{name}: expected that of process 0, {first}, got {own}")
    return state


if __name__ == "__main__":
    main()
