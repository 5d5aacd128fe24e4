"""The same decoder in PyTorch, differentiated by autograd, as its own documentation would have it written."""

import optree
import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.TransformerEncoderLayer):
    """The parameters of PyTorch's layer, and a forward without its detours: one product for the queries, keys
    and values, and the fused causal attention."""

    def forward(self, x):
        own, H = self.self_attn, self.self_attn.num_heads
        qkv = F.linear(self.norm1(x), own.in_proj_weight, own.in_proj_bias)  # (B, T, 3 D)
        q, k, v = (part.unflatten(-1, (H, -1)).transpose(1, 2) for part in qkv.chunk(3, -1))  # (B, H, T, K)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + own.out_proj(y.transpose(1, 2).flatten(-2))
        return x + self.linear2(gelu(self.linear1(self.norm2(x))))


def gelu(x):
    return F.gelu(x, approximate="tanh")


class Decoder(nn.Module):
    """tokens, targets (B, T) -> the mean cross-entropy. lean: of Block, else as nn.TransformerEncoder."""

    def __init__(self, config, lean):
        super().__init__()
        self.lean = lean
        layer = (Block if lean else nn.TransformerEncoderLayer)(
            d_model=config.D,
            nhead=config.H,
            dim_feedforward=config.F,
            dropout=0.0,
            activation=gelu,
            layer_norm_eps=config.eps,
            batch_first=True,
            norm_first=True,
        )
        norm = nn.LayerNorm(config.D, config.eps)
        self.E = nn.Parameter(torch.empty(config.V, config.D))
        self.P = nn.Parameter(torch.empty(config.T_max, config.D))
        self.blocks = nn.TransformerEncoder(layer, config.N, norm, enable_nested_tensor=False)
        mask = nn.Transformer.generate_square_subsequent_mask(config.T_max)
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, tokens, targets):
        T = tokens.shape[1]
        x = F.embedding(tokens, self.E) + self.P[:T]
        if self.lean:
            for block in self.blocks.layers:
                x = block(x)
            x = self.blocks.norm(x)
        else:
            x = self.blocks(x, self.mask[:T, :T], is_causal=True)
        return F.cross_entropy(F.linear(x, self.E).flatten(0, 1), targets.flatten())


def load(config, params, lean):
    """The decoder with the given parameters, a tree of NumPy arrays."""
    tree = optree.tree_map(torch.tensor, params)
    state = dict(tree["embedding"])

    def linear(name, own, *parts):
        """W (in, out) and b are PyTorch's weight (out, in) and bias; several stand side by side."""
        state[f"{name}weight"] = torch.cat([own[f"W_{part}"].T for part in parts])
        state[f"{name}bias"] = torch.cat([own[f"b_{part}"] for part in parts])

    def norm(name, own):
        state[f"{name}.weight"], state[f"{name}.bias"] = own["gamma"], own["beta"]

    norm("blocks.norm", tree["decoder_norm"])
    for n, block in enumerate(tree["decoder"]):
        layer = f"blocks.layers.{n}"
        norm(f"{layer}.norm1", block["self_attention_norm"])
        norm(f"{layer}.norm2", block["feed_forward_norm"])
        linear(f"{layer}.self_attn.in_proj_", block["self_attention"], *"QKV")
        linear(f"{layer}.self_attn.out_proj.", block["self_attention"], "O")
        linear(f"{layer}.linear1.", block["feed_forward"], "1")
        linear(f"{layer}.linear2.", block["feed_forward"], "2")
    net = Decoder(config, lean)
    net.load_state_dict(state)
    return net
