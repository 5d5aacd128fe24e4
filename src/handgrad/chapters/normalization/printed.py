"""Six blocks LN(x + f(x)) below a mean square: text D's program (book/notation.md), with PyTorch's layers."""

import numpy as np


def six_blocks(D=16, N=6):
    """N blocks, each of two linear layers and a LayerNorm, drawn from torch's global generator."""
    from torch import nn

    return [(nn.Linear(D, D), nn.Linear(D, D), nn.LayerNorm(D)) for _ in range(N)]


def gradient_norms(seed=0, T=10, D=16):
    """The norm of every parameter's gradient, (6, 6): a row for each block, W_1, b_1, W_2, b_2, γ, β.

    As in text D: float32, the seed 0, the tokens drawn before the blocks; the loss is the mean square of the
    outputs. The global generator is left as it was.
    """
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        x = torch.randn(1, T, D)
        blocks = six_blocks(D)
    for first, second, norm in blocks:
        x = norm(x + second(torch.relu(first(x))))
    x.pow(2).mean().backward()
    return np.array([[p.grad.norm().item() for layer in b for p in layer.parameters()] for b in blocks])
