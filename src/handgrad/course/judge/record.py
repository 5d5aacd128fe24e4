"""What the judge has said, kept in the learner's own folder.

If a folder holds the file `FILE`, as `make lab` sees to, each verdict that is reached in it, or in a folder
below it, is added as a line: {"exercise": "softmax_ds", "status": "right", "time": "2026-05-04T10:30:00"}.
Nothing is taken out, nothing is sent anywhere. Without that file nothing is kept, and nothing of the folder
`solutions`, whose answers are the book's.
"""

import json
import warnings
from datetime import datetime
from pathlib import Path

FILE = "handgrad-progress.jsonl"
LEVELS = 3  # folders that are searched, from where the notebook runs upwards


def file_above(folder):
    """The file of the folder, or of the nearest one above it; None if there is none."""
    folder = Path(folder).resolve()
    places = [place / FILE for place in (folder, *folder.parents)[:LEVELS]]
    return next((place for place in places if place.is_file()), None)


def record(verdict):
    """Add a verdict to the file above the current folder, if there is one; warns if it cannot be written."""
    here = Path.cwd()
    file = file_above(here)
    if file is None or here.name == "solutions":
        return
    line = {
        "exercise": verdict.exercise,
        "status": verdict.status,
        "time": f"{datetime.now():%Y-%m-%dT%H:%M:%S}",
    }
    try:
        with file.open("a", encoding="utf-8") as kept:
            kept.write(json.dumps(line) + "\n")
    except OSError as error:
        warnings.warn(f"the verdict could not be kept in {file}: {error}", stacklevel=3)


def verdicts(file):
    """The lines of a file, as dictionaries, in order.

    Raises ValueError, with the number of the line, if one is no verdict.
    """
    found = []
    for number, line in enumerate(Path(file).read_text(encoding="utf-8").splitlines(), 1):
        try:
            entry = json.loads(line)
            found.append({key: entry[key] for key in ("exercise", "status", "time")})
        except (json.JSONDecodeError, KeyError, TypeError):
            raise ValueError(
                f"{file}, line {number}: expected a verdict of the judge, got {line[:60]!r}"
            ) from None
    return found
