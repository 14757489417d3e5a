"""Prefix caching and the async pipeline from the command line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml
from click.testing import Result

from costmodels import ConstantCostModel
from simulator import simulate
from simulator.prefix_cache import PrefixCache
from simulator.schedulers import VllmScheduler
from simulator.trace import Trace
from workloads import head, read_trace

Runway = Callable[..., Result]

ROWS = [
    {"timestamp": 0, "input_length": 1024, "output_length": 4, "hash_ids": [7, 8]},
    {"timestamp": 9000, "input_length": 1024, "output_length": 4, "hash_ids": [7, 8]},
    {"timestamp": 18000, "input_length": 1000, "output_length": 4, "hash_ids": [7, 9]},
]


@pytest.fixture
def mooncake(tmp_path: Path) -> Path:
    """Three prompts of two 512-token hash blocks; the second repeats, the third half repeats."""
    path = tmp_path / "mooncake.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    return path


@pytest.fixture
def simulated(
    runway: Runway, mooncake: Path, per_token: Path, tmp_path: Path
) -> Callable[..., dict[str, Any]]:
    """Simulate the three prompts; the summary. Results go to `out`."""

    def call(*flags: object) -> dict[str, Any]:
        common = ("--trace", mooncake, "--cost-model", per_token, "--kv-blocks", 1000, "--json")
        result = runway("simulate", *common, *flags, "--out", tmp_path / "out")
        assert result.exit_code == 0, result.stderr
        parsed: dict[str, Any] = json.loads(result.stdout)
        return parsed

    return call


def test_vllm_finds_repeated_prompts_in_the_cache(
    simulated: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    """All but the last block of the repeated prompt, 63 x 16 tokens, and 512 of the third."""
    summary = simulated("--scheduler", "vllm")
    assert summary["cached_prompt_tokens"] == 1008 + 512
    assert summary["prefix_hit_rate"] == pytest.approx(1520 / 3048)
    assert summary["cached_tokens"]["max"] == 1008
    assert summary["provenance"]["kv_cache"]["prefix_caching"] is True
    assert summary["provenance"]["scheduler"]["async_scheduling"] is True
    saved = yaml.safe_load((tmp_path / "out" / "config.yaml").read_text(encoding="utf-8"))
    assert (saved["enable_prefix_caching"], saved["async_scheduling"]) == (True, True)
    table = pq.read_table(tmp_path / "out" / "requests.parquet").to_pydict()
    assert table["cached_tokens"] == [0, 1008, 512]
    # a step is 10 ms and 1 ms a prompt token
    assert table["ttft_ms"] == [1034, 26, 10 + 1000 - 512]


def test_without_prefix_caching_every_prompt_is_computed(
    simulated: Callable[..., dict[str, Any]],
) -> None:
    summary = simulated("--scheduler", "vllm", "--no-enable-prefix-caching")
    assert (summary["cached_prompt_tokens"], summary["prefix_hit_rate"]) == (0, 0.0)
    assert summary["provenance"]["kv_cache"]["prefix_caching"] is False


@pytest.mark.parametrize("scheduler", ["static", "continuous", "chunked", "alternating"])
def test_every_scheduler_can_use_the_cache(
    simulated: Callable[..., dict[str, Any]], scheduler: str
) -> None:
    assert simulated("--scheduler", scheduler)["cached_prompt_tokens"] == 0
    summary = simulated("--scheduler", scheduler, "--enable-prefix-caching")
    assert summary["cached_prompt_tokens"] == 1008 + 512


def test_the_report_says_what_the_cache_gave(
    runway: Runway, mooncake: Path, per_token: Path
) -> None:
    common = ("--trace", mooncake, "--cost-model", per_token, "--kv-blocks", 1000)
    result = runway("simulate", *common, "--scheduler", "vllm")
    assert "policy fcfs, prefill_alignment_tokens 0, async scheduling" in result.stdout
    assert "1,000 blocks of 16 tokens, prefix caching" in result.stdout
    assert "prompt tokens found in the cache" in result.stdout
    assert "49.9 %" in result.stdout
    assert "found in the cache" not in runway("simulate", *common).stdout


def test_switches_can_be_swept(
    runway: Runway, mooncake: Path, per_token: Path, tmp_path: Path
) -> None:
    flags = ("--trace", mooncake, "--cost-model", per_token, "--kv-blocks", 1000, "--jobs", 1)
    grid = ("--enable-prefix-caching", "true,false", "--async-scheduling", "--no-figures")
    out = tmp_path / "sweep"
    result = runway("sweep", *flags, "--scheduler", "vllm,chunked", *grid, "--out", out)
    assert result.exit_code == 0, result.stderr
    table = pq.read_table(out / "sweep.parquet").to_pydict()
    assert table["scheduler"] == ["vllm", "vllm", "chunked", "chunked"]
    assert table["enable_prefix_caching"] == [True, False, True, False]
    assert table["cached_prompt_tokens"] == [1520, 0, 1520, 0]
    assert table["prefix_hit_rate"] == pytest.approx([1520 / 3048, 0, 1520 / 3048, 0])


def test_a_swept_switch_takes_truth_values_only(
    runway: Runway, mooncake: Path, tmp_path: Path
) -> None:
    flags = ("--trace", mooncake, "--jobs", 1, "--out", tmp_path / "sweep")
    result = runway("sweep", *flags, "--async-scheduling=perhaps", "--rate", "1,2")
    assert result.exit_code == 2
    assert "--async-scheduling 'perhaps': must be true or false" in result.stderr


def test_an_unbounded_cache_hits_what_an_earlier_prompt_began_with() -> None:
    """Mooncake's conversations, one after another: counted again with plain sets."""
    path = Path(__file__).resolve().parents[3] / "shared/traces"
    path /= "mooncake_fast25_conversation.jsonl.gz"
    if not path.is_file():
        pytest.skip("the Mooncake trace is not on this machine")
    trace = head(read_trace(path), 400)
    alone = trace.changed("one after another", arrival_ns=np.arange(len(trace)) * 10**12)
    prices = ConstantCostModel(prefill_ms=1, decode_ms=1)
    result = simulate(alone, VllmScheduler(10**6, 1), prices, PrefixCache(10**6))
    assert result.requests.cached_tokens.tolist() == list(_leading_tokens(alone))
    assert result.requests.cached_tokens.sum() > 0


def _leading_tokens(trace: Trace) -> Iterator[int]:
    seen: set[tuple[int, int]] = set()
    assert trace.block_hashes is not None
    for hashes, prompt in zip(trace.block_hashes, trace.prompt_tokens.tolist(), strict=True):
        blocks = [(hashes[place // 32], place % 32) for place in range(prompt // 16)]
        hits = 0
        while hits < min(len(blocks), (prompt - 1) // 16) and blocks[hits] in seen:
            hits += 1
        seen.update(blocks)
        yield 16 * hits
