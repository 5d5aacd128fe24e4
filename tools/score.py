"""Say how many wrong answers of the hold-out the judge tells rightly.

    python tools/score.py [NN_topic ...] [--missed]     all of tests/holdout, or some; with what was missed

The answers in tests/holdout were written by readers who had seen no verdict. Each entry holds an answer
(code), its kind, edits that make it right (repair), the results that are wrong, what is wrong in a sentence
(about), and what a verdict that tells it would say (say, regular expressions). The files are frozen: no
answer in them may be listed in an exercise, and an entry changes only if it is wrong itself.
"""

import argparse
import ast
import json
import linecache
import re
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import sympy
from tqdm import tqdm

from handgrad.course import judge

HOLDOUT = Path(__file__).parents[1] / "tests/holdout"
KEYS = {"exercise", "kind", "code", "repair", "wrong", "about", "say"}


def entries(names=()):
    """The entries of the files NAME.json, of all files if no name is given."""
    files = [HOLDOUT / f"{name}.json" for name in names] or sorted(HOLDOUT.glob("*.json"))
    return [entry for file in files for entry in json.loads(file.read_text(encoding="utf-8"))]


def answer(code, name):
    """The function of that name, defined by the code, whose lines can be quoted."""
    space = {"np": np, "sympy": sympy}
    file = f"<{name} {hash(code)}>"
    linecache.cache[file] = (len(code), None, code.splitlines(True), file)
    exec(compile(code, file, "exec"), space)
    return space[name]


def repaired(entry):
    """The code of an entry with its repair. Raises ValueError if a text does not occur once."""
    code = entry["code"]
    for old, new in entry["repair"]:
        if code.count(old) != 1:
            raise ValueError(f"repair: expected {old!r} once in the code, found it {code.count(old)} times")
        code = code.replace(old, new)
    return code


def faulty(entry):
    """The lines of the code that the repair of an entry changes, as `ast.unparse` writes them."""
    found = set()
    for old, _ in entry["repair"]:
        start = entry["code"].index(old)
        first, last = (entry["code"].count("\n", 0, at) + 1 for at in (start, start + len(old)))
        statements = [n for n in ast.walk(ast.parse(entry["code"])) if isinstance(n, ast.stmt)]
        found |= {ast.unparse(n).splitlines()[0] for n in statements if first <= n.lineno <= last}
    return found


def told(entry):
    """(whether the verdict on an entry tells what is wrong, the verdict's words).

    It does so in words of the entry, or by a change that makes it right, of its faulty lines and of no other.
    """
    verdict = judge.find(entry["exercise"]).judge(answer(entry["code"], entry["exercise"]))
    words = f"{verdict.diagnosis} {verdict.where}"
    lines = re.findall(r"In your line `(.*?)`: ", words)
    rightly = any(re.search(pattern, words, re.IGNORECASE) for pattern in entry["say"])
    return verdict.status == "wrong" and (rightly or bool(lines) and set(lines) <= faulty(entry)), words


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NN_topic")
    parser.add_argument("--missed", action="store_true", help="print what was not told rightly")
    given = parser.parse_args(arguments)
    found, right = entries(given.names), Counter()
    with ProcessPoolExecutor(2) as pool:
        for entry, (rightly, words) in zip(found, tqdm(pool.map(told, found), total=len(found))):
            right[entry["kind"]] += rightly
            if given.missed and not rightly:
                print(f"\n{entry['exercise']} ({entry['kind']}): {entry['about']}\n    {words}")
    for kind, count in Counter(entry["kind"] for entry in found).items():
        print(f"{kind:8} {right[kind]:4} of {count:4}  {right[kind] / count:.0%}")
    print(f"{'all':8} {right.total():4} of {len(found):4}  {right.total() / len(found):.0%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
