"""Run a learner's function, and say in words why it gives nothing that could be compared."""

import contextlib
import copy
import dis
import linecache
import re
import traceback
import warnings
from dataclasses import dataclass

import numpy as np

YOUR_TURN = "The answer is still open. Write it in the cell above, run that cell, then run this one."
# What a line often lacks when its shapes do not fit, and what an error message means.
KEEP = "With `keepdims=True` its result can be broadcast again."
TRANSPOSE = "`.T` turns round all axes, the batch too; `.mT` transposes the last two."
EXIT = "It ends Python where it should return its result."
THE_LOSS = "A loss is one number; a gradient has the shape of its array."
SYMBOLS = "It takes no symbols: use `sqrt`, `exp`, `log` of SymPy, and no `range`."
OF_SYMBOLS = r"loop of ufunc|Cannot convert expression|'(Symbol|Add|Mul|Pow)' object cannot be interpreted"


@dataclass(frozen=True)
class Values:
    """What a function returned, by name, and which of its arguments it changed."""

    arrays: dict[str, np.ndarray]
    changed: tuple[int, ...] = ()


@dataclass(frozen=True)
class Failure:
    """Why there is nothing to compare."""

    text: str
    kind: str
    unfinished: bool = False
    raised: bool = False  # whether it is an exception of the answer


OPEN = Failure(YOUR_TURN, "stub", unfinished=True)


class Elsewhere(Exception):
    """What the call of an answer raises here if it has failed in another process: with its Failure."""


def attempt(function, inputs, outputs, told=True):
    """Run the function on copies of the inputs: Values, or a Failure that says why there are none.

    Whatever the function raises is told, `exit()` too; KeyboardInterrupt passes, for it may be the learner's.
    told: whether anybody reads the text of a Failure; of a thousand trials it is not made.
    """
    copies = copy.deepcopy(inputs)
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = function(*copies)
    except (Exception, SystemExit) as error:
        return failure(error, function) if told else Failure("", type(error).__name__)
    if result is ... or (result is None and is_empty(function)):
        return OPEN
    if result is None:
        return Failure("It returns None. Did you forget `return`?", "None")
    found = read(result, outputs)
    if isinstance(found, Failure):
        return found
    changed = tuple(
        i for i, (a, b) in enumerate(zip(copies, inputs)) if not np.array_equal(a, b, equal_nan=True)
    )
    return Values(found, changed)


def failure(error, function):
    """The Failure for an exception: the answer is open, or what went wrong and in which line of it."""
    if isinstance(error, Elsewhere):
        return error.args[0]
    frames = traceback.extract_tb(error.__traceback__)
    if isinstance(error, NotImplementedError):
        other = frames[-1].name
        still = f"It calls `{other}`, whose own answer is still open: use `right_{other}` in its place."
        own = other == getattr(function, "__name__", other)
        return OPEN if own else Failure(still, "stub", unfinished=True)
    if isinstance(error, TypeError) and "ellipsis" in str(error):
        return OPEN
    text = f"It raises {type(error).__name__}: {str(error).strip() or 'no message'}"
    file = getattr(getattr(function, "__code__", None), "co_filename", None)
    own = [frame for frame in frames if frame.filename == file]
    line = linecache.getline(own[-1].filename, own[-1].lineno).strip() if own else ""
    variables = at_the_line(error, file)
    if line:
        text = f"{text} (in `{own[-1].name}`: `{line}`)."
        names = dict.fromkeys(re.findall(r"[^\W\d]\w*", line))
        shapes = [f"`{name}` {variables[name].shape}" for name in names if name in variables]
        text += f" The shapes there: {', '.join(shapes)}." if shapes else ""
    message, advice = str(error), []
    if isinstance(error, SystemExit):
        advice.append(EXIT)
    if re.search(OF_SYMBOLS, message):
        advice.append(SYMBOLS)
    if "matmul" in message and any(np.ndim(variables.get(n)) > 2 for n in re.findall(r"(\w+)\.T\b", line)):
        advice.append(TRANSPOSE)
    if re.search(r"\b(sum|mean|max)\((?!.*keepdims)", line) and an_axis_is_missing(message):
        advice.append(KEEP)
    return Failure(" ".join([text, *advice]), type(error).__name__, raised=True)


def at_the_line(error, file):
    """{name: array} of the variables where the error left the last line of this file."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    *_, last = {}, *(frame.f_locals for frame in frames if frame.f_code.co_filename == file)
    return {name: x for name, x in last.items() if isinstance(x, np.ndarray) and x.ndim}


def an_axis_is_missing(message):
    """Whether the two shapes in NumPy's message would fit if the shorter had one more axis, of size 1."""
    shapes = [tuple(map(int, re.findall(r"\d+", found))) for found in re.findall(r"\(([\d,]+)\)", message)]
    if len(shapes) != 2:
        return False
    short, long = sorted(shapes, key=len)
    for place in range(len(short) + 1 if len(short) < len(long) else 0):
        with contextlib.suppress(ValueError):
            np.broadcast_shapes((*short[:place], 1, *short[place:]), long)
            return True
    return False


def read(result, outputs):
    """The returned object as named float arrays, or the Failure that says what was expected."""
    parts = [result] if len(outputs) == 1 else result
    if len(outputs) > 1 and not (isinstance(result, tuple | list) and len(result) == len(outputs)):
        got = f"{len(result)} values" if isinstance(result, tuple | list) else a_type(result)
        text = f"Expected {len(outputs)} values, ({', '.join(outputs)}), got {got}."
        return Failure(f"{text} {THE_LOSS}" if is_a_loss(result, outputs) else text, "count")
    if any(part is ... for part in parts):
        return OPEN
    arrays = {}
    for name, part in zip(outputs, parts):
        if part is None:
            return Failure(f"{name} is None. Did you forget to compute or to return it?", "None")
        if isinstance(part, tuple) and len(part) == 1 and isinstance(part[0], np.ndarray):
            return Failure(f"{name} stands in a tuple of one: is there a comma behind it?", "count")
        try:
            array = np.asarray(part)
        except Exception:
            array = None
        if array is None or array.dtype.kind not in "fiub":
            what = is_what(part, array)
            return Failure(f"{name} should be an array of real numbers, but it {what}.", "type")
        arrays[name] = array
    return arrays


def is_a_loss(result, outputs):
    """Whether it is one number where gradients are expected, whose names begin with d."""
    one = isinstance(result, int | float | np.number | np.ndarray) and np.ndim(result) == 0
    return one and all(name.startswith("d") for name in outputs)


def is_what(part, array):
    """What stands in the place of an array of real numbers."""
    if array is not None and array.dtype.kind == "c":
        return f"holds numbers of type {array.dtype}"
    if array is not None and array.dtype == object and array.size:
        entry = next((e for e in array.flat if not isinstance(e, int | float)), None)
        if entry is not None and type(part) is np.ndarray:
            return f"holds {a_type(entry)}, `{str(entry)[:40]}`: is one of your names a symbol?"
    return f"is {a_type(part)}"


def is_empty(function):
    """Whether the body is only a docstring, `...`, `pass` or `return None`."""
    try:
        names = {instruction.opname for instruction in dis.get_instructions(function)}
    except TypeError:
        return False
    return names <= {"RESUME", "NOP", "LOAD_CONST", "POP_TOP", "RETURN_VALUE", "RETURN_CONST"}


def a_type(thing):
    name = type(thing).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} `{name}`"


def quoted(name):
    return f"“{name}”"


def listed(names):
    """a, b and c."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
