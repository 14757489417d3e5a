"""Files that are not what they claim are refused, in words that name the way out (U12)."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from simulator.errors import RunwayError, WorkloadError
from workloads import FORMATS, filter_lengths, read_trace

Write = Callable[..., Path]

HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
ROW = "2023-11-16 18:17:03.9799600,4808,10\n"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "no requests, the file is empty"),
        ("\ufeff\n\n", "no requests, the file is empty"),
        (HEADER, "no requests, the file has a header and no rows"),
        (HEADER + "\n\n", "no requests, the file has a header and no rows"),
        ("[1, 2]", "one JSON object a line"),
        (b"\xff\xfeT\x00", "is not UTF-8 text"),
        (HEADER + '2023-11-16 18:17:03,"4808"x,10\n', "line 2: broken CSV"),
        (HEADER + '2023-11-16 18:17:03,"4808,10\n', "broken CSV"),
    ],
)
def test_a_file_without_requests_or_of_another_kind_is_refused(
    write: Write, content: str | bytes, reason: str
) -> None:
    path = write("t.csv", content)
    with pytest.raises(WorkloadError, match=reason) as caught:
        read_trace(path)
    assert str(path) in str(caught.value)
    assert isinstance(caught.value, RunwayError)


def test_a_filter_that_keeps_nothing_says_how_many_rows_there_were(write: Write) -> None:
    trace = read_trace(write("t.csv", HEADER + ROW + ROW))
    with pytest.raises(
        WorkloadError,
        match="no requests: length filter max_prompt 100 keeps none of the 2 requests",
    ):
        filter_lengths(trace, max_prompt=100)


def test_a_missing_column_names_those_found_and_the_near_one(write: Write) -> None:
    path = write("t.csv", HEADER.replace("GeneratedTokens", "generated_tokens") + ROW)
    with pytest.raises(WorkloadError) as caught:
        read_trace(path)
    message = str(caught.value)
    assert "line 1: no column 'GeneratedTokens'" in message
    assert "did you mean generated_tokens?" in message
    assert "Columns found: TIMESTAMP, ContextTokens, generated_tokens." in message
    fixed = read_trace(path, columns={"output_tokens": "generated_tokens"})
    assert fixed.output_tokens.tolist() == [10]


def test_a_header_of_no_format_lists_the_formats_and_near_matches(write: Write) -> None:
    with pytest.raises(WorkloadError) as caught:
        read_trace(write("t.csv", "time,prompt_token,answer\n1,2,3\n"))
    message = str(caught.value)
    assert "Columns found: time, prompt_token, answer." in message
    assert "prompt_token, did you mean prompt_tokens?" in message
    assert all(name in message for name in FORMATS)


@pytest.mark.parametrize("keep", [0.1, 0.5, 0.99])
def test_gzip_cut_in_the_middle_gives_no_result(write: Write, keep: float) -> None:
    rng = np.random.Generator(np.random.PCG64(3))
    rows = "".join(f"2023-11-16 18:17:03,{p},10\n" for p in rng.integers(1, 9999, 5000))
    whole = gzip.compress((HEADER + rows).encode())
    path = write("t.csv.gz", whole[: int(len(whole) * keep)])
    with pytest.raises(WorkloadError, match="gzip data is damaged or cut off"):
        read_trace(path)


def test_gzip_with_a_wrong_checksum_gives_no_result(write: Write) -> None:
    whole = bytearray(gzip.compress((HEADER + ROW).encode()))
    whole[-6] ^= 1
    with pytest.raises(WorkloadError, match="gzip data is damaged or cut off"):
        read_trace(write("t.csv.gz", bytes(whole)))


def test_a_directory_and_a_missing_path_are_refused(write: Write, tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="is a directory"):
        read_trace(tmp_path)
    write("azure.csv", HEADER + ROW)
    with pytest.raises(WorkloadError, match=r"no such file, did you mean azure\.csv\?"):
        read_trace(tmp_path / "azur.csv")


def test_unknown_formats_fields_and_options_name_the_nearest(write: Write) -> None:
    path = write("t.csv", HEADER + ROW)
    with pytest.raises(WorkloadError, match=r"'azur', did you mean azure\?"):
        read_trace(path, format="azur")
    with pytest.raises(WorkloadError, match=r"'prompt_token', did you mean prompt_tokens\?"):
        read_trace(path, columns={"prompt_token": "ContextTokens"})
    with pytest.raises(WorkloadError, match="arrival_s and arrival_ms both give the arrival"):
        read_trace(path, columns={"arrival_s": "a", "arrival_ms": "b"})
    with pytest.raises(WorkloadError, match="bad_rows 'ignore' must be refuse or skip"):
        read_trace(path, bad_rows="ignore")  # type: ignore[arg-type]
    with pytest.raises(WorkloadError, match="holds csv, format mooncake is jsonl"):
        read_trace(path, format="mooncake")


def test_a_column_that_is_there_twice_is_refused(write: Write) -> None:
    content = "arrival_s,prompt_tokens,output_tokens,prompt_tokens\n0,1,1,2\n"
    with pytest.raises(WorkloadError, match="column 'prompt_tokens' is there twice"):
        read_trace(write("t.csv", content))


def test_broken_parquet_is_refused(write: Write) -> None:
    with pytest.raises(WorkloadError, match="is not a readable Parquet file"):
        read_trace(write("t.parquet", b"PAR1 and then nothing of the kind PAR1"))
