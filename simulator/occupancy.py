"""Cache, engine and queue over a span: shares of time and time-weighted means."""

from __future__ import annotations

import numpy as np

from .intervals import Stays, in_system, waiting
from .result import NOT_YET, Ints, Result, State, Steps
from .statistics import Distribution, describe, describe_weighted, exact_dot
from .units import NS_PER_MS
from .window import Span

_BLOCK = 1 << 20


def occupancy(result: Result, span: Span) -> dict[str, object]:
    """Cache use, busy share, step distributions, requests running, waiting and in system.

    Between steps nothing runs and no cache is held; an empty span has no means.
    """
    steps, length_ns = result.steps, span.length_ns
    part, held_ns = overlap(steps, span)
    used_blocks = steps.used_blocks[part]
    used_area, peak_blocks = exact_dot(used_blocks, held_ns), _most(used_blocks)
    del used_blocks  # long columns are unfolded when asked for, so hold one at a time
    running = steps.running[part]
    running_area, most_running = exact_dot(running, held_ns), _most(running)
    del running
    capacity = result.kv_blocks * result.block_size
    return {
        "kv_util_mean": ratio(used_area, result.kv_blocks * length_ns),
        "kv_util_peak": ratio(peak_blocks, result.kv_blocks),
        "kv_token_util": ratio(stored_token_ns(result, span), capacity * length_ns),
        "engine_busy": ratio(exact_dot(held_ns), length_ns),
        **_step_distributions(steps, span.counted_steps(steps)),
        "running": {"mean": ratio(running_area, length_ns), "max": most_running},
        "waiting": _time_weighted(waiting(result), span),
        "in_system": _time_weighted(in_system(result), span),
    }


def overlap(steps: Steps, span: Span) -> tuple[slice, Ints]:
    """The steps that overlap a span, and for how long each; ns, shape (of the slice,).

    Steps follow one another, so only the first and the last can stick out; the whole run has
    none that do.
    """
    if span.is_whole_run:
        return slice(None), steps.duration_ns
    end_ns, duration_ns = steps.end_ns, steps.duration_ns
    low = int(np.searchsorted(end_ns, span.start_ns, side="right"))
    high = int(np.searchsorted(end_ns, span.end_ns, side="left"))
    if high < len(end_ns) and end_ns[high] - duration_ns[high] < span.end_ns:
        high += 1
    held_ns = duration_ns[low:high].copy()
    if len(held_ns):
        held_ns[-1] -= max(0, int(end_ns[high - 1]) - span.end_ns)
        held_ns[0] -= max(0, span.start_ns - int(end_ns[low] - duration_ns[low]))
    return slice(low, high), held_ns


def stored_token_ns(result: Result, span: Span) -> int:
    """Time integral over the span of tokens in the cache of unfinished requests, in token ns.

    A token is in the cache from the end of the step that computed it; one that was cached, from
    the admission of the request that found it, and for each of them. A finish takes the request's
    prompt + output - 1 tokens out (the last output token is never fed back), a preemption what
    it had.
    """
    steps, log = result.steps, result.requests
    done = np.flatnonzero(log.state == State.FINISHED)
    stored = result.trace.prompt_tokens[done] + log.emitted_tokens[done] - 1
    step_ends = steps.end_ns
    before, until = np.searchsorted(step_ends, [span.start_ns, span.end_ns])
    area = 0
    for tokens in (steps.prefill_tokens, steps.decode_seqs):
        inside = tokens[before:until]
        area += exact_dot(tokens[:before]) * span.length_ns + exact_dot(inside) * span.end_ns
        area -= exact_dot(inside, step_ends[before:until])
    evictions = result.evictions
    started, back = log.first_start_ns != NOT_YET, evictions.resume_ns != NOT_YET
    for sign, tokens, since_ns in (
        (1, log.cached_tokens[started], log.first_start_ns[started]),
        (1, evictions.cached_tokens[back], evictions.resume_ns[back]),
        (-1, stored, log.finish_ns[done]),
        (-1, evictions.lost_tokens, evictions.preempt_ns),
    ):
        held_ns = span.end_ns - np.clip(since_ns, span.start_ns, span.end_ns)
        area += sign * exact_dot(tokens, held_ns)
    return area


def ratio(part: float, whole: float) -> float | None:
    """part / whole, or None where there is nothing to divide by."""
    return part / whole if whole else None


def _most(column: Ints) -> int:
    return int(column.max()) if len(column) else 0


def _time_weighted(stays: Stays, span: Span) -> dict[str, float | int | None]:
    area_ns = stays.area_ns(span.start_ns, span.end_ns)
    peak = stays.peak(span.start_ns, span.end_ns) if span.length_ns else 0
    return {"mean": ratio(area_ns, span.length_ns), "max": peak}


def _step_distributions(steps: Steps, part: slice) -> dict[str, object]:
    decodes = steps.decode_seqs[part]
    return {
        "step_ms": describe(steps.duration_ns[part], per=NS_PER_MS).as_dict(),
        "batch_size": _describe_sum(steps.prefill_seqs[part], decodes).as_dict(),
        "step_tokens": _describe_sum(steps.prefill_tokens[part], decodes).as_dict(),
    }


def _describe_sum(left: Ints, right: Ints) -> Distribution:
    """Describe left + right, small counts each, by tallying: no copy of a long column."""
    tally = np.zeros(_most(left) + _most(right) + 1, dtype=np.int64)
    for start in range(0, len(left), _BLOCK):
        both = left[start : start + _BLOCK] + right[start : start + _BLOCK]
        tally += np.bincount(both, minlength=len(tally))
    values = np.flatnonzero(tally)
    return describe_weighted(values, tally[values])
