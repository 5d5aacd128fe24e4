"""What PyTorch does at the same places: dropout with given masks, clipping, the scale of the loss."""

from unittest import mock

import torch
from torch import nn

from handgrad import interop


class Weighing(nn.MultiheadAttention):
    """PyTorch's attention, told to take the way on which its weights are an array."""

    def forward(self, *inputs, **how):
        return super().forward(*inputs, **how | {"need_weights": True})


def with_masks(x, dy, params, H, keeps, p):
    """y, dx and the shapes of what PyTorch's encoder layer (post-norm, ReLU) drops, in its own order.

    x, dy (B, T, D). keeps: Boolean arrays, one for each call of dropout, in the order of the data.
    """
    D, F = params["feed_forward"]["W_1"].shape
    layer = nn.TransformerEncoderLayer(D, H, F, dropout=p, batch_first=True, dtype=torch.float64)
    interop.write(params, layer).self_attn.__class__ = Weighing
    shapes, waiting = [], list(keeps)

    def given(h, p=0.5, training=True, inplace=False):
        shapes.append(tuple(h.shape))
        keep = torch.tensor(waiting.pop(0)).reshape(h.shape)
        return h * keep / (1 - p)

    x = torch.tensor(x, requires_grad=True)
    with mock.patch.object(nn.functional, "dropout", given):
        y = layer(x)
    y.backward(torch.tensor(dy))
    return y.detach().numpy(), x.grad.numpy(), shapes


def clipped(arrays, max_norm):
    """What clip_grad_norm_ makes of gradients, a list of arrays, and the norm that it returns."""
    parameters = [nn.Parameter(torch.zeros(a.shape, dtype=torch.float64)) for a in arrays]
    for parameter, a in zip(parameters, arrays, strict=True):
        parameter.grad = torch.tensor(a)
    norm = nn.utils.clip_grad_norm_(parameters, max_norm)
    return [parameter.grad.numpy() for parameter in parameters], float(norm)


def scales(finite, start, interval):
    """The scale of GradScaler after each step, given which steps have finite gradients."""
    scaler = torch.amp.GradScaler("cpu", init_scale=start, growth_interval=interval)
    parameter = nn.Parameter(torch.ones(1))
    sgd = torch.optim.SGD([parameter], lr=0.0)
    found = []
    for good in finite:
        sgd.zero_grad()
        scaler.scale((parameter * (1.0 if good else float("inf"))).sum()).backward()
        scaler.step(sgd)
        scaler.update()
        found.append(scaler.get_scale())
    return found


def bfloat16(x):
    """float32 x, rounded to bfloat16 by PyTorch, as float32."""
    return torch.tensor(x).to(torch.bfloat16).to(torch.float32).numpy()
