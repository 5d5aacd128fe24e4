"""The judge keeps what it said where a learner works, and nowhere else; the record is shown."""

import io
import json
import sys

import pytest

from handgrad.course import judge, progress
from handgrad.course.judge.record import FILE, verdicts


def right(da, a):
    return a * (da - (a * da).sum(axis=-1, keepdims=True))


def wrong(da, a):
    return a * da


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A learner's folder with two notebooks of exercises; the current folder is that of the exercises."""
    for name in ("08_attention", "01_chain_rule"):
        (tmp_path / "exercises").mkdir(exist_ok=True)
        (tmp_path / "exercises" / f"{name}.ipynb").touch()
    (tmp_path / "solutions").mkdir()
    (tmp_path / FILE).touch()
    monkeypatch.chdir(tmp_path / "exercises")
    return tmp_path


def test_each_verdict_is_a_line(folder):
    for answer in (wrong, right, wrong, None):
        judge.softmax_ds(answer)
    statuses = [entry["status"] for entry in verdicts(folder / FILE)]
    assert statuses == ["wrong", "right", "wrong", "not yet"]
    assert progress.show(folder).solved() == 1, "what was once right stays solved"


def test_nothing_is_kept_elsewhere(folder, tmp_path_factory, monkeypatch):
    monkeypatch.chdir(folder / "solutions")
    judge.softmax_ds(right)
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    monkeypatch.chdir(elsewhere)
    judge.softmax_ds(right)
    assert (folder / FILE).read_text() == "" and list(elsewhere.iterdir()) == []


def test_a_record_that_cannot_be_written_stops_no_verdict(folder, monkeypatch):
    def refuse(*arguments, **options):
        raise PermissionError("read only")

    monkeypatch.setattr("pathlib.Path.open", refuse)
    with pytest.warns(UserWarning, match="could not be kept.*read only"):
        assert judge.softmax_ds(right).status == "right"


def test_progress_is_shown(folder):
    judge.softmax_ds(right)
    judge.sink_gradients(lambda *arguments: 0)
    shown = progress.show(folder)
    assert list(shown.chapters) == ["01_chain_rule", "08_attention"]
    assert shown.solved() == shown.solved("08_attention") == 1 and shown.solved("01_chain_rule") == 0
    assert shown.total == 11
    assert (
        "✓ softmax_ds" in repr(shown) and "✗ sink_gradients" in repr(shown) and "○ best_step" in repr(shown)
    )
    for name in judge.chapters()["attention"]:
        assert name in shown._repr_markdown_()


def test_the_command_prints_it_or_says_what_lacks(folder, capsys):
    assert progress.main([str(folder)]) == 0
    assert "together                  0 of 11" in capsys.readouterr().out
    (folder / FILE).unlink()
    assert progress.main([str(folder)]) == 1
    assert FILE in capsys.readouterr().err


@pytest.mark.parametrize("line", ["no JSON", json.dumps({"exercise": "softmax_ds"}), "[1]"])
def test_a_line_that_is_no_verdict_is_refused_by_its_number(folder, line):
    judge.softmax_ds(right)
    with (folder / FILE).open("a") as file:
        file.write(line + "\n")
    with pytest.raises(ValueError, match="line 2: expected a verdict"):
        progress.show(folder)


def test_output_that_cannot_write_a_sign_writes_its_name(monkeypatch):
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, io.TextIOWrapper(io.BytesIO(), encoding="cp1252"))
    progress.say_all_signs()
    print("1.1 ✓")
    sys.stdout.flush()
    assert sys.stdout.buffer.getvalue().split() == rb"1.1 \N{CHECK MARK}".split()
