"""The training loop: equal to torch's beside it, resumed without a trace, refused when it does not fit."""

import copy
import dataclasses
import functools
import json
import math
import os
import subprocess
import sys
import zipfile

import numpy as np
import optree
import pytest
from parameters import random_batch

from handgrad import fast, model, optim, train
from handgrad.config import Config, init
from handgrad.mistakes import changed

CONFIG = Config(
    kind="encoder-decoder", V=11, D=8, H=2, F=12, N=2, scale_embedding=True, pad=0, p=0.2, norm="post"
)
RECIPE = train.Recipe(steps=60, batch_size=6, peak=5e-3, warmup=10, max_norm=0.5, weight_decay=0.02)

ENGINES = [train.readable, fast.engine]


def draw(rng, size):
    return random_batch(CONFIG, rng, B=size)


def run(state, config=CONFIG, recipe=RECIPE, **kwargs):
    return train.run(state, draw, config, recipe, progress=False, **kwargs)


def trained(steps):
    return run(train.start(CONFIG, seed=3), until=steps)


def same(one, other):
    """Equal bit for bit, with nothing left out."""

    def rest(state):
        return state.losses, state.tokens, state.rng.bit_generator.state

    leaves = [optree.tree_leaves((state.params, state.moments)) for state in (one, other)]
    pairs = [(np.asarray(a), np.asarray(b)) for a, b in zip(*leaves, strict=True)]
    return rest(one) == rest(other) and all(np.array_equal(a, b) and a.dtype == b.dtype for a, b in pairs)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("schedule, norm", [("cosine", "post"), ("inverse_square_root", "pre")])
def test_every_loss_is_that_of_the_twin_under_torch_optim(schedule, norm, engine):
    torch = pytest.importorskip("torch")
    from handgrad import twin

    config = dataclasses.replace(CONFIG, norm=norm)
    recipe = dataclasses.replace(RECIPE, schedule=schedule)
    state = train.start(config, seed=5, dtype=np.float64)
    ours = run(state, config, recipe, engine=engine)

    other = twin.load(twin.Twin(config), state.params)
    beside = torch.optim.AdamW(other.parameters(), betas=(0.9, 0.98), eps=1e-9, weight_decay=0.02)
    rng = np.random.default_rng(5)
    init(config, rng)  # the parameters come first from the generator
    losses = []
    for step in range(1, recipe.steps + 1):
        batch = draw(rng, recipe.batch_size)
        draw_keep = lambda shape: rng.random(shape, dtype=np.float32) >= config.p  # noqa: E731
        loss = other.loss(batch, draw_keep, recipe.label_smoothing)
        beside.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(other.parameters(), recipe.max_norm)
        beside.param_groups[0]["lr"] = recipe.rate(step)
        beside.step()
        losses.append(loss.item())
    # float64; Adam divides by the root of a squared gradient and magnifies rounding errors from step to step
    np.testing.assert_allclose(ours.losses, losses, rtol=1e-8)
    assert ours.losses[-1] < 0.9 * ours.losses[0]


def with_gradients(engine, change):
    """The engine with gradients from elsewhere, as another way to compute them gives them: changed ones."""

    def changed(*args, **options):
        loss, grads = model.loss_and_gradients(*args, **options)
        return loss, optree.tree_map_with_path(change, grads)

    return functools.partial(engine, gradients=changed)


def test_gradients_from_elsewhere_are_used_by_both_engines():
    """Here they are doubled, and clipped to another length."""
    recipe = dataclasses.replace(RECIPE, max_norm=1e9)
    state = train.start(CONFIG, seed=1, dtype=np.float64)
    engines = [with_gradients(engine, lambda path, g: 2 * g) for engine in ENGINES]
    one, other = (run(state, CONFIG, recipe, until=5, engine=engine) for engine in engines)
    np.testing.assert_allclose(one.losses, other.losses, rtol=1e-12)
    undoubled = run(state, CONFIG, recipe, until=5)  # Adam all but divides the factor out of the losses
    m, halved = (run.moments["m"]["encoder"][0]["feed_forward"]["W_1"] for run in (one, undoubled))
    assert 1.9 < np.linalg.norm(m) / np.linalg.norm(halved) < 2.1


@pytest.mark.parametrize("engine", ENGINES)
def test_without_a_length_no_gradient_is_clipped(engine):
    """With one, the losses leave the tolerance of the comparison with torch."""
    losses = {}
    for max_norm in (None, 1e9, 0.5):
        recipe = dataclasses.replace(RECIPE, max_norm=max_norm)
        state = train.start(CONFIG, seed=1, dtype=np.float64)
        losses[max_norm] = run(state, CONFIG, recipe, until=5, engine=engine).losses
    assert losses[None] == losses[1e9]
    assert losses[None][0] == losses[0.5][0] and max(abs(np.array(losses[None]) / losses[0.5] - 1)) > 1e-5


def spoiled(wrong):
    """One number of one gradient is wrong."""
    of_b = ("encoder", 1, "feed_forward", "b_1")
    return lambda path, g: np.where((np.arange(g.size).reshape(g.shape) == 3) & (path == of_b), wrong, g)


SHAPE, MISFIT = r"grads at .*: expected shape .*, got \(1", (TypeError, ValueError)
GRADIENTS = [  # each of the last four could be written into arrays of the right shape and type, or broadcast
    (spoiled(np.float32(np.nan)), FloatingPointError, "grads"),
    (spoiled(np.float32(np.inf)), FloatingPointError, "grads"),
    (lambda path, g: g[:1], MISFIT, SHAPE),
    (lambda path, g: g[None], MISFIT, f"{SHAPE}, "),
    (lambda path, g: np.float32(1), MISFIT, "grads at .*: expected"),
    (lambda path, g: g.astype(float), MISFIT, "grads at .*: expected ndarray of float32, got .* float64"),
]


@pytest.mark.parametrize("max_norm", [None, 0.5])
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("change, error, message", GRADIENTS)
def test_gradients_from_elsewhere_that_do_not_fit_are_refused(change, error, message, engine, max_norm):
    recipe = dataclasses.replace(RECIPE, max_norm=max_norm)
    with pytest.raises(error, match=message):
        run(train.start(CONFIG, 0), CONFIG, recipe, until=1, engine=with_gradients(engine, change))


@pytest.mark.parametrize("engine", ENGINES)
def test_moments_that_do_not_fit_are_refused(engine):
    """A transposed one has as many numbers."""
    state = train.start(CONFIG, 0)
    state.moments["v"]["embedding"]["E"] = state.moments["v"]["embedding"]["E"].T
    with pytest.raises(ValueError, match=r'state\["v"\] at .*: expected shape \(11, 8\), got \(8, 11\)'):
        run(state, until=1, engine=engine)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("engine", ENGINES)
def test_a_run_changes_no_state_it_was_given_and_keeps_its_precision(engine, dtype):
    state = train.start(CONFIG, seed=1, dtype=dtype)
    before = optree.tree_map(np.copy, state.params)
    first, second = (run(state, until=4, engine=engine) for _ in range(2))
    assert optree.tree_all(optree.tree_map(np.array_equal, before, state.params))
    kept = optree.tree_map(np.copy, first.params)
    run(first, until=6, engine=engine)
    assert optree.tree_all(optree.tree_map(np.array_equal, kept, first.params))
    assert same(first, second) and state.step == 0 and state.losses == [] and first.step == 4
    assert not same(first, run(train.start(CONFIG, seed=2, dtype=dtype), until=4))
    arrays = optree.tree_leaves((first.params, first.moments["m"], first.moments["v"]))
    assert {array.dtype for array in arrays} == {np.dtype(dtype)}


def resumed(path, dtype):
    """A training of 20 updates, and one that was saved and loaded after 9."""
    half = run(train.start(CONFIG, 3, dtype), until=9, checkpoint=path)
    loaded = train.load(path, CONFIG, RECIPE)
    return run(half, until=20), loaded, run(loaded, until=20)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_resumed_training_is_the_same_bit_for_bit(tmp_path, dtype):
    whole, loaded, again = resumed(tmp_path / "checkpoint.npz", dtype)
    assert [file.name for file in tmp_path.iterdir()] == ["checkpoint.npz"]
    assert loaded.step == 9 and same(loaded, run(train.start(CONFIG, 3, dtype), until=9))
    assert same(whole, again) and same(whole, run(train.start(CONFIG, 3, dtype), until=20))


def test_a_checkpoint_of_single_precision_is_refuted_by_a_training_in_double(tmp_path, monkeypatch):
    """A wrong edit, which no training in float32 shows."""
    rounded = lambda x: x.astype(np.float32).astype(x.dtype) if x.dtype == np.float64 and x.ndim > 1 else x  # noqa: E731
    monkeypatch.setattr(train, "rounded", rounded, raising=False)
    with changed(train.load, "np.asarray(file[name]) for → rounded(file[name]) for"):
        for dtype, right in ((np.float32, True), (np.float64, False)):
            whole, _, again = resumed(tmp_path / np.dtype(dtype).name, dtype)
            assert same(whole, again) is right


def test_a_link_stays_and_what_may_only_be_read_is_not_replaced(tmp_path):
    state = trained(2)
    target, link = tmp_path / "target.npz", tmp_path / "link.npz"
    train.save(target, trained(1), CONFIG, RECIPE)
    link.symlink_to(target)
    train.save(link, state, CONFIG, RECIPE)
    assert link.is_symlink() and train.load(target, CONFIG, RECIPE).step == 2
    target.chmod(0o444)
    for path in (target, link):
        with pytest.raises(
            PermissionError, match="checkpoint: expected a file to write to, got one to be read"
        ):
            train.save(path, trained(1), CONFIG, RECIPE)
    assert train.load(link, CONFIG, RECIPE).step == 2


def test_of_two_trainings_on_one_file_none_is_lost(tmp_path):
    path = tmp_path / "one.npz"

    def advance_beside(state, config, recipe):
        advance = train.readable(state, config, recipe)

        def step(state, batch, draw_keep):
            after = advance(state, batch, draw_keep)
            if after.step == 3:
                train.save(path, trained(1), CONFIG, RECIPE)  # of the other
            return after

        return step

    with pytest.raises(FileExistsError, match="checkpoint: expected .* as it was left, got one that another"):
        run(train.start(CONFIG, seed=3), until=4, checkpoint=path, every=2, engine=advance_beside)
    assert train.load(path, CONFIG, RECIPE).step == 1


def test_the_generator_is_part_of_the_state(tmp_path):
    """A resume that drew other batches, or forgot a moment, would be seen."""
    whole = run(train.start(CONFIG, seed=3), until=12)
    half = run(train.start(CONFIG, seed=3), until=6)
    fresh = dataclasses.replace(half, rng=np.random.default_rng(3))
    assert run(fresh, until=12).losses != whole.losses
    forgetful = dataclasses.replace(half, moments={**optim.adamw_init(half.params), "step": 6})
    assert run(forgetful, until=12).losses != whole.losses


def test_a_loss_that_is_not_finite_stops_the_training():
    state = train.start(CONFIG, 0)
    state.params["embedding"]["E"][:] = np.nan
    with pytest.raises(FloatingPointError, match="update 1"):
        run(state)


def test_progress_tells_loss_and_speed(capsys):
    train.run(train.start(CONFIG, 0), draw, CONFIG, RECIPE, until=3)
    shown = capsys.readouterr()
    assert "loss" in shown.out and "tokens/s" in shown.out and shown.err == ""


@pytest.mark.parametrize(
    ("name", "values"),
    {
        "schedule": ["linear", None, ["cosine"]],
        "steps": [0, -1, 2.5, 60.0, math.nan, True, "60", None],
        "batch_size": [0, 6.0, math.inf, True, None],
        "warmup": [0, -1, 2.5, True, 60, 61, None],  # a cosine of 60 updates needs one to fall
        "peak": [0.0, -1e-3, math.nan, math.inf, True, "1e-3", None, np.array([1e-3])],
        "label_smoothing": [1.0, -0.1, math.nan, True, "0.1", None],
        "max_norm": [0.0, -1.0, math.nan, math.inf, True, "1"],
        "beta_1": [1.0, -0.1, math.nan, False, None],
        "beta_2": [1.0, 1.5, -0.1, math.nan, True, None],
        "eps": [0.0, -1e-9, math.nan, math.inf, True, None],
        "weight_decay": [-0.1, math.nan, math.inf, False, None],
    }.items(),
)
def test_bad_recipes_are_refused_by_name(name, values):
    for value in values:
        with pytest.raises((TypeError, ValueError), match=f"^{name}: expected"):
            dataclasses.replace(RECIPE, **{name: value})


def test_a_recipe_may_hold_what_its_docstring_allows():
    for change in (
        {"max_norm": None},
        {"beta_1": 0, "beta_2": 0.0, "label_smoothing": 0, "weight_decay": 0},
        {"warmup": 59},
        {"warmup": 60, "schedule": "inverse_square_root"},
        {"steps": np.int64(60), "peak": np.float32(5e-3)},
    ):
        recipe = dataclasses.replace(RECIPE, **change)
        rates = [recipe.rate(step) for step in range(1, 61)]
        assert max(rates) == pytest.approx(recipe.peak) and np.argmax(rates) == recipe.warmup - 1
        for step in (0, 61, 2.5, True):
            with pytest.raises((TypeError, ValueError), match="step"):
                recipe.rate(step)


def test_what_could_not_be_saved_is_refused_before_the_first_update(tmp_path):
    def never(rng, size):
        raise AssertionError("an update began")

    state, path = train.start(CONFIG, 0), tmp_path / "c.npz"
    other = dataclasses.replace(state, rng=np.random.Generator(np.random.MT19937(0)))
    for state_, changes, error, message in (
        (state, {"checkpoint": tmp_path / "nowhere" / "c.npz"}, FileNotFoundError, "nowhere"),
        (state, {"checkpoint": tmp_path}, IsADirectoryError, "folder"),
        (state, {"checkpoint": path, "every": 0}, ValueError, "every.*0"),
        (state, {"checkpoint": path, "every": -2}, ValueError, "every.*-2"),
        (state, {"checkpoint": path, "every": 2.5}, TypeError, r"every.*2\.5"),
        (state, {"checkpoint": path, "every": True}, TypeError, "every.*True"),
        (state, {"every": 2}, ValueError, "checkpoint.*every 2 updates.*None"),
        (other, {"checkpoint": path}, TypeError, "rng"),
    ):
        with pytest.raises(error, match=message):
            train.run(state_, never, CONFIG, RECIPE, progress=False, **changes)
    assert list(tmp_path.iterdir()) == []


REFUSED = {  # the words, what is called, and values that it does not take
    "until: expected": (
        lambda until: run(train.start(CONFIG, 0), until=until),
        [-1, RECIPE.steps + 1, 2.5, True, math.nan],
    ),
    "dtype: expected": (lambda dtype: train.start(CONFIG, 0, dtype), [int, bool, complex, object]),
    "p: expected a number, 0 ≤ p < 1, got": (
        lambda p: train.dropout_from(np.random.default_rng(0), p),
        [math.nan, 1, 1.5, -0.1, "0.1", None],
    ),
}


@pytest.mark.parametrize("words", REFUSED)
def test_values_out_of_range_are_refused_by_name(words):
    call, values = REFUSED[words]
    for value in values:
        with pytest.raises((TypeError, ValueError), match=f"^{words}"):
            call(value)


# Damage


NO_BIASES = dict(attention_biases=False, feed_forward_biases=False)
TINY = Config("decoder", V=2, D=2, H=1, F=1, N=1, normalization="rms_norm", **NO_BIASES)
SHORT = train.Recipe(steps=4, batch_size=1, peak=1e-3, warmup=1)


@pytest.fixture(scope="module")
def tiny():
    """A trained state of the smallest model."""

    def draw(rng, size):
        words = rng.integers(0, 2, size=(size, 3))
        return {"tokens": words[:, :-1], "target_out": words[:, 1:]}

    return train.run(train.start(TINY, 0), draw, TINY, SHORT, until=2, progress=False)


@pytest.fixture
def small(tmp_path, tiny):
    path = tmp_path / "small.npz"
    train.save(path, tiny, TINY, SHORT)
    return path


def test_a_failed_save_leaves_the_old_checkpoint(small, monkeypatch):
    before = small.read_bytes()

    def half(file, **arrays):
        file.write(b"half a checkpoint")
        raise OSError("no space left on device")

    monkeypatch.setattr(np, "savez", half)
    with pytest.raises(OSError, match="no space"):
        train.save(small, train.start(TINY, seed=4), TINY, SHORT)
    assert small.read_bytes() == before
    assert [file.name for file in small.parent.iterdir()] == [small.name]


def survives(path, state):
    """Whether the file is read, and then as this state; anything but a `CheckpointError` is raised."""
    try:
        loaded = train.load(path, TINY, SHORT)
    except train.CheckpointError as error:
        assert str(path) in str(error)
        return False
    assert same(loaded, state)
    return True


def test_no_flipped_bit_changes_what_is_loaded(small, tiny):
    """Each bit of an array and of all around it, of its entry in the directory and of the end; others here
    and there. What is read in spite of it, as with another date, is equal."""
    whole = small.read_bytes()
    with zipfile.ZipFile(small) as file:
        begin, end = (file.infolist()[n].header_offset for n in (1, 2))
        directory = file.start_dir
    entry = whole.index(b"PK\1\2", directory + 1)
    last = whole.index(b"PK\5\6")
    spans = ((begin, end), (entry, whole.index(b"PK\1\2", entry + 1)), (last, len(whole)))
    bits = {bit for first, beyond in spans for bit in range(8 * first, 8 * beyond)}
    bits |= set(range(0, 8 * len(whole), 389))
    loaded = 0
    for bit in bits:
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        small.write_bytes(damaged)
        loaded += survives(small, tiny)
    assert 0 < loaded < len(bits) / 2


def test_no_truncated_file_is_loaded(small, tiny):
    whole = small.read_bytes()
    for length in (*range(0, len(whole), 17), len(whole) - 1):
        small.write_bytes(whole[:length])
        assert not survives(small, tiny)
    small.write_bytes(b"not a checkpoint")
    assert not survives(small, tiny)
    small.write_bytes(whole)
    assert survives(small, tiny)
    small.unlink()
    with pytest.raises(FileNotFoundError):
        survives(small, tiny)


def places(values, place=()):
    """The places of all values in nested dictionaries."""
    for key, value in values.items():
        yield (*place, key)
        if isinstance(value, dict):
            yield from places(value, (*place, key))


def edited(about, place, *value):
    """The dictionary with another value at this place, or with none."""
    about = copy.deepcopy(about)
    inner = functools.reduce(lambda values, key: values[key], place[:-1], about)
    del inner[place[-1]]
    inner |= {place[-1]: value[0]} if value else {}
    return about


def test_edited_metadata_are_refused_or_loaded_as_they_say(small, tiny):
    """Each value is left out, and replaced by others. Any count of tokens and any state of the generator may
    be true; everything else is another training."""
    with np.load(small) as file:
        arrays = dict(file)
    written = json.loads(str(arrays["about"]))
    free = set()
    for place in places(written):
        wrong = [(), *((value,) for value in (None, "2", -1, 1, 1.5, 10**40, True, [], {}))]
        for about in (edited(written, place, *value) for value in wrong):
            arrays["about"] = np.array(json.dumps(about))
            np.savez(small, **arrays)
            if place[0] in ("tokens", "rng"):
                try:
                    loaded = train.load(small, TINY, SHORT)
                except train.CheckpointError:
                    continue
                assert loaded.tokens == about["tokens"] and loaded.rng.bit_generator.state == about["rng"]
                assert not isinstance(loaded.tokens, bool | float) and loaded.tokens >= 0
                free.add(place)
            elif survives(small, tiny):  # the value that was there, or its default
                assert place[0] in ("config", "recipe", "format") and len(place) <= 2
    assert ("tokens",) in free and ("rng",) not in free


def rewrite(path, change):
    """Write the checkpoint again with its arrays changed."""
    with np.load(path) as file:
        arrays = dict(file)
    change(arrays)
    np.savez(path, **arrays)


def about(**changes):
    def change(arrays):
        arrays["about"] = np.array(json.dumps(json.loads(str(arrays["about"])) | changes))

    return change


@pytest.mark.parametrize("about", ["null", "[]", "5", '"x"', "{}", "[" * 10**5, "nonsense", ""])
def test_metadata_of_another_kind_are_refused(small, tiny, about):
    rewrite(small, lambda arrays: arrays.update(about=np.array(about)))
    assert not survives(small, tiny)


E, M = "params/embedding/E", "m/embedding/E"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (about(format=0), "format"),
        (lambda arrays: arrays.pop("about"), "about"),
        (lambda arrays: arrays.pop("losses"), "losses"),
        (lambda arrays: arrays.pop(M), M),
        (lambda arrays: arrays.update({M: arrays[M][:, :1]}), r"E.*\(2, 2\).*\(2, 1\)"),
        (lambda arrays: arrays.update({M: arrays[M].astype(int)}), "float"),
        (lambda arrays: arrays.update(losses=arrays["losses"][:1]), r"losses of shape \(2,\), got \(1,\)"),
        (lambda arrays: arrays.update(losses=np.zeros(2, int)), "losses: expected float64, got int64"),
        (lambda arrays: arrays.update(losses=np.array([0.5, np.nan])), "losses: expected finite.*nan"),
        (lambda arrays: arrays.update({E: np.full((2, 2), np.nan, np.float32)}), "E: expected finite.*nan"),
        (lambda arrays: arrays.update({E: np.zeros((2, 2))}), "one floating type, got .*float32.*float64"),
        (lambda arrays: arrays.update(more=np.zeros(2, np.float32)), "more of shape nothing, got"),
        (about(config={}), r"config\.D = 2, got None"),
        (about(recipe={"peak": 1e-2}), r"recipe\.batch_size = 1, got None"),
        (about(step=99), "step: expected an integer, 0 ≤ step ≤ 4, got 99"),
        (about(tokens=-1), "tokens.*-1"),
        (about(rng=np.random.MT19937(0).state | {"state": 0}), "rng.*MT19937"),
    ],
)
def test_contents_that_do_not_fit_are_refused_by_name(small, change, message):
    rewrite(small, change)
    with pytest.raises(train.CheckpointError, match=message):
        train.load(small, TINY, SHORT)


def test_a_file_that_is_no_array_is_refused(small, tiny):
    with zipfile.ZipFile(small, "a") as file:
        file.writestr("note", "not an array")
    assert not survives(small, tiny)


def test_a_state_that_would_be_refused_is_not_saved(small, tiny):
    before = small.read_bytes()
    spoiled = copy.deepcopy(tiny)
    spoiled.params["embedding"]["E"][0, 0] = np.nan
    for state, config, recipe, message in (
        (spoiled, TINY, SHORT, "params/embedding/E: expected finite"),
        (dataclasses.replace(tiny, losses=tiny.losses[1:]), TINY, SHORT, "losses"),
        (dataclasses.replace(tiny, tokens=-1), TINY, SHORT, "tokens"),
        (dataclasses.replace(tiny, moments=tiny.moments | {"step": 1}), TINY, SHORT, "losses"),
        (tiny, dataclasses.replace(TINY, V=3), SHORT, r"embedding/E of shape \(3, 2\), got \(2, 2\)"),
        (tiny, dataclasses.replace(TINY, tied=False), SHORT, "W_out of shape .*, got nothing"),
        (tiny, TINY, dataclasses.replace(SHORT, steps=1, schedule="inverse_square_root"), "step"),
    ):
        with pytest.raises(ValueError, match=message):
            train.save(small, state, config, recipe)
    assert small.read_bytes() == before and list(small.parent.iterdir()) == [small]


def test_settings_may_be_numbers_of_numpy(small, tiny):
    config = dataclasses.replace(TINY, V=np.int64(2), eps=np.float64(1e-5), D=np.int32(2))
    recipe = dataclasses.replace(SHORT, steps=np.int64(4), peak=np.float32(0.5), batch_size=np.uint8(1))
    train.save(small, tiny, config, recipe)
    assert same(train.load(small, config, recipe), tiny)
    assert same(train.load(small, TINY, dataclasses.replace(SHORT, peak=0.5)), tiny)


def test_who_may_read_a_checkpoint_is_left_to_the_umask(small):
    mask = os.umask(0o022)
    os.umask(mask)
    assert small.stat().st_mode & 0o777 == 0o666 & ~mask


SAVING = """
import sys
import numpy as np
sys.path.append(sys.argv[2])
import test_train as tests

savez = np.savez
def slowly(file, **arrays):
    file.write(b"half of it")
    file.flush()
    print("writing", flush=True)
    sys.stdin.readline()
    file.seek(0)
    savez(file, **arrays)
np.savez = slowly
tests.train.save(sys.argv[1], tests.train.start(tests.TINY, 7), tests.TINY, tests.SHORT)
"""


def test_what_a_killed_save_left_is_removed_and_what_another_is_writing_is_not(small, tiny):
    folder, names = small.parent, ["small.npz", "small.npz.mine.part", "other.npz.0123abcd.part"]
    for name in names[1:]:
        (folder / name).touch()
    command = [sys.executable, "-c", SAVING, str(small), os.path.dirname(__file__)]
    pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with subprocess.Popen(command, **pipes) as killed, subprocess.Popen(command, **pipes) as slow:
        try:
            assert [process.stdout.readline() for process in (killed, slow)] == ["writing\n"] * 2
            train.save(small, tiny, TINY, SHORT)  # both are at work
            assert len(list(folder.iterdir())) == 3 + 2
            killed.kill()
            killed.wait()
            train.save(small, tiny, TINY, SHORT)
            assert len(list(folder.iterdir())) == 3 + 1 and survives(small, tiny)
            slow.communicate("go on\n", timeout=60)
            assert slow.returncode == 0
        finally:
            killed.kill()
            slow.kill()
    assert sorted(path.name for path in folder.iterdir()) == sorted(names)
    assert same(train.load(small, TINY, SHORT), train.start(TINY, 7))


def test_a_file_that_was_removed_before_it_was_locked_is_begun_again(small, tiny, monkeypatch):
    removed, flock = [], train.fcntl.flock

    def late(file, operation):
        if not removed:
            removed.append(file.name)
            os.remove(file.name)
        flock(file, operation)

    monkeypatch.setattr(train.fcntl, "flock", late)
    train.save(small, tiny, TINY, SHORT)
    assert len(removed) == 1 and survives(small, tiny) and list(small.parent.iterdir()) == [small]
