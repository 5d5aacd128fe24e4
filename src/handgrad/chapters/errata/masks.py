"""What leaks if the mask stands behind the softmax."""

import numpy as np

from ...mistakes import edited
from ...ops import attention, attention_backward

# After the softmax comes dropout. In the late layer it gets the mask, and the scores get none.
LATE = "scores = xp.where(whole_mask(mask, q, k), scores, -inf)"
LATE += " → keep = xp.broadcast_to(whole_mask(mask, q, k), scores.shape)"
FIRST, LAST = (attention, attention_backward), (edited(attention, LATE), attention_backward)


def to_the_future(pair, T=6, K=4, seed=0):
    """The longest gradient that a later key receives, over the longest that any key does."""
    rng = np.random.default_rng(seed)
    q, k, v = rng.standard_normal((3, T, K))
    _, cache = pair[0](q, k, v, np.tri(T, dtype=bool))
    arrived = []
    for i in range(T):
        dy = np.zeros((T, K))
        dy[i] = rng.standard_normal(K)
        arrived.append(np.linalg.norm(pair[1](dy, cache)[1], axis=1))
    arrived = np.array(arrived)
    return float(np.triu(arrived, 1).max() / arrived.max())
