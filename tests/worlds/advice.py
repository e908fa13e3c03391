"""What a finding has people do about a node."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpumon.model.finding import Finding


def sends_away(finding: Finding) -> bool:
    """Whether it keeps people and jobs away from a node: the owner leaves it, the other drains it.

    One never comes without the other, and neither is shown the other's part.
    """
    owner, machine = "\n".join(finding.advice), "\n".join(finding.machine_advice)
    assert "drain" not in owner.lower()
    assert "--exclude" not in machine
    assert ("--exclude=" in owner) == ("State=DRAIN" in machine)
    return "--exclude=" in owner
