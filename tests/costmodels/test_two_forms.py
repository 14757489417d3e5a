"""`leap_ns` equals `step_ns` of the shapes that follow, bit for bit, for every cost model."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodels import (
    GPUS,
    ConstantCostModel,
    LessonCostModel,
    LinearCostModel,
    RooflineCostModel,
    find_model,
    load_cost_model,
)
from simulator.cost_model import CostModel
from simulator.plan import StepShape

COEFFICIENT = st.floats(0, 1, allow_subnormal=False)
LINEAR = st.builds(
    LinearCostModel,
    step_ms=st.floats(1e-9, 1e3),
    decode_ms_per_sequence=COEFFICIENT,
    decode_ms_per_context_token=st.floats(0, 1e-2),
    longest_context_ms_per_token=st.one_of(st.just(0.0), st.floats(0, 1e-1)),
    longest_context_full_at_sequences=st.floats(1, 64),
)
ROOFLINE = st.builds(
    RooflineCostModel,
    st.sampled_from([GPUS["h100-sxm"], GPUS["b300-sxm"]]),
    st.just(find_model("llama-3.1-8b")),
    tensor_parallel=st.sampled_from([1, 2, 4]),
    kv_dtype=st.sampled_from(["bf16", "fp8", "int4"]),
    bandwidth_efficiency=st.floats(0.1, 1),
    step_overhead_ms=st.floats(0, 5),
)
CONSTANT = st.builds(ConstantCostModel, st.floats(0, 100), st.floats(0, 100))
BUNDLED = st.sampled_from(["b300-qwen3-32b-tp1", "b300-qwen3-32b-tp2", "b300-qwen3-32b-tp4"])
MODEL = st.one_of(
    LINEAR, ROOFLINE, CONSTANT, st.just(LessonCostModel()), BUNDLED.map(load_cost_model)
)


def assert_same_bits(model: CostModel, shape: StepShape, steps: int) -> None:
    prices = model.leap_ns(shape, steps)
    assert prices.dtype == np.int64
    assert prices.shape == (steps,)
    assert prices.tolist() == [model.step_ns(shape.after(k)) for k in range(steps)]
    assert (prices >= 1).all()


@settings(max_examples=300, deadline=None)
@given(
    MODEL,
    st.integers(0, 1024),
    st.integers(0, 50_000_000),
    st.integers(0, 1_000_000),
    st.integers(0, 60),
)
def test_leap_equals_steps(model, seqs, context, longest, steps):
    assert_same_bits(model, StepShape((), seqs, context, longest), steps)


def test_leap_equals_steps_over_a_long_leap():
    model = load_cost_model("b300-qwen3-32b-tp1")
    assert_same_bits(model, StepShape((), 31, 12_345, 999), 5_000)


def test_leap_equals_steps_where_prices_leave_the_exact_range():
    """1 ms per context token: 130 s at the start, over 2**37 ns = 137.4 s within the leap."""
    model = LinearCostModel(step_ms=0.1, decode_ms_per_context_token=1.0000001)
    assert_same_bits(model, StepShape((), 100, 130_000), 200)


@pytest.mark.parametrize("steps", [0, 1])
def test_a_leap_may_be_empty_or_one_step(steps):
    assert_same_bits(load_cost_model("lesson"), StepShape((), 4, 400), steps)


def test_linear_prices_halfway_between_two_nanoseconds_go_up():
    """39,062.5 ns twice, at 1 and at 3 tokens: 39,063 and 117,188 (117,187.5)."""
    model = LinearCostModel(decode_ms_per_context_token=0.0390625)
    assert model.leap_ns(StepShape((), 2, 1), 2).tolist() == [39_063, 117_188]
    assert model.step_ns(StepShape((), 2, 1)) == 39_063
    assert model.step_ns(StepShape((), 2, 3)) == 117_188


def test_a_price_that_starts_under_a_nanosecond_is_the_same_in_all_forms():
    """0.3 ns a context token of one sequence: 0.3, 0.6, 0.9, 1.2 ... are at least 1 ns."""
    model = LinearCostModel(decode_ms_per_context_token=0.3e-6)
    shape = StepShape((), 1, 1)
    assert model.line(shape) is None
    prices = [model.step_ns(shape.after(k)) for k in range(12)]
    assert prices == model.leap_ns(shape, 12).tolist()
    assert prices[0] == 1
    assert prices[-1] == 4
