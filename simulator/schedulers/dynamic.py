"""Chunks as large as a TPOT target allows: each step's prompt tokens are sized by its price.

Source: Sarathi-Serve (Agrawal et al., OSDI 2024, section 4.3: the token budget follows from the TBT
target), applied in every step to what is running then, with the cost model as the profile.
"""

from __future__ import annotations

from math import inf

from simulator.cost_model import CostModel
from simulator.errors import ConfigError, whole
from simulator.plan import Decode, Plan, StepShape
from simulator.units import NS_PER_MS
from simulator.view import EngineView

from .limits import checked_limits
from .room import UNLIMITED, Room, admissions, continue_prompts, holding, serve_decodes


class DynamicChunkScheduler:
    """As many prompt tokens a step as keep it within the target; without streams, the budget.

    tpot_target_ms: what a step with streams in it may last.
    max_num_batched_tokens, max_num_seqs: as `chunked`; the budget is never exceeded.
    min_prefill_tokens: what prompts get in a step even if it then takes longer, so that they are
        not starved by a target below what the decodes alone need.
    price: the policy's idea of what a step costs, if it is not to be the simulation's own cost
        model (`bind_prices`), which makes it a perfect one. Prices must not fall with more tokens.

    Raises:
        ConfigError: a bad limit or target, or no prices to decide by.
    """

    name = "dynamic"

    def __init__(
        self,
        max_num_batched_tokens: int = 8192,
        max_num_seqs: int = 128,
        *,
        tpot_target_ms: float = 50.0,
        min_prefill_tokens: int = 32,
        price: CostModel | None = None,
    ) -> None:
        if max_num_batched_tokens is None:
            raise ConfigError("max_num_batched_tokens is none: dynamic has a token budget")
        _, seqs, _ = checked_limits(max_num_batched_tokens, max_num_seqs, min_prefill_tokens)
        budget = whole("max_num_batched_tokens", max_num_batched_tokens)
        if not 0 < tpot_target_ms < inf:
            raise ConfigError(f"tpot_target_ms is {tpot_target_ms}, must be above 0 ms")
        self.max_num_batched_tokens = self.step_token_limit = budget
        self.max_num_seqs = seqs
        self.tpot_target_ms = tpot_target_ms
        self.min_prefill_tokens = whole("min_prefill_tokens", min_prefill_tokens)
        self.price = self._prices = price
        self._step_tokens = 0

    def bind_prices(self, cost_model: CostModel) -> None:
        """Called before a run with the cost model that will price it."""
        if self.price is None:
            self._prices = cost_model

    def plan(self, view: EngineView) -> Plan:
        """As `chunked`, with a token budget of this step's own."""
        seats = self.max_num_seqs - len(view.running)
        if view.planned_tokens is not None:
            left = self._step_tokens - view.planned_tokens
            room = Room(left, view.kv.free_blocks, seats)
            chunks, more = admissions(view, room, UNLIMITED)
            return Plan(Decode.NONE, chunks, more=more)
        room = Room(self.max_num_batched_tokens, view.kv.free_blocks, seats)
        decode, more = serve_decodes(view, room), False
        if not room.evicted and (view.prefilling or (view.waiting and seats > 0)):
            room.tokens = min(room.tokens, self._prompt_tokens(view, room.tokens))
        self._step_tokens = len(view.decoding) + room.tokens
        chunks = continue_prompts(view, room, UNLIMITED)
        if view.waiting and room.seats > 0 and room.tokens > 0:
            admitted, more = admissions(view, room, UNLIMITED)
            chunks += admitted
        if chunks or more or room.evicted:
            return Plan(decode, chunks, tuple(room.evicted), more=more)
        return Plan(decode, holds=holding(view, room))

    def _prompt_tokens(self, view: EngineView, most: int) -> int:
        """The most prompt tokens, oldest prompts first, whose step keeps the target."""
        if self._prices is None:
            raise ConfigError("dynamic has no prices: give price=..., or run it with simulate()")
        if not len(view.decoding) or most <= self.min_prefill_tokens:
            return most
        kv = view.kv
        left = [(s.computed_tokens, s.remaining_tokens) for s in view.prefilling]
        for sequence, _ in zip(view.waiting, range(self.max_num_seqs), strict=False):
            past = sequence.computed_tokens + kv.cached_tokens(sequence)
            left.append((past, sequence.known_tokens - past))
            if sum(new for _, new in left) >= most:
                break
        low = self.min_prefill_tokens
        high = max(low, min(most, sum(new for _, new in left)))
        target_ns = self.tpot_target_ms * NS_PER_MS
        if self._step_ns(view, left, high) <= target_ns:
            return most
        while low < high:
            middle = (low + high + 1) // 2
            if self._step_ns(view, left, middle) <= target_ns:
                low = middle
            else:
                high = middle - 1
        return low

    def _step_ns(self, view: EngineView, left: list[tuple[int, int]], tokens: int) -> int:
        chunks: list[tuple[int, int]] = []
        for past, new in left:
            if tokens <= 0:
                break
            chunks.append((min(new, tokens), past))
            tokens -= new
        pool, prices = view.decoding, self._prices
        assert prices is not None
        longest = pool.longest_context() if prices.needs_longest_context else 0
        shape = StepShape(tuple(chunks), len(pool), pool.context_tokens, longest)
        return prices.step_ns(shape)
