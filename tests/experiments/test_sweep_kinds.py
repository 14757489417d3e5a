"""Variants, samples and replicated seeds: what points they make, and what a row of them says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from experiments.plots import plot_sweep
from experiments.sweep import asked_by_flags, load_spec, run_sweep, split_flags
from experiments.sweep.replicates import mean_interval
from simulator.errors import ConfigError

SMALL = {"requests": 30, "rate": 5, "cost_model": "lesson", "kv_blocks": 4000}


def written(folder: Path, text: str) -> Path:
    path = folder / "sweep.yaml"
    path.write_text(text, encoding="utf-8")
    return path


VARIANTS = """\
base: {requests: 30, cost_model: lesson, kv_blocks: 4000, chunk_size: 512}
variants:
  - {name: engine, scheduler: vllm, token-budget: 1024}
  - {name: small, chunk_size: 64}
grid: {rate: [4, 8]}
"""


def test_a_variant_sets_several_settings_and_multiplies_the_grid(tmp_path: Path) -> None:
    spec = load_spec(written(tmp_path, VARIANTS))
    assert spec.varied == (
        *("variant", "scheduler", "max_num_batched_tokens", "chunk_size", "rate"),
    )
    assert [tuple(point.values.values()) for point in spec.points()] == [
        ("engine", "vllm", 1024, 512, 4.0),
        ("engine", "vllm", 1024, 512, 8.0),
        ("small", "chunked", 2048, 64, 4.0),
        ("small", "chunked", 2048, 64, 8.0),
    ]
    configs = [spec.config(point) for point in spec.points()]
    assert [(c.scheduler, c.max_num_batched_tokens, c.chunk_size) for c in configs[1:3]] == [
        ("vllm", 1024, 512),
        ("chunked", 2048, 64),
    ]


def test_variants_by_flags_and_by_file_are_the_same_sweep(tmp_path: Path) -> None:
    flags = {**SMALL, "chunk_size": "512", "rate": "4,8"}
    texts = ["engine:scheduler=vllm,token-budget=1024", "small:chunk_size=64"]
    fixed, extra = asked_by_flags(flags, variants=texts)
    by_flags = load_spec(None, *split_flags(fixed), extra)
    by_file = load_spec(written(tmp_path, VARIANTS))
    assert by_flags.variants == by_file.variants
    assert list(by_flags.points()) == list(by_file.points())


def test_the_saved_sweep_has_its_variants_and_draws_them(tmp_path: Path) -> None:
    out = tmp_path / "out"
    spec = load_spec(written(tmp_path, VARIANTS))
    outcome = run_sweep(spec, out)
    assert outcome.ok == 4
    assert pd.read_parquet(out / "sweep.parquet")["variant"].tolist() == [
        *("engine", "engine", "small", "small"),
    ]
    again = load_spec(out / "sweep.yaml")
    assert list(again.points()) == list(spec.points())
    assert out / "figures" / "variant.png" in plot_sweep(out)


def test_a_latin_hypercube_draws_once_from_every_part_of_a_range(tmp_path: Path) -> None:
    """Ten draws from 100 .. 199: one in each ten, whole numbers; 1 .. 1000 in thirds of decades."""
    text = """
base: {requests: 30}
samples:
  count: 10
  seed: 7
  over:
    max_num_batched_tokens: {low: 100, high: 199}
    rate: {low: 1, high: 1000, log: true}
    kv_dtype: [fp16, fp8]
"""
    spec = load_spec(written(tmp_path, text))
    rows = pd.DataFrame([point.values for point in spec.points()])
    tens = np.sort(rows["max_num_batched_tokens"].to_numpy() // 10)
    assert tens.tolist() == [*range(10, 20)]
    parts = np.sort(np.floor(np.log10(rows["rate"].to_numpy(float)) / 0.3))
    assert parts.tolist() == [*range(10)]
    assert rows["kv_dtype"].value_counts().to_dict() == {"fp16": 5, "fp8": 5}
    assert spec.config(next(spec.points())).rate == rows["rate"][0]


def test_the_same_seed_draws_the_same_points_and_random_draws_others() -> None:
    flags = {"chunk_size": "log:64..4096", "burstiness": "0.5..2", "scheduler": "vllm|chunked"}

    def points(samples: str, seed: int) -> list[object]:
        _, extra = asked_by_flags(flags, samples=samples, sample_seed=seed)
        return [point.values for point in load_spec(None, {}, {}, extra).points()]

    assert points("8", 1) == points("8", 1)
    assert points("8", 1) != points("8", 2)
    assert points("random:8", 1) != points("8", 1)
    for point in points("random:8", 1):
        assert 64 <= point["chunk_size"] <= 4096
        assert point["scheduler"] in ("vllm", "chunked")


def test_a_sampled_sweep_runs_and_draws_its_points(tmp_path: Path) -> None:
    flags = {**SMALL, "chunk_size": "log:16..1024", "scheduler": "continuous|chunked"}
    fixed, extra = asked_by_flags(flags, samples="6")
    spec = load_spec(None, *split_flags(fixed), extra)
    outcome = run_sweep(spec, tmp_path / "out")
    assert outcome.ok == len(spec) == 6
    assert load_spec(tmp_path / "out" / "sweep.yaml") == spec
    assert [path.name for path in plot_sweep(tmp_path / "out")] == ["samples.png"]


def test_seeds_repeat_every_point_on_the_same_arrivals(tmp_path: Path) -> None:
    """The row of a point is the mean of one-seed rows; its interval Student's, two seeds: 12.7."""
    grid = {"max_num_batched_tokens": [128, 1024]}
    _, extra = asked_by_flags({}, seeds="2")
    both = run_sweep(load_spec(None, {**SMALL, "seed": 5}, grid, extra), tmp_path / "both").rows
    alone = run_sweep(
        load_spec(None, SMALL, {**grid, "seed": [5, 6]}), tmp_path / "alone"
    ).rows.set_index(["max_num_batched_tokens", "seed"])
    assert both["replicates"].tolist() == [2, 2]
    for row in both.to_dict("records"):
        singles = alone.loc[row["max_num_batched_tokens"]]["ttft_ms_p99"].astype(float)
        mean, half = singles.mean(), 12.7062 * abs(singles.loc[5] - singles.loc[6]) / 2
        assert row["ttft_ms_p99"] == pytest.approx(mean)
        assert row["ttft_ms_p99_ci_low"] == pytest.approx(mean - half, rel=1e-4)
        assert row["ttft_ms_p99_ci_high"] == pytest.approx(mean + half, rel=1e-4)
    # common random numbers: both points offered the very same rates
    assert both["offered_rate"].nunique() == 1
    assert both["offered_rate_ci_high"].nunique() == 1


def test_the_interval_of_three_runs_by_hand() -> None:
    """9, 10, 11: s = 1, t(0.975, 2) = 4.303, half = 4.303 / sqrt(3) = 2.484."""
    assert mean_interval([9.0, 10.0, 11.0]) == pytest.approx((10.0, 7.516, 12.484), abs=1e-3)


def test_a_failing_seed_fails_its_point_and_is_named(tmp_path: Path) -> None:
    spec = load_spec(
        None,
        {**SMALL, "max_num_seqs": 4},
        {"max_num_batched_tokens": [2, 64]},
        asked_by_flags({}, seeds="3,9")[1],
    )
    rows = run_sweep(spec, tmp_path / "out").rows
    assert rows["status"].tolist() == ["invalid", "ok"]
    assert rows["reason"][0].startswith("seed 3: max_num_batched_tokens 2 is below")


def test_seeds_of_a_recorded_trace_are_refused(tmp_path: Path) -> None:
    base = {"workload": "bundled", "head": 20, "cost_model": "lesson", "kv_blocks": 4000}
    spec = load_spec(None, base, {"chunk_size": [64]}, asked_by_flags({}, seeds="2")[1])
    with pytest.raises(ConfigError, match=r"seeds 0 and 1 make the same requests: a recorded"):
        run_sweep(spec, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_seed_varied_on_a_recorded_trace_is_refused_alike(tmp_path: Path) -> None:
    base = {"workload": "bundled", "head": 20, "cost_model": "lesson", "kv_blocks": 4000}
    with pytest.raises(ConfigError, match=r"seeds 3 and 1 make the same requests.* Drop seed, or"):
        run_sweep(load_spec(None, base, {"seed": ["3", "1"]}), tmp_path / "out")
    assert not (tmp_path / "out").exists()
    drawn = load_spec(None, SMALL, {"seed": ["3", "1"]})
    assert run_sweep(drawn, tmp_path / "out").ok == 2


def test_other_seeds_variants_or_samples_in_a_used_folder_are_refused(tmp_path: Path) -> None:
    out = tmp_path / "out"
    grid = {"max_num_batched_tokens": [256]}
    run_sweep(load_spec(None, SMALL, grid, asked_by_flags({}, seeds="2")[1]), out)
    with pytest.raises(ConfigError, match=r"seeds was \[0, 1\], now \[0, 1, 2\]"):
        run_sweep(load_spec(None, SMALL, grid, asked_by_flags({}, seeds="3")[1]), out)
    variant = asked_by_flags({}, seeds="2", variants=["a:chunk_size=8"])[1]
    with pytest.raises(ConfigError, match=r"variants was None, now \[{'name': 'a'"):
        run_sweep(load_spec(None, SMALL, grid, variant), out)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("variants: {a: 1}\n", "sweep.yaml:1:1: variants: must be a list"),
        ("variants: [{rate: 1}]\n", "variants: each needs a name"),
        ("variants: [{name: a, rate: 1}, {name: a, rate: 2}]\n", "a is the name of two"),
        ("variants: [{name: a, rat: 1}]\n", "rat: no such setting, did you mean rate"),
        ("samples: {count: 5}\n", "over must name settings"),
        ("samples: {over: {rate: {low: 1, high: 2}}}\n", "count None must be a whole number"),
        ("samples: {count: 5, over: {rate: {low: 2, high: 1}}}\n", "low 2 must be below high 1"),
        ("samples: {count: 5, over: {rate: {low: 1}}}\n", "low and high must be numbers"),
        ("samples: {count: 5, metod: lhs, over: {rate: [1]}}\n", "no key metod, did you mean"),
        ("samples: {count: 5, method: lsh, over: {rate: [1]}}\n", "lsh must be lhs or random"),
        ("seeds: 0\n", "seeds 0: must be how many"),
        ("seeds: [1, 1]\n", "a seed is in the list twice"),
        ("seeds: 2\ngrid: {seed: [1, 2]}\n", "seed is varied too"),
        ("grid: {rate: [1]}\nvariants: [{name: a, rate: 2}]\n", "rate is in grid and variants"),
    ],
)
def test_a_mistake_in_a_section_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        load_spec(written(tmp_path, text))
    assert message in str(error.value)


def test_a_range_needs_samples_and_samples_a_range() -> None:
    with pytest.raises(
        ConfigError, match=r"--rate '4..8' is a range .* or a choice .*: it needs --samples N"
    ):
        asked_by_flags({"rate": "4..8"})
    with pytest.raises(
        ConfigError, match=r"--samples needs a setting to draw from: give it a range \(LOW"
    ):
        asked_by_flags({"rate": "4"}, samples="5")
    with pytest.raises(ConfigError, match=r"--samples 'lots': must be N"):
        asked_by_flags({"rate": "4..8"}, samples="lots")


def test_every_setting_that_decides_a_run_can_be_swept(tmp_path: Path) -> None:
    """The fields of the issue: KV dtype and blocks, block size, burstiness, cost model, seed."""
    base = {"requests": 12, "rate": 5, "model": "qwen3-32b"}
    grid = {
        "burstiness": [0.5, 1],
        "seed": [0, 1],
        "cost_model": ["lesson", "b300-qwen3-32b-tp2"],
    }
    rows = run_sweep(load_spec(None, {**base, "kv_blocks": 3000}, grid), tmp_path / "a").rows
    assert rows["status"].eq("ok").all()
    assert rows["ttft_ms_mean"].nunique() == 8
    memory = {"kv_dtype": ["bf16", "fp8"], "block_size": [16, 32]}
    spec = load_spec(None, {**base, "kv_cache_gib": 16, "cost_model": "lesson"}, memory)
    rows = run_sweep(spec, tmp_path / "b").rows
    assert rows["status"].eq("ok").all()
    # half the bytes a token: half the share of the cache
    peaks = rows.set_index(["kv_dtype", "block_size"])["kv_util_peak"]
    assert peaks["bf16", 16] == pytest.approx(2 * peaks["fp8", 16], rel=0.02)
    saved = yaml.safe_load((tmp_path / "b" / "sweep.yaml").read_text(encoding="utf-8"))
    assert saved["grid"] == {"kv_dtype": ["bf16", "fp8"], "block_size": [16, 32]}
