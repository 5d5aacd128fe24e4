"""PyTorch's count of the operations in writing a character, for chapter 17."""

import optree
import torch
from torch.utils.flop_counter import FlopCounterMode

from handgrad import decode


def operations(params, config, tokens):
    """Operations that PyTorch counts while tokens (1, L) are read: the last behind the others, then all."""
    tensors, found = optree.tree_map(torch.from_numpy, params), []
    _, past = decode.extend(tensors, config, tokens[:, :-1])
    for some, behind in ((tokens[:, -1:], past), (tokens, None)):
        with FlopCounterMode(display=False) as counter:
            decode.extend(tensors, config, some, behind)
        found.append(counter.get_total_flops())
    return found
