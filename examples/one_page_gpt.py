"""A GPT on one page: NumPy 2, no automatic differentiation, each backward below its forward.

It reads the manual that ships with Python, character by character, learns to guess the next one, and
writes some text of its own:

    python examples/one_page_gpt.py        two to three minutes on one core

B rows of T characters; width D, H heads of width K = D / H, N blocks, V different characters. An array dx
is the gradient of the loss by x, and has its shape. A forward returns its result and a cache; the backward
takes what arrives, and the cache.
"""

from pydoc_data.topics import topics

import numpy as np

# Layers ---------------------------------------------------------------------------------------------


def softmax(u):
    e = np.exp(u - u.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def softmax_backward(da, a):
    return a * (da - (a * da).sum(-1, keepdims=True))


def linear_backward(dy, x, W):  # of y = x @ W, with x (B, T, ·)
    return dy @ W.T, np.tensordot(x, dy, ((0, 1), (0, 1)))


def layer_norm(x, gamma, beta, eps=1e-5):
    r = 1 / np.sqrt(x.var(-1, keepdims=True) + eps)
    n = (x - x.mean(-1, keepdims=True)) * r
    return gamma * n + beta, (n, r, gamma)


def layer_norm_backward(dy, cache):
    n, r, gamma = cache
    dn = gamma * dy
    dx = r * (dn - dn.mean(-1, keepdims=True) - n * (dn * n).mean(-1, keepdims=True))
    return dx, (dy * n).sum((0, 1)), dy.sum((0, 1))


def split(x, H):  # (B, T, D) -> (B, H, T, K)
    return x.reshape(*x.shape[:2], H, -1).swapaxes(1, 2)


def merge(x):  # (B, H, T, K) -> (B, T, D)
    return x.swapaxes(1, 2).reshape(len(x), x.shape[2], -1)


def attention(x, W_Q, W_K, W_V, W_O, H):
    q, k, v = split(x @ W_Q, H), split(x @ W_K, H), split(x @ W_V, H)
    scale = q.shape[-1] ** -0.5
    allowed = np.tri(x.shape[1], dtype=bool)  # no position sees a later one
    a = softmax(np.where(allowed, scale * (q @ k.mT), -np.inf))  # (B, H, T, T)
    o = merge(a @ v)
    return o @ W_O, (x, W_Q, W_K, W_V, W_O, q, k, v, a, o)


def attention_backward(dy, cache):
    x, W_Q, W_K, W_V, W_O, q, k, v, a, o = cache
    do, dW_O = linear_backward(dy, o, W_O)
    do = split(do, q.shape[1])
    du = softmax_backward(do @ v.mT, a) * q.shape[-1] ** -0.5
    dq, dW_Q = linear_backward(merge(du @ k), x, W_Q)
    dk, dW_K = linear_backward(merge(du.mT @ q), x, W_K)
    dv, dW_V = linear_backward(merge(a.mT @ do), x, W_V)
    return dq + dk + dv, (dW_Q, dW_K, dW_V, dW_O)  # x is used three times


def gelu(h):  # with a tanh in the place of the exact one, as in GPT-2
    s = np.tanh((2 / np.pi) ** 0.5 * (h + 0.044715 * h**3))
    return 0.5 * h * (1 + s), (h, s)


def gelu_backward(dg, cache):
    h, s = cache
    ds = (2 / np.pi) ** 0.5 * (1 + 3 * 0.044715 * h**2) * (1 - s**2)
    return dg * (0.5 * (1 + s) + 0.5 * h * ds)


def feed_forward(x, W_1, W_2):
    g, activated = gelu(x @ W_1)
    return g @ W_2, (x, W_1, W_2, g, activated)


def feed_forward_backward(dy, cache):
    x, W_1, W_2, g, activated = cache
    dg, dW_2 = linear_backward(dy, g, W_2)
    dx, dW_1 = linear_backward(gelu_backward(dg, activated), x, W_1)
    return dx, (dW_1, dW_2)


# The model ------------------------------------------------------------------------------------------

NORM = ["gamma", "beta"]
ATTENTION = [*NORM, "W_Q", "W_K", "W_V", "W_O"]
FEED_FORWARD = [*NORM, "W_1", "W_2"]


def initial(rng, V, T, D, N, F=None):
    """The parameters: {name: array}, those of block 0 under names such as "0.attention.W_Q"."""
    F = F or 4 * D
    shapes = {"E": (V, D), "P": (T, D), "gamma": (D,), "beta": (D,)}
    for n in range(N):
        shapes |= {f"{n}.attention.{name}": (D,) if name in NORM else (D, D) for name in ATTENTION}
        widths = {"gamma": (D,), "beta": (D,), "W_1": (D, F), "W_2": (F, D)}
        shapes |= {f"{n}.feed_forward.{name}": shape for name, shape in widths.items()}
    params = {}
    for name, shape in shapes.items():
        spread = 0.02 if name in ("E", "P") else shape[0] ** -0.5
        params[name] = spread * rng.standard_normal(shape)
        if name.endswith(("W_O", "W_2")):  # 2 N branches add to the stream
            params[name] /= np.sqrt(2 * N)
        if name.endswith(("gamma", "beta")):
            params[name][...] = name.endswith("gamma")  # 1 and 0
    return params


def forward(params, tokens, H):
    """tokens (B, T) -> logits z (B, T, V), cache."""
    x = params["E"][tokens] + params["P"][: tokens.shape[1]]
    N, caches = sum(name.endswith("W_1") for name in params), []
    for n in range(N):
        for layer, names, more in ((attention, ATTENTION, [H]), (feed_forward, FEED_FORWARD, [])):
            gamma, beta, *weights = (params[f"{n}.{layer.__name__}.{name}"] for name in names)
            h, normed = layer_norm(x, gamma, beta)
            y, cache = layer(h, *weights, *more)
            x = x + y
            caches.append((n, layer.__name__, names, normed, cache))
    x, normed = layer_norm(x, params["gamma"], params["beta"])
    return x @ params["E"].T, (params, tokens, caches, normed, x)


def backward(dz, cache):
    """dz (B, T, V) -> the gradients, {name: array}."""
    params, tokens, caches, normed, x = cache
    grads = {"P": np.zeros_like(params["P"])}
    grads["E"] = np.tensordot(dz, x, ((0, 1), (0, 1)))  # the table as the head
    dx, grads["gamma"], grads["beta"] = layer_norm_backward(dz @ params["E"], normed)
    backwards = {"attention": attention_backward, "feed_forward": feed_forward_backward}
    for n, layer, names, normed, cache in reversed(caches):
        dh, dweights = backwards[layer](dx, cache)
        through, dgamma, dbeta = layer_norm_backward(dh, normed)
        dx = dx + through  # along the connection, and through the layer
        for name, gradient in zip(names, (dgamma, dbeta, *dweights)):
            grads[f"{n}.{layer}.{name}"] = gradient
    grads["P"][: tokens.shape[1]] = dx.sum(0)
    np.add.at(grads["E"], tokens, dx)  # the table as the look-up
    return grads


def cross_entropy(z, targets):
    """The mean of -ln p over all positions, and dz."""
    p, count = softmax(z), targets.size
    at = (*np.indices(targets.shape), targets)
    loss = -np.log(p[at]).mean()
    p[at] -= 1
    return loss, p / count


# Training -------------------------------------------------------------------------------------------


def clipped(grads, most=1.0):
    length = np.sqrt(sum((g * g).sum() for g in grads.values()))
    return {name: g * min(1, most / length) for name, g in grads.items()}


def adamw(params, grads, m, v, step, rate, betas=(0.9, 0.99), eps=1e-8, decay=0.1):
    """One step in place, counted from 1. Only matrices decay: no norm's γ or β."""
    for name, g in grads.items():
        m[name] = betas[0] * m[name] + (1 - betas[0]) * g
        v[name] = betas[1] * v[name] + (1 - betas[1]) * g * g
        mean, square = m[name] / (1 - betas[0] ** step), v[name] / (1 - betas[1] ** step)
        shrink = rate * decay if params[name].ndim == 2 else 0
        params[name] -= shrink * params[name] + rate * mean / (np.sqrt(square) + eps)


def train(params, text, H, steps, rng, B=16, rate=3e-3, warm_up=50):
    """Train the parameters in place on text (L,), integers. Yields the loss of every step, in bits."""
    T = len(params["P"])
    m, v = ({name: np.zeros_like(p) for name, p in params.items()} for _ in range(2))
    for step in range(1, steps + 1):
        rows = text[rng.integers(len(text) - T, size=B)[:, None] + np.arange(T + 1)]
        z, cache = forward(params, rows[:, :-1], H)
        loss, dz = cross_entropy(z, rows[:, 1:])  # the targets are the tokens, one place on
        now = rate * min(step / warm_up, 0.5 + 0.5 * float(np.cos(np.pi * step / steps)))
        adamw(params, clipped(backward(dz, cache)), m, v, step, now)
        yield loss / np.log(2)


def bits(params, text, H, rows=64):
    """The mean loss on evenly spread passages of a text that was held out, in bits."""
    T = len(params["P"])
    at = np.linspace(0, len(text) - T - 1, rows).astype(int)[:, None] + np.arange(T + 1)
    return cross_entropy(forward(params, text[at][:, :-1], H)[0], text[at][:, 1:])[0] / np.log(2)


def write(params, tokens, H, count, rng, temperature=0.8):
    """Append `count` tokens to a list of tokens, each drawn from what the model expects."""
    T = len(params["P"])
    for _ in range(count):
        z, _ = forward(params, np.array([tokens[-T:]]), H)
        p = softmax(z[0, -1].astype(float) / temperature)
        tokens = [*tokens, int(rng.choice(len(p), p=p))]
    return tokens


def main(steps=1500, T=64, D=64, H=4, N=2):
    manual = "\n".join(topics.values())
    characters = sorted(set(manual))
    places = {character: place for place, character in enumerate(characters)}
    text = np.array([places[character] for character in manual])
    text, held_out = np.split(text, [len(text) * 9 // 10])
    rng = np.random.default_rng(0)
    params = {name: np.float32(p) for name, p in initial(rng, len(characters), T, D, N).items()}
    print(f"{sum(p.size for p in params.values()):,} parameters, {len(text):,} characters")
    for step, loss in enumerate(train(params, text, H, steps, rng), 1):
        if step % 100 == 0:
            print(f"step {step:5}: {loss:.2f} bits, held out {bits(params, held_out, H):.2f}", flush=True)
    start = [places[character] for character in "The "]
    print("".join(characters[token] for token in write(params, start, H, 400, rng)))


if __name__ == "__main__":
    main()
