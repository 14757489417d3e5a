"""The linear step model, term by term."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodels import LinearCostModel
from simulator.errors import ConfigError
from simulator.plan import StepShape

SEVEN = LinearCostModel(
    step_ms=10.0,
    prefill_ms_per_token=0.5,
    attention_ms_per_token_pair=0.001,
    prefill_step_ms=2.0,
    decode_ms_per_sequence=0.25,
    decode_ms_per_context_token=0.01,
    longest_context_ms_per_token=0.02,
    longest_context_full_at_sequences=8,
)
CHUNKS = st.lists(st.tuples(st.integers(1, 8192), st.integers(0, 131_072)), max_size=4)


def test_every_term_is_counted_once_in_a_mixed_step():
    """10 + 0.5 x 30 + 0.001 x [10 (100 + 5) + 20 (0 + 10)] + 2 + 0.25 x 4 + 0.01 x 600
    + 0.02 x 300 x 4/8 = 10 + 15 + 1.25 + 2 + 1 + 6 + 3 = 38.25 ms."""
    shape = StepShape(((10, 100), (20, 0)), 4, 600, 300)
    assert SEVEN.step_ns(shape) == 38_250_000


def test_a_decode_step_pays_no_prefill_term():
    """10 + 0.25 x 4 + 0.01 x 600 + 0.02 x 300 x 4/8 = 20 ms."""
    assert SEVEN.step_ns(StepShape((), 4, 600, 300)) == 20_000_000


def test_a_prefill_step_pays_no_decode_term():
    """10 + 0.5 x 30 + 0.001 x 30 x 15 + 2 = 27.45 ms; a longest context of nobody costs nothing."""
    assert SEVEN.step_ns(StepShape(((30, 0),), 0, 0, 500)) == 27_450_000


def test_longest_context_counts_in_full_from_full_at_sequences_on():
    """8 and 16 sequences: 0.02 x 1000 = 20 ms both; 2 sequences: a quarter of it."""
    model = LinearCostModel(
        step_ms=1, longest_context_ms_per_token=0.02, longest_context_full_at_sequences=8
    )
    prices = [model.step_ns(StepShape((), seqs, 4000, 1000)) for seqs in (2, 8, 16)]
    assert prices == [6_000_000, 21_000_000, 21_000_000]


@pytest.mark.parametrize(
    ("chunk", "steps", "ttft_ms"), [(1, 8, 88), (8, 1, 18), (64, 1, 18), (4, 2, 28)]
)
def test_chunking_an_eight_token_prompt_at_ten_ms_a_step(chunk, steps, ttft_ms):
    """Step cost 10 + 1 x tokens: chunk 1 takes 8 x 11, chunk 8 takes 18, chunk 4 2 x 14 ms."""
    model = LinearCostModel(step_ms=10, prefill_ms_per_token=1)
    chunks = [min(chunk, 8 - done) for done in range(0, 8, chunk)]
    done = [sum(chunks[:i]) for i in range(len(chunks))]
    shapes = [StepShape(((n, past),), 0, 0) for n, past in zip(chunks, done, strict=True)]
    assert len(shapes) == steps
    assert sum(model.step_ns(shape) for shape in shapes) == ttft_ms * 1_000_000


def test_decode_step_of_one_stream_may_be_cheaper_than_of_two():
    """4 + 2 x seqs: 6 ms alone, 8 ms for two; a prompt step 4 + 76 = 80 ms."""
    model = LinearCostModel(step_ms=4, decode_ms_per_sequence=2, prefill_step_ms=76)
    shapes = [StepShape((), 1, 10), StepShape((), 2, 20), StepShape(((100, 0),), 0, 0)]
    assert [model.step_ns(shape) for shape in shapes] == [6_000_000, 8_000_000, 80_000_000]


def test_longest_context_is_asked_for_only_if_it_has_a_price():
    assert SEVEN.needs_longest_context
    assert not LinearCostModel(step_ms=1).needs_longest_context


def test_leap_prices_by_hand():
    """2 sequences: 1 ms + 0.01 x (100, 102, 104) tokens."""
    model = LinearCostModel(step_ms=1, decode_ms_per_context_token=0.01)
    prices = model.leap_ns(StepShape((), 2, 100), 3)
    assert prices.tolist() == [2_000_000, 2_020_000, 2_040_000]
    assert prices.dtype == "int64"


def test_no_step_is_free():
    """A millionth of a nanosecond per token still takes a whole one."""
    model = LinearCostModel(prefill_ms_per_token=1e-12)
    assert model.step_ns(StepShape(((1, 0),), 0, 0)) == 1
    assert model.leap_ns(StepShape((), 1, 1), 3).tolist() == [1, 1, 1]


@given(CHUNKS, st.integers(0, 512), st.integers(0, 10_000_000), st.integers(0, 131_072))
def test_prices_are_positive_and_never_fall_when_a_step_gets_more_work(
    chunks, seqs, context, longest
):
    shapes = [StepShape(tuple(chunks[:n]), seqs, context, longest) for n in range(len(chunks) + 1)]
    shapes.append(shapes[-1]._replace(decode_seqs=seqs + 1))
    shapes.append(shapes[-1]._replace(decode_context_tokens=context + 50))
    shapes.append(shapes[-1]._replace(longest_context=longest + 7))
    prices = [SEVEN.step_ns(shape) for shape in shapes]
    assert prices[0] >= 1
    assert all(price <= more for price, more in pairwise(prices))


@pytest.mark.parametrize("bad", [-0.1, math.nan, math.inf, 1e10])
def test_a_coefficient_must_be_a_price(bad):
    with pytest.raises(ConfigError, match=r"decode_ms_per_sequence is .*: a price must be"):
        LinearCostModel(step_ms=1, decode_ms_per_sequence=bad)


def test_all_zero_is_not_a_cost_model():
    with pytest.raises(ConfigError, match="every coefficient is 0"):
        LinearCostModel()


@pytest.mark.parametrize("bad", [0, math.nan, 1e9])
def test_full_at_sequences_must_be_a_number_of_sequences(bad):
    with pytest.raises(ConfigError, match="longest_context_full_at_sequences is"):
        LinearCostModel(step_ms=1, longest_context_full_at_sequences=bad)
