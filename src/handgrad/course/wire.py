"""What two processes say to each other: numbers, arrays, formulas and words, and nothing that could run.

A message is four bytes, the length of what follows, and JSON. `encode` and `decode` are all that it may hold:
whatever else a learner's notebook returns crosses over as the name of its type. `decode` builds nothing but
what stands in it, and a formula from the heads of `HEADS` alone; it raises for all that `encode` never
writes.
"""

import base64
import inspect
import json
import math
import re

import numpy as np
import sympy
from sympy.functions.elementary.piecewise import ExprCondPair

from .judge.attempt import Failure

LONGEST = 2**24  # bytes of a message; the largest array that an exercise asks for has some thousand
DEPTH = 20  # of tuples and lists within each other
TEXT = 2000  # characters of an error's message
DTYPE = re.compile(r"[<>|=][biufc]\d{1,2}")
HEADS = """Add Mul Pow exp log sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh Abs sign Max Min
floor ceiling factorial binomial gamma erf erfc LambertW KroneckerDelta Heaviside Sum Product Tuple Piecewise
Equality Unequality LessThan StrictLessThan GreaterThan StrictGreaterThan And Or Not"""
HEADS = {name: getattr(sympy, name) for name in HEADS.split()} | {"ExprCondPair": ExprCondPair}
CONSTANTS = """Pi Exp1 ImaginaryUnit Infinity NegativeInfinity ComplexInfinity NaN BooleanTrue
BooleanFalse""".split()


class TooLong(ValueError):
    """What is larger than any message; the argument says what it is."""


def encode(value, depth=0):
    """The value as JSON holds it; by the name of its type if it does not cross. Raises TooLong."""
    try:
        return known(value, depth)
    except TooLong:
        raise
    except Exception:  # of whatever the learner's object does when it is looked at
        return {"stranger": type(value).__name__}


def known(value, depth):
    """What `encode` returns. Raises some exception for what does not cross."""
    if depth > DEPTH:
        raise ValueError("depth")
    if value is None or type(value) in (bool, float, str) or type(value) is int and abs(value) < 2**64:
        return value
    if value is ...:
        return {"dots": None}
    if type(value) is complex:
        return {"complex": [value.real, value.imag]}
    if isinstance(value, tuple | list):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [encode(part, depth + 1) for part in value]}
    if isinstance(value, Failure):
        return {"failure": [value.text[:TEXT], value.kind, value.unfinished, value.raised]}
    if isinstance(value, inspect.Signature):
        rows = [[p.name, int(p.kind), p.default is not p.empty] for p in value.parameters.values()]
        return {"signature": rows}
    if isinstance(value, sympy.Basic):
        return {"formula": tree(value)}
    array = np.asarray(value)
    if array.nbytes > LONGEST // 2:
        raise TooLong(f"an array of the wrong shape, {array.shape}: no right answer has so many numbers")
    if array.dtype.kind in "biufc":
        return {"array": [array.dtype.str, list(array.shape), base64.b64encode(array.tobytes()).decode()]}
    if type(value) is np.ndarray and array.dtype == object:
        return {"objects": [list(array.shape), [encode(entry, depth + 1) for entry in array.flat]]}
    raise TypeError(type(value))


def decode(said, depth=0):
    """The value of what `encode` has written; for the name of a type, some object of a type of that name.

    Raises an exception, mostly ValueError, for all else.
    """
    if depth > DEPTH + 1:
        raise ValueError("expected no such depth")
    match said:
        case None | bool() | int() | float() | str():
            return said
        case {"dots": None}:
            return ...
        case {"complex": [float(real), float(imaginary)]}:
            return complex(real, imaginary)
        case {"tuple": list(parts)}:
            return tuple(decode(part, depth + 1) for part in parts)
        case {"list": list(parts)}:
            return [decode(part, depth + 1) for part in parts]
        case {"array": [str(dtype), list(shape), str(data)]} if DTYPE.fullmatch(dtype):
            numbers = np.frombuffer(bytearray(base64.b64decode(data, validate=True)), dtype)
            return numbers.reshape(checked(shape, numbers.size))
        case {"objects": [list(shape), list(entries)]}:
            array = np.empty(checked(shape, len(entries)), object)
            for place, entry in zip(np.ndindex(array.shape), entries):
                array[place] = decode(entry, depth + 1)
            return array
        case {"formula": list(nodes)}:
            return formula(nodes)
        case {"failure": [str(text), str(kind), bool(unfinished), bool(raised)]}:
            return Failure(text[:TEXT], kind, unfinished, raised)
        case {"signature": list(rows)}:
            return inspect.Signature([parameter(*row) for row in rows])
        case {"stranger": str(name)}:
            return type(name[:TEXT], (), {})()
    raise ValueError("expected what `encode` writes")


def checked(shape, size):
    """A shape of that many entries. Raises ValueError if it is none."""
    if any(type(n) is not int or n < 0 for n in shape) or math.prod(shape) != size:
        raise ValueError(f"expected the shape of {size} entries")
    if math.prod(max(n, 1) for n in shape) > LONGEST:
        raise ValueError("expected no such shape, though it is empty")
    return tuple(shape)


def parameter(name, kind, optional):
    """A parameter of a signature; of its default only that there is one."""
    default = None if optional else inspect.Parameter.empty
    return inspect.Parameter(name, inspect._ParameterKind(kind), default=default)


def tree(expression):
    """A formula as [head, *arguments]. Raises TypeError for a head that does not cross."""
    head = type(expression).__name__
    if isinstance(expression, sympy.Symbol):
        return ["Symbol", expression.name]
    if isinstance(expression, sympy.Rational):
        return ["Rational", str(expression.p), str(expression.q)]
    if isinstance(expression, sympy.Float):
        text = re.search("'(.*)'", sympy.srepr(expression))[1]
        return ["Float", text, expression._prec]
    if head in CONSTANTS or HEADS.get(head) is type(expression):
        return [head, *map(tree, expression.args)]
    raise TypeError(head)


def formula(nodes):
    """The formula of a `tree`. A text is a name or a number in it, and never handed to SymPy to be read."""
    match nodes:
        case ["Symbol", str(name)]:
            return sympy.Symbol(name)
        case ["Rational", str(p), str(q)]:
            return sympy.Rational(int(p), int(q))
        case ["Float", str(text), int(precision)] if 0 < precision < LONGEST:
            float(text)  # raises if it is no number
            return sympy.Float(text, precision=precision)
        case [str(head)] if head in CONSTANTS:
            return getattr(sympy.S, head)
        case [str(head), *arguments] if head in HEADS and all(isinstance(a, list) for a in arguments):
            return HEADS[head](*map(formula, arguments))
    raise ValueError("expected a formula")


def send(stream, value):
    """Write one message. Raises TooLong."""
    text = json.dumps(encode(value)).encode()
    if len(text) > LONGEST:
        raise TooLong("far more numbers than any right answer has")
    stream.write(len(text).to_bytes(4, "big") + text)
    stream.flush()


def receive(read):
    """One message, by a function that reads so many bytes. Raises an exception if it is none."""
    length = int.from_bytes(read(4), "big")
    if length > LONGEST:
        raise ValueError(f"expected at most {LONGEST} bytes, got {length}")
    return decode(json.loads(read(length)))
