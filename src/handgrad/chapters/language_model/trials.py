"""What chapter 17 trains and measures: windows of a text, bits by place, pushes, mistakes."""

import time
from dataclasses import replace
from functools import partial

import numpy as np
from scipy import stats

from handgrad import decode, fast, manual, model, train
from handgrad.blocks import encoder_block_backward, normalize_backward
from handgrad.config import Config
from handgrad.ops import cross_entropy, cross_entropy_backward

T = 128  # characters in a window
SPENT = 20_000  # characters that the held-out text begins with: some of them have served to search a recipe
ORDER = 14  # characters that the longest counts hold
ORDERS = ["uniform", "unigram", "bigram", *(f"{n}-gram" for n in range(3, ORDER + 1))]


def gpt(**changes):
    """The model of the chapter: decoder-only, pre-norm, final norm, GELU, tied head, rotary positions."""
    config = dict(kind="decoder", V=manual.V, D=128, H=4, F=512, N=3, norm="pre", final_norm=True)
    config |= dict(activation="gelu_tanh", positions="rotary")
    return Config(**config | changes)


def windows(tokens, starts, T=T):
    """The batch of windows of tokens (L,) from `starts` (B,) on: each place is asked for the next token."""
    rows = tokens[np.asarray(starts)[:, None] + np.arange(T + 1)]  # (B, T + 1)
    return {"tokens": rows[:, :-1], "target_out": rows[:, 1:]}


def drawing(tokens, T=T):
    """The function (rng, B) -> batch that `train.run` asks: windows from anywhere in tokens (L,)."""
    return lambda rng, B: windows(tokens, rng.integers(0, len(tokens) - T, B), T)


def by_place(params, config, tokens, stride, T=T, draw_keep=None):
    """The loss in nats of tokens 1, …, L − 1, and how many characters each was predicted from: (L − 1,).

    Windows of T places, each `stride` after the last, and one at the end. A token counts once: in the first
    window that holds it, where it has the least context, at least T − stride places but for the first window.
    """
    L = len(tokens)
    starts = [*range(0, L - 1 - T, stride), L - 1 - T]
    losses, context = np.full(L - 1, np.nan), np.zeros(L - 1, dtype=int)
    for at in range(0, len(starts), 32):
        some = starts[at : at + 32]
        batch = windows(tokens, some, T)
        z, _ = model.forward(params, config, batch, draw_keep)
        nats = nats_of(z, batch["target_out"])  # (B, T)
        for start, row in zip(some, nats, strict=True):
            new = np.flatnonzero(np.isnan(losses[start : start + T]))
            losses[start + new], context[start + new] = row[new], new + 1
    return losses, context


def nats_of(z, targets):
    """The cost −ln p of each target: z (..., V), targets (...) -> (...), in float64."""
    z = z.astype(np.float64)
    z = z - z.max(axis=-1, keepdims=True)
    chosen = np.take_along_axis(z, targets[..., None], axis=-1)[..., 0]
    return np.log(np.exp(z).sum(axis=-1)) - chosen


def by_temperature(z, targets):
    """The derivative of the mean loss by the temperature, at 1: the mean of z_y − z̄."""
    z = z.astype(np.float64)
    p = np.exp(z - np.logaddexp.reduce(z, axis=-1, keepdims=True))
    return (np.take_along_axis(z, targets[..., None], axis=-1)[..., 0] - (p * z).sum(axis=-1)).mean()


def pushes(params, config, text, places):
    """The gradient of the loss at each of `places` by the row of every place: (places, T, D), by hand.

    text (T + 1,): place t reads text[t] and is asked for text[t + 1]. The rows are those that the first block
    reads.
    """
    batch = windows(text, np.zeros(len(places), dtype=int), len(text) - 1)
    z, cache = model.forward(params, config, batch)
    targets = np.full_like(batch["target_out"], config.ignore_index)
    for row, place in enumerate(places):
        targets[row, place] = batch["target_out"][row, place]
    _, counted = cross_entropy(z, targets, config.ignore_index)
    dz = len(places) * cross_entropy_backward(1.0, counted)  # each loss by itself, not their mean
    dx, _, _ = model.head_backward(dz, cache["headed"])
    decoded = cache["decoded"]
    dx, _ = normalize_backward(dx, decoded["normed"])
    for block in reversed(decoded["blocks"]):
        dx, _ = encoder_block_backward(dx, block)
    return dx


def above(nats, p, block=500):
    """By how many bits a character costs a model more than counts: the mean, and its standard error.

    nats (L,), the losses of the model; p (L,), what the counts gave to each character. Neighbours are alike,
    so the error is that of the means of blocks.
    """
    more = nats / np.log(2) + np.log2(p)
    blocks = [part.mean() for part in np.array_split(more, len(more) // block)]
    return more.mean(), stats.sem(blocks)


def of_seeds(record):
    """A table: bits per character of text that chose nothing, of counts and of models from several seeds."""
    rows = [f"{name:24} {bits:.3f}" for name, bits in zip(ORDERS, record["orders"], strict=True)]
    for key in ("examined, stride 128", "examined, stride 64"):
        costs = "  ".join(f"{run[key]:.3f}" for run in record["seeds"].values())
        rows.append(f"model, {key.split(', ')[1]:17} {costs}")
    for text in ("training", "examined"):
        slopes = "  ".join(f"{run[f'slope by temperature, {text}']:+.3f}" for run in record["seeds"].values())
        rows.append(f"slope by τ, {text:12} {slopes}")
    return "\n".join(rows)


def of_candidates(candidates):
    """A table: what was tried inside the training text, bits of its last tenth, slope by temperature."""
    rows = ["decay  rate   batch  updates   bits  slope by τ"]
    for tried in candidates:
        decay, peak, B, steps = (tried[name] for name in ("weight_decay", "peak", "batch_size", "steps"))
        bits, slope = tried["last tenth, stride 64"], tried["slope by temperature, training"]
        rows.append(f"{decay:<5}  {peak:<5}  {B:5}  {steps:7}  {bits:.3f}  {slope:+.3f}")
    return "\n".join(rows)


# Four mistakes ----------------------------------------------------------------------------------------------

PAD = manual.V
"""A token for padding, one more than the characters."""


def small(**changes):
    """A model small enough to be trained many times."""
    return gpt(D=64, H=2, F=256, N=2, V=manual.V + 1, pad=PAD) if not changes else replace(small(), **changes)


def lines(tokens, longest=40):
    """The lines of a text as rows of a batch (rows, longest + 1), padded; what is longer is cut."""
    found = [line[:longest] + "\n" for line in manual.decode(tokens).split("\n") if line.strip()]
    rows = np.full((len(found), longest + 1), PAD)
    for row, line in zip(rows, found, strict=True):
        row[: len(line)] = manual.encode(line)
    return rows


def shifted(rows):
    """The batch of rows (B, T + 1): each place is asked for the next token."""
    return {"tokens": rows[:, :-1], "target_out": rows[:, 1:]}


def trained_on_lines(rows, config, seed, steps=120):
    """The parameters after a short training on rows of `lines`."""
    recipe = train.Recipe(steps=steps, batch_size=16, peak=3e-3, warmup=20, label_smoothing=0.0)

    def draw(rng, B):
        return shifted(rows[rng.integers(0, len(rows), B)])

    start = train.start(config, seed)
    return train.run(start, draw, config, recipe, engine=fast.engine, progress=False)


def loss_on(params, config, rows, count_padding=False, rng=None):
    """The mean loss over rows (B, T + 1) in nats, padding counted or not. rng draws dropout, if given."""
    batch = shifted(rows)
    draw_keep = None if rng is None else train.dropout_from(rng, config.p)
    z, _ = model.forward(params, config, batch, draw_keep)
    nats = nats_of(z, batch["target_out"])
    return nats.mean() if count_padding else nats[batch["target_out"] != PAD].mean()


def loss_as_used(params, config, rows, rng, places=400):
    """The mean loss of tokens of rows (B, T + 1), predicted from those before them and nothing else."""
    row, place = np.nonzero(rows[:, 1:] != PAD)
    drawn = rng.choice(len(row), places, replace=False)
    losses = []
    for r, t in zip(row[drawn], place[drawn], strict=True):
        z, _ = model.forward(params, config, {"tokens": rows[r : r + 1, : t + 1]})
        losses.append(nats_of(z[:, -1], rows[r : r + 1, t + 1])[0])
    return float(np.mean(losses))


def batch_means(params, config, rows, size=16):
    """The mean loss of each batch of so many rows."""
    return [loss_on(params, config, rows[at : at + size]) for at in range(0, len(rows), size)]


def reported_and_true(training, held_out, seed):
    """Four small trainings with a mistake each, and what is reported: {mistake: (reported, true)} in nats.

    On lines of a training text, examined on 256 lines of a held-out one. The last entry is of four losses: on
    training rows and on unseen rows, each in training mode and without dropout.
    """
    rows = lines(training)
    rows, unseen = np.random.default_rng(0).permutation(rows), lines(held_out)[:256]
    found, rng = {}, np.random.default_rng(seed)
    config = small()
    right = trained_on_lines(rows, config, seed).params
    means = batch_means(right, config, unseen)
    found["wrong divisor"] = sum(means) / len(unseen), np.mean(means)
    config = small(kind="encoder")
    seeing = trained_on_lines(rows, config, seed).params
    found["no mask"] = loss_on(seeing, config, unseen), loss_as_used(seeing, config, unseen, rng)
    config = small(pad=None)
    padded = trained_on_lines(rows, config, seed).params
    found["padding counted"] = loss_on(padded, config, unseen, True), loss_on(padded, config, unseen)
    found["without a mistake"] = (loss_on(right, small(), unseen),) * 2
    config = small(p=0.1)
    few = trained_on_lines(rows[: len(unseen)], config, seed, steps=160).params
    ways = {"training rows": rows[: len(unseen)], "unseen rows": unseen}
    found["few rows"] = {
        (name, mode): loss_on(few, config, some, rng=own)
        for name, some in ways.items()
        for mode, own in {"dropout": rng, "no dropout": None}.items()
    }
    return found


def of_mistakes(found):
    """A table of what `reported_and_true` returned for several seeds."""
    lines = ["                    reported              true"]
    for name in (name for name in found[0] if name != "few rows"):
        columns = ("  ".join(f"{seed[name][side]:.2f}" for seed in found) for side in (0, 1))
        lines.append(f"{name:18}  " + "      ".join(columns))
    return "\n".join(lines)


def of_few(found):
    """A table of the last entry of `reported_and_true` for several seeds."""
    lines = []
    for name, mode in found[0]["few rows"]:
        losses = "  ".join(f"{seed['few rows'][name, mode]:.2f}" for seed in found)
        lines.append(f"{name:13}  {mode:10}  {losses}")
    return "\n".join(lines)


# Keys and values kept ---------------------------------------------------------------------------------------


def seconds(function, repeat=2):
    """The least time of `repeat` calls."""
    times = []
    for _ in range(repeat):
        begin = time.perf_counter()
        function()
        times.append(time.perf_counter() - begin)
    return min(times)


def write(next_logits, length, begin=0):
    """Continue one token by `length` others, the most likely ones; return what `decode.greedy` does."""
    ends = dict(bos=begin, eos=manual.V - 1, max_length=length)
    return decode.greedy(next_logits, 1, **ends, choose=without_end)


def without_end(logits):
    """The most likely token that does not end a text."""
    return np.argmax(logits[:, :-1], axis=-1)


def writing_times(params, config, lengths):
    """Seconds (2, n) to write so many characters: from the beginning each time, and with what is kept."""
    ways = (decode.continuer, decode.cached_continuer)
    return np.array([[seconds(partial(write, way(params, config), n)) for n in lengths] for way in ways])


def work(config, length):
    """Multiply-adds to write so many characters after one: from the beginning each time, with what is kept.

    The head is asked at the last place only. Only products of matrices are counted.
    """
    D, F, N, V = config.D, config.F, config.N, config.V
    t, D_kv = np.arange(1, length + 1), (config.H_kv or config.H) * config.K
    token, pair = N * (2 * D * D + 2 * D * D_kv + 2 * D * F), 2 * N * D
    again = (t * token + t * t * pair).sum() + length * V * D
    kept = (token + t * pair).sum() + length * V * D
    return int(again), int(kept)


# Writing ----------------------------------------------------------------------------------------------------


def continued(params, config, text, length, choose):
    """Text that is written behind a text, character by character; `choose`: as in `decode.greedy`."""
    next_logits = decode.cached_continuer(params, config)
    tokens = manual.encode(text)[None]
    for _ in range(length):
        z = next_logits(tokens, np.array([0]))
        tokens = np.concatenate([tokens, choose(z)[:, None]], axis=1)
    return manual.decode(tokens[0])


def continuation(params, config, begun, length=60):
    """A text of 1 to 60 characters, continued by `length` drawn ones. ValueError for any other."""
    if not 1 <= len(begun) <= 60:
        raise ValueError("expected a text of 1 to 60 characters")
    choose = decode.sampler(np.random.default_rng(len(begun)), 0.8, partial(decode.nucleus, p=0.95))
    return continued(params, config, begun, length, choose)


def chi_square(drawn, parts):
    """Pearson's χ² of drawn integers against chances in proportion to parts (V,); ∞ if one cannot occur."""
    expected = len(drawn) * np.array(parts) / np.sum(parts)
    counts, on = np.bincount(drawn, minlength=len(parts)), expected > 0
    return np.inf if counts[~on].any() else ((counts - expected)[on] ** 2 / expected[on]).sum()


def cut_away(z, targets, cut):
    """How many logits of z (..., V) a cut keeps, on average, and the share of targets that it cuts."""
    z, targets = z.reshape(-1, z.shape[-1]), targets.reshape(-1)
    kept = np.isfinite(cut(z))
    return kept.sum(axis=1).mean(), 1 - kept[np.arange(len(z)), targets].mean()


# What the notebook prints -----------------------------------------------------------------------------------


def repeated(training, held_out, n=50):
    """The share of the pieces of n characters of a text that stand in another, word for word."""
    source, asked = manual.decode(training), manual.decode(held_out)
    pieces = {source[i : i + n] for i in range(len(source) - n + 1)}
    return np.mean([asked[i : i + n] in pieces for i in range(len(asked) - n + 1)])


def of_orders(levels):
    """A table: bits per character of the counts of each order."""
    return "\n".join(f"{name:8} {level:.3f} bits per character" for name, level in zip(ORDERS, levels))


def strides(params, config, tokens, wanted):
    """{stride: (bits per character, least context but for the first window)}"""
    found = {}
    for stride in wanted:
        nats, context = by_place(params, config, tokens, stride)
        found[stride] = nats.mean() / np.log(2), int(context[T:].min())
    return found


def of_strides(found):
    """A table of what `strides` returned."""
    lines = [f"stride {n:3}: from {least:3} or more, {bits:.3f} bits" for n, (bits, least) in found.items()]
    return "\n".join(lines)


def temperatures(params, config, texts, windows_each=130):
    """{title: derivative of the loss by the temperature, by the formula and by a difference, standard error}.

    Over windows spread evenly over each text; the error is that of the mean of the windows. Also the logits
    and targets of the last text.
    """
    found = {}
    for title, tokens in texts.items():
        starts = np.linspace(0, len(tokens) - 1 - T, windows_each).astype(int)
        parts = [windows(tokens, some) for some in np.array_split(starts, windows_each // 32 + 1)]
        y = np.concatenate([part["target_out"] for part in parts])  # (windows, T)
        z = np.concatenate([model.forward(params, config, part)[0] for part in parts])
        each = [by_temperature(*window) for window in zip(z, y, strict=True)]
        loss = [nats_of(z / tau, y).mean() for tau in (0.99, 1.01)]
        found[title] = np.mean(each), (loss[1] - loss[0]) / 0.02, stats.sem(each)
    return found, z, y


def speeds(params, config, lengths):
    """Seconds from the beginning each time, and with what is kept; and how many times fewer multiply-adds."""
    slow, quick = writing_times(params, config, lengths)
    return slow, quick, [np.divide(*work(config, length)) for length in lengths]


def of_speeds(lengths, slow, quick, saved):
    """A table of what `speeds` returned."""
    rows = zip(lengths, slow / quick, saved)
    return "\n".join(f"{n:3} characters: {r:4.1f} times faster, {s:5.1f} by count" for n, r, s in rows)
