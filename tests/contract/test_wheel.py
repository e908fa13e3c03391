"""What `make wheel` builds works where nothing of this folder is: the way of `pipx install`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
UV = ROOT / ".uv" / "bin" / "uv"
ORDINARY = 65534
"""`nobody`, where the tests run as root."""


class Installed(NamedTuple):
    """An environment that holds the wheel, and a home that cannot be written."""

    prefix: Path
    home: Path

    def run(self, *words: str | Path, codes: tuple[int, ...] = (0,)) -> str:
        """What a program of the environment writes, started by an ordinary user."""
        other = {"user": ORDINARY, "group": ORDINARY, "extra_groups": []}
        done = subprocess.run(
            [str(self.prefix / "bin" / words[0]), *map(str, words[1:])],
            cwd="/",
            env={"PATH": "/usr/bin:/bin", "HOME": str(self.home), "LANG": "C.UTF-8"},
            capture_output=True, text=True, timeout=300, check=False,
            **(other if os.getuid() == 0 else {}),
        )  # fmt: skip
        assert done.returncode in codes, done.stdout + done.stderr
        return done.stdout


def run(*words: str | Path) -> None:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def built(kind: str, project: Path, folder: Path) -> Path:
    """A distribution of a project's folder."""
    words = ["build", "--quiet", "--offline", f"--{kind}", "--no-build-isolation"]
    run(UV, *words, "--python", sys.executable, "--out-dir", folder, project)
    (found,) = folder.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return found


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the source distribution of this folder."""
    if not UV.exists():
        pytest.skip("uv is there once `make .venv/.ready` has run")
    folder = tmp_path_factory.mktemp("built")
    run("tar", "-xzf", built("sdist", ROOT, folder), "-C", folder)
    (project,) = (one for one in folder.iterdir() if one.is_dir())
    return built("wheel", project, folder / "wheels")


@pytest.fixture(scope="module")
def installed(wheel: Path) -> Iterator[Installed]:
    """An empty environment with the wheel; what gpumon depends on is seen where it lies."""
    # Not below pytest's own folders, which are closed to others.
    with tempfile.TemporaryDirectory(prefix="gpumon-wheel-") as folder:
        Path(folder).chmod(0o755)
        prefix, home = Path(folder, "env"), Path(folder, "home")
        home.mkdir(mode=0o555)
        run(UV, "venv", "--quiet", "--offline", "--python", sys.executable, prefix)
        install = ["pip", "install", "--quiet", "--offline", "--no-deps"]
        run(UV, *install, "--python", prefix / "bin" / "python", wheel)
        (site,) = prefix.glob("lib/python3.*/site-packages")
        # As a path in a .pth file: the .pth files of that folder, an editable gpumon, do not count.
        (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
        yield Installed(prefix, home)


def test_it_is_the_wheel_that_runs(installed: Installed) -> None:
    where = installed.run(
        "python", "-c", "import gpumon, gpumon_detectors as d; print(gpumon.__file__, d.__file__)"
    )
    assert [Path(one).is_relative_to(installed.prefix) for one in where.split()] == [True, True]


def test_the_demo_and_one_look_at_this_machine(installed: Installed) -> None:
    assert "demo: answers" in installed.run("gpumon", "demo", "--past", "0")
    # 1: there is no driver here, which the document says.
    said = installed.run("gpumon", "--json", "--for", "0", "local", codes=(0, 1))
    (target,) = json.loads(said)["targets"]
    assert target["url"] == "local"
    assert target["ok"] or target["error"]["hint"]
    assert installed.run("gpumon", "--version").startswith("gpumon ")


def test_completion_and_the_manual_page(installed: Installed) -> None:
    assert "complete -F _gpumon gpumon" in installed.run("gpumon", "completion", "bash")
    page = installed.prefix / "share" / "man" / "man1" / "gpumon.1"
    assert page.read_bytes() == (ROOT / "docs" / "gpumon.1").read_bytes()


def test_nothing_was_written_to_the_home(installed: Installed) -> None:
    installed.run("gpumon", "--once", "--for", "0", "demo")
    assert list(installed.home.iterdir()) == []


def test_the_licences_are_in_it(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    licences = {Path(name).name for name in names if ".dist-info/licenses/" in name}
    assert licences == {"LICENSE", "THIRD-PARTY.md"}
    assert {Path(name).parts[0].partition("-")[0] for name in names} == {
        "gpumon",
        "gpumon_detectors",
    }


def test_a_detector_of_the_page_for_authors_is_checked_in_it(
    installed: Installed, tmp_path: Path
) -> None:
    page = (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8")
    section = page.partition("## In ten minutes\n")[2].partition("\n## ")[0]
    project, detector = (
        section.partition(f"```{language}\n")[2].partition("```")[0]
        for language in ("toml", "python")
    )
    (tmp_path / "pyproject.toml").write_text(project)
    (tmp_path / "low_clock.py").write_text(detector)
    plugin = built("wheel", tmp_path, tmp_path / "wheels")
    install = ["pip", "install", "--quiet", "--offline", "--no-deps"]
    run(UV, *install, "--python", installed.prefix / "bin" / "python", plugin)
    assert "low_clock" in installed.run("gpumon", "detectors", "list")
    checked = installed.run("gpumon", "detectors", "check", "low_clock:LowClock").splitlines()
    assert len(checked) > 10
    assert [line for line in checked if not line.startswith("ok ")] == []
