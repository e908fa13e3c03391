"""An event loop without TLS, where nothing is ever asked over a network.

Asyncio imports Python's `ssl` with itself, and it takes OpenSSL into memory: 1.5 MiB of a terminal
that only looks at its own machine. Asyncio runs without it, as in a Python that was built so.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any, cast

_ABSENT: Any = None
"""What `sys.modules` holds of a module whose import is to fail."""


def import_asyncio_without_tls() -> None:
    """Import asyncio now, and `ssl` not with it.

    Only asyncio lacks it: whoever imports `ssl` afterwards gets it, and `give_back_tls` gives it to
    asyncio too. Where either is imported already, nothing changes.
    """
    if "asyncio" in sys.modules or "ssl" in sys.modules:
        return
    sys.modules["ssl"] = _ABSENT
    try:
        import asyncio  # noqa: F401
    finally:
        del sys.modules["ssl"]


def give_back_tls() -> None:
    """Let asyncio speak TLS, if it was imported without."""
    lacking = [
        module
        for name, module in list(sys.modules.items())
        if name.startswith("asyncio.") and getattr(module, "ssl", module) is None
    ]
    if not lacking:
        return
    import ssl

    for module in lacking:
        cast("Any", module).ssl = ssl
    # It keeps classes of `ssl` under names of its own.
    importlib.reload(importlib.import_module("asyncio.sslproto"))
