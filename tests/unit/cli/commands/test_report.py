from __future__ import annotations

import json

import pytest

from gpumon.cli import main
from gpumon.cli.commands import report
from gpumon.cli.configured_ledger import folder_of, ledger_of
from gpumon.fleet.ledger.journal_reader import Entry
from gpumon.model.settings import DEFAULTS, Chosen, Settings
from tests.worlds.schemas import checked

START = 1_767_225_600.0


def entry(**changes):
    made = Entry(
        START, START + 3600, "7", START, "ada", "ml", "h100", "gpu01", "NVIDIA H100 80GB HBM3",
        ("GPU-1", "GPU-2"), {"useful": 2700.0, "unexplained": 700.0, "~throttled": 200.0,
         "idle_tail": 2700.0, "unobserved": 900.0},
        3.6e6, 7200.0, START + 900,
    )  # fmt: skip
    return made._replace(**changes)


@pytest.fixture
def books(tmp_path, monkeypatch):
    """A folder of books of two users."""
    monkeypatch.setenv("GPUMON_LEDGER_DIRECTORY", str(tmp_path))
    monkeypatch.setenv("GPUMON_CONFIG", "/dev/null")
    other = entry(user="bob\x1b[31m", job_id="8", seconds={"useful": 7200.0})
    lines = (entry().line(), other.line(), b"torn")
    (tmp_path / "2026-01-01.ndjson").write_bytes(b"".join(lines))
    return tmp_path


def test_the_table_sums_up_to_the_whole_and_shows_no_escapes(books, capsys):
    assert main(["report"]) == 0
    shown = capsys.readouterr()
    rows = {line.split()[0]: line.split() for line in shown.out.splitlines() if line.strip()}
    shares = ["42.9", "%", "42.9", "%", "3.2", "%", "11.1", "%", "12.5", "%"]
    assert rows["ada"][1:12] == ["2.00", *shares]
    assert rows["ada"][12:14] == ["idle_tail", "0.75"]
    assert rows["total"][1] == "4.00"
    assert "\x1b" not in shown.out
    assert "1 line of " in shown.err


def test_classes_are_listed_with_their_share_of_what_was_observed(books, capsys):
    assert main(["report", "--by", "class"]) == 0
    rows = dict(line.split(None, 1) for line in capsys.readouterr().out.splitlines() if line)
    assert rows["useful"].split() == ["2.75", "73.3", "%"]
    assert rows["idle_tail"].split() == ["0.75", "20.0", "%"]
    assert rows["~throttled"].split() == ["0.06", "1.5", "%"]
    assert rows["unexplained"].split() == ["0.19", "5.2", "%"]
    assert rows["unobserved"].split() == ["0.25", "6.2", "%"]
    assert rows["total"].split() == ["4.00", "–"]


def test_the_document_says_the_same_as_numbers(books, capsys):
    assert main(["report", "--json", "--by", "job"]) == 0
    data = checked("report-2", capsys.readouterr().out)
    assert data["schema"] == "gpumon-report/2"
    assert data["skipped_lines"] == 1
    lines = {line["name"]: line for line in data["lines"]}
    assert lines["7"]["waste"] == {"idle_tail": 2700.0}
    assert lines["7"]["energy_j"] == 3.6e6
    assert data["total"]["allocated_gpu_seconds"] == 14400.0
    total = data["total"]
    shares = ("useful", "wasted", "suspected", "unobserved", "unexplained")
    parts = {name: total[f"{name}_gpu_seconds"] for name in shares}
    assert total["allocated_gpu_seconds"] == pytest.approx(sum(parts.values()))
    observed_s = sum(parts.values()) - parts["unobserved"]
    for name in shares:
        whole = 14400.0 if name == "unobserved" else observed_s
        assert total[f"{name}_share"] == pytest.approx(parts[name] / whole, abs=1e-5)
    assert total["suspected"] == {"throttled": 200.0}


def test_books_of_the_version_before_are_read_and_call_nothing_useful(books, capsys):
    old = json.loads(entry().line())
    del old["suspected_gpu_seconds"]
    old["gpu_seconds"] = {"productive": 3000.0, "idle_tail": 600.0}
    (books / "2026-01-01.ndjson").write_text(json.dumps(old) + "\n")
    assert main(["report", "--json"]) == 0
    total = json.loads(capsys.readouterr().out)["total"]
    assert (total["useful_gpu_seconds"], total["unexplained_gpu_seconds"]) == (0, 3000)
    assert total["waste"] == {"idle_tail": 600}


def test_a_page_that_is_a_link_is_named(books, capsys):
    page = books / "2026-01-04.ndjson"
    page.symlink_to(books / "nowhere")
    assert main(["report", "--json"]) == 0
    said = capsys.readouterr()
    assert (
        f"{page} is a symbolic link, and no ledger is written through one: move it away" in said.err
    )
    assert json.loads(said.out)["total"]["allocated_gpu_seconds"] == 14400


def test_money_stands_there_only_where_prices_are(books, capsys, monkeypatch):
    main(["report", "--json"])
    assert json.loads(capsys.readouterr().out)["total"]["cost"] is None
    monkeypatch.setenv("GPUMON_PRICES_GPU_HOUR", "H100=2")
    monkeypatch.setenv("GPUMON_PRICES_KWH", "0.5")
    main(["report", "--json"])
    total = json.loads(capsys.readouterr().out)["total"]
    assert total["cost"] == pytest.approx(4 * 2 + 2 * 0.5)
    assert total["wasted_cost"] == pytest.approx(0.75 * 2)


def test_only_what_is_asked_for_counts(books, capsys):
    assert main(["report", "--json", "--since", "2026-01-02"]) == 0
    assert json.loads(capsys.readouterr().out)["total"]["allocated_gpu_seconds"] == 0


@pytest.mark.parametrize("by", ["class", "user"])
def test_with_a_beginning_the_span_before_stands_beside(books, capsys, monkeypatch, by):
    """Half of what was booked lies in the last half hour, half in the one before it."""
    monkeypatch.setattr(report.time, "time", lambda: START + 3600.0)
    assert main(["report", "--since", "30min", "--by", by]) == 0
    title, *rows = (line.split() for line in capsys.readouterr().out.splitlines() if line)
    assert "before" in title
    shares = {row[0]: row for row in rows}
    if by == "class":
        assert shares["idle_tail"] == ["idle_tail", "0.38", "20.0", "%", "20.0", "%"]
    else:
        assert shares["ada"][4:8] == ["42.9", "%", "42.9", "%"]
    assert main(["report", "--json", "--since", "30min", "--by", by]) == 0
    said = capsys.readouterr()
    data = checked("report-2", said.out)
    assert data["skipped_lines"] == 1
    assert data["before"]["total"]["waste"] == data["total"]["waste"] == {"idle_tail": 1350.0}
    assert [line["name"] for line in data["before"]["lines"]] == [
        line["name"] for line in data["lines"]
    ]


def test_without_a_beginning_there_is_nothing_before(books, capsys):
    assert main(["report", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["before"] is None
    assert main(["report"]) == 0
    assert "before" not in capsys.readouterr().out


def test_without_books_it_says_how_to_keep_them(tmp_path, capsys):
    assert main(["report", "--directory", str(tmp_path)]) == 1
    assert "ledger.is_kept" in capsys.readouterr().err


def test_a_folder_in_the_home_of_nobody_is_one_line(monkeypatch, capsys):
    monkeypatch.setenv("GPUMON_LEDGER_DIRECTORY", "~nobody-of-that-name/books")
    assert main(["report"]) == 2
    told = "ledger.directory: ~nobody-of-that-name/books: no user of that name has a home directory"
    assert capsys.readouterr().err == f"gpumon: {told}\n"


def test_the_folder_is_the_configured_one_else_the_users_state():
    named = Settings({**DEFAULTS.chosen, "ledger.directory": Chosen("/srv/books", "x")})
    assert str(folder_of(named)) == "/srv/books"
    assert str(folder_of(DEFAULTS, {"XDG_STATE_HOME": "/s"})) == "/s/gpumon/ledger"
    assert str(folder_of(DEFAULTS, {"XDG_STATE_HOME": "relative", "HOME": "/h"})) == (
        "/h/.local/state/gpumon/ledger"
    )


def test_nothing_is_written_unless_asked_nor_of_what_is_invented(tmp_path):
    folder = Chosen(str(tmp_path / "books"), "x")
    kept = {"ledger.directory": folder, "ledger.is_kept": Chosen(True, "x")}
    off = Settings({**DEFAULTS.chosen, "ledger.directory": folder})
    on = Settings({**DEFAULTS.chosen, **kept})
    assert ledger_of(off, is_real=True)().summary().kept_in is None
    assert ledger_of(on, is_real=False)().summary().kept_in is None
    assert not (tmp_path / "books").exists()
    ledger = ledger_of(on, is_real=True)()
    assert ledger.summary().kept_in == str(tmp_path / "books")
    ledger.close()


def test_a_folder_that_leads_round_in_a_circle_is_one_line(tmp_path, capsys, said):
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    assert main(["report", "--directory", str(loop)]) == 1
    told = capsys.readouterr().err
    assert told == f"gpumon: {loop}: Too many levels of symbolic links\n"
    said(told.strip().replace(f"{tmp_path}/", ""))
