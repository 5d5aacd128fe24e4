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
from handgrad.config import gpt2_small, init, shapes

HERE = Path(__file__).parents[2] / "book/here"


def messages(*cells):
    """What the session tells while it runs these cells, one after another."""
    run = "import session\n" + "\n".join(f"session.run('cell-{n}', {cell!r})" for n, cell in enumerate(cells))
    ran = subprocess.run([sys.executable, "-c", run], cwd=HERE, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in ran.stdout.splitlines()]


@pytest.mark.parametrize(
    "cell, told",
    [
        ("1 + 1", [{"kind": "shown", "html": "<pre>2</pre>"}]),
        ("1 + 1;", []),
        ("x = 1", []),
        ("None", []),
        ("'<b>'", [{"kind": "shown", "html": "<pre>&#x27;&lt;b&gt;&#x27;</pre>"}]),
        ("display(3)", [{"kind": "shown", "html": "<pre>3</pre>"}]),
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
    assert found[-2] == {"kind": "shown", "html": "<pre>3</pre>"}


@pytest.mark.parametrize(
    "cell",
    ["1 +", "def f():\n    return 1/0\nf()", "raise SystemExit", "raise KeyboardInterrupt", "import nmupy"],
)
def test_an_error_ends_a_cell_and_names_its_line(cell):
    *_, error, end, last = messages(cell, "7")[:-1]
    assert end == {"kind": "done", "went_well": False} and last["html"] == "<pre>7</pre>"
    assert "<cell-0>" in error["text"] and "session.py" not in error["text"]


def test_a_cell_that_needs_what_no_page_has_is_left_out():
    lacking = "raise ModuleNotFoundError('no torch', name='torch')"
    assert [m.get("went_well", m.get("text")) for m in messages(lacking)] == [
        "There is no torch in this page: the cell is left out.\n",
        True,
    ]


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
    assert {"handgrad/course/judge/__init__.py", "handgrad/solutions/08_attention.ipynb", "session.py"} <= {
        *here.book()
    }
