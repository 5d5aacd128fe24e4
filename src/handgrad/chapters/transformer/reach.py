"""Which inputs a logit can feel, and whether a batch lets a model read what it is asked for."""

from dataclasses import replace

import numpy as np

from handgrad import model
from handgrad.config import Config, init


def felt(params, config, batch, t):
    """{table of positions: (T_max,)}: the size of the gradient that logits at place t send to each input.

    One sequence, and learned positions: then a row of their gradient is what arrives at one input.
    """
    z, cache = model.forward(params, config, batch)
    dz = np.zeros_like(z)
    dz[0, t] = np.random.default_rng(t).standard_normal(z.shape[-1])
    grads = model.backward(dz, cache)
    return {name: np.abs(part["P"]).max(axis=1) for name, part in grads.items() if "P" in part}


def own_token_read(params, config, make, row):
    """Places t whose logits move when the token that is asked there is replaced.

    make: from rows (1, T + 1) to what is read and what is asked, (1, T') each.
    """
    read, _ = make(row)
    _, place = make(np.arange(row.shape[1])[None])  # where in the row the asked token stands
    z, _ = model.forward(params, config, {"tokens": read})
    moved = []
    for t, j in enumerate(place[0]):
        other = row.copy()
        other[0, j] = (row[0, j] + 1) % config.V
        z_other, _ = model.forward(params, config, {"tokens": make(other)[0]})
        moved.append(bool((z_other[0, t] != z[0, t]).any()))
    return np.flatnonzero(moved)


def steps_ahead(make, length):
    """By how many places the asked token stands after the read one: a set of integers, {1} if all is well."""
    read, asked = make(np.arange(length)[None])
    return set((asked - read).ravel().tolist())


def without_padding(config):
    """The same model, in which no token is padding: a replaced token may be any."""
    return replace(config, pad=None)


PLACES = 6
ROW, SOURCE = np.array([[3, 5, 4, 3, 8, 5]]), np.array([[4, 4, 0, 7, 3, 6]])  # 0 is padding
INPUTS = {"decoder": "tokens", "encoder": "tokens", "encoder-decoder": "target_in"}


def of_families(N=3):
    """{family: {table: (places t, inputs)}}: what logits at place t send to each input, random parameters."""
    found = {}
    for kind, name in INPUTS.items():
        config = Config(kind, V=9, D=8, H=2, F=12, N=N, positions="learned", T_max=PLACES, pad=0)
        batch = {name: ROW} | ({"source": SOURCE} if kind == "encoder-decoder" else {})
        params = init(config, np.random.default_rng(2))
        rows = [felt(params, config, batch, t) for t in range(PLACES)]
        found[kind] = {table: np.array([row[table] for row in rows]) for table in rows[0]}
    return found
