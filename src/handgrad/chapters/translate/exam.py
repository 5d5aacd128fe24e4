"""The examination of chapter 16, for the model of its notebook and for those of benchmarks/translate.py."""

import numpy as np

from handgrad import decode


def examine(params, config, pairs, length):
    """Greedy translations (B, length) of all pairs, and which of them are right (B,): every word of them."""
    vocabulary = pairs.vocabulary
    ends = {"bos": vocabulary.bos, "eos": vocabulary.eos, "max_length": length}
    translations = decode.greedy(decode.translator(params, config, pairs.source), len(pairs), **ends)
    target = np.pad(pairs.target, ((0, 0), (0, length - pairs.target.shape[1])))
    return translations, (translations == target).all(axis=1)
