"""Replicas in lockstep against hand-worked timelines, and against the engine alone."""

import numpy as np
import pytest

from costmodels import ConstantCostModel
from simulator import KVCache, Request, Trace, simulate
from simulator.data_parallel import LoadBalancer, simulate_data_parallel
from simulator.errors import ConfigError, RequestTooLargeError
from simulator.prefix_cache import PrefixCache
from simulator.schedulers.vllm import VllmScheduler

MS = 1_000_000


def tokens(shape):
    return 0 if shape is None else shape.prefill_tokens + shape.decode_seqs


def slowest(shapes):
    """1 ms a token, of the replica with most of them."""
    return max(tokens(shape) for shape in shapes) * MS


def trace(*rows):
    return Trace.from_requests(
        Request(str(i), arrival, prompt, output) for i, (arrival, prompt, output) in enumerate(rows)
    )


def test_a_step_takes_as_long_as_the_slowest_replica():
    """Prompts of 10 and 40 at 0: both first tokens at 40 ms; then 1 ms a step for both."""
    result = simulate_data_parallel(
        trace((0, 10, 3), (0, 40, 3)),
        (VllmScheduler(64, 4), VllmScheduler(64, 4)),
        slowest,
        KVCache(100),
        async_scheduling=False,
    )
    assert result.replica.tolist() == [0, 1]
    assert result.column("first_token_ns").tolist() == [40 * MS, 40 * MS]
    assert result.column("finish_ns").tolist() == [42 * MS, 42 * MS]


def test_a_replica_without_work_waits_for_the_step_under_way():
    """The second request comes at 5 ms to an idle replica: it starts when the other's step ends."""
    result = simulate_data_parallel(
        trace((0, 20, 1), (5 * MS, 10, 1)),
        (VllmScheduler(64, 4), VllmScheduler(64, 4)),
        slowest,
        KVCache(100),
        async_scheduling=False,
    )
    assert result.replica.tolist() == [0, 1]
    assert result.column("first_start_ns").tolist() == [0, 20 * MS]
    assert result.column("finish_ns").tolist() == [20 * MS, 30 * MS]


def random_trace(rows=60):
    random = np.random.Generator(np.random.PCG64(5))
    return Trace(
        arrival_ns=np.sort(random.integers(0, 900 * MS, rows)),
        prompt_tokens=random.integers(1, 90, rows),
        output_tokens=random.integers(1, 30, rows),
        block_hashes=tuple((row % 7, 100 + row % 7) for row in range(rows)),
        hash_block_tokens=16,
    )


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("cache", [KVCache(20), PrefixCache(20)])
def test_one_replica_is_the_engine(cache, ahead):
    requests, prices = random_trace(), ConstantCostModel(prefill_ms=8, decode_ms=2)
    alone = simulate(requests, VllmScheduler(64, 8), prices, cache, async_scheduling=ahead)
    one = simulate_data_parallel(
        requests,
        (VllmScheduler(64, 8),),
        lambda shapes: prices.step_ns(shapes[0]),
        cache,
        async_scheduling=ahead,
    )
    assert alone.requests.preemptions.sum() > 0
    for name in ("first_start_ns", "first_token_ns", "finish_ns", "preemptions", "active_ns"):
        assert one.column(name).tolist() == getattr(alone.requests, name).tolist(), name
    assert one.results[0].steps.end_ns.tolist() == alone.steps.end_ns.tolist()


def test_twice_the_same():
    def run():
        schedulers = (VllmScheduler(64, 8), VllmScheduler(64, 8))
        return simulate_data_parallel(random_trace(), schedulers, slowest, PrefixCache(20))

    assert run().column("finish_ns").tolist() == run().column("finish_ns").tolist()


def test_the_balancer_hears_of_the_queues_every_100_ms():
    """Known at 0: (1 waiting, 0) and (0, 3); at 100 ms: the second is empty."""
    balancer = LoadBalancer(2)
    queues = [(1, 0), (0, 3)]
    assert [balancer.choose(at * MS, queues) for at in (0, 50, 99)] == [1, 0, 1]
    assert balancer.choose(100 * MS, [(0, 1), (0, 0)]) == 1


def test_errors_of_a_replica_reach_the_caller():
    def broken(shapes):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        simulate_data_parallel(trace((0, 5, 1)), (VllmScheduler(64, 4),), broken, KVCache(9))


def test_what_cannot_be_is_refused():
    with pytest.raises(ConfigError, match="no schedulers"):
        simulate_data_parallel(trace((0, 5, 1)), (), slowest, KVCache(9))
    with pytest.raises(RequestTooLargeError, match=r"needs 206 tokens .* replica has 16"):
        simulate_data_parallel(trace((0, 200, 6)), (VllmScheduler(64, 4),), slowest, KVCache(1))
