"""Documents arrive whole, or one line says why they do not, whatever stands behind the output."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import termios
import threading
from pathlib import Path

import pytest

from gpumon.cli import main
from gpumon.cli.configuration import load
from gpumon.cli.options import parser, request_of
from gpumon.cli.output import Documents, OutputError, ReaderGoneError, write
from tests.unit.cli.conftest import BOOKED
from tests.worlds.probe import PATIENCE_S, bounded, eventually

FULL = "gpumon: standard output: No space left on device\n"
CLOSED = "gpumon: standard output: it is closed\n"
DOCUMENTS = [
    ["--json", "--for", "0", "demo:2x4"],
    ["--once", "--for", "0", "demo:2x4"],
    ["--watch", "0.2", "demo:2x4"],
    ["replay", "FILE", "--json", "--no-detectors"],
    ["replay", "FILE", "--once", "--no-detectors"],
    ["replay", "FILE", "--watch", "10", "--no-detectors"],
    ["report", "--json", "--directory", "BOOKS"],
    ["report", "--directory", "BOOKS"],
    ["doctor"],
    ["doctor", "--json"],
    ["detectors", "list"],
    ["detectors", "describe", "idle_held"],
    ["config", "path"],
    ["config", "print"],
    ["config", "validate"],
    ["--help"],
    ["--version"],
    ["report", "--help"],
]
ONE_OF_EACH = [DOCUMENTS[number] for number in (0, 1, 2, 5, 7, 8, 13, 15)]
"""A document, a table, both streams, and texts."""

PIPE_BYTES = 4096
"""As little as a pipe can be made to hold."""


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    """Fills in the files that commands read."""
    folder = tmp_path_factory.mktemp("output")
    file, books = folder / "fleet.gpumon", folder / "books"
    assert main(["simulate", str(file), "--for", "30", "--nodes", "3x8"]) == 0
    books.mkdir()
    (books / "2026-01-01.ndjson").write_bytes(BOOKED.line())
    places = {"FILE": str(file), "BOOKS": str(books)}
    return lambda words: [sys.executable, "-m", "gpumon", *(places.get(w, w) for w in words)]


def plain_environment(**more):
    """An environment in which no site's settings and no commands of Slurm are found."""
    return {**os.environ, "GPUMON_CONFIG": "/dev/null", "PATH": "/nowhere", **more}


@pytest.mark.parametrize("words", DOCUMENTS, ids=" ".join)
def test_a_full_disk_is_one_line_and_exit_1(words, given, said):
    environment = plain_environment()
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            given(words), stdout=full, stderr=subprocess.PIPE, text=True, timeout=300, check=False,
            env=environment,
        )  # fmt: skip
    assert (done.stderr, done.returncode) == (FULL, 1)
    said(done.stderr.strip())


@pytest.mark.parametrize("words", ONE_OF_EACH, ids=" ".join)
def test_a_closed_output_is_one_line_and_exit_1(words, given, said):
    command = ["/bin/sh", "-c", 'exec "$@" >&-', "sh", *given(words)]
    done = subprocess.run(
        command, stderr=subprocess.PIPE, text=True, timeout=300, check=False,
        env=plain_environment(),
    )  # fmt: skip
    assert (done.stderr, done.returncode) == (CLOSED, 1)
    said(done.stderr.strip())


@pytest.mark.parametrize("words", ONE_OF_EACH, ids=" ".join)
def test_a_reader_that_leaves_is_no_error(words, given):
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as gone:
        done = subprocess.run(
            given(words), stdout=gone, stderr=subprocess.PIPE, text=True, timeout=300, check=False,
            env=plain_environment(),
        )  # fmt: skip
    assert (done.stderr, done.returncode) == ("", 0)


def test_a_disk_that_fills_up_within_a_document_is_an_error(tmp_path, given, said):
    """With PYTHONUNBUFFERED Python's own writing takes a short write for the whole."""
    command = ["/bin/bash", "-c", 'ulimit -f 8; exec "$@"', "bash", *given(DOCUMENTS[0])]
    path = tmp_path / "document.json"
    with path.open("wb") as file:
        done = subprocess.run(
            command, stdout=file, stderr=subprocess.PIPE, text=True, timeout=300, check=False,
            env=plain_environment(PYTHONUNBUFFERED="1", PYTHONDONTWRITEBYTECODE="1"),
        )  # fmt: skip
    assert path.stat().st_size == 8 * 1024
    assert (done.stderr, done.returncode) == (
        FULL.replace("No space left on device", "File too large"),
        1,
    )
    said(done.stderr.strip())


SMALL_DISK = """
mount -t tmpfs -o size=16k none "$0" || exit 77
"$@" >"$0/document.json"
code=$?
wc -c <"$0/document.json"
exit $code
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root mounts a small disk")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_small_disk_holds_what_fits_and_that_is_an_error(unbuffered, tmp_path, given):
    command = ["/usr/bin/unshare", "-m", "/bin/sh", "-c", SMALL_DISK, str(tmp_path)]
    environment = plain_environment(PYTHONUNBUFFERED=unbuffered, PATH="/bin:/usr/bin")
    done = subprocess.run(
        [*command, *given(["replay", "FILE", "--json", "--no-detectors"])],
        capture_output=True, text=True, timeout=300, check=False, env=environment,
    )  # fmt: skip
    if done.returncode == 77:
        pytest.skip("root may mount nothing here")
    assert (done.stdout.strip(), done.stderr, done.returncode) == (str(16 * 1024), FULL, 1)


def test_with_exit_status_a_full_disk_is_unknown_and_no_warning(given):
    with Path("/dev/full").open("wb") as full:
        command = [*given(DOCUMENTS[0]), "--exit-status"]
        done = subprocess.run(command, stdout=full, capture_output=False, stderr=subprocess.DEVNULL)
    assert done.returncode == 3


def test_an_output_that_does_not_block_gets_all_of_it(given):
    """As where a shell's `timeout`, a Node.js program or a terminal has made it so."""
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    os.set_blocking(writer, False)
    started = subprocess.Popen(
        given(DOCUMENTS[0]), stdout=writer, stderr=subprocess.PIPE, env=plain_environment()
    )
    os.close(writer)
    with started as process, bounded(process, 300.0), os.fdopen(reader, "rb") as out:
        document = json.loads(out.read())
        assert process.stderr.read() == b""
    assert process.returncode == 0
    assert document["schema"] == "gpumon-document/2"


LOCALES = [
    {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    {"PYTHONIOENCODING": "iso-8859-1"},
]
TEXTS = [words for words in DOCUMENTS if not {"--watch", "--json", "--help"} & set(words)]


@pytest.mark.parametrize("words", TEXTS, ids=" ".join)
@pytest.mark.parametrize("locale", LOCALES, ids=["C", "Latin-1"])
def test_a_locale_without_utf_8_gets_an_answer(locale, words, given):
    done = subprocess.run(
        given(words), capture_output=True, timeout=300, check=False, env=plain_environment(**locale)
    )
    assert (done.stderr, done.returncode) == (b"", 0)
    assert done.stdout
    # In UTF-8 the dash of a missing value begins so.
    assert b"\xe2\x80" not in done.stdout


def test_what_an_encoding_has_is_kept_and_what_it_lacks_is_drawn(tmp_path):
    code = "from gpumon.cli.output import write; write('é – ‼ 漢 µ\\n')"
    for encoding, text in (
        ("iso-8859-1", "é - X ?? µ"),
        ("ascii", "e - X ?? u"),
        ("utf-8", "é – ‼ 漢 µ"),
    ):
        environment = {**os.environ, "PYTHONIOENCODING": encoding}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment)
        assert done.stdout.decode(encoding) == text + "\n"


def test_settings_that_an_encoding_lacks_are_read_back_as_they_were(tmp_path):
    path, again = tmp_path / "c.toml", tmp_path / "again.toml"
    path.write_text('[prices]\ncurrency = "é€😀"\n', encoding="utf-8")
    command = [sys.executable, "-m", "gpumon", "config", "print"]
    environment = {**os.environ, "GPUMON_CONFIG": str(path)}
    told = subprocess.run(
        command, capture_output=True, env={**environment, "PYTHONIOENCODING": "ascii"}
    )
    assert told.stderr == b""
    again.write_bytes(told.stdout)
    texts = []
    for file in (path, again):
        done = subprocess.run(
            command, capture_output=True, text=True, env={**os.environ, "GPUMON_CONFIG": str(file)}
        )
        texts.append([line.partition("  # ")[0] for line in done.stdout.splitlines()])
    assert texts[0] == texts[1]
    assert 'currency = "é€😀"' in texts[0]


@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full"])
@pytest.mark.parametrize(("words", "code"), [(["--nonsense"], 2), (["--json", "what:ever"], 2)])
def test_narration_that_nobody_takes_changes_neither_data_nor_exit_code(
    words, code, redirection, given
):
    command = ["/bin/sh", "-c", f'exec "$@" {redirection}', "sh", *given(words)]
    done = subprocess.run(command, stdout=subprocess.PIPE, timeout=300, check=False)
    assert (done.stdout, done.returncode) == (b"", code)


def waiting_bytes(pipe):
    """How much a pipe holds."""
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4), sys.byteorder)


def stalled(words):
    """gpumon in the middle of a document that nobody reads on, and the pipe."""
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    started = subprocess.Popen(
        words, stdout=writer, stderr=subprocess.PIPE, env=plain_environment()
    )
    os.close(writer)
    eventually(lambda: waiting_bytes(reader) == PIPE_BYTES, "the pipe is full")
    return started, reader


STREAMS = [["--watch", "0.1", "demo:4x8"], ["replay", "FILE", "--watch", "1", "--no-detectors"]]


@pytest.mark.parametrize("words", STREAMS, ids=["live", "recorded"])
def test_an_interrupt_does_not_tear_a_line_that_is_read(words, given):
    started, reader = stalled(given(words))
    with started as process, bounded(process, 300.0), os.fdopen(reader, "rb") as out:
        process.send_signal(signal.SIGINT)
        lines = out.read().split(b"\n")
        assert process.wait() == 130
        assert process.stderr.read() == b""
    assert lines[-1] == b""
    assert all(json.loads(line)["schema"] == "gpumon-document/2" for line in lines[:-1])


@pytest.mark.slow
@pytest.mark.parametrize("words", STREAMS, ids=["live", "recorded"])
@pytest.mark.parametrize("times", [1, 2])
def test_an_interrupt_ends_a_line_that_nobody_reads(words, times, given):
    started, reader = stalled(given(words))
    with started as process, bounded(process, 300.0):
        for _ in range(times):
            process.send_signal(signal.SIGINT)
        assert process.wait() == 130
        assert process.stderr.read() == b""
    os.close(reader)


@pytest.fixture
def pipe():
    """A small pipe: its end to read from, and its other end as a text stream."""
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    with os.fdopen(reader, "rb") as out, os.fdopen(writer, "w", encoding="utf-8") as stream:
        yield out, stream


LONG = {"x": "x" * 100_000}
LINE = json.dumps(LONG, separators=(",", ":")).encode() + b"\n"


def test_the_end_of_a_stream_waits_for_the_line_that_is_under_way(pipe, monkeypatch):
    out, stream = pipe
    monkeypatch.setattr(sys, "stdout", stream)
    documents = Documents(pytest.fail)
    writer = threading.Thread(target=documents.write, args=(LONG,))
    writer.start()
    eventually(lambda: waiting_bytes(out) == PIPE_BYTES, "the pipe is full")
    read = []
    reader = threading.Thread(target=lambda: read.append(out.read(len(LINE))))
    reader.start()
    assert documents.end(PATIENCE_S)
    for thread in (writer, reader):
        thread.join(PATIENCE_S)
    assert read == [LINE]
    documents.write({"too": "late"})
    assert waiting_bytes(out) == 0


def test_the_end_of_a_stream_is_bounded_where_nobody_reads(pipe, monkeypatch):
    out, stream = pipe
    monkeypatch.setattr(sys, "stdout", stream)
    documents = Documents(pytest.fail)
    writer = threading.Thread(target=documents.write, args=(LONG,), daemon=True)
    writer.start()
    eventually(lambda: waiting_bytes(out) == PIPE_BYTES, "the pipe is full")
    assert not documents.end(0.0)
    assert out.read(len(LINE)) == LINE
    writer.join(PATIENCE_S)


def test_what_the_output_refuses_ends_the_stream_and_is_an_error_of_who_ends_it(monkeypatch):
    told = []
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        documents = Documents(lambda: told.append(1))
        documents.write(LONG)
        documents.write(LONG)
        with pytest.raises(OutputError, match="No space left"), documents:
            pass
    assert told == [1]


def test_who_gives_another_output_gets_the_text(capsys, monkeypatch):
    write("–\n")
    assert capsys.readouterr().out == "–\n"
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(OutputError, match="closed"):
        write("x")


def test_a_reader_that_has_gone_is_told_from_a_failure(pipe, monkeypatch):
    out, stream = pipe
    monkeypatch.setattr(sys, "stdout", stream)
    out.close()
    with pytest.raises(ReaderGoneError):
        write("x")


@pytest.mark.parametrize(
    ("variable", "is_ascii"), [("C", True), ("POSIX", True), ("C.UTF-8", False)]
)
def test_who_asks_for_the_c_locale_gets_its_letters(caller, variable, is_ascii):
    """Python itself would write UTF-8 there."""
    env = {**os.environ, "LC_ALL": variable, "HOME": str(caller.home)}
    done = caller.run("--once", "--for", "0", "demo:1x2", env=env)
    assert done.returncode == 0
    assert done.stdout.isascii() is is_ascii
    assert done.stderr.isascii()


@pytest.mark.parametrize(("term", "is_terminal"), [("dumb", False), ("xterm", True), ("", True)])
def test_a_dumb_terminal_gets_a_table_and_no_screen(monkeypatch, term, is_terminal):
    monkeypatch.setenv("TERM", term)
    options = parser().parse_args(["demo"])
    request = request_of(options, load(), (), is_to_tty=True)
    assert request.is_terminal is is_terminal
