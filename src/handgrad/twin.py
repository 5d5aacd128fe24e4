"""The oracle: the same models as torch modules, built on PyTorch's own layers and differentiated by autograd.

Nothing here calls handgrad's operations. A twin has the parameter names of `config.shapes`, with two
translations: torch calls γ and β `weight` and `bias`, and W_Q and b_Q belong to an nn.Linear called Q, whose
weight is W_Q transposed. `load` and `dump` carry the parameters in and out, `gradients` carries the
gradients out, all as the nested dictionaries of handgrad.
"""

import math

import numpy as np
import optree
import torch
from torch import nn
from torch.nn import functional as F

from .algebra import is_shape
from .config import check_params, shapes

ACTIVATIONS = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
}
GATES = {"swiglu": F.silu, "geglu": F.gelu}


class Twin(nn.Module):
    """The model that `config` describes, in float64. Its parameters are random until `load` fills them."""

    def __init__(self, config):
        super().__init__()
        self.config = c = config
        two = c.kind == "encoder-decoder"
        self.embedding, self.embedding_norm = Tables(c), norm(c, c.embedding_norm)
        if two:
            self.source_embedding = Tables(c, self.embedding.E if c.shared else None)
            self.source_embedding_norm = norm(c, c.embedding_norm)
        if c.kind != "decoder":
            self.encoder = nn.ModuleList(Block(c, cross=False) for _ in range(c.N))
            self.encoder_norm = norm(c, c.final_norm)
        if c.kind != "encoder":
            self.decoder = nn.ModuleList(Block(c, cross=two) for _ in range(c.N))
            self.decoder_norm = norm(c, c.final_norm)
        self.head, self.head_norm = Head(c), norm(c, c.head_transform)
        self.double()

    def forward(self, batch, draw_keep=None):
        """The logits (B, T, V) of a batch of NumPy integer arrays; draw_keep: as in model.forward."""
        c = self.config
        device = self.embedding.E.weight.device
        batch = {name: torch.as_tensor(array, device=device) for name, array in batch.items()}
        drop = Dropout(c, draw_keep, device)
        if c.kind == "encoder":
            x = self.encode(batch["tokens"], drop, segments=batch.get("segments"))
        elif c.kind == "decoder":
            x = self.decode(batch["tokens"], drop)
        else:
            memory = self.encode(batch["source"], drop)
            seen = visible(batch["source"], c.pad)
            x = self.decode(batch["target_in"], drop, memory=memory, memory_mask=seen)
        if c.head_transform:
            x = self.head_norm(ACTIVATIONS[c.activation](self.head.transform(x)))
        if not c.tied:
            return self.head.out(x)
        return F.linear(x, self.embedding.E.weight, self.head.b_out)

    def loss(self, batch, draw_keep=None, label_smoothing=0.0):
        """The mean cross-entropy over the targets that are not padding, a scalar tensor."""
        logits = self(batch, draw_keep)
        targets = torch.as_tensor(batch["target_out"], device=logits.device)
        return F.cross_entropy(
            logits.flatten(0, 1),
            targets.flatten(),
            ignore_index=self.config.ignore_index,
            label_smoothing=label_smoothing,
        )

    def encode(self, tokens, drop, segments=None):
        tables, norm = self.embedding, self.embedding_norm
        if self.config.kind == "encoder-decoder":
            tables, norm = self.source_embedding, self.source_embedding_norm
        x = drop("embedding", norm(tables(tokens, segments)))
        for block in self.encoder:
            x = block(x, drop, mask=visible(tokens, self.config.pad))
        return self.encoder_norm(x)

    def decode(self, tokens, drop, memory=None, memory_mask=None):
        T = tokens.shape[1]
        x = drop("embedding", self.embedding_norm(self.embedding(tokens)))
        mask = torch.ones(T, T, dtype=torch.bool, device=tokens.device).tril()
        padding = visible(tokens, self.config.pad)
        mask = mask if padding is None else mask & padding
        for block in self.decoder:
            x = block(x, drop, mask=mask, memory=memory, memory_mask=memory_mask)
        return self.decoder_norm(x)


class Tables(nn.Module):
    """The sum of token, position and segment embeddings. E: the token embeddings, if they are others' too."""

    def __init__(self, config, E=None):
        super().__init__()
        self.config = c = config
        self.E = nn.Embedding(c.V, c.D) if E is None else E
        if c.positions == "learned":
            self.P = nn.Embedding(c.T_max, c.D)
        if c.segments:
            self.E_segment = nn.Embedding(c.segments, c.D)

    def forward(self, tokens, segments=None):
        c = self.config
        t = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.E(tokens) * (math.sqrt(c.D) if c.scale_embedding else 1)
        if c.segments:
            x = x + self.E_segment(torch.zeros_like(tokens) if segments is None else segments)
        if c.positions == "learned":
            x = x + self.P(t)
        if c.positions == "sinusoidal":
            frequency = torch.exp(torch.arange(0, c.D, 2, device=t.device).double() * (-math.log(1e4) / c.D))
            angle = t[:, None] * frequency
            x = x + torch.stack((angle.sin(), angle.cos()), -1).flatten(-2).to(x.dtype)
        return x


class Block(nn.Module):
    """Self-attention, cross-attention if `cross`, feed-forward; each with norm and residual connection."""

    def __init__(self, config, cross):
        super().__init__()
        self.config, self.cross = config, cross
        self.self_attention, self.self_attention_norm = Attention(config), norm(config)
        if cross:
            self.cross_attention, self.cross_attention_norm = Attention(config), norm(config)
        self.feed_forward, self.feed_forward_norm = FeedForward(config), norm(config)

    def forward(self, x, drop, mask, memory=None, memory_mask=None):
        x = self.around("self_attention", x, drop, mask=mask, rotary=self.config.positions == "rotary")
        if self.cross:
            x = self.around("cross_attention", x, drop, mask=memory_mask, memory=memory)
        return self.around("feed_forward", x, drop)

    def around(self, name, x, drop, **given):
        f, norm = getattr(self, name), getattr(self, f"{name}_norm")

        def part(h):
            return drop("sublayer", f(h, drop, **given))

        if self.config.norm == "post":
            return norm(x + part(x))
        return x + part(norm(x)) if self.config.norm == "pre" else x + norm(part(x))


class Attention(nn.Module):
    """F.scaled_dot_product_attention; written out only when weights are dropped."""

    def __init__(self, config):
        super().__init__()
        self.config = c = config
        D_kv = (c.H_kv or c.H) * c.K
        self.Q = nn.Linear(c.D, c.D, bias=c.attention_biases)
        self.K = nn.Linear(c.D, D_kv, bias=c.attention_biases)
        self.V = nn.Linear(c.D, D_kv, bias=c.attention_biases)
        self.O = nn.Linear(c.D, c.D, bias=c.attention_biases)

    def forward(self, x, drop, mask, memory=None, rotary=False):
        c, memory = self.config, x if memory is None else memory
        parts = self.Q(x), self.K(memory), self.V(memory)
        q, k, v = (part.unflatten(-1, (-1, c.K)).transpose(1, 2) for part in parts)  # (B, H or H_kv, T, K)
        if rotary:
            q, k = turn(q, c.rotary_base), turn(k, c.rotary_base)
        if drop.acts("attention"):
            k, v = (part.repeat_interleave(c.H // part.shape[1], dim=1) for part in (k, v))
            weights = torch.einsum("bhtk,bhsk->bhts", q, k) / math.sqrt(c.K)
            weights = weights.softmax(-1) if mask is None else masked_softmax(weights, mask)
            weights = drop("attention", weights)
            o = torch.einsum("bhts,bhsk->bhtk", weights, v)
        else:
            o = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=k.shape[1] < c.H)
        return self.O(o.transpose(1, 2).flatten(-2))


class FeedForward(nn.Module):
    """Two layers with an activation between them, or the gated form."""

    def __init__(self, config):
        super().__init__()
        self.config = c = config
        if c.activation in GATES:
            self.gate, self.up = nn.Linear(c.D, c.F, bias=False), nn.Linear(c.D, c.F, bias=False)
            self.down = nn.Linear(c.F, c.D, bias=False)
        else:
            self.add_module("1", nn.Linear(c.D, c.F, bias=c.feed_forward_biases))
            self.add_module("2", nn.Linear(c.F, c.D, bias=c.feed_forward_biases))

    def forward(self, x, drop):
        if self.config.activation in GATES:
            return self.down(GATES[self.config.activation](self.gate(x)) * self.up(x))
        first, second = self.children()
        return second(drop("hidden", ACTIVATIONS[self.config.activation](first(x))))


class Head(nn.Module):
    """What the head owns; a tied head owns no matrix."""

    def __init__(self, config):
        super().__init__()
        c = config
        self.b_out = nn.Parameter(torch.zeros(c.V)) if c.tied and c.head_bias else None
        if not c.tied:
            self.out = nn.Linear(c.D, c.V, bias=c.head_bias)
        if c.head_transform:
            self.transform = nn.Linear(c.D, c.D)


class Dropout:
    """Keeps what the function `draw_keep` says, which is asked at every site in the order of the data."""

    def __init__(self, config, draw_keep, device):
        self.sites, self.p, self.draw_keep, self.device = config.dropout_sites, config.p, draw_keep, device

    def acts(self, site):
        return self.draw_keep is not None and site in self.sites

    def __call__(self, site, x):
        if not self.acts(site):
            return x
        keep = torch.as_tensor(np.asarray(self.draw_keep(tuple(x.shape))), device=self.device)
        return x * keep / (1 - self.p)


def norm(config, present=True):
    """A fresh nn.LayerNorm or nn.RMSNorm, or what changes nothing where the model has no norm."""
    if not present:
        return nn.Identity()
    kind = nn.LayerNorm if config.normalization == "layer_norm" else nn.RMSNorm
    return kind(config.D, eps=config.eps)


def visible(tokens, pad):
    """(B, 1, 1, S): true where a key is no padding; None without padding."""
    return None if pad is None else tokens.ne(pad)[:, None, None, :]


def masked_softmax(scores, mask):
    """Softmax over the entries where the mask is true; 0 elsewhere, and in a row with no such entry."""
    return scores.masked_fill(~mask, -1e30).softmax(-1) * mask


def turn(x, base):
    """Rotary positions: each pair of numbers is one complex number, multiplied by exp(i t / base^(2i/K))."""
    T, K = x.shape[-2:]
    frequency = torch.exp(-math.log(base) * torch.arange(0, K, 2, device=x.device).double() / K)
    angle = torch.outer(torch.arange(T, device=x.device).double(), frequency)  # (T, K/2)
    phase = torch.polar(torch.ones_like(angle), angle)
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())  # (..., T, K/2)
    return torch.view_as_real(pairs * phase.to(pairs.dtype)).flatten(-2)


def load(twin, params):
    """Copy nested dictionaries of arrays into the twin; returns it. Errors as `config.check_params`."""
    check_params(twin.config, params)
    with torch.no_grad():
        for path, array in zip(optree.tree_paths(params), optree.tree_leaves(params), strict=True):
            tensor, transposed = find(twin, path)
            value = torch.tensor(array, dtype=tensor.dtype, device=tensor.device)
            tensor.copy_(value.T if transposed else value)
    return twin


def dump(twin):
    """The twin's parameters as nested dictionaries of NumPy arrays: the inverse of `load`."""
    return _read(twin, lambda tensor: tensor)


def gradients(twin):
    """The twin's gradients as the same tree, 0 where autograd reached nothing."""
    return _read(twin, lambda tensor: torch.zeros_like(tensor) if tensor.grad is None else tensor.grad)


def loss_and_gradients(twin, batch, draw_keep=None, label_smoothing=0.0):
    """The loss (a float) and its gradients by autograd: the counterpart of model.loss_and_gradients."""
    twin.zero_grad()
    loss = twin.loss(batch, draw_keep, label_smoothing)
    loss.backward()
    return float(loss.detach()), gradients(twin)


def compare(grads, wanted, tolerance=1e-10):
    """Compare two trees of gradients, leaf by leaf; returns the worst relative error.

    The error of a leaf is measured against its largest entry. A leaf that is 0 by symmetry, as db_K is, holds
    rounding noise: none is measured against less than 1e-5 of the largest entry of all. Raises AssertionError
    that names the gradient if the trees differ, or an error is above the tolerance.
    """
    structure, expected = optree.tree_structure(grads), optree.tree_structure(wanted)
    if structure != expected:
        raise AssertionError(f"gradients: expected the tree {expected}, got {structure}")
    leaves, paths = optree.tree_leaves(wanted), optree.tree_paths(wanted)
    largest = max(np.abs(leaf).max() for leaf in leaves)
    worst = 0.0
    for path, got, want in zip(paths, optree.tree_leaves(grads), leaves, strict=True):
        name = ".".join(map(str, path))
        if got.shape != want.shape:
            raise AssertionError(f"d{name}: expected shape {want.shape}, got {got.shape}")
        error = np.abs(got - want).max() / max(np.abs(want).max(), 1e-5 * largest)
        if not error <= tolerance:
            raise AssertionError(f"d{name}: relative error {error:.1e}, tolerance {tolerance:.0e}")
        worst = max(worst, float(error))
    return worst


def find(twin, path):
    """The tensor at a path such as ("encoder", 0, "self_attention", "W_Q"), and whether it is transposed."""
    *steps, name = path
    module = twin.get_submodule(".".join(map(str, steps)))
    if name in ("gamma", "beta"):
        return (module.weight if name == "gamma" else module.bias), False
    if (own := getattr(module, name, None)) is not None:  # a parameter, or a table
        return getattr(own, "weight", own), False
    kind, layer = name.split("_", 1)  # W_Q is the weight of the nn.Linear that is called Q
    layer = getattr(module, layer)
    return (layer.weight, True) if kind == "W" else (layer.bias, False)


def _read(twin, read):
    def array(path, shape):
        tensor, transposed = find(twin, path)
        values = read(tensor).detach().cpu().numpy()
        return (values.T if transposed else values).copy()

    return optree.tree_map_with_path(array, shapes(twin.config), is_leaf=is_shape)
