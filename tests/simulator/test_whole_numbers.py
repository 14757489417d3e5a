"""Whole numbers may be NumPy's: they come out of arrays. The engine calculates with Python's."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

from costmodels import ConstantCostModel
from simulator import (
    ALL,
    SCHEDULERS,
    ChunkedPrefillScheduler,
    ClientDelay,
    ConfigError,
    EngineView,
    InvalidPlanError,
    KVCache,
    Plan,
    PrefixCache,
    Request,
    Result,
    SimulatorError,
    StepShape,
    simulate,
)

REQUESTS = [Request(str(row), row * 1_000_000, 40 + row, 20, priority=row % 2) for row in range(12)]


def run(policy: Any, prices: Any = None, cache: Any = None, **options: Any) -> Result:
    """A short run in which memory is tight."""
    prices = prices or ConstantCostModel(prefill_ms=8, decode_ms=1)
    return simulate(REQUESTS, policy, prices, cache or KVCache(24), **options)


def times(result: Result) -> list[int]:
    """When each request had its last token."""
    return result.requests.finish_ns.tolist()


@pytest.mark.parametrize("name", SCHEDULERS)
def test_limits_of_a_policy(name: str) -> None:
    takes = inspect.signature(SCHEDULERS[name]).parameters
    limits = {
        "max_num_batched_tokens": 64,
        "max_num_seqs": 4,
        "chunk_size": 16,
        "chunked_prefill_size": 64,
        "max_running_requests": 4,
        "max_prefill_tokens": 128,
        "min_prefill_tokens": 8,
    }
    given = {key: value for key, value in limits.items() if key in takes}
    assert len(given) >= 1
    plain = run(SCHEDULERS[name](**given))
    numpys = {key: np.int64(value) for key, value in given.items()}
    assert times(run(SCHEDULERS[name](**numpys))) == times(plain)


@pytest.mark.parametrize("kind", [KVCache, PrefixCache])
def test_sizes_of_a_cache(kind: type[KVCache]) -> None:
    plain = run(ChunkedPrefillScheduler(64, 4), cache=kind(20, 8))
    numpys = run(ChunkedPrefillScheduler(64, 4), cache=kind(np.int32(20), np.int64(8)))
    assert times(numpys) == times(plain)


def test_a_size_that_is_none_is_refused() -> None:
    with pytest.raises(TypeError, match="float"):
        KVCache(20.5)  # type: ignore[arg-type]


OPTIONS = [
    {"stop_ns": 40_000_000},
    {"max_model_len": 64},
    {"swap_ns_per_block": 1000},
    {"users": 3},
    {"max_concurrency": 3},
]


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: next(iter(option)))
def test_options_of_a_run(option: dict[str, int]) -> None:
    policy = ChunkedPrefillScheduler(64, 4)
    numpys = {key: np.int64(value) for key, value in option.items()}
    assert times(run(policy, **numpys)) == times(run(policy, **option))
    (name,) = option
    with pytest.raises(ConfigError, match=rf"{name} is 2\.5, must be a whole number"):
        run(policy, **{name: 2.5})


def test_delays_of_a_client() -> None:
    policy = ChunkedPrefillScheduler(64, 4)
    plain = run(policy, client_delay=ClientDelay(1000, 10, 500))
    numpys = ClientDelay(np.int64(1000), np.int64(10), np.int64(500))  # type: ignore[arg-type]
    assert times(run(policy, client_delay=numpys)) == times(plain)
    with pytest.raises(ConfigError, match=r"response_ns is 0\.5, must be a whole number"):
        ClientDelay(response_ns=0.5)  # type: ignore[arg-type]


class ArrayPrices:
    """A user's cost model that reads its prices from an array; kind: what it makes of them."""

    needs_longest_context = False

    def __init__(self, decode_ns: float, kind: Any) -> None:
        self.prices = np.array([decode_ns, 8_000_000])
        self.kind = kind

    def step_ns(self, shape: StepShape) -> Any:
        """Dearer with a prompt."""
        return self.kind(self.prices[1 if shape.chunks else 0])

    def leap_ns(self, shape: StepShape, steps: int) -> Any:
        """The same again and again."""
        return np.full(steps, self.prices[0])


@pytest.mark.parametrize("leap", [True, False])
def test_prices(leap: bool) -> None:
    policy = ChunkedPrefillScheduler(64, 4)
    plain = run(policy, ArrayPrices(1_000_000, int), leap=leap)
    assert times(run(policy, ArrayPrices(1_000_000, np.int64), leap=leap)) == times(plain)
    for price, shown in ((0.5, "8000000.0"), (-1, "-1")):
        with pytest.raises(SimulatorError, match=rf"priced .* at {shown} ns: .* whole number"):
            run(policy, ArrayPrices(price, lambda price: price), leap=leap)


class OneByOne:
    """A user's policy whose numbers are NumPy's."""

    def __init__(self, tokens: Any, wake_ns: Any = None) -> None:
        self.tokens = tokens
        self.wake_ns = wake_ns

    def plan(self, view: EngineView) -> Plan:
        """The head of the queue, alone."""
        if self.wake_ns is not None:
            return Plan(wake_ns=self.wake_ns)
        prompts = [(s, self.tokens(s.remaining_tokens)) for s in list(view.waiting)[:1]]
        return Plan(ALL, () if len(view.decoding) else tuple(prompts))


def test_numbers_of_a_plan_must_be_pythons() -> None:
    assert times(run(OneByOne(int)))
    with pytest.raises(InvalidPlanError, match=r"a int64: must be a Python int"):
        run(OneByOne(np.int64))
    with pytest.raises(InvalidPlanError, match=r"wakes at .*, a int64: wake_ns must be a Python"):
        run(OneByOne(int, wake_ns=np.int64(5_000_000)))
