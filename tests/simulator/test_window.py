"""Windows, warm-up and cool-down."""

import numpy as np
import pytest

from simulator.errors import ConfigError
from simulator.result import NOT_YET
from simulator.window import Span, Trim, Window, resolve
from tests.simulator.results import Asked, Step, result_of
from tests.simulator.single_server import one_at_a_time

MS = 1_000_000

# Arrivals 10, 20, 30, 40; service 5; finishes 15, 25, 35, 45.
SERVED = one_at_a_time(np.array([10, 20, 30, 40]) * MS, np.full(4, 5 * MS))


def edges_ms(span: Span) -> tuple[float, float]:
    return span.start_ns / MS, span.end_ns / MS


def test_the_whole_run_goes_from_first_arrival_to_last_finish_and_counts_its_end() -> None:
    span = resolve(SERVED, None)
    assert edges_ms(span) == (10, 45)
    assert span.is_whole_run
    assert span.counts(SERVED.requests.finish_ns).all()


def test_what_never_happened_never_counts() -> None:
    assert not resolve(SERVED, None).counts(np.array([NOT_YET])).any()


def test_a_window_holds_its_start_but_not_its_end() -> None:
    span = resolve(SERVED, Window(20 * MS, 40 * MS))
    assert span.counts(SERVED.requests.arrival_ns).tolist() == [False, True, True, False]
    assert span.counted_steps(SERVED.steps) == slice(1, 3)


@pytest.mark.parametrize(
    ("trim", "edges"),
    [
        (Trim(), (10, 45)),
        (Trim(warmup_fraction=0.2), (17, 45)),
        (Trim(warmup_s=0.010), (20, 45)),
        (Trim(warmup_requests=1), (20, 45)),
        (Trim(cooldown_fraction=0.2), (10, 38)),
        (Trim(cooldown_s=0.005), (10, 40)),
        (Trim(cooldown_requests=1), (10, 40)),
        (Trim(warmup_requests=1, cooldown_s=0.010), (20, 35)),
    ],
)
def test_each_side_can_be_trimmed_three_ways(trim: Trim, edges: tuple[float, float]) -> None:
    assert edges_ms(resolve(SERVED, trim)) == edges


def test_a_side_that_is_not_trimmed_counts_everything() -> None:
    span = resolve(SERVED, Trim(warmup_requests=1))
    assert span.counts(SERVED.requests.finish_ns).tolist() == [False, True, True, True]
    assert not span.is_whole_run


def test_a_stopped_run_lasts_until_it_was_stopped() -> None:
    stopped = result_of([Asked(5, 8, 1), Asked(20, 8, 9)], [Step(5, 15, {0: 8})], stop_ms=50)
    assert edges_ms(resolve(stopped, None)) == (5, 50)
    drained = result_of([Asked(5, 8, 1)], [Step(5, 15, {0: 8})], stop_ms=50)
    assert edges_ms(resolve(drained, None)) == (5, 15)


def test_arrivals_end_with_the_last_one_unless_more_were_to_come() -> None:
    assert resolve(SERVED, None).arrivals_end_ns == 40 * MS
    more = result_of([Asked(5, 8, 1), Asked(60, 8, 1)], [Step(5, 15, {0: 8})], stop_ms=50)
    assert resolve(more, None).arrivals_end_ns == 50 * MS


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"warmup_s": 1.0, "warmup_requests": 5}, "warmup_s and warmup_requests"),
        ({"cooldown_s": -1.0}, "cooldown_s is -1.0"),
        ({"warmup_fraction": float("nan")}, "warmup_fraction is nan"),
        ({"warmup_fraction": 0.5, "cooldown_fraction": 0.5}, "leave nothing"),
    ],
)
def test_contradicting_trims_are_refused(options: dict[str, float], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        Trim(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize("trim", [Trim(warmup_s=1), Trim(warmup_requests=4)])
def test_a_trim_that_leaves_nothing_is_refused(trim: Trim) -> None:
    with pytest.raises(ConfigError, match="leave no"):
        resolve(SERVED, trim)


def test_an_empty_window_is_refused() -> None:
    with pytest.raises(ConfigError, match="the end must be later"):
        Window(5, 5)
