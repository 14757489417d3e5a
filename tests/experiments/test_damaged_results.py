"""Results whose files are damaged: the commands that read them say which file and what to do."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner, Result

from experiments.cli import main

Runway = Callable[..., Result]
SMALL = ("--requests", "20", "--rate", "4", "--cost-model", "lesson", "--kv-blocks", "4000")
ONE = ("--jobs", "1", "--quiet", "--no-figures")
MADE = {
    "run": ("simulate", *SMALL, "--steps", "--quiet"),
    "sweep": ("sweep", *SMALL, "--chunk-size", "256,512", *ONE),
    "search": ("search", *SMALL, "--slo", "ttft=5s", "--replicates", "0", *ONE),
}
REMEDY = {
    "run": "simulate again",
    "sweep": "run the same `runway sweep` again",
    "search": "run the same `runway search` again",
    "compared": "run `runway compare` again",
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a folder of every kind of results."""
    place = tmp_path_factory.mktemp("made")
    run = str(place / "run")
    every = MADE | {"compared": ("compare", run, run, "--quiet")}
    for name, arguments in every.items():
        done = CliRunner().invoke(main, [*arguments, "--out", str(place / name)])
        assert done.exit_code == 0, (done.stderr, done.exception)
    return place


@pytest.fixture
def copy(made: Path, tmp_path: Path) -> Path:
    """A copy of them that a test may damage."""
    return Path(shutil.copytree(made, tmp_path / "copy"))


def refusal_of(result: Result) -> str:
    """The one line of a refusal."""
    assert result.exit_code == 2, (result.stdout, result.stderr, result.exception)
    assert result.stderr.count("\n") == 1
    return result.stderr


TABLES = (
    *("run/requests", "run/steps", "sweep/sweep", "search/evaluations"),
    "compared/distributions",
)


@pytest.mark.parametrize(
    ("command", "name"),
    [*product(("plot", "report"), TABLES), ("plot", "sweep/timelines")],
)
def test_a_damaged_table(runway: Runway, copy: Path, command: str, name: str) -> None:
    file = copy / f"{name}.parquet"
    file.write_bytes(b"PAR1" + bytes(40))
    said = refusal_of(runway(command, file.parent))
    assert said.startswith(f"Error: {file}: cannot be read (")
    assert REMEDY[file.parent.name] in said


@pytest.mark.parametrize("name", ["run/requests", "sweep/sweep", "search/evaluations"])
@pytest.mark.parametrize("command", ["plot", "report"])
def test_a_table_of_something_else(runway: Runway, copy: Path, command: str, name: str) -> None:
    file = copy / f"{name}.parquet"
    pd.DataFrame({"other": [1]}).to_parquet(file)
    assert f"{file}: lacks column " in refusal_of(runway(command, file.parent))


DOCUMENTS = ("run/summary.json", "search/search.json", "compared/compare.json")


@pytest.mark.parametrize("name", DOCUMENTS)
@pytest.mark.parametrize("command", ["plot", "report"])
@pytest.mark.parametrize(
    ("text", "told"),
    [("{}", "lacks "), ("[]", "holds a list, must be an object"), ("{", "not JSON (")],
)
def test_a_damaged_document(
    runway: Runway, copy: Path, command: str, name: str, text: str, told: str
) -> None:
    file = copy / name
    file.write_text(text)
    said = refusal_of(runway(command, file.parent))
    assert f"{file}: {told}" in said
    assert REMEDY[file.parent.name] in said


def test_compare_says_what_a_summary_lacks(runway: Runway, copy: Path) -> None:
    (copy / "run" / "summary.json").write_text("{}")
    said = refusal_of(runway("compare", copy / "run", copy / "run"))
    assert "summary.json: lacks provenance.scheduler.name, " in said


@pytest.mark.parametrize("text", ["", "- 1", "{"])
@pytest.mark.parametrize("command", ["plot", "report"])
def test_a_damaged_sweep_file(runway: Runway, copy: Path, command: str, text: str) -> None:
    (copy / "sweep" / "sweep.yaml").write_text(text)
    assert "sweep.yaml" in refusal_of(runway(command, copy / "sweep"))
