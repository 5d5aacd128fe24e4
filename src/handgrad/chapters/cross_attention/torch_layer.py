"""What PyTorch makes of the same layers: its own attention, and automatic differentiation of the writer."""

import numpy as np
import optree
import torch
from torch.utils.flop_counter import FlopCounterMode

from handgrad.chapters.cross_attention import writer
from handgrad.ops import cross_entropy, multi_head

NAMES = {"W_Q": "q_proj_weight", "W_K": "k_proj_weight", "W_V": "v_proj_weight", "W_O": "out_proj.weight"}


def both(x, memory, dy, params, real, H):
    """{y, dx, dmemory, W_Q, ...} of nn.MultiheadAttention. params as in multi_head, without biases.

    x, dy (B, T, D), memory (B, S, D'), real (B, S): false at padding.
    """
    D, width = x.shape[-1], memory.shape[-1]
    layer = torch.nn.MultiheadAttention(
        D, H, kdim=width, vdim=width, bias=False, batch_first=True, dtype=torch.float64
    )
    with torch.no_grad():
        for name, W in params.items():
            layer.get_parameter(NAMES[name]).copy_(torch.tensor(W.T))  # it keeps the transpose
    x, memory = (torch.tensor(array, requires_grad=True) for array in (x, memory))
    y, _ = layer(x, memory, memory, key_padding_mask=torch.tensor(~real))
    y.backward(torch.tensor(dy))
    found = {"y": y.detach(), "dx": x.grad, "dmemory": memory.grad}
    found |= {name: layer.get_parameter(NAMES[name]).grad.T for name in params}
    return {name: np.asarray(tensor) for name, tensor in found.items()}


def flops(x, memory, params, H):
    """What the products of matrices cost by PyTorch's count: our forward, and the backward that it makes."""
    leaves = optree.tree_map(lambda p: torch.tensor(p, requires_grad=True), (x, memory, params))
    with FlopCounterMode(display=False) as forward:
        y, _ = multi_head(*leaves, H)
    with FlopCounterMode(display=False) as backward:
        y.sum().backward()
    return forward.get_total_flops(), backward.get_total_flops()


def gradients(params, batch, **options):
    """The gradients of the writer's loss, by automatic differentiation of `writer.forward` with options."""
    leaves = optree.tree_map(lambda p: torch.tensor(p, requires_grad=True), params)
    z, _ = writer.forward(leaves, batch, **options)
    cross_entropy(z, torch.tensor(batch["target_out"]))[0].backward()
    return optree.tree_map(lambda p: np.zeros(p.shape) if p.grad is None else p.grad.numpy(), leaves)
