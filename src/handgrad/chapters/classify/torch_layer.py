"""The classifier as PyTorch has it: the twin's encoder, a linear layer on its first row, autograd."""

import torch
from torch.nn import functional as F

from handgrad import twin


def loss_and_gradients(params, config, batch):
    """The mean cross-entropy of the labels and its gradients, as `head.loss_and_gradients` has them.

    In float64. The twin has a head for the vocabulary as well, which is not used.
    """
    encoder = twin.Twin(config)
    own = {name: part for name, part in params.items() if name != "classifier"}
    twin.load(encoder, twin.dump(encoder) | own)
    W, b = (torch.tensor(params["classifier"][name], requires_grad=True) for name in "Wb")
    x = encoder.encode(torch.tensor(batch["tokens"]), twin.Dropout(config, None, "cpu"))
    loss = F.cross_entropy(F.linear(x[:, 0], W.T, b), torch.tensor(batch["target_out"]))
    loss.backward()
    grads = {name: part for name, part in twin.gradients(encoder).items() if name in own}
    return float(loss.detach()), grads | {"classifier": {"W": W.grad.numpy(), "b": b.grad.numpy()}}
