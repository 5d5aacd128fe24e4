"""PyTorch's own training of the same model, and its count of operations, for chapter 17."""

import numpy as np
import optree
import torch
from torch.utils.flop_counter import FlopCounterMode

from handgrad import decode, optim, twin

from .trials import windows


def losses(params, config, training, updates, B, T, peak, beta_2, eps, weight_decay):
    """The losses in bits of the chapter's loop: PyTorch's layers, differentiation, clipping and AdamW.

    Of ours are the first parameters, the batches and the rates.
    """
    draws, found = np.random.default_rng(1), []
    theirs = twin.load(twin.Twin(config), params)
    options = dict(betas=(0.9, beta_2), eps=eps, weight_decay=weight_decay)
    adam = torch.optim.AdamW(theirs.parameters(), **options)
    for update in range(1, updates + 1):
        loss = theirs.loss(windows(training, draws.integers(len(training) - T, size=B), T))
        adam.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(theirs.parameters(), 1.0)
        adam.param_groups[0]["lr"] = optim.cosine(update, updates, peak, min(100, updates // 4))
        adam.step()
        found.append(loss.item() / np.log(2))
    return np.array(found)


def operations(params, config, tokens):
    """Operations that PyTorch counts while tokens (1, L) are read: the last behind the others, then all."""
    tensors, found = optree.tree_map(torch.from_numpy, params), []
    _, past = decode.extend(tensors, config, tokens[:, :-1])
    for some, behind in ((tokens[:, -1:], past), (tokens, None)):
        with FlopCounterMode(display=False) as counter:
            decode.extend(tensors, config, some, behind)
        found.append(counter.get_total_flops())
    return found
