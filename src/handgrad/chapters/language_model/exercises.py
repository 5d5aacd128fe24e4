"""Exercises of chapter 17, none of which it shows: answers, stories and hints."""

import numpy as np

from ...course.judge.draws import Draw, normal, number
from ...course.judge.function import Exercise


def some(rng, shape):
    """True and False, True in each row, both of them where there are two or more."""
    on = rng.random(shape) < 0.6
    on[..., -1] = True
    if on.shape[-1] > 1:
        on[..., 0] = False
    return on


def characters(rng, shape):
    """Characters of which one occurs twice where there are two places; below 3, the smallest vocabulary."""
    drawn = rng.integers(0, 3, shape)
    drawn[..., -1] = drawn[..., 0]
    return drawn


# 1 ----------------------------------------------------------------------------------------------------------


def bits_per_byte(nats, length, real):
    lost = np.where(real, nats, 0).sum()
    size = np.where(real, length, 0).sum()
    return lost / (np.log(2) * size)


BITS_PER_BYTE = Exercise(
    bits_per_byte,
    asks="A fair mean over tokens of different length, in the right unit and without padding.",
    outputs="bits",
    inputs={
        "nats": Draw("B T", lambda rng, shape: rng.exponential(2, shape)),
        "length": Draw("B T", lambda rng, shape: rng.integers(1, 9, shape)),
        "real": Draw("B T", some),
    },
    stories="""
    - This is the cost in nats of a byte. A bit is ln 2 nats: divide by ln 2.
          np.log(2) * size → size
    - Multiplied by ln 2. A cost is a larger number in bits than in nats: divide.
          lost / (np.log(2) * size) → lost * np.log(2) / size
    - This is the cost in bits of a token. Divide the whole cost by the number of bytes, not of tokens.
          np.where(real, length, 0).sum() → real.sum()
    - This is the cost in nats of a token: it is to be in bits, and for each byte.
          lost / (np.log(2) * size) → lost / real.sum()
    - Padding counts here, in the cost and in the bytes.
          np.where(real, nats, 0).sum() → nats.sum()
          np.where(real, length, 0).sum() → length.sum()
    - The cost of padding is counted. It is no part of the text.
          np.where(real, nats, 0).sum() → nats.sum()
    - The bytes of padding are counted. It is no part of the text.
          np.where(real, length, 0).sum() → length.sum()
    - A mean of the bits per byte of each token. A token of one byte weighs as much here as one of eight: add
      up the costs and the bytes first.
          lost / (np.log(2) * size) → (nats / length)[real].mean() / np.log(2)
    - A mean of the bits per byte of each row. Rows differ in length: add up all costs and all bytes first.
          lost / (np.log(2) * size) → (np.where(real, nats, 0).sum(axis=1) / np.where(real, length, 0).sum(axis=1)).mean() / np.log(2)
    - Bits per token divided by the mean length of all tokens, padding among them.
          np.where(real, length, 0).sum() → real.sum() * length.mean()
    - The mean cost of a token over the number of all bytes. Divide a sum by a sum.
          np.where(real, nats, 0).sum() → nats[real].mean()
    - A byte has eight bits, but that is not asked: bits of cost for each byte of text.
          np.log(2) * size → 8 * np.log(2) * size
    - The cost of each token is multiplied by its length. It is the cost of the whole token already.
          np.where(real, nats, 0).sum() → np.where(real, nats * length, 0).sum()
    - Bytes for each bit, where bits for each byte are asked.
          lost / (np.log(2) * size) → np.log(2) * size / lost
    - The whole cost in bits. Divide it by the number of bytes.
          np.log(2) * size → np.log(2)
    - This is the perplexity of a byte, 2 to the power of what is asked.
          return lost / (np.log(2) * size) → return np.exp(lost / size)
    """,  # noqa: E501
    hints="""
    - Which two sums do not change if the same text is cut into other tokens?
    - The cost of the whole text in nats, and its number of bytes. A bit is ln 2 nats.
    """,
)


# 2 ----------------------------------------------------------------------------------------------------------


def unlikelihood_dz(z, unwanted):
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    p = e / e.sum(axis=-1, keepdims=True)
    hit = np.arange(z.shape[-1]) == unwanted[..., None]
    p_c = (p * hit).sum(axis=-1, keepdims=True)
    others = np.where(hit, -np.inf, z)
    o = np.exp(others - others.max(axis=-1, keepdims=True))
    q = o / o.sum(axis=-1, keepdims=True)  # p_v / (1 - p_c), also where 1 - p_c rounds to 0
    dz = p_c * (hit - q)
    return dz / unwanted.size


PRINTED = "dz = p_c * (hit - q) → dz = p_c / (1 - p_c) * (hit - p)"
"""The formula as it is derived: right, but not where p_c rounds to 1."""
WITHOUT_QUOTIENT = """
    - This is the gradient of the ordinary cost, which pulls the unwanted character up. Here it is to
      be pushed down.
          dz = p_c * (hit - q) → dz = p - hit
    - The ordinary gradient with its sign turned. The cost is -ln(1 - p), not +ln p: it is gentle where p is
      small.
          dz = p_c * (hit - q) → dz = hit - p
    - An ordinary cross-entropy with equal targets for all others. The others are not asked to be equal: what
      is pushed down is the unwanted one alone.
          dz = p_c * (hit - q) → dz = p - (1 - hit) / (z.shape[-1] - 1)
    - The factor 1/(1 - p) is missing, which the logarithm brings.
          dz = p_c * (hit - q) → dz = p_c * (hit - p)
"""
WITH_QUOTIENT = """
    - The factor p of the unwanted character is missing: the derivative of p_c by z_v is p_c ([v = c] - p_v).
          p_c / (1 - p_c) → 1 / (1 - p_c)
    - p_c rounds to 1 where the unwanted character is nearly certain, and 1 - p_c has lost its digits there.
          (hit - p) → (hit - p)
    - The exponentials overflow: subtract the largest logit of a place. And where p_c rounds to 1, 1 - p_c has
      lost its digits.
          np.exp(z - z.max(axis=-1, keepdims=True)) → np.exp(z)
    - The sign is wrong: the cost gets worse where the logit of the unwanted character rises.
          (hit - p) → (p - hit)
    - Only the unwanted character gets a gradient. The softmax shares its denominator with all.
          (hit - p) → hit * (hit - p)
    - The unwanted character itself is left out.
          (hit - p) → (0 * hit - p)
    - Divided by nothing: the loss is a mean over all places.
          dz / unwanted.size → dz
    - Divided by the number of places of one sequence. The mean is over all sequences.
          dz / unwanted.size → dz / unwanted.shape[1]
    - Divided by the number of sequences. The mean is over all places.
          dz / unwanted.size → dz / len(unwanted)
    - Divided by the number of logits. The mean is over the places.
          dz / unwanted.size → dz / z.size
    - The softmax runs over the places. It runs over the characters, the last axis.
          e / e.sum(axis=-1, keepdims=True) → e / e.sum(axis=1, keepdims=True)
    - This is the gradient by the probability. The softmax is still to be passed.
          dz = p_c / (1 - p_c) * (hit - p) → dz = hit / (1 - p_c)
    - The loss itself, where its gradient is asked.
          return dz / unwanted.size → return -np.log(1 - p_c).mean()
    - 1 - p_v stands for every logit. The 1 belongs to the unwanted character alone, the others get -p_v.
          (hit - p) → (1 - p)
    - Each logit has its own p_v / (1 - p_v) in front. That of the unwanted one stands before all.
          p_c / (1 - p_c) * (hit - p) → p / (1 - p) * (hit - p)
    - 1 - p_v of each character stands in the denominator. It is that of the unwanted one.
          p_c / (1 - p_c) * (hit - p) → p_c / (1 - p) * (hit - p)
    - p_v of each character stands in front. It is that of the unwanted one, for all logits of the place.
          p_c / (1 - p_c) * (hit - p) → p / (1 - p_c) * (hit - p)
"""
STABLE = """
    - The sign is wrong. The cost gets worse where the logit of the unwanted character rises.
          (hit - q) → (q - hit)
    - Only the unwanted character gets a gradient. The denominator of the softmax is shared by all.
          (hit - q) → hit * (hit - q)
    - The loss is a mean over all places: you divide by nothing.
          dz / unwanted.size → dz
    - You divide by the number of places of one sequence. The mean is over all sequences.
          dz / unwanted.size → dz / unwanted.shape[1]
    - You divide by the number of sequences. The mean is over all places.
          dz / unwanted.size → dz / len(unwanted)
    - The factor p_c in front is missing: what is unlikely already is hardly pushed.
          dz = p_c * (hit - q) → dz = hit - q
"""


def with_quotient(stories):
    """The stories, told of the formula as it is derived: their changes after `PRINTED`."""
    lines = []
    for before, line in zip(["", *stories.splitlines()], stories.splitlines()):
        lines += [PRINTED] * ("→" in line and "→" not in before) + [line]
    return "\n".join(lines)


def large_at_first(z):
    """Logits of which those in the first place of each row are some thousands."""
    return z + 3000 * (np.arange(z.shape[1]) == 0)[:, None]


def near_certain(rng, shape):
    """Logits, and in the first place of each row the first character nearly certain."""
    z = rng.normal(size=shape)
    z[:, 0, 0] += 40
    return z


def first_at_first(rng, shape):
    """Characters, the first of them in the first place of each row."""
    drawn = characters(rng, shape)
    drawn[:, 0] = 0
    return drawn


UNLIKELIHOOD_DZ = Exercise(
    unlikelihood_dz,
    asks="A new loss on softmax, written so that it survives a probability that rounds to 1.",
    outputs="dz",
    inputs={"z": normal("B S V"), "unwanted": Draw("B S", characters)},
    special={
        "logits of some thousands": {"z": normal("B S V").then(large_at_first)},
        "an unwanted character that is nearly certain": {
            "z": Draw("B S V", near_certain),
            "unwanted": Draw("B S", first_at_first),
        },
    },
    only={
        "logits of some thousands": "The exponentials overflow: subtract the largest logit of a place.",
        "an unwanted character that is nearly certain": "p_c rounds to 1 there, and 1 - p_c has lost "
        "its digits. What is p_v / (1 - p_c) for the others? A softmax without c.",
    },
    stories=WITHOUT_QUOTIENT + with_quotient(WITH_QUOTIENT) + STABLE,
    hints="""
    - Two links: the derivative of -ln(1 - p_c) by p_c, and that of p_c by each logit.
    - The first is 1/(1 - p_c). The second is p_c ([v = c] - p_v).
    - Where p_c rounds to 1, multiply out first: the quotients that stay are a softmax over the others.
    """,
)


# 3 ----------------------------------------------------------------------------------------------------------


def min_p_dz(z, targets, share):
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    kept = e >= share
    size = (kept * e).sum(axis=-1, keepdims=True)
    p = kept * e / np.maximum(size, 1e-300)
    hit = np.arange(z.shape[-1]) == targets[..., None]
    counts = (kept & hit).any(axis=-1, keepdims=True)
    dz = counts * (p - hit)
    return dz / max(counts.sum(), 1)


def spread(rng, shape):
    """Logits of which some are far below the largest. In the first place of each row all are kept."""
    z = rng.normal(0, 2, shape)
    z[:, 0] = 0.1 * z[:, 0]
    return z


MIN_P_DZ = Exercise(
    min_p_dz,
    asks="Cross-entropy among what was kept, and a mean over the places that count, perhaps none.",
    outputs="dz",
    inputs={"z": Draw("B S V", spread), "targets": Draw("B S", characters), "share": number(0.1)},
    special={
        "logits of some thousands": {"z": Draw("B S V", spread).then(lambda z: z + 3000)},
        "no place counts": {
            "z": Draw("B S V", spread).then(lambda z: z + 30 * (np.arange(z.shape[-1]) == 0)),
            "targets": Draw("B S", lambda rng, shape: rng.integers(1, 3, shape)),
        },
    },
    only={
        "logits of some thousands": "The exponentials overflow: subtract the largest logit of a place.",
        "no place counts": "Where the right character was cut everywhere, the gradient is 0, not 0 / 0.",
    },
    stories="""
    - Nothing is cut: this is the gradient of the ordinary cost.
          kept = e >= share → kept = e >= 0
    - A character is kept if its probability is at least the share. It is to be compared with the largest
      probability of its place.
          kept = e >= share → kept = e / e.sum(axis=-1, keepdims=True) >= share
    - A character is kept if its *logit* is at least the share of the largest logit. The rule is about
      probabilities.
          kept = e >= share → kept = z >= share * z.max(axis=-1, keepdims=True)
    - What is kept is not divided by its own sum: the probabilities of a place must add up to 1 again.
          size = (kept * e).sum( → size = e.sum(
    - Places where the right character was cut get a gradient. Their cost is infinite, and they do not count.
          dz = counts * (p - hit) → dz = p - hit
    - Places where the right character was cut get a gradient and are counted. They are to do neither.
          dz = counts * (p - hit) → dz = p - hit
          max(counts.sum(), 1) → counts.size
    - What is cut has a logit of 0, which is a logit like any other. It must be -∞.
          p = kept * e / np.maximum(size, 1e-300) → p = np.exp(kept * z - (kept * z).max(axis=-1, keepdims=True)); p = kept * p / p.sum(axis=-1, keepdims=True)
    - What is cut has a logit of 0 and stays in the sum of the softmax. It must be -∞.
          p = kept * e / np.maximum(size, 1e-300) → p = np.exp(kept * z - (kept * z).max(axis=-1, keepdims=True)); p = p / p.sum(axis=-1, keepdims=True)
    - Places where the right character was cut are counted in the mean.
          max(counts.sum(), 1) → counts.size
    - The mean is taken over one sequence.
          max(counts.sum(), 1) → max(counts.sum() / len(z), 1)
    - Divided by nothing: the loss is a mean over the places that count.
          dz / max(counts.sum(), 1) → dz
    - The sign is wrong: the loss gets worse where p is above what is asked.
          (p - hit) → (hit - p)
    - What was cut is kept, and the other way round.
          kept = e >= share → kept = e < share
    - The largest probability is taken over all places. Each place has its own.
          kept = e >= share → kept = e / e.sum(axis=-1, keepdims=True) >= share * (e / e.sum(axis=-1, keepdims=True)).max()
    - The largest logit is taken over all places. Each place has its own.
          e = np.exp(z - z.max(axis=-1, keepdims=True)) → e = np.exp(z - z.max())
    - The cost itself, where its gradient is asked.
          return dz / max(counts.sum(), 1) → return -np.log(np.where(counts[..., 0], (p * hit).sum(axis=-1), 1)).sum() / max(counts.sum(), 1)
    - Cut characters get a gradient, that of the ordinary softmax. What was cut has no way to the cost.
          p = kept * e / → p = e /
    """,  # noqa: E501
    hints="""
    - First which are kept: compare each probability of a place with the largest one. The denominator of the
      softmax is the same on both sides.
    - Then an ordinary softmax over what is kept, and p - y.
    - A place whose right character was cut does not count: its row is 0, and m is smaller.
    """,
)


# 4 ----------------------------------------------------------------------------------------------------------


def fading_memory_gradient(E, w, y, alpha):
    place, V = np.arange(w.shape[1]), np.arange(len(E))
    gap = place[:, None] - place
    a = np.where(gap >= 0, alpha ** np.abs(gap), 0)  # (T, T), α^(t−s) for s ≤ t
    x = E[w]  # (B, T, D)
    h = a @ x
    z = h @ E.T
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    p = e / e.sum(axis=-1, keepdims=True)
    dz = (p - (V == y[..., None])) / w.size
    dh = dz @ E
    dx = a.T @ dh
    read = np.einsum("btv,btd->vd", 1.0 * (V == w[..., None]), dx)
    asked = np.einsum("btv,btd->vd", dz, h)
    return read + asked


FADING_MEMORY_GRADIENT = Exercise(
    fading_memory_gradient,
    asks="Backward through a recurrence in time, with one table at both ends.",
    outputs="dE",
    inputs={
        "E": normal("V D"),
        "w": Draw("B T", characters),
        "y": Draw("B T", lambda rng, shape: rng.integers(0, 3, shape)),
        "alpha": number(0.6),
    },
    special={
        "alpha is 0": {"alpha": number(0.0)},
        "alpha is 1": {"alpha": number(1.0)},
        "logits of some thousands": {"E": normal("V D").then(lambda E: 40 * E)},
    },
    only={
        "alpha is 0": "Without memory a row is seen at its own place alone. Do not divide by powers of α.",
        "alpha is 1": "Nothing fades: every later place sees the row as the first did.",
        "logits of some thousands": "The exponentials overflow: subtract the largest logit of a place.",
    },
    stories="""
    - The head's part is missing: the table is used twice, and every character is asked for at every place.
          return read + asked → return read
    - The rows that were read are missing: the table is used twice, and the memory is made of its rows.
          return read + asked → return asked
    - Each row hears from its own place only. It stays in the memory, and later places see it through α.
          dx = a.T @ dh → dx = dh
    - Each row hears from its own place and the next. It stays in the memory for all that follow.
          dx = a.T @ dh → dx = np.where(np.abs(gap) > 1, 0, a).T @ dh
    - Each row hears from earlier places. A row is seen by its own place and all later ones: run backward.
          dx = a.T @ dh → dx = a @ dh
    - Later places answer in full, but what they saw of the row had faded: α^(t - s).
          dx = a.T @ dh → dx = 1.0 * (gap >= 0).T @ dh
    - All places answer to each row, earlier ones too.
          dx = a.T @ dh → dx = (alpha ** np.abs(gap)) @ dh
    - The row's own place is left out: it reads the row before it is asked.
          dx = a.T @ dh → dx = (a * (gap > 0)).T @ dh
    - α stands once too often behind the last place: a row enters the memory with the factor 1.
          dx = a.T @ dh → dx = alpha * a.T @ dh
    - A character that is read twice keeps one gradient only. An assignment to `dE[w]` overwrites: add them
      all up, with `np.add.at`.
          read = np.einsum("btv,btd->vd", 1.0 * (V == w[..., None]), dx) → read = np.zeros_like(E); read[w] = dx
    - Both parts are assigned to `dE[w]`, and a character that is read twice keeps the last.
          return read + asked → asked[w] = dx; return asked
    - The rows read are added up at the characters that were asked for. They belong to those that were read.
          read = np.einsum("btv,btd->vd", 1.0 * (V == w[..., None]), dx) → read = np.einsum("btv,btd->vd", 1.0 * (V == y[..., None]), dx)
    - The head's part takes the row that is read. What enters the head is the memory.
          asked = np.einsum("btv,btd->vd", dz, h) → asked = np.einsum("btv,btd->vd", dz, x)
    - The head's part reaches the right characters only. Each logit has its row: all V get a share.
          asked = np.einsum("btv,btd->vd", dz, h) → asked = np.einsum("btv,btd->vd", dz * (V == y[..., None]), h)
    - The weights are divided by their sum. This memory is no mean.
          a = np.where(gap >= 0, alpha ** np.abs(gap), 0) → a = np.where(gap >= 0, alpha ** np.abs(gap), 0); a = a / a.sum(axis=1, keepdims=True)
    - The memory fades before a row is read into it: the newest row counts in full.
          a = np.where(gap >= 0, alpha ** np.abs(gap), 0) → a = np.where(gap >= 0, alpha ** (np.abs(gap) + 1.0), 0)
    - The memory keeps (1 - α) of the new row. Here it takes all of it.
          a = np.where(gap >= 0, alpha ** np.abs(gap), 0) → a = np.where(gap >= 0, alpha ** np.abs(gap), 0) * (1 - alpha)
    - The memory has seen what comes later.
          a = np.where(gap >= 0, alpha ** np.abs(gap), 0) → a = alpha ** np.abs(gap)
    - The memory holds two rows only. It fades, but nothing leaves it.
          a = np.where(gap >= 0, alpha ** np.abs(gap), 0) → a = np.where((gap >= 0) & (gap < 2), alpha ** np.abs(gap), 0)
    - The sign is wrong: dz is p less what is asked.
          return read + asked → return -(read + asked)
    - Divided by nothing: the loss is a mean over all places.
          / w.size → / 1
    - Divided by the number of places of one sequence. The mean is over all sequences.
          / w.size → / w.shape[1]
    - Divided by the number of sequences. The mean is over all places.
          / w.size → / len(w)
    - Divided by the number of logits. The mean is over the places.
          / w.size → / z.size
    - The head sends the sum of the rows that are expected, without those that are right.
          dz = (p - (V == y[..., None])) / w.size → dz = p / w.size
    - The model is asked for what it reads.
          dz = (p - (V == y[..., None])) / w.size → dz = (p - (V == w[..., None])) / w.size
    - The head sends the sum of the rows that are expected to the memory, without those that are right.
          dh = dz @ E → dh = p @ E / w.size
    - Each row hears from its own place only, and of a character that is read twice one gradient is kept.
          dx = a.T @ dh → dx = dh
          read = np.einsum("btv,btd->vd", 1.0 * (V == w[..., None]), dx) → read = np.zeros_like(E); read[w] = dx
    - The row of place 0 hears from its own place only. The loop that runs backward ends one place early.
          dx = a.T @ dh → dx = np.where(place[:, None] > 0, a.T @ dh, dh)
    - The memory runs on from one sequence to the next. Each begins with zeros.
          h = a @ x → flat = np.arange(w.size); h = (np.where(flat[:, None] >= flat, alpha ** np.abs(flat[:, None] - flat), 0) @ x.reshape(w.size, -1)).reshape(x.shape)
    - The forward keeps (1 - α) of the new row, where it takes all of it.
          h = a @ x → h = (1 - alpha) * a @ x
    - The gradient by the rows as they are read, place by place. They are rows of the table: add them up there.
          return read + asked → return dx
    - The loss itself, where its gradient is asked.
          return read + asked → return -np.log((p * (V == y[..., None])).sum(axis=-1)).mean()
    """,  # noqa: E501
    hints="""
    - Two uses of one table: rows that are read, and rows that the head multiplies. Differentiate by each as
      if the other were another table, and add.
    - Which costs contain the row that is read at place s, and with which factor? h_t holds α^(t - s) of it.
    - Or run backward: what place s passes on is its own dh, and α times what place s + 1 passed on.
    """,
)


# 5 ----------------------------------------------------------------------------------------------------------


def ring_step(q, k_new, v_new, k_ring, v_ring, t):
    S = k_ring.shape[2]
    slot = t % S
    at = (np.arange(S) == slot)[:, None]
    k = np.where(at, k_new[:, :, None], k_ring)
    v = np.where(at, v_new[:, :, None], v_ring)
    s = (k @ q[..., None])[..., 0] / np.sqrt(q.shape[-1])
    s = np.where(np.arange(S) <= t, s, -np.inf)
    e = np.exp(s - s.max(axis=-1, keepdims=True))
    a = e / e.sum(axis=-1, keepdims=True)
    y = (a[..., None] * v).sum(axis=2)
    return y, k, v


RING_STEP = Exercise(
    ring_step,
    asks="Addresses that wrap around, slots that are still empty, and arguments left as they are.",
    outputs="y k v",
    inputs={
        "q": normal("B H K"),
        "k_new": normal("B H K"),
        "v_new": normal("B H E"),
        "k_ring": normal("B H S K"),
        "v_ring": normal("B H S E"),
        "t": number(4),
    },
    special={
        "the second character": {"t": number(1)},
        "a ring that is full for the first time": {"t": number(5)},
        "the third time round": {"t": number(14)},
        "scores of some thousands": {"q": normal("B H K").then(lambda q: 4000 * q)},
    },
    only={
        "the second character": "At t = 1 two slots are filled: those of the places 0 and 1.",
        "a ring that is full for the first time": "At t = S - 1 all slots are filled, the new one included.",
        "the third time round": "Beyond the first round every slot is filled, and t may be any number.",
        "scores of some thousands": "The exponentials overflow: subtract the largest score.",
    },
    stories="""
    - Empty slots are seen: before the first round is over, only slots 0 to t hold anything.
          s = np.where(np.arange(S) <= t, s, -np.inf) → s = s
    - The new key may not be seen: slots 0 to t are filled, t included.
          np.arange(S) <= t → np.arange(S) < t
    - Only slots up to that of the new key are seen. After the first round all slots are filled, and those
      behind it hold the oldest.
          np.arange(S) <= t → np.arange(S) <= slot
    - The slot is t + 1 modulo S. The character at place t, counted from 0, goes to slot t modulo S.
          slot = t % S → slot = (t + 1) % S
    - The slot is t - 1 modulo S. The character at place t, counted from 0, goes to slot t modulo S.
          slot = t % S → slot = (t - 1) % S
    - The new key always goes to the last slot.
          slot = t % S → slot = S - 1
    - Beyond the first round the last slot is written again and again; the oldest slot is t modulo S.
          slot = t % S → slot = min(t, S - 1)
    - The scores are not divided by √K.
          / np.sqrt(q.shape[-1]) → / 1
    - The scores are divided by K, not by its root.
          / np.sqrt(q.shape[-1]) → / q.shape[-1]
    - Attention reads the ring as it was before the new character: the new one sees itself too.
          y = (a[..., None] * v) → y = (a[..., None] * v_ring)
          s = (k @ q → s = (k_ring @ q
    - Attention reads the ring before the new character is written, and does not see it. It sees itself too.
          y = (a[..., None] * v) → y = (a[..., None] * v_ring)
          s = (k @ q → s = (k_ring @ q
          np.arange(S) <= t → np.arange(S) < t
    - Attention reads the ring before the new character is written, its empty slots included. Write first,
      and hide what is empty.
          y = (a[..., None] * v) → y = (a[..., None] * v_ring)
          s = (k @ q → s = (k_ring @ q
          s = np.where(np.arange(S) <= t, s, -np.inf) → s = s
    - S + 1 characters are seen once the ring is full: the old ring and the new one. The oldest is to be
      forgotten first.
          y = (a[..., None] * v) → y = (a[..., None] * np.concatenate([v_ring, v_new[:, :, None]], axis=2))
          s = (k @ q → s = (np.concatenate([k_ring, k_new[:, :, None]], axis=2) @ q
          np.arange(S) <= t → np.append(np.arange(S) < t, True)
    - The new value is not yet in the ring when attention reads it.
          y = (a[..., None] * v) → y = (a[..., None] * v_ring)
    - The new key is not yet in the ring when attention reads it.
          s = (k @ q → s = (k_ring @ q
    - Empty slots are hidden by a score of 0, which is a score like any other: -∞ hides.
          s, -np.inf) → s, 0)
    - Empty slots are hidden after the softmax, so that the weights do not add up to 1.
          s = np.where(np.arange(S) <= t, s, -np.inf) → s = s
          a = e / e.sum(axis=-1, keepdims=True) → a = (np.arange(S) <= t) * e / e.sum(axis=-1, keepdims=True)
    - No softmax: the scores themselves weigh the values.
          a = e / e.sum(axis=-1, keepdims=True) → a = np.where(s > -np.inf, s, 0)
    - The exponentials are not divided by their sum.
          a = e / e.sum(axis=-1, keepdims=True) → a = e
    - The ring comes back as it was: the new key and value are to be in it.
          return y, k, v → return y, k_ring, v_ring
    - The new key goes to the end and the oldest is moved out at the front. That holds the same keys; but the
      ring is to be written in one slot, and the others stay.
          k = np.where(at, k_new[:, :, None], k_ring) → k = np.concatenate([k_ring[:, :, 1:], k_new[:, :, None]], axis=2)
          v = np.where(at, v_new[:, :, None], v_ring) → v = np.concatenate([v_ring[:, :, 1:], v_new[:, :, None]], axis=2)
          np.arange(S) <= t → np.arange(S) >= S - 1 - t
    """,  # noqa: E501
    hints="""
    - Where does the new key go? At t = 0 to slot 0, at t = S to slot 0 again.
    - Which slots may be seen? Until the ring is full those from 0 to t, then all. Does their order matter?
    - Write first, then attend, with -∞ for slots that are empty.
    """,
)
