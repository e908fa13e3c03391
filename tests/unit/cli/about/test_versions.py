"""`--version` says what is here, and `none` for what is not."""

from __future__ import annotations

import platform
import stat
from typing import TYPE_CHECKING

import pytest

from gpumon import __version__
from gpumon.cli import main
from gpumon.cli.about import versions

if TYPE_CHECKING:
    from pathlib import Path


def test_what_is_found_has_its_version(tmp_path: Path) -> None:
    module = tmp_path / "version"
    module.write_text("580.65.06\n")
    lines = versions.versions(module, lambda: "24.11.5").splitlines()
    assert lines[:2] == [f"gpumon {__version__}", f"Python {platform.python_version()}"]
    assert lines[2].startswith("NVIDIA driver 580.65.06, nvidia-ml-py 1")
    assert lines[3] == "Slurm 24.11.5"


def test_what_is_not_there_is_none(tmp_path: Path) -> None:
    lines = versions.versions(tmp_path / "none", lambda: "").splitlines()
    assert lines[2].startswith("NVIDIA driver none, ")
    assert lines[3] == "Slurm none"


def test_a_hostile_version_reaches_no_terminal(tmp_path: Path) -> None:
    module = tmp_path / "version"
    module.write_bytes(b"\x1b[31m580\xff" * 100)
    said = versions.versions(module, lambda: "")
    assert "\x1b" not in said
    assert len(said) < 250


@pytest.mark.parametrize(
    ("script", "version"),
    [("echo slurm 25.05.1", "25.05.1"), ("exit 1", versions.UNKNOWN), (None, "")],
)
def test_slurm_is_asked_by_its_own_command(
    script: str | None, version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    if script is not None:
        program = tmp_path / "scontrol"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
    assert versions.slurm_version() == version


def test_the_first_line_is_gpumon_s_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == f"gpumon {__version__}"
