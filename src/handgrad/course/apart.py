"""A learner's notebook in a process apart: its cells run there, its answers are called from here.

The judge stays on this side, where no line of the learner has run: whatever a notebook does to the judge, to
NumPy or to the package, it does to its own process. There too, while an answer is judged, the right answer of
its exercise raises, so that an answer which calls it is found out.

This is a fence against mistakes and simple tricks, not against malice: the process has all rights of the user
who starts it.
"""

import copy
import inspect
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
import time
import warnings
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from tempfile import TemporaryDirectory

import numpy as np
import sympy
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from . import judge
from .judge.attempt import Elsewhere, Failure, failure, is_empty

TO_START = 120  # seconds for Python and its libraries to be there, on a busy machine
MAY_FAIL = 3  # cells that come to no end; with one more the notebook is given up
QUIET = {"HistoryManager": {"enabled": False}, "InteractiveShell": {"cache_size": 0}}
NO_END = "came to no end in {:g} seconds"
ENDED = object()
PLAIN = (type(None), type(...), bool, int, float, complex, str)


class Stopped(BaseException):
    """An answer, a cell or the judge came to no end in time, or Python ended; the message says which.

    It is no Exception: the judge takes each of these for an error of the answer.
    """


@dataclass(frozen=True)
class Stranger:
    """Stands for a value that does not cross over, of a type of this name."""

    name: str


# On the other side ------------------------------------------------------------------------------------------


def serve():
    """Run the cells that come in, but for those left out; then hand out answers and call them, until told.

    Takes (cells, left out, topic). Sends the number of each cell before it runs, and [(number, error)] of
    those that raised. Then it takes ("answer", exercise) and ("call", exercise, arguments), and sends what
    `look_up` and `call` return.
    """
    incoming, outgoing = (os.fdopen(os.dup(stream), mode) for stream, mode in ((0, "rb"), (1, "wb")))
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nowhere, stream)  # what the notebook prints is of no use

    def send(words):
        pickle.dump(words, outgoing)
        outgoing.flush()

    cells, left_out, topic = pickle.load(incoming)
    exercises, raised = judge.chapters()[topic], []
    shell = InteractiveShell.instance(config=Config(QUIET))
    shell.enable_gui = shell.ask_exit = lambda *_: (
        None
    )  # %matplotlib and exit() ask for what only Jupyter has
    send(0)
    for number, source in enumerate(cells, 1):
        if number not in left_out:
            send(number)
            done = shell.run_cell(source)
            if error := done.error_before_exec or done.error_in_exec:
                raised.append((number, f"{type(error).__name__}: {error}".rstrip(": ")))
    send(raised)
    with suppress(EOFError):
        while True:
            what, name, *arguments = pickle.load(incoming)
            if name not in shell.user_ns:
                send(("missing", None))
            else:
                reply = look_up if what == "answer" else call
                send(reply(shell.user_ns[name], exercises[name], *arguments))


def look_up(answer, exercise):
    """("function", its signature or None), ("value", it), or ("reference", None) if it is the right answer.

    `serve` sends ("missing", None) in its place where the notebook has no such name.
    """
    if not callable(answer) or isinstance(answer, sympy.Basic):
        return "value", sendable(answer)
    if any(answer is right for right in references(exercise)):
        return "reference", None
    try:
        signature = inspect.signature(answer)
    except (TypeError, ValueError):  # a built-in that does not tell its signature
        return "function", None
    nothing = inspect.Parameter.empty
    parameters = [
        p.replace(annotation=nothing, default=nothing if p.default is nothing else None)
        for p in signature.parameters.values()
    ]
    return "function", inspect.Signature(parameters)


def call(answer, exercise, arguments):
    """("gave", result, {place: what was made of this argument}), ("failed", Failure), or ("reference", None).

    The last, if it has called the right answer of the exercise.
    """
    before = copy.deepcopy(arguments)
    try:
        with refused(references(exercise)), np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = answer(*arguments)
    except BaseException as error:  # SystemExit too
        if isinstance(error, ReferenceError):
            return "reference", None
        return "failed", failure(error, answer)
    if result is None and is_empty(answer):
        result = ...
    changed = {
        i: new
        for i, (new, old) in enumerate(zip(arguments, before))
        if type(new) is np.ndarray and not np.array_equal(new, old, equal_nan=True)
    }
    return "gave", sendable(result), changed


def references(exercise):
    """The functions of the package that answer an exercise: none of them may be a learner's answer."""
    found = [exercise.answer, *exercise.ways, getattr(exercise, "shipped", None)]
    return [f for f in found if getattr(f, "__module__", "").startswith("handgrad.chapters.")]


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


def sendable(value):
    """The value as what can be sent and means the same to the judge, or a Stranger."""
    if type(value) in PLAIN:
        return value
    if isinstance(value, tuple | list):
        return (list if isinstance(value, list) else tuple)(map(sendable, value))
    try:
        if not isinstance(value, sympy.Basic | sympy.MatrixBase):
            value = np.array(value, subok=False) if np.asarray(value).dtype.kind in "fiubc" else value
        if isinstance(value, sympy.Basic | sympy.MatrixBase) or type(value) is np.ndarray:
            pickle.loads(pickle.dumps(value))
            return value
    except Exception:
        pass
    return Stranger(type(value).__name__)


# On this side -----------------------------------------------------------------------------------------------


@dataclass
class Notebook:
    """A notebook that runs apart: its process, what this has said, and what befell its cells."""

    cells: list
    topic: str
    folder: str
    limit: float
    left_out: dict = field(default_factory=dict)  # {number of a cell: why it is left out}
    raised: list = field(default_factory=list)  # [(number of a cell, its error)]
    process: subprocess.Popen = None
    inbox: queue.Queue = None

    def start(self):
        """Run the cells, leaving out any that comes to no end. Raises Stopped if these are too many."""
        while True:
            self.stop()
            own = {"IPYTHONDIR": self.folder, "MPLBACKEND": "Agg"}
            self.process = subprocess.Popen(
                [sys.executable, "-c", "from handgrad.course.apart import serve; serve()"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                cwd=self.folder,
                env=os.environ | own | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                start_new_session=True,  # what the notebook starts ends with it
            )
            self.inbox = queue.Queue()
            threading.Thread(target=receive, args=(self.process.stdout, self.inbox), daemon=True).start()
            self.send(self.cells, list(self.left_out), self.topic)
            said = self.hear(TO_START)
            end = time.monotonic() + self.limit
            try:
                while not isinstance(said, list):
                    number = said
                    said = self.hear(end - time.monotonic())
            except Stopped as why:
                self.left_out[number] = str(why)
                if len(self.left_out) > MAY_FAIL:
                    raise Stopped(
                        f"was given up: code cell {number} {why}, after {MAY_FAIL} others"
                    ) from None
            else:
                self.raised = said
                return

    def send(self, *words):
        """Hand something over. Raises Stopped if the process has ended."""
        try:
            pickle.dump(words, self.process.stdin)
            self.process.stdin.flush()
        except OSError as error:
            raise Stopped("ends Python") from error

    def hear(self, seconds):
        """What the process says next. Raises Stopped if that takes longer, or it has ended."""
        try:
            said = self.inbox.get(timeout=max(seconds, 0))
        except queue.Empty:
            raise Stopped(NO_END.format(self.limit)) from None
        if said is ENDED:
            raise Stopped("ends Python")
        return said

    def ask(self, *words):
        """The reply to a request. Raises Stopped as `hear` does."""
        self.send(*words)
        return self.hear(self.limit)

    def stop(self):
        """End the process, and all that it has started."""
        if self.process is None:
            return
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL) if hasattr(os, "killpg") else self.process.kill()
        self.process.wait()
        with suppress(OSError):  # something may be left that nobody will read
            self.process.stdin.close()
        self.process = None

    def verdict(self, exercise):
        """The judge's Verdict on the answer in this notebook; None if there is nothing of its name.

        Raises Stopped if the answer comes to no end, or ends Python.
        """
        kind, told = self.ask("answer", exercise.name)
        if kind == "missing":
            return None
        if kind == "reference":
            return exercise.judge(exercise.answer)
        if kind == "value":
            return exercise.judge(arrived(told))
        found_out = []

        def answer(*arguments):
            kind, *told = self.ask("call", exercise.name, arguments)
            if kind == "reference":
                found_out.append(True)
                told = [Failure("", "reference", unfinished=True)]
            if kind != "gave":
                raise Elsewhere(*told)
            result, changed = told
            for place, array in changed.items():
                if np.shape(array) == np.shape(arguments[place]):
                    arguments[place][...] = array
            return arrived(result)

        answer.__name__ = exercise.name
        if told is not None:
            answer.__signature__ = told
        verdict = exercise.judge(answer)
        return exercise.judge(exercise.answer) if found_out else verdict


def receive(stream, inbox):
    """Put what a process says into the inbox, and ENDED when it says no more."""
    with stream, suppress(Exception):  # the end of the stream, or what cannot be read
        while True:
            inbox.put(pickle.load(stream))
    inbox.put(ENDED)


def arrived(value):
    """What was sent, with an object of a type of the same name for each Stranger."""
    if isinstance(value, tuple | list):
        return type(value)(map(arrived, value))
    if isinstance(value, Stranger):
        return type(value.name, (), {})()
    return value


@contextmanager
def deadline(seconds):
    """Raise Stopped in the block after so many seconds; in the main thread, on systems that have alarms."""

    def ring(*_):
        raise Stopped(NO_END.format(seconds))

    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def verdicts(cells, topic, limit=60):
    """Run the cells of a notebook, and judge its answers to a chapter's exercises.

    cells: sources; limit: seconds, for all cells together and then for each answer. Returns {exercise:
    Verdict, None if there is no such name, words if it came to no end or ended Python, or the error that the
    judge raised}, and words on each cell that raised or was left out. If too many cells come to no end, the
    exercises that are not judged yet have this Stopped in the place of an error.
    """
    exercises = judge.chapters()[topic]
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
