"""In which order the first requests of a closed loop reached the engine, read off its step log.

The client's threads start in a race, so the first requests do not come in the order of their
numbers; the log shows only sums per step. A depth-first search over the steps finds prompts whose
chunks add up to each step's prompt tokens, with the logged variance of prompt lengths, past tokens
and growth of the decode contexts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, permutations
from typing import NamedTuple

from simulator.schedulers.alignment import aligned_chunk

MAX_NODES = 20_000
VARIANCE_ROUNDING = 0.002
RELATIVE_ROUNDING = 1e-9


class LoggedStep(NamedTuple):
    """One step of the log: its prompts, summed, and their variance; its decodes, summed."""

    prefill_tokens: int
    prefill_requests: int
    prefill_past: int
    prompt_variance: float
    decode_seqs: int
    decode_context: int


class FirstOrder(NamedTuple):
    """order: requests by number, as they were computed; step: where each first was."""

    order: list[int]
    step: list[int]


class _State(NamedTuple):
    """Before a step. partial: (request, tokens done) of half-done prompts, in order of admission.

    unused: requests that may come; left: how many have ended.
    """

    step: int
    partial: tuple[tuple[int, int], ...]
    unused: tuple[int, ...]
    left: int
    order: tuple[int, ...]
    at: tuple[int, ...]


def first_order(
    prompts: Sequence[int],
    log: Sequence[LoggedStep],
    *,
    clients: int,
    budget: int,
    alignment: int,
    last: int | None = None,
) -> FirstOrder | None:
    """The order in which the first `last` requests arrived; None if none fits the log.

    prompts: prompt tokens by request number; clients: that send requests in the order of their
    numbers, and `last` unless given; budget: tokens of a step; alignment: of chunks
    (`VllmScheduler.prefill_alignment_tokens`), 1 for none.
    """
    wanted = clients if last is None else last
    search = _Search(prompts, log, clients, budget, alignment)
    stack = [search.after(_State(0, (), tuple(range(clients)), 0, (), ()))]
    for _ in range(MAX_NODES):
        if not stack:
            return None
        state = next(stack[-1], None)
        if state is None:
            stack.pop()
        elif sum(request < wanted for request in state.order) == wanted:
            placed = [k for k, request in enumerate(state.order) if request < wanted]
            return FirstOrder([state.order[k] for k in placed], [state.at[k] for k in placed])
        else:
            stack.append(search.after(state))
    return None


class _Search:
    def __init__(
        self,
        prompts: Sequence[int],
        log: Sequence[LoggedStep],
        clients: int,
        budget: int,
        alignment: int,
    ) -> None:
        self._prompts, self._log, self._clients = prompts, log, clients
        self._budget, self._alignment = budget, alignment

    def after(self, state: _State) -> Iterator[_State]:
        """The states that one step of the log can lead to."""
        if state.step + 1 >= len(self._log):
            return
        logged = self._log[state.step]
        room = self._budget - logged.decode_seqs
        chunks: list[tuple[int, int, int]] = []
        for request, done in state.partial:
            new = self._chunk(request, done, room)
            if new:
                chunks.append((request, done, new))
                room -= new
        if sum(done for _, done, _ in chunks) != logged.prefill_past:
            return
        wanted = logged.prefill_tokens - sum(new for _, _, new in chunks)
        count = logged.prefill_requests - len(chunks)
        if wanted < 0 or count < 0 or (count == 0) != (wanted == 0):
            return
        for added in self._added(state, wanted, count, room):
            following = self._applied(state, chunks, added)
            if following is not None:
                yield following

    def _chunk(self, request: int, done: int, room: int) -> int:
        known = self._prompts[request]
        return aligned_chunk(min(known - done, room), done, known, self._alignment) if room else 0

    def _added(
        self, state: _State, wanted: int, count: int, room: int
    ) -> Iterator[tuple[tuple[int, int], ...]]:
        """(request, tokens) of new prompts: first those that get all they like, then cut ones."""
        if not count:
            yield ()
            return
        unused = state.unused
        whole = {request: self._chunk(request, 0, self._prompts[request]) for request in unused}
        for cuts in self._cuts(wanted, room, self._log[state.step + 1]):
            if len(cuts) > count:
                continue
            rest = wanted - sum(cuts)
            for chosen in subsets(unused, whole, rest, count - len(cuts)):
                others = [request for request in unused if request not in chosen]
                for last in permutations(others, len(cuts)):
                    if self._gets(last, cuts, room - rest, whole):
                        sizes = (*(whole[request] for request in chosen), *cuts)
                        yield tuple(zip((*chosen, *last), sizes, strict=True))

    def _gets(
        self, last: tuple[int, ...], cuts: tuple[int, ...], room: int, whole: dict[int, int]
    ) -> bool:
        """Whether these requests, in this order, get these chunks of the room left."""
        for request, cut in zip(last, cuts, strict=True):
            if cut >= whole[request] or self._chunk(request, 0, room) != cut:
                return False
            room -= cut
        return True

    def _cuts(self, wanted: int, room: int, following: LoggedStep) -> Iterator[tuple[int, ...]]:
        """The chunks that prompts may have got because room ran out.

        They go on in the next step, whose past tells; others part-done stand on multiples. After
        a chunk was cut to a multiple, a short prompt may still take the rest of the room.
        """
        yield ()
        tail = (
            following.prefill_past % self._alignment
            if self._alignment > 1
            else following.prefill_past
        )
        has_tail = wanted == room and 0 < tail <= wanted
        if has_tail:
            yield (tail,)
        if self._alignment > 1:
            for cut in range(self._alignment, wanted + 1, self._alignment):
                yield (cut,)
                if has_tail:
                    yield (cut, tail)

    def _applied(
        self,
        state: _State,
        chunks: list[tuple[int, int, int]],
        added: tuple[tuple[int, int], ...],
    ) -> _State | None:
        """The state after the step; None if variance or decode contexts say otherwise."""
        logged, following = self._log[state.step], self._log[state.step + 1]
        everyone = [*chunks, *((request, 0, new) for request, new in added)]
        if not self._variance_fits([request for request, _, _ in everyone], logged):
            return None
        served = {request: done + new for request, done, new in everyone}
        ended = [request for request, done in served.items() if done == self._prompts[request]]
        gone = logged.decode_seqs + len(ended) - following.decode_seqs
        grown = logged.decode_context + logged.decode_seqs + sum(self._prompts[r] for r in ended)
        if gone < 0 or (gone == 0 and grown != following.decode_context):
            return None
        partial = dict(state.partial) | served
        new = tuple(request for request, _ in added)
        arriving = range(
            self._clients + state.left, min(self._clients + state.left + gone, len(self._prompts))
        )
        return _State(
            state.step + 1,
            tuple((request, done) for request, done in partial.items() if request not in ended),
            (*(request for request in state.unused if request not in new), *arriving),
            state.left + gone,
            (*state.order, *new),
            (*state.at, *(state.step for _ in new)),
        )

    def _variance_fits(self, requests: list[int], logged: LoggedStep) -> bool:
        if not requests:
            return True
        lengths = [self._prompts[request] for request in requests]
        mean = sum(lengths) / len(lengths)
        variance = sum((length - mean) ** 2 for length in lengths) / len(lengths)
        rounding = VARIANCE_ROUNDING + RELATIVE_ROUNDING * variance
        return abs(variance - logged.prompt_variance) <= rounding


def subsets(
    members: Sequence[int], size: dict[int, int], total: int, count: int
) -> Iterator[tuple[int, ...]]:
    """All sets of `count` members whose sizes add up to `total`, each in the order given.

    The first half of each set is looked up by what the second half leaves.

    >>> list(subsets([0, 1, 2, 3], {0: 5, 1: 7, 2: 2, 3: 3}, 10, 2))
    [(1, 3)]
    """
    if count == 0 or total <= 0:
        if count == 0 and total == 0:
            yield ()
        return
    head = count // 2
    place = {member: k for k, member in enumerate(members)}
    heads: dict[int, list[tuple[int, ...]]] = {}
    for first in combinations(members, head):
        heads.setdefault(sum(size[member] for member in first), []).append(first)
    for second in combinations(members, count - head):
        missing = total - sum(size[member] for member in second)
        for first in heads.get(missing, ()):
            if not first or place[first[-1]] < place[second[0]]:
                yield (*first, *second)
