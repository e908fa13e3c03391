"""Judges gpumon by a population: `python -m tests.population --seed N [--period 60] [--holes]`."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from tests.population.day import lived
from tests.population.fleet import Fleet, Plan
from tests.population.labels import record
from tests.population.verdicts import details, judged, score, table


def main() -> None:
    """Draw, live through the day, print."""
    parser = argparse.ArgumentParser(prog="python -m tests.population", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--hours", type=float, default=8.0)
    parser.add_argument("--period", type=int, default=30, help="seconds between two reports")
    parser.add_argument("--look", type=float, default=240.0, help="seconds between two looks")
    parser.add_argument("--holes", action="store_true", help="nodes fall silent for a while")
    parser.add_argument("--restart", action="store_true", help="gpumon is restarted in the middle")
    parser.add_argument("--missing", type=float, default=1e-4, help="share of missing readings")
    parser.add_argument("--kind", action="append", default=[], help="only this kind; may repeat")
    parser.add_argument("--details", action="store_true", help="each job that is judged wrongly")
    parser.add_argument("--record", type=Path, help="write a recording with labels, judge nothing")
    asked = parser.parse_args()
    plan = Plan(
        asked.seed, asked.jobs, asked.hours, asked.period, asked.holes, asked.restart,
        asked.look, asked.missing, tuple(asked.kind),
    )  # fmt: skip
    begun = time.perf_counter()
    fleet = Fleet(plan)
    drawn_s = time.perf_counter() - begun
    if asked.record is not None:
        print(f"{record(fleet, asked.record)} labels beside {asked.record}")
        return
    outcome = lived(fleet)
    verdicts = judged(outcome)
    print(table(verdicts))
    found = score(verdicts)
    print(
        f"\nbenign accused {found.benign_accused} of {found.benign}; of {found.true_h:.1f} h known "
        f"waste {found.found_h:.1f} h found and charged within 10 %, {found.charged_h:.1f} h "
        f"charged; {found.missed} wasteful jobs not found; {found.wrong_h:.2f} h of "
        f"{found.wrong_jobs} wasteful jobs charged to wrong classes, "
        f"{found.overcharged} charged more than they had to lose"
    )
    gpus = sum(len(machine.uuids) for machine in fleet.machines)
    print(
        f"{len(fleet.cases)} jobs on {gpus} GPUs of {len(fleet.machines)} nodes: drawn in "
        f"{drawn_s:.0f} s, judged in {outcome.took_s:.0f} s"
    )
    for error in sorted(outcome.errors):
        print(f"error: {error}")
    if asked.details:
        print(details(verdicts, outcome))


if __name__ == "__main__":
    main()
