"""Noise that falls as work grows is kept, or smoothed and said."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from calibration.predict import Grids
from calibration.smoothing import isotonic, smoothed
from tests.strategies import steady

NOISY = Grids(
    layers=1,
    by_tokens={"qkv": [(1, 10.0), (2, 8.0), (4, 12.0)]},
    by_sequences={"lm_head": [(1, 5.0), (2, 5.0)]},
    attention=[
        *((0, 0, 1, 16, 4.0), (0, 0, 1, 64, 6.0), (0, 0, 2, 16, 3.0), (0, 0, 2, 64, 9.0)),
        *((16, 0, 0, 0, 2.0), (16, 64, 0, 0, 3.0)),
    ],
)


def test_none_keeps_every_time_and_counts_what_falls():
    """8 after 10 us, and two decodes in 3 us where one took 4."""
    grids, said = smoothed(NOISY, "none")
    assert grids is NOISY
    assert said == "none: times kept as measured, 2 points below the one before them"


def test_isotonic_pools_what_falls_along_every_count():
    grids, said = smoothed(NOISY, "isotonic")
    assert grids.by_tokens["qkv"] == [(1, 9.0), (2, 9.0), (4, 12.0)]
    assert grids.by_sequences == NOISY.by_sequences
    assert [point[4] for point in grids.attention] == [3.5, 6.0, 3.5, 9.0, 2.0, 3.0]
    assert said == ("isotonic: 2 points below the one before them; 4 of 11 moved, by 16.7% at most")


@steady(100)
@given(st.lists(st.floats(0.1, 100), min_size=1, max_size=12))
def test_isotonic_never_falls_and_keeps_the_mean(times):
    smooth = isotonic(times)
    assert smooth == sorted(smooth)
    assert abs(sum(smooth) - sum(times)) < 1e-9 * sum(times)


@steady(50)
@given(st.lists(st.floats(0.1, 100), min_size=12, max_size=12))
def test_smoothed_surfaces_rise_along_both_counts(times):
    shapes = [(0, 0, seqs, context) for seqs in (1, 2, 4) for context in (16, 64, 256, 1024)]
    points = [(*shape, time) for shape, time in zip(shapes, times, strict=True)]
    smooth, _ = smoothed(Grids(1, {}, {}, points), "isotonic")
    price = {point[2:4]: point[4] for point in smooth.attention}
    for (seqs, context), time in price.items():
        assert time <= price.get((seqs, context * 4), time) + 1e-6
        assert time <= price.get((seqs * 2, context), time) + 1e-6
