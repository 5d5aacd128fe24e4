"""The Transformer by hand: every gradient derived, checked and trained.

Letters, the same in the code and in the book:

    B  batch              T  query or target positions     S  key or source positions
    D  width of the model H  heads                         K  width of one head
    F  feed-forward width V  vocabulary                    N  layers

`dx` is the derivative of the loss with respect to x, and has the shape of x. The gradient that arrives
from above is `dy`. Every operation is a pair: `y, cache = op(x, ...)` and, directly below it,
`dx, ... = op_backward(dy, cache)`. The cache is a dictionary that holds what the backward needs.

Read the files in this order: algebra, ops/, check, blocks, config, model, optim, data, train, decode; then
fused, which is the model once more, made fast with the help of kernels, workspace and sharing; and parallel,
which trains it in several processes.
"""

__version__ = "0.1.0"
