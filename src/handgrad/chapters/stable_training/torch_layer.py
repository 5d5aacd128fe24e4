"""What PyTorch makes of the same numbers: clipping, and rounding to bfloat16."""

import torch
from torch import nn


def clipped(arrays, max_norm):
    """What clip_grad_norm_ makes of gradients, a list of arrays, and the norm that it returns."""
    parameters = [nn.Parameter(torch.zeros(a.shape, dtype=torch.float64)) for a in arrays]
    for parameter, a in zip(parameters, arrays, strict=True):
        parameter.grad = torch.tensor(a)
    norm = nn.utils.clip_grad_norm_(parameters, max_norm)
    return [parameter.grad.numpy() for parameter in parameters], float(norm)


def bfloat16(x):
    """float32 x, rounded to bfloat16 by PyTorch, as float32."""
    return torch.tensor(x).to(torch.bfloat16).to(torch.float32).numpy()
