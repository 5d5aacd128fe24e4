"""Attention with its mask in front of the softmax, and behind it."""

from ...mistakes import edited
from ...ops import attention, attention_backward

# After the softmax comes dropout. In the late layer it gets the mask, and the scores get none.
LATE = "scores = xp.where(whole_mask(mask, q, k), scores, -inf)"
LATE += " → keep = xp.broadcast_to(whole_mask(mask, q, k), scores.shape)"
FIRST, LAST = (attention, attention_backward), (edited(attention, LATE), attention_backward)
