"""PyTorch's own layer with several heads, and its counter of operations."""

import sys
from unittest.mock import patch

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from ...accounting import cache_bytes
from ...ops import multi_head, multi_head_backward, repeat_heads

MULTI_HEAD = sys.modules[multi_head.__module__]  # the module, whose name its function has taken


def theirs(params, x, dy, H):
    """y, dx and gradients in our orientation, of `torch.nn.MultiheadAttention` on x (B, T, D)."""
    width = x.shape[-1]
    layer = torch.nn.MultiheadAttention(width, H, bias=False, batch_first=True).double()
    stacked = np.concatenate([params[name].T for name in ("W_Q", "W_K", "W_V")])
    layer.in_proj_weight.data = torch.tensor(stacked)
    layer.out_proj.weight.data = torch.tensor(params["W_O"].T.copy())
    x = torch.tensor(x, requires_grad=True)
    y = layer(x, x, x)[0]
    y.backward(torch.tensor(dy))
    parts = np.split(layer.in_proj_weight.grad.numpy().T, 3, axis=1)
    gradients = dict(zip(("W_Q", "W_K", "W_V"), parts, strict=True))
    gradients["W_O"] = layer.out_proj.weight.grad.numpy().T
    return y.detach().numpy(), x.grad.numpy(), gradients


def drawn(H, H_kv, B, T, S, D):
    """x, memory and params of a layer without biases."""
    rng, K = np.random.default_rng(5), D // H
    shapes = {"W_Q": (D, D), "W_K": (D, H_kv * K), "W_V": (D, H_kv * K), "W_O": (D, D)}
    params = {name: rng.standard_normal(shape) for name, shape in shapes.items()}
    return rng.standard_normal((B, T, D)), rng.standard_normal((B, S, D)), params


def in_torch(x, memory, params):
    return *map(torch.tensor, (x, memory)), {name: torch.tensor(W) for name, W in params.items()}


def counted(H, H_kv, B=2, T=24, S=40, D=64):
    """Multiply-adds of the shipped forward, float64 numbers that it keeps, parameters, and its cache."""
    given = drawn(H, H_kv, B, T, S, D)
    with FlopCounterMode(display=False) as counter:
        multi_head(*in_torch(*given), H)
    _, cache = multi_head(*given, H)
    return counter.get_total_flops() // 2, cache_bytes(cache) // 8, given[2], cache


def before_copying(H, H_kv, B=2, T=24, S=40, D=64):
    """How many numbers of keys and values the shipped forward hands to `repeat_heads`."""
    with patch.object(MULTI_HEAD, "repeat_heads", wraps=repeat_heads) as watched:
        multi_head(*drawn(H, H_kv, B, T, S, D), H)
    return sum(call.args[0].size for call in watched.call_args_list)


def counted_backward(H, H_kv, B=2, T=24, S=40, D=64):
    """Multiply-adds of the shipped backward."""
    y, cache = multi_head(*in_torch(*drawn(H, H_kv, B, T, S, D)), H)
    with FlopCounterMode(display=False) as counter:
        multi_head_backward(torch.ones_like(y), cache)
    return counter.get_total_flops() // 2
