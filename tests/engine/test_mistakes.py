"""The room of mistakes: texts "old → new" that make wrong programs from right ones."""

import numpy as np
import pytest

from handgrad import blocks, mistakes, ops
from handgrad.ops import heads
from handgrad.ops.linear import linear_backward


def small():
    x, W = np.arange(6.0).reshape(2, 3), np.arange(9.0).reshape(3, 3)
    y, cache = ops.linear(x, W)
    return np.ones_like(y), cache


def test_a_change_of_the_source_is_what_runs_and_then_nothing_is_left_of_it():
    dy, cache = small()
    code = linear_backward.__code__
    wrong = mistakes.edited(linear_backward, "rows_dy @ W.T → rows_dy @ W", "dW, db → 2 * dW, db")
    dx, dW, _ = linear_backward(dy, cache)
    for _ in range(2):
        wrong_dx, wrong_dW, _ = wrong(dy, cache)
        np.testing.assert_array_equal(wrong_dx, dy @ cache["W"])
        np.testing.assert_array_equal(wrong_dW, 2 * dW)
    np.testing.assert_array_equal(linear_backward(dy, cache)[0], dx)
    assert linear_backward.__code__ is code and wrong.__name__ == "linear_backward"


def test_a_change_is_made_where_it_is_said_whoever_calls_it():
    _, cache = ops.feed_forward(np.ones((2, 3)), {"W_1": np.ones((3, 4)), "W_2": np.ones((4, 3))})
    dy = np.ones((2, 3))
    right, _ = ops.feed_forward_backward(dy, cache)
    wrong = mistakes.edited(
        ops.feed_forward_backward, "rows_dy @ W.T → 2 * rows_dy @ W.T", at=linear_backward
    )
    np.testing.assert_array_equal(wrong(dy, cache)[0], 4 * right)  # it is called twice
    with mistakes.changed(linear_backward, "rows_dy @ W.T → 3 * rows_dy @ W.T"):
        np.testing.assert_array_equal(ops.feed_forward_backward(dy, cache)[0], 9 * right)
    np.testing.assert_array_equal(ops.feed_forward_backward(dy, cache)[0], right)


def test_mistakes_add_up():
    dy, cache = small()
    twice = mistakes.edited(linear_backward, "rows_dy @ W.T → 2 * rows_dy @ W.T")
    outside = mistakes.edited(twice, "y, {} → y, {}", at=mistakes_of_nobody)
    np.testing.assert_array_equal(outside(dy, cache)[0], 2 * linear_backward(dy, cache)[0])


def mistakes_of_nobody(y):
    return y, {}


def test_lines_of_the_new_text_are_indented_as_the_old_one():
    text = "return y → if y > 1:\n    y = 1\nreturn y"
    assert mistakes.edited(limited, text)(2) == 1 and limited(2) == 2
    assert mistakes.edited(limited, "y = 2 * y - y →")(3) == 3


def limited(y):
    if y > 0:
        y = 2 * y - y
        return y


def test_what_is_changed_is_right_again_after_an_error():
    code = heads.merge_heads.__code__
    wrong = mistakes.edited(heads.merge_heads, "B, H, T, K = x.shape → B, H, T = x.shape")
    with pytest.raises(ValueError, match="unpack"):
        wrong(np.ones((1, 2, 3, 4)))
    assert heads.merge_heads.__code__ is code
    with pytest.raises(KeyError), mistakes.changed(heads.merge_heads, '"H": H → "H": 1'):
        raise KeyError
    assert heads.merge_heads.__code__ is code


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            "dx * dmemory → dx",
            r"^self_attend_backward: expected 'dx \* dmemory' once in its source, found it 0",
        ),
        ("dmemory → dx", "^self_attend_backward: expected 'dmemory' once in its source, found it 2 times"),
        ("dx + dmemory", '^self_attend_backward: expected a change "old → new", got \'dx'),
        (" → dx", '^self_attend_backward: expected a change "old → new", got'),
    ],
)
def test_a_text_that_does_not_stand_there_once_is_refused(change, said):
    with pytest.raises(ValueError, match=said):
        mistakes.edited(blocks.decoder_block_backward, change, at=blocks.self_attend_backward)


def test_what_has_no_source_of_its_own_is_refused():
    once = mistakes.edited(linear_backward, "rows_dy @ W.T → rows_dy @ W")
    for function in (len, once, lambda x: (once, x)):
        with pytest.raises(ValueError, match="expected a function of a module"):
            mistakes.edited(function, "a → b")
