"""Where a request's time went, interval by interval, from a run that was saved with `--steps`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.units import NS_PER_MS, NS_PER_S

from .saved_run import SavedRun

if TYPE_CHECKING:
    import pandas as pd

Ints = NDArray[np.int64]

PHASES = ("queue", "prefill", "decode", "stalled", "preempted")
"""In the order of a life; `stalled` holds cache and is in no step."""


class Interval(NamedTuple):
    """One phase of one request. request: its row in requests.parquet. Times in ns."""

    request: int
    phase: str
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True, eq=False)
class _Clock:
    """What the intervals of all requests are made from: steps by what is in them; the last end."""

    decodes: _Steps
    prefills: _Steps
    end_ns: int


class _Steps(NamedTuple):
    starts: Ints
    ends: Ints

    def merged(self, low: int, high: int) -> Iterator[tuple[int, int]]:
        """Steps low .. high - 1 as stretches without a pause."""
        starts, ends = self.starts[low:high], self.ends[low:high]
        if len(starts):
            pause = np.flatnonzero(starts[1:] > ends[:-1])
            begin, stop = np.append(0, pause + 1), np.append(pause, len(ends) - 1)
            yield from zip(starts[begin].tolist(), ends[stop].tolist(), strict=True)


def request_phases(run: SavedRun, rows: Iterable[int]) -> Iterator[Interval]:
    """The intervals of these requests, each request's in order and without gaps.

    From arrival to the last token, or to the run's last step for a request that got none. A prompt
    waits in steps that prefill nothing; where a step prefills for others only, which no file
    says, it counts as prefill all the same. Nothing for requests that never arrived or were
    rejected. The run must have steps, tokens and preemptions.
    """
    clock, rows = _clock(run), list(rows)
    tokens, away = _of(run.tokens, rows), _of(run.preemptions, rows)
    for row in rows:
        request = run.requests.iloc[row]
        if request["state"] in ("rejected", "not_arrived"):
            continue
        pieces = _columns(tokens.get(row), ("first_s", "last_s", "tokens", "decoded"))
        absences = _columns(away.get(row), ("preempt_s", "resume_s"))
        arrival = _ns(float(request["arrival_s"]), NS_PER_S)
        finish = clock.end_ns
        if request["state"] == "finished":
            finish = arrival + _ns(float(request["e2el_ms"]), NS_PER_MS)
        start = finish
        if not np.isnan(request["queue_ms"]):
            start = arrival + _ns(float(request["queue_ms"]), NS_PER_MS)
        known = [("queue", arrival, start), *_computed(start, finish, pieces, absences, clock)]
        yield from _filled(row, known, finish)


def rows_in_flight(run: SavedRun, span: tuple[int, int]) -> list[int]:
    """Rows of the requests in the system at some time of the span (ns), by arrival."""
    enter = run.requests["arrival_s"].to_numpy(np.float64)
    leave = enter + run.requests["e2el_ms"].to_numpy(np.float64) / 1e3
    leave = np.where(np.isnan(leave), np.inf, leave)
    inside = (enter * NS_PER_S < span[1]) & (leave * NS_PER_S > span[0])
    served = ~run.requests["state"].isin(["rejected", "not_arrived"]).to_numpy()
    rows = np.flatnonzero(inside & served)
    return [int(row) for row in rows[np.argsort(enter[rows], kind="stable")]]


def _of(frame: pd.DataFrame | None, rows: list[int]) -> dict[object, pd.DataFrame]:
    """The lines of each of these requests."""
    assert frame is not None
    wanted = frame if len(rows) > len(frame) else frame[frame["request"].isin(rows)]
    return dict(iter(wanted.groupby("request")))


def _clock(run: SavedRun) -> _Clock:
    assert run.steps is not None
    ends = _int_ns(run.steps["end_s"].to_numpy(np.float64), NS_PER_S)
    lasting = _int_ns(run.steps["step_ms"].to_numpy(np.float64), NS_PER_MS)
    kinds = (run.steps[name].to_numpy() > 0 for name in ("decode_seqs", "prefill_seqs"))
    decodes, prefills = (_Steps((ends - lasting)[kind], ends[kind]) for kind in kinds)
    return _Clock(decodes, prefills, int(ends[-1]) if len(ends) else 0)


def _computed(
    start: int,
    finish: int,
    pieces: dict[str, NDArray[np.float64]],
    absences: dict[str, NDArray[np.float64]],
    clock: _Clock,
) -> Iterator[tuple[str, int, int]]:
    """Prefills, decodes and preemptions; what lies between them is a stall."""
    left = _int_ns(absences["preempt_s"], NS_PER_S)
    back = np.where(np.isnan(absences["resume_s"]), finish / NS_PER_S, absences["resume_s"])
    returns = _int_ns(back, NS_PER_S)
    yield from (("preempted", int(a), int(b)) for a, b in zip(left, returns, strict=True))
    begins = np.sort(np.append(returns, start))
    first = _int_ns(pieces["first_s"], NS_PER_S)
    decoded = pieces["decoded"] > 0
    completed = first[~decoded]
    for begin, end in _prefills(begins, completed, np.append(left, finish), first):
        low = int(np.searchsorted(clock.prefills.starts, begin))
        high = int(np.searchsorted(clock.prefills.ends, end, side="right"))
        yield from (("prefill", *span) for span in clock.prefills.merged(low, high))
    for at, count in zip(first[decoded], pieces["tokens"][decoded].astype(np.int64), strict=True):
        low = int(np.searchsorted(clock.decodes.ends, at))
        yield from (("decode", *span) for span in clock.decodes.merged(low, low + int(count)))


def _prefills(
    begins: Ints, completed: Ints, stops: Ints, tokens: Ints
) -> Iterator[tuple[int, int]]:
    """From each start or resume to the prompt's completion, or to what came in between.

    A resume whose next token comes from a decode had its cache swapped back in: no prefill.
    """
    stops = np.sort(stops)
    for begin in begins.tolist():
        stop = int(stops[np.searchsorted(stops, begin, side="right")]) if len(stops) else begin
        done = completed[(completed > begin) & (completed <= stop)]
        next_token = tokens[(tokens > begin) & (tokens <= stop)]
        if len(done):
            yield begin, int(done[0])
        elif not len(next_token) and stop > begin:
            yield begin, stop


def _filled(row: int, known: list[tuple[str, int, int]], finish: int) -> Iterator[Interval]:
    """In order, with stalls between; touching intervals of one phase are one."""
    held: Interval | None = None
    reached = known[0][1]
    for phase, start, end in [*sorted(known, key=lambda part: part[1:]), ("", finish, finish)]:
        for part in (("stalled", reached, start), (phase, max(start, reached), end)):
            if part[2] <= part[1]:
                continue
            if held is not None and held.phase == part[0]:
                held = held._replace(end_ns=part[2])
                continue
            if held is not None:
                yield held
            held = Interval(row, *part)
        reached = max(reached, end)
    if held is not None:
        yield held


def _columns(part: pd.DataFrame | None, names: tuple[str, ...]) -> dict[str, NDArray[np.float64]]:
    if part is None:
        return {name: np.zeros(0) for name in names}
    return {name: part[name].to_numpy(np.float64, na_value=np.nan) for name in names}


def _ns(value: float, per: int) -> int:
    return round(value * per)


def _int_ns(values: NDArray[np.float64], per: int) -> Ints:
    return np.rint(values * per).astype(np.int64)
