"""Training: draw a batch, take the gradients, take a step, and go on; stop and resume without a trace.

A `State` is everything that the rest of a training depends on. `run` is a function of it: from the same state
it computes the same numbers, bit for bit, whether it was saved and loaded in between or not.
"""

import contextlib
import copy
import dataclasses
import glob
import io
import json
import math
import os
import secrets
import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import optree
from tqdm import tqdm

from . import model, optim
from .algebra import check_amount, check_integer, is_shape
from .config import Config, init, shapes

try:
    import fcntl
except ImportError:  # Windows: no file is locked, and none is removed
    fcntl = None

FORMAT = 1  # of a checkpoint


@dataclass(frozen=True)
class Recipe:
    """How a model is trained. Smoothing, betas and eps are those of Vaswani et al. 2017, sections 5.3, 5.4.

    Raises TypeError or ValueError, with the name of the field, if a value is of another kind or out of range.
    """

    steps: int  # number of updates, at least 1
    batch_size: int  # sentences in a batch, at least 1
    peak: float  # the highest learning rate, above 0
    warmup: int  # updates until it is reached, at least 1; a cosine needs one more to fall
    schedule: str = "cosine"  # or "inverse_square_root"
    label_smoothing: float = 0.1  # in [0, 1)
    max_norm: float | None = 1.0  # the gradient is clipped to this length, above 0; None: it is not clipped
    beta_1: float = 0.9  # in [0, 1), as beta_2
    beta_2: float = 0.98
    eps: float = 1e-9  # above 0
    weight_decay: float = 0.0  # not negative

    def __post_init__(self):
        if self.schedule not in ("cosine", "inverse_square_root"):
            raise ValueError(f'schedule: expected "cosine" or "inverse_square_root", got {self.schedule!r}')
        for name in ("steps", "batch_size"):
            check_integer(name, getattr(self, name), least=1)
        last = self.steps - 1 if self.schedule == "cosine" else self.steps
        check_integer("warmup", self.warmup, least=1, most=last)
        for name in ("peak", "eps"):
            check_amount(name, getattr(self, name), positive=True)
        for name in ("label_smoothing", "beta_1", "beta_2"):
            check_amount(name, getattr(self, name), below=1)
        check_amount("weight_decay", self.weight_decay)
        if self.max_norm is not None:
            check_amount("max_norm", self.max_norm, positive=True)

    @property
    def adam(self):
        """The options of AdamW."""
        return dict(beta_1=self.beta_1, beta_2=self.beta_2, eps=self.eps, weight_decay=self.weight_decay)

    @property
    def longest(self):
        """The length to which a gradient is clipped: `max_norm`, or ∞."""
        return math.inf if self.max_norm is None else self.max_norm

    def rate(self, step):
        """Return the learning rate of update `step` = 1 … steps; TypeError or ValueError for another step."""
        check_integer("step", step, least=1, most=self.steps)
        if self.schedule == "cosine":
            return optim.cosine(step, self.steps, self.peak, self.warmup)
        return optim.inverse_square_root(step, 1, self.warmup, scale=self.peak * math.sqrt(self.warmup))


@dataclass(frozen=True)
class State:
    """A training between two updates."""

    params: dict
    moments: dict  # the state of `optim.adamw`
    rng: np.random.Generator  # draws the batches and the dropout
    losses: list = field(default_factory=list)  # one for each update so far
    tokens: int = 0  # target tokens seen so far

    @property
    def step(self):
        """The number of updates so far."""
        return self.moments["step"]

    def after(self, params, moments, loss, batch, config):
        """Return the state after an update that came to these parameters and moments on `batch`."""
        tokens = self.tokens + counted(batch, config)
        losses = [*self.losses, float(loss)]
        return dataclasses.replace(self, params=params, moments=moments, losses=losses, tokens=tokens)


def start(config: Config, seed: int, dtype=np.float32) -> State:
    """Return the state before the first update: random parameters, moments 0, a generator from `seed`.

    Raises TypeError unless dtype is float32 or float64.
    """
    if np.dtype(dtype) not in (np.float32, np.float64):
        raise TypeError(f"dtype: expected float32 or float64, got {dtype}")
    rng = np.random.default_rng(seed)
    params = init(config, rng, dtype)
    return State(params, optim.adamw_init(params), rng)


def dropout_from(rng: np.random.Generator, p: float):
    """Return the argument `draw_keep`: None if p is 0, else a function from a shape to random Booleans.

    Raises TypeError or ValueError unless p is a number, 0 ≤ p < 1.
    """
    check_amount("p", p, below=1)
    return (lambda shape: rng.random(shape, dtype=np.float32) >= p) if p else None


def counted(batch: dict, config: Config) -> int:
    """Return the number of targets of the batch that count: those that are not padding."""
    return int(np.sum(batch["target_out"] != config.ignore_index))


def update(state, batch, config, recipe, draw_keep=None, gradients=model.loss_and_gradients) -> State:
    """Return the state after one update on `batch`: gradients, clipping, schedule, AdamW.

    gradients: a function that takes and returns what `model.loss_and_gradients` does.

    Raises FloatingPointError, with the number of the update, if the loss or a gradient is not finite.
    """
    options = {"draw_keep": draw_keep, "label_smoothing": recipe.label_smoothing}
    loss, grads = gradients(state.params, config, batch, **options)
    check_loss(loss, state)
    grads, _ = optim.clip_by_global_norm(grads, recipe.longest)
    rate = recipe.rate(state.step + 1)
    params, moments = optim.adamw(state.params, grads, state.moments, rate, **recipe.adam)
    return state.after(params, moments, loss, batch=batch, config=config)


def readable(state, config, recipe, gradients=model.loss_and_gradients):
    """The engine of `run` that is `update`: a function (state, batch, draw_keep) -> next state."""
    return lambda state, batch, draw_keep: update(
        state, batch, config, recipe, draw_keep=draw_keep, gradients=gradients
    )


def run(
    state,
    draw,
    config,
    recipe,
    until=None,
    checkpoint=None,
    every=None,
    progress=True,
    engine=readable,
) -> State:
    """Train until update `until` (the end of the recipe if None) and return the new state.

    draw(rng, batch_size) returns a batch. The given state, its generator included, is left as it was. With
    `checkpoint`, a path, the state is saved every `every` updates and at the end. Progress goes to the
    standard output: the loss, and target tokens per second. engine: a function (state, config, recipe) ->
    (state, batch, draw_keep) -> next state, such as `readable`, or `fast.engine` with the same numbers up to
    rounding.

    Raises TypeError or ValueError unless state.step ≤ until ≤ recipe.steps, every ≥ 1 if it is given, which
    needs a checkpoint, and the moments fit the parameters; with a checkpoint also, before the first update,
    what `save` would raise; errors as `update`. FileExistsError if another has written the checkpoint during
    this training: of two trainings one would be lost.
    """
    optim.check_state(state.moments, state.params, "m", "v")
    until = recipe.steps if until is None else until
    check_integer("until", until, least=state.step, most=recipe.steps)
    if every is not None:
        check_integer("every", every, least=1)
        if checkpoint is None:
            raise ValueError(f"checkpoint: expected a path, to save every {every} updates, got None")
    if checkpoint is not None:
        contents(state, config, recipe)
        left = written(check_place(checkpoint))
    state = dataclasses.replace(state, rng=copy.deepcopy(state.rng))
    advance, seen = engine(state, config, recipe), state.tokens
    bar = tqdm(total=until, initial=state.step, unit="update", disable=not progress, file=sys.stdout)
    with bar:
        while state.step < until:
            batch = draw(state.rng, recipe.batch_size)
            state = advance(state, batch, dropout_from(state.rng, config.p))
            elapsed = max(bar.format_dict["elapsed"] or 0, 1e-9)
            speed = f"{(state.tokens - seen) / elapsed:.0f} tokens/s"
            bar.set_postfix_str(f"loss {state.losses[-1]:.3f}, {speed}", refresh=False)
            bar.update()
            if checkpoint is not None and (state.step == until or (every and state.step % every == 0)):
                if written(checkpoint) != left:
                    raise FileExistsError(
                        f"checkpoint: expected {checkpoint} as it was left, got one that another has written"
                    )
                save(checkpoint, state, config, recipe)
                left = written(checkpoint)
    return state


def written(path):
    """Which file lies at a path, and when it was written; None if there is none."""
    try:
        about = os.stat(path)
    except FileNotFoundError:
        return None
    return about.st_ino, about.st_mtime_ns, about.st_size


def check_loss(loss, state):
    """Raise FloatingPointError, with the number of the update after `state`, unless the loss is finite."""
    if not math.isfinite(loss):
        got = f"{float(loss)} in update {state.step + 1}"
        raise FloatingPointError(f"loss: expected a finite number, got {got}")


class CheckpointError(ValueError):
    """A checkpoint that cannot be read, or belongs to another training."""


def save(path, state: State, config: Config, recipe: Recipe) -> None:
    """Write the state to one file, atomically: afterwards `path` holds all of it, or what it held before.

    The file is written beside `path` first. What killed saves to `path` have left there is removed; what
    another process is writing is not.
    Raises TypeError if the generator is not one of `np.random.default_rng`; TypeError or ValueError if the
    state does not fit the config and the recipe, or holds numbers that are not finite; OSError if the file
    cannot be written.
    """
    about, arrays = contents(state, config, recipe)
    path = check_place(path)
    remove_abandoned(path)
    part, lock = begin(path)
    with lock:  # until the file has its name
        try:
            with open(part, "wb") as file:
                np.savez(file, about=np.array(json.dumps(about)), **arrays)
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise


def load(path, config: Config, recipe: Recipe) -> State:
    """Read a state that `save` wrote for the same config and recipe.

    Raises OSError if the file cannot be read, such as FileNotFoundError; CheckpointError, which says what
    does not fit, if it is damaged or no checkpoint, or was written for another config or recipe.
    """
    written = io.BytesIO(Path(path).read_bytes())
    try:
        with np.load(written, allow_pickle=False) as file:  # reads everything, and checks the sums
            arrays = {name: np.asarray(file[name]) for name in file.files}
        about = json.loads(str(arrays.pop("about")))
    except Exception as error:  # whatever a reader of zip files and of arrays finds wrong with the bytes
        raise CheckpointError(f"{path}: expected a checkpoint, got a file that is none: {error!r}") from error
    try:
        check_contents(about, arrays, config, recipe)
        rng = generator(about["rng"])
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"{path}: {error}") from error
    tree = optree.tree_map_with_path(lambda place, _: arrays[name_of(place)], trees(config), is_leaf=is_shape)
    moments = {"step": about["step"], "m": tree["m"], "v": tree["v"]}
    return State(tree["params"], moments, rng, losses=arrays["losses"].tolist(), tokens=about["tokens"])


def contents(state, config, recipe):
    """What a checkpoint holds: a dictionary for JSON, and arrays by name. Raises as `save`."""
    if not isinstance(getattr(state.rng, "bit_generator", None), np.random.PCG64):
        raise TypeError(f"state.rng: expected a generator of np.random.default_rng, got {state.rng}")
    about = {"format": FORMAT, "config": dataclasses.asdict(config), "recipe": dataclasses.asdict(recipe)}
    about |= {"step": state.step, "tokens": state.tokens, "rng": state.rng.bit_generator.state}
    arrays = {"losses": np.array(state.losses, dtype=np.float64)}
    tree = {"params": state.params, "m": state.moments["m"], "v": state.moments["v"]}
    for place, leaf in zip(*optree.tree_flatten_with_path(tree)[:2], strict=True):
        arrays[name_of(place)] = np.asarray(leaf)
    about = as_read(about)
    check_contents(about, arrays, config, recipe)
    return about, arrays


def check_contents(about, arrays, config, recipe):
    """Raise TypeError or ValueError, saying what does not fit, unless they are of a state of this training.

    about is as JSON gives it back, and arrays a dictionary from names to NumPy arrays.
    """
    entries = {"format", "config", "recipe", "step", "tokens", "rng"}
    if not isinstance(about, dict) or set(about) != entries:
        raise ValueError(f"about: expected the entries {sorted(entries)}, got {about!r:.200}")
    if about["format"] != FORMAT:
        raise ValueError(f"expected format {FORMAT}, got {about['format']!r}")
    for name, ours in (("config", config), ("recipe", recipe)):
        ours, theirs = as_read(dataclasses.asdict(ours)), about[name]
        if not isinstance(theirs, dict):
            raise TypeError(f"{name}: expected a dictionary, got {theirs!r}")
        for key in sorted(ours.keys() | theirs.keys()):
            if ours.get(key) != theirs.get(key):
                raise ValueError(f"expected {name}.{key} = {ours.get(key)!r}, got {theirs.get(key)!r}")
    check_integer("step", about["step"], most=recipe.steps)
    check_integer("tokens", about["tokens"])
    shapes_of = {"losses": (about["step"],)}  # one loss for each update
    for place, shape in zip(*optree.tree_flatten_with_path(trees(config), is_leaf=is_shape)[:2], strict=True):
        shapes_of[name_of(place)] = shape
    for name in sorted(shapes_of.keys() | arrays.keys()):
        got = getattr(arrays.get(name), "shape", "nothing")
        expected = shapes_of.get(name, "nothing")
        if got != expected:
            raise ValueError(f"expected {name} of shape {expected}, got {got}")
    dtypes = {array.dtype for name, array in arrays.items() if name != "losses"}
    if len(dtypes) != 1 or not all(np.issubdtype(dtype, np.floating) for dtype in dtypes):
        raise TypeError(f"expected arrays of one floating type, got {sorted(map(str, dtypes))}")
    if arrays["losses"].dtype != np.float64:
        raise TypeError(f"losses: expected float64, got {arrays['losses'].dtype}")
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise ValueError(f"{name}: expected finite numbers, got {array[~np.isfinite(array)].flat[0]}")


def trees(config):
    """The shapes of all arrays of a state: of the parameters and of both moments."""
    tree = shapes(config)
    return {"params": tree, "m": tree, "v": tree}


def name_of(place):
    """The name of an array in a checkpoint, such as m/encoder/0/self_attention/W_Q."""
    return "/".join(map(str, place))


def as_read(values):
    """Values as a file gives them back: tuples become lists, NumPy's numbers become Python's."""
    return json.loads(json.dumps(values, default=np.generic.item))


def generator(state):
    """The generator in this state. Raises ValueError if it is none of `np.random.default_rng`."""
    bits = np.random.PCG64()
    with contextlib.suppress(TypeError, ValueError, KeyError, OverflowError):  # it is another then
        bits.state = state
    if bits.state != state:
        raise ValueError(f"rng: expected the state of a generator PCG64, got {state!r}")
    return np.random.Generator(bits)


def check_place(path):
    """Return the path, that of the file itself if a link leads to it.

    Raises FileNotFoundError without its folder, IsADirectoryError if it is a folder, PermissionError if it is
    a file that may only be read.
    """
    path = Path(os.path.realpath(path))
    if not path.parent.is_dir():
        raise FileNotFoundError(f"checkpoint: expected a file in a folder that exists, got {path}")
    if path.is_dir():
        raise IsADirectoryError(f"checkpoint: expected a file, got the folder {path}")
    if path.exists() and not path.stat().st_mode & 0o222:
        raise PermissionError(f"checkpoint: expected a file to write to, got one to be read only: {path}")
    return path


def begin(path):
    """Create an empty file beside `path`. Returns its path, and an open lock of it.

    The lock tells `remove_abandoned` of other processes that this one goes on. It ends when it is closed, and
    when the process ends, however that ends.
    """
    part = path.with_name(f"{path.name}.{secrets.token_hex(4)}.part")
    lock = open(part, "xb")
    if fcntl is None:
        lock.close()
        return part, lock
    with contextlib.suppress(OSError):  # a file system without locks, where nothing is removed either
        fcntl.flock(lock, fcntl.LOCK_EX)
    if part.exists():
        return part, lock
    lock.close()  # it was taken for an abandoned one before it was locked
    return begin(path)


def remove_abandoned(path):
    """Remove the files of `begin` whose process was killed: those that nobody holds the lock of."""
    digits = "[0-9a-f]" * 8
    for part in path.parent.glob(f"{glob.escape(path.name)}.{digits}.part") if fcntl else ():
        with contextlib.suppress(OSError), open(part, "r+b") as file:  # locked, not ours, or just removed
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            part.unlink()
