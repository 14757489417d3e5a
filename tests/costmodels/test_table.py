"""Cost tables: read, written, and refused for every missing or wrong thing."""

import pytest

from costmodels import CostTable, KVCapacity, load_table, save_table
from simulator.errors import TableFormatError

MEASURED = """\
runway_cost_table: 1
kind: linear
name: mine
description: my GPU
parameters:
  step_ms: 10
  decode_ms_per_context_token: 2e-5
provenance:
  origin: measured on my GPU
  device: GPU
  dtype: bfloat16
  model: Llama
  engine: vLLM
  software: {vllm: 0.20.1}
  date: 2026-06-13
  command: python fit.py
  source: steps.csv
  licence: MIT
  samples: 100
held_out:
  split: random 15 %
  n: 15
  median: 0.02
  p90: 0.05
kv: {blocks: 1000, block_size: 16, origin: from the log}
max_model_len: 4096
"""


def load(tmp_path, text):
    path = tmp_path / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return load_table(path)


def without(line):
    return "".join(kept for kept in MEASURED.splitlines(True) if not kept.strip().startswith(line))


def test_a_table_is_read(tmp_path):
    table = load(tmp_path, MEASURED)
    assert table.kind == "linear"
    assert table.parameters == {"step_ms": 10.0, "decode_ms_per_context_token": 2e-5}
    assert table.kv == KVCapacity(blocks=1000, block_size=16, origin="from the log")
    assert (table.max_model_len, table.max_num_batched_tokens) == (4096, None)
    assert table.provenance["date"] == "2026-06-13"
    assert table.stamp is None
    assert table.summary == "my GPU; held-out error median 2.0 %, p90 5.0 %"


def test_a_table_survives_being_saved(tmp_path):
    table = load(tmp_path, MEASURED)
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    save_table(table, first)
    save_table(load_table(first), second)
    assert load_table(first) == table
    assert first.read_bytes() == second.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "first.yaml",
        "mine.yaml",
        "second.yaml",
    ]


def test_a_hand_written_table_needs_one_line_of_origin(tmp_path):
    table = load(
        tmp_path,
        "runway_cost_table: 1\nkind: constant\nname: demo\ndescription: for a lecture\n"
        "parameters: {prefill_ms: 80, decode_ms: 8}\nprovenance: {origin: hand-written}\n",
    )
    assert table.stamp == "uncalibrated: prices are hand-written"
    assert table.summary == "for a lecture"


MEASURED_KEYS = (
    *("device", "dtype", "model", "engine", "software", "date", "command", "source"),
    *("licence", "samples"),
)


@pytest.mark.parametrize("key", MEASURED_KEYS)
def test_a_measured_table_without_provenance_is_refused(tmp_path, key):
    with pytest.raises(TableFormatError, match=rf"mine.yaml:8:1: provenance.{key} missing: .*add"):
        load(tmp_path, without(f"{key}:"))


@pytest.mark.parametrize("key", ["split", "n", "median", "p90"])
def test_a_measured_table_without_its_held_out_error_is_refused(tmp_path, key):
    with pytest.raises(TableFormatError, match=rf"mine.yaml:20:1: held_out.{key} missing"):
        load(tmp_path, without(f"{key}:"))


def test_a_measured_table_without_held_out_is_refused(tmp_path):
    text = MEASURED.split("held_out:")[0]
    with pytest.raises(TableFormatError, match=r"mine.yaml: held_out missing: .*hand-written"):
        load(tmp_path, text)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("step_ms: 10", "step_ms: .nan", r"mine.yaml:6:3: parameters.step_ms must be finite"),
        ("step_ms: 10", "step_ms: -.inf", r"parameters.step_ms must be finite, is -inf"),
        ("step_ms: 10", "step_ms: -1", r"6:3: parameters.step_ms must be at least 0, is -1"),
        ("step_ms: 10", "step_ms: fast", r"parameters.step_ms must be a number, is 'fast'"),
        ("step_ms: 10", "step_ms: true", r"parameters.step_ms must be a number, is True"),
        ("step_ms: 10", "step_ms: [1]", r"parameters.step_ms must be a number, is \[1\]"),
        ("step_ms: 10", "step: 10", r"6:3: parameters.step has no unit.*did you mean step_ms\?"),
        ("step_ms: 10", "stp_ms: 10", r"stp_ms is not a known key, did you mean step_ms\?"),
        ("step_ms: 10", "step_ms: 10\n  step_ms: 11", r"mine.yaml:7:3: step_ms is written twice"),
        ("kind: linear", "kind: liner", r"2:1: kind 'liner' is unknown, did you mean linear\?"),
        ("kind: linear", "kind:", r"kind missing"),
        ("name: mine", "nam: mine", r"3:1: nam is not a known key, did you mean name\?"),
        ("_table: 1", "_table: 2", r"1:1: runway_cost_table must be 1"),
        ("samples: 100", "samples: 0", r"provenance.samples must be at least 1"),
        ("samples: 100", "samples: 1.5", r"provenance.samples must be a whole number, is 1.5"),
        ("{vllm: 0.20.1}", "{}", r"provenance.software must name at least one package"),
        ("{vllm: 0.20.1}", "vLLM", r"provenance.software must be a mapping"),
        ("licence: MIT", "licence: ''", r"provenance.licence must be text, is ''"),
        ("licence: MIT", "license: MIT", r"license is not a known key, did you mean licence\?"),
        ("origin: measured", "origin: found", r"origin must start with 'measured' or 'hand-wr"),
        ("n: 15", "n: -1", r"held_out.n must be at least 1"),
        ("median: 0.02", "median: .nan", r"held_out.median must be finite"),
        ("blocks: 1000", "blocks: 0", r"27?.*kv.blocks must be at least 1"),
        ("blocks: 1000, ", "", r"kv.blocks missing"),
        ("max_model_len: 4096", "max_model_len: 0", r"max_model_len must be at least 1"),
        ("kind: linear", "kind: [", r"mine.yaml:\d+:\d+: not YAML"),
    ],
)
def test_a_wrong_table_is_refused_by_file_line_and_key(tmp_path, old, new, message):
    assert old in MEASURED
    with pytest.raises(TableFormatError, match=message):
        load(tmp_path, MEASURED.replace(old, new, 1))


def test_a_constant_table_needs_both_prices(tmp_path):
    text = (
        "runway_cost_table: 1\nkind: constant\nname: demo\ndescription: d\n"
        "parameters: {prefill_ms: 80}\nprovenance: {origin: hand-written}\n"
    )
    with pytest.raises(TableFormatError, match=r"parameters.decode_ms missing"):
        load(tmp_path, text)


@pytest.mark.parametrize("text", ["", "just text", "- 1\n- 2"])
def test_a_file_that_is_no_table_is_refused(tmp_path, text):
    with pytest.raises(TableFormatError, match="must be a mapping"):
        load(tmp_path, text)


def test_a_path_that_is_no_file_is_refused(tmp_path):
    with pytest.raises(TableFormatError, match="no such file"):
        load_table(tmp_path / "absent.yaml")
    with pytest.raises(TableFormatError, match="is a directory"):
        load_table(tmp_path)
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(TableFormatError, match="not UTF-8"):
        load_table(binary)


def test_a_table_that_would_not_load_is_not_written(tmp_path):
    path = tmp_path / "bad.yaml"
    table = CostTable("linear", "bad", "no error given", {"step_ms": 1.0}, {"origin": "measured"})
    with pytest.raises(TableFormatError, match=r"provenance.device, .* missing"):
        save_table(table, path)
    assert list(tmp_path.iterdir()) == []
