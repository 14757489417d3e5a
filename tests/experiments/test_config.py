"""A config is one frozen thing, whether it comes from YAML, flags or Python."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from experiments.config import RunConfig, flag_of, load_config
from simulator.errors import ConfigError


def write(folder: Path, text: str) -> Path:
    path = folder / "run.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def complaint(path: Path | None = None, **overrides: object) -> str:
    with pytest.raises(ConfigError) as caught:
        load_config(path, overrides)
    return str(caught.value)


def test_flags_win_over_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, "max_num_seqs: 4\nchunk_size: 256\n")
    config = load_config(path, {"chunk_size": "512"})
    assert (config.max_num_seqs, config.chunk_size) == (4, 512)


@pytest.mark.parametrize(
    "key", ["max_num_batched_tokens", "max-num-batched-tokens", "token_budget"]
)
def test_a_key_may_be_an_alias_or_have_dashes(tmp_path: Path, key: str) -> None:
    assert load_config(write(tmp_path, f"{key}: 512\n")).max_num_batched_tokens == 512


def test_an_alias_and_its_field_together_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "token_budget: 1\nmax_num_batched_tokens: 2\n")
    assert complaint(path) == (
        f"{path}:2:1: max_num_batched_tokens: the same setting as token_budget, which is given too"
    )


def test_an_unknown_key_is_refused_with_line_column_and_the_nearest_name(tmp_path: Path) -> None:
    path = write(tmp_path, "seed: 1\nchunksize: 256\n")
    assert complaint(path) == f"{path}:2:1: chunksize: no such setting, did you mean chunk_size?"


def test_a_bad_value_in_the_file_is_named_with_its_line(tmp_path: Path) -> None:
    path = write(tmp_path, "\nmax_num_seqs: many\n")
    assert complaint(path) == (
        f"{path}:2:1: max_num_seqs 'many': must be a whole number of at least 1"
    )


def test_a_bad_value_of_a_flag_is_named_with_the_flag() -> None:
    assert complaint(bad_rows="skp") == (
        "--bad-rows 'skp': must be refuse or skip, did you mean skip?"
    )


def test_every_bad_value_is_named_at_once() -> None:
    assert complaint(chunk_size="0", rate="fast").splitlines() == [
        "--rate 'fast': must be a number above 0",
        "--chunk-size '0': must be a whole number of at least 1, or -1 or none for no chunking",
    ]


@pytest.mark.parametrize("budget", ["0", "-1", "2.5", "abc", "nan", True])
def test_a_token_budget_is_a_whole_number_above_zero_or_none(budget: object) -> None:
    """U03."""
    assert complaint(max_num_batched_tokens=budget) == (
        f"--max-num-batched-tokens {budget!r}: must be a whole number of at least 1, "
        "or none for no token budget"
    )


@pytest.mark.parametrize("size", ["-1", -1, "none", None])
def test_chunk_size_minus_one_and_none_mean_no_chunking(size: object) -> None:
    """U04."""
    assert load_config(overrides={"chunk_size": size}).chunk_size is None


@pytest.mark.parametrize("text", ["a: [1", "a: b: c", "\tx: 1"])
def test_a_file_that_is_not_yaml_is_refused_with_its_line(tmp_path: Path, text: str) -> None:
    path = write(tmp_path, text)
    assert complaint(path).startswith(f"{path}:1:") or complaint(path).startswith(f"{path}:2:")
    assert "not valid YAML" in complaint(path)


def test_a_file_that_is_a_list_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "- 1\n")
    assert (
        complaint(path) == f"{path}:1:1: must be `key: value` lines, a trace is given with --trace"
    )


def test_a_sweep_file_is_told_where_it_belongs(tmp_path: Path) -> None:
    path = write(tmp_path, "base: {workload: bundled}\ngrid: {chunk_size: [256]}\n")
    assert complaint(path) == f"{path}:2:1: grid makes it a sweep: runway sweep {path}"


def test_a_key_given_twice_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "seed: 1\nseed: 2\n")
    assert complaint(path) == f"{path}:2:1: key seed is given twice, first at {path}:1:1"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    assert complaint(tmp_path / "no.yaml") == f"{tmp_path / 'no.yaml'}: No such file or directory"


def test_from_python_a_bad_field_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match="chnk_size: no such setting, did you mean chunk_size"):
        RunConfig(chnk_size=3)


def test_what_is_saved_loads_to_the_same_config(tmp_path: Path) -> None:
    config = load_config(
        overrides={
            "max_num_batched_tokens": "none",
            "burstiness": "inf",
            "slo": ["tpot=50ms", "ttft=0.5s"],
            "window_s": "3:",
            "columns": ["prompt_tokens=in,output_tokens=out"],
            "scheduler_args": ["share=0.5"],
            "deliver": "batch_end",
        }
    )
    path = write(tmp_path, yaml.safe_dump(config.saved()))
    assert load_config(path) == config
    assert config.slo == {"ttft_ms": 500.0, "tpot_ms": 50.0}


def test_where_results_go_is_not_saved() -> None:
    assert not {"out", "json_summary", "quiet"} & set(RunConfig(out="x", quiet=True).saved())


def test_every_field_has_a_flag_of_its_own() -> None:
    flags = [flag_of(name) for name in RunConfig.model_fields]
    assert len(set(flags)) == len(flags)
    assert "--max-num-batched-tokens" in flags


@pytest.mark.parametrize("text", ["5:5", "9:2", "a:b", "3", ":inf", "-1:2"])
def test_a_window_that_is_none_is_refused(text: str) -> None:
    assert "must be START:END in seconds" in complaint(window_s=text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("tft=5", "must limit ttft, tpot, e2el, itl_max, not tft, did you mean ttft?"),
        ("ttft=-5", "must give each limit as a time above 0"),
        ("ttft", "must be KEY=VALUE pairs"),
    ],
)
def test_an_slo_that_is_none_is_refused(text: str, problem: str) -> None:
    assert problem in complaint(slo=[text])
