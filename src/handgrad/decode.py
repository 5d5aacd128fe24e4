"""From a model to a sentence: greedy search, sampling and beam search.

A search knows nothing of the model but one function, which answers for any beginnings of sentences

    next_logits(prefixes, rows) -> logits           prefixes (R, t), rows (R,), logits (R, V)

where rows says which sentence of the batch each beginning belongs to. `translator` makes this function from
an encoder–decoder, `continuer` from a decoder-only model. A function for B sentences and no other number says
so: it has the attribute B. A token may be impossible, with a logit of −∞; any other logit is a finite number.
"""

import numpy as np

from . import model
from .algebra import check_amount, check_array, check_integer, like
from .config import check_params
from .ops import padding_mask


def translator(params, config, source):
    """Return `next_logits` of an encoder–decoder for source (B, S), and for B sentences. It is encoded once.

    Raises ValueError for another kind of model; TypeError or ValueError if the parameters or the source do
    not fit the model.
    """
    if config.kind != "encoder-decoder":
        raise ValueError(f'config.kind: expected "encoder-decoder", got {config.kind!r}')
    check_params(config, params)
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
    if config.kind != "decoder":
        raise ValueError(f'config.kind: expected "decoder", got {config.kind!r}')
    check_params(config, params)

    def next_logits(prefixes, rows):
        x, _ = model.decode(params, config, prefixes)
        return model.head(x[:, -1:], params, config)[0][:, 0]

    return next_logits


def most_likely(logits):
    """Return the token of the largest logit in each row (R, V) -> (R,); of equal ones the first.

    Raises FloatingPointError if a logit is not finite.
    """
    largest(logits)
    return np.argmax(logits, axis=-1)


def sampler(rng, temperature=1.0):
    """Return a function (R, V) -> (R,) that draws tokens from softmax(logits / temperature).

    The largest of the logits with independent Gumbel noise added is such a draw (Gumbel 1954).
    Raises ValueError unless temperature > 0; the function, FloatingPointError if a logit is not finite.
    """
    check_amount("temperature", temperature, positive=True)

    def draw(logits):
        return np.argmax((logits - largest(logits)) / temperature + rng.gumbel(size=logits.shape), axis=-1)

    return draw


def greedy(next_logits, B, bos, eos, max_length, pad=0, choose=most_likely):
    """Write B sentences, token by token, each the `choose` of the logits. Returns tokens (B, max_length).

    A sentence begins after `bos`, which is not returned, and ends with `eos`, then padding. One that does not
    end in max_length tokens is cut there.
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
        log_p = _log_softmax(logits.astype(np.float64))  # (R, V)
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
    """Return the largest logit of each row: (R, V) -> (R, 1).

    Raises FloatingPointError if a logit is NaN or ∞, or a row has none but −∞.
    """
    z = logits.max(axis=-1, keepdims=True)  # NaN if one of the row is
    if not np.isfinite(z).all():
        row = int(np.argmin(np.isfinite(z)))
        got = f"{z[row, 0]} as the largest of row {row}"
        raise FloatingPointError(f"logits: expected finite numbers, or −∞ in some places, got {got}")
    return z


def _log_softmax(z):
    z = z - largest(z)
    return z - np.log(np.exp(z).sum(axis=-1, keepdims=True))


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
