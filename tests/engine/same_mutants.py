"""Edits that change nothing: why, for a function and a part of the place of each edit.

No other edit of the functions of `mutants_of_models` passes its cases, and for each part there is one.
"""

TERMS = "terms and factors may change places"
KEYS = "the order of the keys is not felt"
APART = "these are computed apart from each other, in any order"
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
SAME_ARRAY = "both names are one array there"
ZERO = "the start of a sum or product: 0 times anything, its root, its square and -0 are 0"
ONES = "1 is its own root and square, and as a factor or divisor it changes nothing"
TYPE = "it makes a number one of the arrays' own type, which is felt in float32 only, as slowness"
EQUAL = "where the two are equal, either may be taken"
NEGATIVE = "NumPy reads any negative length as what is left"
START = "where a worker's memory began is felt by the other worker only"
LONGER = "a slice ends where its array does"

SAME = {
    "blocks.normalize_backward": {
        "In `dx`: the mean is taken away from `dx`.": MEAN,
    },
    "blocks.sublayer_backward": {
        "`dy` stands where `dh` should, in `normalize_backward(dh, output)`": SAME_ARRAY,
        "In all of `dy + dh`: `dh` and `dy` are exchanged.": TERMS,
    },
    "blocks.self_attend_backward": {
        "`dx` and `dmemory` are exchanged, at the left.": TERMS,
        "Everywhere: `dmemory` and `dx` are exchanged.": TERMS,
    },
    "model.head_backward": {
        "`own.items()` is run through the other way round": KEYS,
    },
    "model.backward": {
        "`grads.items()` is run through the other way round": KEYS,
        "`of_decoder` stands where `grads` should": SAME_ARRAY,
    },
    "model.loss_and_gradients": {
        "In `targets`: `like` is left out": DEVICE,
        "In `(loss, counted)`: the mean is taken away from `logits`.": SOFTMAX,
    },
    "sharing.weighted_targets": {
        "`intp` stands where `asarray` should": "both make an array of integers",
        "a root is taken of `counted`": FLAGS,
        "`counted` stands there twice": FLAGS,
    },
    "sharing.keeps_of": {
        "the factor `2` is too many, at `keeps`": REST,
    },
    "sharing.next_keep_of": {
        "`keeps` is run through the other way round": KEYS,
        "`site == 'attention'` is not asked: it is always False": "it gets four axes where it is used",
        "stands where 1 should, in `-1`": "NumPy reads any negative length as what is left",
        "the factor `2` is too many, at `1`": "NumPy reads any negative length as what is left",
    },
    "sharing.arguments_of": {
        "`batch.items()` is run through the other way round": KEYS,
        "the factor `2` is too many, at `keeps_of(": REST,
    },
    "sharing.receiving": {
        "is run through the other way round": SPEED,
        "`arrays + leaves` has lost its": SPEED,
        "is not asked: it is always True": SPEED,
        "+ 1` stands where `len(": SPEED,
        "In `workspace.received`: the line `workspace.received = ": SPEED,
    },
    "sharing.gradients_of_others": {
        "is run through the other way round": APART,
    },
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
    "memory.shares": {
        "`min` is given": TERMS,
    },
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
    "loops.scale_shift": {
        "run through the other way round": APART,
    },
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
        "`one`, in": ONES,
        "`one` ": ONES,
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
    "loops.scatter_add": {
        "run through the other way round": APART,
    },
    "loops.cross_entropy": {
        "run through the other way round": APART,
        "`number` is left out": TYPE,
        "`smoothing > zero` is not asked": SPEED,
        "`smoothing >= zero`": SPEED,
        "`zero`": ZERO,
        "belongs to": TERMS,
        "are exchanged": TERMS,
    },
    "loops.adamw": {
        "run through the other way round": APART,
    },
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
    "loops.relu_gate": {
        "`one if x > zero else zero`": FLAGS,
    },
    "loops.relu_slope": {
        "`gate`": FLAGS,
    },
    "loops.gelu_gate": {
        "`x >= zero`": "at 0 both are 1/2",
        "`zero`": ZERO,
        "`one`": ONES,
        "belongs to": TERMS,
        "are exchanged": TERMS,
    },
    "loops.gelu_slope": {
        "belongs to": TERMS,
    },
    "loops.gelu_tanh_gate": {
        "`u >= beyond` stands": EQUAL,
        "belongs to": TERMS,
        "`one`": ONES,
    },
    "loops.gelu_tanh_slope": {
        "`number` is left out": TYPE,
    },
    "loops.silu_gate": {
        "`one`": ONES,
    },
    "step.embed": {
        "`0` stands there twice": INFINITE,
        "`index` stands there twice": "0 times anything is 0",
        "In `(x, normed)`: the mean is taken away from `x`": RETURNED,
        "2 stands where 1 should": NEGATIVE,
        "the factor `2` is too many, at `1`": NEGATIVE,
        "In `drop(x, keep, config.p, out=x)`: the mean": RETURNED,
    },
    "step.attention": {
        "`min` is given": TERMS,
        "In `room`: ": SPEED,
        "`drop` is given": TERMS,
        "In `is_kept`: ": SPEED,
        "`is_kept` is not asked": SPEED,
        "2 stands where 1 should": "any negative number says that all are seen",
        "stands where `room` should": SPEED,
        "the line `arena.used = used` is left out": SPEED,
        "In `used`: the factor": SPEED,
        "In `the result`: ": START,
        "In `start`: ": START,
    },
    "step.attention_backward": {
        "the mean is taken away from `ds`": SUM,
        "Everywhere: `k` and `v` are exchanged": TWICE,
        "`drop` is given": TERMS,
        "`a is None` is not asked": SPEED,
        "2 stands where 1 should": NEGATIVE,
        "the factor `2` is too many, at `1`": NEGATIVE,
        "In `first`: -1 stands where 0 should": KIND,
        "`dropped` stands where `a` should": SAME_ARRAY,
    },
    "step.multi_head": {
        "is run through the other way round": APART,
        "2 stands where 1 should, in `-1`": NEGATIVE,
        "the factor `2` is too many, at `1`": NEGATIVE,
        "In `room`: ": SPEED,
        "In `keep`: -1 stands where 0": KIND,
        "step.kept // len(jobs)": SPEED,
        "`len(jobs) + 1`": SPEED,
        "`step.b` stands where `step.kept`": SPEED,
        "at `arena.each(jobs, of_heads)`": REST,
        "In `the result`: ": KIND,
        "`k` and `v` are exchanged": TWICE,
    },
    "step.multi_head_backward": {
        "is run through the other way round": APART,
        "In `dq, dk, dv`: they are in the wrong order": "both are new arrays",
        'stands where "k" should': KIND,
        'stands where "v" should': KIND,
        "should, in `out=h`": "it is as wide as that",
        "`memory` stands where `dx` should": SAME_ARRAY,
        "this is `h`, and not yet `dx`": SAME_ARRAY,
        "the mean is taken away from": RETURNED,
    },
    "step.active": {
        "`len(h) + 1`": LONGER,
    },
    "step.feed_forward_backward": {
        "this is `x`, and not yet `dx`": SAME_ARRAY,
        "In `dx`: the mean is taken away from `x`": RETURNED,
    },
    "step.sublayer": {
        "`h` stands where `x` should": SAME_ARRAY,
        "`after` stands where `before` should": "h is read to its end before y is written",
        "the mean is taken away from `before`": RETURNED,
        "Everywhere: `before` stands where `after` should": "h is read to its end before y is written",
        "the factor `x` is too many, at `step.buffers`": SCRATCH,
        "`after` and `before` are exchanged": SCRATCH,
    },
    "step.sublayer_backward": {
        "is not asked: it is always False": SPEED,
        "In `h`: 1 stands where 0 should": "either buffer is free by then",
        "In `h`: -1 stands where 0 should": "either buffer is free by then",
        "at `step.buffers[0]`": SCRATCH,
        "`step.buffers[0]` ": SCRATCH,
        "In `dy`: ": SAME_ARRAY,
        "the mean is taken away from `dh`": RETURNED,
    },
    "step.stack": {
        "`params[name]` is run through the other way round": "a list of as many empty lists",
        "In `config.pad is not None`: ": "without padding, no token equals None",
        "In `(x, normed)`: the mean is taken away from `x`": RETURNED,
        "`min` is": SPEED,
        "`max` is": SPEED,
        "in `max(32, T // 4)`": SPEED,
        "in `T // 4`": SPEED,
        "`T // 4 + 1`": SPEED,
        "stands where `workspace.": SPEED,
        "stands where `T` should, in `step = ": SPEED,
    },
    "step.head": {
        "`y` stands where `x` should, in `linear(": SAME_ARRAY,
        "In `(y, normed)`: the mean is taken away from `y`": RETURNED,
        "-1 stands where 0 should, in `active(": NO_DROPOUT,
    },
    "step.head_backward": {
        "`y` stands where `dx` should": SAME_ARRAY,
        "this is `x`, and not yet `dx`": SAME_ARRAY,
        "the mean is taken away from `y`": RETURNED,
        "the mean is taken away from `x`": RETURNED,
        "Everywhere: `x` and `y` are exchanged": TWICE,
        "-1 stands where 0 should, in `active_backward(": NO_DROPOUT,
    },
    "step.part_forward": {
        "the mean is taken away from `dmemory`": SCRATCH,
        "the mean is taken away from `logits`": SCRATCH,
    },
    "step.backward": {
        "In `check_like('dlogits', dlogits, parts[0]['logits'], shape)`: -1 stands where 0 should": KIND,
        "In `workspace.uses`: ": "any other number says that it has been used",
        "In `workspace, params`: -1 stands where 0 should": SAME_ARRAY,
    },
    "step.loss_and_gradients": {
        "`total` stands where `params` should, in `others": KIND,
        "`workspace.pieces(share, T * config.F)` is run through the other way round": "a sum",
        "`B` stands where `T` should, in `for rows in workspace.pieces": SPEED,
        "the mean is taken away from `z`": "each row of the gradient of the logits sums to 0 already",
    },
    "step.linear": {
        "`out is None` is not asked: it is always False": SPEED,
    },
    "step.linear_backward": {
        "is left out of `ones(": "they are ones already",
    },
    "step.embed_backward": {
        "2 stands where 1 should, in `-1`": NEGATIVE,
        "the factor `2` is too many, at `1`": NEGATIVE,
    },
    "step.drop": {
        "`multiply` is given": TERMS,
        "`out` stands where `x` should": "without keep, both are one array",
    },
    "step.heads": {
        "2 stands where 1 should, in `-1`": NEGATIVE,
        "the factor `2` is too many, at `1`": NEGATIVE,
    },
    "step.weights": {
        "2 stands where 1 should, in `-1`": NEGATIVE,
        "the factor `2` is too many, at `1`": NEGATIVE,
    },
    "step.add_heads": {
        "`add` is given": TERMS,
        "`first and x.shape[2] == 1` is not asked: it is always False": SPEED,
        "`x.shape[2] == 1` is not asked: it is always False": SPEED,
        "0 stands where 1 should": SPEED,
    },
    "step.active_backward": {
        "`len(h) + 1`": LONGER,
    },
    "step.cross_entropy": {
        "`float` is left out": TYPE,
        "`len(z) + 1`": LONGER,
    },
}
