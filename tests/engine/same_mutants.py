"""Edits that change nothing: why, for a function and a part of the place of each edit.

No other edit of the functions of `mutants_of_models` passes its cases, and for each part there is one.
"""

TERMS = "terms and factors may change places"
KEYS = "the order of the keys is not felt"
APART = "these are computed apart from each other, in any order"
EMPTY = "both are empty there"
TWICE = "exchanged in the cache, and exchanged again where they are used"
MEAN = "dx of LayerNorm has mean 0 already"
SOFTMAX = "the softmax takes away what all entries of a row share"
SUM = "the rows of dS sum to 0 already"
SCRATCH = "these numbers are written before they are read"
RETURNED = "what is returned is used, and not the array that was given for it"
KIND = "it is asked for its library, type or length only"
DEVICE = "it brings arrays to the device of the parameters; on a CPU torch takes NumPy's as they are"
SPEED = "it is slower or quicker, or takes more memory or less"
FLAGS = "0 and 1 are their own roots and squares"
INFINITE = "twice and half of infinity are infinity, and of 0 are 0"
REST = "what is too much in the list is never asked for"
NO_DROPOUT = "without keep, p is not asked"
ONE_AXIS = "the first axis is the last, or has length 1"
SAME_ARRAY = "both names are one array there"
ZERO = "the start of a sum or product: 0 times anything, its root, its square and -0 are 0"
ONES = "1 is its own root and square, and as a factor or divisor it changes nothing"
TYPE = "it makes a number one of the arrays' own type, which is felt in float32 only, as slowness"
EQUAL = "where the two are equal, either may be taken"
FALSE = "it is as false, or as true, as what stood there"

SAME = {
    "blocks.normalize_backward": {"In `dx`: the mean is taken away from `dx`.": MEAN},
    "blocks.sublayer_backward": {
        "`dy` stands where `dh` should, in `normalize_backward(dh, output)`": SAME_ARRAY,
        "In all of `dy + dh`: `dh` and `dy` are exchanged.": TERMS,
    },
    "blocks.self_attend_backward": {
        "`dx` and `dmemory` are exchanged, at the left.": TERMS,
        "Everywhere: `dmemory` and `dx` are exchanged.": TERMS,
    },
    "model.head_backward": {"`own.items()` is run through the other way round": KEYS},
    "model.backward": {
        "`grads.items()` is run through the other way round": KEYS,
        "`of_decoder` stands where `grads` should": SAME_ARRAY,
    },
    "model.loss_and_gradients": {
        "In `targets`: `like` is left out": DEVICE,
        "In `(loss, counted)`: the mean is taken away from `logits`.": SOFTMAX,
    },
    "sharing.weighted_targets": {
        "a root is taken of `like(counted, x)`": FLAGS,
        "`like(counted, x)` is squared": FLAGS,
        "`counted` stands there twice": FLAGS,
        "the factor `weights` is too many, at `1 / m`": FLAGS,
        "`like` is left out, around `targets * counted`": DEVICE,
    },
    "sharing.keeps_of": {"the factor `2` is too many, at `keeps`": REST},
    "sharing.next_keep_of": {
        "`keeps` is run through the other way round": KEYS,
        "a root is taken of `next(own)[1][rows]`": FLAGS,
        "`next(own)[1][rows]` is squared": FLAGS,
        "a root is taken of `keep if site": FLAGS,
        "`keep if site == 'attention' else keep.reshape(-1, keep.shap…` is squared": FLAGS,
    },
    "sharing.arguments_of": {
        "`batch.items()` is run through the other way round": KEYS,
        "In `E`: ": KIND,
    },
    "sharing.receiving": {
        "is run through the other way round": SPEED,
        "`arrays + leaves` has lost its": SPEED,
        "is not asked: it is always True": SPEED,
        "+ 1` stands where `len(": SPEED,
        "In `workspace.received`: the line `workspace.received = ": SPEED,
    },
    "sharing.gradients_of_others": {"is run through the other way round": APART},
    "sharing.added_up": {
        "is run through the other way round": APART,
        "`optree.tree_leaves(grads)` has lost its first": "the first leaf is a matrix",
        "`leaf.ndim == 1` is not asked: it is always True": SPEED,
    },
    "memory.empty": {
        "is squared": SPEED,
        "`LINE // dtype.itemsize + 1`": SPEED,
        "the factor `2` is too many, at `LINE": SPEED,
        "the factor `2` is too many, at `size`": SPEED,
        "the factor `2` is too many, at `line`": SPEED,
        "`empty(size + line, dtype)`": SCRATCH,
    },
    "memory.shares": {"`min` is given": TERMS},
    "loops.exp": {
        "`zero`": ZERO,
        "at `half`": "a quarter is as good: the rest of the division by ln 2 is still small",
        "`series` has lost its first": "a term below the rounding",
        "`x < lowest` is not asked": "the last line sees to it",
        "`x <= lowest`": EQUAL,
        "`x >= highest`": EQUAL,
        "`integer` is left out": TYPE,
        "`r` and `y` are exchanged": TERMS,
    },
    "loops.normalize": {
        "run through the other way round": APART,
        "In `variance`: the ": "the other factor has mean 0 already",
        "In `variance`: the factor": "the other factor has mean 0 already",
        "`number` is left out": TYPE,
        "`zero`": ZERO,
        "`one`": ONES,
    },
    "loops.normalize_backward": {
        "run through the other way round": APART,
        "`number` is left out": TYPE,
        "`zero`": ZERO,
        "are exchanged": TERMS,
    },
    "loops.scale_shift": {"run through the other way round": APART},
    "loops.dropped_sum": {
        "run through the other way round": APART,
        "belongs to `own * scale`": INFINITE,
        "are exchanged": TERMS,
    },
    "loops.softmax": {
        "run through the other way round": APART,
        "`zero`": ZERO,
        "infinity`": INFINITE,
        "`exp(scale * (row[j] - top))`": "what all of a row share is divided away",
    },
    "loops.softmax_backward": {
        "run through the other way round": APART,
        "`zero`": ZERO,
        "are exchanged": TERMS,
    },
    "loops.turn": {
        "run through the other way round": APART,
        "0 stands where 1 should": "half the width of all heads is at least the width of one",
    },
    "loops.scatter_add": {"run through the other way round": APART},
    "loops.cross_entropy": {
        "run through the other way round": APART,
        "`number` is left out": TYPE,
        "`smoothing > zero` is not asked": SPEED,
        "`smoothing >= zero`": SPEED,
        "`zero`": ZERO,
        "belongs to": TERMS,
        "are exchanged": TERMS,
    },
    "loops.adamw": {"run through the other way round": APART},
    "loops.active": {
        "run through the other way round": APART,
        "belongs to": TERMS,
        "are exchanged": TERMS,
    },
    "loops.active_backward": {
        "run through the other way round": APART,
        "belongs to": TERMS,
        "are exchanged": TERMS,
    },
    "loops.largest": {
        "run through the other way round": APART,
        "In `whole`: ": SPEED,
        "`max` is given": TERMS,
        "]": EQUAL,
        "infinity`": INFINITE,
        "are exchanged": TERMS,
    },
    "loops.relu_gate": {"`one if x > zero else zero`": FLAGS, "`one`": ONES},
    "loops.relu_slope": {"`gate`": FLAGS},
    "loops.gelu_gate": {
        "`x >= zero`": "at 0 both are 1/2",
        "`zero`": ZERO,
        "`one`": ONES,
        "belongs to": TERMS,
        "are exchanged": TERMS,
    },
    "loops.gelu_slope": {"belongs to": TERMS},
    "loops.gelu_tanh_gate": {"belongs to": TERMS, "`one`": ONES},
    "loops.gelu_tanh_slope": {"`number` is left out": TYPE},
    "loops.silu_gate": {"`one`": ONES},
    "step.embed": {
        "`0` stands there twice": INFINITE,
        "`index` stands there twice": "0 times anything is 0",
        "In `(x, normed)`: the mean is taken away from `x`": RETURNED,
    },
    "step.normalize": {"`scale_shift` is given `x_hat` and `gamma` in the wrong order": TERMS},
    "step.normalize_backward": {
        "`arena.blocks(dy, x_hat, inverse_std)` is run through the other way round": APART,
        "is given `d` and `hat` in the wrong order": TERMS,
        "`scale_shift` is given `d` and `gamma` in the wrong order": TERMS,
        "`subtract_product` is given `hat` and `through_variance` in the wrong order": TERMS,
        "the mean is taken away from `product`": SCRATCH,
    },
    "step.joined": {
        "`W` is run through the other way round": "a sum",
        "`(W, b)` is run through the other way round": APART,
        "-1 stands where 0 should, in `axis=0`": ONE_AXIS,
        "In `the results`: -1 stands where 0 should": KIND,
        "In `W`: -1 stands where 0 should": KIND,
    },
    "step.project": {"`names` is run through the other way round": "the columns say where each name is"},
    "step.project_backward": {
        "is run through the other way round": APART,
        "W - 1 stands where W should, in `out=W`": RETURNED,
        "In `sums`: the mean is taken away from `W`": RETURNED,
    },
    "step.attention": {
        "`min` is given": TERMS,
        "stands where `hidden` should, in `hidden is not None`": SPEED,
        "at `future[:length, :length]`": INFINITE,
        "at `hidden[..., :end]`": INFINITE,
    },
    "step.attention_backward": {
        "`multiply` is given `dy` and `factor` in the wrong order": TERMS,
        "`library(do) is not np` is": SPEED,
        "`arena.copy` is left out, around `do`": SPEED,
        "the line `do = arena.copy(do)` is left out": SPEED,
        "`arena.copy` stands where `arena.like` should": SPEED,
        "the mean is taken away from `ds`": SUM,
        "the mean is taken away from `part`": RETURNED,
        "Everywhere: `k` and `q` are exchanged": TWICE,
        "Everywhere: `q` and `v` are exchanged": TWICE,
        "Everywhere: `k` and `v` are exchanged": TWICE,
    },
    "step.multi_head": {
        "is run through the other way round": APART,
        "is not asked: it is always True": SPEED,
        "the factor `2` is too many, at `[(h, 'QKV')]": "done twice, with the same result",
        "`parts` and `whole` are exchanged, at the left": EMPTY,
    },
    "step.multi_head_backward": {
        "is run through the other way round": APART,
        "`parts.items()` has lost its first": "the first is Q, which lies in its place already",
        "`dmemory is None` is not asked: it is always False": "zip ends with the cache of self-attention",
        "of `parts[name].shape == x.shape and": SPEED,
        "of `name == 'Q' or library(x) is np`": SPEED,
        "`in_place` is not asked: it is always False": SPEED,
        "`whole[name].shape != part.shape` is not asked: it is always True": "a sum over one copy",
        "`whole[name] is not part` is not asked: it is always True": SPEED,
        "at `parts[name] if in_place else arena.like(x)`": SPEED,
        "`parts[name] if in_place else arena.like(x)` ": SPEED,
        "in `for name, x in zip('QKV'": KIND,
        """stands where "Q" should, in `in_place = """: SPEED,
        "`parts` stands where `whole` should, in `attention_backward(": SAME_ARRAY,
        "`whole` stands where `parts` should, in `turn(parts['Q']": SAME_ARRAY,
    },
    "step.active": {"is run through the other way round": APART},
    "step.active_again": {
        "is run through the other way round": APART,
        "is given `own_h` and `own_gate` in the wrong order": TERMS,
    },
    "step.feed_forward_backward": {
        "is given `a` and `up` in the wrong order": TERMS,
        "this is `x`, and not yet `dx`": SAME_ARRAY,
        "In `dx`: the mean is taken away from `x`": RETURNED,
    },
    "step.sublayer": {
        "`h` stands where `x` should": SAME_ARRAY,
        "`after` stands where `before` should": "h is read to its end before y is written",
        "the mean is taken away from `before`": RETURNED,
    },
    "step.sublayer_backward": {
        "`scale_shift` is given": TERMS,
        "is not asked: it is always False": SPEED,
        """stands where "keep" should, in `dh = dy if""": SPEED,
        "In `h`: 1 stands where 0 should": "either buffer is free by then",
        "In `h`: -1 stands where 0 should": "either buffer is free by then",
    },
    "step.stack": {
        "`params[name]` is run through the other way round": "a list of as many empty lists",
        "In `queries`: ": SPEED,
        "In `future`: `T` stands where `queries` should": SPEED,
        "In `config.pad is not None`: ": "without padding, no token equals None",
        "In `hidden[...]`: ": SOFTMAX,
        "In `hidden[:, 0, 0][tokens == config.pad]`: -1 stands where 0 should": ONE_AXIS,
        "In `hidden[:, 0, 0][tokens == config.pad]`: the ": INFINITE,
        "In `(x, normed)`: the mean is taken away from `x`": RETURNED,
    },
    "step.head": {
        "`y` stands where `x` should, in `linear(": SAME_ARRAY,
        "in `{'activation': config.activation, 'keep': None, 'p': 0}`": NO_DROPOUT,
        "In `(y, normed)`: the mean is taken away from `y`": RETURNED,
    },
    "step.head_backward": {
        "`y` stands where `dx` should": SAME_ARRAY,
        "in `p=0`": NO_DROPOUT,
        "this is `x`, and not yet `dx`": SAME_ARRAY,
        "the mean is taken away from `y`": RETURNED,
        "the mean is taken away from `x`": RETURNED,
        "Everywhere: `x` and `y` are exchanged": TWICE,
    },
    "step.part_forward": {
        "the mean is taken away from `dmemory`": SCRATCH,
        "the mean is taken away from `logits`": SCRATCH,
    },
    "step.forward": {
        "In `the results`: -1 stands where 0 should": KIND,
    },
    "step.backward": {
        "In `check_like('dlogits', dlogits, parts[0]['logits'], shape)`: -1 stands where 0 should": KIND,
        "In `workspace.uses`: ": "any other number says that it has been used",
        "In `the results`: -1 stands where 0 should": SAME_ARRAY,
    },
    "step.loss_and_gradients": {
        "`total` stands where `params` should, in `others": KIND,
        "`workspace.pieces(share, T * config.F)` is run through the other way round": "a sum",
        "In `E`: ": KIND,
        "E - 1 stands where E should": KIND,
        "the mean is taken away from `E`": KIND,
        "`weights` stands where `E` should, in `workspace.reset(E)`": KIND,
        "`B` stands where `T` should, in `for rows in workspace.pieces": SPEED,
        "the mean is taken away from `z`": "each row of the gradient of the logits sums to 0 already",
    },
}
