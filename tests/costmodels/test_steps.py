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


def test_a_continued_prompt_and_steps_beyond_the_captured_graphs():
    """200 tokens are launched as a graph; 201 one by one: 10 + 1 + 2, but the host needs 20."""
    model = StepsCostModel(
        step_ms=10,
        prefill_step_ms=1,
        continued_prompt_ms=4,
        captured_tokens=200,
        uncaptured_step_ms=2,
        uncaptured_floor_ms=16,
        decode_ms_per_sequence=0.5,
    )
    assert ms(model, ((200, 0),)) == 11
    assert ms(model, ((150, 0), (50, 300))) == 15
    assert ms(model, ((201, 0),)) == 16
    assert ms(model, ((201, 300),), 2) == 18
    assert ms(model, (), 300) == 160
    assert ("waiting for the host's launches", 3.0) in model.explain(StepShape(((201, 0),), 0, 0))


def test_decodes_pay_for_the_captured_batch_that_holds_them():
    """1, 2, 4, 8 captured, prices for all but the last: 3 cost what 4 cost, and so do 100."""
    model = StepsCostModel(
        step_ms=3, decode_batch_sizes=(1, 2, 4, 8), decode_batch_ms=(0.0, 0.25, 0.75)
    )
    assert [ms(model, (), seqs) for seqs in (0, 1, 2, 3, 4, 5, 100)] == [
        *(3, 3, 3.25, 3.75),
        *(3.75, 3.75, 3.75),
    ]


WAVES = {
    "step_ms": 1,
    "decode_batch_sizes": (4, 8, 16, 32),
    "decode_ms_per_context_token": 2**-10,
    "longest_context_ms_per_token": 2**-6,
    "longest_context_sequences_per_wave": 18.5,
}


@pytest.mark.parametrize(
    ("seqs", "share"), [(3, 1 / 4), (8, 1 / 2), (9, 1), (18, 1), (19, 2), (37, 2), (38, 3)]
)
def test_the_longest_context_counts_by_waves(seqs, share):
    """18.5 sequences to a wave: a batch padded to 4 is split in 4, to 8 in 2; 19 need two waves."""
    model = StepsCostModel(**WAVES)
    assert ms(model, (), seqs, 0, 1024) == pytest.approx(1 + 16 * share, abs=1e-6)


def test_the_larger_of_read_and_longest_context_counts():
    """16 sequences: 2,048 tokens take 2 ms to read, the longest of 64 tokens 1 ms."""
    model = StepsCostModel(**WAVES, decode_attention="max")
    assert ms(model, (), 16, 2048, 64) == 3
    assert ms(model, (), 16, 2048, 256) == 5
    assert ("decode context of 2048 tokens", 0.0) in model.explain(StepShape((), 16, 2048, 256))


def test_a_leap_across_the_change_of_the_larger_term_is_no_line():
    """2 decodes: their sum, 92, grows by 2 a step, the longest, 100, by 1: after 8 steps the sum
    is larger. Where one is larger from the start and grows as fast, there is a line."""
    model = StepsCostModel(
        step_ms=1,
        decode_ms_per_context_token=1,
        longest_context_ms_per_token=1,
        decode_attention="max",
    )
    shape = StepShape((), 2, 92, 100)
    assert model.line(shape) is None
    prices = model.leap_ns(shape, 20).tolist()
    assert prices == [model.step_ns(shape.after(k)) for k in range(20)]
    assert prices[8] == 109_000_000
    assert prices[9] == 111_000_000
    assert model.line(StepShape((), 2, 200, 100)) is not None


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ({"step_ms": 1, "stepms": 2}, "no parameter 'stepms', did you mean step_ms"),
        ({"step_ms": "1"}, "step_ms is '1': must be a number"),
        ({"step_ms": 1, "captured_tokens": 0.5}, "captured_tokens is 0.5: must be a whole"),
        ({"step_ms": 1, "decode_batch_sizes": [2, 1]}, "must be ascending, from 1"),
        (
            {"step_ms": 1, "decode_batch_sizes": [1, 2], "decode_batch_ms": [2, 1]},
            "must not fall",
        ),
        ({"step_ms": 1, "decode_batch_ms": [1]}, "has 1 prices for 0 decode_batch_sizes"),
        ({"step_ms": 1, "decode_batch_sizes": 4}, "must be a list of numbers"),
        ({"step_ms": 1, "decode_attention": "min"}, "must be sum or max"),
        ({"step_ms": 1, "longest_context_sequences_per_wave": 0.5}, "must be 1 to"),
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
BATCHES = {"decode_batch_sizes": (1, 2, 4, 8, 64), "decode_batch_ms": (0.0, 0.1, 0.1, 0.5)}
WAVED = {**BATCHES, "longest_context_sequences_per_wave": 18.5}
MODEL = st.builds(
    lambda batches, **given: StepsCostModel(**{**given, **batches}),
    batches=st.sampled_from([{}, BATCHES, {**WAVED, "longest_context_full_at_sequences": 1}]),
    continued_prompt_ms=PRICE,
    captured_tokens=st.integers(0, 600),
    uncaptured_step_ms=PRICE,
    uncaptured_floor_ms=st.floats(0, 50),
    decode_attention=st.sampled_from(["sum", "max"]),
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


def test_tokens_of_a_step_with_prompts_fill_whole_tiles():
    """Tiles of 128, knee 256: 300 prompt tokens and 20 decodes take 3 tiles, 384 - 256 = 128 over;
    64 more still do; 65 more take 4. Without prompts nothing is rounded."""
    model = StepsCostModel(
        step_ms=10, compute_ms_per_token=0.1, knee_tokens=256, compute_tile_tokens=128
    )
    assert ms(model, ((300, 0),), 20) == 22.8
    assert ms(model, ((364, 0),), 20) == 22.8
    assert ms(model, ((365, 0),), 20) == 35.6
    assert ms(model, (), 257) == 10.1
    for tile in (0, 2000):
        with pytest.raises(ConfigError, match="compute_tile_tokens"):
            StepsCostModel(step_ms=10, compute_tile_tokens=tile)


def test_a_step_after_a_pause_saves_what_the_clock_has_recovered():
    """600 tokens, 500 over the knee: 50 ms of compute. 4 ms, half of them back after 20 ms: 1 ms
    after 20/3 ms, 3 after 60. 150 tokens: 5 ms of compute save at most 4 / 20 of it."""
    model = StepsCostModel(
        step_ms=10,
        compute_ms_per_token=0.1,
        knee_tokens=100,
        boost_saving_ms=4,
        boost_recovery_ms=20,
    )
    prompts, few = StepShape(((600, 0),), 0, 0), StepShape(((150, 0),), 0, 0)
    assert model.pause_saving_ns(prompts, 0) == 0
    assert model.pause_saving_ns(prompts, 20_000_000) == 2_000_000
    assert model.pause_saving_ns(prompts, 60_000_000) == 3_000_000
    assert model.pause_saving_ns(few, 60_000_000) == 1_000_000
    assert model.pause_saving_ns(StepShape((), 900, 9000), 60_000_000) == 0
    with pytest.raises(ConfigError, match="boost_saving_ms is 50"):
        StepsCostModel(step_ms=10, boost_saving_ms=50, boost_recovery_ms=40)
