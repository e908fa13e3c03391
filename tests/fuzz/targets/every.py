"""Every parser and reader that is tried."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.fuzz.targets import (
    kernel,
    own,
    probe_output,
    scraped,
    slurm_json,
    slurm_text,
    typed_text,
)

if TYPE_CHECKING:
    from tests.fuzz.target import Target

TARGETS: Final[dict[str, Target]] = {
    target.name: target
    for module in (slurm_text, slurm_json, probe_output, own, typed_text, kernel, scraped)
    for target in module.TARGETS
}
