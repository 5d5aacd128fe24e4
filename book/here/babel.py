"""Of babel what `handgrad.names` reads: how a language names territories and languages."""

import json
from pathlib import Path
from types import SimpleNamespace

NAMES = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))


def Locale(language):
    return SimpleNamespace(**NAMES[language])
