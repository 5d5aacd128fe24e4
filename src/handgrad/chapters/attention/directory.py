"""The task of chapter 08: pages of a directory, and what a dull reader loses on them."""

import numpy as np


def page(rng, B=64, S=8, T=8, misprint=0.2):
    """B pages with S entries, letters and digits (B, S), and T questions with their answers, (B, T).

    The answer is the digit beside the letter asked, "truth"; with the probability `misprint` it is replaced
    by a random digit.
    """
    letters = rng.permuted(np.tile(np.arange(26), (B, 1)), axis=1)[:, :S]
    digits = rng.integers(10, size=(B, S))
    place = rng.integers(S, size=(B, T))  # of the entry asked for
    asked, truth = (np.take_along_axis(rows, place, axis=1) for rows in (letters, digits))
    misprinted = rng.random((B, T)) < misprint
    answers = np.where(misprinted, rng.integers(10, size=(B, T)), truth)
    return dict(letters=letters, digits=digits, asked=asked, truth=truth, answers=answers)


def probabilities(digits, misprint=0.2):
    """How probable each digit (..., 10) is as an answer, where these (...) are the true ones."""
    return misprint / 10 + (1 - misprint) * np.eye(10)[digits]


def dull_loss(pages, misprint=0.2):
    """The least expected loss of a reader who knows how often each digit stands on the page, and no more."""
    shares = np.eye(10)[pages["digits"]].mean(axis=1, keepdims=True)  # (B, 1, 10)
    guess = misprint / 10 + (1 - misprint) * shares
    return -(probabilities(pages["truth"], misprint) * np.log(guess)).sum(axis=-1).mean()
