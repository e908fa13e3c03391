from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpumon.sources.slurm.text import gres_conf
from gpumon.sources.slurm.text.gres_conf import find_and_read, parse

if TYPE_CHECKING:
    from pathlib import Path


def devices(*numbers: int) -> tuple[str, ...]:
    return tuple(f"/dev/nvidia{number}" for number in numbers)


@pytest.mark.parametrize(
    ("text", "files"),
    [
        ("NodeName=gpu[01-04] Name=gpu Type=h100 File=/dev/nvidia[0-3]", devices(0, 1, 2, 3)),
        ("Name=gpu File=/dev/nvidia1,/dev/nvidia0", devices(1, 0)),
        ("name=GPU file=/dev/nvidia[2,0]", devices(2, 0)),
        (
            "NodeName=gpu[01-04] Name=gpu File=/dev/nvidia[4-5] # x\nName=gpu File=/dev/nvidia0",
            devices(4, 5, 0),
        ),
        (
            "NodeName=gpu02 Name=gpu File=/dev/nvidia9\nName=gpu \\\n  File=/dev/nvidia3\n",
            devices(3),
        ),
        ("NodeName=gpu02 Name=gpu File=/dev/nvidia0", ()),
        ("# Name=gpu File=/dev/nvidia0", ()),
        ("Name=gpu Count=4", ()),
        ("Name=gpu File=/dev/nvidia0\nName=gpu Type=x", ()),
        ("AutoDetect=nvml", ()),
        ("AutoDetect=nvml\nName=gpu Type=h100", ()),
        ("AutoDetect=nvml\nName=gpu Type=h100 File=/dev/nvidia[0-1]", devices(0, 1)),
        ("Name=gpu MultipleFiles=/dev/nvidia0,/dev/nvidia-caps/nvidia-cap21", ()),
        ("Name=gpu File=/dev/nvidia0\nName=shard Count=8 File=/dev/nvidia0", devices(0)),
        ("Name=gpu File=/dev/nvidia0\nName=gpu File=/dev/nvidia0", ()),
        ("Name=gpu File=/dev/nvidia[0-", ()),
        ("", ()),
    ],
)
def test_finds_the_devices_of_a_node_in_order(text: str, files: tuple[str, ...]) -> None:
    assert parse(text).gpu_files("gpu01") == files


def test_notes_what_it_does_not_read() -> None:
    conf = parse("Include /etc/slurm/more.conf\nName=gpu File=/dev/nvidia[x]\n")
    assert conf.notes[0] == "gres.conf includes /etc/slurm/more.conf, which is not read"
    assert conf.notes[1].startswith("line 2 of gres.conf cannot be read")


def test_reads_the_file_beside_slurm_conf(tmp_path: Path) -> None:
    (tmp_path / "gres.conf").write_text("Name=gpu File=/dev/nvidia5\n")
    conf = find_and_read({"SLURM_CONF": str(tmp_path / "slurm.conf")})
    assert conf.gpu_files("any") == devices(5)


def test_no_file_means_not_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "gpumon.sources.slurm.text.gres_conf.DIRECTORIES", (str(tmp_path / "none"),)
    )
    conf = find_and_read({"SLURM_CONF": str(tmp_path / "slurm.conf")})
    assert (conf.gpu_files("gpu01"), conf.notes) == ((), ())


def test_a_file_that_is_too_long_is_read_up_to_there_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = "Name=gpu NodeName=a File=/dev/nvidia7\n"
    monkeypatch.setattr(gres_conf, "MAX_BYTES", len(first))
    (tmp_path / "gres.conf").write_text(first + "Name=gpu NodeName=b File=/dev/nvidia5\n")
    conf = find_and_read({"SLURM_CONF": str(tmp_path / "slurm.conf")})
    assert conf.gpu_files("a") == devices(7)
    assert conf.gpu_files("b") != devices(5)
    assert [note for note in conf.notes if "the rest is not read" in note] == list(conf.notes)
    assert len(conf.notes) == 1
    (tmp_path / "gres.conf").write_text(first)
    assert find_and_read({"SLURM_CONF": str(tmp_path / "slurm.conf")}).notes == ()


def test_a_file_of_more_nodes_than_any_cluster_has_is_read_up_to_there_and_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gres_conf, "MAX_NAMES", 11)
    conf = parse("Name=gpu NodeName=n[0-9] File=/dev/nvidia0\nName=gpu NodeName=m File=/dev/x\n")
    assert conf.gpu_files("n3") == devices(0)
    assert conf.notes == (
        "gres.conf names more than 11 nodes and files: from line 2 on it is not read",
    )


def test_of_many_lines_that_are_not_read_the_first_are_named() -> None:
    count = gres_conf.MOST_NOTES + 7
    conf = parse("Include /etc/x\n" * count)
    assert len(conf.notes) == gres_conf.MOST_NOTES + 1
    assert conf.notes[-1] == "7 more lines of gres.conf are not read"
    assert len(parse("Include /etc/x\n" * gres_conf.MOST_NOTES).notes) == gres_conf.MOST_NOTES


def test_what_it_notes_is_harmless() -> None:
    assert parse("Include /etc/\x1b]0;x\x07\u202e.conf\n").notes == (
        "gres.conf includes /etc/\ufffd]0;x\ufffd\ufffd.conf, which is not read",
    )


def test_a_word_of_any_length_takes_no_more_time_than_its_length() -> None:
    text = "Name=gpu " + "w" * 400_000 + " File=/dev/nvidia4"
    assert parse(text).gpu_files("gpu01") == devices(4)


def test_the_name_of_a_device_file_is_harmless() -> None:
    (first, second) = parse("Name=gpu File=/dev/a\x9b,/" + "d" * 9000).gpu_files("gpu01")
    assert (first, len(second)) == ("/dev/a\ufffd", 4096)
