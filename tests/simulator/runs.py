"""Four small runs with known numbers, and their summaries. Times in ms."""

import json
from typing import Any

from simulator.metrics import summarize
from simulator.result import Result
from tests.simulator.results import Asked, Evicted, Step, result_of


def one_request() -> Result:
    """Arrival 0, first scheduled at 20, tokens at 100, 110, 120, 200."""
    steps = [
        Step(20, 100, prefill={0: 40}),
        Step(100, 110, decode=(0,)),
        Step(110, 120, decode=(0,)),
        Step(190, 200, decode=(0,)),
    ]
    return result_of([Asked(0, 40, 4)], steps)


def preempted() -> Result:
    """Scheduled 30, tokens at 100, 110, 120; evicted at 120, back at 300, tokens at 360, 370."""
    steps = [
        Step(30, 100, prefill={0: 40}),
        Step(100, 110, decode=(0,)),
        Step(110, 120, decode=(0,)),
        Step(300, 360, prefill={0: 43}),
        Step(360, 370, decode=(0,)),
    ]
    return result_of([Asked(0, 40, 5)], steps, [Evicted(0, 120, 300, 42)])


def two_paces() -> Result:
    """A: 2 tokens 100 apart. B: 11 tokens 10 apart, meanwhile."""
    steps = [Step(0, 10, prefill={0: 10, 1: 10})]
    steps += [Step(10 * k, 10 * k + 10, decode=(1,)) for k in range(1, 10)]
    steps += [Step(100, 110, decode=(0, 1))]
    return result_of([Asked(0, 10, 2), Asked(0, 10, 11)], steps)


def short_answers() -> Result:
    """Outputs 1, 1 and 3; the third has tokens at 50, 60, 90."""
    steps = [
        Step(0, 50, prefill={0: 8, 1: 8, 2: 8}),
        Step(50, 60, decode=(2,)),
        Step(60, 90, decode=(2,)),
    ]
    return result_of([Asked(0, 8, 1), Asked(0, 8, 1), Asked(0, 8, 3)], steps)


def summary_of(result: Result, **options: Any) -> dict[str, Any]:
    """The summary, after it has been through a strict JSON writer and parser."""
    return json.loads(json.dumps(summarize(result, **options), allow_nan=False))


def only_value(distribution: dict[str, Any]) -> float:
    """The value of a distribution of one sample."""
    assert distribution["n"] == 1
    assert distribution["min"] == distribution["mean"] == distribution["max"]
    return distribution["mean"]
