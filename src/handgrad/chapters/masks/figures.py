"""The figures of chapter 09. Each function draws what it is given; the notebook computes every number."""

import numpy as np

from handgrad.course.figures import COLOUR, LINES, WIDTH, one_query, subplots


def kinds(masks, tokens):
    """Masks {title: (T, T) or (T,)} as tables: queries downwards, keys across; tokens: their names."""
    fig, axes = subplots(1, len(masks), (WIDTH, 2.9))
    for ax, (title, mask) in zip(axes, masks.items(), strict=True):
        mask = np.broadcast_to(mask, (len(tokens), len(tokens)))
        ax.imshow(mask, cmap="Blues", vmin=0, vmax=2)
        for (i, j), allowed in np.ndenumerate(mask):
            look = dict(color=COLOUR["black"]) if allowed else dict(color=COLOUR["grey"])
            ax.text(j, i, int(allowed), ha="center", va="center", fontsize=11, **look)
        ax.set_title(title)
        ax.set_xticks(range(len(tokens)), tokens, rotation=90)
        ax.set_yticks(range(len(tokens)), tokens)
        ax.tick_params(length=0, labelleft=ax is axes[0])
        ax.set_xlabel("key")
    axes[0].set_ylabel("query")
    return fig


def integers(words):
    """One query, three keys named by words, the last forbidden: what passes forward, and what comes back."""
    scores, weights, values = ["ln 3", "0", "−∞"], ["¾", "¼", "0"], ["0", "64", "80"]
    return one_query(scores, weights, values, "16", ["−12", "+12", "0"], words)


def answer(axes, a, du, on, keys):
    """One row: its weights a (S,) at the left, the gradient of its scores du (S,) at the right."""
    left, right = axes
    places = np.arange(len(keys))
    left.bar(places, a, color=COLOUR["blue"], width=0.6)
    right.bar(places, du, color=[COLOUR["vermilion"] if d > 0 else COLOUR["blue"] for d in du], width=0.6)
    right.axhline(0, color=COLOUR["black"], lw=0.8, ls="-")
    left.set(ylim=(0, 1.05), ylabel="a")
    right.set(ylim=(-1.3, 1.3), ylabel="du")
    for ax in axes:
        for place in places[~np.array(on)]:
            ax.axvspan(place - 0.4, place + 0.4, color="#E4E4E4", lw=0)
        ax.set_xlim(-0.5, len(keys) - 0.5)
        ax.set_xticks(places, keys)
        ax.tick_params(length=0)


def shares(rho, following):
    """Shares rho (n, 2) of two heads, each case drawn as the token that follows (n,)."""
    fig, ax = subplots(size=(WIDTH, 4.0))
    looks = [COLOUR[name] for name in LINES]
    for token in np.unique(following):
        x, y = rho[following == token].T
        look = dict(marker=f"${token}$", ls="none", ms=7, alpha=0.8)
        ax.plot(x, y, color=looks[token % len(looks)], mec="none", **look)
    ax.set(xlabel="share ρ, head 0", ylabel="share ρ, head 1", xlim=(-0.03, 1.03), ylim=(-0.03, 1.03))
    return fig
