"""The event loop compiled and interpreted: the same results, and never an old one by mistake."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from simulator import compiled
from tests import forms

ROOT = Path(__file__).resolve().parents[1]


def python(*arguments: str, root: Path = ROOT, **environment: str) -> tuple[list[str], str]:
    """What a process of its own prints: lines of its output, and what it complains about."""
    inherited = {key: value for key, value in os.environ.items() if key != compiled.SWITCH}
    ended = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        cwd=root,
        env={**inherited, "PYTHONPATH": str(root), **environment},
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.splitlines(), ended.stderr


def needs_compiled() -> None:
    """Skip where there is nothing to compare with."""
    if compiled.INTERPRETED_BECAUSE is not None:
        pytest.skip(f"the event loop runs interpreted: {compiled.INTERPRETED_BECAUSE}")


def test_where_there_is_a_c_compiler_it_is_compiled() -> None:
    if os.environ.get(compiled.SWITCH):
        pytest.skip(f"{compiled.SWITCH} is set")
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    headers = Path(sysconfig.get_path("include"), "Python.h")
    if shutil.which(compiler) is None or not headers.exists():
        pytest.skip(f"no C compiler ({compiler}), or no Python headers ({headers})")
    assert compiled.INTERPRETED_BECAUSE is None


def test_both_forms_give_the_same_results() -> None:
    needs_compiled()
    first, *interpreted = python("-m", "tests.forms", RUNWAY_INTERPRETED="1")[0]
    assert first == "interpreted because RUNWAY_INTERPRETED is set"
    assert interpreted == [*forms.lines()]


def test_the_source_runs_when_it_is_asked_for() -> None:
    program = (
        "import simulator.engine, costmodels.linear\n"
        "print(simulator.engine.__file__, costmodels.linear.__file__)"
    )
    said, _ = python("-c", program, RUNWAY_INTERPRETED="1")
    assert said == [f"{ROOT / 'simulator/engine.py'} {ROOT / 'costmodels/linear.py'}"]


@pytest.mark.parametrize("changed", ["simulator/leap.py", "costmodels/linear.py"])
def test_changed_source_is_never_run_compiled(tmp_path: Path, changed: str) -> None:
    needs_compiled()
    for package in ("simulator", "costmodels"):
        shutil.copytree(ROOT / package, tmp_path / package)
    program = (
        "import costmodels.linear, simulator.leap; from simulator import compiled;"
        "print(compiled.INTERPRETED_BECAUSE, simulator.leap.__file__, costmodels.linear.__file__)"
    )
    said, complaint = python("-c", program, root=tmp_path)
    assert said[0].startswith("None ")
    assert "RuntimeWarning" not in complaint

    with (tmp_path / changed).open("a", encoding="utf-8") as source:
        source.write("# changed\n")
    said, complaint = python("-c", program, root=tmp_path)
    files = f"{tmp_path / 'simulator/leap.py'} {tmp_path / 'costmodels/linear.py'}"
    assert said == [f"its source has changed since it was compiled {files}"]
    assert "RuntimeWarning: the source of the event loop has changed" in complaint


def test_without_its_compiled_modules_the_source_runs(tmp_path: Path) -> None:
    needs_compiled()
    shutil.copytree(ROOT / "simulator", tmp_path / "simulator")
    compiled.compiled_file(tmp_path, "simulator/leap.py").unlink()
    program = (
        "import simulator.engine; from simulator import compiled\n"
        "print(compiled.INTERPRETED_BECAUSE, simulator.engine.__file__)"
    )
    shutil.copytree(ROOT / "costmodels", tmp_path / "costmodels")
    said, _ = python("-c", program, root=tmp_path)
    source = tmp_path / "simulator/engine.py"
    assert said == [f"its compiled modules are gone: install Runway again {source}"]


def test_all_compiled_modules_are_in_the_manifest() -> None:
    needs_compiled()
    manifest = compiled.manifest(ROOT / "simulator").read_text(encoding="utf-8")
    known = {line.split()[1].removesuffix(".py") for line in manifest.splitlines()}
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    found = {
        str(file.relative_to(ROOT)).removesuffix(suffix)
        for folder in compiled.FOLDERS
        for file in (ROOT / folder).glob(f"*{suffix}")
    }
    assert found == {*known, "simulator/event_loop__mypyc"}


def test_compiled_classes_keep_their_docstrings() -> None:
    from costmodels import LinearCostModel
    from simulator import KVCache, PrefixCache, Sequence, VllmScheduler

    for kind in (KVCache, LinearCostModel, PrefixCache, Sequence, VllmScheduler):
        assert len(kind.__doc__ or "") > 100
