"""What tests of a detector import: the conformance kit, and pasts in invented time."""

from gpumon.detect.checks import Check, check_detector
from gpumon.detect.scene import HELD, START_AT, UNUSED, WORKING, Scene, Values, held, working

__all__ = [
    "HELD",
    "START_AT",
    "UNUSED",
    "WORKING",
    "Check",
    "Scene",
    "Values",
    "check_detector",
    "held",
    "working",
]
