"""Order, ties, ids and determinism of what is read and generated (U14)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from simulator.errors import WorkloadError
from workloads import read_trace

Write = Callable[..., Path]

ROOT = Path(__file__).resolve().parents[2]


def test_unsorted_rows_are_sorted_with_one_notice_and_keep_their_ids(write: Write) -> None:
    content = "id,arrival_s,prompt_tokens,output_tokens\na,5,1,1\nb,0,2,2\nc,3,3,3\n"
    trace = read_trace(write("t.csv", content))
    assert trace.ids == ("b", "c", "a")
    assert trace.prompt_tokens.tolist() == [2, 3, 1]
    assert sum("not sorted" in note for note in trace.notes) == 1


def test_without_ids_the_row_number_is_the_id(write: Write) -> None:
    content = "arrival_s,prompt_tokens,output_tokens\n5,1,1\n0,2,2\n3,3,3\n"
    trace = read_trace(write("t.csv", content))
    assert [trace.id_of(row) for row in range(3)] == ["1", "2", "0"]


def test_a_calendar_trace_starts_at_its_earliest_row_not_its_first(write: Write) -> None:
    content = (
        "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        "2023-11-16 18:17:05,1,1\n2023-11-16 18:17:03,2,1\n"
    )
    assert read_trace(write("t.csv", content)).arrival_ns.tolist() == [0, 2_000_000_000]


def test_duplicate_ids_are_refused_with_both_lines(write: Write) -> None:
    content = "id,arrival_s,prompt_tokens,output_tokens\nr7,0,1,1\nr8,1,1,1\nr7,2,1,1\n"
    path = write("t.csv", content)
    for bad_rows in ("refuse", "skip"):
        with pytest.raises(WorkloadError, match="lines 2 and 4: id 'r7' is used twice"):
            read_trace(path, bad_rows=bad_rows)


def test_an_empty_id_is_a_bad_cell(write: Write) -> None:
    with pytest.raises(WorkloadError, match="line 2, column id: '' is empty"):
        read_trace(write("t.csv", "id,arrival_s,prompt_tokens,output_tokens\n,0,1,1\n"))


def test_a_thousand_ties_keep_the_order_of_the_file(write: Write) -> None:
    rows = "".join(f"0,{n + 1},1\n" for n in range(1000))
    trace = read_trace(write("t.csv", "arrival_s,prompt_tokens,output_tokens\n" + rows))
    assert len(trace) == 1000
    assert trace.prompt_tokens.tolist() == list(range(1, 1001))
    assert not any("sorted" in note for note in trace.notes)


def test_rows_beyond_one_chunk_keep_their_lines_and_numbers(write: Write) -> None:
    rows = ["0,1,1"] * 40_000
    rows[35_000] = "0,1"
    content = "arrival_s,prompt_tokens,output_tokens\n" + "\n".join(rows)
    path = write("t.csv", content)
    with pytest.raises(WorkloadError, match="line 35002, column output_tokens"):
        read_trace(path)
    trace = read_trace(path, bad_rows="skip")
    assert (len(trace), trace.id_of(34_999), trace.id_of(35_000)) == (39_999, "34999", "35001")


def test_the_same_seed_gives_the_same_bytes_under_any_hash_seed(tmp_path: Path) -> None:
    program = (
        "import sys; from workloads import generate, merge, preset, write_trace\n"
        "a = preset('coding-agent', requests=50, seed=4)\n"
        "b = generate(requests=50, users=4, think_time_s=1, think='exponential',\n"
        "             prompt='uniform:1:9', output=3, seed=5)\n"
        "write_trace(merge({'a': a, 'b': b}), sys.argv[1])"
    )
    files = []
    for hash_seed in ("0", "4242"):
        files.append(tmp_path / f"{hash_seed}.csv.gz")
        subprocess.run(
            [sys.executable, "-c", program, str(files[-1])],
            check=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
        )
    assert files[0].read_bytes() == files[1].read_bytes()
