"""The task of chapter 08: pages of a directory, what a dull reader loses on them, and the twin in PyTorch."""

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


def torch_loss(params, pages):
    """The loss of the chapter's model, by PyTorch's own embedding, attention and cross-entropy."""
    import torch
    from torch.nn import functional

    pages = {name: torch.tensor(numbers) for name, numbers in pages.items()}
    q = functional.embedding(pages["asked"], params["letters"]) @ params["W_Q"]
    k = functional.embedding(pages["letters"], params["letters"]) @ params["W_K"]
    v = functional.embedding(pages["digits"], params["digits"])
    z = functional.scaled_dot_product_attention(q, k, v) @ params["W_O"]
    return functional.cross_entropy(z.flatten(0, 1), pages["answers"].flatten())


def torch_train(params, rng, steps=100, rate=0.3):
    """The losses (steps,) of the same training by automatic differentiation, from these params."""
    import torch

    params = {name: torch.tensor(x, requires_grad=True) for name, x in params.items()}
    optimizer = torch.optim.SGD(params.values(), lr=rate)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = torch_loss(params, page(rng))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return np.array(losses)
