"""From a model to a sentence: greedy search, sampling and beam search.

A search knows nothing of the model but one function, which answers for any beginnings of sentences

    next_logits(prefixes, rows) -> logits           prefixes (R, t), rows (R,), logits (R, V)

where rows says which sentence of the batch each beginning belongs to. `translator` makes this function from
an encoder–decoder, `continuer` from a decoder-only model, and `cached_continuer` the same with less work. A
function for B sentences and no other number says so: it has the attribute B. A token may be impossible, with
a logit of −∞; any other logit is a finite number.

`extend` reads tokens behind those that were read before, whose keys and values it was given.
"""

import numpy as np

from . import model
from .algebra import check_amount, check_array, check_integer, like, namespace, root
from .blocks import normalize, sublayer, transform
from .config import check_params
from .ops import (
    attention,
    embedding,
    linear,
    merge_heads,
    padding_mask,
    repeat_heads,
    rotary,
    rotary_angles,
    sinusoidal,
    split_heads,
)


def translator(params, config, source):
    """Return `next_logits` of an encoder–decoder for source (B, S), and for B sentences. It is encoded once.

    Raises ValueError for another kind of model; TypeError or ValueError if the parameters or the source do
    not fit the model.
    """
    _check_model(params, config, "encoder-decoder")
    check_array("source", source, (None, None))
    model.check_batch(config, {"source": source, "target_in": source})  # any target that fits will do
    memory, _ = model.encode(params, config, source)
    seen = None if config.pad is None else like(padding_mask(source, config.pad), memory)

    def next_logits(prefixes, rows):
        mask = None if seen is None else seen[rows]
        x, _ = model.decode(params, config, prefixes, memory=memory[rows], memory_mask=mask)  # (R, t, D)
        return model.head(x[:, -1:], params, config)[0][:, 0]  # (R, V)

    next_logits.B = len(source)
    return next_logits


def continuer(params, config):
    """Return `next_logits` of a decoder-only model.

    Raises ValueError for another kind of model; TypeError or ValueError if the parameters do not fit it.
    """
    _check_model(params, config, "decoder")

    def next_logits(prefixes, rows):
        x, _ = model.decode(params, config, prefixes)
        return model.head(x[:, -1:], params, config)[0][:, 0]

    return next_logits


def cached_continuer(params, config):
    """Return `next_logits` of a decoder-only model, as `continuer`, that remembers what it read last.

    If each beginning is one of those of the last call and some tokens more, these alone are read.
    Raises as `continuer`.
    """
    _check_model(params, config, "decoder")
    last, past = {}, None  # beginning as bytes -> its row in past

    def next_logits(prefixes, rows):
        nonlocal last, past
        prefixes = np.asarray(prefixes)
        read = length_of(past)
        begun = [last.get(row[:read].tobytes()) for row in prefixes]
        if read == 0 or read >= prefixes.shape[1] or None in begun:
            model.check_batch(config, {"tokens": prefixes})
            read, past = 0, None
        else:
            past = select(past, np.array(begun))
        logits, past = _extend(params, config, prefixes[:, read:], past)
        last = {row.tobytes(): number for number, row in enumerate(prefixes)}
        return logits[:, -1]

    return next_logits


def extend(params, config, tokens, past=None):
    """tokens (B, T), read behind those of `past` -> logits (B, T, V), the past of all of them.

    past: {keys, values, seen}; keys and values hold an array (B, H_kv, S, K) for each block, with the
    positions turned in if they are rotary; seen (B, S) is false at padding, and None without padding. None
    for a past without tokens. The logits are those of `model.forward` on the whole row, up to rounding: no
    position before the new ones could have seen them.

    Raises TypeError or ValueError as `continuer`; if the tokens or the past do not fit, or if there are more
    tokens in all than learned positions.
    """
    _check_model(params, config, "decoder")
    model.check_batch(config, {"tokens": tokens})
    if past is not None:
        _check_past(past, config, len(tokens))
    return _extend(params, config, tokens, past)


def _extend(params, config, tokens, past):
    """`extend` for parameters, tokens and a past that have been checked."""
    T, S = tokens.shape[1], length_of(past)
    if config.positions == "learned" and S + T > config.T_max:
        raise ValueError(
            f"tokens: expected at most T_max - {S} = {config.T_max - S} behind the past, got {T}"
        )
    x = _embed(tokens, params, config, S)  # (B, T, D)
    xp = namespace(x)
    mask, seen = np.tri(T, S + T, k=S, dtype=bool), None  # new position t sees all that is past, and 0..t
    if config.pad is not None:
        seen = np.asarray(tokens) != config.pad
        seen = seen if past is None else np.concatenate([past["seen"], seen], axis=1)  # (B, S + T)
        mask = mask & seen[:, None, None, :]
    mask, angles = like(mask, x), None
    if config.positions == "rotary":
        angles = like(rotary_angles(S + T, config.K, config.rotary_base)[S:], x)  # (T, K/2)
    keys, values = [], []

    def attend(h, n):
        own = params["decoder"][n]["self_attention"]
        q, k, v = (linear(h, own[f"W_{name}"], own.get(f"b_{name}"))[0] for name in "QKV")
        q = split_heads(q, config.H)[0]  # (B, H, T, K)
        k, v = (split_heads(array, config.H_kv or config.H)[0] for array in (k, v))
        if angles is not None:
            q, k = rotary(q, angles)[0], rotary(k, angles)[0]
        if past is not None:
            k, v = xp.concat([past["keys"][n], k], axis=2), xp.concat([past["values"][n], v], axis=2)
        keys.append(k)
        values.append(v)  # (B, H_kv, S + T, K)
        k, v = (repeat_heads(array, q.shape[1] // array.shape[1])[0] for array in (k, v))
        o, _ = attention(q, k, v, mask=mask)
        return linear(merge_heads(o)[0], own["W_O"], own.get("b_O"))[0], None

    def feed_forward(h, n):
        return transform(h, params["decoder"][n]["feed_forward"], config.activation)

    for n, block in enumerate(params["decoder"]):
        for f, name in ((attend, "self_attention_norm"), (feed_forward, "feed_forward_norm")):
            x, _ = sublayer(x, lambda h, f=f, n=n: f(h, n), block[name], config.norm, config.eps)
    if config.final_norm:
        x, _ = normalize(x, params["decoder_norm"], config.eps)
    return model.head(x, params, config)[0], {"keys": keys, "values": values, "seen": seen}


def length_of(past):
    """The number of tokens that a past holds, 0 if it is None."""
    return 0 if past is None else past["keys"][0].shape[2]


def select(past, rows):
    """The past of the sentences `rows` (R,), an array of integers, in this order; one may come twice."""
    seen = None if past["seen"] is None else past["seen"][rows]
    return {name: [array[rows] for array in past[name]] for name in ("keys", "values")} | {"seen": seen}


def most_likely(logits):
    """Return the token of the largest logit in each row (R, V) -> (R,); of equal ones the first.

    Raises FloatingPointError if a logit is not finite.
    """
    largest(logits)
    return np.argmax(logits, axis=-1)


def sampler(rng, temperature=1.0, cut=None):
    """Return a function (R, V) -> (R,) that draws tokens from softmax(logits / temperature).

    cut: a function of the logits, already divided by the temperature, that sets some of them to −∞, such as
    `top_k` or `nucleus` with its second argument; None cuts nothing. The largest of the logits with
    independent Gumbel noise added is such a draw (Gumbel 1954).
    Raises ValueError unless temperature > 0; the function, FloatingPointError if a logit is not finite.
    """
    check_amount("temperature", temperature, positive=True)

    def draw(logits):
        z = (logits - largest(logits)) / temperature
        z = z if cut is None else cut(z)
        return np.argmax(z + rng.gumbel(size=z.shape), axis=-1)

    return draw


def top_k(logits, k):
    """logits (R, V) -> (R, V): the k largest of each row; −∞ for all others. Of equal ones the first stay.

    Fan et al. 2018, section 5.3. Raises TypeError or ValueError unless k is an integer ≥ 1,
    FloatingPointError if a logit is not finite.
    """
    check_integer("k", k, least=1)
    largest(logits)
    order = np.argsort(-logits, axis=-1, kind="stable")  # (R, V), the most likely first
    return _keep(logits, order, np.arange(logits.shape[-1]) < k)


def nucleus(logits, p):
    """logits (R, V) -> (R, V): of each row the fewest tokens whose probabilities add up to p; −∞ elsewhere.

    The most likely come first, of equal ones the first: a token stays if those before it add up to less than
    p. So one always stays. Holtzman et al. 2020, section 3.1.
    Raises ValueError unless 0 < p ≤ 1, FloatingPointError if a logit is not finite.
    """
    check_amount("p", p, positive=True)
    if p > 1:
        raise ValueError(f"p: expected a probability, got {p}")
    order = np.argsort(-logits, axis=-1, kind="stable")
    probabilities = np.exp(log_softmax(np.take_along_axis(logits, order, axis=-1)))
    before = np.cumsum(probabilities, axis=-1) - probabilities  # (R, V)
    return _keep(logits, order, (before < p) | (p == 1))  # rounded, all but the last may add up to 1


def _keep(logits, order, stays):
    """The logits whose place in `order` (R, V) stays, a Boolean (R, V) or (V,); −∞ for the others."""
    kept = np.empty(logits.shape, dtype=bool)
    np.put_along_axis(kept, order, np.broadcast_to(stays, order.shape), axis=-1)
    return np.where(kept, logits, -np.inf)


def greedy(next_logits, B, bos, eos, max_length, pad=0, choose=most_likely):
    """Write B sentences, token by token, each the `choose` of the logits. Returns tokens (B, max_length).

    A sentence begins after `bos`, which is not returned, and ends with `eos`, then padding. One that does not
    end in max_length tokens is cut there. A `bos` that is `pad` is masked, and the first query has no key.
    Raises TypeError or ValueError unless B and max_length are integers ≥ 1, B is the number of sentences that
    next_logits is for, and all tokens are integers below V; errors as `choose`.
    """
    _check_search(next_logits, B, bos, eos, pad, max_length=max_length)
    tokens = np.full((B, max_length + 1), pad, dtype=int)
    tokens[:, 0] = bos
    running = np.arange(B)  # the sentences that have not ended
    for t in range(max_length):
        logits = _ask(next_logits, tokens[running, : t + 1], running, bos, eos, pad)  # (R, V)
        tokens[running, t + 1] = _check_chosen(np.asarray(choose(logits)), logits)
        running = running[tokens[running, t + 1] != eos]
        if running.size == 0:
            break
    return tokens[:, 1:]


def length_penalty(length, alpha):
    """Return ((5 + length) / 6)^alpha, by which a log probability is divided: Wu et al. 2016, equation 14."""
    return ((5 + np.asarray(length)) / 6) ** alpha


def beam(next_logits, B, width, bos, eos, max_length, alpha=0.6, pad=0):
    """Search the best sentences, keeping `width` beginnings. Returns tokens (B, max_length), scores (B,).

    The score of a beginning is the sum of the log probabilities of its tokens, `eos` included, divided by
    `length_penalty` of their number. In each step all beginnings that have not ended grow by every token;
    of these and of the ended ones the `width` best stay (of equal ones the first). The search stops when all
    that stay have ended, or at max_length, where a sentence is cut. Vaswani et al. 2017, section 6.1, take
    width 4 and alpha 0.6.

    With width 1 this is `greedy`, and it raises the same; also if width is no integer ≥ 1 or alpha no number
    ≥ 0, and FloatingPointError if a logit is not finite.
    """
    _check_search(next_logits, B, bos, eos, pad, max_length=max_length, width=width)
    check_amount("alpha", alpha)
    tokens = np.full((B, width, max_length + 1), pad, dtype=int)
    tokens[:, :, 0] = bos
    total = np.full((B, width), -np.inf)  # log probabilities; at first there is one beginning only
    total[:, 0] = 0.0
    length = np.zeros((B, width), dtype=int)
    ended = np.zeros((B, width), dtype=bool)
    for t in range(max_length):
        b, w = np.nonzero(~ended & np.isfinite(total))
        if b.size == 0:
            break
        logits = _ask(next_logits, tokens[b, w, : t + 1], b, bos, eos, pad)
        log_p = log_softmax(logits.astype(np.float64))  # (R, V)
        V = log_p.shape[-1]
        grown = np.full((B, width, V), -np.inf)
        grown[b, w] = total[b, w, None] + log_p
        grown[ended, pad] = total[ended]  # an ended sentence stays as it is: one candidate, not V
        length[b, w] = t + 1
        score = grown / length_penalty(length, alpha)[:, :, None]
        best = np.argsort(-score.reshape(B, -1), axis=1, kind="stable")[:, :width]
        parent, token = np.divmod(best, V)  # (B, width)
        of = np.arange(B)[:, None], parent
        tokens, length, ended = tokens[of], length[of], ended[of]
        total = grown[*of, token]
        tokens[:, :, t + 1] = np.where(ended, pad, token)
        ended = ended | (token == eos)
    score = total / length_penalty(length, alpha)
    best = np.arange(B), np.argmax(score, axis=1)
    return tokens[best][:, 1:], score[best]


def translate(params, config, vocabulary, texts, width=1, alpha=0.6, max_length=20):
    """Translate sentences: greedy search if width is 1, beam search otherwise. Returns a list of sentences.

    Raises TypeError if the texts are one string; ValueError if there is no sentence, one is empty or has a
    word that is not in the vocabulary, or if this is not the vocabulary of the model; errors as `beam`.
    """
    from .data import pad_rows

    if isinstance(texts, str):
        raise TypeError(f"texts: expected a list of sentences, got one string: {texts!r}")
    texts = list(texts)
    if "" in texts:
        raise ValueError(f"texts: expected sentences of at least one word, got {texts!r}")
    if config.V != len(vocabulary):
        raise ValueError(f"vocabulary: expected V = {config.V} tokens, got {len(vocabulary)}")
    if config.pad != vocabulary.pad:
        raise ValueError(f"config.pad: expected {vocabulary.pad}, as in the vocabulary, got {config.pad}")
    check_integer("width", width, least=1)
    source = pad_rows([vocabulary.encode(text) for text in texts], vocabulary.pad)  # (B, S)
    ends = {"bos": vocabulary.bos, "eos": vocabulary.eos, "max_length": max_length, "pad": vocabulary.pad}
    next_logits = translator(params, config, source)
    if width == 1:
        tokens = greedy(next_logits, len(source), **ends)
    else:
        tokens, _ = beam(next_logits, len(source), width, alpha=alpha, **ends)
    return [vocabulary.decode(row) for row in tokens]


def largest(logits):
    """Return the largest logit of each row: (..., V) -> (..., 1).

    Raises FloatingPointError if a logit is NaN or ∞, or a row has none but −∞.
    """
    z = logits.max(axis=-1, keepdims=True)  # NaN if one of the row is
    if not np.isfinite(z).all():
        row = int(np.argmin(np.isfinite(z)))
        got = f"{z.flat[row]} as the largest of row {row}"
        raise FloatingPointError(f"logits: expected finite numbers, or −∞ in some places, got {got}")
    return z


def log_softmax(z):
    """ln of the softmax over the last axis, the same shape. Raises as `largest`."""
    z = z - largest(z)
    return z - np.log(np.exp(z).sum(axis=-1, keepdims=True))


def _embed(tokens, params, config, S):
    """tokens (B, T) at positions S … S + T − 1 -> x (B, T, D), as `model.embed` has it."""
    tables, T = params["embedding"], tokens.shape[1]
    E = tables["E"]
    x, _ = embedding(like(tokens, E), E, root(config.D, E) if config.scale_embedding else 1.0)
    if config.positions == "learned":
        x = x + tables["P"][S : S + T]
    if config.positions == "sinusoidal":
        x = x + like(sinusoidal(S + T, config.D)[S:], x)
    return normalize(x, params["embedding_norm"], config.eps)[0] if config.embedding_norm else x


def _check_model(params, config, kind):
    """Raise ValueError for another kind of model; TypeError or ValueError if the parameters do not fit it."""
    if config.kind != kind:
        raise ValueError(f'config.kind: expected "{kind}", got {config.kind!r}')
    check_params(config, params)


def _check_past(past, config, B):
    """Raise TypeError or ValueError unless the past is one of this model for B sentences."""
    shape = (B, config.H_kv or config.H, length_of(past), config.K)
    for name in ("keys", "values"):
        if len(past[name]) != config.N:
            raise ValueError(f"past: expected {name} of {config.N} blocks, got {len(past[name])}")
        for n, array in enumerate(past[name]):
            check_array(f'past["{name}"][{n}]', array, shape)
    if (past["seen"] is None) != (config.pad is None):
        raise ValueError("past: expected what `extend` returned for this config, got that of another")


def _check_search(next_logits, B, bos, eos, pad, **sizes):
    for name, size in {"B": B, **sizes}.items():
        check_integer(name, size, least=1)
    for name, token in {"bos": bos, "eos": eos, "pad": pad}.items():
        check_integer(name, token)
    sentences = getattr(next_logits, "B", B)
    if sentences != B:
        raise ValueError(f"B: expected {sentences}, the number of sentences of next_logits, got {B}")


def _ask(next_logits, prefixes, rows, *tokens):
    """The logits (R, V) of R beginnings. Raises ValueError for another shape, or a token not below V."""
    logits = np.asarray(next_logits(prefixes, rows))
    if logits.ndim != 2 or len(logits) != len(rows):
        raise ValueError(f"next_logits: expected logits ({len(rows)}, V), got shape {logits.shape}")
    if max(tokens) >= logits.shape[1]:
        raise ValueError(f"bos, eos, pad: expected tokens below V = {logits.shape[1]}, got {tokens}")
    return logits


def _check_chosen(chosen, logits):
    """Return the tokens that were chosen. Raises TypeError or ValueError unless they are (R,) and below V."""
    R, V = logits.shape
    if chosen.dtype.kind not in "iu":
        raise TypeError(f"choose: expected integers, got {chosen.dtype}")
    if chosen.shape != (R,) or not (0 <= chosen.min() and chosen.max() < V):
        raise ValueError(f"choose: expected {R} tokens from 0 to {V - 1}, got {chosen}")
    return chosen
