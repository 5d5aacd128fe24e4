"""The form of the notebooks: short cells, more prose than code, words for pictures, only quoted outputs.

Each rule is a function of a notebook that returns complaints. The tests apply the rules to every notebook of
the book, and every rule to notebooks that it must refuse.
"""

import ast
import copy
import importlib.util
import io
import math
import re
import tokenize
from pathlib import Path
from statistics import median

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from handgrad.course.evidence import NOT_RUN, chapters, imported, origin, parse

ROOT = Path(__file__).parents[2]
NOTEBOOKS = ROOT / "notebooks"
CHAPTERS = chapters(NOTEBOOKS)
EVERYTHING = sorted(NOTEBOOKS.rglob("[0-9][0-9]_*.ipynb"))


def load_tool(name):
    """A script of tools/ as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


outputs = load_tool("outputs")


# Reading ----------------------------------------------------------------------------------------------------


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def text_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "markdown"]


def with_names(notebook):
    """Yield (code cell, its tree, what its names stand for) with the imports of the cells before it."""
    names = {}
    for cell in code_cells(notebook):
        tree = parse(cell.source)
        names = imported(tree, names)
        yield cell, tree, names


def lines_of_code(source):
    """Lines that say something: no empty ones, no comments, no imports."""
    tree = parse(source)
    imports = [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]
    lines = sum(1 for line in source.splitlines() if line.strip() and not line.strip().startswith("#"))
    return lines - sum(node.end_lineno - node.lineno + 1 for node in imports)


def words_of_code(source):
    """Names, keywords, numbers and strings: operators and brackets are not words."""
    kinds = (tokenize.NAME, tokenize.NUMBER, tokenize.STRING)
    return sum(token.type in kinds for token in tokenize.generate_tokens(io.StringIO(source).readline))


def words_of_prose(source):
    """Words of a Markdown cell outside formulas, code and addresses."""
    source = re.sub(r"```.*?```|\$\$.*?\$\$|\$[^$]*\$|`[^`]*`|https?:\S+", " ", source, flags=re.DOTALL)
    return len(re.findall(r"[^\W\d_]{2,}", source))


def headings(notebook):
    return re.findall(
        r"^#{1,3} (.+)$", "\n".join(cell.source for cell in text_cells(notebook)), flags=re.MULTILINE
    )


# Rules for every notebook -----------------------------------------------------------------------------------


def rule_kernel(notebook):
    kernel = notebook.metadata.get("kernelspec", {}).get("name")
    return [] if kernel == "python3" else [f"kernelspec: expected python3, got {kernel}"]


def rule_ids(notebook):
    """An id is words with hyphens, so that a cell can be named and its history followed."""
    ids = [cell.get("id", "") for cell in notebook.cells]
    wrong = [f"{i!r}: {ids.count(i)} cells have this id" for i in sorted(set(ids)) if ids.count(i) > 1]
    readable = re.compile(r"(?![0-9a-f]{8}(-|$))[a-z][a-z0-9]*([-_][a-z0-9]+)*")
    return wrong + [f"{i!r}: an id is readable words with hyphens" for i in ids if not readable.fullmatch(i)]


def rule_outputs(notebook):
    return outputs.problems(notebook)


def rule_runs(notebook):
    """Every cell runs, in nbval and in the build, and a cell that must raise says so with pytest.raises."""
    tagged = [
        (cell.id, sorted(set(cell.metadata.get("tags", [])) & NOT_RUN)) for cell in code_cells(notebook)
    ]
    return [f"{name}: tagged {tags}, so it need not run, or may fail" for name, tags in tagged if tags]


def rule_no_plumbing(notebook):
    wrong = []
    for cell, tree, names in with_names(notebook):
        for line in cell.source.splitlines():
            if re.match(r"\s*[%!]\s*(pip|conda|matplotlib)\b|\s*!", line):
                wrong.append(f"{cell.id}: installation and set-up belong to the environment: {line.strip()}")
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and origin(node, names) in (
                "sys.path",
                "os.environ",
                "os.chdir",
            ):
                wrong.append(f"{cell.id}: {origin(node, names)} is set-up")
            if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names):
                wrong.append(f"{cell.id}: `from {node.module} import *` hides where a name comes from")
    return wrong


# The functions of numpy.random that only make a generator; torch functions that draw, and must be given one.
GENERATORS = {"default_rng", "Generator", "SeedSequence", "PCG64"}
TORCH_DRAWS = {"rand", "randn", "randint", "randperm", "normal", "bernoulli", "multinomial"}


def rule_random_state(notebook):
    """Random numbers come from a seeded generator, so that a cell gives the same whatever ran before it."""
    wrong = []
    for cell, tree, names in with_names(notebook):
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            name = origin(call.func, names) or ""
            package, _, function = name.rpartition(".")
            given = call.args or call.keywords
            if package == "numpy.random" and function not in GENERATORS:
                wrong.append(
                    f"{cell.id}: {name} uses the global state; draw from np.random.default_rng(seed)"
                )
            elif name == "numpy.random.default_rng" and not given:
                wrong.append(f"{cell.id}: default_rng() without a seed gives other numbers each time")
            elif package == "random" and function != "Random":
                wrong.append(f"{cell.id}: {name} uses the global state")
            elif name in ("torch.manual_seed", "torch.seed", "torch.cuda.manual_seed"):
                wrong.append(f"{cell.id}: {name} sets the global state; pass a torch.Generator")
            elif (
                package == "torch"
                and function in TORCH_DRAWS
                and "generator" not in [k.arg for k in call.keywords]
            ):
                wrong.append(f"{cell.id}: {name} without generator= draws from the global state")
    return wrong


# Rules for chapters -----------------------------------------------------------------------------------------


def rule_cells_are_short(notebook):
    lines = sorted(lines_of_code(cell.source) for cell in code_cells(notebook) if cell.source.strip())
    ninth = lines[math.ceil(0.9 * len(lines)) - 1] if lines else 0
    wrong = (
        [f"the median code cell has {median(lines)} lines, expected at most 3"]
        if lines and median(lines) > 3
        else []
    )
    return wrong + (
        [f"one cell in ten has {ninth} lines of code or more, expected at most 12"] if ninth > 12 else []
    )


def rule_more_prose_than_code(notebook):
    prose = sum(words_of_prose(cell.source) for cell in text_cells(notebook))
    code = sum(words_of_code(re.sub(r"(?m)^\s*[%!].*$", "", cell.source)) for cell in code_cells(notebook))
    return [] if prose >= code else [f"{prose} words of prose for {code} words of code"]


def rule_imports_where_used(notebook):
    """A name is imported where it is first used, or one cell before; figures are drawn elsewhere."""
    wrong = []
    trees = [(cell, parse(cell.source)) for cell in code_cells(notebook)]
    used = [{node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} for _, tree in trees]
    for place, (cell, tree) in enumerate(trees):
        imports = [node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
        new = imported(ast.Module(imports, []))
        near = set().union(*used[place : place + 2])
        wrong += [
            f"{cell.id}: imports {name}, not used in this cell or the next"
            for name in new
            if name not in near
        ]
        if any(name.split(".")[0] in ("matplotlib", "seaborn", "plotly") for name in new.values()):
            wrong.append(f"{cell.id}: figures are drawn by handgrad.course.figures, not in a notebook")
    return wrong


# The modules whose functions return a figure: the shared one, and those of one chapter.
DRAWS = re.compile(r"handgrad\.(course\.figures|chapters\.\w+\.(figures|races))\.")


def rule_pictures_have_text(notebook):
    """A cell that shows a figure says what it shows, to those who cannot see it."""
    wrong = []
    for cell, tree, names in with_names(notebook):
        last = tree.body[-1].value if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        name = origin(last.func, names) or "" if isinstance(last, ast.Call) else ""
        alt = cell.metadata.get("mystnb", {}).get("image", {}).get("alt", "")
        if DRAWS.match(name) and len(alt.split()) < 4:
            wrong.append(
                f"{cell.id}: shows a figure; its metadata mystnb.image.alt must describe it, got {alt!r}"
            )
        if (
            name == "handgrad.course.interactive.frames"
            and len(last.args) < 4
            and "alt" not in [k.arg for k in last.keywords]
        ):
            wrong.append(f"{cell.id}: interactive.frames without alt")
    return wrong


def rule_states_its_time(notebook):
    """The metadata hold the reading time and the budget for the run, and the opening says both in words."""
    stated = notebook.metadata.get("handgrad", {})
    wrong = []
    if stated.get("budget") not in (60, 240):
        wrong.append(
            f"metadata handgrad.budget: expected 60 seconds, 240 for training, got {stated.get('budget')}"
        )
    minutes = stated.get("reading_minutes")
    opening = " ".join(cell.source for cell in text_cells(notebook)[:3])
    if not isinstance(minutes, int) or not re.search(rf"\b{minutes}\s+minutes", opening):
        wrong.append(f"metadata handgrad.reading_minutes is {minutes}: the opening must name the same number")
    if not re.search(r"\b(run|runs|running|execute|executes)\b", opening):
        wrong.append("the opening does not say how long the notebook runs")
    return wrong


# What the headings of a chapter announce, in this order; two may share a heading.
SKELETON = {
    "the shipped lines": r"shipped|lines",
    "what breaks": r"break|wrong|without|forget",
    "training": r"train",
    "exercises": r"exercise",
    "the claims again": r"now|again|able",
    "further reading": r"reading",
}


def rule_skeleton(notebook):
    """The opening says what one will be able to do; headings announce the parts in order; there is a quiz."""
    opening = " ".join(cell.source for cell in text_cells(notebook)[:3])
    wrong = [] if "able to" in opening else ["the opening does not say what one will be able to do"]
    if not any("display_quiz" in cell.source for cell in code_cells(notebook)):
        wrong.append("there is no quiz")
    left = headings(notebook)
    for part, word in SKELETON.items():
        place = [i for i, title in enumerate(left) if re.search(word, title, re.IGNORECASE)]
        wrong += [] if place else [f"no heading announces {part}, or it is out of order"]
        left = left[place[0] :] if place else left
    return wrong


ALWAYS = (rule_kernel, rule_ids, rule_outputs, rule_runs, rule_no_plumbing, rule_random_state)
IN_CHAPTERS = (
    rule_cells_are_short,
    rule_more_prose_than_code,
    rule_imports_where_used,
    rule_pictures_have_text,
    rule_states_its_time,
    rule_skeleton,
)


# The book ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ALWAYS, ids=lambda rule: rule.__name__.removeprefix("rule_"))
@pytest.mark.parametrize(
    "path", EVERYTHING, ids=lambda path: str(path.relative_to(NOTEBOOKS).with_suffix(""))
)
def test_notebook(path, rule):
    assert rule(nbformat.read(path, as_version=4)) == []


@pytest.mark.parametrize("rule", IN_CHAPTERS, ids=lambda rule: rule.__name__.removeprefix("rule_"))
@pytest.mark.parametrize("path, notebook", CHAPTERS, ids=[path.stem for path, _ in CHAPTERS])
def test_chapter(path, notebook, rule):
    assert rule(notebook) == []


# The rules refuse what they must ----------------------------------------------------------------------------


def sound():
    """A notebook that breaks no rule."""
    opening = "# Squares\n\nYou will be able to square. Reading takes 5 minutes, running 2 seconds.\n\n"
    titles = (
        "The shipped lines",
        "What breaks without a mask",
        "Train a small model",
        "Exercises and questions",
        "What you can do now",
        "Further reading",
    )
    words = "A few plain words about this part of the chapter, enough to outweigh the code."
    parts = opening + "\n\n".join(f"## {title}\n\n{words}" for title in titles)
    return new_notebook(
        metadata={
            "kernelspec": {"name": "python3", "display_name": "Python 3"},
            "handgrad": {"budget": 60, "reading_minutes": 5},
        },
        cells=[
            new_markdown_cell(parts, id="squares"),
            new_code_cell(
                "import numpy as np\nrng = np.random.default_rng(0)\nx = rng.standard_normal(3)", id="draw"
            ),
            new_code_cell(
                "from handgrad.course.figures import squares\nsquares.plot(x)",
                id="plot",
                metadata={"mystnb": {"image": {"alt": "The square of x against x."}}},
            ),
            new_code_cell("from jupyterquiz import display_quiz\ndisplay_quiz('squares.json')", id="quiz"),
            new_code_cell(
                "print(f'{9:.1f}')",
                id="nine",
                metadata={"tags": ["quoted"]},
                outputs=[new_output("stream", name="stdout", text="9.0\n")],
                execution_count=3,
            ),
        ],
    )


def changed(source=None, cell=1, **attributes):
    def change(notebook):
        if source is not None:
            notebook.cells[cell].source = source
        notebook.cells[cell].update(attributes)

    return change


def metadata(**values):
    return lambda notebook: notebook.metadata.update(values)


def test_a_sound_notebook_passes():
    assert [complaint for rule in ALWAYS + IN_CHAPTERS for complaint in rule(sound())] == []


IMAGE = new_output("display_data", data={"image/png": "", "text/plain": "<Figure>"})
BAD = [
    (rule_kernel, metadata(kernelspec={"name": "my-venv", "display_name": "mine"})),
    (rule_kernel, lambda notebook: notebook.metadata.pop("kernelspec")),
    (rule_ids, changed(id="plot")),
    (rule_ids, changed(id="0f3c9a1b")),
    (rule_ids, changed(id="0f3c9a1b-90aa-4d5c-9e43-b4d1a8b0c111")),
    (rule_ids, changed(id="Cell 1")),
    (rule_outputs, changed(outputs=[new_output("stream", name="stdout", text="1")])),
    (rule_outputs, changed(execution_count=1)),
    (rule_outputs, changed(cell=4, execution_count=None)),
    (rule_outputs, changed(cell=4, outputs=[])),
    (rule_outputs, changed(cell=4, outputs=[IMAGE])),
    (rule_outputs, changed(cell=4, outputs=[new_output("stream", name="stderr", text="warning")])),
    (rule_runs, changed(metadata=nbformat.from_dict({"tags": ["skip-execution"]}))),
    (rule_runs, changed(metadata=nbformat.from_dict({"tags": ["raises-exception"]}))),
    (rule_no_plumbing, changed("import sys\nsys.path.insert(0, '../src')")),
    (rule_no_plumbing, changed("from sys import path as p\nimport sys as s\ns.path += ['..']")),
    (rule_no_plumbing, changed("%pip install numpy")),
    (rule_no_plumbing, changed("!pip install numpy")),
    (rule_no_plumbing, changed("%matplotlib inline")),
    (rule_no_plumbing, changed("from handgrad.sums import *")),
    (rule_random_state, changed("import numpy as np\nnp.random.seed(0)")),
    (rule_random_state, changed("import numpy as np\nx = np.random.randn(3)")),
    (rule_random_state, changed("from numpy.random import rand\nx = rand(3)")),
    (rule_random_state, changed("from numpy import random as r\nx = r.rand(3)")),
    (rule_random_state, changed("import numpy as np\nrng = np.random.default_rng()")),
    (rule_random_state, changed("import random\nrandom.random()")),
    (rule_random_state, changed("import torch\ntorch.manual_seed(0)")),
    (rule_random_state, changed("import torch\nx = torch.randn(3)")),
    (rule_cells_are_short, changed("\n".join(["x = 1"] * 6), cell=2)),
    (rule_cells_are_short, changed("\n".join(["x = 1"] * 13))),
    (rule_more_prose_than_code, changed("# Squares\n\n$$ prose prose $$ `prose` ```\nprose\n```", cell=0)),
    (rule_imports_where_used, changed("import math")),
    (rule_imports_where_used, changed("from math import pi, tau\npi")),
    (rule_imports_where_used, changed("import matplotlib.pyplot as plt\nplt.plot(1)")),
    (rule_pictures_have_text, changed(cell=2, metadata=nbformat.from_dict({}))),
    (
        rule_pictures_have_text,
        changed(cell=2, metadata=nbformat.from_dict({"mystnb": {"image": {"alt": "plot"}}})),
    ),
    *(
        (
            rule_pictures_have_text,
            changed(
                f"from {room} import {module} as drawn\ndrawn.squares(x)",
                cell=2,
                metadata=nbformat.from_dict({}),
            ),
        )
        for room, module in [
            ("handgrad.course", "figures"),
            ("handgrad.chapters.squares", "figures"),
            ("handgrad.chapters.squares", "races"),
        ]
    ),
    (
        rule_pictures_have_text,
        changed("from handgrad.course.interactive import frames\nframes(draw, [1], label='x')"),
    ),
    (rule_states_its_time, metadata(handgrad={"reading_minutes": 5})),
    (rule_states_its_time, metadata(handgrad={"budget": 6000, "reading_minutes": 5})),
    (rule_states_its_time, metadata(handgrad={"budget": 60, "reading_minutes": 50})),
    (rule_states_its_time, metadata(handgrad={"budget": 60})),
    (rule_states_its_time, changed("# Squares\n\nReading takes 5 minutes.", cell=0)),
    (rule_skeleton, changed("# Squares\n\n## Train\n\nExercises, quiz, further reading.", cell=0)),
    (rule_skeleton, changed(sound().cells[0].source.replace("able to", "made to"), cell=0)),
    (rule_skeleton, changed(sound().cells[0].source.replace("Train a", "Draw a"), cell=0)),
    (
        rule_skeleton,
        changed(
            sound()
            .cells[0]
            .source.replace("## Exercises", "## End")
            .replace("# Squares", "# Squares\n\n## Exercises"),
            cell=0,
        ),
    ),
    (rule_skeleton, changed("x", cell=3)),
]


@pytest.mark.parametrize("rule, spoil", BAD, ids=[f"{rule.__name__}-{i}" for i, (rule, _) in enumerate(BAD)])
def test_the_rule_refuses(rule, spoil):
    notebook = copy.deepcopy(sound())
    if rule is rule_cells_are_short:  # so few cells that one long one decides
        notebook.cells = notebook.cells[:3]
    spoil(notebook)
    assert rule(notebook) != []


def test_every_rule_is_seen_to_refuse():
    assert {rule for rule, _ in BAD} == set(ALWAYS + IN_CHAPTERS)


# The tool that stores outputs -------------------------------------------------------------------------------


def test_the_tool_keeps_quoted_outputs_and_strips_the_rest(tmp_path):
    notebook = sound()
    notebook.cells[4].update(outputs=[], execution_count=None)
    del notebook.cells[2:4]  # the figure and the quiz do not exist
    notebook.cells[1].source += "\nprint(x.shape)"
    path = tmp_path / "00_squares.ipynb"
    nbformat.write(notebook, path)
    stored = outputs.strip(outputs.execute(path, timeout=60))
    assert stored.cells[1].outputs == [] and stored.cells[1].execution_count is None
    assert stored.cells[2].outputs[0].text == "9.0\n" and stored.cells[2].execution_count == 2
    assert outputs.problems(stored) == []
    assert "execution" not in stored.cells[2].metadata


def test_the_tool_passes_on_what_a_cell_raises(tmp_path):
    path = tmp_path / "00_wrong.ipynb"
    nbformat.write(new_notebook(cells=[new_code_cell("assert 1 == 2, 'one is not two'")]), path)
    with pytest.raises(outputs.CellExecutionError, match="one is not two"):
        outputs.execute(path, timeout=60)
