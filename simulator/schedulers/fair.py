"""Fair shares between clients by virtual token counters (VTC).

Source: Sheng et al., "Fairness in Serving Large Language Models", OSDI 2024: algorithm 2 (a counter
per client, a client that comes back is lifted to the least of those that wait) and section 4.3
(weights). Service is prompt tokens, charged on admission, and output tokens, as they appear.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from simulator.plan import Decode, Holds, Plan
from simulator.sequence import Sequence
from simulator.view import EngineView

from .limits import StepLimits
from .order import generated_tokens, limit_of, per_class
from .room import KEEP_DECODING, Room, admissions, continue_prompts, serve_decodes

Queues = dict[str, list[Sequence]]


@dataclass(slots=True)
class Account:
    """What a client got: tokens, counted exactly, and how far it was lifted."""

    prompt_tokens: int = 0
    output_tokens: int = 0
    lift: float = 0.0


class FairScheduler(StepLimits):
    """The client that got least goes next; steps are those of `chunked`.

    max_num_batched_tokens, max_num_seqs, chunk_size: as `chunked`.
    prompt_weight, output_weight: service of a prompt token and of an output token.
    client_weights: shares of clients, a mapping or "a:2+b:1"; those not named have 1.

    Requests that name no client are one client.

    Raises:
        ConfigError: a bad limit or weight.
    """

    name = "fair"

    def __init__(
        self,
        max_num_batched_tokens: int | None = 2048,
        max_num_seqs: int = 128,
        chunk_size: int | None = None,
        *,
        prompt_weight: float = 1.0,
        output_weight: float = 2.0,
        client_weights: Mapping[str, float] | str | float = 1.0,
    ) -> None:
        super().__init__(max_num_batched_tokens, max_num_seqs, chunk_size)
        self.prompt_weight, self.output_weight = prompt_weight, output_weight
        per_class("prompt_weight", prompt_weight, 1)
        per_class("output_weight", output_weight, 1)
        self.client_weights = client_weights
        self._weights = per_class("client_weights", client_weights, 1.0)
        self._run: EngineView | None = None

    def counter(self, client: str) -> float:
        """Service that a client got, by its weight, plus its lifts."""
        held = self._accounts[client]
        service = self.prompt_weight * held.prompt_tokens + self.output_weight * held.output_tokens
        return service / limit_of(self._weights, client) + held.lift

    def plan(self, view: EngineView) -> Plan:
        """Everybody decodes, prompts go on; the client with the least service is admitted."""
        if view is not self._run:
            self._begin(view)
        seats = self.max_num_seqs - len(view.running)
        room = Room(self._budget - (view.planned_tokens or 0), view.kv.free_blocks, seats)
        queues = self._queues(view)
        if view.planned_tokens is not None:
            chunks, more = self._admit(view, room, queues)
            return Plan(Decode.NONE, chunks, more=more)
        decode, more = serve_decodes(view, room), False
        chunks = continue_prompts(view, room, self._chunk) if view.prefilling else ()
        if queues and room.seats > 0 and room.tokens > 0:
            admitted, more = self._admit(view, room, queues)
            chunks += admitted
        if chunks or more or room.evicted:
            return Plan(decode, chunks, tuple(room.evicted), more=more)
        # Who is next changes with every token, as long as somebody may come next.
        turns = bool(queues) and room.seats > 0 and (len(queues) > 1 or view.kv.caches_prefixes)
        alone = not (queues or view.prefilling)
        holds = Holds.WHILE_ALONE if alone else Holds.UNTIL_ARRIVAL
        holds = Holds.ONE_STEP if turns else holds
        return KEEP_DECODING[holds] if decode is Decode.ALL else Plan(decode)

    def _begin(self, view: EngineView) -> None:
        self._run = view
        self._accounts: dict[str, Account] = {}
        self._charged: dict[Sequence, int] = {}
        self._queued: set[str] = set()
        self._last_admitted: str | None = None

    def _queues(self, view: EngineView) -> Queues:
        """Who waits, by client, after what was generated is charged and new clients are lifted."""
        queues: Queues = {}
        if view.waiting:
            self._charge_outputs(view)
        for sequence in view.waiting:
            queues.setdefault(sequence.client or "", []).append(sequence)
        waited = [client for client in queues if client in self._queued]
        for client in queues:
            account = self._accounts.setdefault(client, Account())
            if client not in self._queued:
                floor = min((self.counter(other) for other in waited), default=None)
                if floor is None and self._last_admitted is not None:
                    floor = self.counter(self._last_admitted)
                if floor is not None:
                    account.lift += max(0.0, floor - self.counter(client))
                waited.append(client)
        self._queued = set(queues)
        return queues

    def _charge_outputs(self, view: EngineView) -> None:
        for sequence, charged in list(self._charged.items()):
            generated = generated_tokens(view, sequence)
            self._accounts[sequence.client or ""].output_tokens += generated - charged
            if sequence in view.running or sequence in view.waiting:
                self._charged[sequence] = generated
            else:
                del self._charged[sequence]

    def _admit(
        self, view: EngineView, room: Room, queues: Queues
    ) -> tuple[tuple[tuple[Sequence, int], ...], bool]:
        chunks, more = admissions(view, room, self._chunk, order=self._in_turn(queues))
        for sequence, _ in chunks:
            client = sequence.client or ""
            if not sequence.preemptions:
                self._accounts[client].prompt_tokens += sequence.prompt_tokens
            self._charged.setdefault(sequence, 0)
            self._last_admitted = client
            queues[client].remove(sequence)
            if not queues[client]:
                self._queued.discard(client)
        return chunks, more

    def _in_turn(self, queues: Queues) -> Iterator[Sequence]:
        """The oldest request of the client with the least service, again and again."""
        counters = {client: self.counter(client) for client in queues}
        places = dict.fromkeys(queues, 0)
        while counters:
            client = min(counters, key=lambda name: (counters[name], name))
            sequence = queues[client][places[client]]
            yield sequence
            if not sequence.preemptions:
                price = self.prompt_weight * sequence.prompt_tokens
                counters[client] += price / limit_of(self._weights, client)
            places[client] += 1
            if places[client] == len(queues[client]):
                del counters[client]
