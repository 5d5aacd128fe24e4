"""The prose pages say what is so: the dictionary of the notation."""

import ast
import re
from pathlib import Path

import pytest

from handgrad.course.evidence import displayed

ROOT = Path(__file__).parents[2]
NOTATION = (ROOT / "book" / "notation.md").read_text()


def names_in(source):
    """Every name, argument, key and string that a program uses as a name."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.arg | ast.keyword):
            names.add(node.arg)
        elif isinstance(node, ast.Constant):
            names.add(node.value)
    return names


DICTIONARY = re.findall(r"^\|[^|]+\| (`[^|]+`) \|[^|]*\| `([\w/]+\.py)` \|$", NOTATION, flags=re.MULTILINE)


def test_the_dictionary_is_read():
    assert len(DICTIONARY) == NOTATION.count(".py` |\n")


@pytest.mark.parametrize("names, file", DICTIONARY, ids=[f"{file} {names}" for names, file in DICTIONARY])
def test_the_dictionary_names_what_the_code_names(names, file):
    source = (ROOT / "src" / "handgrad" / file).read_text()
    assert set(re.findall(r"`(\w+)`", names)) <= names_in(source)


def test_every_equation_of_the_notation_has_a_label():
    labels = [label for label, _ in displayed(NOTATION)]
    assert len(labels) == len(set(labels)) == 6
    assert all(label.startswith("eq-notation-") for label in labels)


def test_every_reference_is_found_by_its_key():
    entries = re.findall(
        r"^@\w+\{(\w+),(.+?)^\}", (ROOT / "book" / "references.bib").read_text(), re.S | re.M
    )
    assert len(entries) > 40
    for key, fields in entries:
        name, year = re.fullmatch(r"([a-z]+)(\d{4})[b-z]?", key).groups()
        first = re.search(r"author\s*=\s*\{(.+?)(,| and )", fields)[1]
        assert re.sub(r"[^a-z]", "", first.lower()) == name, key
        assert re.search(rf"year\s*=\s*\{{{year}\}}", fields), key
