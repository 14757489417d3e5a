"""Each known format is read as its publisher means it (U09-U11)."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from simulator.errors import WorkloadError
from simulator.trace import Trace
from workloads import read_trace

Write = Callable[..., Path]
Identical = Callable[[Trace, Trace], None]

AZURE = (
    "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
    "2023-11-16 18:17:03.9799600,4808,10\r\n"
    "2023-11-16 18:17:04.0319600,3180,8"
)
BURSTGPT = (
    "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    "5,ChatGPT,472,18,490,Conversation log\n"
    "45,ChatGPT,1087,0,1087,Conversation log\n"
    "118.5,GPT-4,417,276,693,API log\n"
    "120,GPT-4,90,0,90,API log\n"
    "170,ChatGPT,1360,647,2007,Conversation log\n"
)


def lists(trace: Trace) -> tuple[list[int], list[int], list[int]]:
    return trace.arrival_ns.tolist(), trace.prompt_tokens.tolist(), trace.output_tokens.tolist()


def test_azure_keeps_100_ns_and_its_unterminated_last_row(write: Write) -> None:
    trace = read_trace(write("code.csv", AZURE))
    assert lists(trace) == ([0, 52_000_000], [4808, 3180], [10, 8])
    assert trace.rows_in == 2


@pytest.mark.parametrize(
    "content",
    [
        AZURE.replace("\r\n", "\n"),
        "\ufeff" + AZURE,
        AZURE + "\r\n\r\n",
        AZURE + "\r\n   \r\n",
        AZURE.replace("600,", "600+00:00,"),
        AZURE.replace("18:17:03.9799600", "20:17:03.9799600+02:00"),
        AZURE.replace("2023-11-16 ", "2023-11-16T"),
    ],
    ids=["lf", "bom", "blank-line", "spaces", "utc-offset", "offset", "iso"],
)
def test_azure_reads_the_same_in_other_spellings(write: Write, content: str) -> None:
    assert lists(read_trace(write("code.csv", content))) == lists(
        read_trace(write("plain.csv", AZURE))
    )


def test_gzip_reads_like_the_plain_file_whatever_its_name(write: Write) -> None:
    plain = read_trace(write("a.csv", AZURE))
    packed = gzip.compress(AZURE.encode())
    assert lists(read_trace(write("a.csv.gz", packed))) == lists(plain)
    assert lists(read_trace(write("named-plain.csv", packed))) == lists(plain)


def test_mooncake_is_milliseconds_and_keeps_hashes_and_the_order_of_ties(write: Write) -> None:
    rows = [
        {"timestamp": 0, "input_length": 1025, "output_length": 5, "hash_ids": [0, 1, 2]},
        {"timestamp": 0, "input_length": 512, "output_length": 6, "hash_ids": [0], "extra": "x"},
        {"timestamp": 3536999, "input_length": 3, "output_length": 7, "hash_ids": [9]},
    ]
    trace = read_trace(write("m.jsonl", "\n".join(map(json.dumps, rows))))
    assert lists(trace) == ([0, 0, 3_536_999_000_000], [1025, 512, 3], [5, 6, 7])
    assert trace.block_hashes == ((0, 1, 2), (0,), (9,))
    assert trace.hash_block_tokens == 512


def test_mooncake_in_seconds_infers_full_blocks_of_16(write: Write) -> None:
    rows = [
        '{"arrival_s": 0.046926808, "input_length": 33, "output_length": 2, "hash_ids": [1, 2]}',
        '{"arrival_s": 1, "input_length": 15, "output_length": 2, "hash_ids": []}',
        '{"arrival_s": 2e0, "input_length": 15, "output_length": 2}',
    ]
    trace = read_trace(write("s.jsonl", "\n".join(rows)))
    assert trace.arrival_ns.tolist() == [46_926_808, 10**9, 2 * 10**9]
    assert trace.block_hashes == ((1, 2), (), ())
    assert trace.hash_block_tokens == 16


def test_hashes_that_fit_no_block_size_are_refused_unless_it_is_given(write: Write) -> None:
    row = '{"timestamp": 0, "input_length": 128, "output_length": 2, "hash_ids": [1, 2]}'
    path = write("odd.jsonl", row)
    with pytest.raises(WorkloadError, match=r"odd.jsonl, line 1: 2 block hashes .* 128 tokens"):
        read_trace(path)
    assert read_trace(path, hash_block_tokens=64).hash_block_tokens == 64
    with pytest.raises(WorkloadError, match="line 1: 2 block hashes of 128 tokens exceed"):
        read_trace(path, hash_block_tokens=128)


def test_burstgpt_drops_failed_rows_counts_them_and_keeps_the_gaps(write: Write) -> None:
    trace = read_trace(write("b.csv", BURSTGPT))
    arrival_ns = [5 * 10**9, 118_500_000_000, 170 * 10**9]
    assert lists(trace) == (arrival_ns, [472, 417, 1360], [18, 276, 647])
    assert trace.dropped == {"failed (0 output tokens)": 2}
    assert trace.rows_in == 5
    assert [trace.id_of(row) for row in range(3)] == ["0", "2", "4"]
    assert "dropped 2 of 5 rows: failed (0 output tokens) (2)" in trace.notes


def test_burstgpt_failed_rows_can_be_prompt_only_work(write: Write) -> None:
    trace = read_trace(write("b.csv", BURSTGPT), failed_rows="prompt-only")
    assert trace.prompt_tokens.tolist() == [472, 1087, 417, 90, 1360]
    assert trace.output_tokens.tolist() == [18, 1, 276, 1, 647]
    assert "2 failed rows kept as prompt-only: 1 output token" in trace.notes


def test_burstgpt_failed_rows_can_be_refused(write: Write) -> None:
    with pytest.raises(WorkloadError, match=r"b.csv, line 3, column Response tokens: '0'"):
        read_trace(write("b.csv", BURSTGPT), failed_rows="refuse")


def test_burstgpt_sessions_are_kept_and_elapsed_time_is_not_used(write: Write) -> None:
    lines = BURSTGPT.splitlines()
    content = "\n".join(
        [lines[0] + ",Session ID,Elapsed time", lines[1] + ",s1,99.5", lines[3] + ",,1"]
    )
    trace = read_trace(write("b2.csv", content))
    assert trace.session == ("s1", None)
    assert trace.arrival_ns.tolist() == [5 * 10**9, 118_500_000_000]


def test_prompt_only_is_refused_where_no_row_can_have_failed(write: Write) -> None:
    with pytest.raises(WorkloadError, match="prompt-only is for burstgpt"):
        read_trace(write("a.csv", AZURE), failed_rows="prompt-only")


def test_length_files_have_all_requests_at_zero_and_say_so(write: Write) -> None:
    trace = read_trace(write("l.csv", "num_prefill_tokens,num_decode_tokens\n3772,54\n2015,156\n"))
    assert lists(trace) == ([0, 0], [3772, 2015], [54, 156])
    assert trace.notes[-1] == "no arrival times in the file: every request arrives at t=0"


def test_a_time_column_is_never_forgotten_by_the_length_format(write: Write) -> None:
    with pytest.raises(WorkloadError, match="cannot tell the trace format"):
        read_trace(write("l.csv", "request_time,input_tokens,output_tokens\n5,10,2\n"))


@pytest.mark.parametrize(
    ("field", "cell"),
    [
        ("arrival_s", "1.5"),
        ("arrival_ms", "1500"),
        ("arrival_us", "1500000.0"),
        ("arrival_ns", "1500000000"),
    ],
)
def test_a_column_map_names_the_unit_of_the_arrival(write: Write, field: str, cell: str) -> None:
    path = write("g.csv", f"when,in,out,who\n{cell},10,2,alice\n")
    columns = {field: "when", "prompt_tokens": "in", "output_tokens": "out", "client": "who"}
    trace = read_trace(path, columns=columns)
    assert lists(trace) == ([1_500_000_000], [10], [2])
    assert trace.client == ("alice",)


def test_seconds_keep_every_digit_of_a_unix_time(write: Write) -> None:
    path = write("g.csv", "arrival_s,prompt_tokens,output_tokens\n1700000000.123456789,1,1\n")
    assert read_trace(path).arrival_ns.tolist() == [1_700_000_000_123_456_789]


def test_generic_jsonl_reads_keys_that_only_some_rows_have(write: Write) -> None:
    rows = [
        {"arrival_ms": 0.5, "prompt_tokens": 10, "output_tokens": 2},
        {"arrival_ms": 1, "prompt_tokens": 12.0, "output_tokens": 2, "priority": -3},
        {"arrival_ms": 2, "prompt_tokens": 10, "output_tokens": 2, "session": "s", "max_tokens": 9},
    ]
    trace = read_trace(write("g.jsonl", "\n".join(map(json.dumps, rows))))
    assert trace.arrival_ns.tolist() == [500_000, 1_000_000, 2_000_000]
    assert trace.priority is not None
    assert trace.max_tokens is not None
    assert trace.priority.tolist() == [0, -3, 0]
    assert trace.max_tokens.tolist() == [0, 0, 9]
    assert trace.session == (None, None, "s")
    assert trace.client is None
    assert trace.think_ns is None


SESSION_ROWS = [
    {"t": 0, "in": 40, "out": 8, "turn": "a", "after": None, "pause": 0, "head": "x", "same": 32},
    {"t": 0, "in": 55, "out": 8, "turn": "b", "after": "a", "pause": 9, "head": "x", "same": 32},
    {"t": 5, "in": 20, "out": 8, "turn": "c", "after": None, "pause": 0, "head": None, "same": 0},
]
SESSION_COLUMNS = {
    **{"arrival_s": "t", "prompt_tokens": "in", "output_tokens": "out", "id": "turn"},
    **{"parent": "after", "think_ns": "pause", "prefix_group": "head", "prefix_tokens": "same"},
}


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_sessions_and_shared_prefixes_are_mapped_like_any_column(
    tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"s{suffix}"
    if suffix == ".csv":
        rows = [
            ",".join("" if cell is None else str(cell) for cell in row.values())
            for row in SESSION_ROWS
        ]
        path.write_text("\n".join([",".join(SESSION_ROWS[0]), *rows]))
    elif suffix == ".jsonl":
        path.write_text("\n".join(map(json.dumps, SESSION_ROWS)))
    else:
        pa = pytest.importorskip("pyarrow")
        pytest.importorskip("pyarrow.parquet").write_table(pa.Table.from_pylist(SESSION_ROWS), path)
    trace = read_trace(path, columns=SESSION_COLUMNS)
    assert trace.parent == (None, "a", None)
    assert trace.think_ns is not None
    assert trace.think_ns.tolist() == [0, 9, 0]
    assert trace.prefix_group == ("x", "x", None)
    assert trace.prefix_tokens is not None
    assert trace.prefix_tokens.tolist() == [32, 32, 0]


def test_a_column_of_pauses_of_zero_is_kept(write: Write) -> None:
    head = "arrival_s,prompt_tokens,output_tokens,id,parent,think_ns"
    trace = read_trace(write("s.csv", f"{head}\n0,4,1,a,,0\n0,6,1,b,a,0\n"))
    assert trace.think_ns is not None
    assert trace.think_ns.tolist() == [0, 0]


def test_a_group_without_its_length_is_refused(write: Write) -> None:
    head = "arrival_s,prompt_tokens,output_tokens"
    with pytest.raises(WorkloadError, match="prefix_group says nothing without prefix_tokens"):
        read_trace(write("g.csv", f"{head},prefix_group\n0,4,1,x\n"))
    with pytest.raises(WorkloadError, match="prefix_tokens says nothing without prefix_group"):
        read_trace(write("t.csv", f"{head},prefix_tokens\n0,4,1,3\n"))


@pytest.mark.parametrize(
    "rows", ["0,4,1,a,b\n0,4,1,b,", "0,4,1,a,\n1,4,1,b,c\n2,4,1,c,", "0,4,1,a,a"]
)
def test_a_turn_that_does_not_come_after_its_parent_is_refused(write: Write, rows: str) -> None:
    line = next(n for n, row in enumerate(rows.split("\n"), 2) if not row.endswith(","))
    with pytest.raises(WorkloadError, match=f"line {line}, column parent: .* does not come before"):
        read_trace(write("s.csv", f"arrival_s,prompt_tokens,output_tokens,id,parent\n{rows}\n"))


def test_a_turn_whose_parent_row_was_dropped_starts_its_conversation(write: Write) -> None:
    rows = "0,0,1,a,\n0,6,1,b,a\n0,8,1,c,b\n0,8,1,d,elsewhere\n"
    path = write("s.csv", f"arrival_s,prompt_tokens,output_tokens,id,parent\n{rows}")
    trace = read_trace(path, bad_rows="skip")
    assert trace.parent == (None, "b", None)
    assert trace.notes[-1] == "turns whose earlier turn was left out: 2 start a conversation"


def test_generic_parquet_reads_integers_floats_and_dates(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "g.parquet"
    when = np.array(["2024-05-10T00:00:01.5", "2024-05-10T00:00:00"], dtype="datetime64[us]")
    pq.write_table(pa.table({"timestamp": when, "p": [10.0, 20.0], "output_tokens": [1, 2]}), path)
    trace = read_trace(path, columns={"prompt_tokens": "p"})
    assert lists(trace) == ([0, 1_500_000_000], [20, 10], [2, 1])


def test_parquet_errors_count_rows(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "g.parquet"
    table = {"arrival_s": [0.0, float("nan")], "prompt_tokens": [1, 2], "output_tokens": [1, 2]}
    pq.write_table(pa.table(table), path)
    with pytest.raises(WorkloadError, match="row 2, column arrival_s: 'nan' is not finite"):
        read_trace(path)


def test_quoted_cells_may_span_lines_without_shifting_line_numbers(write: Write) -> None:
    content = 'arrival_s,prompt_tokens,output_tokens,text\n0,1,1,"two\nlines"\n\n1,x,1,plain\n'
    with pytest.raises(WorkloadError, match="line 5, column prompt_tokens: 'x'"):
        read_trace(write("q.csv", content))
