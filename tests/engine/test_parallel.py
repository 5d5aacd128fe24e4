"""Data-parallel training: shares that add up to the batch, and processes that train as one process does."""

import dataclasses
import functools
import os
import socket
import subprocess
import sys

import numpy as np
import optree
import pytest
from parameters import draws as drawn
from parameters import random_params

pytest.importorskip("torch")
from handgrad import model, train
from handgrad.fast import parallel

SAME = 1e-12  # relative, float64: sums of a few hundred terms in another order
KINDS = ("encoder-decoder", "decoder")


def setting(kind="encoder-decoder", B=5, p=0.2, seed=0, dtype=np.float64):
    """Random parameters and a batch of number words, in which every row counts another number of targets."""
    draw, config, _ = parallel.problem(kind, 10, B, p)
    rng = np.random.default_rng(seed)
    while True:
        batch = draw(rng, B)
        if len(set(np.sum(batch["target_out"] != config.pad, axis=1))) >= min(B, 4):
            return random_params(config, rng, dtype), config, batch


draws = functools.partial(drawn, 7, 0.2)


def parts(params, config, batch, processes, engine="readable", make_draw=draws):
    """What each process would contribute, each with a generator of its own in the same state."""
    B = len(batch["target_out"])
    rows = [parallel.rows_of(rank, processes, B) for rank in range(processes)]
    arguments = params, config, batch
    return [
        parallel.weighted_share(*arguments, make_draw(), 0.1, own, parallel.ENGINES[engine][1])
        for own in rows
    ]


def total(shares):
    return optree.tree_map(lambda *arrays: np.sum(arrays, axis=0), *shares)


def distance(got, wanted):
    """The worst ‖got - wanted‖ / ‖wanted‖ of an array. b_K, whose gradient is 0, is compared with 1.

    The norm, and not the largest entry: Adam divides by the size of each gradient, and so magnifies the
    rounding error of a few that happen to be tiny.
    """

    def relative(path, a, b):
        return np.linalg.norm(a - b) / (1 if path[-1] == "b_K" else np.linalg.norm(b))

    return max(optree.tree_leaves(optree.tree_map_with_path(relative, got, wanted)))


@pytest.mark.parametrize("B", [1, 2, 5, 16])
def test_shares_hold_every_row_once_and_are_as_even_as_can_be(B):
    for processes in range(1, B + 1):
        shares = [np.arange(B)[parallel.rows_of(rank, processes, B)] for rank in range(processes)]
        assert np.concatenate(shares).tolist() == list(range(B))
        assert max(map(len, shares)) - min(map(len, shares)) <= 1 <= min(map(len, shares))


def test_a_batch_with_fewer_rows_than_processes_is_refused():
    with pytest.raises(ValueError, match="batch: expected a row for each of 3 processes, got 2 rows"):
        parallel.rows_of(0, 3, 2)


@pytest.mark.parametrize("engine", parallel.ENGINES)
@pytest.mark.parametrize("processes", [1, 2, 3, 5])
@pytest.mark.parametrize("kind", KINDS)
def test_the_shares_add_up_to_the_gradient_of_the_batch(kind, processes, engine):
    params, config, batch = setting(kind)
    loss, grads = model.loss_and_gradients(params, config, batch, draws(), 0.1)
    together = total(parts(params, config, batch, processes, engine))
    assert abs(together["weight"] - 1) <= SAME and abs(together["loss"] - loss) <= SAME * loss
    assert distance(together["grads"], grads) <= SAME


def plain_mean(shares):
    """Every share with the same weight, whatever it counts."""
    return optree.tree_map(
        lambda *arrays: sum(arrays) / len(arrays),
        *[optree.tree_map(lambda g, w=share["weight"]: g / w, share["grads"]) for share in shares],
    )


def own_draws(B):
    """Masks drawn for the rows of a share alone: as if it were the batch."""

    def make_draw():
        rng = np.random.default_rng(7)
        return lambda shape: np.resize(rng.random((B // 2, *shape[1:])) >= 0.2, shape)

    return make_draw


def test_common_errors_give_another_gradient():
    params, config, batch = setting()
    _, grads = model.loss_and_gradients(params, config, batch, draws(), 0.1)
    assert distance(plain_mean(parts(params, config, batch, 2)), grads) > 1e-2
    assert distance(total(parts(params, config, batch, 2, make_draw=own_draws(5)))["grads"], grads) > 1e-2


def test_a_plain_mean_is_right_where_every_share_counts_the_same():
    """So that its error is not seen by who tests without padding."""
    params, config, batch = setting()
    batch = {name: np.concatenate([array, array]) for name, array in batch.items()}
    _, grads = model.loss_and_gradients(params, config, batch, None, 0.1)
    shares = parts(params, config, batch, 2, make_draw=lambda: None)
    assert distance(plain_mean(shares), grads) <= SAME


@pytest.mark.parametrize("engine", parallel.ENGINES)
def test_a_share_without_a_counted_target_adds_nothing_and_draws_its_dropout(engine):
    params, config, batch = setting()
    batch["target_out"][:2] = config.pad  # the share of the first of two processes
    states = []

    def recorded():
        rng = np.random.default_rng(7)
        states.append(rng)
        return lambda shape: rng.random(shape) >= 0.2

    shares = parts(params, config, batch, 2, engine, recorded)
    assert shares[0]["weight"] == 0 and not any(np.any(g) for g in optree.tree_leaves(shares[0]))
    assert states[0].bit_generator.state == states[1].bit_generator.state
    assert states[0].bit_generator.state != np.random.default_rng(7).bit_generator.state
    loss, grads = model.loss_and_gradients(params, config, batch, draws(), 0.1)
    together = total(shares)
    assert abs(together["loss"] - loss) <= SAME * loss and distance(together["grads"], grads) <= SAME


def test_a_batch_without_a_counted_target_is_refused():
    params, config, batch = setting()
    batch["target_out"][:] = config.pad
    with pytest.raises(ValueError, match="targets: expected at least one target to count"):
        parts(params, config, batch, 2)


def alone(monkeypatch, others):
    """A group of two whose other process contributes `others`."""
    monkeypatch.setattr(parallel.dist, "get_rank", lambda: 0)
    monkeypatch.setattr(parallel.dist, "get_world_size", lambda: 2)
    monkeypatch.setattr(parallel.dist, "all_reduce", others)


def second_process(params, config, batch, sent):
    """What the second process adds, when it comes with this batch; the vectors are kept in `sent`."""
    _, share = parts(params, config, batch, 2)
    checked = np.asarray(parallel.check_sum(batch), share["loss"].dtype)
    vector, _ = parallel.tree_ravel(share | {"checked": checked})

    def add(tensor):
        sent.append(tensor)
        tensor.add_(parallel.torch.from_numpy(vector))

    return add


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_vector_of_the_parameters_type_travels(monkeypatch, dtype):
    params, config, batch = setting(dtype=dtype)
    sent = []
    alone(monkeypatch, second_process(params, config, batch, sent))
    loss, grads = parallel.in_parallel(model.loss_and_gradients)(params, config, batch, draws(), 0.1)
    wanted_loss, wanted = model.loss_and_gradients(params, config, batch, draws(), 0.1)
    assert len(sent) == 1 and sent[0].shape == (3 + sum(g.size for g in optree.tree_leaves(grads)),)
    assert sent[0].numpy().dtype == loss.dtype == dtype
    assert {g.dtype for g in optree.tree_leaves(grads)} == {np.dtype(dtype)}
    tolerance = SAME if dtype == np.float64 else 1e-3
    assert abs(loss - wanted_loss) <= tolerance * wanted_loss and distance(grads, wanted) <= tolerance


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["source", "target_in", "target_out"])
def test_processes_with_different_batches_are_refused(monkeypatch, name, dtype):
    """Other tokens in the same places: the counted targets are as many, and the weights do not tell."""
    params, config, batch = setting(dtype=dtype)
    other = {key: array.copy() for key, array in batch.items()}
    place = tuple(np.argwhere(batch[name] > 3)[-1])
    other[name][place] -= 1
    assert train.counted(other, config) == train.counted(batch, config)
    for others in (second_process(params, config, other, []), lambda tensor: None):
        alone(monkeypatch, others)
        with pytest.raises(RuntimeError, match="batch: expected the same in every process"):
            parallel.in_parallel(model.loss_and_gradients)(params, config, batch, draws(), 0.1)


def test_a_batch_whose_arrays_have_different_numbers_of_rows_is_refused_by_every_process():
    """Each process would see rows that fit each other."""
    params, config, batch = setting()
    longer = batch | {"source": np.concatenate([batch["source"], batch["source"][:1]])}
    wrong = batch | {"source": batch["source"].copy()}
    wrong["source"][-1, 0] = config.V  # in the rows of the last process
    for bad in (longer, wrong):
        for rank in range(2):
            with pytest.raises(ValueError, match=r'batch\[".*"\]: expected'):
                rows = parallel.rows_of(rank, 2, 5)
                parallel.weighted_share(params, config, bad, None, 0.1, rows, model.loss_and_gradients)


def test_dropout_drawn_for_too_many_rows_is_refused():
    params, config, batch = setting()
    more = lambda shape: np.ones((shape[0] + 1, *shape[1:]), bool)  # noqa: E731
    with pytest.raises(ValueError, match=r"keep: expected shape \(5, .*, got \(6, "):
        parts(params, config, batch, 2, make_draw=lambda: more)


@pytest.mark.parametrize("name, change", [("config", {"p": 0.3}), ("recipe", {"steps": 11})])
def test_a_process_started_with_other_options_is_refused(monkeypatch, name, change):
    """It would take other steps, and its parameters would leave those of the others."""
    _, config, recipe = parallel.problem("decoder", 10, 5, 0.2)
    own = {"config": config, "recipe": recipe}
    monkeypatch.setattr(parallel.dist, "broadcast_object_list", lambda box: box.__setitem__(0, sent))
    sent = ("state", config, recipe)
    assert parallel.received(None, **own) == "state"
    own[name] = dataclasses.replace(own[name], **change)
    with pytest.raises(ValueError, match=f"{name}: expected that of process 0, "):
        parallel.received(None, **own)


def test_without_torchrun_it_says_how_to_start(capsys):
    with pytest.raises(SystemExit):
        parallel.main([])
    assert "torchrun --nproc_per_node" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        parallel.main(["--updates", "1"])
    assert "--updates: expected at least 2, got 1" in capsys.readouterr().err


# Processes


TRAINING = ("--updates=10", "--batch-size=5", "--p=0.2", "--seed=3", "--dtype=float64")


def single(kind, **changes):
    """The same training in this process."""
    draw, config, recipe = parallel.problem(kind, 10, 5, 0.2)
    recipe = dataclasses.replace(recipe, **changes)
    start = train.start(config, 3, np.float64)
    return config, recipe, lambda **kwargs: train.run(start, draw, config, recipe, progress=False, **kwargs)


def torchrun(*options):
    """A started torchrun, with one thread for the products of each process."""
    command = [sys.executable, "-m", "torch.distributed.run", *options]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, env=environment, stdout=-1, stderr=-1, text=True)


def finish(*started):
    """The standard outputs, once all of them are done; on a failure, what they said."""
    try:
        said = [process.communicate(timeout=600) for process in started]
    finally:
        for process in started:
            process.kill()
    assert [process.returncode for process in started] == [0] * len(started), said
    return [out for out, _ in said]


def compare(got, wanted):
    assert distance(got.params, wanted.params) <= SAME
    assert distance(got.moments["m"], wanted.moments["m"]) <= SAME
    np.testing.assert_allclose(got.losses, wanted.losses, rtol=SAME)
    assert got.tokens == wanted.tokens and got.rng.bit_generator.state == wanted.rng.bit_generator.state


@pytest.mark.slow
def test_two_processes_train_as_one(tmp_path):
    path = tmp_path / "two.npz"
    program = ("-m", "handgrad.fast.parallel", *TRAINING, "--engine=readable", f"--checkpoint={path}")
    (out,) = finish(torchrun("--standalone", "--nproc_per_node=2", *program))
    config, recipe, run = single("encoder-decoder")
    compare(train.load(path, config, recipe), run(engine=train.readable))
    assert [file.name for file in tmp_path.iterdir()] == ["two.npz"]  # process 0 alone writes,
    assert out.count("10/10") >= 1 and out.count(" 0/10") == 1  # and it alone shows progress


def test_clipping_and_smoothing_act_in_this_training():
    """Without either, the training that the processes are compared with would be another one."""
    wanted = single("encoder-decoder")[2]()
    for change in ({"max_norm": 1e9}, {"label_smoothing": 0.0}):
        assert distance(single("encoder-decoder", **change)[2]().params, wanted.params) > 1e-4


@pytest.mark.slow
def test_two_launches_meet_and_go_on_from_a_checkpoint(tmp_path):
    """As on two machines: each starts its own torchrun, and only the first one's process holds the file."""
    path = tmp_path / "two.npz"
    config, recipe, run = single("decoder")
    run(until=4, checkpoint=path)
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        endpoint = f"localhost:{probe.getsockname()[1]}"
    meeting = ("--nnodes=2", "--nproc_per_node=1", "--rdzv_backend=c10d", f"--rdzv_endpoint={endpoint}")
    program = ("-m", "handgrad.fast.parallel", *TRAINING, "--kind=decoder", f"--checkpoint={path}")
    outs = finish(*(torchrun(*meeting, *program) for _ in range(2)))
    compare(train.load(path, config, recipe), run())
    assert sorted("4/10" in out for out in outs) == [False, True]
