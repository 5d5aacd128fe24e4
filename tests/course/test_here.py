"""Exercises in the page: what its Python says of a cell, and that its stand-in for optree is like it."""

import json
import subprocess
import sys
from importlib import util
from pathlib import Path

import numpy as np
import optree
import pytest

from book._ext import here
from handgrad import manual
from handgrad.config import gpt2_small, init, shapes

HERE = Path(__file__).parents[2] / "book/here"


LACKING = "session.ELSEWHERE.add('lorch')"  # as torch is where there is none


def messages(*cells, before="", shipped=False):
    """What the session tells while it runs these cells, one after another."""
    runs = (f"session.run('cell-{n}', {cell!r}, {shipped})" for n, cell in enumerate(cells))
    run = "\n".join(["import session", before, *runs])
    ran = subprocess.run([sys.executable, "-c", run], cwd=HERE, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in ran.stdout.splitlines()]


@pytest.mark.parametrize(
    "cell, told",
    [
        ("1 + 1", [{"kind": "shown", "formulas": False, "html": "<pre>2</pre>"}]),
        ("1 + 1;", []),
        ("x = 1", []),
        ("None", []),
        ("'<b>'", [{"kind": "shown", "formulas": False, "html": "<pre>&#x27;&lt;b&gt;&#x27;</pre>"}]),
        ("display(3)", [{"kind": "shown", "formulas": False, "html": "<pre>3</pre>"}]),
    ],
)
def test_a_cell_shows_its_last_value(cell, told):
    *found, end = messages(cell)
    assert end == {"kind": "done", "went_well": True}
    assert [
        {key: message[key] for key in wanted} for message, wanted in zip(found, told, strict=True)
    ] == told


def test_cells_share_their_names_and_print_in_order():
    found = messages("x = 2\nprint(x)", "x += 1\nprint(x)\nx")
    assert "".join(m["text"] for m in found if m["kind"] == "text") == "2\n3\n"
    assert found[-2] == {"kind": "shown", "formulas": False, "html": "<pre>3</pre>"}


@pytest.mark.parametrize(
    "cell",
    ["1 +", "def f():\n    return 1/0\nf()", "raise SystemExit", "raise KeyboardInterrupt", "import nmupy"],
)
def test_an_error_ends_a_cell_and_names_its_line(cell):
    *_, error, end, last = messages(cell, "7")[:-1]
    assert end == {"kind": "done", "went_well": False} and last["html"] == "<pre>7</pre>"
    assert "<cell-0>" in error["text"] and "session.py" not in error["text"]


def left_out(*cells, **how):
    """Why each of these cells was left out, "error" for one that ended with an error, None for the others."""
    found, why = [], None
    for message in messages(*cells, **how):
        if message["kind"] in ("left", "error"):
            why = message["text"] if message["kind"] == "left" else "error"
        elif message["kind"] == "done":
            assert message["went_well"] == (why != "error")
            found.append(why and why.removeprefix("This cell cannot run here: "))
            why = None
    return found


def test_what_a_cell_lacks_is_told_where_it_is_used_and_so_is_what_depends_on_it():
    cells = {
        "import lorch\nfrom lorch.nn import f\nx, y = 1, 2\nfrom lorch import nn, no_grad": None,
        "y = 3\ny = lorch.ones(y)\nz = [x for x in range(3)]": "it needs lorch, which is not in this page.",
        "x, y": None,
        "def later():\n    return z": None,
        "import json, sys\nlater()\nx = sys": "it needs z, made by a cell that cannot run here.",
        "sys, json": None,
        "x": "it needs x, made by a cell that cannot run here.",
        "x = 4": None,
        "x + 0": None,
        "f(x)": "it needs lorch, which is not in this page.",
        "no_grad.mode": "it needs lorch, which is not in this page.",
        "u": "error",
        "import nmupy": "error",
    }
    assert left_out(*cells, before=LACKING) == [*cells.values()]


def test_what_the_book_has_run_is_no_error_of_the_reader():
    why = "it ends with ZeroDivisionError: division by zero."
    assert left_out("x = 1\nx = 1 / 0", "x", before=LACKING, shipped=True) == [why, None]
    assert left_out("x = 1 / 0") == ["error"]
    leave = "session.run('early', 'slow = 1'); session.leave_out('cell', 'slow = 2', 'it takes a minute')"
    assert left_out("slow", before=leave) == [
        None,
        "it takes a minute.",
        "it needs slow, made by a cell that cannot run here.",
    ]


def test_figures_code_and_formulas_are_shown():
    cell = "import matplotlib.figure as m\nf = m.Figure()\nf.subplots()\nf"
    code = "from IPython.display import Code, Markdown\ndisplay(Code('a < b'), Markdown('$x$'))"
    figure, *texts = [m for m in messages(cell, code) if m["kind"] == "shown"]
    assert figure["html"].startswith('<img alt="what this cell draws" src="data:image/svg+xml;base64,')
    assert [(m["html"], m["formulas"]) for m in texts] == [
        ("<pre>a &lt; b</pre>", False),
        ('<pre class="tex2jax_process">$x$</pre>', True),
    ]


def test_an_expected_error_is_expected_as_in_pytest():
    raises = "import pytest\nwith pytest.raises(ValueError, match='b.d') as caught:\n    "
    cells = [f"raise ValueError('{text}')" for text in ("bad", "good")] + ["raise KeyError('bad')", "pass"]
    cells[0] += "\nassert caught.value.args == ('bad',)"
    assert left_out(*(raises + cell for cell in cells)) == [None, "error", "error", "error"]


def stand_in():
    spec = util.spec_from_file_location("stand_in", HERE / "optree.py")
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_stand_in_walks_the_trees_of_the_package_as_optree_does():
    own, config = stand_in(), gpt2_small(V=7, D=8, H=2, F=12, N=2, T_max=5)
    params = init(config, np.random.default_rng(0), np.float64)
    trees = [params, {"b": [1, (2, None)], "a": {}}, (), None, 3.0, [{"z": 1, "y": 2}, {"y": 3}]]
    for tree in trees:
        assert own.tree_paths(tree) == optree.tree_paths(tree)
        for mine, theirs in zip(own.tree_leaves(tree), optree.tree_leaves(tree), strict=True):
            assert mine is theirs
        leaves, structure = own.tree_flatten(tree)
        assert repr(own.tree_unflatten(structure, leaves)) == repr(tree)
        assert (structure == own.tree_structure(params)) == (tree is params)
    doubled = own.tree_map(np.add, params, params)
    assert optree.tree_all(optree.tree_map(lambda a, b: (a == 2 * b).all(), doubled, params))

    def is_shape(x):
        return isinstance(x, tuple)

    ours, theirs = (trees_of.tree_paths(shapes(config), is_leaf=is_shape) for trees_of in (own, optree))
    assert ours == theirs
    with pytest.raises((KeyError, IndexError, ValueError)):
        own.tree_map(np.add, {"a": 1}, {"b": 1})


def test_a_pack_holds_its_files():
    files = {"a/b.py": b"one", "c.yml": "é".encode()}
    packed = here.pack(files)
    length = int.from_bytes(packed[:4], "little")
    assert json.loads(packed[4 : 4 + length]) == [["a/b.py", 3], ["c.yml", 2]]
    assert packed[4 + length :] == b"one\xc3\xa9"
    book, read = here.book(), ("handgrad/course/judge/__init__.py", "notebooks/05_normalization.ipynb")
    assert {*read, "handgrad/solutions/08_attention.ipynb", "session.py", "lark/grammars/common.lark"} <= {
        *book
    }
    assert "torch" in book["elsewhere.txt"].decode().split()
    assert manual.read(book["brython/data/brython_stdlib.js"].decode())


def test_the_page_starts_without_scipy():
    """Loading it there takes a second; what needs an error function loads it then."""
    lines = "import sys, handgrad.course.judge, handgrad.page.sheet; sys.exit('scipy' in sys.modules)"
    subprocess.run([sys.executable, "-c", lines], check=True)
