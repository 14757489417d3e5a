"""`ServiceCurves`: how much service each client has had by any instant.

Service is weighted tokens: `w_in` per prompt token, `w_out` per output token (Sheng et al.,
"Fairness in Serving Large Language Models", OSDI 2024, section 3). Output tokens count when
they are produced; a prompt counts when it is complete, once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .intervals import instants
from .result import Ints, Pieces, Result


@dataclass(frozen=True, slots=True, eq=False)
class Account:
    """What one client got. Sorted int64 columns.

    span_first, span_last: decode steps first + 1 .. last produced a token each. token_ns: tokens
    that ended a prompt, or its recomputation. prompt_ns, prompt_tokens: complete prompts.
    """

    span_first: Ints
    span_last: Ints
    token_ns: Ints
    prompt_ns: Ints
    prompt_tokens: Ints

    @classmethod
    def of(cls, pieces: Pieces, mine: NDArray[np.bool_], prompts: Ints) -> Account:
        """mine: which pieces are this client's, shape (pieces,). prompts: tokens per row."""
        spans, ended = mine & pieces.is_span, mine & ~pieces.is_span
        begins = ended & np.append(True, pieces.row[1:] != pieces.row[:-1])
        order = np.argsort(pieces.ends[begins], kind="stable")
        return cls(
            np.sort(pieces.first[spans]),
            np.sort(pieces.last[spans]),
            np.sort(pieces.ends[ended]),
            pieces.ends[begins][order],
            prompts[pieces.row[begins]][order],
        )


class ServiceCurves:
    """Service of every client as a function of time, exact at every instant.

    turns_ns: all instants between which every curve is linear in decode steps; sorted.
    """

    def __init__(self, result: Result, clients: Ints, weights: tuple[float, float]) -> None:
        """clients: a number per row, -1 for none, shape (n,). weights: (w_in, w_out).

        Raises:
            ValueError: a hand-made result without the times of its tokens.
        """
        if result.pieces is None or result.pool_ends is None:
            raise ValueError("this result was not made by simulate(): it has no token times")
        self._w_in, self._w_out = weights
        self._pieces, self._pool_ends = result.pieces, result.pool_ends
        self._prompts = result.trace.prompt_tokens
        self._client_of_piece = clients[result.pieces.row]
        before = result.pieces.first[result.pieces.first > 0] - 1
        self.turns_ns = instants(self._pool_ends[before], result.pieces.ends)

    def of(self, client: int, times_ns: Ints) -> NDArray[np.float64]:
        """Service of a client by these instants (what happens at one included), shape as given."""
        account = Account.of(self._pieces, self._client_of_piece == client, self._prompts)
        steps = np.searchsorted(self._pool_ends, times_ns, side="right")
        output = np.searchsorted(account.token_ns, times_ns, side="right")
        output += _past(account.span_first, steps) - _past(account.span_last, steps)
        complete = np.searchsorted(account.prompt_ns, times_ns, side="right")
        prompt = _running_sum(account.prompt_tokens)[complete]
        return self._w_in * prompt + self._w_out * output


def _past(sorted_steps: Ints, steps: Ints) -> Ints:
    """Sum over the corners of how far `steps` is past each, shape as `steps`."""
    passed = np.searchsorted(sorted_steps, steps, side="right")
    return passed * steps - _running_sum(sorted_steps)[passed]


def _running_sum(values: Ints) -> Ints:
    """0, then the sums of the first 1, 2 … values; shape (n + 1,)."""
    return np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(values)))
