"""The claims of five texts that are wrong, ambiguous or incomplete: read and shown.

`claims.yml` holds one record for each, in our words. Everything here is read from it.
"""

from dataclasses import dataclass
from functools import cache
from importlib import resources

import yaml
from IPython.display import Markdown

VERDICTS = {"wrong": "✗", "ambiguous": "?", "incomplete": "…"}
EVIDENCE = ("run", "proof", "paper", "inspection")
GROUPS = (*(f"E{n}" for n in range(1, 25)), *(f"A{n}" for n in range(1, 18)), "R")
"""E: distinct errors. A: what a course has to settle. R: the rest."""


@dataclass(frozen=True)
class Claim:
    """One claim.

    id: for links and tests. text: A to E, see book/notation.md. section: where the text has it. verdict: of
    VERDICTS. group: of GROUPS. evidence: of EVIDENCE. chapter: the number of the chapter that teaches it, or
    None. target: the place in that chapter, or on the page of notation where chapter is None; None if there
    is no such place. says: the claim. right: what holds.
    """

    id: str
    text: str
    section: str
    verdict: str
    group: str
    evidence: str
    chapter: int | None
    target: str | None
    says: str
    right: str


@cache
def load():
    """All claims, in the order of the texts."""
    file = resources.files(__package__) / "claims.yml"
    return tuple(Claim(**record) for record in yaml.safe_load(file.read_text(encoding="utf-8")))


def of(groups):
    """The claims of some groups, "E1 E2", in the order of the groups.

    Raises ValueError for a group that is none.
    """
    groups = groups.split()
    unknown = [group for group in groups if group not in GROUPS]
    if unknown:
        raise ValueError(f"groups: expected some of {GROUPS[0]} to {GROUPS[-1]}, got {', '.join(unknown)}")
    return [claim for group in groups for claim in load() if claim.group == group]


def table(groups):
    """The claims of some groups as a table of one column, which fits a phone."""
    lines = ["| what a text says, and what holds |", "|:--|"]
    for claim in of(groups):
        group = "" if claim.group == "R" else f"**{claim.group}.** "
        shown = claim.evidence + (f", chapter {claim.chapter}" if claim.chapter else "")
        where = f"{group}{claim.text}, {claim.section}: {VERDICTS[claim.verdict]} {claim.verdict} ({shown})"
        lines.append(f"| {where}<br>{claim.says}<br>**Right:** {claim.right} |")
    return Markdown("\n".join(lines))
