"""What PyTorch makes of the same layers: its own attention, and automatic differentiation of the writer."""

import numpy as np
import optree
import torch

from handgrad.chapters.cross_attention import writer
from handgrad.ops import cross_entropy

NAMES = {"W_Q": "q_proj_weight", "W_K": "k_proj_weight", "W_V": "v_proj_weight", "W_O": "out_proj.weight"}


def both(x, memory, dy, params, real, H):
    """y, dx, dmemory of nn.MultiheadAttention. params as in multi_head, without biases.

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
    return tuple(np.asarray(tensor.detach()) for tensor in (y, x.grad, memory.grad))


def gradients(params, batch):
    """The gradients of the writer's loss, by automatic differentiation of `writer.forward`."""
    leaves = optree.tree_map(lambda p: torch.tensor(p, requires_grad=True), params)
    z, _ = writer.forward(leaves, batch)
    cross_entropy(z, torch.tensor(batch["target_out"]))[0].backward()
    return optree.tree_map(lambda p: p.grad.numpy(), leaves)
