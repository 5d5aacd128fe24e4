"""The bigram model of chapter 02, trained by automatic differentiation."""

import numpy as np
import torch


def torch_train(counts, rates, steps):
    """counts (V, V), rates (V, 1) -> losses (steps,) of gradient descent from logits 0.

    The loss is torch's own cross-entropy of each row against its shares, weighted by how often it is used.
    """
    rows = counts.sum(axis=1, keepdims=True)
    shares = torch.tensor(counts / np.maximum(rows, 1))
    weights, rates = torch.tensor(rows[:, 0] / rows.sum()), torch.tensor(rates)
    table, losses = torch.zeros(counts.shape, dtype=torch.float64, requires_grad=True), []
    for _ in range(steps):
        costs = torch.nn.functional.cross_entropy(table, shares, reduction="none")  # (V,)
        loss = (weights * costs).sum()
        (dtable,) = torch.autograd.grad(loss, table)
        losses.append(loss.item())
        with torch.no_grad():
            table -= rates * dtable
    return np.array(losses)
