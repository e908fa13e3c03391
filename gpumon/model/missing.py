"""Why a value is missing. A missing value is never 0."""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """The reason beside every missing value, in frames, JSON and on screen."""

    NOT_SUPPORTED = "not_supported"
    """The hardware or its driver has no such counter (NVML NOT_SUPPORTED, FUNCTION_NOT_FOUND)."""
    NO_PERMISSION = "no_permission"
    """The kernel or the driver refuses this user (EACCES, NVML NO_PERMISSION)."""
    NOT_SAMPLED = "not_sampled"
    """No sample yet: a rate needs two counters, GPM two samples, a slow tier its turn."""
    STALE = "stale"
    """The node was heard before, but not within the last periods."""
    LOST = "lost"
    """NVML answers GPU_IS_LOST: the device fell off the bus."""
    GARBAGE = "garbage"
    """The answer lies outside the range the catalogue allows and was dropped."""
    FAILED = "failed"
    """Any other failure; the frame's errors name it."""
    NO_PROCESS = "no_process"
    """The process was gone before it could be read."""
    NOT_SHARED = "not_shared"
    """The source was not asked for it, or its owner does not share it."""
