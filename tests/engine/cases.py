"""Cases in which any two choices meet: a table of models, batches and ways to compute, drawn by pairs.

TABLE has a column for every field of `Config`, and for what else can be chosen: the batch, the precision, the
memory of the fast step. In CASES every two values of two columns stand together in some case, if they may.
Where a choice has no effect it is None, so that what is counted as a pair is felt.
"""

import inspect
from collections import Counter
from collections.abc import Callable
from itertools import combinations
from typing import NamedTuple

import numpy as np
import optree
from parameters import random_batch, random_params

from handgrad.blocks import SITES
from handgrad.config import CHOICES, Config
from handgrad.fast.memory import Workspace
from handgrad.ops import GATED

TABLE = {
    # a column stands after those that decide what it may be
    "kind": CHOICES["kind"],
    "positions": CHOICES["positions"],
    "activation": CHOICES["activation"],
    "p": (0.0, 0.3),
    "pad": (None, 0, 5),
    "segments": (0, 3),
    "D": (8, 9, 72),
    "H": (1, 2, 3, 4),
    "H_kv": (None, 1, 2),
    "V": (7, 130),
    "F": (6, 70),
    "N": (1, 2, 3),
    "norm": CHOICES["norm"],
    "normalization": CHOICES["normalization"],
    "eps": (1e-5, 0.1),
    "final_norm": (False, True),
    "embedding_norm": (False, True),
    "attention_biases": (True, False),
    "feed_forward_biases": (None, True, False),
    "T_max": (None, 0, 3),  # beyond the longest sequence
    "rotary_base": (None, 10000.0, 100.0),
    "scale_embedding": (False, True),
    "shared": (None, True, False),
    "tied": (True, False),
    "head_bias": (False, True),
    "head_transform": (False, True),
    "dropout_sites": (None, *((site,) for site in SITES), ("embedding", "attention", "sublayer"), SITES),
    # the batch and the loss
    "B": (1, 3, 5),
    "T": (1, 2, 6, 70, 130),  # the fast step takes 32 queries at a time, or more
    "S": (None, 1, 2, 5, 130),
    "blind": (None, False, True),
    "told": (None, False, True),  # whether the batch says the segments
    "label_smoothing": (0.0, 0.1),
    # how it is computed
    "precision": ("float64", "float32"),
    "library": ("numpy", "torch"),
    "workers": (1, 2, 3),
    "queries": (128, 5),
    "at_once": (2**19, 1),
    "kept": (2**22, 40),
}
INITIAL = {"std", "scaled_residuals"}
"""The fields that `init` alone reads. Here the parameters are not its own: none stays at 0 or at 1."""

RULES = [
    lambda D, H: D % H == 0,
    lambda D, positions: positions != "sinusoidal" or D % 2 == 0,
    lambda D, H, positions: positions != "rotary" or D % (2 * H) == 0,
    lambda H, H_kv: H_kv is None or (H_kv < H and H % H_kv == 0),
    lambda activation, head_transform: not (activation in GATED and head_transform),
    lambda activation, dropout_sites: activation not in GATED or "hidden" not in (dropout_sites or ()),
    lambda kind, segments: kind == "encoder" or not segments,
    # what has no effect is None, and nothing else is
    lambda kind, S: (S is None) == (kind != "encoder-decoder"),
    lambda kind, shared: (shared is None) == (kind != "encoder-decoder"),
    lambda positions, T_max: (T_max is None) == (positions != "learned"),
    lambda positions, rotary_base: (rotary_base is None) == (positions != "rotary"),
    lambda activation, feed_forward_biases: (feed_forward_biases is None) == (activation in GATED),
    lambda p, dropout_sites: (dropout_sites is None) == (p == 0),
    lambda pad, blind: (blind is None) == (pad is None),
    lambda segments, told: (told is None) == (segments == 0),
]
"""What may stand together, each in the columns that it names."""
COLUMNS = {rule: tuple(inspect.signature(rule).parameters) for rule in RULES}


def fits(case):
    """Whether no rule forbids these choices; a rule waits until all its columns are chosen."""
    return all(
        rule(*(case[name] for name in columns))
        for rule, columns in COLUMNS.items()
        if all(name in case for name in columns)
    )


def pairs_of(case):
    """The pairs of choices, ((column, value), (column, value)) in the order of the table."""
    return set(combinations(((name, case[name]) for name in TABLE if name in case), 2))


def all_pairs():
    """Cases that hold every pair of choices that may stand together: each takes what has been met the least.

    A case begins with a pair that is still to be met. Column by column it takes the value that meets the most
    new pairs, of equal ones the value that was taken the least. In the end a case that is not needed goes.
    (allpairspy 2.5.1, a package for this, never meets one in eight of the pairs under such rules.)
    """
    cases, met, taken = [], set(), {}

    def completed(case):
        name = next((name for name in TABLE if name not in case), None)
        if name is None:
            return case

        def merit(value):
            new = pairs_of(case | {name: value}) - met - pairs_of(case)
            return -len(new), taken.get((name, value), 0)

        longer = (case | {name: value} for value in sorted(TABLE[name], key=merit))
        return next(filter(None, map(completed, filter(fits, longer))), None)

    choices = [(name, value) for name, values in TABLE.items() for value in values]
    for pair in combinations(choices, 2):
        two = dict(pair)
        if len(two) == 2 and pair not in met and fits(two) and (case := completed(two)):
            cases.append({name: case[name] for name in TABLE})
            met |= pairs_of(case)
            for choice in case.items():
                taken[choice] = taken.get(choice, 0) + 1
    met_by = Counter(pair for case in cases for pair in pairs_of(case))
    for case in list(cases):
        if all(met_by[pair] > 1 for pair in pairs_of(case)):
            cases.remove(case)
            met_by.subtract(pairs_of(case))
    return cases


def name_of(number, case):
    """A short name of a case, by which a test is found."""
    lengths = [f"{letter} = {case[letter]}" for letter in "NTS" if case[letter]]
    return ", ".join([f"{number}", case["kind"], case["norm"], case["positions"], *lengths])


CASES = {name_of(number, case): case for number, case in enumerate(all_pairs())}


ONE = dict.fromkeys(TABLE) | dict(kind="decoder", positions="rotary", activation="relu", p=0.0, segments=0)
ONE |= dict(D=8, H=2, V=7, F=6, N=1, norm="pre", normalization="layer_norm", eps=1e-5, final_norm=True)
ONE |= dict(embedding_norm=False, attention_biases=True, feed_forward_biases=True, rotary_base=10000.0)
ONE |= dict(scale_embedding=False, tied=False, head_bias=False, head_transform=False, B=1, T=6)
ONE |= dict(label_smoothing=0.0, precision="float64", library="numpy", workers=1)
ONE |= dict(queries=128, at_once=2**19, kept=2**22)
WAVES = {"positions": "sinusoidal", "rotary_base": None}
FURTHER = {
    "1,100 positions, turned": ONE | {"T": 1100},
    "1,100 positions, waves": ONE | WAVES | {"T": 1100},
    "an odd length": ONE | {"positions": "learned", "rotary_base": None, "T_max": 0, "B": 2, "T": 37},
    "faint rows": ONE | {"embedding_norm": True, "eps": 1e-12, "precision": "float32", "faint": True},
    "padding at the left": ONE | {"pad": 0, "blind": True, "B": 3, "T": 14},
}
"""What no value of a column has: each is a draw that a fault needs, and for each a test has such a fault."""


class Problem(NamedTuple):
    """What a step is asked: parameters and batch of NumPy arrays; new_draw() makes a `draw_keep`, or None."""

    params: dict
    config: Config
    batch: dict
    new_draw: Callable
    label_smoothing: float


def config_of(case):
    """The Config of a case. What is None there has its default."""
    own = {name: value for name, value in case.items() if name in Config.__dataclass_fields__}
    own = {name: value for name, value in own.items() if value is not None}
    if "T_max" in own:
        own["T_max"] += max(case["T"], case["S"] or 0)
    return Config(**own)


def problem(case, seed=0):
    """The Problem of a case: the same again for the same seed."""
    config, rng = config_of(case), np.random.default_rng(seed)
    params = random_params(config, rng, np.dtype(case["precision"]))
    if case.get("faint"):  # rows whose variance is no larger than ε
        params["embedding"] = optree.tree_map(lambda table: table / 2**20, params["embedding"])
    batch = random_batch(config, rng, B=case["B"], T=case["T"], S=case["S"], blind=bool(case["blind"]))
    if case["told"] is False:
        del batch["segments"]

    def new_draw():
        own = np.random.default_rng(seed)
        return (lambda shape: own.random(shape) >= config.p) if config.p else None

    return Problem(params, config, batch, new_draw, case["label_smoothing"])


def workspace_of(case):
    """The memory and threads with which the fast step computes a case."""
    return Workspace(*(case[name] for name in ("workers", "queries", "at_once", "kept")))
