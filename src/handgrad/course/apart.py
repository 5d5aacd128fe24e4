"""Learners' notebooks in processes apart, so that none can touch the report, or the marks of another.

    the report   →   the judge, `judge_notebooks`   →   the notebook, `serve`

The cells of a notebook run in the last process alone, and its answers are called there; the judge looks at
the values that come back. From right to left go messages of `wire`: data, of limited length, which are read
by rules and never run. So whatever a notebook does to the judge, to NumPy or to the package, it does to its
own process. There too, while an answer is judged, the right answer of its exercise raises, so that an answer
which calls it is found out. A notebook that ends its judge loses its own marks, and the next has a new one.

The process of a notebook has limited memory, files and time, and none of the teacher's environment. Where
Linux lets a user make namespaces (the command `unshare`), it has no network, sees no other process, and what
it started ends with it. Elsewhere the judge ends what it finds. In neither case is it kept from the files of
the user who starts the report: it can read them all, and write to them, to this package too.
"""

import copy
import ctypes
import faulthandler
import functools
import inspect
import math
import os
import resource
import secrets
import select
import signal
import subprocess
import sys
import time
import warnings
import zlib
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import sympy

from ..extras import needs
from . import judge
from .judge.attempt import YOUR_TURN, Elsewhere, Failure, failure, is_empty
from .judge.verdict import NOT_YET, WRONG
from .wire import TooLong, receive, send

with needs("book"):
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

LIBC = ctypes.CDLL(None)
TO_START = 120  # seconds for Python and its libraries to be there, on a busy machine
MAY_FAIL = 3  # cells that come to no end; with one more the notebook is given up
LIMITS = {"DATA": 2**30, "FSIZE": 2**27, "CORE": 0}  # bytes, for each process of a notebook: see setrlimit
OF_THE_JUDGE = {"DATA": 2**32, "CORE": 0}
QUIET = {"HistoryManager": {"enabled": False}, "InteractiveShell": {"cache_size": 0}}
NO_END = "came to no end in {:g} seconds"
NO_ANSWER = "says what is no answer"
NOT_JUDGED = "not judged"
OPEN = "The answer is still open."
REPLIES = {  # and how many parts each has
    "answer": {"missing": 1, "reference": 1, "value": 2, "function": 2, "failed": 2},
    "call": {"gave": 3, "reference": 1, "failed": 2},
}
END_WITH_PARENT, NOT_TO_BE_READ, KEEP_ORPHANS = (1, 9), (4, 0), (36, 1)  # of Linux: see prctl


class Stopped(BaseException):
    """An answer, a cell or the judge came to no end in time, or Python ended; the message says which.

    It is no Exception: the judge takes each of these for an error of the answer.
    """


# On the side of the notebook --------------------------------------------------------------------------------


def serve():
    """Run the cells that come in, but for those left out; then hand out answers and call them, until told.

    Takes (cells, left out, topic, limits). Sends the number of each cell before it runs, and [(number,
    error)] of those that raised. Then it takes ("answer", exercise) and ("call", exercise, arguments), and
    sends what `look_up` and `call` return.
    """
    hear, say = streams()
    cells, left_out, topic, limits = hear()
    set_limits(dict(limits))
    exercises, raised = judge.chapters()[topic], []
    shell = InteractiveShell.instance(config=Config(QUIET))
    # %matplotlib and exit() ask for what only Jupyter has
    shell.enable_gui = shell.ask_exit = lambda *_: None
    say(0)
    for number, source in enumerate(cells, 1):
        if number not in left_out:
            say(number)
            done = shell.run_cell(source)
            if error := done.error_before_exec or done.error_in_exec:
                raised.append((number, f"{type(error).__name__}: {error}".rstrip(": ")[:500]))
    say(raised)
    with suppress(EOFError):
        while True:
            what, name, *arguments = hear()
            if name not in shell.user_ns:
                say(("missing",))
                continue
            reply = look_up if what == "answer" else call
            try:
                say(reply(shell.user_ns[name], exercises[name], *arguments))
            except TooLong as error:
                say(("failed", Failure(f"It returns {error}.", "shape")))


def streams():
    """Functions that take and send a message. Nothing that is printed from now on comes between them."""
    incoming, outgoing = (os.fdopen(os.dup(stream), mode) for stream, mode in ((0, "rb"), (1, "wb")))
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nowhere, stream)

    def read(count):
        data = incoming.read(count)
        if len(data) < count:
            raise EOFError
        return data

    return functools.partial(receive, read), functools.partial(send, outgoing)


def set_limits(limits):
    """Set limits of `resource`, {"DATA": bytes}, as far as the system has them."""
    for name, amount in limits.items():
        with suppress(ValueError, OSError):
            resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (amount, amount))


def look_up(answer, exercise):
    """("function", its signature or None), ("value", it), or ("reference",) if it is the right answer.

    `serve` sends ("missing",) in its place where the notebook has no such name.
    """
    if not callable(answer) or isinstance(answer, sympy.Basic):
        return "value", answer
    if any(answer is right for right in references(exercise)):
        return ("reference",)
    try:
        signature = inspect.signature(answer)
    except (TypeError, ValueError):  # a built-in that does not tell its signature
        return "function", None
    return "function", signature


def call(answer, exercise, arguments):
    """("gave", result, [(place, what was made of this argument)]), ("failed", Failure), or ("reference",).

    The last, if it has called the right answer of the exercise.
    """
    before = copy.deepcopy(arguments)
    try:
        with refused(references(exercise)), np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = answer(*arguments)
    except BaseException as error:  # SystemExit too
        if isinstance(error, ReferenceError):
            return ("reference",)
        return "failed", failure(error, answer)
    if result is None and is_empty(answer):
        result = ...
    changed = [
        (i, new)
        for i, (new, old) in enumerate(zip(arguments, before))
        if type(new) is np.ndarray and not np.array_equal(new, old, equal_nan=True)
    ]
    return "gave", result, changed


def references(exercise):
    """The functions of the package that answer an exercise: a learner's answer may be none and call none."""
    return [exercise.answer, *getattr(exercise, "reserved", ())]


@contextmanager
def refused(functions):
    """While it lasts, these functions raise ReferenceError, by whatever name they are called."""

    def refuse(*arguments, **named):
        raise ReferenceError

    codes = [function.__code__ for function in functions]
    for function in functions:
        function.__code__ = refuse.__code__
    try:
        yield
    finally:
        for function, code in zip(functions, codes):
            function.__code__ = code


# On the side of the judge -----------------------------------------------------------------------------------


class Peer:
    """Another process of Python, in which a function of this module runs, and which one talks to."""

    def __init__(self, function, folder, environment, before=()):
        self.process = subprocess.Popen(
            [*before, sys.executable, "-c", f"from {__name__} import {function}; {function}()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=folder,
            env=environment | {"PYTHONPATH": os.pathsep.join(map(os.path.abspath, filter(None, sys.path)))},
            start_new_session=True,
            preexec_fn=functools.partial(prctl, *END_WITH_PARENT),
        )

    def send(self, *words):
        """Hand something over. Raises Stopped if the process has ended."""
        try:
            send(self.process.stdin, words)
        except OSError as error:
            raise Stopped("ends Python") from error

    def hear(self, seconds, limit):
        """What the process says next. Raises Stopped if that takes longer, it has ended, or says nonsense.

        limit: the seconds that are told of one that took too long.
        """
        end, stream = time.monotonic() + seconds, self.process.stdout.fileno()

        def read(count):
            data = bytearray()
            while len(data) < count:
                left = end - time.monotonic()
                if left <= 0 or not select.select([stream], [], [], left)[0]:
                    raise Stopped(NO_END.format(limit))
                if not (more := os.read(stream, min(count - len(data), 2**16))):
                    raise Stopped("ends Python")
                data += more
            return data

        try:
            return receive(read)
        except Exception as error:  # by whatever means a message could not be read
            raise Stopped(NO_ANSWER) from error

    def stop(self, patience=0):
        """End the process, and all of its session; it has so many seconds to do so by itself."""
        with suppress(OSError):  # something may be left that nobody will read
            self.process.stdin.close()
        if patience:
            self.process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(patience)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()


@dataclass
class Notebook:
    """A notebook that runs apart: its process, and what befell its cells."""

    cells: list
    topic: str
    folder: str
    limit: float
    left_out: dict = field(default_factory=dict)  # {number of a cell: why it is left out}
    raised: list = field(default_factory=list)  # [(number of a cell, its error)]
    failures: int = 0
    peer: Peer = None

    def start(self):
        """Run the cells, leaving out any that comes to no end. Raises Stopped if these are too many."""
        processor = math.ceil(TO_START + (2 + len(judge.chapters()[self.topic])) * self.limit)
        limits = list(({"CPU": processor} | LIMITS).items())
        while True:
            self.stop()
            self.peer = Peer("serve", self.folder, environment(self.folder), namespaces())
            self.peer.send(self.cells, list(self.left_out), self.topic, limits)
            said = self.peer.hear(TO_START, TO_START)
            number = 0
            try:
                with deadline(self.limit):  # to read what a cell says may take for ever, too
                    while type(said) is int:
                        number = said
                        said = self.peer.hear(self.limit, self.limit)
                self.raised = raised_cells(said)
                return
            except Stopped as why:
                self.left_out[number] = str(why)
                # of these a notebook, that may lie about the number of a cell, knows nothing
                self.failures += 1
                if self.failures > MAY_FAIL:
                    raise Stopped(
                        f"was given up: code cell {number} {why}, after {MAY_FAIL} others"
                    ) from None

    def ask(self, what, *words):
        """The reply to a request. Raises Stopped if there is none, or it is none of its `REPLIES`."""
        self.peer.send(what, *words)
        reply = self.peer.hear(self.limit, self.limit)
        match reply:
            case (str(kind), *parts) if REPLIES[what].get(kind) == len(reply):
                if kind != "failed" or isinstance(parts[0], Failure):
                    return reply
        raise Stopped(NO_ANSWER)

    def stop(self):
        """End the process, and all that it has started."""
        if self.peer is not None:
            self.peer.stop()
            self.peer = None

    def verdict(self, exercise):
        """The judge's Verdict on the answer in this notebook; None if there is nothing of its name.

        Raises Stopped if the answer comes to no end, or ends Python.
        """
        kind, *told = self.ask("answer", exercise.name)
        if kind == "missing":
            return None
        if kind == "reference":
            return exercise.judge(exercise.answer)
        if kind == "value":
            return exercise.judge(*told)
        found_out = []

        def answer(*arguments):
            kind, *told = self.ask("call", exercise.name, arguments)
            if kind == "reference":
                found_out.append(True)
                told = [Failure("", "reference", unfinished=True)]
            if kind != "gave":
                raise Elsewhere(*told)
            result, changed = told
            try:
                for place, array in changed:
                    if np.shape(array) == np.shape(arguments[place]):
                        arguments[place][...] = array
            except (TypeError, ValueError, IndexError) as error:
                raise Stopped(NO_ANSWER) from error
            return result

        answer.__name__ = exercise.name
        if kind == "function" and told[0] is not None:
            answer.__signature__ = told[0]
        verdict = exercise.judge(answer)
        return exercise.judge(exercise.answer) if found_out else verdict


def raised_cells(said):
    """[(number, error)] as `serve` says it. Raises Stopped if it is something else."""
    if isinstance(said, list) and all(isinstance(row, tuple) and len(row) == 2 for row in said):
        if all(type(number) is int and type(error) is str for number, error in said):
            return said
    raise Stopped(NO_ANSWER)


def environment(folder):
    """The environment of a notebook: what Python needs, and nothing of the teacher's."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    own = dict.fromkeys(("HOME", "TMPDIR", "IPYTHONDIR"), folder) | {"MPLBACKEND": "Agg", "LANG": "C.UTF-8"}
    return own | threads | {"PATH": os.environ.get("PATH", os.defpath)}


def prctl(option, value):
    """Set what Linux calls an operation on a process; elsewhere nothing."""
    if hasattr(LIBC, "prctl"):
        LIBC.prctl(option, value, 0, 0, 0)


@functools.cache
def namespaces():
    """The beginning of a command that takes network and sight of other processes from it; () if none can."""
    command = "unshare --user --map-current-user --pid --mount-proc --net --ipc --fork --kill-child".split()
    with suppress(OSError, subprocess.SubprocessError):
        subprocess.run([*command, "true"], check=True, capture_output=True, timeout=TO_START)
        return tuple(command)
    return ()


def end_orphans():
    """End all processes that have this one as their parent: what notebooks have left behind."""

    def children():
        for status in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                if int(status.read_text().rpartition(")")[2].split()[1]) == os.getpid():
                    yield int(status.parent.name)

    while left := list(children()):
        for child in left:
            os.kill(child, signal.SIGKILL)  # no other may have its number before it is waited for
            os.waitpid(child, 0)


@contextmanager
def deadline(seconds):
    """Raise Stopped in the block after so many seconds, in the main thread.

    Python is ended if it does not come out of one call of a library, such as a power of a large integer.
    """

    def ring(*_):
        raise Stopped(NO_END.format(seconds))

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    with open(os.devnull, "w") as nowhere:
        faulthandler.dump_traceback_later(seconds + TO_START, exit=True, file=nowhere)
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)


def verdicts(cells, topic, limit=60):
    """Run the cells of a notebook, and judge its answers to a chapter's exercises.

    cells: sources; limit: seconds, for all cells together and then for each answer. The inputs are drawn for
    these cells, so that none of them can know what is asked, and has asked it before. Returns {exercise:
    Verdict, None if there is no such name, words if it came to no end or ended Python, or the error that the
    judge raised}, and words on each cell that raised or was left out. If too many cells come to no end, the
    exercises that are not judged yet have this Stopped in the place of an error.
    """
    seed = zlib.crc32("\n".join(cells).encode(errors="replace"))
    exercises = {name: replace(e, seed=seed) for name, e in judge.chapters()[topic].items()}
    found = {}
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        notebook = Notebook(cells, topic, folder, limit)
        try:
            notebook.start()
            for name, exercise in exercises.items():
                try:
                    with deadline(limit):
                        found[name] = notebook.verdict(exercise)
                except Stopped as why:
                    found[name] = str(why)
                    notebook.start()
                except Exception as error:
                    found[name] = error
        except Stopped as why:
            found = dict.fromkeys(exercises, why) | found
        finally:
            notebook.stop()
    befell = {n: f"code cell {n} {why}, and was left out" for n, why in notebook.left_out.items()}
    befell |= {n: f"code cell {n} raises {error}" for n, error in notebook.raised}
    return found, [befell[number] for number in sorted(befell)]


def judge_notebooks():
    """Judge one notebook after another, until told no more.

    Takes (token, cells, topic, limit), and sends (token, {exercise: its three words of `in_words`}, notes).
    Only who has read the request knows the token: a notebook cannot send a reply in the place of the judge.
    """
    for option in (NOT_TO_BE_READ, KEEP_ORPHANS):
        prctl(*option)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    set_limits(OF_THE_JUDGE)
    hear, say = streams()
    with suppress(EOFError):
        while True:
            token, cells, topic, limit = hear()
            try:
                found, notes = verdicts(cells, topic, limit)
            finally:
                end_orphans()
            say((token, [(name, in_words(name, it)) for name, it in found.items()], notes))


def in_words(name, found):
    """(status, diagnosis, where) of what `verdicts` has found of an exercise."""
    if found is None:
        return NOT_YET, f"The notebook defines no `{name}`: its cell is missing, or raises.", ""
    if isinstance(found, str):
        return WRONG, f"It {found}.", ""
    if isinstance(found, Stopped):
        return NOT_JUDGED, f"It {found}.", ""
    if isinstance(found, Exception):
        return NOT_JUDGED, f"The judge fails on it: {type(found).__name__}: {found}", ""
    diagnosis = OPEN if found.diagnosis == YOUR_TURN else found.diagnosis
    return found.status, diagnosis, found.where


# On the side of the report ----------------------------------------------------------------------------------


class Judge:
    """The judge in a process of its own, which is started when it is needed, and again when it has ended."""

    peer = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.peer is not None:
            self.peer.stop(patience=TO_START)
            self.peer = None

    def __call__(self, cells, topic, limit):
        """({exercise: (status, diagnosis, where)}, notes) of a notebook, see `verdicts`.

        Raises Stopped if the process of the judge ends, or comes to no end.
        """
        if self.peer is None:
            self.peer = Peer("judge_notebooks", None, os.environ)
        token, names = secrets.token_hex(), list(judge.chapters()[topic])
        try:
            self.peer.send(token, cells, topic, limit)
            match self.peer.hear((len(names) + MAY_FAIL + 2) * (TO_START + 2 * limit), limit):
                case (str(said), list(rows), list(notes)) if said == token:
                    if not namespaces():
                        self.__exit__()  # the notebook may have written where this process reads
                    return dict(rows), notes
            raise Stopped(NO_ANSWER)
        except Stopped as why:
            self.__exit__()
            raise Stopped(f"ended the process of its judge, which {why}") from None
