"""Edits that change nothing: why, a part of the place of each edit, and the functions in which it is one.

No other edit of the functions of `mutants_of_models` passes its cases, and for each part there is one.
"""

WHY = {
    # why: {part of a place: "module: functions; module: functions"}
    "terms and factors may change places": {
        "In all of `dy + dh`: `dh` and `dy` are exchanged.": "blocks: sublayer_backward",
        "`dx` and `dmemory` are exchanged, at the left.": "blocks: self_attend_backward",
        "Everywhere: `dmemory` and `dx` are exchanged.": "blocks: self_attend_backward",
        "`min` is given": "memory: shares; step: attention",
        "`r` and `y` are exchanged": "loops: exp",
        "are exchanged": (
            "loops: normalize_backward dropped_sum softmax_backward cross_entropy active "
            "active_backward largest gelu_gate"
        ),
        "belongs to": "loops: cross_entropy active active_backward gelu_gate gelu_slope gelu_tanh_gate",
        "`max` is given": "loops: largest",
        "`drop` is given": "step: attention attention_backward",
        "`multiply` is given": "step: drop",
        "`add` is given": "step: add_heads",
    },
    "the order of the keys is not felt": {
        "`own.items()` is run through the other way round": "model: head_backward",
        "`grads.items()` is run through the other way round": "model: backward",
        "`keeps` is run through the other way round": "sharing: next_keep_of",
        "`batch.items()` is run through the other way round": "sharing: arguments_of",
    },
    "these are computed apart from each other, in any order": {
        "is run through the other way round": (
            "sharing: gradients_of_others added_up; step: multi_head multi_head_backward"
        ),
        "run through the other way round": (
            "loops: normalize normalize_backward scale_shift dropped_sum softmax softmax_backward turn "
            "scatter_add cross_entropy adamw active active_backward largest"
        ),
        "`workspace.pieces(share, T * config.F)` is run through the other way round": (
            "step: loss_and_gradients"
        ),
    },
    "exchanged in the cache, and exchanged again where they are used": {
        "Everywhere: `k` and `v` are exchanged": "step: attention_backward",
        "`k` and `v` are exchanged": "step: multi_head",
        "Everywhere: `x` and `y` are exchanged": "step: head_backward",
    },
    "its mean, or that of what it meets, is 0 already": {
        "In `dx`: the mean is taken away from `dx`.": "blocks: normalize_backward",
        "the mean is taken away from `ds`": "step: attention_backward",
        "In `variance`: the ": "loops: normalize",
        "In `variance`: the factor": "loops: normalize",
        "the mean is taken away from `z`": "step: loss_and_gradients",
    },
    "the softmax takes away, or divides away, what all entries of a row share": {
        "In `(loss, counted)`: the mean is taken away from `logits`.": "model: loss_and_gradients",
        "`exp(scale * (row[j] - top))`": "loops: softmax",
    },
    "the buffer is written before it is read, or free by then": {
        "`empty(size + line, dtype)`": "memory: empty",
        "the factor `x` is too many, at `step.buffers`": "step: sublayer",
        "`after` and `before` are exchanged": "step: sublayer",
        "at `step.buffers[0]`": "step: sublayer_backward",
        "`step.buffers[0]` ": "step: sublayer_backward",
        "the mean is taken away from `dmemory`": "step: part_forward",
        "the mean is taken away from `logits`": "step: part_forward",
        "`after` stands where `before` should": "step: sublayer",
        "Everywhere: `before` stands where `after` should": "step: sublayer",
        "In `h`: 1 stands where 0 should": "step: sublayer_backward",
        "In `h`: -1 stands where 0 should": "step: sublayer_backward",
    },
    "what is returned is used, and not the array that was given for it": {
        "In `(x, normed)`: the mean is taken away from `x`": "step: embed stack",
        "In `drop(x, keep, config.p, out=x)`: the mean": "step: embed",
        "the mean is taken away from": "step: multi_head_backward",
        "In `dx`: the mean is taken away from `x`": "step: feed_forward_backward",
        "the mean is taken away from `before`": "step: sublayer",
        "the mean is taken away from `dh`": "step: sublayer_backward",
        "In `(y, normed)`: the mean is taken away from `y`": "step: head",
        "the mean is taken away from `y`": "step: head_backward",
        "the mean is taken away from `x`": "step: head_backward",
    },
    "it is asked for its library, type or length only": {
        "In `first`: -1 stands where 0 should": "step: attention_backward",
        "In `keep`: -1 stands where 0": "step: multi_head",
        "In `the result`: ": "step: multi_head",
        'stands where "k" should': "step: multi_head_backward",
        'stands where "v" should': "step: multi_head_backward",
        "In `check_like('dlogits', dlogits, parts[0]['logits'], shape)`: -1 stands where 0 should": (
            "step: backward"
        ),
        "`total` stands where `params` should, in `others": "step: loss_and_gradients",
    },
    "it brings arrays to the device of the parameters; on a CPU torch takes NumPy's as they are": {
        "In `targets`: `like` is left out": "model: loss_and_gradients",
    },
    "it is slower or quicker, or takes more memory or less": {
        "is run through the other way round": "sharing: receiving",
        "`arrays + leaves` has lost its": "sharing: receiving",
        "is not asked: it is always True": "sharing: receiving",
        "+ 1` stands where `len(": "sharing: receiving",
        "In `workspace.received`: the line `workspace.received = ": "sharing: receiving",
        "`leaf.ndim == 1` is not asked: it is always True": "sharing: added_up",
        "is squared": "memory: empty",
        "`LINE // dtype.itemsize + 1`": "memory: empty",
        "the factor `2` is too many, at `LINE": "memory: empty",
        "the factor `2` is too many, at `size`": "memory: empty",
        "the factor `2` is too many, at `line`": "memory: empty",
        "`smoothing > zero` is not asked": "loops: cross_entropy",
        "`smoothing >= zero`": "loops: cross_entropy",
        "In `whole`: ": "loops: largest",
        "In `room`: ": "step: attention multi_head",
        "In `is_kept`: ": "step: attention",
        "`is_kept` is not asked": "step: attention",
        "stands where `room` should": "step: attention",
        "the line `arena.used = used` is left out": "step: attention",
        "In `used`: the factor": "step: attention",
        "`a is None` is not asked": "step: attention_backward",
        "step.kept // len(jobs)": "step: multi_head",
        "`len(jobs) + 1`": "step: multi_head",
        "`step.b` stands where `step.kept`": "step: multi_head",
        "is not asked: it is always False": "step: sublayer_backward",
        "`min` is": "step: stack",
        "`max` is": "step: stack",
        "in `max(32, T // 4)`": "step: stack",
        "in `T // 4`": "step: stack",
        "`T // 4 + 1`": "step: stack",
        "stands where `workspace.": "step: stack",
        "stands where `T` should, in `step = ": "step: stack",
        "`B` stands where `T` should, in `for rows in workspace.pieces": "step: loss_and_gradients",
        "`out is None` is not asked: it is always False": "step: linear",
        "`first and x.shape[2] == 1` is not asked: it is always False": "step: add_heads",
        "`x.shape[2] == 1` is not asked: it is always False": "step: add_heads",
        "0 stands where 1 should": "step: add_heads",
    },
    "0 and 1 are their own roots and squares": {
        "a root is taken of `counted`": "sharing: weighted_targets",
        "`counted` stands there twice": "sharing: weighted_targets",
        "`one if x > zero else zero`": "loops: relu_gate",
        "`gate`": "loops: relu_slope",
    },
    "twice and half of infinity are infinity, and of 0 are 0": {
        "belongs to `own * scale`": "loops: dropped_sum",
        "infinity`": "loops: softmax largest",
        "`0` stands there twice": "step: embed",
    },
    "what is too much in the list is never asked for": {
        "the factor `2` is too many, at `keeps`": "sharing: keeps_of",
        "the factor `2` is too many, at `keeps_of(": "sharing: arguments_of",
        "at `arena.each(jobs, of_heads)`": "step: multi_head",
    },
    "without keep, p is not asked": {
        "-1 stands where 0 should, in `active(": "step: head",
        "-1 stands where 0 should, in `active_backward(": "step: head_backward",
    },
    "both names are one array there": {
        "`dy` stands where `dh` should, in `normalize_backward(dh, output)`": "blocks: sublayer_backward",
        "`of_decoder` stands where `grads` should": "model: backward",
        "`dropped` stands where `a` should": "step: attention_backward",
        "`memory` stands where `dx` should": "step: multi_head_backward",
        "this is `h`, and not yet `dx`": "step: multi_head_backward",
        "this is `x`, and not yet `dx`": "step: feed_forward_backward head_backward",
        "`h` stands where `x` should": "step: sublayer",
        "In `dy`: ": "step: sublayer_backward",
        "`y` stands where `x` should, in `linear(": "step: head",
        "`y` stands where `dx` should": "step: head_backward",
        "In `workspace, params`: -1 stands where 0 should": "step: backward",
        "`out` stands where `x` should": "step: drop",
    },
    "1 is its own root and square, and as a factor or divisor it changes nothing": {
        "`one`": "loops: normalize gelu_gate gelu_tanh_gate silu_gate",
        "`one`, in": "loops: softmax",
        "`one` ": "loops: softmax",
    },
    "it makes a number one of the arrays' own type, which is felt in float32 only, as slowness": {
        "`integer` is left out": "loops: exp",
        "`number` is left out": "loops: normalize normalize_backward cross_entropy gelu_tanh_slope",
        "`float` is left out": "step: cross_entropy",
    },
    "where the two are equal, either may be taken": {
        "`x <= lowest`": "loops: exp",
        "`x >= highest`": "loops: exp",
        "]": "loops: largest",
        "`u >= beyond` stands": "loops: gelu_tanh_gate",
        "`x >= zero`": "loops: gelu_gate",
    },
    "NumPy reads any negative length as what is left": {
        "stands where 1 should, in `-1`": "sharing: next_keep_of",
        "the factor `2` is too many, at `1`": (
            "sharing: next_keep_of; step: embed attention_backward multi_head embed_backward heads weights"
        ),
        "2 stands where 1 should": "step: embed attention_backward",
        "2 stands where 1 should, in `-1`": "step: multi_head embed_backward heads weights",
    },
    "where a worker's memory began is felt by the other worker only": {
        "In `the result`: ": "step: attention",
        "In `start`: ": "step: attention",
    },
    "a slice ends where its array does": {
        "`len(h) + 1`": "step: active active_backward",
        "`len(z) + 1`": "step: cross_entropy",
    },
    "both make the same: new arrays, a list of empty lists, or ones": {
        "`intp` stands where `asarray` should": "sharing: weighted_targets",
        "In `dq, dk, dv`: they are in the wrong order": "step: multi_head_backward",
        "`params[name]` is run through the other way round": "step: stack",
        "is left out of `ones(": "step: linear_backward",
    },
    "it gets four axes where it is used": {
        "`site == 'attention'` is not asked: it is always False": "sharing: next_keep_of",
    },
    "the first leaf is a matrix": {"`optree.tree_leaves(grads)` has lost its first": "sharing: added_up"},
    "a term below the rounding, or a rest that is still small": {
        "at `half`": "loops: exp",
        "`series` has lost its first": "loops: exp",
    },
    "the last line sees to it": {"`x < lowest` is not asked": "loops: exp"},
    "half the width of all heads is at least the width of one": {"0 stands where 1 should": "loops: turn"},
    "any other number says the same": {
        "2 stands where 1 should": "step: attention",
        "In `workspace.uses`: ": "step: backward",
    },
    "it is as wide as that": {"should, in `out=h`": "step: multi_head_backward"},
    "without padding, no token equals None": {"In `config.pad is not None`: ": "step: stack"},
    "0 times anything, its root, its square and -0 are 0, as is the start of a sum": {
        "`zero`": "loops: exp normalize normalize_backward softmax softmax_backward cross_entropy gelu_gate",
        "`index` stands there twice": "step: embed",
    },
}


def by_function(why):
    """{module.function: {part of a place: why}}."""
    found = {}
    for reason, parts in why.items():
        for part, rooms in parts.items():
            for room in rooms.split("; "):
                module, names = room.split(": ")
                for name in names.split():
                    found.setdefault(f"{module}.{name}", {})[part] = reason
    return found


SAME = by_function(WHY)
