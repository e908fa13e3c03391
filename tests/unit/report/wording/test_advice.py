"""Advice of a finding on its page and beside other things: whose it is, and who comes first."""

from __future__ import annotations

from gpumon.report.facts.tick_index import Digest
from gpumon.report.pages.finding import finding_entries
from gpumon.report.wording.paragraphs import finding_lines
from tests.worlds.tick import AT, finding, tick

OWN = ("Start elsewhere: sbatch --exclude=n7", "Report this to the administrators of n7.")
MACHINE = ("Check the fans of n7.", "To keep new jobs away: scontrol update n7")


def words(lines):
    return ["".join(cell.text for cell in line).strip() for line in lines]


def page(queue_at=AT, **advice):
    found = finding("job:31", **advice)
    entries = finding_entries(Digest(tick(findings=(found,), queue_at=queue_at)), found, 120)
    return words([line for entry in entries for line in entry])


def beside(is_full, **advice):
    found = finding("job:31", **advice)
    lines = words(finding_lines(tick(findings=(found,)), found, 120, is_full=is_full))
    return [line for line in lines if line.startswith("→")]


def test_the_page_begins_with_the_first_step_of_each_and_tells_the_rest_apart():
    lines = page(advice=OWN, machine_advice=MACHINE)
    first = lines.index(f"→ {OWN[0]}")
    machine_first = lines.index(f"→ Administrators: {MACHINE[0]}")
    assert machine_first == first + 1
    assert lines[lines.index("What else to do") + 1] == f"→ {OWN[1]}"
    assert lines[lines.index("What else administrators can do") + 1] == f"→ {MACHINE[1]}"


def test_who_has_no_step_has_no_heading():
    lines = page(advice=(), machine_advice=MACHINE[:1])
    assert f"→ Administrators: {MACHINE[0]}" in lines
    assert not any(line.startswith("What else") for line in lines)


def test_beside_other_things_one_step_is_told_and_the_owners_comes_first():
    assert beside(is_full=False, advice=OWN, machine_advice=MACHINE) == [f"→ {OWN[0]}"]
    lines = beside(is_full=False, advice=(), machine_advice=MACHINE)
    assert lines == [f"→ Administrators: {MACHINE[0]}"]
    assert len(beside(is_full=True, advice=OWN, machine_advice=MACHINE)) == 4


def test_where_no_queue_answers_all_steps_are_of_who_reads_them():
    lines = page(None, advice=OWN, machine_advice=MACHINE)
    steps = [line for line in lines if line.startswith("→")]
    assert steps == [f"→ {step}" for step in (OWN[0], MACHINE[0], OWN[1], MACHINE[1])]
    assert [line for line in lines if line.startswith("What else")] == ["What else to do"]
    found = finding("gpu:GPU-0", advice=(), machine_advice=MACHINE)
    alone = tick(findings=(found,), queue_at=None)
    assert f"→ {MACHINE[0]}" in words(finding_lines(alone, found, 120))
    both = finding("gpu:GPU-0", advice=OWN, machine_advice=MACHINE)
    lines = words(finding_lines(alone, both, 120, is_full=False))
    assert [line for line in lines if line.startswith("→")] == [f"→ {OWN[0]}", f"→ {MACHINE[0]}"]
