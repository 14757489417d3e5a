"""What only runs on CUDA, with fakes for the device: events, graphs, graphs that cannot be."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from calibration import device, measuring  # noqa: E402  # after the skip
from calibration.device import CudaClock, check_clock  # noqa: E402
from calibration.errors import CalibrationError  # noqa: E402
from calibration.kernels import Decoder  # noqa: E402
from calibration.measuring import StepTimer  # noqa: E402
from calibration.sizes import DecoderSizes  # noqa: E402

SMALL = DecoderSizes(
    name="small",
    family="llama",
    hidden=32,
    intermediate=48,
    layers=1,
    heads=4,
    kv_heads=2,
    head_dim=8,
    vocabulary=50,
)


class Stream:
    """A queue of work that takes device time, and events on it."""

    def __init__(self):
        self.now_ms = 0.0
        self.flushed = self.slept = 0

    def event(self, *, enable_timing):
        assert enable_timing
        mark = SimpleNamespace()
        mark.record = lambda: setattr(mark, "at", self.now_ms)
        mark.elapsed_time = lambda end: end.at - mark.at
        return mark

    def sleep(self, cycles):
        self.slept += 1
        self.now_ms += 10.0


@pytest.fixture
def stream(monkeypatch):
    """A CUDA device that is none."""
    fake = Stream()
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "_sleep", fake.sleep)
    monkeypatch.setattr(torch.cuda, "Event", fake.event)
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda name: SimpleNamespace(L2_cache_size=64)
    )
    return fake


def test_laps_are_the_time_between_events_without_the_sleep_before_them(stream):
    """Two layers of 2 and 3 ms: by name, twice the median."""
    clock = CudaClock("cpu")

    def step(lap):
        for name, lasts_ms in (("qkv", 2.0), ("o", 1.0), ("qkv", 3.0), ("o", 1.0)):
            stream.now_ms += lasts_ms
            lap(name)
        stream.now_ms += 50.0  # after the last lap: nobody's

    assert clock.laps_ns(step) == {"qkv": 5e6, "o": 2e6}
    assert stream.slept == 1


def test_evaluations_share_a_sample_and_caches_are_overwritten_before_it(stream):
    clock = CudaClock("cpu")
    clock._flush.fill_(7)

    def work(evaluation):
        stream.now_ms += 1.0 + evaluation

    assert clock.time_ns(work, 0, 2) == 1.5e6
    assert clock._flush.tolist() == [0] * 128


def timer():
    return StepTimer(Decoder(SMALL, cache_tokens=16))


def test_a_decode_step_that_cannot_be_captured_runs_kernel_by_kernel_and_says_so(monkeypatch):
    def refuse(run):
        raise RuntimeError("operation not permitted when stream is capturing\nmore")

    monkeypatch.setattr(measuring, "_captured", refuse)
    one = timer()
    assert one._graph_of(lambda batch: ("ran", batch), "inputs")("other") == ("ran", "other")
    assert one.not_captured == "operation not permitted when stream is capturing"


def test_a_captured_step_replays_what_was_captured(monkeypatch):
    monkeypatch.setattr(measuring, "_captured", lambda run: run)
    one = timer()
    assert one._graph_of(lambda batch: ("ran", batch), "inputs")("other") == ("ran", "inputs")
    assert one.not_captured is None


def test_running_out_of_memory_while_capturing_is_the_shape_not_the_graph(monkeypatch):
    def scarce(run):
        raise torch.OutOfMemoryError("too large")

    monkeypatch.setattr(measuring, "_captured", scarce)
    one = timer()
    with pytest.raises(torch.OutOfMemoryError):
        one._graph_of(lambda batch: batch, "inputs")
    assert one.not_captured is None


@pytest.mark.parametrize(
    ("clock", "name", "said"),
    [
        ("sun", "cpu", "clock 'sun' is not one of wall, cpu"),
        ("cpu", "cuda:0", "the work on cuda:0 is that of a GPU"),
    ],
)
def test_a_clock_that_does_not_see_the_work_is_refused(clock, name, said):
    with pytest.raises(CalibrationError, match=said):
        check_clock(clock, name)


def test_cpu_time_of_one_thread_is_not_that_of_two(monkeypatch):
    monkeypatch.setattr(device.torch, "get_num_threads", lambda: 2)
    with pytest.raises(CalibrationError, match=r"is that of 2: give --device cpu --threads 1"):
        check_clock("cpu", "cpu")
