"""mystmd, of which Jupyter Book 2 is made, reads the same sources: it is told nothing, and loses nothing."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import nbformat
import pytest
import yaml

from book._ext import generated
from handgrad.course import consistency

ROOT = Path(__file__).parents[2]
MYST = shutil.which("myst")
KNOWN = {
    "Usage of the {doc} role is not recommended": "it leads there all the same",
    "extra key": "the front matter that Sphinx and the judge read",
    "unknown directive: nb-exec-table": "the times of MyST-NB",
}
"""What mystmd says of these pages, and why it may."""

pytestmark = [
    pytest.mark.site,
    pytest.mark.skipif(MYST is None, reason="myst is not on the PATH; npm install mystmd brings it"),
]


def page(entry):
    """An entry of _toc.yml as mystmd writes it."""
    (file,) = (p for end in ("md", "ipynb") if (p := Path(f"{entry['file']}.{end}")) and (ROOT / p).exists())
    return {"file": str(file), "children": [page(below) for below in entry.get("sections", ())]}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """What mystmd made of a copy of the book, {page: its tree}, and what it printed."""
    folder = tmp_path_factory.mktemp("mystmd")
    for name in ("book", "notebooks", "examples"):
        shutil.copytree(
            ROOT / name, folder / name, ignore=shutil.ignore_patterns("_ext", ".*", "*.mine.ipynb")
        )
    (folder / "book/_generated").mkdir(exist_ok=True)
    for name, text in generated.texts().items():
        (folder / f"book/_generated/{name}.md").write_text(text, encoding="utf-8")
    contents = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    toc = [page({"file": contents["root"]})]
    toc += [{"title": p["caption"], "children": list(map(page, p["chapters"]))} for p in contents["parts"]]
    project = {"bibliography": ["book/references.bib"], "toc": toc}
    (folder / "myst.yml").write_text(yaml.safe_dump({"version": 1, "project": project, "site": {}}))
    # Without a network it ends in an error, when it has read all pages and asks for the theme.
    run = subprocess.run([MYST, "build", "--site", "--ci"], cwd=folder, capture_output=True, text=True)
    trees = {
        file.stem: json.loads(file.read_text()) for file in (folder / "_build/site/content").glob("*.json")
    }
    return trees, re.sub(r"\x1b\[[0-9;]*m", "", run.stdout + run.stderr)


def kinds(tree):
    """Yield the kind of each node of a tree."""
    if isinstance(tree, dict):
        yield tree.get("type")
    for below in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        yield from kinds(below)


def test_it_knows_all_that_the_pages_use(built):
    told = re.findall(r"^.*(?:⚠|⛔).*$", built[1], re.MULTILINE)
    assert [line for line in told if not any(words in line for words in KNOWN)] == []
    assert all(any(words in line for line in told) for words in KNOWN), "a reason that is needed no more"


def test_it_loses_no_caption_and_no_term(built):
    found = [kind for tree in built[0].values() for kind in kinds(tree.get("mdast"))]
    cells = [c for p in (ROOT / "notebooks").rglob("[0-9]*.ipynb") for c in nbformat.read(p, 4).cells]
    assert found.count("caption") == sum("caption" in cell.metadata for cell in cells) > 100
    terms = consistency.glossary((ROOT / "book/glossary.md").read_text(encoding="utf-8"))
    assert list(kinds(built[0]["glossary"]["mdast"])).count("definitionTerm") == len(terms) > 100
