"""The Transformer by hand: every gradient derived, checked and trained.

Letters, the same in the code and in the book:

    B  batch              T  query or target positions     S  key or source positions
    D  width of the model H  heads                         K  width of one head
    F  feed-forward width V  vocabulary                    N  layers

`dx` is the derivative of the loss with respect to x, and has the shape of x. The gradient that arrives
from above is `dy`. Every operation is a pair: `y, cache = op(x, ...)` and, directly below it,
`dx, ... = op_backward(dy, cache)`. The cache is a dictionary that holds what the backward needs.

Read the files in this order: algebra, ops/, check, mistakes/, blocks, config, model, optim, data, manual,
train, decode. Beside them stand sums, the engine of the derivations, twin, the same models in PyTorch, and
interop, which reads other people's models. fast/ is the model once more, made fast; course/ is what makes it
a book; chapters/ holds what belongs to one chapter.
"""

__version__ = "2.0.0"
