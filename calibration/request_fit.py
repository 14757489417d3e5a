"""The `steps` model fitted to request times alone, by simulation in the loop.

Nobody saw the steps, so candidate prices are judged by what they do to requests: the log is served
again (`serve`), and its mean TTFT, TPOT and E2E are compared in cells of time and prompt length.
What the log cannot tell is found from how these respond to each term; it is left out, not invented.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodels.steps import StepsCostModel
from simulator import ClientDelay
from simulator.errors import ConfigError
from simulator.units import ms_to_ns

from .request_cells import COMPUTE, DELAY, SEQUENCE, STEP, FitLog, Problem
from .request_times import RequestTimes
from .served import Serving

Floats = NDArray[np.float64]

NEEDED = (STEP, COMPUTE)
WIDEST_PROBE, NARROWING, PROBE = 0.4, 0.8, 0.15
"""A term is probed by so much of itself, less in every round; less still drowns in noise."""
REACH = 0.6
"""Of itself a term may change by in a round."""
TINY = 1e-9
LEAST, MOST = 0.05, 30.0
"""Times its starting value that a needed term is at least, and any term at most."""
NOISE = 0.005
"""Relative error of a cell's mean that even a perfect model has: what a single step is worth."""
LOSS_AT = 0.01
TRUSTED = 0.15
"""Relative standard error above which a term is not identified."""
NEGLIGIBLE = 0.02
"""Share of the median TTFT within which a client delay is known to be none."""
ROUNDS = 16
ALIKE, RATES_APART = 1.1, 1.5
"""Prompts whose lengths differ by less are one shape; rates that differ by less are one rate."""


class RequestFit(NamedTuple):
    """parameters: of `StepsCostModel`. client_delay_ms: in and out. unidentified: term -> why it is
    absent. spread: term -> relative standard error. error: root mean square over the cells seen."""

    parameters: dict[str, Any]  # Any: as `StepsCostModel` takes them
    client_delay_ms: float
    unidentified: dict[str, str]
    spread: dict[str, float]
    error: float

    @property
    def model(self) -> StepsCostModel:
        """The prices."""
        return StepsCostModel(**self.parameters)

    @property
    def delay(self) -> ClientDelay:
        """All on the way in: a client's log shows the sum of both ways only."""
        return ClientDelay(request_ns=ms_to_ns(self.client_delay_ms))


def fit_requests(
    logs: Sequence[FitLog],
    serving: Serving,
    *,
    attention_tokens_per_pair: float = 0.0,
    known: Mapping[str, float] | None = None,
) -> RequestFit:
    """Fit step, compute, client delay and a price per sequence; drop what the logs cannot tell.

    attention_tokens_per_pair: ties attention to compute. known: terms given by physics, by name:
        reading KV (`CONTEXT`) and decoding sequences grow together, so one of them must be.
    The knee is where compute overtakes the read of the weights, step / compute: at low load no
    log tells more.

    Raises ConfigError if the logs cannot tell compute from the step or from the client delay.
    """
    _refuse_single_shape([log.times for log in logs])
    problem = Problem(logs, serving, attention_tokens_per_pair, dict(known or {}))
    start = _start([log.times for log in logs])
    terms = [name for name in start if name not in problem.known]
    unidentified: dict[str, str] = {}
    while True:
        found = _minimise(problem, terms, start)
        doubtful = _doubtful(found, logs)
        if doubtful is None:
            break
        if doubtful == SEQUENCE:
            unidentified[SEQUENCE] = _why(found, SEQUENCE)
        elif doubtful == DELAY and _is_none(found, logs):
            unidentified[DELAY] = "no sign of it: TTFT is explained by the engine"
        else:
            raise ConfigError(_refusal(found, doubtful, logs))
        terms.remove(doubtful)
    values = {**problem.known, **found.values}
    delay_ms = values.pop(DELAY, 0.0)
    return RequestFit(
        parameters=problem.parameters(values),
        client_delay_ms=delay_ms,
        unidentified=unidentified,
        spread=found.spread,
        error=found.error,
    )


def _refuse_single_shape(logs: Sequence[RequestTimes]) -> None:
    """Prompts all alike at one rate: any split of TTFT between step, prompt and delay fits."""
    short, long = (
        float(np.percentile(np.concatenate([log.prompt_tokens for log in logs]), p))
        for p in (5, 95)
    )
    rates = [len(log) / max(float(log.arrival_ns[-1]), 1.0) for log in logs]
    if long < ALIKE * short and max(rates) < RATES_APART * min(rates):
        raise ConfigError(
            f"the logs show one shape: prompts of {short:.0f} to {long:.0f} tokens at one rate, "
            "which cannot tell a prompt's compute from the step and the client delay; add a log "
            "with prompts of other lengths, or one at another rate"
        )


class Found(NamedTuple):
    values: dict[str, float]
    spread: dict[str, float]
    error: float


def _start(logs: Sequence[RequestTimes]) -> dict[str, float]:
    """Rough values, from the lightest moments of the logs."""
    several = [log.tpot_ms[log.output_tokens > 1] for log in logs]
    gaps = np.concatenate(several)
    if not len(gaps):
        raise ConfigError("every answer has one token: no log of such says what a decode costs")
    ttft_ms = np.concatenate([log.ttft_ms for log in logs])
    prompts = np.concatenate([log.prompt_tokens for log in logs])
    step = float(np.percentile(gaps, 5))
    quick = float(np.percentile(ttft_ms, 25))
    return {
        STEP: step,
        COMPUTE: max(quick - 2 * step, 0.3 * quick) / float(np.median(prompts)),
        DELAY: 0.1 * quick,
        SEQUENCE: 0.004 * step,
    }


def _minimise(problem: Problem, terms: list[str], start: Mapping[str, float]) -> Found:
    """Bounded Gauss-Newton with robust weights; the best point it came through.

    A request that just catches a step or just misses it makes the numbers rugged, so slopes are
    taken over wide probes that narrow from round to round, and a step need not improve to be taken.
    Source: Huber and Ronchetti, "Robust Statistics" (2009), for the reweighting.
    """
    from scipy.optimize import lsq_linear

    scale = np.array([start[name] for name in terms])
    lowest = np.array([LEAST if name in NEEDED else 0.0 for name in terms])

    def residuals(x: Floats) -> Floats:
        return problem.residuals(dict(zip(terms, (x * scale).tolist(), strict=True)))

    x, visited = np.ones(len(terms)), []
    for turn in range(ROUNDS):
        share = max(WIDEST_PROBE * NARROWING**turn, PROBE)
        off, slopes = residuals(x), _slopes(residuals, x, share, lowest)
        visited.append((float(np.mean(np.hypot(off, LOSS_AT))), x, off))
        weight = 1 / np.sqrt(np.hypot(off, LOSS_AT))
        reach = REACH * np.maximum(x, 0.5)
        bounds = (np.maximum(lowest - x, -reach) - TINY, np.minimum(MOST - x, reach))
        step = lsq_linear(slopes * weight[:, None], -off * weight, bounds=bounds).x
        x = np.clip(x + step, lowest, MOST)
    _, x, off = min(visited, key=lambda point: point[0])
    slopes = _slopes(residuals, x, WIDEST_PROBE, lowest)
    error = float(np.sqrt(np.mean(off**2)))
    return Found(
        values=dict(zip(terms, (x * scale).tolist(), strict=True)),
        spread=_spread(terms, x, slopes, max(error, NOISE)),
        error=error,
    )


def _slopes(
    residuals: Callable[[Floats], Floats], x: Floats, share: float, lowest: Floats
) -> Floats:
    """Central differences, one-sided at a bound; shape (cells, terms)."""
    columns = []
    for k in range(len(x)):
        up, down = x.copy(), x.copy()
        probe = share * max(x[k], 0.3)
        up[k] += probe
        down[k] = max(down[k] - probe, lowest[k])
        columns.append((residuals(up) - residuals(down)) / (up[k] - down[k]))
    return np.stack(columns, axis=1)


def _spread(terms: list[str], x: Floats, slopes: Floats, noise: float) -> dict[str, float]:
    """Relative standard error of every term: infinite where the log does not respond to it."""
    _, singular, directions = np.linalg.svd(slopes, full_matrices=False)
    response = np.maximum(singular, 1e-9 * max(singular.max(), 1e-9))
    variance = ((directions.T / response) ** 2).sum(axis=1) * noise**2
    relative = np.sqrt(variance) / np.maximum(x, 1e-9)
    return dict(zip(terms, relative.tolist(), strict=True))


def _doubtful(found: Found, logs: Sequence[FitLog]) -> str | None:
    """The term to give up first: optional ones before the others, the least certain first."""
    unsure = [name for name, spread in found.spread.items() if spread > TRUSTED]
    if DELAY in unsure and _is_known_small(found, logs):
        unsure.remove(DELAY)
    if SEQUENCE in unsure:
        return SEQUENCE
    return max(unsure, key=lambda name: found.spread[name], default=None)


def _is_known_small(found: Found, logs: Sequence[FitLog]) -> bool:
    """A delay that is uncertain by little beside the TTFT is well enough known."""
    return found.spread[DELAY] * found.values[DELAY] < NEGLIGIBLE * _median_ttft_ms(logs)


def _is_none(found: Found, logs: Sequence[FitLog]) -> bool:
    return found.values[DELAY] < 1e-3 * _median_ttft_ms(logs)


def _median_ttft_ms(logs: Sequence[FitLog]) -> float:
    return float(np.median(np.concatenate([log.times.ttft_ms for log in logs])))


def _why(found: Found, name: str) -> str:
    spread = found.spread[name]
    if found.values[name] <= 1e-6:
        return "no sign of it in the log"
    return f"the log tells it no better than {min(spread, 99):.0%} of its value"


def _refusal(found: Found, name: str, logs: Sequence[FitLog]) -> str:
    lengths = [int(n) for log in logs for n in np.percentile(log.times.prompt_tokens, (5, 95))]
    most = max(log.times.most_in_flight for log in logs)
    return (
        f"the logs cannot tell {name} from the other terms (uncertain by "
        f"{min(found.spread[name], 99):.0%}): prompts of {min(lengths)} to {max(lengths)} tokens, "
        f"at most {most} requests in flight. Give a log with prompts of other lengths, or more "
        "logs at other rates"
    )
