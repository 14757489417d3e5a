"""The trace formats Runway reads: which column of the file is which field of a request.

To add a format, add one entry to `KNOWN`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

ARRIVALS = ("timestamp", "arrival_s", "arrival_ms", "arrival_us", "arrival_ns")
"""Ways to give an arrival; exactly one per file. `timestamp` is a calendar date and time."""

FIELDS: dict[str, str] = {
    "timestamp": "date and time of arrival, counted from the earliest row (100 ns and finer kept)",
    "arrival_s": "arrival in seconds from the start",
    "arrival_ms": "arrival in milliseconds from the start",
    "arrival_us": "arrival in microseconds from the start",
    "arrival_ns": "arrival in nanoseconds from the start",
    "prompt_tokens": "prompt length in tokens, at least 1",
    "output_tokens": "output length in tokens, at least 1",
    "id": "the request's own name, unique in the file",
    "priority": "smaller is sooner; default 0",
    "client": "who sent it",
    "max_tokens": "declared output limit; 0 or empty means none",
    "predicted_output_tokens": "output length that a predictor expects; 0 or empty means none",
    "think_ns": "pause after the parent's finish (closed loop: this user's last), nanoseconds",
    "session": "conversation it belongs to",
    "parent": "id of the turn before it: the prompt starts with that one's prompt and output",
    "block_hashes": "ids of consecutive prefix blocks of the prompt",
    "prefix_group": "requests whose prompts start with the same text, by name",
    "prefix_tokens": "how many leading prompt tokens the group has in common",
    "source_row": "0-based position in the original source",
}
"""Field name -> meaning: the keys of a column map."""


@dataclass(frozen=True, slots=True)
class Format:
    """One trace format.

    description: one line for listings. layouts: the kinds of file it comes in.
    shapes: alternative sets of columns it needs, each field -> column name.
    optional: fields read when their column is there.
    """

    description: str
    layouts: tuple[str, ...]
    shapes: tuple[Mapping[str, str], ...]
    optional: Mapping[str, str] = field(default_factory=dict)


def _own_names(layout: str) -> Format:
    shapes = tuple({name: name for name in (a, "prompt_tokens", "output_tokens")} for a in ARRIVALS)
    needed = {*ARRIVALS, "prompt_tokens", "output_tokens"}
    return Format(
        f"generic {layout}: fields named as Runway names them, or mapped with columns",
        (layout,),
        shapes,
        {name: name for name in FIELDS if name not in needed},
    )


def _lengths(prompt: str, output: str) -> dict[str, str]:
    return {"prompt_tokens": prompt, "output_tokens": output}


KNOWN: dict[str, Format] = {
    "azure": Format(
        "Azure LLM inference traces: TIMESTAMP,ContextTokens,GeneratedTokens",
        ("csv",),
        ({"timestamp": "TIMESTAMP", **_lengths("ContextTokens", "GeneratedTokens")},),
    ),
    "mooncake": Format(
        "Mooncake JSON lines: timestamp (ms) or arrival_s, input_length, output_length, hash_ids",
        ("jsonl",),
        (
            {"arrival_ms": "timestamp", **_lengths("input_length", "output_length")},
            {"arrival_s": "arrival_s", **_lengths("input_length", "output_length")},
        ),
        {"block_hashes": "hash_ids"},
    ),
    "burstgpt": Format(
        "BurstGPT CSV: Timestamp (s), Request tokens, Response tokens (0 = failed), Session ID",
        ("csv",),
        ({"arrival_s": "Timestamp", **_lengths("Request tokens", "Response tokens")},),
        {"session": "Session ID"},
    ),
    "csv": _own_names("csv"),
    "jsonl": _own_names("jsonl"),
    "parquet": _own_names("parquet"),
    "lengths": Format(
        "prompt and output lengths without arrival times (ShareGPT-style); all arrive at t=0",
        ("csv", "jsonl", "parquet"),
        (
            _lengths("num_prefill_tokens", "num_decode_tokens"),
            _lengths("input_length", "output_length"),
            _lengths("prompt_tokens", "output_tokens"),
            _lengths("input_tokens", "output_tokens"),
            _lengths("prompt_len", "output_len"),
            _lengths("input_len", "output_len"),
        ),
    ),
    "runway": Format(
        "Runway's own: every column of a trace and its provenance; .csv, .jsonl or .parquet",
        ("csv", "jsonl", "parquet"),
        ({name: name for name in ("arrival_ns", "prompt_tokens", "output_tokens")},),
        _own_names("csv").optional,
    ),
}
"""Format name -> format, in the order in which detection tries them."""

FORMATS: dict[str, str] = {name: known.description for name, known in KNOWN.items()}
"""Format name -> one-line description."""
