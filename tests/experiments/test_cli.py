"""The command itself: quick help, nearest names, exit codes, one message, same bytes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from experiments.cli import COMMANDS, terminal

Runway = Callable[..., Result]
ROOT = Path(__file__).resolve().parents[2]
SMALL = ("--requests", "20", "--rate", "4", "--cost-model", "lesson", "--kv-blocks", "4000")
HEAVY = {"matplotlib", "pandas", "scipy", "torch", "joblib"}
LOADED = """
import sys
from experiments.cli import main
try:
    main(sys.argv[1:])
except SystemExit as exit:
    assert exit.code in (0, None), exit.code
print(*sorted(name for name in sys.modules if "." not in name))
"""


def python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def loaded_by(*arguments: str) -> set[str]:
    done = python("-c", LOADED, *arguments)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split())


def test_help_loads_only_click() -> None:
    known = loaded_by("--help")
    assert "click" in known
    assert not known & (HEAVY | {"numpy", "pydantic", "pyarrow", "simpy", "rich", "yaml"})


def test_version_looks_at_the_simulator_and_no_further() -> None:
    known = loaded_by("--version")
    assert "simulator" in known
    assert not known & (HEAVY | {"pydantic", "pyarrow", "rich", "yaml"})


def test_simulate_loads_nothing_it_does_not_need(tmp_path: Path) -> None:
    assert not loaded_by("simulate", *SMALL, "--out", str(tmp_path / "out")) & HEAVY


def test_a_command_ends_without_looking_for_garbage() -> None:
    """What was registered first is called last at exit."""
    last = "import atexit, gc; atexit.register(lambda: print(gc.get_freeze_count() > 0))"
    assert python("-c", f"{last}; import experiments.cli").stdout == "True\n"


def test_python_m_is_the_command() -> None:
    done = python("-m", "experiments", "--help")
    assert (done.returncode, done.stderr) == (0, "")
    for name in COMMANDS:
        assert f"  {name} " in done.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(runway: Runway, name: str) -> None:
    result = runway(name, "--help")
    assert result.exit_code == 0
    assert "Usage: runway" in result.stdout


def test_help_shows_defaults_and_units(runway: Runway) -> None:
    text = " ".join(runway("simulate", "--help").stdout.split())
    assert "--max-num-batched-tokens, --token-budget N" in text
    assert "Token budget of a step; none for no budget. [default: 2048]" in text
    assert "--gpu-memory-gib GIB" in text
    assert "--warmup-s S" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("simulat",), "Error: no command 'simulat', did you mean simulate?; see runway --help\n"),
        (("sweep", "--job", 2), "Error: no option --job, did you mean --jobs?\n"),
        (("sweep",), "Error: Missing option '--out'.\n"),
        (
            ("list", "scheduler"),
            "Error: nothing called 'scheduler' to list, did you mean schedulers?: "
            "schedulers, cost-models, formats, presets, datasets\n",
        ),
    ],
)
def test_a_misspelt_word_gets_one_message(
    runway: Runway, arguments: tuple[object, ...], message: str
) -> None:
    result = runway(*arguments)
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", message)


def test_an_interrupt_exits_with_130_and_leaves_nothing(
    runway: Runway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("experiments.run.run_config", interrupted)
    result = runway("simulate", *SMALL, "--out", tmp_path / "new" / "out")
    assert (result.exit_code, result.stdout) == (130, "")
    assert list(tmp_path.iterdir()) == []


def test_equal_runs_give_equal_bytes_whatever_the_hash_seed(tmp_path: Path) -> None:
    """U14."""
    for seed in ("1", "2"):
        flags = (*SMALL, "--steps", "--no-timing", "--quiet", "--out", str(tmp_path / seed))
        done = python("-m", "experiments", "simulate", *flags, PYTHONHASHSEED=seed)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    for path in (tmp_path / "1").iterdir():
        assert path.read_bytes() == (tmp_path / "2" / path.name).read_bytes()


def test_a_reader_that_leaves_the_pipe_is_no_error() -> None:
    command = f"{sys.executable} -m experiments simulate {' '.join(SMALL)} --json | head -c 1"
    done = subprocess.run(
        ["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("{", "")


def test_a_full_disk_behind_stdout_is_one_message() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    command = f"{sys.executable} -m experiments list presets > /dev/full"
    done = subprocess.run(
        ["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    message = "Error: cannot write the output: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, message)


@pytest.mark.parametrize("kind", ["schedulers", "cost-models", "formats", "presets"])
def test_list_names_everything_once(runway: Runway, kind: str) -> None:
    rows = json.loads(runway("list", kind, "--json").stdout)[kind]
    names = [row["name"] for row in rows]
    assert len(set(names)) == len(names) > 1
    text = runway("list", kind).stdout
    assert all(name in text for name in names)


def test_list_shows_a_policys_parameters(runway: Runway) -> None:
    rows = json.loads(runway("list", "schedulers", "--json").stdout)["schedulers"]
    chunked = next(row for row in rows if row["name"] == "chunked")
    assert chunked["parameters"] == {
        "max_num_batched_tokens": 2048,
        "max_num_seqs": 128,
        "chunk_size": None,
    }


def test_plot_refuses_a_folder_without_results(runway: Runway, tmp_path: Path) -> None:
    result = runway("plot", tmp_path)
    assert result.exit_code == 2
    assert "expected summary.json of a run" in result.stderr


def test_the_bar_shows_only_on_a_terminal_and_only_after_a_second(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([0.0, 0.5, 1.5])
    monkeypatch.setattr(terminal.time, "perf_counter", lambda: next(clock))
    with terminal.progress_bar("simulating") as tick:
        tick(1, 10)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with terminal.progress_bar("simulating") as tick:
        tick(1, 10)
        assert capsys.readouterr() == ("", "")
        tick(7, 10)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "simulating" in shown.err
