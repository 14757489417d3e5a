"""Fairness between clients: who got how much service for what they asked.

Source: Sheng et al., "Fairness in Serving Large Language Models" (VTC), OSDI 2024: service in
weighted tokens, and the backlog condition. A client that asked for little is not treated
unfairly for receiving little, so gaps count only while both clients have requests waiting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from .errors import ConfigError, nearest
from .intervals import Stays, instants, waiting
from .occupancy import ratio
from .result import NOT_YET, Ints, Result, State
from .service import ServiceCurves
from .statistics import describe
from .timings import Slo, tpot_ms, ttft_ns
from .units import NS_PER_MS, NS_PER_S
from .window import Span

Floats = NDArray[np.float64]

_MOST_WORK = 1 << 27  # instants times clients, or times pairs of them: some seconds


def jain(shares: Sequence[float]) -> float | None:
    """Jain's index (sum x)^2 / (n sum x^2): 1 is equal, 1/n is all for one; None if all are 0.

    >>> round(jain([1200, 1200, 600]), 4)
    0.9259
    """
    squares = sum(share * share for share in shares)
    return ratio(sum(shares) ** 2, len(shares) * squares)


def fairness(
    result: Result,
    span: Span,
    slo: Slo,
    weights: tuple[float, float],
    client_slo: Mapping[str, Slo],
) -> dict[str, object] | None:
    """Per client and between clients; None if the trace names no client.

    slo: limits of a good request, but for clients that `client_slo` names.
    weights: service per prompt token and per output token. Requests without a client are left
    out. In the whole run, prompts count as far as they were computed; in a part of it, those
    that were completed in it (`ServiceCurves`).
    """
    names, codes = _clients(result.trace.client)
    unknown = client_slo.keys() - {*names}
    if unknown:
        name = min(unknown)
        raise ConfigError(
            f"client_slo names {name!r}, which sends nothing{nearest(name, names)}: "
            f"the clients are {', '.join(names) or 'not named in this trace'}"
        )
    if not names:
        return None
    demand = _demand(result, span, codes, weights)
    wanting = np.flatnonzero(demand > 0)
    if span.is_whole_run:
        service = _service_in_all(result, codes, weights)
    else:
        service = _service_in(span, ServiceCurves(result, codes, weights), len(names))
    limits = [client_slo.get(name, slo) for name in names]
    reports = _clients_alone(result, span, limits, names, codes)
    for code, report in enumerate(reports):
        given, wanted = float(service[code]), float(demand[code])
        report |= {"service": given, "demand": wanted, "service_per_demand": ratio(given, wanted)}
    gap, why_absent = _max_service_gap(result, span, codes, wanting, weights)
    return {
        "service_weights": list(weights),
        "clients": reports,
        "jain": {
            "service": jain(service[wanting].tolist()),
            "service_per_demand": jain((service[wanting] / demand[wanting]).tolist()),
        },
        "service_gap_end": float(np.ptp(service[wanting])) if len(wanting) else None,
        "max_service_gap": gap,
        "max_service_gap_absent": why_absent,
    }


def _clients(column: tuple[str | None, ...] | None) -> tuple[list[str], Ints]:
    """Client names in order, and each row's place among them (-1: no client)."""
    names = sorted({name for name in column or () if name is not None})
    places: dict[str | None, int] = {name: place for place, name in enumerate(names)}
    places[None] = -1
    return names, np.fromiter(map(places.__getitem__, column or ()), dtype=np.int64)


def _demand(result: Result, span: Span, codes: Ints, weights: tuple[float, float]) -> Floats:
    """What each client asked for in the span, rejected requests included; shape (clients,)."""
    asked = weights[0] * result.trace.prompt_tokens + weights[1] * result.trace.output_tokens
    return _per_client(codes, np.where(span.submitted(result), asked, 0.0))


def _service_in_all(result: Result, codes: Ints, weights: tuple[float, float]) -> Floats:
    log = result.requests
    answered = log.first_token_ns != NOT_YET
    prompt = np.where(
        answered, result.trace.prompt_tokens, log.prefilled_tokens + log.cached_tokens
    )
    return _per_client(codes, weights[0] * prompt + weights[1] * log.emitted_tokens)


def _per_client(codes: Ints, values: Floats) -> Floats:
    sums = np.bincount(codes + 1, weights=values, minlength=int(codes.max()) + 2)
    return sums[1:].astype(np.float64)


def _service_in(span: Span, curves: ServiceCurves, clients: int) -> Floats:
    edges = np.array([span.counts_from_ns - 1, span.counts_until_ns - 1])
    return np.array([np.diff(curves.of(code, edges))[0] for code in range(clients)])


def _clients_alone(
    result: Result, span: Span, limits: list[Slo], names: list[str], codes: Ints
) -> list[dict[str, object]]:
    order = np.argsort(codes, kind="stable")
    edges = np.searchsorted(codes[order], np.arange(len(names) + 1))
    submitted = span.submitted(result)
    return [
        {"client": name} | _client(result, span, slo, submitted, order[low:high])
        for name, slo, (low, high) in zip(names, limits, pairwise(edges.tolist()), strict=True)
    ]


def _client(
    result: Result, span: Span, slo: Slo, submitted: NDArray[np.bool_], rows: Ints
) -> dict[str, object]:
    log = result.requests
    arrived = rows[submitted[rows]]
    done = arrived[log.state[arrived] == State.FINISHED]
    several = done[log.emitted_tokens[done] > 1]
    report: dict[str, object] = {
        "submitted": len(arrived),
        "finished": len(done),
        "ttft_ms": describe(ttft_ns(result, done), per=NS_PER_MS).as_dict(),
        "tpot_ms": describe(tpot_ms(result, several)).as_dict(),
    }
    if slo.limits():
        report["slo"] = slo.limits()
        ended = rows[(log.finish_ns[rows] != NOT_YET) & span.counts(log.finish_ns[rows])]
        good = int(slo.is_good(result, ended).sum())
        report["request_goodput"] = ratio(good * NS_PER_S, span.length_ns)
        report["goodput_fraction"] = ratio(int(slo.is_good(result, done).sum()), len(arrived))
    return report


def _max_service_gap(
    result: Result, span: Span, codes: Ints, clients: Ints, weights: tuple[float, float]
) -> tuple[float | None, str | None]:
    """Largest difference of service between two clients while both are backlogged.

    That difference only turns where a request starts, ends or pauses, so those instants are all
    that must be looked at. None and the reason where there is no such number.
    """
    if result.pieces is None:
        return None, "the result has no token times"
    curves = ServiceCurves(result, codes, weights)
    queues = [waiting(result, codes == code) for code in clients.tolist()]
    times_ns = _instants(span, curves, queues)
    too_much = f"{len(clients)} clients over {len(times_ns)} instants are too many to compare"
    if len(clients) * len(times_ns) > _MOST_WORK:
        return None, too_much
    kept_ns = times_ns[_contested(queues, times_ns)]
    if len(clients) * (len(clients) - 1) // 2 * len(kept_ns) > _MOST_WORK:
        return None, too_much
    if not len(kept_ns):
        return None, "no two clients had requests waiting at the same time"
    waits = [queue.count_at(kept_ns) > 0 for queue in queues]
    service = [curves.of(code, kept_ns) for code in clients.tolist()]
    swings = [
        _largest_swing(
            service[one] - service[other], waits[one] & waits[other] & (kept_ns < span.end_ns)
        )
        for one, other in combinations(range(len(clients)), 2)
    ]
    return max(swings), None


def _contested(queues: list[Stays], times_ns: Ints) -> NDArray[np.bool_]:
    """Instants at which two clients or more wait from then on, and the instant after each."""
    backlogged = np.zeros(len(times_ns), dtype=np.int64)
    for queue in queues:
        backlogged += queue.count_at(times_ns) > 0
    both = backlogged >= 2
    both[-1] = False
    both[1:] |= both[:-1].copy()
    return both


def _instants(span: Span, curves: ServiceCurves, queues: list[Stays]) -> Ints:
    edges = [column for queue in queues for column in (queue.enter_ns, queue.leave_ns)]
    times_ns = instants(curves.turns_ns, *edges)
    inside = times_ns[(times_ns > span.start_ns) & (times_ns < span.end_ns)]
    return np.concatenate(([span.start_ns], inside, [span.end_ns]))


def _largest_swing(difference: Floats, together: NDArray[np.bool_]) -> float:
    """Largest max - min of `difference` over a stretch of `together` and the instant after it."""
    changes = np.flatnonzero(np.diff(together.astype(np.int8), prepend=0, append=0))
    if not len(changes):
        return 0.0
    changes[1::2] += 1
    padded = np.append(difference, difference[-1])
    high = np.maximum.reduceat(padded, changes)[::2]
    low = np.minimum.reduceat(padded, changes)[::2]
    return float((high - low).max())
