"""Pages that were visited open without a network: offline.js keeps them until the site is built anew.

It stands at the root of the site, since it may keep only what lies beside and below it. house.js starts it.
"""

import hashlib
from pathlib import Path

SCRIPT = Path(__file__).with_name("offline.js")


def named(site):
    """offline.js for a built site, with a name that changes when any of its files does."""
    content = hashlib.sha256()
    for file in sorted(file for file in site.rglob("*") if file.is_file() and file != site / SCRIPT.name):
        content.update(f"{file.relative_to(site).as_posix()} {file.stat().st_size} ".encode())
        content.update(file.read_bytes())
    return SCRIPT.read_text(encoding="utf-8").replace("BUILD", content.hexdigest()[:16])


def write(app, exception):
    if not exception and app.builder.format == "html":
        Path(app.outdir, SCRIPT.name).write_text(named(Path(app.outdir)), encoding="utf-8")


def setup(app):
    app.connect("build-finished", write, priority=900)  # after whatever adds a file
    return {"parallel_read_safe": True, "parallel_write_safe": True}
