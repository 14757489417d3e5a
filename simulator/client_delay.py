"""`ClientDelay`: the way between a client and the engine's queue, and back.

A client's clock starts when it sends and stops when it reads a token. Between the two and the
engine lie the HTTP stack, the chat template and the tokenizer on the way in, and the detokenizer
and the stream on the way out. A client that waits for an answer (a cap on requests in flight, a
user, a conversation) sends its next request only after both.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from .errors import ConfigError, whole
from .feed import ArrivalFeed
from .sequence import Sequence


@dataclass(frozen=True, slots=True)
class ClientDelay:
    """Constant delays outside the engine, nanoseconds.

    request_ns: from sending to the engine's queue; prompt_token_ns: the same, for each prompt
    token (tokenizer). response_ns: from the end of a step to the client reading its token.

    >>> delay = ClientDelay(request_ns=3_000_000, prompt_token_ns=200, response_ns=4_000_000)
    >>> delay.inbound_ns(1000), delay.outside_ns(1000)
    (3200000, 7200000)

    Raises:
        ConfigError: a negative delay.
    """

    request_ns: int = 0
    prompt_token_ns: int = 0
    response_ns: int = 0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = whole(f"client delay {field.name}", getattr(self, field.name))
            if value < 0:
                raise ConfigError(f"client delay {field.name} is {value}, must be 0 or more")
            object.__setattr__(self, field.name, value)

    def __bool__(self) -> bool:
        return self != NO_DELAY

    def inbound_ns(self, prompt_tokens: int) -> int:
        """From the client's send to the engine's queue."""
        return self.request_ns + self.prompt_token_ns * prompt_tokens

    def outside_ns(self, prompt_tokens: int) -> int:
        """What the client sees on top of the engine's own time, in TTFT and in E2E."""
        return self.inbound_ns(prompt_tokens) + self.response_ns

    def inbound(self, prompt_tokens: NDArray[np.int64]) -> NDArray[np.int64]:
        """`inbound_ns` of many requests; int64, shape (n,)."""
        return self.request_ns + self.prompt_token_ns * prompt_tokens


NO_DELAY = ClientDelay()
"""Client and engine share a clock and a queue."""


class DelayedFeed:
    """A feed seen through the delay: it runs on the client's clock, the engine on its own.

    When a request is sent is final once the inner feed knows it, so it is taken from there ahead
    of time; a long prompt may be overtaken on the way by a shorter one that was sent later.
    """

    def __init__(self, inner: ArrivalFeed, delay: ClientDelay) -> None:
        self._inner, self._delay = inner, delay
        self._on_the_way: list[tuple[int, int, Sequence]] = []
        self._sent = 0
        self.scheduled_ns = inner.scheduled_ns
        self._send()

    @property
    def next_ns(self) -> int | None:
        """When the next one reaches the queue; unknown while all clients wait for answers."""
        return self._on_the_way[0][0] if self._on_the_way else None

    def pull(self, now_ns: int) -> list[Sequence]:
        """The next request that has reached the queue by now."""
        if not self._on_the_way or self._on_the_way[0][0] > now_ns:
            return []
        sequence = heappop(self._on_the_way)[2]
        self._send()
        return [sequence]

    def ended(self, row: int, now_ns: int) -> None:
        """The client reads the end later; what it sends then comes later still."""
        self._inner.ended(row, now_ns + self._delay.response_ns)
        self._send()

    def _send(self) -> None:
        """Send until no request that is not on the way yet could be the next to arrive."""
        inner, way, soonest_ns = self._inner, self._on_the_way, self._delay.request_ns
        while (sent_ns := inner.next_ns) is not None:
            if way and sent_ns + soonest_ns > way[0][0]:
                return
            for sequence in inner.pull(sent_ns):
                self.scheduled_ns.setdefault(sequence.row, sequence.arrival_ns)
                sequence.arrival_ns += self._delay.inbound_ns(sequence.prompt_tokens)
                self._sent += 1
                heappush(way, (sequence.arrival_ns, self._sent, sequence))
