"""What pages take from the book itself: MyST in files of book/_generated, which Sphinx and mystmd include.

Sphinx writes them as it begins; `python book/_ext/generated.py` does so for who builds without it. A file
whose text is as it was stays untouched, and so do the pages that include it.
"""

from pathlib import Path

import api
import architecture
import chapter_graph
import chapter_map
import cheat_sheet
import coverage_page
import marks

from handgrad.course import plan, teaching

ROOT = Path(__file__).parents[2]


def texts(root=ROOT):
    """{name of a file: its MyST}. Raises ValueError that says what is wrong in what the book lists."""
    chapters, book = plan.chapters(root), cheat_sheet.of_book(root)
    known = {chapter.number: chapter for chapter in chapters}
    return {
        "architecture": architecture.page(book),
        "chapter_graph": chapter_graph.page(chapters),
        "chapter_map": chapter_map.listing(chapters),
        "cheat_sheet": cheat_sheet.page(book),
        "coverage": coverage_page.page(),
        "evidence_marks": marks.in_short(),
        "evidence_totals": marks.totals([e for _, found, _ in book.values() for e in found.values()]),
        "exercises": f'<div class="exercise-tables">\n\n{teaching.listing(chapters)}\n\n</div>\n',
        "exercises_by_hand": teaching.by_hand(chapters) + "\n",
        "exercises_totals": teaching.totals(chapters, root / "notebooks") + "\n",
        **{f"way_{name}": chapter_map.way(stops, known) for name, stops in chapter_map.ways(root).items()},
        **{module: api.page(module) for module in api.OFFERED},
    }


def write(app=None, config=None):
    """Write the files that changed; a folder without solutions is no whole book and needs none."""
    folder = ROOT / "book/_generated"
    if not (ROOT / "notebooks/solutions").is_dir():
        return
    folder.mkdir(exist_ok=True)
    for name, text in texts().items():
        file = folder / f"{name}.md"
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")


def setup(app):
    app.connect("config-inited", write)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


if __name__ == "__main__":
    write()
