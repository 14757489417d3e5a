"""Prices of every cost model over random steps: positive, finite, and no less for more work."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodels import (
    GPUS,
    ConstantCostModel,
    LessonCostModel,
    LinearCostModel,
    Operator,
    OperatorGrids,
    OperatorsCostModel,
    RooflineCostModel,
    StepsCostModel,
    find_model,
    load_cost_model,
)
from simulator.plan import StepShape
from tests.strategies import steady

COUNTS = st.lists(st.integers(1, 4096), min_size=2, max_size=6, unique=True).map(sorted)
SMALL = st.floats(0, 0.1, allow_subnormal=False)


@st.composite
def rising_grids(draw):
    """An operators model whose times rise along every count, padded or not, synchronous or not."""
    per_token, per_pair = draw(st.floats(0, 1)), draw(st.floats(0, 1e-3))
    seqs, contexts, tokens = draw(COUNTS), draw(COUNTS), draw(COUNTS)
    attention = [
        (0, 0, n, context, 2 + per_pair * n * context) for n in seqs for context in contexts
    ]
    attention += [
        (n, past, 0, 0, 2 + per_pair * n * (past + n)) for n in tokens for past in (0, 512)
    ]
    counted = {
        "gemm": Operator(axis="tokens", points=tuple((n, 30 + per_token * n) for n in tokens)),
        "lm_head": Operator(axis="sequences", per="step", points=tuple((n, 9 + n) for n in seqs)),
        "all_reduce": Operator(
            axis="bytes", bytes_per_token=64, calls=2, points=((64, 5.0), (640_000, 50.0))
        ),
    }
    return OperatorsCostModel(
        OperatorGrids(counted, tuple(sorted(attention))),
        layers=draw(st.integers(1, 64)),
        decode_batch_sizes=draw(st.sampled_from([[], [1, 2, 4, 8, 16, 64, 256]])),
        host_us=draw(st.floats(0, 1000)),
        host_combine=draw(st.sampled_from(["max", "sum"])),
        extrapolation=draw(st.sampled_from(["linear", "clamp"])),
    )


MODELS = st.one_of(
    rising_grids(),
    st.builds(
        LinearCostModel,
        step_ms=st.floats(1e-3, 100),
        prefill_ms_per_token=SMALL,
        attention_ms_per_token_pair=st.floats(0, 1e-5, allow_subnormal=False),
        prefill_step_ms=SMALL,
        decode_ms_per_sequence=SMALL,
        decode_ms_per_context_token=st.floats(0, 1e-4, allow_subnormal=False),
    ),
    st.builds(
        StepsCostModel,
        step_ms=st.floats(1e-3, 100),
        compute_ms_per_token=SMALL,
        knee_tokens=st.floats(0, 1000),
        attention_tokens_per_pair=st.floats(0, 1e-3, allow_subnormal=False),
        prefill_step_ms=SMALL,
        decode_ms_per_sequence=SMALL,
        decode_ms_per_context_token=st.floats(0, 1e-4, allow_subnormal=False),
    ),
    st.builds(
        RooflineCostModel,
        st.sampled_from([GPUS["h100-sxm"], GPUS["b300-sxm"]]),
        st.just(find_model("llama-3.1-8b")),
        tensor_parallel=st.sampled_from([1, 2, 8]),
        kv_dtype=st.sampled_from(["bf16", "fp8", "int4"]),
    ),
    st.builds(ConstantCostModel, st.floats(0.1, 100), st.floats(0.1, 100)),
    st.just(LessonCostModel()),
    st.sampled_from([1, 2, 4]).map(lambda tp: load_cost_model(f"b300-qwen3-32b-tp{tp}")),
)
CHUNKS = st.lists(st.tuples(st.integers(1, 3000), st.integers(0, 9000)), max_size=3).map(tuple)
MOST_NS = 10**13


def step(chunks, seqs, context):
    """A step whose decodes hold `context` tokens each."""
    return StepShape(chunks, seqs, seqs * context, context if seqs else 0)


@pytest.mark.filterwarnings("ignore::costmodels.ExtrapolationWarning")
@steady(150)
@given(MODELS, CHUNKS, st.integers(0, 2000), st.integers(0, 30_000))
def test_every_price_is_positive_and_finite(model, chunks, seqs, context):
    shape = step(chunks, seqs, context)
    price = model.step_ns(shape)
    assert type(price) is int
    assert 1 <= price < MOST_NS
    prices = model.leap_ns(step((), seqs, context), 5)
    assert prices.dtype == np.int64
    assert (prices >= 1).all()


@pytest.mark.filterwarnings("ignore::costmodels.ExtrapolationWarning")
@steady(150)
@given(MODELS, CHUNKS, st.integers(1, 2000), st.integers(1, 30_000), st.integers(1, 500))
def test_more_work_never_costs_less(model, chunks, seqs, context, more):
    """To the nanosecond: what lies between grid points is rounded."""
    price = model.step_ns(step(chunks, seqs, context))
    assert model.step_ns(step(chunks, seqs + more, context)) >= price - 2
    assert model.step_ns(step(chunks, seqs, context + more)) >= price - 2
    if chunks:
        (new, past), *others = chunks
        longer = ((new + more, past), *others)
        later = ((new, past + more), *others)
        assert model.step_ns(step(longer, seqs, context)) >= price - 2
        assert model.step_ns(step(later, seqs, context)) >= price - 2
