"""A request as the reference sees it, and its columns recounted from its list of tokens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

NEVER = -(2**62)


@dataclass(eq=False)
class Job:
    """A request: `stored` tokens in the cache, of `known`; `times` of its tokens so far.

    reached: how far its prompt was ever computed. padding: steps computed for it after its end.
    """

    row: int
    arrival: int
    prompt: int
    output: int
    known: int
    stored: int = 0
    padding: int = 0
    reached: int = 0
    times: list[int] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    active: int = 0
    first_time: int = 0
    again: int = 0
    finish: int = NEVER
    evictions: list[list[int]] = field(default_factory=list)

    @property
    def done(self) -> bool:
        return len(self.times) == self.output

    @property
    def decodes(self) -> bool:
        return self.stored >= self.known and not self.done

    @property
    def prefills(self) -> bool:
        return self.stored < self.known


def gaps_of(job: Job) -> list[int]:
    return [later - sooner for sooner, later in pairwise(job.times)]


REQUEST_COLUMNS: dict[str, Callable[[Job], int]] = {
    "scheduled_ns": lambda job: job.arrival,
    "arrival_ns": lambda job: job.arrival,
    "first_start_ns": lambda job: min(job.starts, default=NEVER),
    "first_token_ns": lambda job: min(job.times, default=NEVER),
    "finish_ns": lambda job: job.finish,
    "emitted_tokens": lambda job: len(job.times),
    "prefilled_tokens": lambda job: job.first_time,
    "recomputed_tokens": lambda job: job.again,
    "active_ns": lambda job: job.active,
    "preempted_ns": lambda job: sum(back - gone for _, gone, back, _ in job.evictions),
    "preemptions": lambda job: len(job.evictions),
    "lost_tokens": lambda job: sum(lost for _, _, _, lost in job.evictions),
    "worst_gap_ns": lambda job: max(gaps_of(job), default=NEVER),
}
