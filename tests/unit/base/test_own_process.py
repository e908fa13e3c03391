"""Processes of gpumon's own start alike."""

from __future__ import annotations

import subprocess

from gpumon.base.own_process import own_environment, own_words


def test_modules_of_the_working_directory_are_not_taken_for_one_s_own(tmp_path, monkeypatch):
    (tmp_path / "colorsys.py").write_text("print('planted')")
    monkeypatch.chdir(tmp_path)
    code = "import colorsys; print(colorsys.__file__)"
    done = subprocess.run(own_words("-c", code), capture_output=True, text=True, check=True)
    assert str(tmp_path) not in done.stdout
    assert "planted" not in done.stdout


def test_numeric_libraries_have_one_thread_unless_the_user_says_more(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert own_environment()["OMP_NUM_THREADS"] == "1"
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    assert own_environment()["OMP_NUM_THREADS"] == "4"
