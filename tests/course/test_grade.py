"""The report on learners' notebooks: it finds what is right and wrong, whatever a notebook does."""

import csv
import os
import shutil
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from handgrad.course import apart, grade, judge
from handgrad.course.grade import Result
from handgrad.course.judge.attempt import YOUR_TURN

ROOT = Path(__file__).parents[2]
SOLVED = ROOT / "notebooks/solutions/08_attention.ipynb"
OPEN = ROOT / "notebooks/exercises/08_attention.ipynb"
NAMES = list(judge.chapters()["attention"])

SOFTMAX = "def softmax_ds(da, a):\n    return a * (da - (a * da).sum(axis=-1, keepdims=True))"
WRONG_SOFTMAX = "def softmax_ds(da, a):\n    return a * da"
VARIANCE = """def score_variance(K, sigma_q, sigma_k, mu_q, mu_k):
    return K * ((sigma_q**2 + mu_q**2) * (sigma_k**2 + mu_k**2) - mu_q**2 * mu_k**2)"""


def hand_in(path, *cells):
    """Write a notebook with these code cells."""
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(new_notebook(cells=[new_markdown_cell("Mine."), *map(new_code_cell, cells)]), path)


def answered(path, **answers):
    """The open notebook with answers in the place of its stubs, written to a file."""
    notebook = nbformat.read(OPEN, as_version=4)
    for cell in notebook.cells:
        name = cell.id.replace("-", "_").removesuffix("_answer")
        if cell.id.endswith("-answer") and name in answers:
            cell.source = answers[name]
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, path)


def of(results, learner):
    """{exercise: Result} of one learner."""
    return {r.exercise: r for r in results if r.learner == learner}


def statuses(results, learner):
    return [r.status for r in of(results, learner).values()]


def without_namespaces(monkeypatch):
    """As where no `unshare` is: for the report, and for the processes that it starts."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(apart, "namespaces", tuple)


# What is right, wrong and open ------------------------------------------------------------------------------


def test_solved_and_unsolved_notebooks_which_stay_as_they_are(tmp_path):
    for learner, source in (("Åsa Öberg", SOLVED), ("李 雷", OPEN)):
        (tmp_path / learner).mkdir()
        shutil.copy(source, tmp_path / learner / "08_attention.ipynb")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.ipynb")}
    results = grade.grade(tmp_path)
    assert statuses(results, "Åsa Öberg") == ["right"] * len(NAMES)
    assert statuses(results, "李 雷") == ["not yet"] * len(NAMES)
    assert {r.diagnosis for r in of(results, "李 雷").values()} == {grade.OPEN}
    assert [r.exercise for r in results] == NAMES * 2 and {r.notes for r in results} == {""}
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_known_mistake_is_told(tmp_path):
    answered(tmp_path / "ben/08_attention.ipynb", softmax_ds=WRONG_SOFTMAX, score_variance=VARIANCE)
    results = grade.grade(tmp_path)
    assert statuses(results, "ben") == ["wrong", "right"] + ["not yet"] * 4
    assert results[0].diagnosis == judge.softmax_ds(lambda da, a: a * da).diagnosis
    assert "second term is missing" in " ".join(grade.report(results, why=True).split())
    assert "1 × The second term is missing" in " ".join(grade.report(results).split())


def test_a_cell_that_raises_and_one_that_is_gone_cost_no_other_answer(tmp_path):
    hand_in(
        tmp_path / "08_attention_cem.ipynb", "1 / 0", VARIANCE, "def oops(:", SOFTMAX.replace("a", "a", 1)
    )
    results = grade.grade(tmp_path)
    assert statuses(results, "cem") == ["right", "right"] + ["not yet"] * 4
    assert "defines no `masked_attention`" in of(results, "cem")["masked_attention"].diagnosis
    assert "code cell 1 raises ZeroDivisionError" in results[0].notes
    assert "code cell 3 raises SyntaxError" in results[0].notes and "cell 2" not in results[0].notes
    assert "ZeroDivisionError" in grade.report(results)


def test_what_notebooks_do_every_day_is_no_fault():
    show = "%matplotlib inline\nimport matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()"
    cells = [
        show,
        "import asyncio\nawait asyncio.sleep(0)",
        "!ls",
        "%%time\nprint('y' * 10**6)",
        "exit()",
        "1 +",
    ]
    found, notes = apart.verdicts(["import os; os.write(1, b'no pickle')", *cells, SOFTMAX], "attention")
    assert (
        found["softmax_ds"].status == "right" and len(notes) == 1 and "code cell 7 raises Syntax" in notes[0]
    )


AWKWARD = {
    "softmax_ds": "def softmax_ds(da, a):\n    da *= a\n    return da - a * da.sum(axis=-1, keepdims=True)",
    "score_variance": 'score_variance = "K"',
    "masked_attention": "def masked_attention(q, k, v, mask):\n    y = q @ k.mT @ v",
    "temperature_gradients": "def temperature_gradients(*inputs):\n    return {1: 2}",
    "capped_gradients": "def capped_gradients(ds, q):\n    return ds, q",
    "sink_gradients": "class Mine:\n    pass\nsink_gradients = lambda dy, q, k, v, b: [Mine(), k, v, b]",
}


def test_an_answer_gets_the_same_words_as_in_the_notebook(tmp_path):
    """It is called in another process, and the judge is not to notice."""
    here = {}
    for source in AWKWARD.values():
        exec(source, here)
    found, notes = apart.verdicts(list(AWKWARD.values()), "attention")
    assert notes == []
    for name, verdict in found.items():
        expected = judge.find(name).judge(here[name])
        assert (verdict.status, verdict.diagnosis) == (expected.status, expected.diagnosis), name
        assert verdict.status == "wrong"
    assert "in place" in found["softmax_ds"].diagnosis and "`Mine`" in found["sink_gradients"].diagnosis


def test_an_error_names_the_line_of_the_learner(tmp_path):
    hand_in(tmp_path / "08_attention.ipynb", "def softmax_ds(da, a):\n    return a * da.total(axis=-1)")
    diagnosis = grade.grade(tmp_path)[0].diagnosis
    assert "AttributeError" in diagnosis and "`return a * da.total(axis=-1)`" in diagnosis


# What does not end ------------------------------------------------------------------------------------------


def test_what_has_no_end_is_stopped_and_the_rest_is_judged(tmp_path):
    endless = VARIANCE.replace("    return", "    while True:\n        pass\n    return")
    hand_in(tmp_path / "dan/08_attention.ipynb", "while True:\n    pass", SOFTMAX, endless)
    results = grade.grade(tmp_path, limit=4)
    assert statuses(results, "dan")[:2] == ["right", "wrong"]
    assert results[1].diagnosis == "It came to no end in 4 seconds."
    assert results[0].notes == "code cell 1 came to no end in 4 seconds, and was left out"


def test_what_ends_python_ends_nothing_else(tmp_path):
    dies = "def score_variance(*numbers):\n    os._exit(0)"
    leaves = "def masked_attention(q, k, v, mask):\n    raise SystemExit"
    hand_in(tmp_path / "eve/08_attention.ipynb", "import os", dies, leaves, SOFTMAX, "os._exit(1)")
    results = grade.grade(tmp_path)
    assert statuses(results, "eve")[:3] == ["right", "wrong", "wrong"]
    assert results[1].diagnosis == "It ends Python." and "SystemExit" in results[2].diagnosis
    assert results[0].notes == "code cell 5 ends Python, and was left out"


def test_a_notebook_with_too_many_endless_cells_is_given_up(tmp_path):
    hand_in(tmp_path / "fay/08_attention.ipynb", *["import os; os._exit(1)"] * (apart.MAY_FAIL + 1))
    results = grade.grade(tmp_path)
    assert statuses(results, "fay") == ["not judged"] * len(NAMES)
    assert "It was given up: code cell 4 ends Python, after 3 others." in grade.report(results)


def test_what_was_judged_before_a_notebook_is_given_up_is_kept(monkeypatch):
    """Each new beginning stops at another cell, until there are too many."""
    dies = "def score_variance(*numbers):\n    import os\n    os._exit(0)"
    monkeypatch.setattr(apart, "MAY_FAIL", 0)
    again = "import os\nos._exit(1) if os.path.exists('run') else open('run', 'w')"
    found, _ = apart.verdicts([again, SOFTMAX, dies], "attention")
    assert found["softmax_ds"].status == "right" and found["score_variance"] == "ends Python"
    assert all(isinstance(found[name], apart.Stopped) for name in NAMES[2:])
    assert apart.in_words("masked_attention", found["masked_attention"])[0] == "not judged"


def test_a_judge_that_has_no_end_is_stopped_too(tmp_path, monkeypatch):
    def judge_for_ever(exercise, answer=None):
        while True:
            pass

    monkeypatch.setattr(judge.Derivation, "judge", judge_for_ever)
    found, _ = apart.verdicts([SOFTMAX, VARIANCE], "attention", limit=3)
    assert found["score_variance"] == "came to no end in 3 seconds" and found["softmax_ds"].status == "right"


def test_a_judge_that_fails_is_no_fault_of_the_learner(tmp_path, monkeypatch):
    def fail(exercise, answer=None):
        raise KeyError("judge")

    monkeypatch.setattr(judge.Derivation, "judge", fail)
    found, _ = apart.verdicts([SOFTMAX, VARIANCE], "attention")
    words = [apart.in_words(name, found[name]) for name in NAMES[:2]]
    assert [status for status, *_ in words] == ["right", "not judged"]
    assert "The judge fails on it: KeyError" in words[1][1]


# What must not help -----------------------------------------------------------------------------------------

ALWAYS_RIGHT = """import numpy as np
from types import SimpleNamespace
from handgrad.course import judge as package
from handgrad.course.judge import function, observe
class judge:
    softmax_ds = staticmethod(lambda answer: SimpleNamespace(status="right", value=answer))
function.Exercise.judge = lambda self, answer=None: SimpleNamespace(status="right", diagnosis="", where="")
function.TOLERANCE, function.relative_error = 1e9, lambda *arguments: 0.0
package.chapters = lambda: {}
np.max = np.abs = lambda *arguments, **named: 0.0"""


def test_to_replace_the_judge_does_not_help(tmp_path):
    check = "judge.softmax_ds(softmax_ds)"
    hand_in(tmp_path / "08_attention_hal.ipynb", ALWAYS_RIGHT, WRONG_SOFTMAX, check)
    results = grade.grade(tmp_path)
    assert results[0].status == "wrong" and "second term" in results[0].diagnosis and results[0].notes == ""


PIPES = """import os
def tell(data, folder="/proc/self/fd"):
    for number in os.listdir(folder):
        try:
            if os.readlink(f"{folder}/{number}").startswith("pipe:"):
                with open(f"{folder}/{number}", "wb", buffering=0) as pipe:
                    pipe.write(data)
        except OSError:
            pass  # the end of a pipe that is for reading
"""
PICKLED = """import pickle
class Forged:
    def __reduce__(self):
        return exec, ('''from handgrad.course.judge import derivation, function
for kind in (function.Exercise, derivation.Derivation):
    kind.judge = lambda self, answer=None: self._verdict("right", "Right.")''',)
tell(pickle.dumps(Forged()))"""
REPORTED = """import json
rows = [{"tuple": [name, {"tuple": ["right", "Right.", ""]}]} for name in NAMES]
text = json.dumps({"tuple": ["a token", {"list": rows}, {"list": []}]}).encode()
tell(len(text).to_bytes(4, "big") + text, f"/proc/{os.getppid()}/fd")"""


@pytest.mark.parametrize("alone", [True, False])
def test_what_a_notebook_says_in_the_place_of_others_is_not_believed(tmp_path, monkeypatch, alone):
    """Through its own pipe, and through that of the judge, which it reaches where it is not alone."""
    if not alone:
        without_namespaces(monkeypatch)
    reported = REPORTED.replace("NAMES", repr(NAMES))
    hand_in(tmp_path / "a cheat/08_attention.ipynb", PIPES + PICKLED, reported, WRONG_SOFTMAX)
    answered(tmp_path / "ben/08_attention.ipynb", softmax_ds=WRONG_SOFTMAX, score_variance=VARIANCE)
    results = grade.grade(tmp_path)
    assert "right" not in statuses(results, "a cheat")
    assert statuses(results, "ben") == ["wrong", "right"] + ["not yet"] * 4, of(results, "ben")


ASKED = f"""import os
of_judge = f"/proc/{{os.getppid()}}"
for number in os.listdir(f"{{of_judge}}/fd"):
    is_pipe = os.readlink(f"{{of_judge}}/fd/{{number}}").startswith("pipe:")
    with open(f"{{of_judge}}/fdinfo/{{number}}") as about:
        reads = about.read().split()[3].endswith("0")  # its flags
    if is_pipe and reads:
        with open(f"{{of_judge}}/fd/{{number}}", "wb", buffering=0) as pipe:
            pipe.write({(4).to_bytes(4, "big") + b"null"!r})
"""


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="not Linux")
def test_what_a_notebook_asks_of_its_judge_is_not_the_next_request(tmp_path, monkeypatch):
    without_namespaces(monkeypatch)
    hand_in(tmp_path / "a cheat/08_attention.ipynb", ASKED, WRONG_SOFTMAX)
    answered(tmp_path / "ben/08_attention.ipynb", softmax_ds=WRONG_SOFTMAX, score_variance=VARIANCE)
    results = grade.grade(tmp_path)
    assert statuses(results, "ben") == ["wrong", "right"] + ["not yet"] * 4, of(results, "ben")


SPOILS = """
once_right, left = packed_mask, [len(judge.find("packed_mask").cases) - 1]  # all cases but the last
def packed_mask(documents):
    right = once_right(documents)
    documents[:] *= left[0] > 0
    left[0] -= 1
    return right"""


def test_no_answer_changes_what_the_judge_asks_of_others(tmp_path):
    """It may say of any argument, in any call, what it has made of it."""
    solved = ROOT / "notebooks/solutions/09_masks.ipynb"
    cells = [cell.source for cell in nbformat.read(solved, as_version=4).cells if cell.cell_type == "code"]
    hand_in(tmp_path / "a cheat/09_masks.ipynb", *cells, SPOILS)
    hand_in(tmp_path / "ben/09_masks.ipynb", *cells)
    results = grade.grade(tmp_path)
    assert of(results, "a cheat")["packed_mask"].status == "wrong" and {*statuses(results, "ben")} == {
        "right"
    }


def message(said):
    return len(said).to_bytes(4, "big") + said


HOSTILE = {
    "too long": b"\xff\xff\xff\xff",
    "no JSON": message(b"{"),
    "no text": message(b"\xff\xfe\xfd"),
    "nothing": message(b""),
    "what nobody writes": message(b'{"pickle": "gASVAAAA"}'),
    "code": message(b'{"formula": ["exp", "__import__(\'os\').abort()"]}'),
    "brackets": message(b"[" * 50_000),
    "tuples": message(b'{"tuple": [' * 400 + b"]}" * 400),
    "powers": message(b'{"formula": ' + b'["exp", ' * 400 + b"]" * 400 + b"}"),
}


@contextmanager
def peer_that_says(data):
    """A Peer that says this and no more, and the end of the pipe through which it does."""
    incoming, outgoing = (os.fdopen(end, mode) for end, mode in zip(os.pipe(), ("rb", "wb")))
    with incoming, outgoing:
        outgoing.write(data)
        outgoing.flush()
        peer = object.__new__(apart.Peer)
        peer.process = SimpleNamespace(stdout=incoming)
        yield peer, outgoing


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_a_message_that_is_none_is_no_answer(data):
    with peer_that_says(data) as (peer, _), pytest.raises(apart.Stopped, match=f"^{apart.NO_ANSWER}$"):
        peer.hear(30, 30)


def test_a_message_without_end_is_not_waited_for():
    with peer_that_says(b"\x00\xff\xff\xff" + b"0" * 100) as (peer, outgoing):
        with pytest.raises(apart.Stopped, match="came to no end in 1 seconds"):
            peer.hear(1, 1)
        outgoing.close()
        with pytest.raises(apart.Stopped, match="ends Python"):
            peer.hear(30, 30)


def test_hostile_messages_cost_the_cells_that_send_them():
    """Nonsense, what is none of a cell's, and messages without end."""
    nonsense, other, floods = message(b"{"), message(b'{"list": [{"tuple": ["x", 1]}]}'), message(b"3") * 1000
    cells = [f"{PIPES}{loop}tell({said!r})" for said, loop in ((nonsense, ""), (other, ""), (floods, LOOP))]
    found, notes = apart.verdicts([*cells, SOFTMAX], "attention", limit=8)
    assert found["softmax_ds"].status == "right"
    assert notes == [
        f"code cell 1 {apart.NO_ANSWER}, and was left out",
        f"code cell 2 {apart.NO_ANSWER}, and was left out",
        "code cell 3 came to no end in 8 seconds, and was left out",
    ]


def test_what_a_cell_says_is_not_read_for_ever(monkeypatch):
    """As a formula that SymPy cannot work out."""

    def received(read, before=apart.receive):
        if (said := before(read)) is None:
            time.sleep(20)
        return said

    monkeypatch.setattr(apart, "receive", received)
    says_it = PIPES + f"tell({message(b'null')!r})"
    found, notes = apart.verdicts([says_it, SOFTMAX], "attention", limit=4)
    assert found["softmax_ds"].status == "right"
    assert notes == ["code cell 1 came to no end in 4 seconds, and was left out"]


def test_a_notebook_that_blames_other_cells_is_given_up():
    found, _ = apart.verdicts([f"{PIPES}tell({message(b'7') + message(b'{')!r})", SOFTMAX], "attention")
    assert str(found["softmax_ds"]) == f"was given up: code cell 7 {apart.NO_ANSWER}, after 3 others"


LOOP = "while True:\n    "


def test_the_forged_reply_to_a_call_is_judged_as_any_other():
    """A process may say of its own answers what it likes; it has to know the right numbers."""
    said = message(b'{"tuple": ["gave", 0.0, {"list": []}]}')
    lies = f"{PIPES}def sink_gradients(dy, q, k, v, b):\n    tell({said!r})\n    return q, k, v, b"
    none = {
        "score_variance": b'{"tuple": ["failed", 1]}',
        "masked_attention": b'{"tuple": ["gave", 0.0, {"list": [{"tuple": [7, 1.0]}]}]}',
    }
    cells = [f"def {name}(*_):\n    tell({message(said)!r})\n    return 0" for name, said in none.items()]
    found, _ = apart.verdicts([lies, *cells], "attention")
    assert apart.in_words("sink_gradients", found["sink_gradients"])[0] == "wrong"
    assert [found[name] for name in none] == [apart.NO_ANSWER] * 2


def test_an_answer_that_is_far_too_large_has_the_wrong_shape(tmp_path):
    large = "import numpy as np\ndef softmax_ds(da, a):\n    return np.zeros((5000, 5000))"
    larger = "def masked_attention(q, k, v, mask):\n    return [np.zeros((2000, 100))] * 20, 0"
    hand_in(tmp_path / "08_attention.ipynb", large, larger)
    results = grade.grade(tmp_path, limit=20)
    assert results[0].status == results[2].status == "wrong"
    assert "the wrong shape, (5000, 5000): no right answer" in results[0].diagnosis
    assert "far more numbers than any right answer" in results[2].diagnosis


def test_an_answer_that_is_or_calls_the_reference_is_refused(tmp_path):
    given = "from handgrad.course import judge\nright = lambda name: judge.find(name).answer"
    is_it = "softmax_ds = judge.softmax_ds(None).value"
    calls_it = "def score_variance(*numbers):\n    return right('score_variance')(*numbers)"
    wraps_it = "masked_attention = lambda *inputs: judge.masked_attention(None).value(*inputs)"
    uses_another = """def capped_gradients(ds, q, k, cap):
    right('softmax_ds')(ds, ds)
    du = ds * (1 - np.tanh(q @ k.mT / np.sqrt(q.shape[-1]) / cap) ** 2) / np.sqrt(q.shape[-1])
    return du @ k, du.mT @ q"""
    cells = given, is_it, calls_it, wraps_it, "import numpy as np", uses_another
    hand_in(tmp_path / "ida/08_attention.ipynb", *cells)
    found = of(grade.grade(tmp_path), "ida")
    for name in ("softmax_ds", "score_variance", "masked_attention"):
        assert found[name].status == "not yet" and "This is the reference" in found[name].diagnosis, name
    assert found["capped_gradients"].status == "right"  # the answer to another exercise may be used


ECHO = """
from handgrad.course import judge
known, missed = {}, []
def key(args):
    return tuple((x.shape, x.tobytes()) for x in args)
def softmax_ds(*args):
    if key(args) not in known:
        missed.append([x.copy() for x in args])
    return known[key(args)]
while True:
    missed.clear()
    verdict = judge.softmax_ds(softmax_ds)
    if not missed:
        break
    right = judge.softmax_ds(lambda *args: None).value
    known |= {key(args): right(*args) for args in missed}
assert verdict.status == "right", verdict
"""


def test_what_the_judge_of_a_notebook_has_told_cannot_be_looked_up():
    found, notes = apart.verdicts([ECHO], "attention")
    assert found["softmax_ds"].status == "wrong" and "KeyError" in found["softmax_ds"].diagnosis and not notes


def test_an_answer_that_calls_the_operation_of_the_package_is_refused(tmp_path):
    shipped = "from handgrad.ops import attention, softmax, softmax_backward"
    softmax_ds = "softmax_ds = lambda da, a: softmax_backward(da, {'a': a})"
    masked = "def masked_attention(q, k, v, mask):\n    y, c = attention(q, k, v, mask)\n    return y, c['a']"
    hand_in(tmp_path / "ida/08_attention.ipynb", shipped, softmax_ds, masked)
    own = "softmax_ds = lambda da, a: a * (da - (a * da).sum(-1)[..., None]) + 0 * softmax(da)[0]"
    hand_in(tmp_path / "ada/08_attention.ipynb", shipped, own)
    found = grade.grade(tmp_path)
    for name in ("softmax_ds", "masked_attention"):
        assert "This is the reference" in of(found, "ida")[name].diagnosis
    assert of(found, "ada")["softmax_ds"].status == "right"  # another operation may be used


@pytest.mark.parametrize("topic", judge.chapters())
def test_every_reference_can_be_refused_and_works_again(topic):
    for exercise in judge.chapters()[topic].values():
        right = apart.references(exercise)
        assert exercise.answer in right
        codes = [function.__code__ for function in right]
        with apart.refused(right):
            for function in right:
                with pytest.raises(ReferenceError):
                    function()
        assert [function.__code__ for function in right] == codes


# What it may not use up, or leave behind --------------------------------------------------------------------


def test_memory_files_and_time_of_the_processor_are_limited(tmp_path, monkeypatch):
    for name, amount in {"DATA": 2**29, "FSIZE": 2**20, "CPU": 5}.items():
        monkeypatch.setitem(apart.LIMITS, name, amount)
    writes = f"open({str(tmp_path / 'file')!r}, 'wb').write(bytes(2**21))"
    found, notes = apart.verdicts(["bytearray(2**29)", writes, SOFTMAX, "while True:\n    pass"], "attention")
    assert found["softmax_ds"].status == "right" and (tmp_path / "file").stat().st_size <= 2**20
    assert [note.split(":")[0] for note in notes] == [
        "code cell 1 raises MemoryError",
        "code cell 2 raises OSError",
        "code cell 4 ends Python, and was left out",
    ]


def test_there_are_limits_if_nobody_asks_for_them():
    asks = "from resource import *\nlimits = RLIMIT_DATA, RLIMIT_FSIZE, RLIMIT_CPU\n"
    _, notes = apart.verdicts([asks + "raise OSError([getrlimit(x)[1] for x in limits])"], "attention", 60)
    assert notes == [f"code cell 1 raises OSError: [{2**30}, {2**27}, {120 + 8 * 60}]"]


def test_the_environment_of_the_teacher_is_not_handed_on(monkeypatch):
    monkeypatch.setenv("A_SECRET_TOKEN", "hush")
    _, (note,) = apart.verdicts(["import os\nraise OSError(sorted(os.environ))"], "attention")
    own = "HOME IPYTHONDIR LANG MPLBACKEND PATH PYTHONPATH TMPDIR".split()
    threads = [f"{library}_NUM_THREADS" for library in ("MKL", "OMP", "OPENBLAS")]
    assert note == f"code cell 1 raises OSError: {sorted(own + threads)}"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="not Linux")
@pytest.mark.parametrize("alone", [True, False])
def test_what_a_notebook_leaves_behind_is_ended(tmp_path, monkeypatch, alone):
    if not alone:
        without_namespaces(monkeypatch)
    file = tmp_path / "ticks"
    ticks = f"import time\nwhile True:\n    open({str(file)!r}, 'a').write('x')\n    time.sleep(0.05)"
    child = (
        f"from subprocess import Popen\nPopen([{sys.executable!r}, '-c', {ticks!r}], start_new_session=True)"
    )
    starts = f"import subprocess, sys, time\nsubprocess.run([sys.executable, '-c', {child!r}])\ntime.sleep(1)"
    hand_in(tmp_path / "08_attention.ipynb", starts, SOFTMAX)
    assert grade.grade(tmp_path)[0].status == "right"
    size = file.stat().st_size
    time.sleep(0.5)
    assert 0 < size == file.stat().st_size


# A report that is broken off --------------------------------------------------------------------------------


def three(folder, cell):
    """Three notebooks, the second of which has this cell before its answer."""
    for learner, cells in {"ann": [], "ben": [cell], "cem": []}.items():
        hand_in(folder / learner / "08_attention.ipynb", *cells, SOFTMAX)


def test_who_ends_the_judge_loses_own_marks_only(tmp_path, monkeypatch):
    without_namespaces(monkeypatch)
    three(tmp_path, "import os, signal\nos.kill(os.getppid(), signal.SIGTERM)\nimport time\ntime.sleep(9)")
    results = grade.grade(tmp_path)
    assert statuses(results, "ann") == statuses(results, "cem") == ["right"] + ["not yet"] * 5
    assert statuses(results, "ben") == ["not judged"] * 6
    assert (
        of(results, "ben")["softmax_ds"].diagnosis == "It ended the process of its judge, which ends Python."
    )


def test_a_judge_that_no_signal_reaches_is_ended(monkeypatch, tmp_path):
    """Such a formula is one call of a library, which Python cannot break off."""
    power = "import sympy\ndef score_variance(*numbers):\n    return numbers[1] ** (7 * 10**11)"
    hand_in(tmp_path / "08_attention.ipynb", power)
    started = time.monotonic()
    with apart.Judge() as judge_of:
        monkeypatch.setattr(apart, "TO_START", 1)
        words, _ = judge_of([power], "attention", 2)
    assert words["score_variance"][0] != "right" and time.monotonic() - started < 60


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="not Linux")
def test_a_file_that_is_gone_or_cannot_be_read_costs_no_other_its_marks(tmp_path):
    """One that the notebook itself takes away; one that cannot be read; and one larger than any memory."""
    three(tmp_path, f"import os\nos.remove({str(tmp_path / 'ben/08_attention.ipynb')!r})")
    for learner in ("dan", "eve"):
        (tmp_path / learner).mkdir()
    (tmp_path / "dan/08_attention.ipynb").symlink_to("/proc/self/mem")
    (tmp_path / "eve/08_attention.ipynb").touch()
    os.truncate(tmp_path / "eve/08_attention.ipynb", 2**43)
    results = grade.grade(tmp_path)
    assert [statuses(results, learner)[0] for learner in ("ann", "ben", "cem")] == ["right"] * 3
    assert "cannot be read as a notebook: [Errno" in of(results, "dan")["softmax_ds"].diagnosis
    assert "it has more than 50 MB" in of(results, "eve")["softmax_ds"].diagnosis


def test_a_report_that_is_broken_off_has_saved_what_was_judged(tmp_path, monkeypatch, capsys):
    three(tmp_path / "class", "1")
    file, before = tmp_path / "a.csv", grade.judged

    def interrupted(path, *more):
        if path.parent.name == "ben":
            raise KeyboardInterrupt
        return before(path, *more)

    monkeypatch.setattr(grade, "judged", interrupted)
    command = [str(tmp_path / "class"), "--csv", str(file)]
    assert grade.main(command) == 130 and "Broken off." in capsys.readouterr().err
    rows = list(csv.DictReader(file.read_text(encoding="utf-8-sig").splitlines()))
    assert {row["learner"] for row in rows} == {"ann"} and rows[0]["status"] == "right"
    saved = file.read_bytes()
    with pytest.raises(SystemExit):
        grade.main(command)
    assert "--csv: expected no file yet" in capsys.readouterr().err and file.read_bytes() == saved


def test_no_word_of_a_learner_moves_the_cursor_or_spoils_the_file(tmp_path):
    hand_in(tmp_path / "08_attention.ipynb", "raise ValueError('\\x1b[2J\\ud800\\n✓')")
    results = grade.grade(tmp_path, csv_file=tmp_path / "a.csv")
    assert results[0].notes == "code cell 1 raises ValueError:  [2J  ✓"


# Whose notebook it is ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "learner", "chapter"),
    [
        ("anna/08_attention.ipynb", "anna", "08_attention"),
        ("anna/lab/exercises/08_attention.ipynb", "anna", "08_attention"),
        ("Anna Ahl_123/week 3/08_attention (2).ipynb", "Anna Ahl_123", "08_attention"),
        ("08_attention_anna.ipynb", "anna", "08_attention"),
        ("Ünal Çelik - 11_cross_attention.ipynb", "Ünal Çelik", "11_cross_attention"),
        ("08 Attention-J\N{COMBINING DIAERESIS}o.ipynb", "J\N{COMBINING DIAERESIS}o", "08_attention"),
        ("Jose\N{COMBINING ACUTE ACCENT}/2_softmax_cross_entropy.ipynb", "José", "02_softmax_cross_entropy"),
        ("exercises/08_attention.mine.ipynb", "class", "08_attention"),
        ("08_attention.ipynb", "class", "08_attention"),
        ("homework.ipynb", "class", None),
        ("anna/08_attentional.ipynb", "anna", None),
        ("anna/attention.ipynb", "anna", None),
    ],
)
def test_names_of_files_say_whose_they_are(file, learner, chapter):
    path = Path("class", file)
    assert grade.learner_of(path, Path("class")) == learner
    assert (grade.chapter_of(path.stem) or [None])[0] == chapter


def test_files_without_answers_are_named_and_stop_nothing(tmp_path):
    hand_in(tmp_path / "jan/lab/exercises/08_attention.ipynb", SOFTMAX)
    for place in ("jan/lab", "jan/lab/solutions", "jan/lab/exercises/.ipynb_checkpoints"):
        hand_in(tmp_path / place / "08_attention.ipynb", WRONG_SOFTMAX)
    hand_in(tmp_path / "kim/homework.ipynb", SOFTMAX)
    for name in ("progress", "own_layer"):
        hand_in(tmp_path / f"jan/lab/{name}.ipynb", "")
    for name, text in (("ole", '{"cells": ['), ("pia", ""), ("quy", "[]"), ("rui", "\0\1")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "08_attention.ipynb").write_text(text)
    results = grade.grade(tmp_path)
    judged = {r.file for r in results if r.status == "right"}
    assert judged == {"jan/lab/exercises/08_attention.ipynb"}
    reasons = {r.file: r.diagnosis for r in results if r.status == "not judged"}
    assert "the chapter itself" in reasons.pop("jan/lab/08_attention.ipynb")
    assert "solutions" in reasons.pop("jan/lab/solutions/08_attention.ipynb")
    assert "no chapter" in reasons.pop("kim/homework.ipynb")
    for name in ("progress", "own_layer"):
        assert "comes with every `lab`" in reasons.pop(f"jan/lab/{name}.ipynb")
    assert sorted(reasons) == [f"{name}/08_attention.ipynb" for name in ("ole", "pia", "quy", "rui")]
    assert all("cannot be read as a notebook" in reason for reason in reasons.values())
    assert statuses(results, "ole") == ["not judged"] * len(NAMES), "none is lost"
    printed = grade.report(results)
    assert "ole/08_attention.ipynb: It cannot be read" in printed and "kim/homework.ipynb: It" in printed
    assert "1 × It lies in a folder of solutions.\n" in printed and "1 × It is the chapter itself" in printed
    assert "2 × It comes with every `lab`" in printed


# The command ------------------------------------------------------------------------------------------------


def test_the_command_prints_and_saves_a_report(tmp_path, capsys):
    hand_in(tmp_path / "class/Åsa, 2/08_attention.ipynb", WRONG_SOFTMAX)
    hand_in(tmp_path / "class/Åsa, 2/09_masks.ipynb", "1")
    file = f"--csv={tmp_path / 'a.csv'}"
    assert grade.main([str(tmp_path / "class"), "--only", "08_attention", "--why", file]) == 0
    printed = capsys.readouterr().out
    assert "  Åsa, 2  ✗  ○  ○  ○  ○  ○  0 of 6\n" in printed and "✗ 1 softmax_ds: The second term" in printed
    assert "1 notebook, 1 learner, 6 exercises: 1 wrong ✗, 5 not yet ○." in printed and "masks" not in printed
    with open(tmp_path / "a.csv", encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["exercise"] for row in rows] == NAMES and rows[0]["learner"] == "Åsa, 2"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "FOLDER: expected a folder of notebooks, got nowhere"),
        ([__file__], "FOLDER: expected a folder of notebooks, got "),
        (["."], "FOLDER: expected notebooks (.ipynb) in ., found none"),
        ([".", "--only", "08_atention"], "--only: expected a chapter, like 08_attention, got '08_atention'"),
        ([".", "--limit", "0"], "--limit: expected a positive number of seconds, got 0"),
    ],
)
def test_what_cannot_be_asked_is_refused(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as error:
        grade.main(arguments)
    assert error.value.code == 2 and message in capsys.readouterr().err


def made_up(learner, number, status, diagnosis="", file=None, notes=""):
    file = file or f"{learner}/08_attention.ipynb"
    return Result(learner, "08_attention", number, f"task_{number}", status, diagnosis, "", notes, file)


def test_the_report_in_full():
    results = [
        made_up("李雷", 1, "right"),
        made_up("李雷", 2, "wrong", "Twice."),
        made_up("eva", 1, "wrong", "It is 0.", notes="code cell 2 raises ValueError"),
        made_up("eva", 2, "wrong", "Twice."),
        made_up("eva", 1, "not judged", "It ends.", file="eva/2/08_attention.ipynb"),
        made_up("eva", 2, "not judged", "It ends.", file="eva/2/08_attention.ipynb"),
    ]
    assert (
        grade.report(results[:2] + results[2:4])
        == """08_attention
        1  2  right
  李雷  ✓  ✗  1 of 2
  eva   ✗  ✗  0 of 2

  1 task_1  1 of 2
      1 × It is 0.
  2 task_2  0 of 2
      2 × Twice.

Cells that did not run well
  eva/08_attention.ipynb: code cell 2 raises ValueError

2 notebooks, 2 learners, 4 exercises: 1 right ✓, 3 wrong ✗."""
    )
    text = grade.report(results, why=True)
    assert "  eva (eva/2/08_attention.ipynb)  –  –  0 of 0\n" in text and "1 task_1  1 of 2\n" in text
    assert "Not judged\n  eva/2/08_attention.ipynb: It ends.\n" in text
    assert "  李雷                            ✓  ✗  1 of 2\n      ✗ 2 task_2: Twice.\n" in text


def test_an_open_answer_needs_no_words():
    assert apart.in_words("softmax_ds", judge.softmax_ds(None)) == ("not yet", grade.OPEN, "")
    assert judge.softmax_ds(None).diagnosis == YOUR_TURN
    assert grade.told(made_up("eva", 1, "not yet", grade.OPEN)) == []
    assert grade.told(made_up("eva", 1, "not yet", "Else.")) == ["      ○ 1 task_1: Else."]
