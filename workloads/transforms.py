"""Transforms: a `Trace` in, a new one out, with a note of what was done.

A request keeps its id, or its row number in the source, through all of them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.errors import WorkloadError
from simulator.trace import Trace
from simulator.units import NS_PER_S, seconds_to_ns

from .arrivals import Ints
from .limits import MAX_NS, MAX_TOKENS, at_least, positive, shortest
from .links import NONE, earlier_rows, relinked


def scale_rate(trace: Trace, factor: float) -> Trace:
    """`factor` times the request rate: every arrival is divided by it."""
    note = f"rate scaled by {shortest(factor)}"
    return _timed(trace, np.divide, positive("rate factor", factor), note)


def scale_time(trace: Trace, factor: float) -> Trace:
    """Every arrival times `factor`, and nothing else: 0.5 halves them."""
    note = f"arrivals scaled by {shortest(factor)}"
    return _timed(trace, np.multiply, positive("time factor", factor), note)


def at_rate(trace: Trace, rate: float) -> Trace:
    """Arrivals stretched evenly to a mean of `rate` requests per second, gaps over span.

    Raises:
        WorkloadError: all requests arrive at once, so there is no rate to change.
    """
    span_ns = int(trace.arrival_ns[-1] - trace.arrival_ns[0]) if len(trace) else 0
    if not span_ns:
        raise WorkloadError(
            f"rate {rate}: all {len(trace):,} requests arrive at the same instant, there is no "
            "rate to change: give the trace arrivals first (with_arrivals)"
        )
    factor = (len(trace) - 1) * NS_PER_S / span_ns / positive("rate", rate)
    return _timed(trace, np.multiply, factor, f"mean rate set to {shortest(rate)} requests/s")


def with_arrivals(trace: Trace, arrival_ns: Ints) -> Trace:
    """The same requests at other times, int64 nanoseconds, shape (len(trace),), row by row."""
    if len(arrival_ns) != len(trace):
        raise WorkloadError(f"{len(arrival_ns):,} arrivals for {len(trace):,} requests")
    return trace.changed("arrivals replaced", arrival_ns=np.asarray(arrival_ns, dtype=np.int64))


def spread_ties(trace: Trace, seed: int) -> Trace:
    """Arrivals that share a coarse stamp, spread at random until the next stamp.

    File order is kept. The last stamp's tick is as long as the median of the others. A turn that
    waits for an earlier one keeps that one's arrival.

    Source: Mooncake's conversation trace stamps 12,031 arrivals with 1,180 distinct times.

    Raises:
        WorkloadError: there is only one stamp, so no tick to spread over.
    """
    earlier = earlier_rows(trace)
    own = (earlier == NONE) | (trace.arrival_ns != trace.arrival_ns[earlier])
    if trace.think_ns is None:
        own[:] = True
    stamps, counts = np.unique(trace.arrival_ns[own], return_counts=True)
    if len(stamps) < 2:
        raise WorkloadError(
            f"all {len(trace):,} requests share one arrival, there is no tick to spread them over: "
            "use with_arrivals"
        )
    ticks = np.diff(stamps)
    ticks = np.append(ticks, int(np.median(ticks)))
    group = np.repeat(np.arange(len(stamps)), counts)
    rng = np.random.Generator(np.random.PCG64(at_least("seed", seed, 0)))
    share = rng.random(int(own.sum()))
    share = share[np.lexsort((share, group))]
    offset = np.where(counts[group] > 1, np.floor(share * ticks[group]), 0).astype(np.int64)
    tied = int(counts[counts > 1].sum())
    note = f"{tied:,} arrivals that shared a stamp spread within their tick, seed={seed}"
    arrival_ns = trace.arrival_ns.copy()
    arrival_ns[own] = stamps[group] + offset
    for row in np.flatnonzero(~own).tolist():
        arrival_ns[row] = arrival_ns[earlier[row]]
    return trace.changed(note, arrival_ns=arrival_ns)


def window(trace: Trace, start_s: float = 0.0, end_s: float | None = None) -> Trace:
    """Requests that arrive in [start_s, end_s) seconds, re-based so that start_s becomes 0.

    Raises:
        WorkloadError: nothing arrives there, or the window is empty.
    """
    end = float("inf") if end_s is None else end_s
    if not 0 <= start_s < end:
        raise WorkloadError(f"window from {start_s} s to {end_s} s must be 0 <= start < end")
    start_ns = seconds_to_ns(start_s)
    inside = trace.arrival_ns >= start_ns
    if end_s is not None:
        inside &= trace.arrival_ns < min(seconds_to_ns(end_s), MAX_NS)
    until = "its end" if end_s is None else f"{shortest(end_s)} s"
    kept = _kept(trace, inside, f"window from {shortest(start_s)} s to {until}")
    return replace(kept, arrival_ns=kept.arrival_ns - start_ns)


def head(trace: Trace, requests: int) -> Trace:
    """The first `requests` to arrive, or all if there are fewer."""
    at_least("requests", requests, 1)
    return _kept(trace, np.arange(len(trace)) < requests, f"first {requests:,} requests")


def filter_lengths(
    trace: Trace,
    *,
    min_prompt: int | None = None,
    max_prompt: int | None = None,
    min_output: int | None = None,
    max_output: int | None = None,
) -> Trace:
    """Requests whose lengths are inside every given limit (inclusive), in tokens.

    Raises:
        WorkloadError: no request is.
    """
    inside = np.ones(len(trace), dtype=np.bool_)
    for name, low, high in (("prompt", min_prompt, max_prompt), ("output", min_output, max_output)):
        tokens = getattr(trace, f"{name}_tokens")
        inside &= tokens >= (low or 0)
        if high is not None:
            inside &= tokens <= high
    limits = _limits(min_prompt, max_prompt, min_output, max_output)
    return _kept(trace, inside, f"length filter {limits}")


def clip_lengths(
    trace: Trace,
    *,
    min_prompt: int | None = None,
    max_prompt: int | None = None,
    min_output: int | None = None,
    max_output: int | None = None,
) -> Trace:
    """Lengths outside a limit set to the limit, in tokens; no request is dropped.

    A prompt that changes keeps the hashes of its full blocks only. A later turn starts with the
    earlier one as that is now, as far as its own prompt goes.
    """
    for low, high in ((min_prompt, max_prompt), (min_output, max_output)):
        at_least("least length", 1 if low is None else low, 1)
        at_least("greatest length", 1 if high is None else high, low or 1)
    prompts = np.clip(trace.prompt_tokens, min_prompt or 1, max_prompt or MAX_TOKENS)
    outputs = np.clip(trace.output_tokens, min_output or 1, max_output or MAX_TOKENS)
    changed = (prompts != trace.prompt_tokens) | (outputs != trace.output_tokens)
    limits = _limits(min_prompt, max_prompt, min_output, max_output)
    columns: dict[str, Any] = {"prompt_tokens": prompts, "output_tokens": outputs}  # Any: columns
    if trace.block_hashes is not None and trace.hash_block_tokens:
        full = np.minimum(prompts, trace.prompt_tokens) // trace.hash_block_tokens
        same = prompts == trace.prompt_tokens
        columns["block_hashes"] = tuple(
            ids if unchanged else ids[:blocks]
            for ids, unchanged, blocks in zip(trace.block_hashes, same, full, strict=True)
        )
    return trace.changed(f"lengths clipped to {limits}: {changed.sum():,} requests", **columns)


def _limits(*values: int | None) -> str:
    names = ("min_prompt", "max_prompt", "min_output", "max_output")
    given = [f"{n} {v}" for n, v in zip(names, values, strict=True) if v is not None]
    if not given:
        raise WorkloadError(f"give at least one of {', '.join(names)}")
    return ", ".join(given)


def _timed(trace: Trace, by: np.ufunc, factor: float, note: str) -> Trace:
    with np.errstate(over="ignore", invalid="ignore"):
        arrival_ns = np.rint(by(trace.arrival_ns, factor))
    if len(trace) and not float(arrival_ns[-1]) < MAX_NS:
        raise WorkloadError(f"{note}: the last arrival would be more than 146 years away")
    return trace.changed(note, arrival_ns=arrival_ns.astype(np.int64))


def _kept(trace: Trace, inside: NDArray[np.bool_], what: str) -> Trace:
    kept = int(inside.sum())
    if not kept:
        raise WorkloadError(f"no requests: {what} keeps none of the {len(trace):,} requests")
    taken = trace.take(inside, f"{what}: {kept:,} of {len(trace):,} requests kept")
    return relinked(trace, taken)
