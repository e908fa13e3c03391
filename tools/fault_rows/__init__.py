"""What may go wrong around gpumon, and the tests that make it go wrong.

A fault is green where its tests pass and were told the words: tests hand what a user is told to
the fixture `said`, and `words_shown` is searched in it.
"""

from __future__ import annotations

from typing import Final

from tools.fault_rows.driver import DRIVER
from tools.fault_rows.exporters import EXPORTERS
from tools.fault_rows.fault import Fault
from tools.fault_rows.files import FILES, RECORDINGS
from tools.fault_rows.machine import MACHINE, PLUGINS
from tools.fault_rows.nodes import NODES
from tools.fault_rows.prometheus import PROMETHEUS
from tools.fault_rows.served import SERVED
from tools.fault_rows.slurm import SLURM, SLURMRESTD

__all__ = ["FAULTS", "Fault"]

FAULTS: Final[dict[str, tuple[Fault, ...]]] = {
    "Nodes": NODES,
    "The driver": DRIVER,
    "Slurm": SLURM,
    "slurmrestd": SLURMRESTD,
    "Exporters": EXPORTERS,
    "Prometheus": PROMETHEUS,
    "gpumon serve, and who attaches": SERVED,
    "Files and disks": FILES,
    "Recordings and hostile files": RECORDINGS,
    "This machine": MACHINE,
    "Plugins": PLUGINS,
}
"""By the heading that they stand below."""
