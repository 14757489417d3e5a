"""`Sequence`: a request while the engine serves it."""

from __future__ import annotations

from .block_run import Held
from .units import NEVER_NS


class Sequence:
    """A request being served. The engine alone changes it; schedulers read it.

    Public, for schedulers: `row` (position in the trace), `arrival_ns`, `prompt_tokens`,
    `known_tokens` (prompt, plus outputs to recompute after a preemption), `computed_tokens`
    (in the KV cache; for a decoding sequence ask `DecodePool.context_of`), `priority`, `client`,
    `max_tokens` (declared, may be None), `predicted_output_tokens` (of a predictor, may be None),
    `preemptions`.
    Everything with a leading underscore is the engine's, the true output length above all.
    """

    __slots__ = (
        "_active_ns",
        "_blocks",
        "_cached_tokens",
        "_eviction",
        "_finish_step",
        "_first_context",
        "_first_start_ns",
        "_first_token_ns",
        "_hashed_blocks",
        "_held",
        "_joined_step",
        "_lost_tokens",
        "_order",
        "_output_tokens",
        "_prefilled_tokens",
        "_produced_tokens",
        "_prompt_reached",
        "_recomputed_tokens",
        "_span_step",
        "_version",
        "arrival_ns",
        "client",
        "computed_tokens",
        "known_tokens",
        "max_tokens",
        "predicted_output_tokens",
        "preemptions",
        "priority",
        "prompt_tokens",
        "row",
    )

    _held: Held
    _finish_step: int
    _first_context: int
    _joined_step: int
    _span_step: int

    def __init__(
        self,
        row: int,
        arrival_ns: int,
        prompt_tokens: int,
        output_tokens: int,
        *,
        priority: int = 0,
        client: str | None = None,
        max_tokens: int | None = None,
    ) -> None:
        self.row = row
        self.arrival_ns = arrival_ns
        self.prompt_tokens = prompt_tokens
        self.known_tokens = prompt_tokens
        self.computed_tokens = 0
        self.priority = priority
        self.client = client
        self.max_tokens = max_tokens
        self.predicted_output_tokens: int | None = None
        self.preemptions = 0
        self._output_tokens = output_tokens
        self._produced_tokens = 0
        self._blocks = 0
        self._hashed_blocks = 0
        self._order = -1
        self._version = 0
        self._first_start_ns = NEVER_NS
        self._first_token_ns = NEVER_NS
        self._eviction: int | None = None
        self._active_ns = 0
        self._cached_tokens = 0
        self._prefilled_tokens = 0
        self._prompt_reached = 0
        self._recomputed_tokens = 0
        self._lost_tokens = 0

    @property
    def remaining_tokens(self) -> int:
        """Known tokens that are not computed yet: what prefill still has to do."""
        return self.known_tokens - self.computed_tokens

    def __repr__(self) -> str:
        done = f"computed={self.computed_tokens} of {self.known_tokens}"
        return f"Sequence(row={self.row}, {done})"
