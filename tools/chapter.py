"""Make a chapter of the book from templates, check one, and keep the list of steps in CONTRIBUTING.md.

    python tools/chapter.py new 09 masks        everything a chapter has, from one template each
    python tools/chapter.py check 08            everything that concerns one chapter
    python tools/chapter.py checklist           write the steps into CONTRIBUTING.md
    python tools/chapter.py checklist --check   write nothing; exit with 1 if the steps there are not these

`new` makes the notebook, its solutions and exercises, its quiz, its folder of the package and its tests, and
enters it in the table of contents; the plan is book/chapters.yml. `check` has nbval run the notebooks in
which something has changed, beside it the rules and the tests, two at a time, then builds the pages, which
show what the notebooks gave; it says which runs were kept, and how long each part took. The pages are those
of the whole book, so that every reference leads somewhere, but only the chapter, its exercises and its
solutions are executed.
"""

import argparse
import re
import string
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import exercises
import nbformat
import yaml
from sphinx_external_toc.parsing import parse_toc_yaml

from handgrad.course import runs

ROOT = Path(__file__).parents[1]
TEMPLATE_FOLDER = Path(__file__).parent / "templates/chapter"
OPEN = "✎"  # the sign before all that is still to be written

# The parts of the book, by their captions in the table of contents, and the topics of their chapters.
CONTENTS = yaml.safe_load((ROOT / "book/chapters.yml").read_text(encoding="utf-8"))
PLAN = {
    part["part"]: {chapter["number"]: chapter["topic"] for chapter in part["chapters"]} for part in CONTENTS
}
TOPICS = {number: topic for part in PLAN.values() for number, topic in part.items()}
TITLES = {chapter["number"]: chapter["title"] for part in CONTENTS for chapter in part["chapters"]}

# Where each template goes.
TEMPLATES = {
    "notebook.ipynb": "notebooks/§name.ipynb",
    "solutions.ipynb": "notebooks/solutions/§name.ipynb",
    "quiz.json": "notebooks/quizzes/§name.json",
    "figures.py": "src/handgrad/chapters/§topic/figures.py",
    "test.py": "tests/chapters/test_§topic.py",
}

# What remains to be done, in this order, a paragraph for each step; CONTRIBUTING.md is made from it.
STEPS = """
Write `notebooks/NN_TOPIC.ipynb`. Its headings are the shape that all chapters have; keep them in this
order. What is still to be written stands behind the sign ✎. Chapters 05 and 08 show the result. The first
screen is the problem in three or four sentences that end in one number, in bold, which the chapter shows;
then one picture; then, folded, what one will be able to do. What is not needed to derive, write and test
the layer stands at the end, below the heading `## Second reading`: the core leads nowhere into it, and the
opening says "N minutes for the core", as `core_minutes` of the metadata does.

Give every displayed equation a label, `$$ ... $$ (eq-softmax-jacobian)`. `handgrad.page` reads what is
printed: with `read` of your notebook as `page`, the line
`page.given("eq-softmax").prove("eq-softmax-jacobian")` proves the printed formula, with all its parts, from
the printed definition; `holds` evaluates it on numbers. Such a line stands at the top level of a cell and
uses strings only. `number` gives the value of a printed formula, for an assertion of its cell. A proof of a
special case says which in the metadata of its cell, `{"handgrad": {"case": "two layers, one head each"}}`. A
pure definition has the tag `definition:eq-softmax-jacobian` on its Markdown cell. What cannot be read is
typed again, in a code cell tagged `typed:eq-softmax-jacobian`, and the metadata of the Markdown cell say why:
`{"handgrad": {"eye": {"eq-softmax-jacobian": "reason"}}}`. Take sizes that differ, and no sample for a "for
all".

Keep cells short, with more prose than code. Ids of cells are short words. Outputs are stripped, except in
cells tagged `quoted`, whose text the prose quotes: `.venv/bin/python tools/outputs.py NOTEBOOK` stores and
strips.

Draw figures by functions in `src/handgrad/chapters/TOPIC/figures.py`, with `subplots` of
`handgrad.course.figures` in its colours. What several chapters draw is there: losses beside known levels,
tables of faults, heat maps, the graph of a backward; a notebook calls it, `from handgrad.course import
figures as shared`. The cell that shows a figure says in words what it shows, and has a caption, in its
metadata: `{"alt": "...", "caption": "..."}`. What moves is
`interactive.frames`, `interactive.switches` or `interactive.lookup`: HTML that moves without a kernel, in
Jupyter and in the book.

Write the questions in `notebooks/quizzes/NN_TOPIC.json`: three to five, each answer with its own reply.

Write the exercises in `notebooks/solutions/NN_TOPIC.ipynb`, as the next section says, and `make exercises`.

Test in `tests/chapters/test_TOPIC.py` what belongs to this chapter alone.

`make chapter N=NN` runs the rules, the notebooks that changed, the tests and the pages of this chapter, and
names what is still to be written. A chapter runs in 60 seconds on two cores, a chapter that trains in 240.
"""
BEGIN, END = "<!-- steps: made by tools/chapter.py -->", "<!-- end of steps -->"


# A new chapter ----------------------------------------------------------------------------------------------


class Template(string.Template):
    """Text with §names in it: a sign that neither TeX nor Python needs."""

    delimiter = "§"


class Indented(yaml.SafeDumper):
    """Writes lists indented, as _toc.yml has them."""

    def increase_indent(self, flow=False, indentless=False):
        return super().increase_indent(flow, False)


def planned(number, topic):
    """The name NN_topic of a chapter of the plan. Raises ValueError if the plan has no such chapter."""
    if not re.fullmatch(r"\d{1,2}", number) or int(number) not in TOPICS:
        raise ValueError(f"number: expected 1 to {len(TOPICS)}, got {number!r}")
    if topic != TOPICS[int(number)]:
        raise ValueError(f"topic: chapter {number} is planned as {TOPICS[int(number)]}, got {topic!r}")
    return f"{int(number):02}_{topic}"


def in_the_contents(toc, name):
    """The table of contents, as text, with a chapter entered in its part, in the order of the numbers."""
    toc = yaml.safe_load(toc)
    captions = [part["caption"] for part in toc["parts"]]
    caption = next(part for part, topics in PLAN.items() if int(name[:2]) in topics)
    if caption not in captions:
        before = list(PLAN)[: list(PLAN).index(caption)]
        place = max((captions.index(other) for other in before if other in captions), default=0) + 1
        toc["parts"].insert(place, {"caption": caption, "chapters": []})
        captions.insert(place, caption)
    pages = [{"file": f"notebooks/{folder}/{name}"} for folder in ("exercises", "solutions")]
    chapters = toc["parts"][captions.index(caption)]["chapters"]
    chapters.append({"file": f"notebooks/{name}", "sections": pages})
    chapters.sort(key=lambda chapter: chapter["file"])
    return yaml.dump(toc, Dumper=Indented, sort_keys=False, allow_unicode=True, width=1000)


def drafts(root, number, topic):
    """All files that a new chapter adds or changes, {path in the repository: text}; nothing is written.

    Raises ValueError if the chapter is not planned, FileExistsError if anything of it is there already.
    """
    name = planned(number, topic)
    package = f"src/handgrad/chapters/{topic}"
    places = {
        template: Template(place).substitute(name=name, topic=topic) for template, place in TEMPLATES.items()
    }
    there = {path.relative_to(root).as_posix() for path in root.glob(f"notebooks/**/{name[:2]}_*")}
    there |= {place for place in (package, *places.values()) if (root / place).exists()}
    toc = (root / "_toc.yml").read_text(encoding="utf-8")
    there |= set(re.findall(rf"notebooks/{name[:2]}_\w+", toc))
    if there:
        raise FileExistsError(
            f"chapter {name[:2]}: {', '.join(sorted(there))} is there already; nothing was written"
        )
    title = TITLES[int(number)]
    subject = title[0].lower() + title[1:]
    words = dict(
        name=name, topic=topic, number=name[:2], slug=topic.replace("_", "-"), title=title, subject=subject
    )
    texts = {f"{package}/__init__.py": ""}
    for template, place in places.items():
        text = (TEMPLATE_FOLDER / template).read_text(encoding="utf-8")
        texts[place] = Template(text).substitute(words)
    for place in (places["notebook.ipynb"], places["solutions.ipynb"]):
        texts[place] = exercises.text(nbformat.reads(texts[place], as_version=4))
    solved = nbformat.reads(texts[places["solutions.ipynb"]], as_version=4)
    texts[f"notebooks/exercises/{name}.ipynb"] = exercises.text(exercises.student(solved, name))
    texts["_toc.yml"] = in_the_contents(toc, name)
    return texts


def new(root, number, topic):
    """Make a chapter; print what was written and what remains. Raises as `drafts` does, before writing."""
    texts = drafts(root, number, topic)
    for place, text in texts.items():
        (root / place).parent.mkdir(parents=True, exist_ok=True)
        (root / place).write_text(text, encoding="utf-8")
        print(place)
    print("\nWhat remains:\n")
    print(steps(f"{int(number):02}", topic))


# The steps --------------------------------------------------------------------------------------------------


def steps(number="NN", topic="TOPIC"):
    """The steps as a numbered list, filled to the width of the page, for a chapter or for any."""
    texts = STEPS.replace("NN", number).replace("TOPIC", topic).split("\n\n")
    fill = {"width": 118, "subsequent_indent": "   ", "break_long_words": False, "break_on_hyphens": False}
    return "\n".join(textwrap.fill(f"{i}. {text.strip()}", **fill) for i, text in enumerate(texts, 1))


def with_steps(page):
    """A page with the steps between its two marks. Raises ValueError if it does not have both, once."""
    if page.count(BEGIN) != 1 or page.count(END) != 1 or page.index(BEGIN) > page.index(END):
        raise ValueError(f"CONTRIBUTING.md: expected the lines {BEGIN} and {END}, each once, in this order")
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}\n{steps()}\n{END}{rest.split(END)[1]}"


def checklist(root, check):
    """Write the steps into CONTRIBUTING.md, or say whether they are there. Returns the exit status."""
    path = root / "CONTRIBUTING.md"
    page = path.read_text(encoding="utf-8")
    wanted = with_steps(page)
    if check and page != wanted:
        print(f"{path}: the steps are out of date; run tools/chapter.py checklist", file=sys.stderr)
    if not check:
        path.write_text(wanted, encoding="utf-8")
    return int(check and page != wanted)


# The check of one chapter -----------------------------------------------------------------------------------


def find(root, number):
    """The name NN_topic of a chapter that exists. Raises ValueError that lists the chapters."""
    names = sorted(path.stem for path in (root / "notebooks").glob("[0-9][0-9]_*.ipynb"))
    for name in names:
        if name[:2] == number.zfill(2):
            return name
    raise ValueError(f"number: expected that of a chapter, one of {', '.join(names)}; got {number!r}")


def notebooks(root, name):
    """The notebooks of a chapter that exist, as paths in the repository: itself, exercises, solutions."""
    places = [Path("notebooks") / folder / f"{name}.ipynb" for folder in ("", "exercises", "solutions")]
    return [place for place in places if (root / place).exists()]


def settings(root, name):
    """The settings of the book, as a dictionary, in which only the notebooks of one chapter are executed."""
    config = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))
    files = (Path(f"{page}{end}") for page in parse_toc_yaml(root / "_toc.yml") for end in (".md", ".ipynb"))
    pages = [file for file in files if (root / file).exists()]
    config["execute"]["exclude_patterns"] = sorted(map(str, set(pages) - set(notebooks(root, name))))
    extensions = config["sphinx"]["local_extensions"]
    config["sphinx"]["local_extensions"] = {key: str(root / folder) for key, folder in extensions.items()}
    return config


def unwritten(root, name):
    """The files of a chapter in which something is still to be written, each with the first such line."""
    topic = name[3:]
    places = [path for path in notebooks(root, name) if path.parent.name != "exercises"]  # those are made
    places += [Path(f"notebooks/quizzes/{name}.json"), Path(f"tests/chapters/test_{topic}.py")]
    places += [path.relative_to(root) for path in (root / "src/handgrad/chapters" / topic).glob("*.py")]
    found = []
    for place in places:
        text = (root / place).read_text(encoding="utf-8") if (root / place).exists() else ""
        if OPEN in text:
            first = text[text.index(OPEN) :].splitlines()[0]
            found.append(f"{place}, {text.count(OPEN)} times: {first[:70]} ...")
    return found


def built(root, name):
    """The folder for the pages of a chapter."""
    return root / "_build/chapters" / name


def commands(root, name):
    """What is run for a chapter, {part: command}, the pages last. The build reads `settings`."""
    test = f"tests/chapters/test_{name[3:]}.py"
    python, files = sys.executable, notebooks(root, name)
    build = [Path(python).parent / "jupyter-book", "build", "-W", "-n", "--keep-going", "--all", "."]
    return {
        "notebooks": [python, "-m", "handgrad.course.runs", *files],
        **({"tests": [python, "-m", "pytest", "-q", test]} if (root / test).exists() else {}),
        "rules": [python, "-m", "handgrad.course.rules", *files],
        "exercises": [python, "tools/exercises.py", "--check"],
        "pages": [*build, "--config", built(root, name) / "config.yml", "--path-output", built(root, name)],
    }


def timed(command, root):
    """Run a command in the repository: its exit status, what it printed, and the seconds it took."""
    begin = time.monotonic()
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    done = subprocess.run(command, cwd=root, text=True, **streams)
    return done.returncode, done.stdout, time.monotonic() - begin


def check(root, number):
    """Run everything that concerns a chapter; print what failed and the seconds. Returns the exit status.

    Raises ValueError if there is no such chapter.
    """
    name, begin, failed = find(root, number), time.monotonic(), []
    built(root, name).mkdir(parents=True, exist_ok=True)
    (built(root, name) / "config.yml").write_text(yaml.safe_dump(settings(root, name)), encoding="utf-8")
    *before, pages = commands(root, name).items()
    with ThreadPoolExecutor(2) as workers:
        for parts in (before, [pages]):
            for part, result in [(part, workers.submit(timed, command, root)) for part, command in parts]:
                status, log, seconds = result.result()
                if status:
                    failed.append(part)
                    print(f"──── {part} ────\n{log}", flush=True)
                elif part == "notebooks":
                    print(
                        "".join(line for line in log.splitlines(True) if line.startswith(runs.SAME)), end=""
                    )
                print(f"{part:<10} {'FAILED' if status else 'ok':<6} {seconds:4.0f} s", flush=True)
    if lines := unwritten(root, name):
        failed.append("unwritten")
        print("──── still to be written ────", *lines, sep="\n")
    print(f"{'together':<10} {'FAILED' if failed else 'ok':<6} {time.monotonic() - begin:4.0f} s")
    print(f"The page: {(built(root, name) / '_build/html/notebooks' / name).as_uri()}.html")
    return int(bool(failed))


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    made = commands.add_parser("new", help="make a chapter from templates")
    made.add_argument("number", help="its number in the plan, such as 09")
    made.add_argument("topic", help="its topic in the plan, such as masks")
    one = commands.add_parser("check", help="run everything that concerns one chapter")
    one.add_argument("number", help="its number, such as 08")
    listed = commands.add_parser("checklist", help="write the steps into CONTRIBUTING.md")
    listed.add_argument("--check", action="store_true", help="write nothing; exit with 1 if they are stale")
    arguments = parser.parse_args(arguments)
    try:
        if arguments.command == "new":
            new(ROOT, arguments.number, arguments.topic)
            return 0
        if arguments.command == "check":
            return check(ROOT, arguments.number)
        return checklist(ROOT, arguments.check)
    except (ValueError, FileExistsError) as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
