"""The classifier as PyTorch has it: the twin's encoder, a linear layer on its first row, autograd."""

import torch
from torch.nn import functional as F

from handgrad import twin


class Classifier(torch.nn.Module):
    """The encoder of a twin and nn.Linear on row 0, with the parameters of `head.begun`, in float64."""

    def __init__(self, params, config):
        """The twin has a head for the vocabulary as well, which is not used."""
        super().__init__()
        self.twin, self.rest = twin.Twin(config), {"head", "head_norm"}
        whole = twin.dump(self.twin) | {name: part for name, part in params.items() if name != "classifier"}
        twin.load(self.twin, whole)
        W = params["classifier"]["W"]
        self.linear = torch.nn.Linear(*W.shape, dtype=torch.float64)
        with torch.no_grad():
            self.linear.weight.copy_(torch.tensor(W.T))
            self.linear.bias.copy_(torch.tensor(params["classifier"]["b"]))

    def forward(self, tokens):
        """tokens (B, T) -> scores (B, C)."""
        no_dropout = twin.Dropout(self.twin.config, None, "cpu")
        return self.linear(self.twin.encode(torch.tensor(tokens), no_dropout)[:, 0])

    def loss(self, batch):
        """The mean cross-entropy of the labels, a tensor."""
        return F.cross_entropy(self(batch["tokens"]), torch.tensor(batch["target_out"]))

    def gradients(self, batch):
        """The loss and the gradients, a tree like that of `head.loss_and_gradients`."""
        self.zero_grad()
        loss = self.loss(batch)
        loss.backward()
        grads = {n: part for n, part in twin.gradients(self.twin).items() if n not in self.rest}
        W, b = (part.grad.numpy().copy() for part in (self.linear.weight, self.linear.bias))
        return float(loss.detach()), grads | {"classifier": {"W": W.T, "b": b}}
