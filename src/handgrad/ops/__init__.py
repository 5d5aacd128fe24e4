"""Every operation of the Transformer: here their names, in `table` how each is checked."""

from .activations import (
    ACTIVATIONS,
    gelu,
    gelu_backward,
    gelu_tanh,
    gelu_tanh_backward,
    relu,
    relu_backward,
    silu,
    silu_backward,
)
from .attention import attention, attention_backward
from .cross_entropy import cross_entropy, cross_entropy_backward
from .dropout import dropout, dropout_backward
from .embedding import embedding, embedding_backward, tied_head, tied_head_backward
from .feed_forward import (
    GATED,
    feed_forward,
    feed_forward_backward,
    gated_feed_forward,
    gated_feed_forward_backward,
)
from .flash_attention import flash_attention, flash_attention_backward
from .heads import (
    merge_heads,
    merge_heads_backward,
    repeat_heads,
    repeat_heads_backward,
    split_heads,
    split_heads_backward,
)
from .linear import linear, linear_backward
from .masks import causal_mask, padding_mask
from .multi_head import multi_head, multi_head_backward
from .normalization import layer_norm, layer_norm_backward, rms_norm, rms_norm_backward
from .positions import (
    add_positions,
    add_positions_backward,
    rotary,
    rotary_angles,
    rotary_backward,
    sinusoidal,
)
from .softmax import softmax, softmax_backward
