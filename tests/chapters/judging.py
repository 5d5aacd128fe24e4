"""What the tests of exercises ask of the judge."""

import re

from handgrad.course import judge


def check_answers(name, answers, wrong=None):
    """Assert that answers are accepted; or, with wrong (kind, where), refused in words that match these."""
    for answer in answers:
        verdict = getattr(judge, name)(answer)
        if wrong is None:
            assert verdict.status == "right", verdict
            assert callable(verdict.value)
        else:
            kind, where = wrong
            assert verdict.status == "wrong", verdict
            assert re.search(kind, verdict.diagnosis) and re.search(where, verdict.where), (
                verdict.diagnosis,
                verdict.where,
            )
