"""`explain`: the terms of a price, and that they add up to it."""

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
from simulator.plan import StepShape

MODELS = (
    ConstantCostModel(80.0, 8.0),
    LessonCostModel(),
    RooflineCostModel(
        GPUS["h100-sxm"], find_model("llama-3.1-8b"), tensor_parallel=2, step_overhead_ms=0.5
    ),
    load_cost_model("b300-qwen3-32b-tp1"),
    load_cost_model("b300-qwen3-32b-tp4"),
)
CHUNKS = st.lists(st.tuples(st.integers(1, 8192), st.integers(0, 30_000)), max_size=3).map(tuple)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(MODELS), CHUNKS, st.integers(0, 256), st.integers(0, 10_000))
def test_the_terms_add_up_to_the_price(model, chunks, seqs, context):
    shape = StepShape(chunks, seqs, seqs * context, context if seqs else 0)
    total_ns = 1e6 * sum(ms for _, ms in model.explain(shape))
    assert total_ns == pytest.approx(model.step_ns(shape), rel=1e-12, abs=1.01)


def test_a_linear_price_term_by_term():
    """One chunk of 4 tokens after 10, and 3 decodes of 100: 4 x (10 + 2) = 48 pairs."""
    model = LinearCostModel(
        step_ms=10,
        prefill_ms_per_token=1,
        attention_ms_per_token_pair=0.25,
        prefill_step_ms=2,
        decode_ms_per_sequence=0.5,
        decode_ms_per_context_token=0.125,
    )
    assert model.explain(StepShape(((4, 10),), 3, 300)) == [
        ("step", 10.0),
        ("prefill step", 2.0),
        ("prefill of 4 tokens", 4.0),
        ("attention of 48 token pairs", 12.0),
        ("decode of 3 sequences", 1.5),
        ("decode context of 300 tokens", 37.5),
    ]


def test_a_roofline_price_says_what_bounds_the_matrices():
    model = RooflineCostModel(GPUS["h100-sxm"], find_model("llama-3.1-8b"))
    terms = [term for term, _ in model.explain(StepShape((), 4, 400))]
    assert "matrices, bound by bandwidth" in terms
    terms = [term for term, _ in model.explain(StepShape(((4096, 0),), 0, 0))]
    assert "matrices, bound by FLOP/s" in terms
