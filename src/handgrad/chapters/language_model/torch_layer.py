"""PyTorch's own training of the same model, for the race of chapter 17."""

import copy

import numpy as np
import torch

from handgrad import twin


def losses(state, draw, config, recipe, updates):
    """The losses of so many updates: PyTorch's layers, differentiation, clipping and AdamW.

    Of ours are the first parameters, the batches and the rates.
    """
    rng, found = copy.deepcopy(state.rng), []
    theirs = twin.load(twin.Twin(config), state.params)
    options = dict(betas=(recipe.beta_1, recipe.beta_2), eps=recipe.eps, weight_decay=recipe.weight_decay)
    adam = torch.optim.AdamW(theirs.parameters(), **options)
    for update in range(1, updates + 1):
        loss = theirs.loss(draw(rng, recipe.batch_size))
        adam.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(theirs.parameters(), recipe.max_norm)
        adam.param_groups[0]["lr"] = recipe.rate(update)
        adam.step()
        found.append(loss.item())
    return np.array(found)


def operations(params, config, tokens):
    """Operations that PyTorch counts while tokens (1, L) are read: the last behind the others, then all."""
    import optree
    from torch.utils.flop_counter import FlopCounterMode

    from handgrad import decode

    tensors, found = optree.tree_map(torch.from_numpy, params), []
    _, past = decode.extend(tensors, config, tokens[:, :-1])
    for some, behind in ((tokens[:, -1:], past), (tokens, None)):
        with FlopCounterMode(display=False) as counter:
            decode.extend(tensors, config, some, behind)
        found.append(counter.get_total_flops())
    return found
