"""What a sweep is asked to do: YAML, flags, the default grid, and mistakes in each."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.sweep import load_spec, split_flags
from experiments.sweep.spec import DEFAULT_GRID
from simulator.errors import ConfigError


def written(folder: Path, text: str) -> Path:
    path = folder / "sweep.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_yaml_and_flags_say_the_same(tmp_path: Path) -> None:
    file = written(
        tmp_path, "base:\n  rate: 4\ngrid:\n  chunk-size: [256, none]\n  token_budget: [512]\n"
    )
    from_file = load_spec(file)
    base, grid = split_flags({"rate": "4", "chunk_size": "256,-1"})
    from_flags = load_spec(None, base, {**grid, "max_num_batched_tokens": ["512"]})
    assert from_file.grid == from_flags.grid
    assert from_file.grid == {"chunk_size": (256, None), "max_num_batched_tokens": (512,)}
    point = next(from_file.points())
    assert from_file.config(point) == from_flags.config(point)


def test_a_flag_replaces_what_the_file_varies_or_fixes(tmp_path: Path) -> None:
    file = written(tmp_path, "base: {rate: 4}\ngrid: {chunk_size: [256, 512], seed: [0, 1]}\n")
    spec = load_spec(file, {"chunk_size": "64"}, {"rate": ["1", "2"]})
    assert spec.base == {"chunk_size": "64"}
    assert spec.grid == {"seed": (0, 1), "rate": (1.0, 2.0)}


def test_without_a_grid_chunk_size_and_token_budget_are_swept() -> None:
    assert load_spec().grid == DEFAULT_GRID
    assert list(load_spec(None, {"chunk_size": "256"}).grid) == ["max_num_batched_tokens"]


def test_the_last_setting_changes_fastest() -> None:
    spec = load_spec(None, {}, {"chunk_size": [64, 256], "max_num_batched_tokens": [128, 512]})
    assert [tuple(point.values.values()) for point in spec.points()] == [
        (64, 128),
        (64, 512),
        (256, 128),
        (256, 512),
    ]
    assert len(spec) == 4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("grid:\n  chunk_sizes: [1]\n", "sweep.yaml:2:3: chunk_sizes: no such setting, did you"),
        ("base:\n  chunk_size: 0\n", "sweep.yaml:2:3: chunk_size 0: must be"),
        ("grid:\n  rate: 4\n", "sweep.yaml:2:3: rate: must be a list of values"),
        ("grid:\n  rate: []\n", "sweep.yaml:2:3: rate: must be a list of values"),
        ("grid:\n  chunk_size: [-1, none]\n", "sweep.yaml:2:3: chunk_size: 'none' is in the list"),
        ("grid:\n  seed: [1]\n  steps: [true]\n", "sweep.yaml:3:3: steps: says what to write"),
        (
            "base: {token_budget: 512}\ngrid: {max-num-batched-tokens: [512, 2048]}\n",
            "sweep.yaml:2:8: max_num_batched_tokens is in base and grid: leave it in one of them",
        ),
        ("rate: 4\n", "sweep.yaml:1:1: put rate under `base:`"),
        (
            "gird: {}\n",
            "a sweep has the keys base, grid, variants, samples and seeds, not gird, did you mean",
        ),
        ("base: [1]\n", "sweep.yaml:1:1: base must be `setting: value` lines"),
        ("grid: {token_budget: [1], max_num_batched_tokens: [2]}", "the same setting as max_num_b"),
    ],
)
def test_a_mistake_is_named_with_line_and_column(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        load_spec(written(tmp_path, text))
    assert message in str(error.value)


def test_a_bad_flag_is_named_by_its_flag() -> None:
    with pytest.raises(ConfigError, match=r"--chunk-size 'abc': must be a whole number"):
        load_spec(None, {"chunk_size": "abc"})
    with pytest.raises(ConfigError, match=r"--rate: '4.0' is in the list twice"):
        load_spec(None, {}, {"rate": ["4", "4.0"]})


def test_a_bad_value_in_the_grid_is_left_to_its_points() -> None:
    spec = load_spec(None, {}, {"max_num_batched_tokens": ["3", "0", "2.5", "abc"]})
    assert spec.grid == {"max_num_batched_tokens": (3, "0", "2.5", "abc")}


def test_settings_that_are_no_scalars_are_swept_in_a_file_too(tmp_path: Path) -> None:
    """Each has one form, as on the command line."""
    file = written(
        tmp_path,
        "grid:\n  window_s: [[0, 60], [60, null]]\n  slo: [{ttft: 1s}, {ttft: 2s, tpot: 50}]\n"
        "  client_slo: [{chat: {ttft: 1s}}, {chat: {ttft: 2s, tpot: 50}}]\n",
    )
    spec = load_spec(file)
    assert spec.grid["window_s"] == ("0:60", "60:")
    last = spec.config([*spec.points()][-1])
    assert last.window_s == (60.0, None)
    assert last.slo == {"ttft_ms": 2000.0, "tpot_ms": 50.0}
    assert last.client_slo == {"chat": {"ttft_ms": 2000.0, "tpot_ms": 50.0}}
