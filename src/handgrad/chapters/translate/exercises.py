"""Exercises of chapter 16: a translator. Each is its right answer, and what to say about it."""

import numpy as np

from ...course.judge.draws import Draw, normal, number
from ...course.judge.function import Exercise
from ...decode import greedy
from ...ops import causal_mask, padding_mask

PAD, BOS, EOS = 0, 1, 2


def ended_rows(rng, shape):
    """Rows of words 3 … 8, each ended by EOS and filled up with PAD; a word may stand twice."""
    rows, T = rng.integers(3, 9, size=shape), shape[1]
    length = rng.integers(min(2, T), T + 1, size=shape[0])  # EOS counts
    length[0] = T
    rows[np.arange(T) == length[:, None] - 1] = EOS
    rows[np.arange(T) >= length[:, None]] = PAD
    return rows


def begun_rows(rng, shape):
    """Rows that begin with BOS, as the decoder reads them."""
    rows = ended_rows(rng, shape)
    rows = np.concatenate([np.full_like(rows[:, :1], BOS), rows[:, :-1]], axis=1)
    return np.where(rows == EOS, PAD, rows)


TARGET_OUT, SOURCE = Draw("B T", ended_rows), Draw("B S", ended_rows)
TARGET_IN = Draw("B T", begun_rows)


# 1 ----------------------------------------------------------------------------------------------------------


def decoder_input(target_out, bos, eos, pad):
    first = np.full_like(target_out[:, :1], bos)
    moved = np.concatenate([first, target_out[:, :-1]], axis=1)
    return np.where(moved == eos, pad, moved)


def shifted_by_rows(target_out, bos, eos, pad):
    rows = [[bos, *(pad if word == eos else word for word in row[:-1])] for row in target_out]
    return 1.0 * np.array(rows, dtype=target_out.dtype)


DECODER_INPUT = Exercise(
    decoder_input,
    asks="The shift by one between what is read and what is said, with begin, end and padding.",
    outputs="target_in",
    inputs={"target_out": TARGET_OUT, "bos": number(BOS), "eos": number(EOS), "pad": number(PAD)},
    shipped=shifted_by_rows,
    stories="""
    - Nothing is shifted: the decoder reads the word that it is asked for at the same place.
          moved = np.concatenate([first, target_out[:, :-1]], axis=1) → moved = target_out
    - Shifted the wrong way: at each place the decoder reads the word that comes next.
          [first, target_out[:, :-1]] → [target_out[:, 1:], first]
    - Shifted, but each row keeps its <eos> as a word that is read. A sentence that has ended is continued by
      nobody: read padding there.
          np.where(moved == eos, pad, moved) → moved
    - The row has become longer by one. Drop the last column: nothing stands behind it.
          target_out[:, :-1] → target_out
    - Rolled, not shifted: the last word of each row has come round to its first place, where <bos> belongs.
          first = np.full_like(target_out[:, :1], bos) → first = target_out[:, -1:]
          np.where(moved == eos, pad, moved) → moved
    - The rows begin with padding and not with <bos>: the first word would be asked of an empty past.
          (target_out[:, :1], bos) → (target_out[:, :1], pad)
    - The rows begin with <eos>, which in some models also begins a sentence. Here <bos> does.
          pad, moved) → pad, moved) + (eos - bos) * (moved == bos)
    - Shifted the wrong way: at each place the decoder reads the word that comes next.
          [first, target_out[:, :-1]] → [target_out[:, 1:], np.full_like(first, pad)]
    - Shifted the wrong way: at each place the decoder reads the word that comes next.
          [first, target_out[:, :-1]] → [target_out[:, 1:], np.full_like(first, pad)]
          np.where(moved == eos, pad, moved) → moved
    - Shifted the wrong way: at each place the decoder reads the word that comes next.
          [first, target_out[:, :-1]] → [target_out[:, 1:], target_out[:, :1]]
          np.where(moved == eos, pad, moved) → moved
    - <bos> is written over the first word, and nothing is moved: each place reads what it must say.
          [first, target_out[:, :-1]] → [first, target_out[:, 1:]]
    - The <eos> inside a row has become a second <bos>. Nothing begins there: write padding.
          np.where(moved == eos, pad, moved) → np.where(moved == eos, bos, moved)
    - Shifted along the batch. Rows are sentences; move along the second axis.
          first = np.full_like(target_out[:, :1], bos) → first = np.full_like(target_out[:1], bos)
          target_out[:, :-1]], axis=1 → target_out[:-1]], axis=0
    """,
    hints="""
    - Column 0 is <bos> in every row. Column t is what was asked for at place t - 1.
    - `np.concatenate([first, target_out[:, :-1]], axis=1)`, where first has the shape (B, 1).
    - Where an <eos> has been moved to, the sentence is over. `np.where` puts padding there.
    """,
)


# 2 ----------------------------------------------------------------------------------------------------------


def decoder_masks(target_in, source, pad):
    t = np.arange(target_in.shape[1])
    causal = t[:, None] >= t
    own = causal & (target_in != pad)[:, None, :]
    everywhere = np.full((len(t), 1), True)
    cross = everywhere & (source != pad)[:, None, :]
    return own, cross


def padded_before(rows):
    """Rows with their padding in front, but for the first."""
    rows[1:] = rows[1:, ::-1]
    return rows


def both_words(rows, pad):
    """Where neither the query nor the key is padding: (B, T, T)."""
    return (rows != pad)[:, None, :] & (rows != pad)[:, :, None]


def shipped_masks(target_in, source, pad):
    own = causal_mask(target_in.shape[1]) & padding_mask(target_in, pad)[:, 0]
    cross = np.broadcast_to(padding_mask(source, pad)[:, 0], (*target_in.shape, source.shape[1]))
    return 1.0 * own, 1.0 * cross


DECODER_MASKS = Exercise(
    decoder_masks,
    asks="Both masks of a decoder in the right shape, and who may look at padding.",
    outputs="own cross",
    inputs={"target_in": TARGET_IN, "source": SOURCE, "pad": number(PAD)},
    special={"padding before the words": {"target_in": TARGET_IN.then(padded_before)}},
    shipped=shipped_masks,
    stories="""
    - Each place is hidden from itself. The decoder may read the word at its own place: after the shift it is
      the last one written.
          t[:, None] >= t → t[:, None] > t
    - The mask is turned round: a place sees what comes later, and not what came before.
          t[:, None] >= t → t[:, None] <= t
    - The padding of the target is not hidden. Later places of a short row would read it.
          causal & (target_in != pad)[:, None, :] → causal & (target_in == target_in)[:, None, :]
    - The mask of the decoder's own words is not causal: a place sees the words that it is asked for.
          causal = t[:, None] >= t → causal = t[:, None] > -1
    - Padding is hidden as a query too. A place without a word has a row as well: what it computes does not
      count, and the row must not be empty. Hide keys, not queries.
          own = causal & (target_in != pad)[:, None, :] → own = causal & both_words(target_in, pad)
    - Padding is hidden as a query and not as a key. The last axis says what is looked at.
          (target_in != pad)[:, None, :] → (target_in != pad)[:, :, None]
    - A place without a word looks at the source too. What it computes does not count, and its row would be
      empty: hide keys, not queries.
          cross = everywhere & → cross = (target_in != pad)[:, :, None] &
    - One condition is enough here, and both are needed: a place sees what is before it *and* a word.
          own = causal & → own = causal |
    - The padding of the source is not hidden.
          (source != pad)[:, None, :] → (source == source)[:, None, :]
    - Both masks are turned round: True means that a query may look.
          return own, cross → return ~own, ~cross
    - True where there is padding: it should be True where a query may look.
          source != pad → source == pad
    - Cross-attention is masked causally. The whole source is known before the first word is written.
          everywhere = np.full((len(t), 1), True) → everywhere = t[:, None] >= np.arange(source.shape[1])
    """,
    hints="""
    - own[b, t, s] is True if s ≤ t and target_in[b, s] is a word. cross[b, t, s] is True if source[b, s] is a
      word, whatever t is.
    - `t[:, None] >= t` is a (T, T) array for t = np.arange(T). The padding of the keys, as (B, 1, T), is
      broadcast to it.
    - For cross the axis of the queries has to be made: `np.repeat` along axis 1, or & with ones of (T, 1).
    """,
)


# 3 ----------------------------------------------------------------------------------------------------------


def frequencies(rng, shape):
    """Positive numbers that add up to 1."""
    u = rng.uniform(0.2, 2, shape)
    return u / u.sum()


def unigram_floor(targets, u, alpha):
    one_hot = 1.0 * (targets[:, None] == np.arange(len(u)))
    q = (1 - alpha) * one_hot + alpha * u
    H = -(q * np.log(q)).sum(axis=-1)
    return H.mean()


def among_the_others(one_hot, u):
    """Shares of the wrong words only, as frequent as they are: (B, V)."""
    others = np.where(one_hot == 1, 0, u)
    return others / others.sum(axis=-1, keepdims=True)


def floor_by_parts(targets, u, alpha):
    right = 1 - alpha + alpha * u[targets]
    other = alpha * u[targets]
    all_words = -(alpha * u * np.log(alpha * u)).sum()
    H = all_words - right * np.log(right) + other * np.log(other)
    return H.mean()


UNIGRAM_FLOOR = Exercise(
    unigram_floor,
    asks="The lowest loss that any model can reach when targets are soft and unequal.",
    outputs="floor",
    inputs={
        "targets": Draw("B V", lambda rng, shape: rng.integers(shape[1], size=shape[0])),
        "u": Draw("V", frequencies),
        "alpha": Draw("", lambda rng, shape: rng.uniform(0.05, 0.6)),
    },
    ways=(floor_by_parts,),
    stories="""
    - This is the floor of the chapter, where α is shared equally. Here word v gets the share α u_v.
          alpha * u → alpha / len(u)
    - The right word has lost its part of α: it keeps 1 - α, and gets α u_v besides, like every word.
          q = (1 - alpha) * one_hot + alpha * u → q = np.where(one_hot == 1, 1 - alpha, alpha * u)
    - The shares do not add up to 1: the right word has 1, and α is given away besides.
          (1 - alpha) * one_hot → one_hot
    - This is a sum over the targets. The loss is their mean.
          H.mean() → H.sum()
    - A sign is missing: an entropy is not negative.
          -(q * np.log(q)) → (q * np.log(q))
    - This is the entropy of u, without any target in it.
          q = (1 - alpha) * one_hot + alpha * u → q = u + 0 * one_hot
    - This is the entropy of u, weighted by α. The right word keeps 1 - α, and an entropy of a mixture is that
      of its probabilities, not a mixture of entropies.
          H = -(q * np.log(q)).sum(axis=-1) → H = -alpha * (u * np.log(u)).sum() + 0 * one_hot
    - This is the entropy of the mean target. Each target has a floor of its own; average these.
          q = (1 - alpha) * one_hot + alpha * u → q = ((1 - alpha) * one_hot + alpha * u).mean(axis=0)
    - α is shared among the wrong words only. Every word v gets α u_v, the right one too.
          alpha * u → alpha * among_the_others(one_hot, u)
    - In bits. The loss is in nats: take the natural logarithm.
          np.log(q) → np.log2(q)
    - The model would have to be u itself for this loss. The floor is reached by the model that says q.
          np.log(q) → np.log(u)
    - Only the right word is counted. The other words have shares as well, and they add -q ln q each.
          -(q * np.log(q)).sum → -(one_hot * q * np.log(q)).sum
    - α and 1 - α have changed places.
          (1 - alpha) * one_hot + alpha * u → alpha * one_hot + (1 - alpha) * u
    """,
    hints="""
    - The floor of one target is the entropy of its q. What is q?
    - q_v = (1 - α) [v = y] + α u_v: the target's own row of an array (B, V).
    - Take -Σ q ln q along the words, then the mean over the targets.
    """,
)


# 4 ----------------------------------------------------------------------------------------------------------


def greedy_words(z, eos, pad):
    words = z.argmax(axis=-1)
    ended = words == eos
    before = np.cumsum(ended, axis=1) - ended
    tokens = np.where(before > 0, pad, words)
    low = z - z.max(axis=-1, keepdims=True)
    log_p = low - np.log(np.exp(low).sum(axis=-1, keepdims=True))
    best = log_p.max(axis=-1)
    score = np.where(before > 0, 0.0, best).sum(axis=1)
    return tokens, score


def logits(rng, shape):
    """Logits that choose EOS now and then, and hardly ever padding."""
    z = rng.normal(0, 1.5, shape)
    z[..., EOS] += 1.2
    z[..., PAD] -= 2.0
    return z


def shipped_search(z, eos, pad):
    def next_logits(prefixes, rows):
        return z[rows, prefixes.shape[1] - 1]

    tokens = greedy(next_logits, len(z), 1, eos, z.shape[1], pad)
    log_p = z - z.max(axis=-1, keepdims=True)
    log_p = log_p - np.log(np.exp(log_p).sum(axis=-1, keepdims=True))
    ended = np.cumsum(tokens == eos, axis=1) - (tokens == eos)
    return 1.0 * tokens, np.where(ended == 0, log_p.max(axis=-1), 0.0).sum(axis=1)


Z = Draw("B T V", logits)
LARGE = "logits of many thousands"
GREEDY_WORDS = Exercise(
    greedy_words,
    asks="Where a decoded sentence ends, and the log probability of just what was said.",
    outputs="tokens score",
    inputs={"z": Z, "eos": number(EOS), "pad": number(PAD)},
    shipped=shipped_search,
    special={LARGE: {"z": Z.then(lambda z: 5000 + z)}},
    only={LARGE: "There exp overflows, unless the largest logit of each place is taken away first."},
    stories="""
    - The <eos> itself has become padding. It is a word of the sentence, the last one.
          tokens = np.where(before > 0, pad, words) → tokens = np.where(before + ended > 0, pad, words)
    - What comes after <eos> still stands there. The sentence is over: write padding.
          tokens = np.where(before > 0, pad, words) → tokens = words
    - Nothing ends here: behind the <eos> there are words, and the score counts them.
          tokens = np.where(before > 0, pad, words) → tokens = words
          score = np.where(before > 0, 0.0, best).sum(axis=1) → score = best.sum(axis=1)
    - An <eos> that comes after the first one still stands there. All that follows the first is padding.
          np.where(before > 0, pad, words) → np.where((before > 0) & ~ended, pad, words)
    - Every <eos> has become padding, and nothing else. It is the last word of the sentence; what comes behind
      it is padding.
          np.where(before > 0, pad, words) → np.where(ended, pad, words)
    - Behind the <eos> there are more of them. A sentence ends once: write padding.
          np.where(before > 0, pad, words) → np.where(before > 0, eos, words)
    - The score counts places after the <eos>. The sentence is over there, and nothing is said.
          score = np.where(before > 0, 0.0, best).sum(axis=1) → score = best.sum(axis=1)
    - The score leaves out the <eos>. Its probability belongs to the sentence: to stop here is a choice too.
          score = np.where(before > 0, 0.0, best) → score = np.where(before + ended > 0, 0.0, best)
    - These are logits, not log probabilities: take the log of the sum of their exponentials away.
          best = log_p.max(axis=-1) → best = z.max(axis=-1)
    - These are probabilities, added. The probability of a sentence is their product: add their logarithms.
          best = log_p.max(axis=-1) → best = np.exp(log_p.max(axis=-1))
    - This is a mean over the words. The log probability of the sentence is their sum.
          .sum(axis=1) → .sum(axis=1) / (before == 0).sum(axis=1)
    - This is the probability of the sentence; its logarithm was asked for.
          return tokens, score → return tokens, np.exp(score)
    - The words are chosen along the wrong axis: at each place compare the V words.
          words = z.argmax(axis=-1) → words = z.argmax(axis=1)
    """,
    hints="""
    - The words are `z.argmax(axis=-1)`. Which of them come after an <eos>?
    - `np.cumsum(words == eos, axis=1)` counts the <eos> so far, this place included. Take this place away.
    - The score adds the log-softmax of each word that was said, the <eos> included, and 0 elsewhere.
    """,
)


# 5 ----------------------------------------------------------------------------------------------------------


def positive(letters):
    return Draw(letters, lambda rng, shape: rng.uniform(0.1, 1, shape))


def targets_with_padding(rng, shape):
    targets = rng.integers(1, shape[1], size=shape[0])
    targets[2:] = PAD
    return targets


def repaired_step(E, x, targets, m, v, step):
    z = x @ E.T
    e = np.exp(z - z.max(axis=1, keepdims=True))
    p = e / e.sum(axis=1, keepdims=True)
    q = 1.0 * (targets[:, None] == np.arange(len(E)))
    counted = 1.0 * (targets != 0)
    dz = counted[:, None] * (p - q) / counted.sum()
    dE = dz.T @ x
    m = 0.9 * m + 0.1 * dE
    v = 0.98 * v + 0.02 * dE**2
    m_hat = m / (1 - 0.9**step)
    v_hat = v / (1 - 0.98**step)
    E = E - 0.01 * m_hat / np.sqrt(v_hat)
    return E, m, v


TABLE = normal("V D")
REPAIRED_STEP = Exercise(
    repaired_step,
    asks="Reading a training step critically: two faults that a falling loss does not show.",
    outputs="E m v",
    inputs={
        "E": TABLE,
        "x": normal("B D"),
        "targets": Draw("B V", targets_with_padding),
        "m": TABLE.then(lambda m: 0.1 * m),
        "v": positive("V D"),
        "step": number(3),
    },
    stories="""
    - Nothing is repaired yet: this is the step as it was given.
          counted.sum() → len(targets)
          m_hat = m / (1 - 0.9**step) → m = m / (1 - 0.9**step); m_hat = m
          v_hat = v / (1 - 0.98**step) → v = v / (1 - 0.98**step); v_hat = v
    - One fault is left: the mean divides by all places, and padding is no target. With Adam
      that hardly shows in the loss.
          counted.sum() → len(targets)
    - One fault is left: what is handed on as m and v has been corrected already, and the next step would
      correct it once more.
          m_hat = m / (1 - 0.9**step) → m = m / (1 - 0.9**step); m_hat = m
          v_hat = v / (1 - 0.98**step) → v = v / (1 - 0.98**step); v_hat = v
    - m is handed on right, and v still corrected.
          v_hat = v / (1 - 0.98**step) → v = v / (1 - 0.98**step); v_hat = v
    - v is handed on right, and m still corrected.
          m_hat = m / (1 - 0.9**step) → m = m / (1 - 0.9**step); m_hat = m
    - The moments are not corrected at all now. They begin at 0 and are too small in the first steps: divide
      by 1 - 0.9**step and 1 - 0.98**step, in names of their own.
          m / (1 - 0.9**step) → m
          v / (1 - 0.98**step) → v
    - Padding is counted: its rows send gradients as well.
          counted[:, None] * (p - q) → (p - q)
    - Padding is counted, in the gradient and in the mean.
          counted[:, None] * (p - q) / counted.sum() → (p - q) / len(targets)
    - The correction of the moments is that of the next update. The first update has the step 1.
          0.9**step → 0.9 ** (step + 1)
          0.98**step → 0.98 ** (step + 1)
    - The correction of the moments is that of the update before. The first update has the step 1.
          0.9**step → 0.9 ** (step - 1)
          0.98**step → 0.98 ** (step - 1)
    - The gradient is summed over the targets and not averaged.
          / counted.sum() →
    - v is corrected behind the root. Divide v by 1 - 0.98**step, and take the root of that.
          v_hat = v / (1 - 0.98**step) → v_hat = v / (1 - 0.98**step) ** 2
    - The root of v̂ is missing.
          np.sqrt(v_hat) → v_hat
    """,
    hints="""
    - There are two faults. One is in the line of dz, one in what the function returns.
    - The loss is a mean over targets that are not padding. How many are they?
    - Adam keeps its moments uncorrected, and corrects them for use only. Give what is corrected a name of its
      own.
    """,
)
