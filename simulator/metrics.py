"""`summarize`: the numbers of a run, as a dict ready for strict JSON.

Names follow `vllm bench serve` where it has one. Every distribution carries its sample count;
what does not exist (no sample, no duration) is None, never 0 or NaN.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict

import numpy as np
from numpy.typing import NDArray

from .errors import ConfigError
from .fairness import fairness
from .occupancy import occupancy, ratio
from .result import NOT_YET, Gaps, Ints, Result, State
from .rework import preemptions, prefix_hits
from .saturation import saturation
from .statistics import Distribution, describe, describe_weighted, exact_dot
from .timings import (
    Slo,
    dispatch_ns,
    e2el_ns,
    norm_latency_ms,
    prefill_ns,
    queue_ns,
    stalled_ns,
    tpot_ms,
    ttft_ns,
)
from .token_times import pooled_gaps
from .units import NS_PER_MS, NS_PER_S, ns_to_seconds
from .window import Span, Trim, Window, resolve

NO_LIMITS = Slo()


def summarize(
    result: Result,
    *,
    slo: Slo | None = None,
    window: Window | Trim | None = None,
    service_weights: tuple[float, float] = (1.0, 2.0),
    client_slo: Mapping[str, Slo] | None = None,
) -> dict[str, object]:
    """All metrics of a run or of a part of it, by field name; times in ms, rates per second.

    slo: limits for the goodput fields, which are None without any. window: a part of the run, or
    warm-up and cool-down to leave out; None is the whole run. service_weights: of a prompt and an
    output token, for fairness between clients. client_slo: limits by which a client's own goodput
    is judged, where they are not `slo`.
    Counts (`rows_in` ... `dropped_by_reason`) are of the whole run whatever the window;
    `window` has those of the requests that arrived in it.

    Raises:
        ConfigError: a trim that leaves nothing, or weights that are negative or all 0.
    """
    _check_weights(service_weights)
    span = resolve(result, window)
    limits = slo or NO_LIMITS
    judged = saturation(result, span)
    submitted = span.submitted(result)
    processed = _processed_tokens(result, span)
    return {
        **_counts(result),
        "window": _window(result, span, window),
        "duration_s": ns_to_seconds(span.length_ns) if submitted.any() else None,
        **_latencies(result, submitted),
        **_throughput(result, span, processed),
        "offered_rate": judged["offered_rate"],
        **_goodput(result, span, limits),
        **occupancy(result, span),
        **prefix_hits(result, submitted),
        **preemptions(result, span, processed),
        "fairness": fairness(result, span, limits, service_weights, client_slo or {}),
        "saturated": judged["saturated"],
        "saturation": judged,
    }


def _check_weights(weights: tuple[float, float]) -> None:
    if not all(0 <= weight < float("inf") for weight in weights) or not any(weights):
        raise ConfigError(f"service_weights are {weights}, must be 0 or more, not all 0")


def _counts(result: Result) -> dict[str, object]:
    """rows_in = submitted + not_arrived + dropped (by the reader) + filtered (by transforms)."""
    trace, state = result.trace, result.requests.state
    dropped = dict(sorted(trace.dropped.items()))
    tally = {each: int(np.count_nonzero(state == each)) for each in State}
    reasons = Counter(reason for reason in result.requests.reason if reason is not None)
    read = len(trace) + sum(dropped.values())
    rows_in = read if trace.rows_in is None else trace.rows_in
    return {
        "rows_in": rows_in,
        "submitted": len(trace) - tally[State.NOT_ARRIVED],
        "finished": tally[State.FINISHED],
        "rejected": tally[State.REJECTED],
        "rejected_by_reason": dict(sorted(reasons.items())),
        "unfinished": tally[State.UNFINISHED],
        "not_arrived": tally[State.NOT_ARRIVED],
        "dropped": sum(dropped.values()),
        "dropped_by_reason": dropped,
        "filtered": rows_in - read,
    }


def _window(result: Result, span: Span, window: Window | Trim | None) -> dict[str, object]:
    state = result.requests.state[span.submitted(result)]
    return {
        "start_s": ns_to_seconds(span.start_ns),
        "end_s": ns_to_seconds(span.end_ns),
        **asdict(window if isinstance(window, Trim) else Trim()),
        "submitted": len(state),
        "finished": int(np.count_nonzero(state == State.FINISHED)),
        "rejected": int(np.count_nonzero(state == State.REJECTED)),
        "unfinished": int(np.count_nonzero(state == State.UNFINISHED)),
    }


def _latencies(result: Result, submitted: NDArray[np.bool_]) -> dict[str, object]:
    """Distributions over those of the submitted requests that finished."""
    log = result.requests
    done = np.flatnonzero(submitted & (log.state == State.FINISHED))
    several = done[log.emitted_tokens[done] > 1]
    tpot = describe(tpot_ms(result, several))
    ttft, e2el, dispatch = (of(result, done) for of in (ttft_ns, e2el_ns, dispatch_ns))
    held_back = bool(dispatch.any())
    in_ns: dict[str, Ints] = {
        "ttft_ms": ttft,
        "e2el_ms": e2el,
        "queue_ms": queue_ns(result, done),
        "dispatch_ms": dispatch,
        "ttft_from_schedule_ms": ttft + dispatch if held_back else dispatch[:0],
        "e2el_from_schedule_ms": e2el + dispatch if held_back else dispatch[:0],
        "prefill_ms": prefill_ns(result, done),
        "active_ms": log.active_ns[done],
        "preempted_ms": log.preempted_ns[done],
        "stalled_ms": stalled_ns(result, done),
    }
    described = {name: describe(values, per=NS_PER_MS) for name, values in in_ns.items()}
    described |= {
        "tpot_ms": tpot,
        "itl_ms": _itl(result, done, several),
        # A request's mean gap is (finish - first token) / (tokens - 1), which is its TPOT: tools
        # that average per request before they aggregate report TPOT under the name ITL.
        "itl_per_request_ms": tpot,
        "norm_latency_ms": describe(norm_latency_ms(result, done)),
        "cached_tokens": describe(log.cached_tokens[done]),
        "num_preemptions": describe(log.preemptions[done]),
        "lost_tokens": describe(log.lost_tokens[done]),
    }
    return {name: distribution.as_dict() for name, distribution in described.items()}


def _itl(result: Result, done: Ints, several: Ints) -> Distribution:
    """All gaps of these finished requests, pooled.

    A hand-made result knows only the gaps of all of them together: of a part, the mean, the
    largest and the number of gaps are given and the rest is absent.
    """
    log, gaps = result.requests, result.gaps
    count = exact_dot(log.emitted_tokens[several] - 1)
    total_ns = exact_dot(log.finish_ns[several] - log.first_token_ns[several])
    if len(done) < np.count_nonzero(log.state == State.FINISHED):
        if total_ns == 0:  # every token of a static batch delivered at its end: no gap is longer
            gaps = Gaps(np.zeros(1, np.int64), np.array([count]))
        elif result.pieces is None or result.pool_ends is None:
            longest_ns = int(log.worst_gap_ns[several].max())
            mean = ratio(total_ns, count * NS_PER_MS)
            return Distribution(mean=mean, max=longest_ns / NS_PER_MS, n=count)
        else:
            chosen = np.zeros(len(log.state), dtype=np.bool_)
            chosen[several] = True
            gaps = pooled_gaps(result.pieces, result.pool_ends, chosen)
    return describe_weighted(gaps.gap_ns, gaps.count, per=NS_PER_MS)


def _throughput(result: Result, span: Span, processed: int) -> dict[str, object]:
    """Rates over the span: of requests that finished in it, and of tokens computed in it."""
    log, steps = result.requests, result.steps
    done = span.counts(log.finish_ns)
    prompt, output = result.trace.prompt_tokens[done], log.emitted_tokens[done]
    emitted = steps.emitted_tokens[span.counted_steps(steps)]
    totals = {
        "request_throughput": int(np.count_nonzero(done)),
        "input_throughput": exact_dot(prompt),
        "output_throughput": exact_dot(output),
        "total_token_throughput": exact_dot(prompt) + exact_dot(output),
        "emitted_token_rate": exact_dot(emitted),
        "processed_token_rate": processed,
        "achieved_rate": int(np.count_nonzero(done)),
    }
    return {name: _per_s(total, span) for name, total in totals.items()}


def _processed_tokens(result: Result, span: Span) -> int:
    """Prompt tokens, recomputed ones included, and decodes of the steps that ended in the span."""
    steps, part = result.steps, span.counted_steps(result.steps)
    return exact_dot(steps.prefill_tokens[part]) + exact_dot(steps.decode_seqs[part])


def _per_s(total: int, span: Span) -> float | None:
    return ratio(total * NS_PER_S, span.length_ns)


def _goodput(result: Result, span: Span, slo: Slo) -> dict[str, object]:
    """Rates of good requests that finished in the span; shares of all that arrived in it."""
    if not slo.limits():
        names = ("slo", "request_goodput", "goodput_fraction", "output_goodput")
        return dict.fromkeys(names)
    log = result.requests
    ended = np.flatnonzero(span.counts(log.finish_ns))
    good = ended[slo.is_good(result, ended)]
    arrived = span.submitted(result)
    done = np.flatnonzero(arrived & (log.finish_ns != NOT_YET))
    submitted = int(np.count_nonzero(arrived))
    return {
        "slo": {
            name: {
                "limit": slo.limits()[name],
                "pass_rate": ratio(int(np.count_nonzero(meets)), submitted),
            }
            for name, meets in slo.passes(result, done).items()
        },
        "request_goodput": _per_s(len(good), span),
        "goodput_fraction": ratio(int(np.count_nonzero(slo.is_good(result, done))), submitted),
        "output_goodput": _per_s(exact_dot(log.emitted_tokens[good]), span),
    }
