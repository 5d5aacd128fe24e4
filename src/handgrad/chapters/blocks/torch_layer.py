"""PyTorch's encoder and decoder layers, and the twin of this book, with our parameters."""

import numpy as np
import optree
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from handgrad import twin
from handgrad.blocks import (
    decoder_block,
    decoder_block_backward,
    encoder_block,
    encoder_block_backward,
)
from handgrad.chapters.blocks import flows, walkers
from handgrad.config import Config
from handgrad.ops import cross_entropy, cross_entropy_backward

OURS = ("self_attention_norm", "cross_attention_norm", "feed_forward_norm")


def places(layer, decoder):
    """{path in our params: (its tensor, rows of it, whether it is transposed)} of an nn.Transformer…Layer."""
    attentions = {"self_attention": layer.self_attn}
    attentions |= {"cross_attention": layer.multihead_attn} if decoder else {}
    found = {}
    for name, attention in attentions.items():
        D = attention.embed_dim
        for i, letter in enumerate("QKV"):
            rows = slice(i * D, (i + 1) * D)
            found[name, f"W_{letter}"] = (attention.in_proj_weight, rows, True)
            found[name, f"b_{letter}"] = (attention.in_proj_bias, rows, False)
        found[name, "W_O"] = (attention.out_proj.weight, slice(None), True)
        found[name, "b_O"] = (attention.out_proj.bias, slice(None), False)
    for i, linear in ((1, layer.linear1), (2, layer.linear2)):
        found["feed_forward", f"W_{i}"] = (linear.weight, slice(None), True)
        found["feed_forward", f"b_{i}"] = (linear.bias, slice(None), False)
    norms = (layer.norm1, layer.norm2, layer.norm3) if decoder else (layer.norm1, layer.norm2)
    for name, norm in zip(OURS if decoder else (OURS[0], OURS[2]), norms, strict=True):
        found[name, "gamma"] = (norm.weight, slice(None), False)
        found[name, "beta"] = (norm.bias, slice(None), False)
    return found


def of_torch(x, dy, params, H, norm_first, mask=None, padding=None, memory=None, memory_padding=None):
    """(y, dx, dmemory, dparams) of PyTorch's own layer; the decoder's if there is a memory.

    x, dy (B, T, D), memory (B, S, D). mask (T, T): true where a target may look; padding (B, T) and
    memory_padding (B, S): true at padding. The activation is GELU.
    """
    decoder = memory is not None
    kind = nn.TransformerDecoderLayer if decoder else nn.TransformerEncoderLayer
    D, F = params["feed_forward"]["W_1"].shape
    how = dict(dropout=0.0, activation="gelu", batch_first=True, norm_first=norm_first)
    layer = kind(D, H, F, **how, dtype=torch.float64)
    where = places(layer, decoder)
    with torch.no_grad():
        for (part, name), (tensor, rows, transposed) in where.items():
            ours = torch.tensor(params[part][name])
            tensor[rows] = ours.T if transposed else ours
    x = torch.tensor(x, requires_grad=True)
    if decoder:
        memory = torch.tensor(memory, requires_grad=True)
        hidden = dict(tgt_mask=torch.tensor(~mask), memory_key_padding_mask=torch.tensor(memory_padding))
        y = layer(x, memory, **hidden)
    else:
        hidden = {} if mask is None else {"src_mask": torch.tensor(~mask)}
        hidden |= {} if padding is None else {"src_key_padding_mask": torch.tensor(padding)}
        y = layer(x, **hidden)
    y.backward(torch.tensor(dy))
    grads = {part: {} for part in params}
    for (part, name), (tensor, rows, transposed) in where.items():
        grads[part][name] = (tensor.grad[rows].T if transposed else tensor.grad[rows]).numpy()
    return y.detach().numpy(), x.grad.numpy(), memory.grad.numpy() if decoder else None, grads


def of_twin(x, dy, params, H, norm, mask=None, memory=None, memory_mask=None):
    """The same of the block of `handgrad.twin`, which knows all three placements; masks as in our blocks."""
    decoder = memory is not None
    D, F = params["feed_forward"]["W_1"].shape
    config = Config("encoder-decoder", 9, D, H, F, 1, norm=norm, activation="gelu")
    block = twin.Block(config, decoder).double()
    with torch.no_grad():
        for path in optree.tree_paths(params):
            tensor, transposed = twin.find(block, path)
            ours = torch.tensor(params[path[0]][path[1]])
            tensor.copy_(ours.T if transposed else ours)
    x = torch.tensor(x, requires_grad=True)
    memory = torch.tensor(memory, requires_grad=True) if decoder else None
    masks = [None if m is None else torch.tensor(m) for m in (mask, memory_mask)]
    drop = twin.Dropout(config, None, "cpu")
    y = block(x, drop, masks[0], memory=memory, memory_mask=masks[1])
    y.backward(torch.tensor(dy))
    grads = {part: {} for part in params}
    for part, name in optree.tree_paths(params):
        tensor, transposed = twin.find(block, (part, name))
        grads[part][name] = (tensor.grad.T if transposed else tensor.grad).numpy()
    return y.detach().numpy(), x.grad.numpy(), memory.grad.numpy() if decoder else None, grads


def gradients(params, batch, norm):
    """The loss of the walkers and its gradients, by automatic differentiation of `walkers.forward`."""
    leaves = optree.tree_map(lambda p: torch.tensor(p, requires_grad=True), params)
    tokens = {name: torch.tensor(array) for name, array in batch.items()}
    z, _ = walkers.forward(leaves, tokens, norm, mask=torch.tensor(walkers.CAUSAL))
    loss, _ = cross_entropy(z, tokens["target_out"])
    loss.backward()
    return float(loss.detach()), optree.tree_map(lambda p: p.grad.numpy(), leaves)


def differ(ours, theirs):
    """The largest difference of two results (y, dx, dmemory or None, dparams), relative to each array.

    An array that is 0 by symmetry, as the gradient of the bias of the keys, is measured beside the others.
    """
    ours, theirs = (optree.tree_leaves(list(result), none_is_leaf=False) for result in (ours, theirs))
    largest = max(np.abs(array).max() for array in theirs)
    pairs = zip(ours, theirs, strict=True)
    return max(np.abs(a - b).max() / max(np.abs(b).max(), 1e-3 * largest) for a, b in pairs)


def flops(kind, T, S, D, F):
    """The FLOPs of the matrix products of one "encoder" or "decoder" block, forward and backward, B = 1."""
    leaves = optree.tree_map(lambda p: torch.tensor(p, requires_grad=True), flows.draw(kind, 0, D=D, F=F))
    x, memory = (torch.randn(1, n, D, dtype=torch.float64, requires_grad=True) for n in (T, S))
    with FlopCounterMode(display=False) as forward:
        y, _ = encoder_block(x, leaves, 2) if kind == "encoder" else decoder_block(x, memory, leaves, 2)
    with FlopCounterMode(display=False) as backward:
        y.sum().backward()
    return forward.get_total_flops(), backward.get_total_flops()


# Comparisons with the shipped blocks ------------------------------------------------------------------------

PADDED = np.array([[0, 1, 0, 0, 0, 1, 1], [1, 0, 0, 1, 0, 0, 0]], dtype=bool)  # (B, T)


def decoders_differ(place, seed, twin=False):
    """How far our decoder block is from PyTorch's layer, or from the twin's block: see `differ`."""
    x, memory, dy, mask, seen = flows.inputs(seed)
    params = flows.draw("decoder", seed)
    y, cache = decoder_block(x, memory, params, 2, place, mask, seen, "gelu")
    ours = (y, *decoder_block_backward(dy, cache))
    if twin:
        return differ(ours, of_twin(x, dy, params, 2, place, mask, memory, seen))
    hidden = dict(mask=mask, memory=memory, memory_padding=~seen[:, 0, 0])
    return differ(ours, of_torch(x, dy, params, 2, place == "pre", **hidden))


def encoders_differ(place, seed, twin=False):
    """The same of the encoder block, with padding at the start, in the middle and at the end."""
    x, _, dy, _, _ = flows.inputs(seed)
    params, mask = flows.draw("encoder", seed), ~PADDED[:, None, None]
    y, cache = encoder_block(x, params, 2, place, mask, "gelu")
    dx, grads = encoder_block_backward(dy, cache)
    if twin:
        return differ((y, dx, None, grads), of_twin(x, dy, params, 2, place, mask))
    return differ((y, dx, None, grads), of_torch(x, dy, params, 2, place == "pre", padding=PADDED))


def walkers_differ(place, seed=0):
    """The worst relative error of the gradients of the walkers' model, and that of the loss."""
    params, batch = walkers.initial(seed, norm=place), walkers.held_out(8)
    z, cache = walkers.forward(params, batch, place)
    loss, counted = cross_entropy(z, batch["target_out"])
    theirs, wanted = gradients(params, batch, place)
    ours = walkers.backward(cross_entropy_backward(1.0, counted), cache)
    return twin.compare(ours, wanted), abs(theirs - float(loss))
