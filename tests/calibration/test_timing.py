"""Timing, on a clock that only moves when the timed work says so."""

from __future__ import annotations

from calibration.timing import Effort, HostClock, measure, measure_laps


class Device:
    """Work whose duration is `lasts_ns(evaluation)`, on its own clock."""

    def __init__(self, lasts_ns):
        self.time_ns = 0
        self.lasts_ns = lasts_ns
        self.evaluations = []

    def work(self, evaluation):
        self.evaluations.append(evaluation)
        self.time_ns += self.lasts_ns(evaluation)

    def measure(self, **effort):
        return measure(self.work, HostClock(lambda: self.time_ns), Effort(**effort))


def test_steady_work_stops_at_the_smallest_number_of_samples():
    trial = Device(lambda _: 1_000_000).measure(min_samples=5)
    assert trial.samples_ns == (1_000_000.0,) * 5
    assert (trial.median_ns, trial.iqr_ns, trial.spread, trial.outliers) == (1e6, 0.0, 0.0, 0)


def test_the_first_evaluations_are_not_samples():
    device = Device(lambda evaluation: 9_000_000_000 if evaluation == 0 else 1_000_000)
    assert device.measure(warmup=2, budget_s=100.0).median_ns == 1_000_000


def test_every_evaluation_has_the_next_number_so_that_buffers_can_rotate():
    device = Device(lambda _: 1_000_000)
    device.measure(warmup=2, min_samples=4)
    assert device.evaluations == [0, 1, 2, 3, 4, 5]


def test_calls_too_short_for_the_clock_are_timed_together():
    device = Device(lambda _: 100)
    trial = device.measure(warmup=1, min_samples=3, min_sample_ns=1_000)
    assert trial.samples_ns == (100.0,) * 3
    assert len(device.evaluations) == 1 + 3 * 10


def test_noisy_work_stops_when_its_time_is_used_up():
    """Samples of 1 and 3 s in turn never agree: after 1 s of warm-up, 8 s hold four."""
    device = Device(lambda evaluation: (1 + 2 * (evaluation % 2)) * 1_000_000_000)
    trial = device.measure(warmup=1, min_samples=2, budget_s=9.0)
    assert trial.samples_ns == (3e9, 1e9, 3e9, 1e9)
    assert device.time_ns == 9_000_000_000


def test_noisy_work_stops_at_the_largest_number_of_samples():
    device = Device(lambda evaluation: (1 + evaluation % 2) * 1_000_000)
    assert len(device.measure(max_samples=12, budget_s=100.0).samples_ns) == 12


def test_work_that_settles_stops_when_its_spread_is_under_the_target():
    device = Device(lambda evaluation: 2_000_000 if evaluation < 4 else 1_000_000)
    trial = device.measure(warmup=1, min_samples=3, budget_s=100.0, target_spread=0.1)
    assert trial.samples_ns[:3] == (2e6,) * 3  # already agreed
    device = Device(lambda evaluation: 1_000_000 + 500_000 * (evaluation in (2, 3)))
    trial = device.measure(warmup=1, min_samples=3, budget_s=100.0, target_spread=0.1)
    assert len(trial.samples_ns) == 9
    assert trial.median_ns == 1_000_000


def test_a_slow_call_still_gets_its_fewest_samples():
    device = Device(lambda _: 60_000_000_000)
    assert len(device.measure(min_samples=3, budget_s=1.0).samples_ns) == 3


def test_laps_are_summed_by_name_and_leave_nothing_out():
    """Two layers of 3 + 5 ns after an embedding of 1 ns."""
    device = Device(lambda _: 0)

    def step(lap):
        for name, lasts_ns in (("embedding", 1), ("qkv", 3), ("o", 5), ("qkv", 3), ("o", 5)):
            device.time_ns += lasts_ns
            lap(name)

    trials = measure_laps(step, HostClock(lambda: device.time_ns), Effort(min_samples=4))
    assert {name: trial.samples_ns for name, trial in trials.items()} == {
        "embedding": (1.0,) * 4,
        "qkv": (6.0,) * 4,
        "o": (10.0,) * 4,
    }


def test_caches_are_flushed_before_every_sample_and_outside_it():
    device = Device(lambda _: 100)

    def flush():
        device.time_ns += 7_000

    clock = HostClock(lambda: device.time_ns, flush=flush)
    assert measure(device.work, clock, Effort(min_samples=3)).samples_ns == (100.0,) * 3
