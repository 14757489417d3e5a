"""`OperatorsCostModel` against hand-worked numbers."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodels import ExtrapolationWarning, Operator, OperatorGrids, OperatorsCostModel
from simulator import KVCache, simulate
from simulator.errors import ConfigError, OutsideTableError
from simulator.plan import StepShape
from simulator.schedulers import DynamicChunkScheduler
from workloads import generate

U20 = OperatorGrids(
    attention=(
        (0, 0, 4, 1024, 8000.0),
        (0, 0, 8, 1024, 9000.0),
        (1024, 0, 0, 0, 2000.0),
        (4096, 0, 0, 0, 5000.0),
    )
)


def ms(model, shape):
    return model.step_ns(shape) / 1e6


def decode(seqs, context=1024):
    return StepShape((), seqs, seqs * context)


def prefill(new, past=0):
    return StepShape(((new, past),), 0, 0)


@pytest.mark.parametrize("mode", ["linear", "clamp", "error"])
def test_prices_are_exact_on_grid_points_and_linear_in_tokens_between(mode):
    """Prefill of 2,048 between 1,024 -> 2.0 and 4,096 -> 5.0: 2.0 + 3.0 / 3 = 3.0."""
    model = OperatorsCostModel(U20, layers=1, extrapolation=mode)
    assert [ms(model, decode(seqs)) for seqs in (4, 6, 8)] == [8.0, 8.5, 9.0]
    assert [ms(model, prefill(new)) for new in (1024, 2048, 4096)] == [2.0, 3.0, 5.0]


@pytest.mark.filterwarnings("ignore::costmodels.ExtrapolationWarning")
@pytest.mark.parametrize(("mode", "price"), [("clamp", 9.0), ("linear", 11.0)])
def test_batch_16_beyond_a_table_that_ends_at_8(mode, price):
    assert ms(OperatorsCostModel(U20, layers=1, extrapolation=mode), decode(16)) == price


def test_error_names_axis_value_and_measured_range():
    model = OperatorsCostModel(U20, layers=1, extrapolation="error")
    with pytest.raises(OutsideTableError, match=r"decode_seqs 16 \(measured 4 to 8\).*linear"):
        model.step_ns(decode(16))
    with pytest.raises(OutsideTableError, match=r"past 7 \(measured 0 to 0\)"):
        model.step_ns(prefill(1024, 7))
    with pytest.raises(OutsideTableError, match="decode_context 1030"):
        model.leap_ns(decode(8), 7)


def test_extrapolation_is_reported_with_its_share_and_warned_of_once():
    """Two steps at 16 (11.0 ms each) and one at 20 (12.0), beside 66 ms of others."""
    model = OperatorsCostModel(U20, layers=1)
    assert model.extrapolation_report()["outside_steps"] == 0
    with pytest.warns(ExtrapolationWarning, match="decode_seqs 16") as caught:
        prices = [model.step_ns(decode(seqs)) for seqs in (4, 16, 16, 20)]
    assert prices == [8_000_000, 11_000_000, 11_000_000, 12_000_000]
    assert len(caught) == 1
    assert model.extrapolation_report(steps=12, time_ms=100.0) == {
        "extrapolation": "linear",
        "outside_steps": 3,
        "outside_ms": 34.0,
        "share_of_steps": 0.25,
        "share_of_time": 0.34,
        "farthest": {"decode_seqs": {"asked": 20, "measured": [4, 8]}},
    }


def test_a_leap_counts_only_its_steps_beyond_the_table():
    """From 1,022 tokens each: steps 4, 5 and 6 are at 1,025, 1,026 and 1,027."""
    model = OperatorsCostModel(U20, layers=1)
    with pytest.warns(ExtrapolationWarning):
        model.leap_ns(decode(4, 1022), 6)
    report = model.extrapolation_report()
    assert (report["outside_steps"], report["outside_ms"]) == (3, 24.0)
    assert report["farthest"] == {"decode_context": {"asked": 1027, "measured": [1024, 1024]}}


def test_the_mode_of_a_model_can_be_changed():
    model = OperatorsCostModel(U20, layers=1, host_us=9_500, host_combine="max")
    strict = model.with_extrapolation("error")
    assert ms(strict, decode(8)) == 9.5
    assert strict.table.parameters == {**model.table.parameters, "extrapolation": "error"}
    with pytest.raises(OutsideTableError):
        strict.step_ns(decode(16))


def test_a_falling_end_of_a_grid_does_not_fall_further():
    grids = OperatorGrids(attention=((0, 0, 1, 10, 50.0), (0, 0, 1, 20, 40.0)))
    model = OperatorsCostModel(grids, layers=1)
    assert ms(model, decode(1, 15)) == 0.045
    with pytest.warns(ExtrapolationWarning):
        assert ms(model, decode(1, 100_000)) == 0.040


def test_below_the_smallest_measured_count_its_price_holds():
    model = OperatorsCostModel(U20, layers=1, extrapolation="error")
    assert ms(model, decode(1, 3)) == 8.0
    assert ms(model, prefill(5)) == 2.0


COMPOSED = OperatorGrids(
    counted={
        "qkv": Operator(axis="tokens", points=((1, 10.0), (101, 110.0))),
        "norm": Operator(axis="tokens", points=((1, 1.0), (512, 1.0)), calls=2),
        "embedding": Operator(axis="tokens", per="step", points=((1, 3.0), (512, 3.0))),
        "lm_head": Operator(axis="sequences", per="step", points=((1, 100.0), (11, 200.0))),
        "all_reduce": Operator(
            axis="bytes", bytes_per_token=4, points=((4, 2.0), (404, 402.0)), calls=2
        ),
    },
    attention=(
        (0, 0, 2, 100, 20.0),
        (0, 0, 2, 200, 30.0),
        (16, 0, 0, 0, 5.0),
        (16, 0, 2, 100, 45.0),
        (16, 0, 2, 200, 55.0),
        (32, 0, 0, 0, 8.0),
        (32, 100, 0, 0, 12.0),
    ),
)


def test_a_mixed_step_pays_the_penalty_of_mixing_once():
    """2 layers. Tokens 2 + 32 + 32 = 66: qkv 75, norm 2 x 1, all-reduce 2 x 262 a layer; attention
    of a layer 50 (2 decodes at 150 beside 16) + (8 - 5) + (10 - 5) = 58, the past 50 being halfway;
    a step: embedding 3, lm_head of 4 sequences 130.
    """
    model = OperatorsCostModel(COMPOSED, layers=2)
    shape = StepShape(((32, 0), (32, 50)), 2, 300)
    assert model.step_ns(shape) == 1000 * (2 * (75 + 2 + 524 + 58) + 133)
    assert dict(model.explain(shape)) == pytest.approx(
        {
            "qkv": 0.150,
            "norm": 0.004,
            "all_reduce": 1.048,
            "embedding": 0.003,
            "attention of chunks": 2 * 0.013,
            "attention of decodes beside chunks": 2 * 0.045,
            "lm_head": 0.130,
        }
    )


def test_a_single_chunk_costs_what_was_measured_alone():
    model = OperatorsCostModel(OperatorGrids(attention=COMPOSED.attention), layers=2)
    assert model.step_ns(prefill(32, 100)) == 24_000


def test_without_mixed_points_chunks_and_decodes_are_summed():
    alone = tuple(point for point in COMPOSED.attention if not (point[0] and point[2]))
    model = OperatorsCostModel(OperatorGrids(attention=alone), layers=1)
    assert model.step_ns(StepShape(((32, 0), (16, 0)), 2, 300)) == 1000 * (8 + 5 + 25)


def test_decode_steps_run_at_the_next_captured_batch_size():
    """Tokens only: attention and logits are of the real sequences; a mixed step is not padded."""
    qkv = {"qkv": COMPOSED.counted["qkv"]}
    model = OperatorsCostModel(
        OperatorGrids(qkv, COMPOSED.attention), layers=1, decode_batch_sizes=[1, 8]
    )
    assert model.step_ns(StepShape((), 2, 200)) == 1000 * (17 + 20)
    assert model.step_ns(StepShape(((16, 0),), 2, 200)) == 1000 * (27 + 45)


@pytest.mark.parametrize(
    ("host_us", "combine", "price_us"), [(5, "max", 20), (50, "max", 50), (5, "sum", 25)]
)
def test_host_time_overlaps_or_adds(host_us, combine, price_us):
    grids = OperatorGrids(attention=COMPOSED.attention)
    model = OperatorsCostModel(grids, layers=1, host_us=host_us, host_combine=combine)
    shape = StepShape((), 2, 200)
    assert model.step_ns(shape) == 1000 * price_us
    assert sum(ms for _, ms in model.explain(shape)) == pytest.approx(price_us / 1000)
    assert model.leap_ns(shape, 1).tolist() == [1000 * price_us]


def test_prompts_may_take_longer_than_their_kernels():
    """Attention alone: 5 us of a chunk x 1.5 + host 5; decodes keep their 20 + 5; together they
    take 45, of which prompts add 25: 20 + 37.5 + 5.
    """
    grids = OperatorGrids(attention=COMPOSED.attention)
    model = OperatorsCostModel(
        grids, layers=1, host_us=5, host_combine="sum", prefill_step_factor=1.5
    )
    assert model.step_ns(prefill(16)) == 12_500
    assert model.step_ns(StepShape((), 2, 200)) == 25_000
    both = StepShape(((16, 0),), 2, 200)
    assert model.step_ns(both) == 62_500
    for shape, slower in ((prefill(16), 0.0025), (both, 0.0125)):
        assert model.explain(shape)[-2:] == [
            ("prompts take longer than their kernels", pytest.approx(slower)),
            ("host", 0.005),
        ]


def test_the_factor_of_prompts_leaves_communication_and_reading_the_weights_alone():
    """A GEMM of 10 us, 4 for one token, attention of 4, an all-reduce of 6: 4 + 1.5 x 10 + 6."""
    counted = {
        "gemm": Operator(axis="tokens", points=((1, 4.0), (16, 10.0))),
        "all_reduce": Operator(axis="bytes", bytes_per_token=2, points=((32, 6.0),)),
    }
    grids = OperatorGrids(counted, ((16, 0, 0, 0, 4.0),))
    model = OperatorsCostModel(grids, layers=1, prefill_step_factor=1.5)
    assert model.step_ns(prefill(16)) == 25_000
    assert dict(model.explain(prefill(16)))["all_reduce"] == 0.006
    assert model.without_prompts_ns(prefill(16)) == 4_000


BESIDE = OperatorGrids(
    attention=(
        *((0, 0, 2, 100, 20.0), (0, 0, 2, 200, 30.0), (16, 0, 0, 0, 5.0), (16, 0, 2, 100, 45.0)),
        *((16, 0, 2, 200, 55.0), (32, 0, 0, 0, 8.0), (32, 0, 2, 100, 68.0), (32, 0, 2, 200, 88.0)),
        *((64, 0, 2, 100, 999.0), (128, 0, 0, 0, 20.0)),
    )
)


def test_what_decodes_add_lies_between_the_chunks_they_were_measured_beside():
    """2 decodes at 150: 45 beside 16 tokens, 70 beside 32, 57.5 beside 24. Two chunks of 8 and 16
    take 5 + (5 - 5) + (5 - 5) and those 57.5; beyond 32 it stays 70, a chunk without its own time
    alone being left out: 64 take 12, 14 or less, here 8 + 1/3 x 12.
    """
    model = OperatorsCostModel(BESIDE, layers=1)
    assert model.step_ns(StepShape(((16, 0),), 2, 300)) == 1000 * (5 + 45)
    assert model.step_ns(StepShape(((32, 0),), 2, 300)) == 1000 * (8 + 70)
    mixed = StepShape(((8, 0), (16, 0)), 2, 300)
    assert model.step_ns(mixed) == 62_500
    assert dict(model.explain(mixed)) == pytest.approx(
        {"attention of chunks": 0.005, "attention of decodes beside chunks": 0.0575}
    )
    assert model.step_ns(StepShape(((64, 0),), 2, 300)) == 1000 * (12 + 70)
    strict = model.with_extrapolation("error")
    assert strict.step_ns(mixed) == 62_500
    with pytest.raises(OutsideTableError, match=r"decode_context 201 \(measured 100 to 200\)"):
        strict.step_ns(mixed._replace(decode_context_tokens=402))


SPLIT = OperatorGrids(
    attention=tuple(
        (0, 0, seqs, context, time_us * context / 100)
        for seqs, time_us in ((2, 10.0), (4, 14.0), (8, 40.0), (12, 60.0))
        for context in (100, 300)
    ),
    skew=((2, 0.0), (4, 0.0), (8, 0.3), (12, 0.2)),
)


def test_decodes_on_either_side_of_another_kernel_are_not_mixed():
    """Split below 6: 5 decodes are on the line of 2 and 4, 16 us, and padded to 8 on that of 8 and
    12, 25 us. Unequal contexts, longest 200, add nothing split; unsplit a share of 0.3 x 8 / 5.
    Without two kernels 5 lie between 4 and 8: 20.5, and a share of 0.075.
    """
    one = OperatorsCostModel(SPLIT, layers=1)
    two = one.with_parameters(split_kv_below=6)
    padded = two.with_parameters(decode_batch_sizes=[2, 8, 12])
    equal, unequal = StepShape((), 5, 500, 100), StepShape((), 5, 500, 200)
    assert [model.step_ns(equal) for model in (one, two, padded)] == [20_500, 16_000, 25_000]
    assert one.step_ns(unequal) == pytest.approx(20_500 * 1.075, abs=2)
    assert two.step_ns(unequal) == 16_000
    assert padded.step_ns(unequal) == pytest.approx(25_000 * 1.48, abs=2)
    for seqs in (2, 8, 12):
        assert padded.step_ns(decode(seqs, 100)) == one.step_ns(decode(seqs, 100))
    assert padded.leap_ns(unequal, 3).tolist() == [
        padded.step_ns(unequal.after(k)) for k in (0, 1, 2)
    ]
    nothing_split = one.with_parameters(split_kv_below=1)
    assert nothing_split.step_ns(unequal) == one.step_ns(unequal)


def test_a_partly_filled_tile_costs_as_a_whole_one():
    gemm = Operator(axis="tokens", points=((1, 5.0), (16, 8.0), (32, 9.0)), between="next")
    model = OperatorsCostModel(OperatorGrids({"gemm": gemm}, BESIDE.attention), layers=1)
    prices = [model.step_ns(prefill(new)) - 5000 for new in (1, 2, 16)]
    assert prices == [5000, 8000, 8000]
    assert dict(model.explain(prefill(17)))["gemm"] == 0.009


SKEWED = OperatorGrids(
    attention=(
        *((0, 0, seqs, context, 10.0 * seqs * context / 1000) for seqs in (2, 4) for context in
          (1000, 3000)),
        (16, 0, 0, 0, 5.0),
        *((16, 0, seqs, context, 5 + 20.0 * seqs * context / 1000) for seqs in (2, 4) for context in
          (1000, 3000)),
    ),
    skew=((2, 0.5), (4, 0.1)),
)  # fmt: skip


def test_unequal_contexts_take_a_share_of_the_way_to_the_longest():
    """2 decodes at 1,000 and 3,000: 40 us at the mean of 2,000, 60 at 3,000; half of the way is 50.
    3 decodes, share 0.3, at mean 1,000 and longest 2,000: 30 + 0.3 x 30 = 39. Beside a chunk it is
    0.3 of twice as much: 5 + 60 + 18.
    """
    model = OperatorsCostModel(SKEWED, layers=1)
    assert model.needs_longest_context
    assert model.step_ns(StepShape((), 2, 4000, 3000)) == 50_000
    three = StepShape((), 3, 3000, 2000)
    assert model.step_ns(three) == 39_000
    assert dict(model.explain(three)) == pytest.approx(
        {"attention of decodes": 0.030, "attention of the longest context": 0.009}
    )
    assert model.step_ns(three._replace(chunks=((16, 0),))) == 83_000
    assert model.step_ns(StepShape((), 3, 3000)) == 30_000


def test_unequal_contexts_may_count_otherwise_beside_chunks():
    """Share 0.3 alone, 0.5 beside a chunk: 5 + 60 + 30."""
    model = OperatorsCostModel(replace(SKEWED, mixed_skew=((3, 0.5),)), layers=1)
    three = StepShape((), 3, 3000, 2000)
    assert model.step_ns(three) == 39_000
    assert model.step_ns(three._replace(chunks=((16, 0),))) == 95_000


def test_a_longest_context_beyond_the_grid_counts_as_extrapolated():
    model = OperatorsCostModel(SKEWED, layers=1, extrapolation="error")
    assert model.step_ns(StepShape((), 2, 4000, 3000))
    with pytest.raises(OutsideTableError, match=r"decode_context 3001 \(measured 1,000 to 3,000\)"):
        model.step_ns(StepShape((), 2, 4002, 3001))
    with pytest.raises(OutsideTableError, match="decode_context 3001"):
        model.leap_ns(StepShape((), 2, 4000, 3000), 2)


def test_steps_with_prompts_run_at_the_next_size_captured_for_them():
    """Tokens 2 + 16 = 18 run as 51: qkv 60; beyond the largest size as they are."""
    qkv = {"qkv": COMPOSED.counted["qkv"]}
    model = OperatorsCostModel(
        OperatorGrids(qkv, COMPOSED.attention), layers=1, mixed_batch_sizes=[1, 51]
    )
    assert model.step_ns(StepShape(((16, 0),), 2, 200)) == 1000 * (60 + 45)
    assert model.step_ns(StepShape(((32, 0), (32, 0)), 2, 200)) == 1000 * (75 + 51)
    assert model.step_ns(StepShape((), 2, 200)) == 1000 * (11 + 20)


def test_a_time_of_more_than_ten_seconds_cannot_be_microseconds():
    gemm = Operator(axis="tokens", points=((1, 1e6),))
    with pytest.raises(ConfigError, match=r"'gemm' takes 80 s a step: .* microseconds"):
        OperatorsCostModel(OperatorGrids({"gemm": gemm}), layers=80)


@pytest.mark.filterwarnings("ignore::costmodels.ExtrapolationWarning")
def test_prices_too_large_for_the_arithmetic_of_arrays_are_still_the_same():
    """1 s a context token: after 1,000 tokens a step takes 1,000 s."""
    grids = OperatorGrids(attention=((0, 0, 1, 1, 1e6), (0, 0, 1, 2, 2e6)))
    model = OperatorsCostModel(grids, layers=1)
    shape = StepShape((), 1, 1000)
    prices = model.leap_ns(shape, 3)
    assert prices.dtype == np.int64
    assert prices.tolist() == [1_000 * 10**9, 1_001 * 10**9, 1_002 * 10**9]
    assert model.step_ns(shape) == prices[0]


def test_a_table_without_attention_of_a_kind_refuses_that_step():
    model = OperatorsCostModel(OperatorGrids(COMPOSED.counted), layers=1)
    with pytest.raises(OutsideTableError, match="no decode attention"):
        model.step_ns(StepShape((), 2, 200))
    with pytest.raises(OutsideTableError, match="no prefill attention"):
        model.step_ns(prefill(16))


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ({"layers": 0}, "layers is 0"),
        ({"layers": 1, "host_us": -1.0}, "host_us is -1"),
        ({"layers": 1, "prefill_step_factor": 0}, "prefill_step_factor is 0"),
        ({"layers": 1, "split_kv_below": -1}, "split_kv_below is -1"),
        ({"layers": 1, "host_combine": "mean"}, "host_combine is 'mean'"),
        ({"layers": 1, "extrapolation": "linaer"}, "did you mean linear"),
    ],
)
def test_bad_parameters_are_refused(parameters, problem):
    with pytest.raises(ConfigError, match=problem):
        OperatorsCostModel(U20, **parameters)


TIME = st.floats(0, 1e5)
COUNTS = st.lists(st.integers(1, 3000), min_size=1, max_size=6, unique=True).map(sorted)


@st.composite
def models(draw):
    """Random ragged grids with noise, any mode, padded or not, host time or not."""

    def rows(first):
        return [(*first(n), context, draw(TIME)) for n in draw(COUNTS) for context in draw(COUNTS)]

    decodes = rows(lambda n: (0, 0, n))
    chunks = [(n, past, 0, 0, time) for n, past, time in rows(lambda n: (n,))]
    anchor = draw(st.integers(1, 64))
    mixed = []
    if draw(st.booleans()):
        mixed = [(anchor, 0, *point[2:]) for point in decodes[: draw(st.integers(0, 9))]]
        mixed += [(anchor + 64, 0, *point[2:]) for point in decodes[: draw(st.integers(0, 3))]]
        beside = sorted({point[0] for point in mixed})
        chunks += [(new, 0, 0, 0, draw(TIME)) for new in beside]
    unique = {point[:-1]: point for point in [*decodes, *chunks, *mixed]}
    counted = {
        axis: Operator(
            axis=axis,
            per=draw(st.sampled_from(["layer", "step"])),
            between=draw(st.sampled_from(["line", "next"])),
            calls=draw(st.integers(1, 3)),
            points=tuple((count, draw(TIME) / 10) for count in draw(COUNTS)),
        )
        for axis in ("tokens", "sequences")
    }
    skew, mixed_skew = (
        tuple((n, draw(st.floats(0, 1))) for n in draw(st.one_of(st.just([]), COUNTS)))
        for _ in range(2)
    )
    points = tuple(unique[key] for key in sorted(unique))
    return OperatorsCostModel(
        OperatorGrids(counted, points, skew=skew, mixed_skew=mixed_skew),
        layers=draw(st.integers(1, 80)),
        decode_batch_sizes=draw(st.one_of(st.just([]), COUNTS)),
        mixed_batch_sizes=draw(st.one_of(st.just([]), COUNTS)),
        host_us=draw(st.one_of(st.just(0.0), TIME)),
        host_combine=draw(st.sampled_from(["max", "sum"])),
        prefill_step_factor=draw(st.sampled_from([0.9, 1.0, 1.1])),
        split_kv_below=draw(st.sampled_from([0, 2, 50])),
        extrapolation=draw(st.sampled_from(["linear", "clamp"])),
    )  # fmt: skip


@pytest.mark.filterwarnings("ignore::costmodels.ExtrapolationWarning")
@settings(max_examples=150, deadline=None)
@given(
    models(),
    st.integers(0, 4000),
    st.integers(0, 4_000_000),
    st.integers(0, 400),
    st.integers(0, 20_000),
)
def test_leap_equals_steps(model, seqs, context, steps, longest):
    shape = StepShape((), seqs, context, longest)
    prices = model.leap_ns(shape, steps)
    assert prices.dtype == np.int64
    assert prices.tolist() == [model.step_ns(shape.after(k)) for k in range(steps)]
    assert (prices >= 1).all()


CHUNKS = st.lists(st.tuples(st.integers(1, 5000), st.integers(0, 9000)), max_size=4).map(tuple)


@pytest.mark.filterwarnings("ignore::costmodels.ExtrapolationWarning")
@settings(max_examples=150, deadline=None)
@given(models(), CHUNKS, st.integers(0, 4000), st.integers(0, 4_000_000), st.integers(0, 20_000))
def test_the_explained_terms_add_up_to_the_price(model, chunks, seqs, context, longest):
    shape = StepShape(chunks, seqs, context, longest)
    price = model.step_ns(shape)
    assert price >= 1
    assert sum(ms for _, ms in model.explain(shape)) * 1e6 == pytest.approx(price, abs=1.5)


def test_prices_within_the_grid_say_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        OperatorsCostModel(U20, layers=1).step_ns(decode(8))


@st.composite
def rising_models(draw):
    """Grids whose times rise along every count."""
    seqs, contexts, tokens = draw(COUNTS), draw(COUNTS), draw(COUNTS)
    per_seq, per_token = draw(st.floats(0, 50)), draw(st.floats(0, 0.1))
    attention = [
        (0, 0, n, context, 5.0 + per_seq * n + per_token * n * context)
        for n in seqs
        for context in contexts
    ]
    chunks = [(n, past, 0, 0, 5.0 + per_token * n * (past + n)) for n in tokens for past in (0, 99)]
    gemm = Operator(axis="tokens", points=tuple((n, max(80.0, 0.2 * n)) for n in tokens))
    return OperatorsCostModel(
        OperatorGrids({"gemm": gemm}, tuple(sorted([*attention, *chunks]))),
        layers=4,
        extrapolation=draw(st.sampled_from(["linear", "clamp"])),
    )


@pytest.mark.filterwarnings("ignore::costmodels.ExtrapolationWarning")
@settings(max_examples=150, deadline=None)
@given(rising_models(), st.integers(1, 4000), st.integers(0, 9000), st.integers(1, 5000))
def test_on_rising_grids_more_work_never_costs_less(model, seqs, context, new):
    """To the nanosecond: between grid points a price is rounded."""
    price = model.step_ns(decode(seqs, context))
    assert model.step_ns(decode(seqs, context + 1)) >= price - 1
    assert model.step_ns(decode(seqs + 1, context)) >= price - 1
    price = model.step_ns(prefill(new, context))
    assert model.step_ns(prefill(new + 1, context)) >= price - 1
    assert model.step_ns(prefill(new, context + 1)) >= price - 1
    both = StepShape(((new, context),), seqs, seqs * context)
    assert model.step_ns(both) >= price - 1


def test_in_a_padded_cache_every_decode_costs_what_the_longest_costs():
    """4 decodes of 1,024 and 4 of 100, longest 1,024: priced as 8 of 1,024, 9.0 ms; paged, the
    summed context alone counts. A leap and its single steps have the same prices."""
    grids = OperatorGrids(
        attention=((0, 0, 8, 100, 1000.0), (0, 0, 8, 1024, 9000.0), (64, 0, 0, 0, 500.0))
    )
    shape = StepShape((), 8, 4 * 1024 + 4 * 100, 1024)
    padded = OperatorsCostModel(grids, layers=1, decode_attention="padded")
    paged = OperatorsCostModel(grids, layers=1)
    assert padded.needs_longest_context
    assert not paged.needs_longest_context
    assert ms(padded, shape) == 9.0
    assert ms(paged, shape) == pytest.approx(5.0)
    earlier = StepShape((), 8, 4 * 1000 + 4 * 76, 1000)
    leap = padded.leap_ns(earlier, 24)
    assert leap.tolist() == [padded.step_ns(earlier.after(k)) for k in range(24)]
    assert sum(part for _, part in padded.explain(shape)) == 9.0
    mixed = StepShape(((64, 0),), *shape[1:])
    assert ms(padded, mixed) == 9.5
    with pytest.raises(ConfigError, match="decode_attention is 'flat': must be paged or padded"):
        OperatorsCostModel(grids, layers=1, decode_attention="flat")


def test_a_policy_that_only_asks_for_prices_is_not_counted() -> None:
    """`dynamic` probes large chunks, beyond the table; only the steps that ran are reported."""
    model = OperatorsCostModel(U20, layers=1)
    trace = generate(requests=12, rate=200, prompt="fixed:60", output="fixed:30", seed=1)
    policy = DynamicChunkScheduler(64, 8, tpot_target_ms=5, min_prefill_tokens=1)

    with pytest.warns(ExtrapolationWarning):
        result = simulate(trace, policy, model, KVCache(1000))

    report = model.extrapolation_report(len(result.steps))
    assert 0 < report["outside_steps"] <= len(result.steps)
    assert model.uncounted().step_ns(decode(8)) == model.step_ns(decode(8))
