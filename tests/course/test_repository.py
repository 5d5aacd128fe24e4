"""The repository as a stranger finds it: complete, self-contained, and saying only what is so."""

import json
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from sphinx_external_toc.parsing import parse_toc_yaml

from book._ext import house

ROOT = Path(__file__).parents[2]
BINARY = {".png", ".jpg", ".npz", ".pyc", ".woff2"}

# Written apart, so that this file does not hold what it forbids.
REGISTRIES = [
    "pypi" + ".org",
    "python" + "hosted.org",
    "download.py" + "torch.org",
    "npm" + "js.org",
    "jsdelivr" + ".net",
    "unpkg" + ".com",
]
MACHINES = [r"/(home|Users)/\w+", *(rf"(?<![\w.$])/{folder}/" for folder in ("root", "work"))]


def tracked():
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    return [ROOT / name for name in names.decode().split("\0") if name and (ROOT / name).is_file()]


FILES = tracked() if (ROOT / ".git").exists() else []
TEXTS = [file for file in FILES if file.suffix not in BINARY]
pytestmark = pytest.mark.skipif(not FILES, reason="not a clone: there is no list of its files")


def test_no_registry_is_named_and_no_path_of_one_machine():
    pattern = re.compile("|".join([*map(re.escape, REGISTRIES), *MACHINES]))
    for file in TEXTS:
        assert not pattern.search(file.read_text(encoding="utf-8")), file


def test_the_prescribed_files_are_there():
    names = """book notebooks src tests _config.yml _toc.yml requirements.txt constraints.txt pyproject.toml
    Makefile README.md CONTRIBUTING.md LICENSE LICENSE-TEXT CITATION.cff .pre-commit-config.yaml .ci/run"""
    assert [name for name in names.split() if not (ROOT / name).exists()] == []
    assert os.access(ROOT / ".ci/run", os.X_OK)


def test_the_table_of_contents_names_every_page_and_no_other():
    named = set(parse_toc_yaml(ROOT / "_toc.yml"))
    there = {
        str(file.relative_to(ROOT).with_suffix(""))
        for folder, suffix in (("notebooks", "ipynb"), ("book", "md"))
        for file in (ROOT / folder).rglob(f"*.{suffix}")
        if not {".ipynb_checkpoints", "_generated"} & {*file.parts} and not file.name.endswith(".mine.ipynb")
    }
    given = {"notebooks/own_layer"}  # no page: a page of its name leads to it, and `make lab` copies it
    assert named | given == there and not named & given


def make(*words, **more):
    """What make does when it is called with these words, in the repository."""
    return subprocess.run(["make", *words], capture_output=True, text=True, **{"cwd": ROOT} | more)


def make_targets():
    return set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M))


def commands(file):
    """The targets of every `make ...` that a page shows as code."""
    shown = "\n".join(re.findall(r"`+[^`]+`+", file.read_text(encoding="utf-8")))
    return set(re.findall(r"\bmake ([a-z]+)\b", shown))


def test_every_command_a_page_gives_exists():
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "book").glob("*.md")]
    assert {"book", "test", "lab", "exercises"} <= commands(ROOT / "README.md")
    assert [page.name for page in pages if not commands(page) <= make_targets()] == []


def test_make_help_lists_every_command():
    assert set(re.findall(r"^  make (\w+)", make("-s", "help").stdout, re.M)) == make_targets()


def recipe(target):
    """What `make TARGET` runs of the environment, but for what it depends on, as a reader types it there."""
    run = make("-n", "-o", "lint", "-o", "there/.ready", target, "VENV=there")
    lines = re.findall(r"^there/bin/(.*)", run.stdout, re.M)
    return [line.replace(f'"{ROOT}/tools/lab_settings"', "tools/lab_settings") for line in lines]


def test_the_lines_without_make_are_those_of_the_makefile():
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `make (\w+)` \| (`(?:python|jupyter).*) \|$", page, re.M)
    assert [target for target, _ in rows] == ["book", "test", "lab", "progress"]
    for target, lines in rows:
        assert re.findall(r"`([^`]+)`", lines) == recipe(target)


def test_make_pip_and_uv_install_the_same():
    makefile, page = ((ROOT / name).read_text(encoding="utf-8") for name in ("Makefile", "README.md"))
    (made,) = re.findall(r"-m pip install (-r .*)", makefile)
    assert re.findall(r"\b(python -m|uv) pip install (-r [^`\n]*)", page) == [
        ("uv", made),
        ("python -m", made),
    ]
    assert all((ROOT / file).is_file() for file in re.findall(r"-[rc] (\S+)", made))


def test_the_container_has_a_python_that_is_checked_and_the_environment_of_make():
    container = json.loads((ROOT / ".devcontainer/devcontainer.json").read_text(encoding="utf-8"))
    documented = {"name", "image", "remoteEnv", "postCreateCommand", "customizations"}
    assert {"image", "postCreateCommand"} <= set(container) <= documented
    workflow = yaml.safe_load((ROOT / ".github/workflows/check.yml").read_text(encoding="utf-8"))
    versions = workflow["jobs"]["elsewhere"]["strategy"]["matrix"]["python"]
    assert container["image"] in {f"mcr.microsoft.com/devcontainers/python:{version}" for version in versions}
    (made,) = re.findall(r"^make (\S+)$", container["postCreateCommand"])
    run = make("-n", "-B", made, env={"PATH": os.environ["PATH"]})
    python = container["customizations"]["vscode"]["settings"]["python.defaultInterpreterPath"]
    assert f"\n{python} -m pip install -r requirements.txt" in run.stdout


def test_the_extras_that_are_named_are_those_that_there_are():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    page, table = ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "book/api.md"))
    (named,) = re.findall(r"The rest are extras: ([^.]*)\.", page)
    assert re.findall(r"`(\w+)`", named) == [*extras]
    assert re.findall(r"^\| `(\w+)` \|", table, re.M) == [*extras]


@pytest.mark.parametrize(
    "python, found",
    [
        ("/nowhere/python3", "found none as /nowhere/python3"),
        ("false", "found none as false"),
        ("OLD", "OLD is Python 3.10.13."),
    ],
)
def test_without_a_python_make_says_what_is_missing(python, found, tmp_path):
    old = tmp_path / "python3.10"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo Python 3.10.13 || exit 1\n')
    old.chmod(0o755)
    run = make("lint", f"PYTHON={python.replace('OLD', str(old))}", f"VENV={tmp_path}/venv")
    assert run.returncode == 2
    assert f"needs Python 3.11 or newer, and {found.replace('OLD', str(old))}" in run.stderr
    assert not (tmp_path / "venv").exists()


def test_every_requirement_is_pinned_and_among_the_constraints():
    lines = {
        name: [line.split("#")[0].strip() for line in (ROOT / name).read_text().splitlines()]
        for name in ("requirements.txt", "constraints.txt")
    }
    direct = [line for line in lines["requirements.txt"] if line and not line.startswith("-e")]
    pinned = {line.lower().replace("_", "-") for line in lines["constraints.txt"] if line}
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in direct)
    assert [line for line in direct if line.lower().replace("_", "-") not in pinned] == []


def test_the_lab_opens_in_a_folder_with_a_space(tmp_path):
    """Its programs stand in for those of the environment: each prints the words that it is called with."""
    clone = tmp_path / "my books"
    (clone / "bin").mkdir(parents=True)
    shutil.copy(ROOT / "Makefile", clone)
    for name in ("requirements.txt", "constraints.txt", "pyproject.toml", ".ready"):
        (clone / name).touch()
    for name in ("python", "jupyter"):
        (clone / "bin" / name).write_text('#!/bin/sh\nfor word in "$@"; do echo "$word"; done\n')
        (clone / "bin" / name).chmod(0o755)
    run = make("-s", "lab", "VENV=.", cwd=clone)
    settings = f"--LabApp.app_settings_dir={clone}/tools/lab_settings"
    assert run.stdout.splitlines() == ["tools/lab.py", "lab", settings, "lab"], run.stderr


WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_uses_what_is_pinned_and_runs_what_there_is(path):
    """Every action by its commit, no rights but those that a job asks for, the commands of the Makefile."""
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        assert job["timeout-minutes"] <= 120
        for step in job["steps"]:
            assert re.fullmatch(r"actions/[\w-]+@[0-9a-f]{40}", step.get("uses", f"actions/x@{'0' * 40}"))
            name, *given = step.get("run", "").split()[:3] or [""]
            assert name != "make" or {word for word in given if "=" not in word} <= make_targets()
            assert name != ".ci/run" or (ROOT / ".ci/run").exists()


@pytest.mark.parametrize("name, file", [("pages", "_build/html"), ("release", "_build/html/*.pdf")])
def test_the_site_that_is_published_holds_its_pdf(name, file):
    text = (ROOT / f".github/workflows/{name}.yml").read_text(encoding="utf-8")
    assert text.index("run: make book pdf\n") < text.index(file)


def test_buttons_lead_to_the_one_address_that_is_named():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation.get("repository-code") == project.get("urls", {}).get("Repository")
    address = "https://example.org/a/book"
    given = house.buttons(address)
    assert given["repository_url"] == address
    assert given["use_edit_page_button"] and given["use_issues_button"]
