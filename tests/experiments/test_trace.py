"""`runway trace`: the Trace Event Format as ui.perfetto.dev reads it, and what the events say."""

from __future__ import annotations

import gzip
import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from experiments.config import load_config
from experiments.perfetto import chrome_trace
from experiments.phases import request_phases
from experiments.run import run_config, write_run
from experiments.saved_run import load_run
from simulator.errors import ConfigError

from .conftest import Runway

Event = dict[str, Any]


@pytest.fixture(scope="module", params=["chunked", "continuous", "alternating", "static", "vllm"])
def saved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A crowded run: 60 requests in a cache that preempts where the policy knows how."""
    folder = tmp_path_factory.mktemp("run")
    base = {"workload": "bundled", "head": 60, "kv_blocks": 1600, "max_model_len": 25000}
    outcome = run_config(load_config(None, {**base, "scheduler": request.param}))
    write_run(outcome, folder, steps=True)
    return folder


@pytest.fixture
def tiny(tmp_path: Path, trace_of: Any, per_token: Path, runway: Runway) -> Path:
    """Prompts of 20 and 10 tokens at 0 and 15 ms, 3 and 1 tokens out; 10 ms a step + 1 a token."""
    trace = trace_of((0.0, 20, 3), (0.015, 10, 1))
    out = tmp_path / "tiny"
    flags = ("--trace", trace, "--cost-model", per_token, "--kv-blocks", 64, "--steps")
    result = runway("simulate", *flags, "--scheduler", "continuous", "--quiet", "--out", out)
    assert result.exit_code == 0, result.output
    return out


def check_format(trace: dict[str, Any]) -> None:
    """The rules of the format that a viewer depends on.

    Source: Perfetto's importer of JSON (src/trace_processor/importers/json), which takes `ts` and
    `dur` to whole ns as below, and drops or misplaces slices of a thread that overlap by one.
    """
    assert {*trace} == {"displayTimeUnit", "otherData", "traceEvents"}
    assert json.loads(json.dumps(trace, allow_nan=False)) == trace
    lanes: dict[tuple[int, int], list[int]] = defaultdict(list)
    before = 0.0
    for event in trace["traceEvents"]:
        assert event["ph"] in ("X", "C", "M")
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        assert event["name"]
        assert event["ts"] >= before, "sorted by time"
        before = event["ts"]
        if event["ph"] == "C":
            assert all(isinstance(value, int) and value >= 0 for value in event["args"].values())
        if event["ph"] == "X":
            assert event["dur"] >= 0
            open_until = lanes[event["pid"], event["tid"]]
            start = round(event["ts"] * 1000)
            end = start + round(event["dur"] * 1000)
            while open_until and open_until[-1] <= start:
                open_until.pop()
            if open_until:
                assert end <= open_until[-1], "slices of a thread nest, never overlap"
            open_until.append(end)


def test_the_trace_keeps_to_the_format(saved: Path) -> None:
    trace = chrome_trace(load_run(saved))
    check_format(trace)
    kinds = Counter(event["ph"] for event in trace["traceEvents"])
    assert min(kinds["X"], kinds["C"]) > 60
    assert {event["name"] for event in trace["traceEvents"] if event["ph"] == "C"} == {
        "running",
        "waiting",
        "KV blocks",
    }


def test_the_phases_of_a_request_are_its_saved_times(saved: Path) -> None:
    """Queue and preempted exactly; stalls too but where a step prefilled for others only."""
    run = load_run(saved)
    spent: dict[int, Counter[str]] = defaultdict(Counter)
    reached: dict[int, int] = {}
    for part in request_phases(run, range(len(run.requests))):
        assert part.end_ns > part.start_ns
        assert reached.get(part.request, part.start_ns) == part.start_ns, "no gap, no overlap"
        reached[part.request] = part.end_ns
        spent[part.request][part.phase] += part.end_ns - part.start_ns
    served = run.requests[run.requests["state"] == "finished"]
    assert len(spent) == len(served) > 50
    for row, request in served.iterrows():
        phases = spent[int(str(row))]
        assert sum(phases.values()) == pytest.approx(request["e2el_ms"] * 1e6, abs=2)
        assert phases["queue"] == pytest.approx(request["queue_ms"] * 1e6, abs=2)
        assert phases["preempted"] == pytest.approx(request["preempted_ms"] * 1e6, abs=2)
        assert phases["stalled"] <= request["stalled_ms"] * 1e6 + 2
    stalled = sum(phases["stalled"] for phases in spent.values())
    off = 0.05 if run.policy == "alternating" else 1e-9
    assert stalled == pytest.approx(served["stalled_ms"].sum() * 1e6, rel=off)


def test_a_trace_by_hand(tiny: Path) -> None:
    """Prompt 0 ends at 30 ms; prompt 1 runs 30..50 while 0 stalls; 0 decodes at 60 and 70."""
    trace = chrome_trace(load_run(tiny))
    check_format(trace)
    slices = [
        (e["name"], e["pid"], e["tid"], e["ts"] / 1e3, (e["ts"] + e["dur"]) / 1e3)
        for e in trace["traceEvents"]
        if e["ph"] == "X"
    ]
    assert [s for s in slices if s[1] == 1] == [
        ("prefill", 1, 1, 0, 30),
        ("prefill", 1, 1, 30, 50),
        ("decode", 1, 1, 50, 60),
        ("decode", 1, 1, 60, 70),
    ]
    assert [s for s in slices if s[1] == 2] == [
        ("request 0", 2, 1, 0, 70),
        ("prefill", 2, 1, 0, 30),
        ("request 1", 2, 2, 15, 50),
        ("queue", 2, 2, 15, 30),
        ("stalled", 2, 1, 30, 50),
        ("prefill", 2, 2, 30, 50),
        ("decode", 2, 1, 50, 70),
    ]
    counters = [
        (e["name"], e["ts"] / 1e3, e["args"][e["name"]])
        for e in trace["traceEvents"]
        if e["ph"] == "C" and e["name"] != "KV blocks"
    ]
    assert sorted(counters) == [
        ("running", 0, 1),
        ("running", 30, 2),
        ("running", 50, 1),
        ("running", 70, 0),
        ("waiting", 0, 0),
        ("waiting", 15, 1),
        ("waiting", 30, 0),
    ]


def test_a_window_keeps_what_overlaps_it(tiny: Path) -> None:
    trace = chrome_trace(load_run(tiny), (52_000_000, 58_000_000))
    names = [e["name"] for e in trace["traceEvents"] if e["ph"] == "X"]
    assert sorted(names) == ["decode", "decode", "prefill", "request 0", "stalled"]
    with pytest.raises(ConfigError, match="no step and no request in this window: widen it"):
        chrome_trace(load_run(tiny), (80_000_000, 90_000_000))


def test_the_command_writes_the_file_whole(tiny: Path, runway: Runway, tmp_path: Path) -> None:
    told = runway("trace", tiny)
    assert told.exit_code == 0
    written = json.loads((tiny / "trace.json").read_text())
    check_format(written)
    assert told.stdout == (
        f"wrote {len(written['traceEvents'])} events to {tiny / 'trace.json'}: "
        "open it in https://ui.perfetto.dev\n"
    )
    assert runway("trace", tiny, "--quiet", "-o", tmp_path / "a/t.json.gz").stdout == ""
    packed = gzip.decompress((tmp_path / "a/t.json.gz").read_bytes())
    assert packed == (tiny / "trace.json").read_bytes()


def test_without_steps_the_remedy_is_named(tiny: Path, runway: Runway) -> None:
    (tiny / "steps.parquet").unlink()
    told = runway("trace", tiny)
    assert told.exit_code == 2
    assert "simulate again with --steps" in told.stderr
    told = runway("trace", tiny / "nowhere")
    assert told.exit_code == 2
    assert "this is not a run" in told.stderr
    told = runway("trace", tiny, "--from-s", 2, "--to-s", 1)
    assert "--to-s 1.0 must be after --from-s 2.0" in told.stderr
