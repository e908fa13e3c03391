"""`gpumon.plugin`: whole, documented, and all that a detector imports."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import gpumon.plugin
import gpumon.plugin.testing

ROOT = Path(__file__).parents[3]
DETECTORS = sorted([*(ROOT / "detectors").rglob("*.py"), *(ROOT / "plugins").rglob("*.py")])
OFFERED = {
    "gpumon.plugin": set(gpumon.plugin.__all__),
    "gpumon.plugin.testing": set(gpumon.plugin.testing.__all__),
}


def imported(path: Path) -> set[tuple[str, str]]:
    """Modules of gpumon and names that a file imports, those for type checkers too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "gpumon":
            found |= {(node.module or "", name.name) for name in node.names}
        if isinstance(node, ast.Import):
            found |= {(one.name, "") for one in node.names if one.name.split(".")[0] == "gpumon"}
    return found


def test_there_are_detectors_to_look_at() -> None:
    assert len(DETECTORS) > 50


@pytest.mark.parametrize("path", DETECTORS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_detector_imports_nothing_else_of_gpumon(path: Path) -> None:
    assert {(m, n) for m, n in imported(path) if n not in OFFERED.get(m, set())} == set()


def test_only_tests_import_the_kit() -> None:
    users = [p for p in DETECTORS if any(m == "gpumon.plugin.testing" for m, _ in imported(p))]
    assert users or not (ROOT / "plugins").is_dir()
    assert all(path.name.startswith("test_") for path in users)


@pytest.mark.parametrize("module", [gpumon.plugin, gpumon.plugin.testing])
def test_what_is_offered_is_there_and_in_the_documentation(module) -> None:
    page = (ROOT / "docs" / "plugins.md").read_text()
    assert len(set(module.__all__)) == len(module.__all__)
    assert [name for name in module.__all__ if not hasattr(module, name)] == []
    # A name that the page merely spells in a longer word does not count.
    words = set(
        page.replace("(", " ").replace("`", " ").replace(",", " ").replace(".", " ").split()
    )
    assert [name for name in module.__all__ if name not in words] == []


def test_the_documentation_names_no_other_module_to_import() -> None:
    page = (ROOT / "docs" / "plugins.md").read_text()
    assert "gpumon.detect" not in page.replace("gpumon.detectors", "")
    assert "gpumon.model" not in page


def test_it_brings_neither_the_kit_nor_what_the_worker_does_not_need() -> None:
    code = "import sys, gpumon.plugin; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    brought = set(done.stdout.split())
    assert "gpumon.detect.contract" in brought
    assert not brought & {"textual", "rich", "sklearn", "scipy", "httpx", "psutil"}
    assert not brought & {"gpumon.detect.scene", "gpumon.detect.checks", "gpumon.plugin.testing"}
