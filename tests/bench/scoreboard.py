"""`python -m tests.bench.scoreboard`: today's rules and the baselines on labelled recordings.

Fleets of both generators and populations of the tests are written below a folder, played, and
scored by `gpumon evaluate`; the tables of docs/numbers.md are printed. Recordings that are there
already are not made again.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.population.fleet import Fleet, Plan
from tests.population.labels import record

GPUMON: Final = str(Path(sys.executable).parent / "gpumon")

NONE: Final = "–"


class Set(NamedTuple):
    """Recordings that are scored together."""

    title: str
    seeds: tuple[int, ...]
    words: tuple[str, ...]
    """What `gpumon simulate` is given; empty: a population of the tests."""


UNSEEN: Final = (611001, 611002, 611003)
LENGTH: Final = ("--for", "5h")

SETS: Final = {
    "first": Set(
        "first generator",
        (9101, 9102, 9103),
        ("--nodes", "20x8", "--for", "6h", "--period", "30"),
    ),
    "shifted": Set("shifted generator", (9201, 9202, 9203, 9204), ("--shift",)),
    "population": Set("population of the tests", (9301, 9302), ()),
    "ten": Set("shifted, every 10 s", UNSEEN, ("--shift", "--period", "10", *LENGTH)),
    "sixty": Set("shifted, every 60 s", UNSEEN[:1], ("--shift", "--period", "60", *LENGTH)),
}
"""Seeds that no rule was tuned on; of the last two, that none had met."""

USUAL: Final = ("first", "shifted", "population")
"""What is scored unless something else is asked for."""

JOBS: Final = 75
"""Of one population."""


def main() -> None:
    """Make what is missing, score it, print."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.scoreboard", description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path(".cache/scoreboard"))
    parser.add_argument("--set", action="append", choices=SETS, help="only this one; may repeat")
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    names = list(asked.set or USUAL)
    made = {name: [_made(asked.folder, name, seed) for seed in SETS[name].seeds] for name in names}
    # Each is a process of its own; playing one recording takes one core.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        scores = pool.map(_scored, made.values())
    told = {SETS[name].title: found for name, found in zip(names, scores, strict=True)}
    print(_whole(told))
    print(_classes(told))


def _made(folder: Path, name: str, seed: int) -> Path:
    path = folder / f"{name}-{seed}.gpumon.zst"
    if path.with_name(f"{path.name}.labels.json").exists():
        return path
    words = SETS[name].words
    if not words:
        record(Fleet(Plan(seed, JOBS)), path)
        return path
    asked = [GPUMON, "simulate", str(path), "--force", "--seed", str(seed), *words]
    subprocess.run(asked, check=True)
    return path


def _scored(files: list[Path]) -> dict[str, Any]:
    asked = [GPUMON, "evaluate", "--json", *map(str, files)]
    done = subprocess.run(asked, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _whole(told: dict[str, dict[str, Any]]) -> str:
    """A line of gpumon and of each baseline, for each set."""
    head = (
        *("recordings", "who", "macro F1 of all classes", "of its own", "false alarms per 1,000"),
        *("benign flagged", "GPU-hours error", "benign GPU-h charged", "delay p50 / p90"),
    )
    rows = [head, ("---",) * len(head)]
    for title, found in told.items():
        rows.append(_line(f"{title}, {found['gpu_days']:.0f} GPU-days", "**gpumon**", found))
        rows += [_line("", f"`{name}`", one) for name, one in found["baselines"].items()]
    return _table(rows)


def _line(title: str, who: str, one: dict[str, Any]) -> tuple[str, ...]:
    if one["macro_f1"] is None:
        return (title, who, "abstains", *[NONE] * 6)
    delay = one["delay_s"]
    return (
        title,
        who,
        _bounded(one["macro_f1"], one["macro_f1_interval"]),
        _number(one["macro_f1_of_its_classes"]),
        _number(one["false_alarms_per_1000_gpu_days"], 1),
        f"{one['benign_flagged']} of {one['benign']}",
        _bounded(one["gpu_hours_error_ratio"], one["gpu_hours_error_interval"], "+"),
        _number(one["benign_charged_gpu_hours"], 1),
        NONE if delay["p50"] is None else f"{delay['p50']:.0f} / {delay['p90']:.0f} s",
    )


def _classes(told: dict[str, dict[str, Any]]) -> str:
    """Precision, recall and hours of gpumon by class, a pair of columns for each set."""
    keys = dict.fromkeys(key for found in told.values() for key in found["classes"])
    head = ("class", *(f"{title}: n, P / R, hours" for title in told))
    rows = [head, ("---",) * len(head)]
    for key in keys:
        cells = [_class(found["classes"].get(key)) for found in told.values()]
        rows.append((f"`{key}`", *cells))
    return _table(rows)


def _class(one: dict[str, Any] | None) -> str:
    if one is None:
        return ""
    hours = _number(one["gpu_hours_error_ratio"], 2, "+")
    return f"{one['n']}, {_number(one['precision'])} / {_number(one['recall'])}, {hours}"


def _number(value: float | None, digits: int = 2, sign: str = "") -> str:
    return NONE if value is None else f"{value:{sign}.{digits}f}"


def _bounded(value: float | None, bounds: list[float | None] | None, sign: str = "") -> str:
    if value is None:
        return NONE
    low, high = bounds or (None, None)
    return f"{_number(value, 2, sign)} [{_number(low, 2, sign)}, {_number(high, 2, sign)}]"


def _table(rows: list[tuple[str, ...]]) -> str:
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


if __name__ == "__main__":
    main()
