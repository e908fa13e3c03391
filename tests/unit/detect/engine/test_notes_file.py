"""What somebody said of findings outlives the terminal."""

from __future__ import annotations

import json
import threading

import pytest

from gpumon.detect.engine import notes_file
from gpumon.detect.engine.notes_file import NotesFile, own_notes

NOTES = {"acknowledged": [["d", "c", "job:7"]], "muted": []}


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setattr(notes_file, "READ_S", 60.0)
    monkeypatch.setattr(notes_file, "WRITE_S", 60.0)
    return tmp_path / "gpumon" / "notes.json"


def written(path, notes=NOTES):
    one = NotesFile(path)
    one.write(notes)
    one.close()


def test_notes_are_private_whole_and_come_back(path):
    written(path)
    assert NotesFile(path).read() == NOTES
    assert path.stat().st_mode & 0o777 == 0o600
    assert [file.name for file in path.parent.iterdir()] == ["notes.json"]


def test_the_last_that_speaks_counts(path):
    written(path)
    written(path, {"acknowledged": [], "muted": []})
    assert NotesFile(path).read() == {"acknowledged": [], "muted": []}


@pytest.mark.parametrize("text", ["{", "[" * 100_000, "\xff", '{"acknowledged": [},'])
def test_rubbish_says_nothing_and_is_not_written_over(path, text, said):
    """A line that somebody edited by hand may stand among a hundred that are well."""
    path.parent.mkdir()
    path.write_text(text, encoding="latin-1")
    one = NotesFile(path)
    assert one.read() is None
    assert one.trouble == f"{path} is not JSON"
    one.write(NOTES)
    one.close()
    assert path.read_text(encoding="latin-1") == text
    assert "repair it or move it away" in one.way_out
    said(one.trouble, one.way_out)


@pytest.mark.parametrize("text", ["", "\n"])
def test_an_empty_file_holds_nothing_and_is_written(path, text):
    path.parent.mkdir()
    path.write_text(text)
    one = NotesFile(path)
    assert (one.read(), one.trouble) == (None, "")
    one.write(NOTES)
    one.close()
    assert NotesFile(path).read() == NOTES


def test_notes_that_cannot_be_read_are_not_written_over(path):
    path.mkdir(parents=True)
    one = NotesFile(path)
    assert one.read() is None
    assert one.trouble == f"{path} cannot be read: Is a directory"


def test_a_home_that_cannot_be_written_forgets_and_says_so(path):
    path.parent.write_text("a file in place of the folder")
    one = NotesFile(path)
    assert one.trouble == ""
    one.write(NOTES)
    one.close()
    assert one.trouble == f"{path} cannot be written: File exists"
    assert NotesFile(path).read() is None


def test_what_was_said_is_written_with_the_next_word_once_the_home_is_well_again(path):
    path.parent.write_text("a file in place of the folder")
    one = NotesFile(path)
    one.write({"acknowledged": []})
    assert one._writing.settle(60.0)
    path.parent.unlink()
    one.write(NOTES)
    one.close()
    assert one.trouble == ""
    assert NotesFile(path).read() == NOTES


def test_notes_that_are_not_kept_are_an_error_of_the_report(
    path, engine, honest, scene, look, said
):
    path.parent.write_text("a file in place of the folder")
    notes = NotesFile(path)
    one = engine(honest, notes=notes)
    (finding,) = look(one, scene.run(30, {})).findings
    one.acknowledge(finding.identity)
    assert notes._writing.settle(60.0)
    (error,) = look(one, scene.run(10, {})).errors
    assert (error.where, error.message) == ("notes", f"{path} cannot be written: File exists")
    assert "is lost when this terminal closes" in error.hint
    said(error.message, error.hint)


def test_a_file_that_hangs_holds_up_nobody(path, monkeypatch):
    held = threading.Event()
    monkeypatch.setattr(notes_file, "READ_S", 0.0)
    monkeypatch.setattr(notes_file.json, "loads", lambda _data: held.wait())
    path.parent.mkdir()
    path.write_text(json.dumps(NOTES))
    one = NotesFile(path)
    assert one.read() is None
    assert one.trouble == f"{path} did not answer when it was read"
    held.set()
    one.write({"acknowledged": []})
    one.close()
    monkeypatch.undo()
    assert json.loads(path.read_text()) == NOTES


def test_the_state_folder_is_xdgs(monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert str(own_notes()) == "/state/gpumon/notes.json"
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    assert own_notes().is_absolute()


def test_an_acknowledgement_and_a_mute_outlive_the_engine(path, engine, honest, scene, look):
    first = engine(honest, notes=NotesFile(path))
    (finding,) = look(first, scene.run(30, {})).findings
    assert not finding.is_acknowledged
    assert first.acknowledge(finding.identity)
    first.close()
    second = engine(honest, notes=NotesFile(path))
    tick = scene.run(10, {})
    (again,) = look(second, tick).findings
    assert again.is_acknowledged
    second.mute(tick.at + 3600, "seen")
    second.close()
    assert json.loads(path.read_text())["muted"] == [["seen", None, tick.at + 3600]]
    third = engine(honest, notes=NotesFile(path))
    assert look(third, scene.run(10, {})).findings == ()


def test_a_file_that_is_too_large_is_said_and_neither_read_nor_written_over(path, monkeypatch):
    written(path)
    before = path.read_bytes()
    monkeypatch.setattr(notes_file, "MAX_BYTES", len(before) - 1)
    one = NotesFile(path)
    assert one.read() is None
    assert str(path) in one.trouble
    assert f"larger than {len(before) - 1} bytes" in one.trouble
    one.write({"acknowledged": []})
    one.close()
    assert path.read_bytes() == before
    monkeypatch.setattr(notes_file, "MAX_BYTES", len(before))
    other = NotesFile(path)
    assert (other.read(), other.trouble) == (NOTES, "")


def test_notes_that_are_too_large_are_an_error_of_the_picture(
    path, engine, honest, scene, look, monkeypatch
):
    written(path)
    monkeypatch.setattr(notes_file, "MAX_BYTES", 3)
    one = engine(honest, notes=NotesFile(path))
    said = [error for error in look(one, scene.run(30, {})).errors if error.where == "notes"]
    assert [(str(path) in error.message, error.hint != "") for error in said] == [(True, True)]
