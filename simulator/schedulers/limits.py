"""What every policy's limits must be."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral

from simulator.errors import ConfigError

from .room import UNLIMITED


def checked_limits(
    max_num_batched_tokens: int | None, max_num_seqs: int, chunk_size: int | None
) -> None:
    """Refuse limits that no engine would start with.

    Raises:
        ConfigError: a limit that is no whole number of at least 1, or a token budget below the
            number of sequences (each of which takes one token of it when it decodes).
    """
    named: Iterable[tuple[str, int | None]] = (
        ("max_num_batched_tokens", max_num_batched_tokens),
        ("max_num_seqs", max_num_seqs),
        ("chunk_size", chunk_size),
    )
    for name, value in named:
        if value is not None and (not isinstance(value, Integral) or isinstance(value, bool)):
            raise ConfigError(f"{name} is {value!r}, must be a whole number of at least 1")
        if value is not None and value < 1:
            raise ConfigError(f"{name} is {value}, must be at least 1")
    if max_num_batched_tokens is not None and max_num_batched_tokens < max_num_seqs:
        raise ConfigError(
            f"max_num_batched_tokens {max_num_batched_tokens} is below max_num_seqs "
            f"{max_num_seqs}: every running sequence takes one token of the budget when it "
            "decodes; raise max_num_batched_tokens or lower max_num_seqs"
        )


class StepLimits:
    """What a step may hold, for policies to inherit.

    max_num_batched_tokens, max_num_seqs, chunk_size: as `ChunkedPrefillScheduler`.

    Raises:
        ConfigError: see `checked_limits`.
    """

    def __init__(
        self, max_num_batched_tokens: int | None, max_num_seqs: int, chunk_size: int | None
    ) -> None:
        checked_limits(max_num_batched_tokens, max_num_seqs, chunk_size)
        # NumPy's integers are whole numbers too; the compiled event loop takes Python's.
        self.max_num_seqs = int(max_num_seqs)
        self.max_num_batched_tokens = max_num_batched_tokens and int(max_num_batched_tokens)
        self.step_token_limit = self.max_num_batched_tokens
        self.chunk_size = chunk_size and int(chunk_size)
        self._budget = self.max_num_batched_tokens or UNLIMITED
        self._chunk = self.chunk_size or UNLIMITED

    @property
    def effective_chunk_size(self) -> int | None:
        """The chunk that the budget leaves possible: min(chunk size, budget)."""
        smallest = min(self._chunk, self._budget)
        return None if smallest == UNLIMITED else smallest
