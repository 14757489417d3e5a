"""A saved run as a Chrome trace, for ui.perfetto.dev: steps, requests and counters on one clock.

Source: the Trace Event Format: complete events (`X`, with `ts` and `dur` in microseconds),
counters (`C`) and metadata (`M`). Times keep their nanoseconds as three decimals.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.errors import ConfigError
from simulator.units import NS_PER_MS, NS_PER_S

from .phases import Interval, request_phases, rows_in_flight
from .saved_run import SavedRun

Event = dict[str, Any]
"""One trace event. Any: JSON values."""

Ints = NDArray[np.int64]
Span = tuple[int, int]
"""Start and end, ns."""

ENGINE, REQUESTS = 1, 2
"""Process ids: the engine with its steps and counters, and the requests in lanes."""

_NS_PER_US = 1000
_STEP_FACTS = (
    *("prefill_tokens", "prefill_seqs", "decode_seqs", "context_tokens"),
    *("running", "used_blocks", "preempted"),
)
_REQUEST_FACTS = (
    *("client", "prompt_tokens", "output_tokens", "ttft_ms", "tpot_ms", "e2el_ms"),
    *("queue_ms", "stalled_ms", "num_preemptions"),
)


def chrome_trace(run: SavedRun, span: Span | None = None) -> dict[str, Any]:  # Any: JSON values
    """The JSON object of a trace. span: what overlaps it is in the trace; None is all of the run.

    Raises:
        ConfigError: the run was saved without its steps, or nothing happened in the span.
    """
    if run.steps is None or run.tokens is None or run.preemptions is None:
        raise ConfigError(
            f"{run.folder}: no steps.parquet with tokens.parquet here, so nobody knows who ran "
            "when: simulate again with --steps"
        )
    wanted = span or (-(2**62), 2**62)
    events = [*_steps(run, wanted), *_counters(run, wanted), *_lives(run, wanted)]
    if not events:
        raise ConfigError(f"{run.folder}: no step and no request in this window: widen it")
    events.sort(key=lambda event: (event["ts"], -event.get("dur", 0)))
    return {
        "displayTimeUnit": "ms",
        "otherData": {
            "setting": run.setting,
            "runway_version": run.summary["provenance"]["runway_version"],
        },
        "traceEvents": [*_names(), *events],
    }


def _names() -> Iterator[Event]:
    for pid, name in ((ENGINE, "engine"), (REQUESTS, "requests")):
        yield _named("process_name", pid, 0, name)
        yield {**_named("process_sort_index", pid, 0, ""), "args": {"sort_index": pid}}
    yield _named("thread_name", ENGINE, 1, "steps")


def _named(kind: str, pid: int, tid: int, name: str) -> Event:
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "ts": 0, "args": {"name": name}}


def _steps(run: SavedRun, span: Span) -> Iterator[Event]:
    starts, ends = _step_times(run)
    assert run.steps is not None
    facts = {name: run.steps[name].tolist() for name in _STEP_FACTS}
    for step in np.flatnonzero((ends > span[0]) & (starts < span[1])).tolist():
        held = {name: values[step] for name, values in facts.items()}
        kinds = ("prefill" * bool(held["prefill_tokens"]), "decode" * bool(held["decode_seqs"]))
        name = " + ".join(filter(None, kinds)) or "step"
        yield _slice(name, ENGINE, 1, (int(starts[step]), int(ends[step])), {"step": step, **held})


def _counters(run: SavedRun, span: Span) -> Iterator[Event]:
    """Running and KV cache from the steps, 0 while none runs; waiting from the requests."""
    starts, ends = _step_times(run)
    assert run.steps is not None
    idle = np.append(starts[1:] > ends[:-1], np.ones(min(len(ends), 1), np.bool_))
    at = np.concatenate((starts, ends[idle]))
    order = np.argsort(at, kind="stable")
    for name, column in (("running", "running"), ("KV blocks", "used_blocks")):
        level = np.append(run.steps[column].to_numpy(np.int64), np.zeros(int(idle.sum()), np.int64))
        yield from _counter(name, at[order], level[order], span)
    requests = run.requests[run.requests["queue_ms"].notna()]
    come = _ns(requests["arrival_s"], NS_PER_S)
    times = np.append(come, come + _ns(requests["queue_ms"], NS_PER_MS))
    change = np.append(np.ones(len(come), np.int64), -np.ones(len(come), np.int64))
    order = np.argsort(times, kind="stable")
    yield from _counter("waiting", times[order], np.cumsum(change[order]), span)


def _counter(name: str, at: Ints, level: Ints, span: Span) -> Iterator[Event]:
    """One event per change, the last of each instant."""
    last = np.append(at[1:] != at[:-1], np.ones(min(len(at), 1), np.bool_))
    at, level = at[last], level[last]
    changed = np.append(np.ones(min(len(at), 1), np.bool_), level[1:] != level[:-1])
    inside = (at >= span[0]) & (at <= span[1]) & changed
    for when, value in zip(at[inside].tolist(), level[inside].tolist(), strict=True):
        ts = when / _NS_PER_US
        yield {"ph": "C", "name": name, "pid": ENGINE, "tid": 0, "ts": ts, "args": {name: value}}


def _lives(run: SavedRun, span: Span) -> Iterator[Event]:
    """Requests in as few lanes as keep them apart; the phases of each lie inside it."""
    phases = request_phases(run, rows_in_flight(run, span))
    grouped = groupby(phases, key=lambda part: part.request)
    seen: list[tuple[int, list[Interval]]] = [(row, list(group)) for row, group in grouped]
    facts = run.requests[list(_REQUEST_FACTS)].astype(object)
    lanes = _lanes((parts[0].start_ns, parts[-1].end_ns) for _, parts in seen)
    for (row, parts), lane in zip(seen, lanes, strict=True):
        known = {name: value for name, value in facts.iloc[row].items() if value == value}
        name = f"request {run.requests['id'].iloc[row]}"
        life = (parts[0].start_ns, parts[-1].end_ns)
        yield _slice(name, REQUESTS, lane, life, {str(k): v for k, v in known.items()})
        for part in parts:
            yield _slice(part.phase, REQUESTS, lane, (part.start_ns, part.end_ns), {})


def _lanes(lives: Iterable[Span]) -> Iterator[int]:
    """The lowest free lane of each life, from 1; lives by rising start.

    >>> list(_lanes([(0, 10), (5, 20), (10, 12)]))
    [1, 2, 1]
    """
    free: list[int] = []
    busy: list[Span] = []
    lanes = 0
    for start, end in lives:
        while busy and busy[0][0] <= start:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if not free:
            lanes += 1
            heapq.heappush(free, lanes)
        lane = heapq.heappop(free)
        heapq.heappush(busy, (end, lane))
        yield lane


def _slice(name: str, pid: int, tid: int, span: Span, args: Mapping[str, object]) -> Event:
    start, end = span
    return {
        "ph": "X",
        "name": name,
        "cat": "step" if pid == ENGINE else "request",
        "pid": pid,
        "tid": tid,
        "ts": start / _NS_PER_US,
        "dur": (end - start) / _NS_PER_US,
        "args": dict(args),
    }


def _step_times(run: SavedRun) -> tuple[Ints, Ints]:
    assert run.steps is not None
    ends = _ns(run.steps["end_s"], NS_PER_S)
    return ends - _ns(run.steps["step_ms"], NS_PER_MS), ends


def _ns(column: Any, per: int) -> Ints:  # Any: a pandas column of floats
    return np.asarray(np.rint(column.to_numpy(np.float64) * per), np.int64)
