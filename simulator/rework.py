"""Tokens computed twice, after a preemption, and tokens not computed at all: prefix-cache hits."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .occupancy import ratio
from .result import Result, State
from .statistics import exact_dot
from .window import Span


def prefix_hits(result: Result, submitted: NDArray[np.bool_]) -> dict[str, object]:
    """Prompt tokens that the submitted requests found in the prefix cache, and their share."""
    log = result.requests
    cached = exact_dot(log.cached_tokens[submitted])
    prompts = cached + exact_dot(log.prefilled_tokens[submitted])
    return {"cached_prompt_tokens": cached, "prefix_hit_rate": ratio(cached, prompts)}


def preemptions(result: Result, span: Span, processed: int) -> dict[str, object]:
    """Totals of events in the span; the share is of requests that arrived in it and were taken.

    Of the lost tokens, those that a resumed request found in the prefix cache cost nothing.
    Swapped blocks are those of the whole run.
    """
    log, evictions = result.requests, result.evictions
    happened = span.counts(evictions.preempt_ns)
    lost = exact_dot(evictions.lost_tokens[happened])
    recovered = exact_dot(evictions.recovered_tokens[happened])
    taken = span.submitted(result) & (log.state != State.REJECTED)
    preempted = int(np.count_nonzero(log.preemptions[taken]))
    return {
        "preemptions_total": int(np.count_nonzero(happened)),
        "preempted_share": ratio(preempted, int(np.count_nonzero(taken))),
        "lost_tokens_total": lost,
        "recovered_tokens_total": recovered,
        "swapped_blocks_total": result.swapped_blocks,
        "recompute_tax": ratio(lost - recovered, processed),
    }
