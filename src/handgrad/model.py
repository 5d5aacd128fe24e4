r"""The Transformer: encoder–decoder, decoder-only and encoder-only, from one set of parts.

    embed       tokens -> √D E[tokens] + positions (+ segments, norm)      dropout
    encode      embed, N blocks that see everything, final norm
    decode      embed, N blocks that see the past, and the memory if there is an encoder, final norm
    head        logits = x Eᵀ or x W_out; in BERT after a dense layer, an activation and a norm

Each backward stands below its forward and reads it bottom-up. A batch is a dictionary of integer arrays:

    encoder-decoder   source (B, S), target_in (B, T), target_out (B, T)
    decoder           tokens (B, T), target_out (B, T)
    encoder           tokens (B, T), target_out (B, T), and segments (B, T) if the model has them

Positions that hold `config.pad` are seen by no query, and as targets they do not count. The parameters are a
nested dictionary, such as params["encoder"][0]["self_attention"]["W_Q"]; the gradients are the same tree.
"""

import numpy as np

from .algebra import check_array, check_names, like, namespace, root
from .blocks import (
    decoder_block,
    decoder_block_backward,
    drop,
    encoder_block,
    encoder_block_backward,
    normalize,
    normalize_backward,
)
from .config import check_params
from .ops import (
    ACTIVATIONS,
    add_positions,
    add_positions_backward,
    causal_mask,
    cross_entropy,
    cross_entropy_backward,
    dropout_backward,
    embedding,
    embedding_backward,
    linear,
    linear_backward,
    padding_mask,
    rotary_angles,
    sinusoidal,
    tied_head,
    tied_head_backward,
)


def embed(tokens, tables, norm, config, draw_keep=None, segments=None):
    """tokens (B, T), tables {E, and P, E_segment if used} -> x (B, T, D), cache. norm: parameters or None."""
    check_array("tokens", tokens, (None, None), "integers")
    if segments is not None:
        check_array("segments", segments, tokens.shape, "integers")
        if not config.segments:
            raise ValueError("segments: expected none, since the model has no segments")
    E = tables["E"]
    cache = {"segmented": None, "placed": None, "normed": None}
    x, cache["looked_up"] = embedding(
        like(tokens, E), E, root(config.D, E) if config.scale_embedding else 1.0
    )
    if config.segments:
        segments = np.zeros_like(tokens) if segments is None else segments
        of_segment, cache["segmented"] = embedding(like(segments, E), tables["E_segment"])
        x = x + of_segment
    if config.positions == "learned":
        x, cache["placed"] = add_positions(x, tables["P"])
    if config.positions == "sinusoidal":
        x, _ = add_positions(x, like(sinusoidal(tokens.shape[1], config.D), x))
    if norm:
        x, cache["normed"] = normalize(x, norm, config.eps)
    x, cache["dropped"] = drop(x, draw_keep if "embedding" in config.dropout_sites else None, config.p)
    return x, cache


def embed_backward(dx, cache):
    """dx (B, T, D) -> dtables, dnorm ({} without a norm)."""
    dtables, dnorm = {}, {}
    dx = dropout_backward(dx, cache["dropped"])
    if cache["normed"]:
        dx, dnorm = normalize_backward(dx, cache["normed"])
    if cache["placed"]:
        dx, dtables["P"] = add_positions_backward(dx, cache["placed"])
    if cache["segmented"]:
        dtables["E_segment"] = embedding_backward(dx, cache["segmented"])
    dtables["E"] = embedding_backward(dx, cache["looked_up"])
    return dtables, dnorm


def encode(params, config, tokens, draw_keep=None, segments=None):
    """tokens (B, S) -> the memory (B, S, D), cache: every position sees every other that is not padding."""
    source = "source_" if config.kind == "encoder-decoder" else ""
    tables = params["embedding"] | params.get(f"{source}embedding", {})
    norm = params.get(f"{source}embedding_norm")
    x, embedded = embed(tokens, tables, norm, config, draw_keep=draw_keep, segments=segments)
    settings = _settings(config, tokens, x, draw_keep)
    mask = None if config.pad is None else like(padding_mask(tokens, config.pad), x)  # (B, 1, 1, S)
    caches = []
    for block in params["encoder"]:
        x, cache = encoder_block(x, block, mask=mask, **settings)
        caches.append(cache)
    normed = None
    if config.final_norm:
        x, normed = normalize(x, params["encoder_norm"], config.eps)
    return x, {"source": source, "embedded": embedded, "blocks": caches, "normed": normed}


def encode_backward(dx, cache):
    """dx (B, S, D) -> grads of the encoder and of its embedding."""
    grads, source = {}, cache["source"]
    if cache["normed"]:
        dx, grads["encoder_norm"] = normalize_backward(dx, cache["normed"])
    grads["encoder"] = [None] * len(cache["blocks"])
    for n, block in reversed(list(enumerate(cache["blocks"]))):
        dx, grads["encoder"][n] = encoder_block_backward(dx, block)
    grads[f"{source}embedding"], grads[f"{source}embedding_norm"] = embed_backward(dx, cache["embedded"])
    return grads


def decode(params, config, tokens, memory=None, memory_mask=None, draw_keep=None):
    """tokens (B, T), memory (B, S, D) or None -> x (B, T, D), cache: position t sees positions 0..t.

    memory_mask broadcasts to (B, H, T, S), true where the memory may be seen. Raises ValueError if the model
    reads a memory and there is none, or the other way round.
    """
    if (memory is not None) != (config.kind == "encoder-decoder"):
        expected, got = ("none", "one") if config.kind == "decoder" else ("the encoder's output", "none")
        raise ValueError(f"memory: expected {expected}, got {got}")
    norm = params.get("embedding_norm")
    x, embedded = embed(tokens, params["embedding"], norm, config, draw_keep=draw_keep)
    settings = _settings(config, tokens, x, draw_keep)
    mask = causal_mask(tokens.shape[1])  # (T, T)
    mask = like(mask if config.pad is None else mask & padding_mask(tokens, config.pad), x)  # or (B, 1, T, T)
    caches = []
    for block in params["decoder"]:
        if memory is None:
            x, cache = encoder_block(x, block, mask=mask, **settings)
        else:
            x, cache = decoder_block(x, memory, block, mask=mask, memory_mask=memory_mask, **settings)
        caches.append(cache)
    normed = None
    if config.final_norm:
        x, normed = normalize(x, params["decoder_norm"], config.eps)
    return x, {"embedded": embedded, "blocks": caches, "normed": normed}


def decode_backward(dx, cache):
    """dx (B, T, D) -> dmemory (B, S, D) (None without a memory), grads of the decoder and its embedding."""
    grads, dmemory = {}, None
    if cache["normed"]:
        dx, grads["decoder_norm"] = normalize_backward(dx, cache["normed"])
    grads["decoder"] = [None] * len(cache["blocks"])
    for n, block in reversed(list(enumerate(cache["blocks"]))):
        if "crossed" in block:
            dx, dmemory_n, grads["decoder"][n] = decoder_block_backward(dx, block)
            dmemory = dmemory_n if dmemory is None else dmemory + dmemory_n  # every block uses the memory
        else:
            dx, grads["decoder"][n] = encoder_block_backward(dx, block)
    grads["embedding"], grads["embedding_norm"] = embed_backward(dx, cache["embedded"])
    return dmemory, grads


def head(x, params, config):
    """x (B, T, D) -> logits (B, T, V), cache."""
    own, cache = params.get("head", {}), {"tied": config.tied, "bias": config.head_bias, "transformed": None}
    if config.head_transform:
        cache["activation"] = config.activation
        x, dense = linear(x, own["W_transform"], own["b_transform"])
        x, active = ACTIVATIONS[config.activation][0](x)
        x, normed = normalize(x, params["head_norm"], config.eps)
        cache["transformed"] = (dense, active, normed)
    if not config.tied:
        logits, cache["out"] = linear(x, own["W_out"], own.get("b_out"))
        return logits, cache
    logits, cache["out"] = tied_head(x, params["embedding"]["E"])
    return (logits + own["b_out"] if config.head_bias else logits), cache


def head_backward(dlogits, cache):
    """dlogits (B, T, V) -> dx (B, T, D), dE (V, D) or None if the head is not tied, grads of the head."""
    grads, own, dE = {}, {}, None
    if cache["tied"]:
        dx, dE = tied_head_backward(dlogits, cache["out"])
        own["b_out"] = namespace(dlogits).sum(dlogits, axis=(0, 1)) if cache["bias"] else None
    else:
        dx, own["W_out"], own["b_out"] = linear_backward(dlogits, cache["out"])
    if cache["transformed"]:
        dense, active, normed = cache["transformed"]
        dx, grads["head_norm"] = normalize_backward(dx, normed)
        dx = ACTIVATIONS[cache["activation"]][1](dx, active)
        dx, own["W_transform"], own["b_transform"] = linear_backward(dx, dense)
    grads["head"] = {name: gradient for name, gradient in own.items() if gradient is not None}
    return dx, dE, grads


def forward(params, config, batch, draw_keep=None):
    """The logits (B, T, V) of a batch, and the cache.

    draw_keep: a function from a shape to a Boolean array, called at each dropout site in the order of the
    data; None for no dropout. Raises TypeError or ValueError, naming the entry, if the parameters or the
    batch do not fit.
    """
    check_params(config, params)
    check_batch(config, batch)
    cache = {"config": config}
    if config.kind == "encoder-decoder":
        memory, cache["encoded"] = encode(params, config, batch["source"], draw_keep=draw_keep)
        seen = None if config.pad is None else like(padding_mask(batch["source"], config.pad), memory)
        of_memory = {"memory": memory, "memory_mask": seen}
        x, cache["decoded"] = decode(params, config, batch["target_in"], **of_memory, draw_keep=draw_keep)
    elif config.kind == "decoder":
        x, cache["decoded"] = decode(params, config, batch["tokens"], draw_keep=draw_keep)
    else:
        segments = batch.get("segments")
        x, cache["encoded"] = encode(params, config, batch["tokens"], draw_keep=draw_keep, segments=segments)
    logits, cache["headed"] = head(x, params, config)
    return logits, cache


def backward(dlogits, cache):
    """dlogits (B, T, V) -> grads, the tree of the parameters."""
    config = cache["config"]
    dx, dE, grads = head_backward(dlogits, cache["headed"])
    if "decoded" in cache:
        dx, of_decoder = decode_backward(dx, cache["decoded"])  # dx is now the gradient of the memory
        grads |= of_decoder
    if "encoded" in cache:
        grads |= encode_backward(dx, cache["encoded"])
    if config.kind == "encoder-decoder" and config.shared:
        grads["embedding"]["E"] += grads["source_embedding"].pop(
            "E"
        )  # one table is used by source and target
    if config.tied:
        grads["embedding"]["E"] += dE  # the table is used again, as the head
    return {name: part for name, part in grads.items() if part}


def loss_and_gradients(params, config, batch, draw_keep=None, label_smoothing=0.0):
    """The mean cross-entropy over the targets that are not padding (a scalar), and its gradients (a tree)."""
    logits, cache = forward(params, config, batch, draw_keep)
    targets = like(targets_of(batch), logits)
    loss, counted = cross_entropy(logits, targets, config.ignore_index, label_smoothing)
    return loss, backward(cross_entropy_backward(1.0, counted), cache)


def targets_of(batch):
    """The targets (B, T) of a batch. Raises ValueError if it has none."""
    if "target_out" not in batch:
        raise ValueError(f'batch: expected the entry "target_out", got {sorted(batch)}')
    return batch["target_out"]


def check_batch(config, batch):
    """Raise TypeError or ValueError, with the name of the entry, unless the batch fits the model.

    Nor may it hold what the model would not read: a misspelt entry, or one of another model.
    """
    inputs = ("source", "target_in") if config.kind == "encoder-decoder" else ("tokens",)
    others = ("target_out", "segments") if config.segments else ("target_out",)
    check_names("batch", batch, inputs, others)
    first = batch[inputs[0]]
    for name in (name for name in (*inputs, *others) if name in batch):
        array, entry = batch[name], f'batch["{name}"]'
        check_array(entry, array, kind="integers")
        same_as = first if name == "source" else batch[inputs[-1]]
        if len(array.shape) != 2 or 0 in array.shape:
            raise ValueError(
                f"{entry}: expected a shape (B, T) with B and T at least 1, got {tuple(array.shape)}"
            )
        if array.shape[0] != first.shape[0] or array.shape != same_as.shape:
            expected = (first.shape[0], *same_as.shape[1:])
            raise ValueError(f"{entry}: expected shape {expected}, got {tuple(array.shape)}")
        limit = config.segments if name == "segments" else config.V
        if name != "target_out" and not (0 <= int(array.min()) and int(array.max()) < limit):
            span = f"{int(array.min())} to {int(array.max())}"
            raise ValueError(f"{entry}: expected ids from 0 to {limit - 1}, got ids from {span}")
        if config.positions == "learned" and array.shape[1] > config.T_max:
            raise ValueError(
                f"{entry}: expected at most T_max = {config.T_max} positions, got {array.shape[1]}"
            )


def _settings(config, tokens, x, draw_keep):
    """What every block of a stack is told."""
    angles = None
    if config.positions == "rotary":
        angles = like(rotary_angles(tokens.shape[1], config.K, config.rotary_base), x)  # (T, K/2)
    return {
        "H": config.H,
        "norm": config.norm,
        "activation": config.activation,
        "angles": angles,
        "eps": config.eps,
        "draw_keep": draw_keep,
        "p": config.p,
        "sites": config.dropout_sites,
    }
