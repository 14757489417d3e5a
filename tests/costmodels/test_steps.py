"""`StepsCostModel` against hand-worked numbers: the knee, and both forms of a price."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodels import StepsCostModel, load_cost_model
from simulator.errors import ConfigError, TableFormatError
from simulator.plan import StepShape

H100 = {
    "step_ms": 11.11,
    "compute_ms_per_token": 0.0387,
    "knee_tokens": 255,
    "attention_tokens_per_pair": 1 / 24_000,
    "decode_ms_per_sequence": 0.04,
    "decode_ms_per_context_token": 6.1e-5,
}
"""Qwen3-14B on one H100 under vLLM, fitted to a log of 2 requests a second."""


def ms(model, chunks=(), seqs=0, context=0, longest=0):
    return model.step_ns(StepShape(chunks, seqs, context, longest)) / 1e6


def test_below_the_knee_tokens_cost_nothing():
    """200 prompt tokens and 55 decodes are 255 tokens: the weights' read covers them."""
    model = StepsCostModel(step_ms=10, compute_ms_per_token=0.05, knee_tokens=255)
    assert ms(model) == 10.0
    assert ms(model, ((200, 0),), 55) == 10.0
    assert ms(model, ((200, 0),), 57) == 10.1


def test_attention_counts_as_tokens_past_the_knee():
    """100 tokens after 350: 100 x (350 + 50) = 40,000 pairs, worth 80 tokens: 180 - 160 = 20."""
    model = StepsCostModel(
        step_ms=10, compute_ms_per_token=0.05, knee_tokens=160, attention_tokens_per_pair=1 / 500
    )
    assert ms(model, ((100, 350),)) == pytest.approx(11.0, abs=2e-6)


def test_two_prompts_in_a_step_cost_more_than_two_steps_minus_one_read():
    """One of 986 tokens: 11.11 + 0.0387 x (986 + 986^2 / 48,000 - 255) = 40.18 ms; two: 79.13."""
    model = StepsCostModel(**H100)
    assert ms(model, ((986, 0),)) == pytest.approx(40.183, abs=0.001)
    assert ms(model, ((986, 0),) * 2) == pytest.approx(79.125, abs=0.001)


def test_every_other_term():
    """2 + 1 + 3 x 0.5 + 30 x 0.25 + 20 x 0.125 x 3/4."""
    model = StepsCostModel(
        step_ms=2,
        prefill_step_ms=1,
        decode_ms_per_sequence=0.5,
        decode_ms_per_context_token=0.25,
        longest_context_ms_per_token=0.125,
        longest_context_full_at_sequences=4,
    )
    assert model.needs_longest_context
    assert ms(model, ((1, 0),), 3, 30, 20) == 2 + 1 + 1.5 + 7.5 + 1.875
    assert model.explain(StepShape(((1, 0),), 3, 30, 20)) == [
        ("step", 2.0),
        ("compute of 4 tokens, 0.5 pairs, past the knee", 0.0),
        ("prefill step", 1.0),
        ("decode of 3 sequences", 1.5),
        ("decode context of 30 tokens", 7.5),
        ("longest context of 20 tokens", 1.875),
    ]


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ({"step_ms": 0}, "step_ms is 0: every step reads the weights"),
        ({"step_ms": 1, "knee_tokens": -1}, "knee_tokens is -1"),
        ({"step_ms": float("nan")}, "step_ms is nan"),
        ({"step_ms": 1, "longest_context_full_at_sequences": 0}, "must be 1 to 65536"),
    ],
)
def test_bad_parameters_are_refused(parameters, problem):
    with pytest.raises(ConfigError, match=problem):
        StepsCostModel(**parameters)


TABLE = """\
runway_cost_table: 1
kind: steps
name: knee
description: 10 ms a step, 0.05 ms a token from 255 on
parameters: {step_ms: 10, compute_ms_per_token: 0.05, knee_tokens: 255}
provenance: {origin: hand-written}
"""


def test_a_table_is_loaded_and_needs_its_step(tmp_path):
    path = tmp_path / "knee.yaml"
    path.write_text(TABLE)
    assert ms(load_cost_model(path), ((355, 0),)) == 15.0
    path.write_text(TABLE.replace("step_ms: 10, ", ""))
    with pytest.raises(TableFormatError, match=r"parameters.step_ms missing"):
        load_cost_model(path)


PRICE = st.floats(0, 1e-2, allow_subnormal=False)
MODEL = st.builds(
    StepsCostModel,
    step_ms=st.floats(1e-9, 100),
    compute_ms_per_token=PRICE,
    knee_tokens=st.floats(0, 1000),
    attention_tokens_per_pair=st.floats(0, 1e-3),
    prefill_step_ms=PRICE,
    decode_ms_per_sequence=PRICE,
    decode_ms_per_context_token=PRICE,
    longest_context_ms_per_token=PRICE,
    longest_context_full_at_sequences=st.integers(1, 64),
)
SEQS, CONTEXT, LONGEST = st.integers(0, 512), st.integers(0, 1_000_000), st.integers(0, 100_000)


@settings(max_examples=150, deadline=None)
@given(MODEL, SEQS, CONTEXT, LONGEST, st.integers(0, 60))
def test_leap_equals_steps(model, seqs, context, longest, steps):
    shape = StepShape((), seqs, context, longest)
    prices = [model.step_ns(shape.after(k)) for k in range(steps)]
    assert model.leap_ns(shape, steps).tolist() == prices
    line = model.line(shape)
    if line is not None:
        assert [line[0] + k * line[1] >> 16 for k in range(steps)] == prices


CHUNKS = st.lists(st.tuples(st.integers(1, 8192), st.integers(0, 30_000)), max_size=3).map(tuple)


@settings(max_examples=150, deadline=None)
@given(MODEL, CHUNKS, SEQS, CONTEXT, LONGEST)
def test_the_terms_add_up_and_more_work_never_costs_less(model, chunks, seqs, context, longest):
    shape = StepShape(chunks, seqs, context, longest)
    price = model.step_ns(shape)
    assert sum(ms for _, ms in model.explain(shape)) * 1e6 == pytest.approx(
        price, rel=1e-12, abs=1.01
    )
    more = StepShape((*chunks, (1, 0)), seqs + 1, context + 1, longest + 1)
    assert model.step_ns(more) >= price >= 1
