"""The `vllm` policy against our own recordings, and the random cases they were made of."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from tests.vllm.cases import case_files, read_cases
from tests.vllm.random_cases import all_pairs, covering, pairs_of, random_case
from tests.vllm_golden import Replay, differences, main

RECORDINGS = Path(__file__).resolve().parents[1] / "vllm_recordings"
FILES = case_files([str(RECORDINGS)])


@pytest.mark.parametrize("slow_path", [False, True], ids=["aggregates", "slow-path"])
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.split(".")[0])
def test_every_recorded_step_is_reproduced(path: Path, slow_path: bool) -> None:
    for case in read_cases(path):
        steps = Replay(case, slow_path=slow_path).run()
        assert list(differences(case, steps)) == [], case["name"]


def test_recordings_have_every_pair_of_options() -> None:
    recorded = list(read_cases(RECORDINGS / "pairs.jsonl.gz"))
    assert set.union(*(pairs_of(case["choice"]) for case in recorded)) == all_pairs()
    for case in recorded:
        config, choice = case["config"], case["choice"]
        assert config.get("async_scheduling", False) == choice["async_scheduling"]
        assert config["policy"] == choice["policy"]


def test_recordings_stay_small() -> None:
    assert sum(path.stat().st_size for path in RECORDINGS.iterdir()) < 300_000


def test_recordings_say_who_made_them() -> None:
    versions = {case["vllm_version"] for path in FILES for case in read_cases(path)}
    assert versions == {"0.33.0"}


def test_a_seed_makes_the_same_case_again() -> None:
    assert [random_case(seed) for seed in range(20)] == [random_case(seed) for seed in range(20)]
    assert random_case(1) != random_case(2)


@pytest.mark.parametrize("seed", range(200))
def test_random_cases_are_ones_that_vllm_accepts(seed: int) -> None:
    case = random_case(seed)
    config, requests = case["config"], case["requests"]
    ids = [request["id"] for request in requests]
    assert config["max_num_batched_tokens"] >= config["max_num_seqs"]
    if not config["enable_chunked_prefill"]:
        assert config["max_num_batched_tokens"] >= config["max_model_len"]
    for number, request in enumerate(requests):
        assert request["prompt_len"] + request["output_len"] <= config["max_model_len"]
        assert request.get("continues") in {None, *ids[:number]}


def test_a_covering_set_is_small() -> None:
    choices = covering(np.random.default_rng(0))
    assert set.union(*map(pairs_of, choices)) == all_pairs()
    assert len(choices) < 40


def test_case_files_may_be_gzipped_and_hold_a_case_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cases = list(read_cases(RECORDINGS / "found.jsonl.gz"))[:2]
    lines = "".join(json.dumps(case) + "\n" for case in cases)
    (tmp_path / "a.json").write_text(json.dumps(cases[0]))
    (tmp_path / "b.json.gz").write_bytes(gzip.compress(json.dumps(cases[0]).encode()))
    (tmp_path / "c.jsonl").write_text(lines)
    (tmp_path / "d.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    (tmp_path / "README.md").write_text("not a case")
    assert main([str(tmp_path)]) == 0
    assert capsys.readouterr().out.startswith("6 cases, ")


def test_the_runner_names_the_case_that_differs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = next(read_cases(RECORDINGS / "found.jsonl.gz"))
    case["steps"][0]["free_blocks"] += 1
    (tmp_path / "broken.jsonl").write_text(json.dumps(case) + "\n")
    assert main([str(tmp_path)]) == 1
    assert f"broken.jsonl: {case['name']}: 1 differences" in capsys.readouterr().out
