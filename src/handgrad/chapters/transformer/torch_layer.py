"""PyTorch's own nn.Transformer as a whole model, and the same numbers in handgrad."""

import numpy as np
import optree
import torch
from torch import nn
from torch.nn import functional

from handgrad import interop, model, twin
from handgrad.chapters.transformer import whole
from handgrad.config import Config


def own(V=11, D=8, H=2, F=12, N=2, seed=0):
    """nn.Transformer of two stacks, every parameter random: its biases and norms too."""
    torch.manual_seed(seed)
    stacks = nn.Transformer(D, H, N, N, F, dropout=0.0, batch_first=True, dtype=torch.float64)
    with torch.no_grad():
        for parameter in stacks.parameters():
            parameter.normal_(0.3, 0.5)
    config = Config("encoder-decoder", V, D, H, F, N, final_norm=True, positions="learned", T_max=9)
    return stacks, config


def ours(stacks, config, rng):
    """The parameters of the stacks in handgrad's tree, with tables drawn from rng."""
    _, params = interop.read(stacks)
    E = rng.standard_normal((config.V, config.D))
    P, P_source = rng.standard_normal((2, config.T_max, config.D))
    return params | {"embedding": {"E": E, "P": P}, "source_embedding": {"P": P_source}}


def loss_and_gradients(stacks, params, batch):
    """The loss and all gradients by PyTorch: its look-ups, its stacks, its loss, its differentiation."""
    tables = optree.tree_map(
        lambda w: torch.tensor(w, requires_grad=True),
        {name: params[name] for name in ("embedding", "source_embedding")},
    )
    source, target_in, target_out = (torch.as_tensor(batch[k]) for k in ("source", "target_in", "target_out"))
    E = tables["embedding"]["E"]
    x = functional.embedding(source, E) + tables["source_embedding"]["P"][: source.shape[1]]
    y = functional.embedding(target_in, E) + tables["embedding"]["P"][: target_in.shape[1]]
    causal = nn.Transformer.generate_square_subsequent_mask(y.shape[1], dtype=torch.float64)
    stacks.zero_grad()
    logits = stacks(x, y, tgt_mask=causal) @ E.T
    loss = functional.cross_entropy(logits.flatten(0, 1), target_out.flatten())
    loss.backward()
    grads = interop.read_gradients(stacks) | optree.tree_map(lambda w: np.asarray(w.grad), tables)
    return float(loss.detach()), grads


def beside_the_twin(config, rng):
    """The worst relative error of any gradient beside the twin's; AssertionError if the losses differ."""
    params, some = whole.params(config, rng), whole.batch(config, rng)
    loss, grads = model.loss_and_gradients(params, config, some)
    wanted, of_torch = twin.loss_and_gradients(twin.load(twin.Twin(config), params), some)
    if not abs(loss - wanted) < 1e-12:
        raise AssertionError(f"loss: expected {wanted}, got {loss}")
    return twin.compare(grads, of_torch)
