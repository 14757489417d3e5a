"""A served run is real: its tokens are a decoder's, its schedule the simulator's own."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from calibration.batch import Chunk  # noqa: E402  # after the skip
from calibration.kernels import Decoder  # noqa: E402
from calibration.live.executor import Executor  # noqa: E402
from calibration.live.serve import (  # noqa: E402
    IdleSkipped,
    ReplayedSteps,
    Served,
    WallClock,
    WithHost,
    clock_named,
    serve,
)
from calibration.live.validate import (  # noqa: E402
    LiveSettings,
    host_ns_of,
    predict,
    replay,
    same_schedule,
    validate_live,
    warm_up,
)
from calibration.sizes import DecoderSizes  # noqa: E402
from costmodels import ConstantCostModel  # noqa: E402
from simulator import SCHEDULERS, KVCache, Request, Trace  # noqa: E402
from simulator.errors import ConfigError, SimulatorError  # noqa: E402
from simulator.plan import Decode, Plan, StepShape  # noqa: E402

SMALL = DecoderSizes(
    name="small",
    family="llama",
    hidden=32,
    intermediate=48,
    layers=2,
    heads=4,
    kv_heads=2,
    head_dim=8,
    vocabulary=50,
)
MS = 1_000_000


@pytest.fixture(autouse=True)
def one_thread():
    """Threads wait for each other where others use the CPU; their number is the process's."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Ticks:
    """A clock that stands still but for 1 ms whenever it is read."""

    def __init__(self):
        self.now = 0
        self.waited_s = []

    def now_ns(self):
        self.now += MS
        return self.now

    def sleep(self, wait_s):
        self.waited_s.append(wait_s)
        self.now += round(wait_s * 1e9)


def trace_of(*requests):
    """(arrival in ms, prompt, output) of each."""
    return Trace.from_requests(
        Request(str(i), arrival * MS, prompt, output)
        for i, (arrival, prompt, output) in enumerate(requests)
    )


BUSY = trace_of((0, 11, 6), (0, 3, 9), (2, 20, 3), (9, 7, 5), (11, 2, 8), (30, 17, 4), (400, 5, 5))


def scheduler_of(name, budget, seqs):
    limits = {"max_num_batched_tokens": budget, "max_num_seqs": seqs}
    takes = inspect.signature(SCHEDULERS[name]).parameters
    return SCHEDULERS[name](**{key: value for key, value in limits.items() if key in takes})


def settings(scheduler="vllm", *, trace=BUSY, kv=None, budget=8, seqs=3, **more):
    return LiveSettings(
        sizes=SMALL,
        device="cpu",
        dtype="float32",
        trace=trace,
        scheduler=lambda: scheduler_of(scheduler, budget, seqs),
        kv=kv or KVCache(100, 4),
        max_num_seqs=seqs,
        **more,
    )


def served(given, *, decoder=None):
    with torch.inference_mode():
        decoder = decoder or Decoder(SMALL, cache_tokens=given.max_num_seqs * 32)
        executor = Executor(decoder, slots=given.max_num_seqs, width=32)
    clock = Ticks()
    run = serve(
        *(given.trace, given.scheduler(), given.kv, executor),
        clock=WallClock(clock.now_ns, clock.sleep),
    )
    return run, executor


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_given_the_measured_durations_the_simulator_makes_the_same_schedule(scheduler):
    """Durations are this machine's: who is in each step, every token time, every block."""
    given = settings(scheduler, budget=32, repeats=2)
    prices = ConstantCostModel(prefill_ms=2, decode_ms=1)
    outcome = validate_live(given, lambda: prices, clock=clock_named("cpu"))
    assert outcome.identical
    for run in outcome.runs:
        again = replay(given, run)
        assert [work.roster for work in again.work] == [work.roster for work in run.work]
        for name in ("first_token_ns", "finish_ns", "emitted_tokens", "preemptions"):
            ours, theirs = (getattr(r.result.requests, name) for r in (run, again))
            assert ours.tolist() == theirs.tolist()
    assert (outcome.runs[0].result.requests.emitted_tokens == BUSY.output_tokens).all()


def test_another_duration_is_another_schedule():
    given = settings()
    run, _ = served(given)
    assert same_schedule(run, replay(given, run))
    durations = run.result.steps.duration_ns.copy()
    durations[0] += 40 * MS  # five requests wait after it, not two
    longer = ReplayedSteps(np.append(durations, [MS] * 50))
    assert not same_schedule(run, predict(given, longer))


@pytest.mark.parametrize(
    ("scheduler", "blocks"), [("vllm", 100), ("vllm", 9), ("chunked", 9), ("static", 100)]
)
def test_served_tokens_are_those_of_the_model_one_request_at_a_time(scheduler, blocks, monkeypatch):
    """Chunks, batches, moved slots and preemptions (9 blocks) do not change a single token."""
    monkeypatch.setattr(Decoder, "sample", lambda self, logits: logits.argmax(-1))
    with torch.inference_mode():
        decoder = Decoder(SMALL, cache_tokens=3 * 32)
    trace = trace_of((0, 11, 6), (0, 3, 9), (1, 12, 3), (9, 7, 5), (11, 2, 8), (30, 17, 4))
    given = settings(scheduler, trace=trace, kv=KVCache(blocks, 4), budget=8 if blocks > 9 else 16)
    if scheduler == "static":
        given = settings(scheduler, trace=trace, budget=64)
    run, executor = served(given, decoder=decoder)
    assert (run.result.requests.preemptions.sum() > 0) == (blocks == 9)
    for row, text in executor.texts.items():
        prompt, output = int(trace.prompt_tokens[row]), int(trace.output_tokens[row])
        assert len(text) == prompt + output
        caches = [decoder.cache(layer, 1, 32) for layer in range(SMALL.layers)]
        for end in range(prompt, prompt + output):
            with torch.inference_mode():
                batch = decoder.batch([Chunk(0, 0, end)], [], text[:end])
                assert decoder.step(batch, caches).tolist() == [text[end]]


def test_the_engine_counts_what_the_decoder_computes():
    """Context and tokens that the engine derives from its counters, against every step walked."""
    run, _ = served(settings())
    shapes, steps = run.shapes, run.result.steps
    assert [shape.decode_seqs for shape in shapes] == steps.decode_seqs.tolist()
    assert [shape.decode_context_tokens for shape in shapes] == steps.context_tokens.tolist()
    assert [shape.prefill_tokens for shape in shapes] == steps.prefill_tokens.tolist()


def test_a_step_lasts_until_its_tokens_are_there_and_idle_time_is_waited_for():
    """The clock is read at the first plan (1 ms), twice to see that nothing is early, before and
    after the model: a step's end is the second of those, the next step begins there."""
    run, _ = served(settings(trace=trace_of((0, 3, 2), (50, 3, 1))))
    clock = Ticks()
    with torch.inference_mode():
        executor = Executor(Decoder(SMALL, cache_tokens=64), slots=2, width=32)
    run = serve(
        *(trace_of((0, 3, 2), (50, 3, 1)), SCHEDULERS["vllm"](8, 2), KVCache(9, 4), executor),
        clock=WallClock(clock.now_ns, clock.sleep),
    )
    # Per step three reads: is it early, model begins, model ends; the first also sets the start.
    assert run.result.steps.duration_ns.tolist() == [3 * MS, 3 * MS, 3 * MS]
    assert run.model_ns.tolist() == [MS, MS, MS]
    assert run.result.steps.end_ns.tolist() == [3 * MS, 6 * MS, 53 * MS]
    assert clock.waited_s == [pytest.approx(0.043)]


def test_cpu_time_does_not_wait():
    clock = IdleSkipped(lambda: 7)
    clock.sleep(1e-9)
    assert clock.now_ns() == 8
    named = clock_named("cpu")
    before = named.now_ns()
    named.sleep(1000.0)
    assert named.now_ns() - before >= 1e12


def test_host_time_is_what_steps_take_beyond_the_model_and_is_added_to_every_price():
    given = settings()
    with torch.inference_mode():
        executor = Executor(Decoder(SMALL, cache_tokens=3 * 32), slots=3, width=32)
    clock = Ticks()
    run = warm_up(given, executor, WallClock(clock.now_ns, clock.sleep))
    assert host_ns_of(run) == 2 * MS
    assert len(run.result.trace) == 3
    prices = WithHost(ConstantCostModel(prefill_ms=5, decode_ms=2), 7)
    assert prices.step_ns(StepShape((), 3, 30)) == 2 * MS + 7
    assert prices.leap_ns(StepShape((), 3, 30), 2).tolist() == [2 * MS + 7] * 2


def test_a_plan_that_disagrees_with_the_cache_is_refused():
    run, executor = served(settings())
    executor.begin(BUSY, seed=0)
    work = next(work for work in run.work if work.decodes)
    with pytest.raises(SimulatorError, match=r"tokens of request \d+ are in the KV cache"):
        executor.run(work)


def test_a_plan_in_parts_is_refused():
    class InParts:
        def plan(self, view):
            head = next(iter(view.waiting))
            return Plan(Decode.NONE, ((head, 1),), more=True)

    with torch.inference_mode():
        executor = Executor(Decoder(SMALL, cache_tokens=32), slots=1, width=32)
    with pytest.raises(ConfigError, match="in parts"):
        serve(trace_of((0, 3, 2)), InParts(), KVCache(9, 4), executor)


def test_work_is_not_kept_in_a_simulation():
    simulated = predict(settings(), ConstantCostModel(prefill_ms=2, decode_ms=1))
    assert isinstance(simulated, Served)
    assert simulated.model_ns is None
