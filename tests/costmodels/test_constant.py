"""One price for prompts, one for decodes."""

import math

import pytest

from costmodels import ConstantCostModel
from simulator.cost_model import CostModel
from simulator.errors import ConfigError
from simulator.plan import StepShape

PROMPT, DECODES, BOTH, NOTHING = (
    StepShape(((2048, 0),), 0, 0),
    StepShape((), 4, 400),
    StepShape(((2048, 0),), 4, 400),
    StepShape((), 0, 0),
)


def test_a_fused_step_costs_the_sum():
    model = ConstantCostModel(prefill_ms=80, decode_ms=8)
    prices = [model.step_ns(shape) for shape in (PROMPT, DECODES, BOTH)]
    assert prices == [80_000_000, 8_000_000, 88_000_000]


def test_no_step_is_free():
    assert ConstantCostModel(prefill_ms=0, decode_ms=0).step_ns(NOTHING) == 1


def test_it_is_a_cost_model_that_says_nobody_measured_it():
    model = ConstantCostModel(prefill_ms=80, decode_ms=8)
    assert isinstance(model, CostModel)
    assert model.stamp == "uncalibrated: prices are hand-written"
    assert model.table.parameters == {"prefill_ms": 80.0, "decode_ms": 8.0}


@pytest.mark.parametrize("bad", [-1.0, math.nan])
def test_a_price_must_be_a_price(bad):
    with pytest.raises(ConfigError, match="decode_ms is"):
        ConstantCostModel(prefill_ms=80, decode_ms=bad)
