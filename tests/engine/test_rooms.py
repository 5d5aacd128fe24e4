"""The rooms of the package are a stair: what is below imports nothing that is above."""

import ast
from pathlib import Path

import pytest

import handgrad

ROOT = Path(handgrad.__file__).parent
STAIR = (
    {"__init__", "extras"},  # import nothing
    {"algebra", "symbolic"},
    {"ops"},
    {"blocks"},
    {"config"},
    {"model"},
    {"optim", "data", "manual", "names", "accounting", "twin", "interop"},
    {"train", "decode"},
    {"fast"},
    {"course"},
    {"chapters"},
)
"""From below: a room may import those of its own step and of all steps below."""
BESIDE = {"check", "modules", "sums", "page", "mistakes"}
"""What looks at the operations, and at no model. Only the rooms of the book import these."""
BOOK = {"course", "chapters"}


def step_of(room):
    """The number of a room's step. Raises ValueError for a room that has no place on the stair."""
    for number, rooms in enumerate(STAIR):
        if room in rooms:
            return number
    raise ValueError(f"room: expected one of the stair or beside it, got {room!r}")


def may_import(room, other):
    """Whether one room may import the other."""
    if room in BESIDE:
        return other in BESIDE or step_of(other) <= step_of("ops")
    if other in BESIDE:
        return room in BOOK
    return step_of(other) <= step_of(room)


def imported_rooms(name, text):
    """The rooms that a file imports, anywhere in its text; name: its path in the package, for "from .."."""
    rooms = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            package = ("handgrad", *Path(name).parent.parts)
            start = package[: len(package) - node.level + 1] if node.level else ()
            start += tuple(node.module.split(".")) if node.module else ()
            modules = [(*start, alias.name) for alias in node.names]
        elif isinstance(node, ast.Import):
            modules = [tuple(alias.name.split(".")) for alias in node.names]
        else:
            continue
        rooms |= {module[1] for module in modules if module[0] == "handgrad" and len(module) > 1}
    return rooms - {"__version__"}


def forbidden(name, text):
    """The rooms that a file imports and may not."""
    room = Path(name).parts[0].removesuffix(".py")
    return sorted(other for other in imported_rooms(name, text) if not may_import(room, other))


FILES = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in ROOT.rglob("*.py")}


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_file_imports_nothing_from_above(name):
    assert forbidden(name, FILES[name]) == []


def test_every_step_is_climbed():
    """The imports are really read: each room but the lowest and the chapters is imported from somewhere."""
    seen = set().union(*(imported_rooms(name, text) for name, text in FILES.items()))
    present = {Path(name).parts[0].removesuffix(".py") for name in FILES}
    for rooms in STAIR[1:-2]:  # nothing but notebooks imports what makes the book from outside
        assert rooms & present & seen, rooms


UPWARD = [
    ("algebra.py", "from .ops.softmax import softmax", "ops"),
    ("ops/linear.py", "from ..model import forward", "model"),
    ("ops/linear.py", "from .. import blocks", "blocks"),
    ("blocks.py", "from .config import Config", "config"),
    ("optim.py", "from . import fast", "fast"),
    ("train.py", "import handgrad.fast.step", "fast"),
    ("train.py", "def run():\n    from handgrad.fast import engine", "fast"),
    ("decode.py", "from handgrad import course", "course"),
    ("check.py", "from .model import forward", "model"),
    ("model.py", "from .check import prove", "check"),
    ("fast/step.py", "from ..course.figures import style", "course"),
    ("fast/__init__.py", "from ..chapters import attention", "chapters"),
    ("course/figures.py", "from ..chapters.attention import figures", "chapters"),
    ("course/judge/verdict.py", "from ...chapters.attention import figures", "chapters"),
    ("__init__.py", "from . import ops", "ops"),
]


@pytest.mark.parametrize(("name", "text", "above"), UPWARD)
def test_an_import_from_above_is_refused(name, text, above):
    assert forbidden(name, text) == [above]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("fast/update.py", "from ..train import check_loss\nfrom . import loops, step\nimport numpy"),
        ("course/judge/verdict.py", "from ...check import prove\nfrom ...fast import step"),
        ("chapters/speed/figures.py", "from ...course.figures import style\nfrom ..attention import figures"),
        ("mistakes/known.py", "from ..check import leaf_names\nfrom ..ops.table import OPS"),
    ],
)
def test_an_import_from_below_is_not_refused(name, text):
    assert forbidden(name, text) == []


def test_a_room_without_a_place_is_refused():
    with pytest.raises(ValueError, match="room: expected one of the stair or beside it, got 'attic'"):
        forbidden("attic.py", "from .ops import linear")
