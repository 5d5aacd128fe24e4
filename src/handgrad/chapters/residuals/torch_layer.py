"""PyTorch's own encoder layer with the parameters of one of our blocks."""

import numpy as np
import torch
from torch import nn

from .stacks import attention_weights, feed_forward_weights


def same(place, D, F, H, seed):
    """An nn.TransformerEncoderLayer and the params of `blocks.encoder_block`, equal; "pre" or "post"."""
    rng = np.random.default_rng(seed)

    def affine():
        return {"gamma": 1 + 0.5 * rng.standard_normal(D), "beta": rng.standard_normal(D)}

    params = {"self_attention": attention_weights(D, rng), "feed_forward": feed_forward_weights(D, F, rng)}
    params |= {"self_attention_norm": affine(), "feed_forward_norm": affine()}
    layer = nn.TransformerEncoderLayer(D, H, F, 0.0, batch_first=True, norm_first=place == "pre", bias=False)
    layer = layer.double()
    attention, ours = layer.self_attn, params["self_attention"]
    copied = {attention.in_proj_weight: np.hstack([ours[name] for name in ("W_Q", "W_K", "W_V")]).T}
    copied |= {attention.out_proj.weight: ours["W_O"].T}
    copied |= {layer.linear1.weight: params["feed_forward"]["W_1"].T}
    copied |= {layer.linear2.weight: params["feed_forward"]["W_2"].T}
    for norm, name in ((layer.norm1, "self_attention_norm"), (layer.norm2, "feed_forward_norm")):
        copied[norm.weight] = params[name]["gamma"]
        params[name]["beta"] = np.zeros(D)  # without biases its norms have no β
    with torch.no_grad():
        for theirs, array in copied.items():
            theirs.copy_(torch.tensor(array))
    return layer, params


def run(layer, x, dy):
    """y and dx, as arrays."""
    leaf = torch.tensor(x, requires_grad=True)
    y = layer(leaf)
    y.backward(torch.tensor(dy))
    return y.detach().numpy(), leaf.grad.numpy()


def by_jacobians(x, dy, W_1, W_2):
    """dx of each placement, and post-norm's du, from PyTorch's Jacobians of LN and of f; x and dy (D,)."""
    A, C, x = (torch.tensor(a) for a in (W_1, W_2, x))

    def f(h):
        return torch.relu(h @ A) @ C

    def ln(h):
        return nn.functional.layer_norm(h, h.shape)

    def J(function, at):
        return torch.func.jacrev(function)(at).numpy()

    du = J(ln, x + f(x)).T @ dy
    return {
        "pre": dy + J(ln, x).T @ J(f, ln(x)).T @ dy,
        "output": dy + J(f, x).T @ J(ln, f(x)).T @ dy,
        "post": du + J(f, x).T @ du,
    }, du
