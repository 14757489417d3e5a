"""The `vllm` policy against recorded steps of vLLM's own scheduler, sync and async."""

import json
from pathlib import Path

import pytest

from tests.vllm_golden import Replay, case_files, differences, main

SHARED = Path(__file__).resolve().parents[3] / "shared" / "vllm-golden"
CASES = sorted(SHARED.glob("*.json"))

needs_cases = pytest.mark.skipif(not CASES, reason="needs the recorded cases in ../shared")


@needs_cases
@pytest.mark.parametrize("slow_path", [False, True], ids=["aggregates", "slow-path"])
@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_every_recorded_step_is_reproduced(path: Path, slow_path: bool) -> None:
    case = json.loads(path.read_text())
    steps = Replay(case, slow_path=slow_path).run()
    assert list(differences(case, steps)) == []


@needs_cases
def test_the_runner_counts_cases_and_steps(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(SHARED)]) == 0
    steps = sum(len(json.loads(path.read_text())["steps"]) for path in CASES)
    assert capsys.readouterr().out == f"{len(CASES)} cases, {steps} steps, 0 differences\n"


@needs_cases
def test_the_runner_reports_a_difference(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = json.loads(CASES[0].read_text())
    case["steps"][1]["free_blocks"] += 1
    broken = tmp_path / "broken.json"
    broken.write_text(json.dumps(case))
    assert main([str(broken)]) == 1
    assert "broken.json: 1 differences; first: step 1: free_blocks is" in capsys.readouterr().out


def test_directories_and_globs_name_case_files(tmp_path: Path) -> None:
    for name in ("b.json", "a.json", "notes.txt"):
        (tmp_path / name).write_text("{}")
    expected = [tmp_path / "a.json", tmp_path / "b.json"]
    assert case_files([str(tmp_path)]) == expected
    assert case_files([str(tmp_path / "*.json")]) == expected
