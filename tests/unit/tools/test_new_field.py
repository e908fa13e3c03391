"""What CONTRIBUTING says of a new field works: one command, and at most five files by hand."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tools import new_field

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

ROOT = new_field.ROOT
MOST_FILES = 5
"""Edited by hand for a field that the driver tells by one call, the changelog among them."""

COPIED = ("gpumon", "detectors", "tools", "docs", "tests/contract", "tests/lab", "tests/worlds")
FORMS = {f"gpumon/report/document/{name}.py" for name in ("forms", "measured")}
GENERATED = {"gpumon/report/document-2.schema.json", "docs/fields.md", "docs/json.md", *FORMS}


def command() -> list[str]:
    """The words of the example in CONTRIBUTING, behind the name of the module."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```console\n\$ (.*?tools\.new_field .*?)```", page, re.DOTALL)
    words = shlex.split(block.replace("\\\n", " "))
    return words[words.index("tools.new_field") + 1 :]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The four files alone, as they are here."""
    for one in new_field.changes(new_field.arguments(command())):
        target = tmp_path / one.path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / one.path, target)
    return tmp_path


def texts(folder: Path) -> Mapping[str, bytes]:
    files = (file for file in folder.rglob("*") if file.is_file())
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in files
        if not {"__pycache__", ".cache", ".pytest_cache"} & set(file.parts)
    }


def test_the_example_is_added_to_few_files_and_says_what_is_left(tree: Path) -> None:
    told = new_field.arguments(command())
    before, said = texts(tree), list[str]()
    new_field.add(told, tree, said.append)
    added = {path for path, text in texts(tree).items() if text != before[path]}
    assert len({*added, "CHANGELOG.md"}) <= MOST_FILES
    assert {f"written: {path}" for path in added} <= set(said)
    assert all(f'"{told.key}"' in (tree / path).read_text(encoding="utf-8") for path in added)
    assert [one for one in new_field.GENERATED if f"  {one}" not in said] == []


def test_a_key_that_is_there_is_refused(tree: Path) -> None:
    told = new_field.arguments(["power_w", *command()[1:]])
    before = texts(tree)
    with pytest.raises(new_field.PlaceError, match="has power_w already"):
        new_field.add(told, tree, print)
    assert texts(tree) == before


def test_where_one_place_is_gone_nothing_is_written(tree: Path) -> None:
    (tree / "gpumon/probe/tiers.py").write_text("READINGS = {}\n")
    before = texts(tree)
    with pytest.raises(new_field.PlaceError, match=r"tiers\.py: .* stands there 0 times"):
        new_field.add(new_field.arguments(command()), tree, print)
    assert texts(tree) == before


@pytest.fixture
def copy(tmp_path: Path) -> Iterator[Path]:
    """As much of the repository as the driver's contract needs."""
    for name in COPIED:
        shutil.copytree(
            ROOT / name,
            tmp_path / name,
            ignore=shutil.ignore_patterns("__pycache__", "images"),
        )
    for name in ("README.md", "pyproject.toml", "tests/conftest.py", "tests/inherited.py"):
        shutil.copyfile(ROOT / name, tmp_path / name)
    shutil.copyfile(ROOT / "tests/left_open.py", tmp_path / "tests/left_open.py")
    return tmp_path


@pytest.mark.slow
def test_the_field_is_read_on_every_board_once_it_is_added(copy: Path) -> None:
    before = texts(copy)

    def run(*words: str) -> None:
        paths = os.pathsep.join((str(copy), str(copy / "detectors")))
        done = subprocess.run(
            [sys.executable, "-m", *words],
            cwd=copy,
            env={**os.environ, "PYTHONPATH": paths},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    run("tools.new_field", *command())
    for line in new_field.GENERATED:
        run(*line.split()[2:])
    by_hand = {path for path, text in texts(copy).items() if text != before.get(path)} - GENERATED
    assert len({*by_hand, "CHANGELOG.md"}) <= MOST_FILES
    run(
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "tests/contract/test_catalogue_gpu.py",
        "-k",
        "every_field",
    )
