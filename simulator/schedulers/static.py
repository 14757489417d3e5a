"""Static batching: a batch is formed once, runs until its last member ends, then the next one.

What serving looked like before Orca, and what `generate()` of most libraries still does: prompts
are padded to the longest, and a finished member keeps its slot, computing padding, until the
whole batch is done (Yu et al., OSDI 2022, section 3.1 describes the waste).
"""

from __future__ import annotations

from typing import Literal

from simulator.errors import ConfigError
from simulator.plan import ALL, NONE, UNTIL_FINISH, Plan
from simulator.units import seconds_to_ns
from simulator.view import EngineView

from .limits import checked_limits
from .room import (
    KEEP_DECODING,
    UNLIMITED,
    Room,
    admissions,
    serve_decodes,
)


class StaticScheduler:
    """One closed batch at a time; finished members hold slot and memory until the batch ends.

    max_num_seqs: batch size. wait_for_full_batch: an idle engine waits until that many requests
    are there (or no more will come); batch_timeout_s bounds the wait of the oldest, in seconds.
    deliver: "stream" hands out tokens as they are generated, "batch_end" all at the batch's end.
    pad_prompts: price every prompt of the batch as the longest.

    Raises:
        ConfigError: batch size below 1, a negative time-out, or an unknown `deliver`.
    """

    name = "static"
    holds_slots_until_batch_end = True

    def __init__(
        self,
        max_num_seqs: int = 128,
        *,
        wait_for_full_batch: bool = False,
        batch_timeout_s: float | None = None,
        deliver: Literal["stream", "batch_end"] = "stream",
        pad_prompts: bool = True,
    ) -> None:
        _, seqs, _ = checked_limits(None, max_num_seqs, None)
        if batch_timeout_s is not None and not 0 <= batch_timeout_s < float("inf"):
            raise ConfigError(f"batch_timeout_s is {batch_timeout_s}, must be 0 s or more")
        if deliver not in ("stream", "batch_end"):
            raise ConfigError(f"deliver is {deliver!r}, must be stream or batch_end")
        self.max_num_seqs = seqs
        self.wait_for_full_batch = wait_for_full_batch
        self.batch_timeout_s = batch_timeout_s
        self.deliver = deliver
        self.pad_prompts = pad_prompts
        self.delivers_at_batch_end = deliver == "batch_end"

    def plan(self, view: EngineView) -> Plan:
        """Go on with the batch; or, if there is none, form the next one."""
        if not view.running or view.planned_tokens is not None:
            return self._next_batch(view)
        room = Room(UNLIMITED, view.kv.free_blocks, 0)
        decode = serve_decodes(view, room)
        if decode is ALL and not room.evicted:
            return KEEP_DECODING[UNTIL_FINISH]
        return Plan(decode, (), tuple(room.evicted))

    def _next_batch(self, view: EngineView) -> Plan:
        wake_ns = None if view.planned_tokens is not None else self._full_batch_due_ns(view)
        if wake_ns is not None and wake_ns > view.now_ns:
            return Plan(wake_ns=wake_ns)
        seats = self.max_num_seqs - len(view.running)
        room = Room(UNLIMITED, view.kv.free_blocks, seats)
        batch, more = admissions(view, room, UNLIMITED, whole=True)
        longest = max((new for _, new in batch), default=0) if self.pad_prompts else 0
        return Plan(NONE, batch, padded_prefill_tokens=longest, more=more)

    def _full_batch_due_ns(self, view: EngineView) -> int | None:
        """When a batch that is not full must start all the same; None: now."""
        full = len(view.waiting) >= self.max_num_seqs or view.load_ended
        if full or not self.wait_for_full_batch or not view.waiting:
            return None
        if self.batch_timeout_s is None:
            return UNLIMITED
        oldest = min(sequence.arrival_ns for sequence in view.waiting)
        return oldest + seconds_to_ns(self.batch_timeout_s)
