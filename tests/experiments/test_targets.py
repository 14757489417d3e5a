"""Targets that policies have by default, beside the limits that a run is judged by."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import Result

from experiments.config import RunConfig
from experiments.policies import build_policy
from experiments.targets import missed_limits
from simulator.schedulers import SCHEDULERS


def notes(**given: Any) -> tuple[str, ...]:
    config = RunConfig(**given)
    return missed_limits(config, build_policy(config))


def test_edf_that_aims_elsewhere_names_the_flags() -> None:
    assert notes(scheduler="edf", slo="ttft=450ms,tpot=40ms") == (
        "edf aims at ttft 1000 ms, tpot 50 ms, not at the SLO (ttft 450 ms, tpot 40 ms): "
        "--scheduler-arg ttft_ms=450 --scheduler-arg tpot_ms=40",
    )


def test_dynamic_has_a_flag_of_its_own() -> None:
    assert notes(scheduler="dynamic", slo="ttft=450ms,tpot=40ms") == (
        "dynamic aims at tpot 50 ms, not at the SLO (tpot 40 ms): --tpot-target-ms 40",
    )


@pytest.mark.parametrize(
    "given",
    [
        {"scheduler": "edf", "slo": "ttft=1s,tpot=50ms"},
        {"scheduler": "edf", "slo": "e2el=9s"},
        {"scheduler": "edf", "slo": "ttft=9s", "scheduler_args": ["ttft_ms=chat:500+docs:6000"]},
        {"scheduler": "dynamic", "slo": "tpot=40ms", "tpot_target_ms": 30},
        {"scheduler": "chunked", "slo": "tpot=40ms"},
    ],
)
def test_nothing_is_said_of_a_target_that_is_meant_or_met(given: dict[str, Any]) -> None:
    assert notes(**given) == ()


def test_the_list_of_schedulers_says_what_a_run_uses(runway: Callable[..., Result]) -> None:
    rows = json.loads(runway("list", "schedulers", "--json").stdout)["schedulers"]
    listed = {row["name"]: row["parameters"] for row in rows}
    assert listed["dynamic"]["max_num_batched_tokens"] == 2048
    for name in SCHEDULERS:
        used = build_policy(RunConfig(scheduler=name)).parameters
        assert listed[name] == {**listed[name], **used}
