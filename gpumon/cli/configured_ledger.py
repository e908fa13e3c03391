"""The books of GPU time as the configuration wants them: prices, and the folder on disk."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import TYPE_CHECKING

from gpumon.base.paths import state_folder
from gpumon.model.records.ledger import Prices

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpumon.fleet.ledger.stored import StoredLedger
    from gpumon.fleet.sampler.protocols import GpuTimeLedger
    from gpumon.model.settings import Settings


def prices_of(settings: Settings) -> Prices:
    """What GPU time and energy cost."""
    return Prices(
        settings.numbers("prices.gpu_hour"),
        settings.number("prices.kwh"),
        settings.text("prices.currency"),
    )


def folder_of(settings: Settings, environ: Mapping[str, str] | None = None) -> Path:
    """Where the books are: the configured folder, else `ledger` in the user's state.

    Raises:
        OSError: The folder lies in the home of somebody whom nobody knows.
    """
    named = settings.text("ledger.directory")
    if named:
        try:
            return Path(named).expanduser()
        except RuntimeError:
            raise FileNotFoundError(
                errno.ENOENT, "no user of that name has a home directory", named
            ) from None
    return Path(state_folder(environ), "ledger")


def ledger_of(settings: Settings, *, is_real: bool) -> Callable[[], GpuTimeLedger]:
    """Makes the ledger; what is invented or recorded is never written to the folder."""

    def ledger() -> GpuTimeLedger:
        from gpumon.fleet.ledger.ledger import Ledger

        if not is_real or not settings.flag("ledger.is_kept"):
            return Ledger(prices_of(settings))
        from gpumon.fleet.ledger.journal import JournalFile

        return Ledger(prices_of(settings), JournalFile(folder_of(settings)))

    return ledger


def stored_ledger(settings: Settings, *, is_real: bool) -> StoredLedger | None:
    """The books on disk, to be looked at; None: none are kept, or what is shown is invented."""
    if not is_real or not settings.flag("ledger.is_kept"):
        return None
    from gpumon.fleet.ledger.stored import StoredLedger

    try:
        return StoredLedger(folder_of(settings), prices_of(settings))
    except OSError:
        # Whoever writes them says so.
        return None
