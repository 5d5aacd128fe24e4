"""Each room works with no more than what pyproject.toml declares for it: the dependencies, or one extra."""

import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import handgrad
from handgrad import __main__ as command

PACKAGE = Path(handgrad.__file__).parent
SETTINGS = tomllib.loads((PACKAGE.parents[1] / "pyproject.toml").read_text())
PROJECT, DATA = SETTINGS["project"], SETTINGS["tool"]["setuptools"]["package-data"]
EXTRAS = PROJECT["optional-dependencies"]
NEEDS = {
    r"twin|modules|chapters\.\w+\.(twin|torch_layer|whole)": "oracle",
    r"fast\.(loops|memory|sharing|step|update)|course\.ledger": "fast",
    r"course\.(figures|interactive)|chapters\.\w+\.figures": "figures",
    r"course\.(apart|consistency|damage|evidence|grade|plan|rules|running|runs|teaching)"
    r"|chapters\.errata\.claims": "book",
}
"""Which rooms need an extra; all others need the dependencies only."""

WITHOUT = """
import importlib, importlib.metadata, sys
allowed, modules = (argument.split() for argument in sys.argv[1:3])
owners = importlib.metadata.packages_distributions()

class OnlyWhatIsAllowed:
    def find_spec(name, path=None, target=None):
        distributions = {owner.lower().replace("_", "-") for owner in owners.get(name, ())}
        if distributions and not distributions & set(allowed):
            raise ModuleNotFoundError(f"{name} is in {distributions}, which is not declared", name=name)

sys.meta_path.insert(0, OnlyWhatIsAllowed)
for module in modules:
    importlib.import_module(module)
exec(sys.argv[3])
"""
USES = {
    "": """
import warnings
import numpy as np
from handgrad import check, fast, train
from handgrad.config import Config
from handgrad.ops.table import OPS
check.prove(OPS["softmax"])
check.differences(OPS["softmax"], np.random.default_rng(0), digits=50)
config = Config("decoder", V=5, D=4, H=2, F=3, N=1, norm="pre")
recipe = train.Recipe(steps=2, batch_size=2, peak=0.1, warmup=1)
tokens = np.array([[1, 2, 3], [3, 2, 1]])
fresh = train.start(config, 0)
draw = lambda rng, B: {"tokens": tokens, "target_out": tokens}
wanted = train.run(fresh, draw, config, recipe)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("default")
    for _ in range(2):
        got = train.run(fresh, draw, config, recipe, engine=fast.engine)
assert got.losses == wanted.losses
(said,) = caught
assert str(said.message) == "without numba the readable step trains: pip install handgrad[fast]"
try:
    from handgrad.fast import Workspace
except ImportError as error:
    assert str(error) == "Workspace: expected numba to be there: pip install handgrad[fast]"
else:
    raise AssertionError("there is a Workspace without numba")
from handgrad.fast import *
assert not hasattr(fast, "anything")
""",
    "fast": """
import numpy as np
from handgrad import fast, train
from handgrad.config import Config
config = Config("decoder", V=5, D=4, H=2, F=3, N=1, norm="pre")
recipe = train.Recipe(steps=2, batch_size=2, peak=0.1, warmup=1)
tokens = np.array([[1, 2, 3], [3, 2, 1]])
draw = lambda rng, B: {"tokens": tokens, "target_out": tokens}
train.run(train.start(config, 0), draw, config, recipe, engine=fast.engine)
""",
    "oracle": """
import numpy as np
from handgrad import check
from handgrad.ops.table import OPS
check.autograd(OPS["softmax"], np.random.default_rng(0))
""",
    "figures": """
from handgrad.course.figures import subplots
subplots()
""",
    "book": """
from handgrad.course.evidence import displayed
assert displayed("$$ x $$ (eq-x)") == [("eq-x", "x")]
""",
}
"""What one does with each."""


def modules():
    """{module of the package: the extra that it needs, or ""}."""
    names = sorted(
        ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")
        for path in PACKAGE.rglob("*.py")
    )
    extra_of = {name: [e for pattern, e in NEEDS.items() if re.fullmatch(pattern, name)] for name in names}
    return {f"handgrad.{name}": " ".join(extras) for name, extras in extra_of.items() if name != "__init__"}


def brought_along(requirements):
    """The names of all distributions that these requirements bring along."""
    todo, found = [(Requirement(text), "") for text in requirements], set()
    while todo:
        requirement, extra = todo.pop()
        name = requirement.name.lower().replace("_", "-")
        wanted = requirement.marker is None or requirement.marker.evaluate({"extra": extra})
        if not wanted or (name, *requirement.extras) in found:
            continue
        found.add((name, *requirement.extras))
        try:
            below = [Requirement(text) for text in requires(requirement.name) or ()]
        except PackageNotFoundError:
            continue  # of another system
        todo += [(other, extra) for other in below for extra in ("", *requirement.extras)]
    return {name for name, *_ in found}


def imported(names, extra, use=""):
    """Import modules, and use them, where only handgrad with one extra is installed: the finished process."""
    own = [requirement for name in extra.split() for requirement in EXTRAS[name]]
    allowed = brought_along([*PROJECT["dependencies"], *own]) | {"handgrad"}
    line = [sys.executable, "-c", WITHOUT, " ".join(sorted(allowed)), " ".join(names), use]
    return subprocess.run(line, capture_output=True, text=True)


def test_every_extra_is_used_by_a_room():
    assert set(USES) == set(modules().values()) and {*" ".join(USES).split()} == set(EXTRAS)


@pytest.mark.parametrize("extra", USES)
def test_a_room_works_with_what_is_declared_for_it(extra):
    own = [name for name, needed in modules().items() if needed == extra]
    assert own
    run = imported(own, extra, USES[extra])
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("module, extra", [(m, e) for m, e in modules().items() if e])
def test_and_needs_it(module, extra):
    run = imported([module], "")
    assert run.returncode != 0 and "which is not declared" in run.stderr, f"{module} does not need {extra}"


SCRIPTS = [
    path.relative_to(PACKAGE.parent).with_suffix("").as_posix().replace("/", ".")
    for path in sorted(PACKAGE.rglob("*.py"))
    if '__name__ == "__main__"' in path.read_text(encoding="utf-8")
]
COMMANDS = {module: (module, []) for module in SCRIPTS[1:]}
COMMANDS |= {module: (SCRIPTS[0], [name]) for name, module in command.COMMANDS.items()}
"""{module: the one that is run for it, and with which words}; `handgrad NAME` is the first of the scripts."""


def test_these_are_the_commands():
    rooms = "course.damage course.rules course.runs page.sheet course.progress course.grade"
    assert list(COMMANDS) == [f"handgrad.{room}" for room in rooms.split()]
    assert SCRIPTS[0] == "handgrad.__main__"


@pytest.mark.parametrize("module", COMMANDS)
def test_a_command_works_or_says_what_to_install(module):
    script, words = COMMANDS[module]
    allowed = brought_along(PROJECT["dependencies"]) | {"handgrad"}
    run = f"runpy.run_module({script!r}, None, '__main__', True)"
    use = f"import runpy\nsys.argv[1:] = {[*words, '--help']}\n{run}"
    line = [sys.executable, "-c", WITHOUT, " ".join(sorted(allowed)), "", use]
    run = subprocess.run(line, capture_output=True, text=True)
    extras = modules()[module].split()
    if not extras:
        assert run.returncode == 0 and run.stdout.startswith("usage:"), run.stderr
        return
    assert run.returncode == 1 and "Traceback" not in run.stderr, run.stderr
    said = re.search(r'pip install "handgrad\[([a-z,]+)\]"$', run.stderr.strip())
    assert said and set(said[1].split(",")) == set(extras), run.stderr


def test_teachers_are_told_their_extra():
    page = PACKAGE.parents[1] / "book/teaching.md"
    assert "handgrad[book]" in page.read_text(encoding="utf-8")


def test_files_that_are_no_python_are_installed_too():
    files = {path.relative_to(PACKAGE.parent) for path in PACKAGE.rglob("*.*") if path.is_file()}
    others = {path for path in files if path.suffix != ".py" and "__pycache__" not in path.parts}
    declared = {Path(room.replace(".", "/"), name) for room, names in DATA.items() for name in names}
    assert declared == others
