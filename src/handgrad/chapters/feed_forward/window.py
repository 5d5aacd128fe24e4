"""What chapter 04 trains: windows of a text, counted baselines, first parameters, the same in PyTorch."""

import numpy as np
import optree

from ...manual import V, count_pairs

EACH = 16  # width of one embedded character
KAPPAS = np.geomspace(0.1, 1000, 41)  # how strongly a counted context may be smoothed


def windows(tokens, length):
    """Every stretch of a text: tokens (L,) -> (L - length, length + 1), the last column to be predicted."""
    return np.lib.stride_tricks.sliding_window_view(tokens, length + 1)


def init(seed, length=8, F=256, size=2**0.5, bias=0.0):
    """Parameters, float32: a table of characters and a feed-forward layer to V logits.

    The weights W_1 are N(0, size² / inputs), W_2 are N(0, 1 / inputs); bias is every entry of b_1.
    """
    draw, D = _weights(seed), length * EACH
    E = draw(1, V * EACH).reshape(V, EACH)
    layer = {"W_1": size * draw(D, F), "W_2": draw(F, V)}
    biases = {"b_1": np.full(F, bias), "b_2": np.zeros(V)}
    return optree.tree_map(np.float32, {"E": E, "layer": layer | biases})


def init_gated(seed, length=8, F=163):
    """The same with a gated layer; 163 hidden units have about as many parameters as 256 plain ones."""
    draw, D = _weights(seed), length * EACH
    E = draw(1, V * EACH).reshape(V, EACH)
    layer = {"W_gate": draw(D, F), "W_up": draw(D, F), "W_down": draw(F, V)}
    return optree.tree_map(np.float32, {"E": E, "layer": layer})


def _weights(seed):
    rng = np.random.default_rng(seed)
    return lambda m, n: rng.standard_normal((m, n)) / np.sqrt(m)


def counted(training, held_out, most=3, even=1):
    """Held-out loss of tables of counts: {characters seen before: nats per character}, from 0 to `most`.

    training (n, most + 1 or more), held_out (m, …): windows, of which the last columns are used. A context of
    length l that occurred n times gives a character that followed it n_a times the probability
    (n_a + κ p_a)/(n + κ). p is that of the context one shorter; for l = 0 to `even` it is uniform. κ is the
    one of `KAPPAS` with the lowest loss on the held-out windows themselves.
    """
    losses, p = {}, np.full(len(held_out), 1 / V)
    for length in range(most + 1):
        base = np.full(len(held_out), 1 / V) if length <= even else p
        of_pair, of_context = seen(training, held_out, length)
        tried = [(of_pair + kappa * base) / (of_context + kappa) for kappa in KAPPAS]
        p = min(tried, key=lambda p: -np.log(p).mean())
        losses[length] = float(-np.log(p).mean())
    return losses


def seen(training, held_out, length):
    """How often each held-out window's last characters, and those without the last, occur in training."""
    with_next = [_number(w[:, w.shape[1] - 1 - length :]) for w in (training, held_out)]
    of_pair = _occurrences(*with_next)
    return of_pair, _occurrences(*(keys // V for keys in with_next))


def named(counts):
    """What `counted` found, and ln V, with names for a figure."""
    names = ("single characters", "pairs", "three characters", "four characters")
    return {"ln 96": float(np.log(V))} | dict(zip(names, counts.values(), strict=True))


def pairs(tokens):
    """Every pair of characters of a text (n, 2), its share of all pairs (n,), and the counted entropy.

    The entropy, of the second given the first, is the least that a model of one character can cost here.
    """
    table = count_pairs(tokens)
    found = np.argwhere(table)
    times = table[tuple(found.T)]
    share = times / times.sum()
    return found, share, float(-share @ np.log(times / table.sum(axis=1)[found[:, 0]]))


def moved(before, after):
    """The names of the parameters that differ between two trees, if only by a bit."""
    one, other = (tree["layer"] | {"E": tree["E"]} for tree in (before, after))
    return sorted(name for name in one if not np.array_equal(one[name], other[name]))


def numbers_kept(cache, T):
    """How many numbers the arrays of a cache hold that have a row for each of T tokens, each array once."""
    leaves = [leaf for leaf in optree.tree_leaves(cache) if getattr(leaf, "shape", (0,))[:1] == (T,)]
    return sum({id(leaf): leaf.size for leaf in leaves}.values())


def _number(columns):
    """Rows of characters as one integer each."""
    keys = np.zeros(len(columns), dtype=np.int64)
    for column in columns.T:
        keys = keys * V + column
    return keys


def _occurrences(keys, wanted):
    """How often each wanted key is among the keys."""
    values, counts = np.unique(keys, return_counts=True)
    places = np.minimum(np.searchsorted(values, wanted), len(values) - 1)
    return np.where(values[places] == wanted, counts[places], 0)


def twin_train(params, batches, rates):
    """The losses of the same training with ReLU, its gradients made by PyTorch; params are not changed."""
    import torch
    from torch.nn import functional

    leaves = optree.tree_map(lambda p: torch.tensor(p, requires_grad=True), params)
    E, layer, losses = leaves["E"], leaves["layer"], []
    for batch, rate in zip(batches, rates, strict=True):
        batch = torch.tensor(np.array(batch))
        x = functional.embedding(batch[:, :-1], E).flatten(1)
        hidden = functional.linear(x, layer["W_1"].T, layer["b_1"])
        z = functional.linear(functional.relu(hidden), layer["W_2"].T, layer["b_2"])
        loss = functional.cross_entropy(z, batch[:, -1])
        gradients = torch.autograd.grad(loss, optree.tree_leaves(leaves))
        with torch.no_grad():
            for p, gradient in zip(optree.tree_leaves(leaves), gradients, strict=True):
                p -= rate * gradient
        losses.append(loss.item())
    return np.array(losses)
