"""Other tools to measure beside gpumon, in a throwaway environment of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
VENV = ROOT / ".cache" / "bench-venv"
UV = ROOT / ".uv" / "bin" / "uv"
PINS = ("nvitop==1.7.2", "gpustat==1.1.1", "turm==0.17.0")


def install() -> str:
    """Empty when the peers are there, else one line of why they are not."""
    stamp = VENV / ".pins"
    if stamp.exists() and stamp.read_text() == "\n".join(PINS):
        return ""
    python = str(Path(sys.executable).resolve())
    steps = (
        [str(UV), "venv", "--quiet", "--clear", "--python", python, str(VENV)],
        [
            *(str(UV), "pip", "install", "--quiet", "--compile-bytecode"),
            *("--python", str(VENV / "bin" / "python"), *PINS),
        ],
    )
    for step in steps:
        try:
            done = subprocess.run(step, capture_output=True, text=True, timeout=120, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"peers not installed: {error}"
        if done.returncode != 0:
            last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            return f"peers not installed: {last}"
    stamp.write_text("\n".join(PINS))
    return ""


def program(name: str) -> str:
    """Path of a peer's command."""
    return str(VENV / "bin" / name)
