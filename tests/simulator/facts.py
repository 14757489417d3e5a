"""Everything a run says about what happened, as plain lists, so that two runs compare with ==."""

from __future__ import annotations

from dataclasses import fields

from simulator.result import Evictions, Gaps, RequestLog, Result, StepLog


def facts(result: Result) -> dict[str, object]:
    """Every column of requests, steps, gaps and evictions, and the time of every token."""
    log: dict[str, object] = {"end_ns": result.end_ns}
    for table, columns in (
        ("requests", fields(RequestLog)),
        ("steps", fields(StepLog)),
        ("gaps", fields(Gaps)),
        ("evictions", fields(Evictions)),
    ):
        for column in columns:
            values = getattr(getattr(result, table), column.name)
            plain = list(values) if isinstance(values, tuple) else values.tolist()
            log[f"{table}.{column.name}"] = plain
    log["token_times_ns"] = [result.token_times_ns(row) for row in range(len(result.trace))]
    return log


def assert_same(left: Result, right: Result) -> None:
    """No tolerance: two runs agree in every number; the first that differs is shown."""
    ours, theirs = facts(left), facts(right)
    for name, values in ours.items():
        assert values == theirs[name], name
