"""Runway's own format: what is written is what is read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simulator.errors import WorkloadError
from simulator.trace import Trace
from workloads import generate, preset, read_trace, scale_rate, write_trace

Identical = Callable[[Trace, Trace], None]
Write = Callable[..., Path]

SUFFIXES = [".csv", ".csv.gz", ".jsonl", ".jsonl.gz", ".parquet"]


def full_trace() -> Trace:
    """Every column filled, names that no CSV likes, a hash above 2^53."""
    return Trace(
        arrival_ns=np.array([0, 7, 3_536_999_000_001]),
        prompt_tokens=np.array([1030, 5, 512]),
        output_tokens=np.array([1, 2, 3]),
        ids=('a,"b"', "", "# c\r\n"),
        source_row=np.array([2, 0, 1]),
        priority=np.array([-1, 0, 5]),
        client=("alice", None, ""),
        max_tokens=np.array([0, 16, 0]),
        think_ns=np.array([0, 0, 10**9]),
        session=(None, None, None),
        parent=(None, "1e3", " x "),
        prefix_group=("a b", None, '"'),
        prefix_tokens=np.array([16, 0, 2**31 - 1]),
        block_hashes=((0, 1, 2**60 + 1), (), (-4,)),
        hash_block_tokens=512,
        notes=("read ü.csv", "", '  "odd"\n note'),
        rows_in=9,
        dropped={"failed (0 output tokens)": 6},
    )


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_column_and_note_comes_back(
    tmp_path: Path, identical: Identical, suffix: str
) -> None:
    path = tmp_path / f"t{suffix}"
    write_trace(full_trace(), path)
    identical(read_trace(path), full_trace())
    identical(read_trace(path, format="runway"), full_trace())


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_generated_workload_comes_back_and_the_same_bytes_go_out(
    tmp_path: Path, identical: Identical, suffix: str
) -> None:
    trace = scale_rate(generate(requests=200, rate=3, prompt="uniform:1:99", output=7, seed=2), 1.7)
    first, second = tmp_path / f"one{suffix}", tmp_path / f"two{suffix}"
    write_trace(trace, first)
    identical(read_trace(first), trace)
    write_trace(read_trace(first), second)
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("name", ["multi-turn-chat", "agent-tools"])
def test_sessions_come_back(tmp_path: Path, identical: Identical, suffix: str, name: str) -> None:
    trace = preset(name, requests=50, seed=3)
    write_trace(trace, tmp_path / f"t{suffix}")
    identical(read_trace(tmp_path / f"t{suffix}"), trace)


@given(names=st.lists(st.none() | st.text(), min_size=1, max_size=6), note=st.text())
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_name_survives_csv(
    tmp_path: Path, identical: Identical, names: list[str | None], note: str
) -> None:
    ones = np.ones(len(names), dtype=np.int64)
    trace = Trace(
        ones, ones, ones, client=tuple(names), session=tuple(reversed(names)), notes=(note,)
    )
    write_trace(trace, tmp_path / "t.csv")
    identical(read_trace(tmp_path / "t.csv"), trace)


def test_an_edited_file_is_checked_like_any_other(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    write_trace(generate(requests=2, rate=1, arrival="constant", prompt=4, output=4), path)
    path.write_text(path.read_text().replace("2000000000,4,4", "2000000000,0,4"))
    with pytest.raises(WorkloadError, match="line 6, column prompt_tokens: '0' is below 1"):
        read_trace(path)


def test_another_version_of_the_format_is_refused(write: Write) -> None:
    text = "# runway trace 9\narrival_ns,prompt_tokens,output_tokens\n0,1,1\n"
    with pytest.raises(WorkloadError, match=r"line 1: .* reads version 1"):
        read_trace(write("t.csv", text))
    with pytest.raises(WorkloadError, match="line 1: this Runway reads version 1"):
        read_trace(write("t.jsonl", '{"runway_trace": 9}\n{"arrival_ns": 0}\n'))
    with pytest.raises(WorkloadError, match="line 1: not a Runway trace header"):
        read_trace(write("t.jsonl", '{"runway_trace": 1}\n{"arrival_ns": 0}\n'))


def test_nothing_is_written_when_writing_fails(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    path.write_text("before")
    one = np.ones(1, dtype=np.int64)
    with pytest.raises(WorkloadError, match="a block hash beyond 64 bits"):
        write_trace(Trace(one, one, one, block_hashes=((2**70,),), hash_block_tokens=16), path)
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_places_that_cannot_be_written_are_refused(tmp_path: Path) -> None:
    trace = generate(requests=1, rate=1, prompt=1, output=1)
    with pytest.raises(WorkloadError, match=r"end the name in \.csv"):
        write_trace(trace, tmp_path / "t.txt")
    with pytest.raises(WorkloadError, match="cannot be written"):
        write_trace(trace, tmp_path / "no" / "t.csv")
    with pytest.raises(WorkloadError, match="no requests to write"):
        write_trace(trace.take(np.array([], dtype=np.int64)), tmp_path / "t.csv")
