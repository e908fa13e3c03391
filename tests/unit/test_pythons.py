"""What is said of Python's versions: one story in every file that tells it, and a lock for each."""

from __future__ import annotations

import re
import tomllib
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

ROOT = Path(__file__).parent.parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
CLASSIFIER = "Programming Language :: Python :: 3."
MINORS = sorted(
    int(line.removeprefix(CLASSIFIER))
    for line in PYPROJECT["project"]["classifiers"]
    if line.startswith(CLASSIFIER)
)
"""Minor versions of the Pythons that gpumon was run on."""


class Pin(NamedTuple):
    """A line of the lock, and how many files may be installed for it."""

    requirement: Requirement
    hashes: int


@lru_cache(maxsize=1)
def pins() -> tuple[Pin, ...]:
    entries = (ROOT / "requirements.lock").read_text().replace(" \\\n", " ").splitlines()
    return tuple(
        Pin(Requirement(e.split(" --hash=")[0]), e.count("--hash=sha256:")) for e in entries
    )


def locked(minor: int) -> dict[str, Version]:
    """What the lock installs on Linux for Python 3.`minor`."""
    machine = {
        "python_version": f"3.{minor}",
        "python_full_version": f"3.{minor}.0",
        "sys_platform": "linux",
        "platform_system": "Linux",
        "platform_machine": "x86_64",
        "platform_python_implementation": "CPython",
        "implementation_name": "cpython",
    }
    wanted = [p.requirement for p in pins()]
    chosen = [r for r in wanted if r.marker is None or r.marker.evaluate(machine)]
    assert len({r.name for r in chosen}) == len(chosen), "one name, two versions"
    return {r.name: Version(str(r.specifier).removeprefix("==")) for r in chosen}


def test_the_pythons_are_one_after_the_other_from_the_oldest_that_is_let_in() -> None:
    assert list(range(MINORS[0], MINORS[-1] + 1)) == MINORS
    assert SpecifierSet(PYPROJECT["project"]["requires-python"]) == SpecifierSet(f">=3.{MINORS[0]}")


def test_every_tool_works_for_the_oldest_python() -> None:
    oldest = MINORS[0]
    assert PYPROJECT["tool"]["ruff"]["target-version"] == f"py3{oldest}"
    assert f"--python-version 3.{oldest} " in (ROOT / "Makefile").read_text()
    assert f"sys.version_info < (3, {oldest})" in (ROOT / "tools/bootstrap").read_text()
    assert f"Python 3.{oldest}" in (ROOT / "README.md").read_text()


@pytest.mark.parametrize("minor", MINORS)
def test_each_python_is_found_by_the_bootstrap_and_named_by_the_first_page(minor: int) -> None:
    candidates = re.search(r"for candidate in (.*); do", (ROOT / "tools/bootstrap").read_text())
    assert candidates
    assert f"python3.{minor}" in candidates[1].split()
    install = (ROOT / "docs/index.md").read_text().split("## Install")[1].split("##")[0]
    assert f"3.{minor}" in install


@pytest.mark.parametrize("minor", MINORS)
def test_the_lock_has_every_dependency_within_its_bounds_for_each_python(minor: int) -> None:
    versions = locked(minor)
    for line in PYPROJECT["project"]["dependencies"]:
        wanted = Requirement(line)
        assert versions[wanted.name] in wanted.specifier


def test_the_lock_vouches_for_every_file_and_names_no_index() -> None:
    assert [pin.requirement.name for pin in pins() if not pin.hashes] == []
    assert "://" not in (ROOT / "requirements.lock").read_text()
    assert "--index-url" not in (ROOT / "requirements.lock").read_text()


def test_uv_itself_is_installed_by_its_hashes() -> None:
    """What installs everything else is checked as what it installs is."""
    installs = [
        line
        for line in (ROOT / "tools/bootstrap").read_text().splitlines()
        if "pip install" in line
    ]
    of_pip = [line for line in installs if "-m pip" in line]
    assert of_pip
    assert all("--require-hashes -r tools/uv.txt" in line for line in of_pip)
    locked = (ROOT / "tools/uv.txt").read_text()
    assert re.search(r"^uv==[0-9.]+ \\$", locked, re.MULTILINE)
    assert len(re.findall(r"--hash=sha256:[0-9a-f]{64}", locked)) > 10
    assert "index" not in locked
