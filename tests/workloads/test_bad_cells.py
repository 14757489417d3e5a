"""A cell that lies is refused with its line, column and text, or skipped and counted (U13)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from simulator.errors import WorkloadError
from workloads import read_trace

Write = Callable[..., Path]

HEADER = "arrival_s,prompt_tokens,output_tokens"
GOOD = "0,10,2"
BAD = [
    ("nan,10,2", "column arrival_s", "nan", "is not finite"),
    ("inf,10,2", "column arrival_s", "inf", "is not finite"),
    ("-Infinity,10,2", "column arrival_s", "-Infinity", "is not finite"),
    ("-1.0,10,2", "column arrival_s", "-1.0", "is below 0"),
    (",10,2", "column arrival_s", "", "is empty"),
    (".,10,2", "column arrival_s", ".", "is not a number"),
    ("1e30,10,2", "column arrival_s", "1e30", "is too large"),
    ('"1,024",10,2', "column arrival_s", "1,024", "is not a number"),
    ("1_0,10,2", "column arrival_s", "1_0", "is not a number"),
    ("0,0,2", "column prompt_tokens", "0", "is below 1"),
    ("0,-5,2", "column prompt_tokens", "-5", "is below 1"),
    ("0,12.5,2", "column prompt_tokens", "12.5", "is not a whole number"),
    ("0,,2", "column prompt_tokens", "", "is empty"),
    ("0,ten,2", "column prompt_tokens", "ten", "is not a number"),
    ("0,99999999999,2", "column prompt_tokens", "99999999999", "is too large"),
    ("0,10,0", "column output_tokens", "0", "is below 1"),
    ("0,10,2,7", "column 4", "7", "is an extra column"),
    ("0,10", "column output_tokens", "", "is missing, a short row"),
]


@pytest.mark.parametrize(("row", "place", "text", "reason"), BAD)
def test_a_bad_cell_is_refused_with_its_line_column_and_text(
    write: Write, row: str, place: str, text: str, reason: str
) -> None:
    path = write("t.csv", f"{HEADER}\n{GOOD}\n{row}\n{GOOD}\n")
    with pytest.raises(
        WorkloadError, match=re.escape(f"{path}, line 3, {place}: {text!r} {reason}")
    ):
        read_trace(path)


@pytest.mark.parametrize(("row", "place", "text", "reason"), BAD)
def test_a_skipped_row_is_counted_by_reason(
    write: Write, row: str, place: str, text: str, reason: str
) -> None:
    trace = read_trace(write("t.csv", f"{HEADER}\n{row}\n{GOOD}\n"), bad_rows="skip")
    assert len(trace) == 1
    assert trace.rows_in == 2
    assert trace.dropped == {f"{place} {reason}": 1}
    assert trace.id_of(0) == "1", "the row number in the source, the bad row included"
    assert trace.notes[-1] == f"dropped 1 of 2 rows: {place} {reason} (1)"


def test_all_bad_cells_in_one_file_are_each_counted_once(write: Write) -> None:
    rows = "\n".join(row for row, *_ in BAD)
    trace = read_trace(write("t.csv", f"{HEADER}\n{rows}\n{GOOD}\n"), bad_rows="skip")
    assert sum(trace.dropped.values()) == len(BAD) == trace.rows_in - 1  # type: ignore[operator]
    assert trace.id_of(0) == str(len(BAD))


def test_a_file_of_nothing_but_bad_rows_has_no_requests(write: Write) -> None:
    path = write("t.csv", f"{HEADER}\n0,0,2\n0,10\n")
    with pytest.raises(
        WorkloadError, match=r"no requests, all 2 rows were dropped: .*below 1 \(1\)"
    ):
        read_trace(path, bad_rows="skip")


def test_the_first_bad_line_is_named_whatever_its_column(write: Write) -> None:
    path = write("t.csv", f"{HEADER}\n0,10,0\nnan,10,2\n0,10\n")
    with pytest.raises(WorkloadError, match="line 2, column output_tokens"):
        read_trace(path)


def test_whole_numbers_may_be_written_with_an_exponent_or_a_zero_fraction(write: Write) -> None:
    trace = read_trace(write("t.csv", f"{HEADER}\n1e1,1e3,12.0\n 2.5 , 7 ,+3\n"))
    assert trace.arrival_ns.tolist() == [2_500_000_000, 10_000_000_000]
    assert trace.prompt_tokens.tolist() == [7, 1000]
    assert trace.output_tokens.tolist() == [3, 12]


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("timestamp", float("nan"), "'NaN' is not finite"),
        ("timestamp", float("inf"), "'Infinity' is not finite"),
        ("timestamp", None, "'' is empty"),
        ("timestamp", True, "'true' is not a number"),
        ("timestamp", -1, "'-1' is below 0"),
        ("input_length", 12.5, "'12.5' is not a whole number"),
        ("input_length", [1], "'[1]' is not a number"),
        ("output_length", 0, "'0' is below 1"),
        ("hash_ids", [1.5], "is not a list of whole numbers"),
    ],
)
def test_json_values_are_held_to_the_same_rules(
    write: Write, key: str, value: object, reason: str
) -> None:
    good = {"timestamp": 0, "input_length": 10, "output_length": 2, "hash_ids": [1]}
    path = write("t.jsonl", f"{json.dumps(good)}\n\n{json.dumps({**good, key: value})}\n")
    with pytest.raises(WorkloadError) as caught:
        read_trace(path)
    assert f"line 3, column {key}: " in str(caught.value)
    assert reason in str(caught.value)


@pytest.mark.parametrize("line", ["{broken", "[1]", "7"])
def test_a_line_that_is_no_json_object_is_named(write: Write, line: str) -> None:
    good = '{"timestamp": 0, "input_length": 10, "output_length": 2}'
    path = write("t.jsonl", f"{good}\n{line}\n{good}\n")
    with pytest.raises(WorkloadError, match=r"line 2, whole line: .* is no JSON object"):
        read_trace(path)
    skipped = read_trace(path, bad_rows="skip")
    assert skipped.dropped == {"whole line is no JSON object": 1}
    assert [skipped.id_of(row) for row in range(2)] == ["0", "2"]


@pytest.mark.parametrize("stamp", ["2023-02-31 00:00:00", "now", "NaT", "9999-01-01 00:00:00", "5"])
def test_a_date_that_does_not_exist_is_refused(write: Write, stamp: str) -> None:
    path = write("t.csv", f"TIMESTAMP,ContextTokens,GeneratedTokens\n{stamp},10,2\n")
    with pytest.raises(WorkloadError, match=r"line 2, column TIMESTAMP: .* is not a date and time"):
        read_trace(path)


def test_long_text_is_shortened_in_the_message(write: Write) -> None:
    with pytest.raises(WorkloadError) as caught:
        read_trace(write("t.csv", f"{HEADER}\n{'x' * 500},1,1\n"))
    assert len(str(caught.value).removeprefix(str(write("t.csv", "")))) < 200


def test_numbers_taken_for_dates_by_the_name_of_their_column(write: Write) -> None:
    path = write("t.csv", "timestamp,prompt_tokens,output_tokens\n0,10,2\n1.5,10,2\n")
    with pytest.raises(WorkloadError) as caught:
        read_trace(path)
    way_out = "; if all rows are numbers, --columns arrival_s=timestamp or arrival_ms=timestamp"
    assert str(caught.value).endswith(
        "'0' is not a date and time: correct the row, or read with bad_rows skip" + way_out
    )
    assert read_trace(path, columns={"arrival_s": "timestamp"}).arrival_ns.tolist() == [
        0,
        15 * 10**8,
    ]


@pytest.mark.parametrize("row", ["now,10,2", "2023-11-16 18:17:03,x,2", "2023-11-16 18:17:03,10,0"])
def test_no_other_bad_cell_is_said_to_be_a_number(write: Write, row: str) -> None:
    path = write("t.csv", f"timestamp,prompt_tokens,output_tokens\n{row}\n")
    with pytest.raises(WorkloadError, match=r"bad_rows skip$"):
        read_trace(path)
