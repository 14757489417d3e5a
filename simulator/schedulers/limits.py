"""What every policy's limits must be."""

from __future__ import annotations

from numbers import Integral
from typing import SupportsIndex

from simulator.errors import ConfigError

from .room import UNLIMITED


def checked_limits(
    max_num_batched_tokens: SupportsIndex | None,
    max_num_seqs: SupportsIndex,
    chunk_size: SupportsIndex | None,
) -> tuple[int | None, int, int | None]:
    """The limits as Python's integers (NumPy's are whole numbers too), if an engine could start.

    Raises:
        ConfigError: a limit that is no whole number of at least 1, or a token budget below the
            number of sequences (each of which takes one token of it when it decodes).
    """
    budget = _checked("max_num_batched_tokens", max_num_batched_tokens)
    seqs = _checked("max_num_seqs", max_num_seqs)
    chunk = _checked("chunk_size", chunk_size)
    if seqs is None:
        raise ConfigError("max_num_seqs is None, must be a whole number of at least 1")
    if budget is not None and budget < seqs:
        raise ConfigError(
            f"max_num_batched_tokens {budget} is below max_num_seqs {seqs}: every running "
            "sequence takes one token of the budget when it decodes; raise "
            "max_num_batched_tokens or lower max_num_seqs"
        )
    return budget, seqs, chunk


def _checked(name: str, value: SupportsIndex | None) -> int | None:
    if value is None:
        return None
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise ConfigError(f"{name} is {value!r}, must be a whole number of at least 1")
    if value < 1:
        raise ConfigError(f"{name} is {value}, must be at least 1")
    return int(value)


class StepLimits:
    """What a step may hold, for policies to inherit.

    max_num_batched_tokens, max_num_seqs, chunk_size: as `ChunkedPrefillScheduler`.

    Raises:
        ConfigError: see `checked_limits`.
    """

    def __init__(
        self, max_num_batched_tokens: int | None, max_num_seqs: int, chunk_size: int | None
    ) -> None:
        budget, seqs, chunk = checked_limits(max_num_batched_tokens, max_num_seqs, chunk_size)
        self.max_num_batched_tokens = self.step_token_limit = budget
        self.max_num_seqs, self.chunk_size = seqs, chunk
        self._budget = self.max_num_batched_tokens or UNLIMITED
        self._chunk = self.chunk_size or UNLIMITED

    @property
    def effective_chunk_size(self) -> int | None:
        """The chunk that the budget leaves possible: min(chunk size, budget)."""
        smallest = min(self._chunk, self._budget)
        return None if smallest == UNLIMITED else smallest
