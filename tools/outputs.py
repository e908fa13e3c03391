"""Everything that gpumon says, as a folder of text files: proof that a change left it as it was.

    python -m tools.outputs write FOLDER           documents, tables, messages, pages
    python -m tools.outputs compare BEFORE AFTER   every difference; exits 1 if there is one

gpumon is driven from outside alone, as `python -m gpumon` in a child process, so that it does not
matter where its modules are. Its wall clock stands still, its fleets are simulated or recorded.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, NamedTuple

from tools.output_pages import SMALL, Names, PageError, Terminal, pages

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ROOT: Final = Path(__file__).resolve().parent.parent
LAB: Final = ROOT / "tests" / "tui" / "recordings" / "lab.gpumon.zst"
FROZEN: Final = (
    "import runpy, sys, time; time.time = lambda: 1767225600.0; sys.argv[0] = 'gpumon'; "
    "runpy.run_module('gpumon', run_name='__main__')"
)
"""Runs gpumon at 2026-01-01 00:00 UTC, for ever."""
GPUMON: Final = (sys.executable, "-c", FROZEN)
AT_ONCE: Final = 3
"""Programs at a time."""
MOST_SHOWN: Final = 12
"""Differing lines of a file that are told."""
WIDTH: Final = 160
"""Characters of a line that are told."""

MASKS: Final = (
    # The version, which a release may change meanwhile.
    (re.compile(r"(gpumon |\"tool\": ?\"gpumon |\"version\": ?\")\d+\.\d+\.\d+\w*"), r"\1VERSION"),
    # Where a detector's module lies is what a move changes.
    (re.compile(r"\bgpumon_detectors\.[\w.]+:"), "MODULE:"),
    # Temporary folders.
    (re.compile(r"/tmp/[\w./-]+"), "FOLDER"),
)
"""What may differ between two runs, and stands for it; pages blank the footprint of gpumon too."""

COMMANDS: Final = ("", "config", "doctor", "detectors", "record", "replay", "report", "simulate")
PARTS: Final = (
    "config path", "config print", "config validate", "config init", "detectors list",
    "detectors describe", "detectors check",
)  # fmt: skip
DEMOS: Final = ("demo:6x8?seed=3", "demo:12x4?seed=11")
RECORDINGS: Final = ("six.gpumon.zst", "twelve.gpumon.zst", "lab.gpumon.zst")
GROUPINGS: Final = ("user", "account", "partition", "gpu", "node", "job", "class")


class CliCall(NamedTuple):
    """One call of the command line."""

    name: str
    words: tuple[str, ...]
    more: tuple[tuple[str, str], ...] = ()
    """Variables of the environment."""


def words_of_help() -> Iterator[CliCall]:
    """Every help, and what the commands without a fleet say."""
    for words in (*COMMANDS, *PARTS):
        yield CliCall(f"help/{words.replace(' ', '-') or 'gpumon'}", (*words.split(), "--help"))
    yield CliCall("version", ("--version",))
    yield CliCall("config/print", ("config", "print"))
    yield CliCall("config/path", ("config", "path"))
    yield CliCall("config/validate", ("config", "validate"))
    yield CliCall("config/init", ("config", "init"), (("GPUMON_CONFIG", "made.toml"),))
    yield CliCall("detectors/list", ("detectors", "list"))
    yield CliCall("doctor/text", ("doctor", DEMOS[0]))
    yield CliCall("doctor/json", ("doctor", "--json", DEMOS[0]))


def words_of_errors() -> Iterator[CliCall]:
    """One line for each mistake."""
    wrong = {
        "option": ("--nosuch",),
        "target": ("nosuch:target", "--json"),
        "host": ("ssh://-oProxyCommand=x", "--json"),
        "filter": ("--filter", "user==", "--json", DEMOS[0]),
        "filter-name": ("--filter", "nosuch>3", "--json", DEMOS[0]),
        "since": ("--ended", "--since", "yesterday", "--json", DEMOS[0]),
        "past": ("--past", "2h", "--json", DEMOS[0]),
        "job": ("--job", "; rm", "--json", "--for", "0", DEMOS[0]),
        "no-file": ("replay", "nosuch.gpumon.zst"),
        "no-recording": ("replay", "books/2026-01-01.ndjson", "--json"),
        "no-instant": ("replay", "lab.gpumon.zst", "--json", "--at", "2001-01-01"),
        "no-books": ("report", "--directory", "nosuch"),
        "no-detector": ("detectors", "describe", "nosuch"),
        "file-there": ("simulate", "lab.gpumon.zst", "--for", "1m"),
    }
    for name, words in wrong.items():
        yield CliCall(f"errors/{name}", words)
    yield CliCall("errors/config", ("config", "validate"), (("GPUMON_CONFIG", "wrong.toml"),))
    yield CliCall("errors/config-used", ("--json", DEMOS[0]), (("GPUMON_CONFIG", "wrong.toml"),))


def words_of_fleets() -> Iterator[CliCall]:
    """Documents and tables of demos and recordings, and of the books."""
    for number, demo in enumerate(DEMOS, 1):
        one = f"demo-{number}"
        yield CliCall(f"{one}/json", ("--json", "--for", "0", "--all", "--ended", demo))
        yield CliCall(f"{one}/json-mine", ("--json", "--for", "0", demo))
        yield CliCall(f"{one}/json-judged", ("--json", "--for", "2", demo))
        yield CliCall(f"{one}/once", ("--once", "--for", "0", "--all", "--ended", demo))
        yield CliCall(f"{one}/once-user", ("--once", "--for", "0", "--user", "greta", demo))
        yield CliCall(
            f"{one}/once-job", ("--once", "--for", "0", "--job", "48209", "--steps", demo)
        )
        for n, text in enumerate(("user==you & gpus>=2", "sm<20", "gpu==h100")):
            words = ("--once", "--for", "0", "--all", "--filter", text, "--ascii", demo)
            yield CliCall(f"{one}/once-filter-{n}", words)
    for name in RECORDINGS:
        one = name.partition(".")[0]
        yield CliCall(f"{one}/json", ("replay", name, "--json", "--exit-status"))
        yield CliCall(f"{one}/once", ("replay", name, "--once"))
        yield CliCall(f"{one}/once-ascii", ("replay", name, "--once", "--ascii", "--no-detectors"))
    yield CliCall("lab/json-early", ("replay", LAB.name, "--json", "--at=-8m"))
    yield CliCall("lab/watch", ("replay", LAB.name, "--json", "--watch", "300"))
    for by in GROUPINGS:
        asked = ("report", "--directory", "books", "--by", by)
        yield CliCall(f"report/{by}", asked)
        yield CliCall(f"report/{by}-json", (*asked, "--json", "--since", "12h"))
    tiny = ("simulate", "tiny.gpumon", "--for", "1m", "--nodes", "2x4", "--period", "20")
    yield CliCall("simulate/tiny", (*tiny, "--seed", "5"))


def terminals() -> tuple[Terminal, ...]:
    """The programs of which pages are taken; those that take longest come first."""
    six = Names("48209", ("48214", "48211", "48219_14"), ("gpu001", "gpu006", "gpu007"))
    twelve = Names("48209", ("48211", "48217", "48214"), ("gpu002", "gpu012", "gpu013"))
    lab = Names("4", ("5", "6"), ("gpu01", "gpu03"))
    end = "--at=-0"
    one, other, real = (("replay", name, end) for name in RECORDINGS)
    # How an invented past is sampled depends on how busy the machine is: none is wanted.
    live = (DEMOS[0], "--all", "--ended")
    plain = (("NO_COLOR", "1"),)
    return (
        Terminal("six", (*GPUMON, *one), six, has_further=True, has_last=True),
        Terminal("lab", (*GPUMON, *real), lab, has_last=True),
        Terminal("live", (*GPUMON, *live), six, is_live=True),
        Terminal("twelve", (*GPUMON, *other), twelve),
        Terminal("small", (*GPUMON, *one), six, SMALL),
        Terminal("plain", (*GPUMON, *other, "--ascii"), twelve, SMALL, more=plain),
    )


def masked(text: str) -> str:
    """The text without what may differ."""
    for pattern, mask in MASKS:
        text = pattern.sub(mask, text)
    return text


def in_lines(text: str) -> str:
    """JSON with a line for each value, every other byte as it was; what is none stays."""
    starts = text.startswith(("{", "["))
    return re.sub(r"(?<=[,{\[])(?=[\"{\[\d-])", "\n", text) if starts else text


def differences(before: Path, after: Path) -> list[str]:
    """What differs between two folders, each a line or several; empty where nothing does."""
    olds, news = (
        {str(path.relative_to(folder)): path for path in folder.rglob("*.txt")}
        for folder in (before, after)
    )
    found = [f"{name}: only before" for name in sorted(olds.keys() - news.keys())]
    found += [f"{name}: only after" for name in sorted(news.keys() - olds.keys())]
    for name in sorted(olds.keys() & news.keys()):
        old, new = (path.read_text(encoding="utf-8") for path in (olds[name], news[name]))
        if old != new:
            found.append("\n".join((f"{name}:", *changed_lines(old, new))))
    if not olds:
        found.append(f"{before}: no outputs there")
    return found


def changed_lines(old: str, new: str) -> list[str]:
    """The first lines that differ, with their numbers."""
    found: list[str] = []
    count = 0
    # Splitting at anything but a newline would hide which character it was.
    for number, (was, now) in enumerate(zip_longest(old.split("\n"), new.split("\n")), 1):
        if was != now:
            count += 1
            if count <= MOST_SHOWN:
                found += [f"  {number} - {_short(was, now)}", f"  {number} + {_short(now, was)}"]
    return [*found, f"  {count - MOST_SHOWN} more lines"] if count > MOST_SHOWN else found


def _short(text: str | None, other: str | None) -> str:
    """The part of a line around its first difference."""
    if text is None:
        return "(no line)"
    pairs = enumerate(zip(text, other or "", strict=False))
    first = next((at for at, (one, two) in pairs if one != two), min(len(text), len(other or "")))
    begin = max(0, first - WIDTH // 2)
    return repr(text[begin : begin + WIDTH])


def environment(place: Path) -> dict[str, str]:
    """Nothing of this machine's user."""
    home = str(place / "home")
    folders = {f"XDG_{name}": home for name in ("CONFIG_HOME", "CONFIG_DIRS", "STATE_HOME")}
    return {"PATH": "/usr/bin:/bin", "HOME": home, "TZ": "UTC", "LANG": "C.UTF-8", **folders}


def prepare(place: Path) -> None:
    """Recordings, books and a wrong configuration.

    Raises:
        PageError: a recording cannot be made.
    """
    (place / "home").mkdir()
    (place / "books").mkdir()
    (place / "books" / "2026-01-01.ndjson").write_text(ledger_page(), encoding="utf-8")
    (place / "wrong.toml").write_text("[fleet\nperiod_s = 'x'\n", encoding="utf-8")
    (place / LAB.name).symlink_to(LAB)
    sizes = (("6x8", "3"), ("12x4", "11"))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        made = pool.map(
            lambda one: run(
                ("simulate", one[0], "--nodes", one[1][0], "--seed", one[1][1],
                 "--for", "64m", "--period", "15"), place, {}),
            zip(RECORDINGS, sizes, strict=False),
        )  # fmt: skip
        for text in made:
            if "exit code 0" not in text:
                raise PageError(text)


def ledger_page() -> str:
    """A ledger as docs/ledger.md describes it: three jobs, a correction, a torn line."""
    lines = ['{"schema":"gpumon-ledger/1"}']
    for number in range(36):
        start = 1_767_139_200 + 2400 * number
        seconds = {"productive": 4000.0 - 100 * number, "unobserved": 100.0 * number}
        waste = {"idle_held": 400.0} if number % 3 else {"straggler": 300.0, "productive": 100.0}
        entry = {
            "start": start, "end": start + 1200, "job": str(100 + number % 3),
            "began": 1_767_139_200, "user": ("ada", "bob", "eve")[number % 3],
            "account": ("ml", "bio")[number % 2], "partition": ("gpu", "long")[number % 2],
            "node": f"gpu{number % 4:02}", "gpu": ("NVIDIA H100", "NVIDIA A100")[number % 2],
            "gpus": [f"GPU-{number % 4}-{gpu}" for gpu in range(4)],
            "gpu_seconds": seconds | waste, "energy_j": 1e6 + number,
            "energy_gpu_seconds": 4800.0, "observed_since": 1_767_139_260,
        }  # fmt: skip
        lines.append(json.dumps(entry))
    return "\n".join((*lines, '{"start": 17')) + "\n"


def run(words: Sequence[str], place: Path, more: Mapping[str, str]) -> str:
    """What one call says, with its exit code."""
    done = subprocess.run(
        (*GPUMON, *words),
        cwd=place,
        env={**environment(place), "COLUMNS": "140", **more},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=400,
        check=False,
    )
    out, err = (text.decode("utf-8", "backslashreplace") for text in (done.stdout, done.stderr))
    parts = (" ".join(words), f"-- exit code {done.returncode}", "-- standard error", err,
             "-- standard output", in_lines(out))  # fmt: skip
    return masked("\n".join(parts))


def write(folder: Path, only: str = "") -> int:
    """Writes everything; number of files.

    Args:
        folder: Where to.
        only: How the names of terminals and calls begin that are wanted.

    Raises:
        PageError: something cannot be taken.
    """
    with TemporaryDirectory(dir="/tmp") as made:
        place = Path(made)
        prepare(place)
        calls = (*words_of_fleets(), *words_of_help(), *words_of_errors())
        wanted = [one for one in calls if one.name.startswith(only)]
        shown = [one for one in terminals() if one.name.startswith(only)]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            tasks = [pool.submit(write_pages, one, folder, place) for one in shown]
            tasks += [pool.submit(write_output, one, folder, place) for one in wanted]
            try:
                for task in as_completed(tasks):
                    task.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        if "detectors".startswith(only):
            write_detectors(folder, place)
        for path in sorted(place.glob("tiny*")) + sorted(place.glob("made.toml")):
            _put(folder / "files" / f"{path.name}.txt", masked(path.read_text(encoding="utf-8")))
    return sum(1 for _ in folder.rglob("*.txt"))


def write_detectors(folder: Path, place: Path) -> None:
    """What each detector says of itself."""
    listed = run(("detectors", "list"), place, {}).partition("-- standard output\n")[2]
    for line in listed.splitlines():
        name = line.partition(" ")[0]
        write_output(CliCall(f"detectors/{name}", ("detectors", "describe", name)), folder, place)


def write_output(call: CliCall, folder: Path, place: Path) -> None:
    """One call's words."""
    _put(folder / "said" / f"{call.name}.txt", run(call.words, place, dict(call.more)))


def write_pages(terminal: Terminal, folder: Path, place: Path) -> None:
    """One terminal's pages."""
    there = terminal._replace(words=("env", "-C", str(place), *terminal.words))
    for name, text in pages(there, environment(place)):
        _put(folder / "pages" / terminal.name / f"{name}.txt", masked(text))


def _put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="")


def main(words: Sequence[str] | None = None) -> int:
    """Write the outputs, or compare two folders of them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parts = parser.add_subparsers(dest="part", required=True)
    writes = parts.add_parser("write", help="write everything that gpumon says to a folder")
    writes.add_argument("folder", type=Path)
    writes.add_argument("--only", default="", metavar="NAME", help="what begins so: lab, report")
    compares = parts.add_parser("compare", help="tell every difference between two folders")
    compares.add_argument("before", type=Path)
    compares.add_argument("after", type=Path)
    options = parser.parse_args(words)
    if options.part == "compare":
        found = differences(options.before, options.after)
        print("\n".join((*found, f"{len(found)} differences")))
        return 1 if found else 0
    if options.folder.exists() and any(options.folder.iterdir()):
        print(f"{options.folder} holds something already", file=sys.stderr)
        return 2
    try:
        print(f"{write(options.folder, options.only)} files in {options.folder}")
    except PageError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
