"""Settings of files and of the environment, each with its origin, each mistake with its line."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING

import pytest

from gpumon.cli import configuration, main
from gpumon.cli.commands.config import template
from gpumon.cli.configuration import ConfigurationError, _lines_of_keys, load, places
from gpumon.cli.options import parser, request_of
from gpumon.cli.request import chosen_targets, past_of, settings_with
from gpumon.detect.worker.tuning import Tuning
from gpumon.fleet.history.retention import DEFAULT_MAX_BYTES
from gpumon.model.settings import BY_KEY, SETTINGS
from gpumon.sources.address import Target

if TYPE_CHECKING:
    from pathlib import Path

    from gpumon.cli.request import Request


def _write(folder: Path, text: str) -> Path:
    path = folder / "gpumon" / "config.toml"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return path


def _problems(text: str, folder: Path) -> tuple[str, ...]:
    path = folder / "c.toml"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as raised:
        load({"GPUMON_CONFIG": str(path)})
    return tuple(problem.removeprefix(str(path)) for problem in raised.value.problems)


def test_without_a_file_every_setting_is_its_default(tmp_path: Path) -> None:
    settings = load({"HOME": str(tmp_path), "XDG_CONFIG_DIRS": str(tmp_path / "none")})
    assert {key: chosen.origin for key, chosen in settings.chosen.items()} == {
        setting.key: "default" for setting in SETTINGS
    }
    assert settings.number("period_s") == 1.0


def test_the_users_file_goes_over_the_sites_and_the_environment_over_both(tmp_path: Path) -> None:
    site = _write(tmp_path / "xdg", 'period_s = 5\nall_jobs = true\n[prices]\ncurrency = "EUR"\n')
    user = _write(tmp_path / "home", "period_s = 2\n\n[history]\nmax_mib = 64\n")
    settings = load(
        {
            "XDG_CONFIG_DIRS": f"{tmp_path}/xdg",
            "XDG_CONFIG_HOME": f"{tmp_path}/home",
            "GPUMON_HISTORY_MAX_MIB": "128",
        }
    )
    origins = {key: chosen.origin for key, chosen in settings.chosen.items()}
    assert (settings.number("period_s"), origins["period_s"]) == (2.0, f"{user}:1")
    assert (settings.flag("all_jobs"), origins["all_jobs"]) == (True, f"{site}:2")
    assert (settings.text("prices.currency"), origins["prices.currency"]) == ("EUR", f"{site}:4")
    assert settings.number("history.max_mib") == 128.0
    assert origins["history.max_mib"] == "GPUMON_HISTORY_MAX_MIB"


def test_the_first_of_the_sites_folders_counts_most(tmp_path: Path) -> None:
    environ = {"XDG_CONFIG_DIRS": "/one:/two:relative", "XDG_CONFIG_HOME": str(tmp_path)}
    assert [str(place.path) for place in places(environ)] == [
        "/two/gpumon/config.toml",
        "/one/gpumon/config.toml",
        f"{tmp_path}/gpumon/config.toml",
    ]


def test_tables_of_prices_and_parameters_are_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text(
        '[prices.gpu_hour]\n"NVIDIA H100 80GB HBM3" = 3\ndefault = 1.5\n'
        "[detectors.parameters.partial_gpus_idle]\nidle_mem_ratio = 0.02\n"
    )
    settings = load({"GPUMON_CONFIG": str(path)})
    assert settings.numbers("prices.gpu_hour") == {"NVIDIA H100 80GB HBM3": 3.0, "default": 1.5}
    assert settings.parameters("detectors.parameters") == {
        "partial_gpus_idle": {"idle_mem_ratio": 0.02}
    }
    assert settings.chosen["prices.gpu_hour"].origin == f"{path}:1"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("\nperod_s = 3\n", ":2: perod_s is not a setting; did you mean period_s?"),
        ('period_s = "x"\n', ":1: period_s takes a number, not 'x'"),
        ("period_s = 0\n", ":1: period_s takes 0.1 to 86400, not 0"),
        ("period_s = nan\n", ":1: period_s takes a number, not nan"),
        (f"period_s = 3{'0' * 400}\n", f":1: period_s takes a number, not 3{'0' * 79}"),
        ("period_s = -inf\n", ":1: period_s takes a number, not -inf"),
        ("all_jobs = 1\n", ":1: all_jobs takes true or false, not 1"),
        ("targets = [1]\n", ":1: targets takes a list of texts, not [1]"),
        ("# x\nhistory = 3\n", ":2: history is a table: [history]"),
        ("[history]\n# a\n\nmax_mib = 1\n", ":4: history.max_mib takes 16 to 65536, not 1"),
        ("[prices.gpu_hour]\nH100 = -1\n", ":1: prices.gpu_hour takes at least 0, not -1"),
        (
            "[detectors.parameters.x]\nlimit = [1]\n",
            ":1: detectors.parameters x.limit takes a number, a text, true or false",
        ),
        ("a = \n", ": line 1: Invalid value"),
    ],
)
def test_a_mistake_is_named_with_its_line(text: str, problem: str, tmp_path: Path) -> None:
    assert _problems(text, tmp_path) == (problem,)


def test_every_mistake_is_named_at_once(tmp_path: Path) -> None:
    assert len(_problems("period_s = 0\nx = 1\n[prices]\nkwh = true\n", tmp_path)) == 3


def test_no_control_character_of_a_file_reaches_the_terminal(tmp_path: Path) -> None:
    (problem,) = _problems('"a\\u001b[31m" = 1\n', tmp_path)
    assert "\x1b" not in problem


def test_a_file_that_was_asked_for_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"absent\.toml: No such file"):
        load({"GPUMON_CONFIG": str(tmp_path / "absent.toml")})


def test_a_wrong_variable_is_named() -> None:
    with pytest.raises(ConfigurationError, match="GPUMON_PERIOD_S takes a number, not 'soon'"):
        load({"HOME": "/none", "XDG_CONFIG_DIRS": "/none", "GPUMON_PERIOD_S": "soon"})


def test_lists_and_tables_of_prices_can_stand_in_variables() -> None:
    settings = load(
        {
            "HOME": "/none",
            "XDG_CONFIG_DIRS": "/none",
            "GPUMON_TARGETS": "slurm, local",
            "GPUMON_PRICES_GPU_HOUR": "H100=2.5,default=1",
            "GPUMON_ALL_JOBS": "yes",
        }
    )
    assert settings.texts("targets") == ("slurm", "local")
    assert settings.numbers("prices.gpu_hour") == {"H100": 2.5, "default": 1.0}
    assert settings.flag("all_jobs")


def test_the_template_is_valid_and_sets_nothing(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text(template())
    assert {c.origin for c in load({"GPUMON_CONFIG": str(path)}).chosen.values()} == {"default"}


def test_every_line_of_the_template_is_valid_once_it_is_in_force(tmp_path: Path) -> None:
    lines = [line[2:] if " = " in line else line for line in template().splitlines()]
    path = tmp_path / "c.toml"
    path.write_text("\n".join(lines))
    settings = load({"GPUMON_CONFIG": str(path)})
    assert "default" not in {chosen.origin for chosen in settings.chosen.values()}


def test_init_never_writes_over_a_file(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("GPUMON_CONFIG", raising=False)
    assert main(["config", "init"]) == 0
    path = tmp_path / "home" / "gpumon" / "config.toml"
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_text("period_s = 2\n")
    assert main(["config", "init"]) == 1
    assert path.read_text() == "period_s = 2\n"
    assert "already exists" in capsys.readouterr().err


def test_print_is_toml_with_origins_and_validate_tells_mistakes(
    tmp_path, monkeypatch, capsys
) -> None:
    path = tmp_path / "c.toml"
    path.write_text('period_s = 2\n[prices]\ncurrency = "a\\"b"\n')
    monkeypatch.setenv("GPUMON_CONFIG", str(path))
    assert main(["config", "print"]) == 0
    printed = capsys.readouterr().out
    assert tomllib.loads(printed)["prices"]["currency"] == 'a"b'
    assert f"period_s = 2  # {path}:1" in printed
    assert main(["config", "validate"]) == 0
    path.write_text("period_s = 0\n")
    assert main(["config", "validate"]) == 2
    assert f"{path}:1: period_s takes 0.1 to 86400, not 0" in capsys.readouterr().err


def test_the_most_memory_is_historys_own_default() -> None:
    assert BY_KEY["history.max_mib"].default == DEFAULT_MAX_BYTES / 2**20


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('\ntargets = ["what:ever"]\n', ":2: targets: 'what:ever' "),
        ('[detectors]\ndisabled = ["nobody"]\n', ":2: no detector is called nobody"),
        ("[detectors.parameters.nobody]\nx = 1\n", ":1: no detector is called nobody"),
        (
            "[detectors.parameters.partial_gpus_idle]\nidle = 1\n",
            ":1: PartialGpusIdle has no parameter idle; it has idle_mem_ratio, ",
        ),
        (
            '[detectors.parameters.partial_gpus_idle]\nidle_mem_ratio = "x"\n',
            ":1: PartialGpusIdle: idle_mem_ratio takes a number",
        ),
    ],
)
def test_validate_knows_targets_detectors_and_their_parameters(
    text: str, problem: str, tmp_path, monkeypatch, capsys
) -> None:
    path = tmp_path / "c.toml"
    path.write_text(text)
    monkeypatch.setenv("GPUMON_CONFIG", str(path))
    assert main(["config", "validate"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"gpumon: {path}{problem}")


def _request(*words: str, **environ: str) -> Request:
    """What the main command is asked for with these words and variables."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GPUMON_CONFIG", "/dev/null")
        for name, value in environ.items():
            patch.setenv(name, value)
        options = parser().parse_args(words)
        settings = settings_with(period_s=options.period, is_all=options.all)
        return request_of(options, settings, [Target("local", "local")], is_to_tty=True)


def test_flags_go_over_the_environment() -> None:
    request = _request(GPUMON_PERIOD_S="5", GPUMON_ALL_JOBS="1")
    assert (request.period_s, request.wanted.is_everyone) == (5.0, True)
    request = _request("--period", "2", GPUMON_PERIOD_S="5")
    assert request.period_s == request.settings.number("period_s") == 2.0
    assert request.settings.chosen["period_s"].origin == "--period"


def test_a_user_on_the_command_line_goes_over_everybody_of_the_configuration() -> None:
    assert not _request("--user", "ada", GPUMON_ALL_JOBS="1").wanted.is_everyone
    assert _request("--user", "ada", "--all").wanted.is_everyone


def test_targets_of_the_configuration_count_only_where_none_is_named() -> None:
    settings = _request(GPUMON_TARGETS="demo:2x8").settings
    assert [t.url for t in chosen_targets((), settings)] == ["demo:2x8"]
    assert [t.url for t in chosen_targets(("local",), settings)] == ["local"]


def test_what_the_settings_say_reaches_memory_and_detectors() -> None:
    settings = load(
        {
            "HOME": "/none",
            "XDG_CONFIG_DIRS": "/none",
            "GPUMON_DETECTORS_DISABLED": "one,two",
            "GPUMON_HISTORY_MAX_MIB": "64",
        }
    )
    assert Tuning.of(settings).disabled == ("one", "two")
    assert Tuning.of(settings).disabled_origin == "GPUMON_DETECTORS_DISABLED"
    assert past_of(settings)().max_bytes == 64 * 2**20


@pytest.mark.parametrize("line", [" " * 60_000, "[" + " " * 60_000, "a" + " " * 60_000 + "x"])
def test_the_lines_of_keys_are_found_whatever_the_blanks(line: str) -> None:
    """Half a minute passes here where a line is looked at once for every blank in it."""
    found = _lines_of_keys(f'{line}\n [ prices . gpu_hour ]  # x\n  H100   = 3\n"B 200"=4\n')
    assert found["prices.gpu_hour"] == 2
    assert found["prices.gpu_hour.H100"] == 3
    assert found["prices.gpu_hour.B 200"] == 4


def test_a_file_that_is_no_configuration_by_its_size_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "c.toml"
    text = "period_s = 3\n"
    path.write_text(text)
    monkeypatch.setattr(configuration, "MAX_BYTES", len(text))
    assert load({"GPUMON_CONFIG": str(path)}).number("period_s") == 3.0
    monkeypatch.setattr(configuration, "MAX_BYTES", len(text) - 1)
    with pytest.raises(ConfigurationError, match=f"{path}: larger than {len(text) - 1} bytes"):
        load({"GPUMON_CONFIG": str(path)})


@pytest.mark.parametrize(
    "line", ["[" + " " * 5000 + "x", "[" * 4000, "[a = " + "[" * 4000 + "]", "." * 5000 + "="]
)
def test_a_text_that_looks_like_a_table_is_a_text(tmp_path: Path, line: str) -> None:
    text = f'[prices]\ncurrency = """\n{line}\n"""\nkwh = "much"\n'
    (problem,) = _problems(text, tmp_path)
    assert problem.startswith(":5: prices.kwh takes a number")


@pytest.mark.parametrize("part", ["es", "'es'", " es "])
@pytest.mark.parametrize("shape", ["prices.{} = 1", "[{}]", "prices = {{ {} = 1 }}"])
def test_a_key_without_end_is_refused_before_it_is_read(
    tmp_path: Path, part: str, shape: str
) -> None:
    text = "period_s = 2\n" + shape.format(".".join([part] * 200_000)) + "\n"
    assert _problems(text, tmp_path) == (": line 2: a key of more than 50 parts",)


def test_what_tokens_show_is_a_table_of_lists(tmp_path: Path) -> None:
    _write(tmp_path, '[serve.tokens]\nada = ["user:ada"]\nops = ["*"]\n')
    settings = load({"XDG_CONFIG_HOME": str(tmp_path), "XDG_CONFIG_DIRS": str(tmp_path / "none")})
    assert settings.lists("serve.tokens") == {"ada": ("user:ada",), "ops": ("*",)}
    assert not BY_KEY["serve.tokens"].has_variable


def test_what_a_token_shows_is_a_list_of_texts(tmp_path: Path) -> None:
    (problem,) = _problems('[serve.tokens]\nada = "user:ada"\n', tmp_path)
    assert "serve.tokens takes a list of texts for ada, not 'user:ada'" in problem
