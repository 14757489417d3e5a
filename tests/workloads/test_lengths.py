"""Length distributions and the way they are written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from simulator.errors import WorkloadError
from simulator.trace import Trace
from workloads import Empirical, Fixed, LogNormal, Uniform, generate, parse_lengths, write_trace


def rng() -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(1))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("fixed:1000", Fixed(1000)),
        ("1000", Fixed(1000)),
        (1000, Fixed(1000)),
        ("uniform:100:2000", Uniform(100, 2000)),
        ("lognormal:1020:0.9", LogNormal(1020, 0.9)),
        ("lognormal:1020:0.9:1:8192", LogNormal(1020, 0.9, 1, 8192)),
    ],
)
def test_text_and_distribution_are_two_ways_to_say_the_same(
    text: str | int, expected: Fixed | Uniform | LogNormal
) -> None:
    assert parse_lengths(text) == expected
    assert parse_lengths(str(expected)) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("fixd:10", "did you mean fixed"),
        ("fixed", "must be written fixed:TOKENS"),
        ("fixed:0", "fixed length 0.0 must be"),
        ("fixed:1.5", "fixed length 1.5 must be"),
        ("fixed:nan", "fixed length nan must be"),
        ("uniform:5", "must be written uniform:MIN:MAX"),
        ("uniform:9:5", "lengths from 9 to 5"),
        ("uniform:a:b", "must be written uniform:MIN:MAX"),
        ("lognormal:1020", "must be written lognormal:MEDIAN:SIGMA"),
        ("lognormal:-1:1", "lognormal median -1.0 must be"),
        ("lognormal:10:inf", "lognormal sigma inf must be"),
        ("lognormal:10:1:9:5", "lengths from 9 to 5"),
        ("lognormal:10:1:1:5:7", "must be written lognormal"),
        ("lognormal-mean:nan:1", "lognormal mean nan must be"),
        ("empirical:nowhere.csv", "no such file"),
    ],
)
def test_a_distribution_that_does_not_exist_is_refused(text: str, reason: str) -> None:
    with pytest.raises(WorkloadError, match=reason):
        parse_lengths(text)


def test_uniform_reaches_both_ends() -> None:
    tokens = Uniform(3, 5).draw(1000, "prompt_tokens", rng())
    assert sorted(set(tokens.tolist())) == [3, 4, 5]


def test_lognormal_has_its_median_and_p90_and_is_clipped() -> None:
    """p90 = median * exp(1.2816 sigma) = 1000 * exp(0.64078) = 1898."""
    tokens = LogNormal(1000, 0.5).draw(100_000, "prompt_tokens", rng())
    assert np.percentile(tokens, [50, 90]) == pytest.approx([1000, 1898], rel=0.01)
    clipped = LogNormal(1000, 50.0, 10, 2000).draw(1000, "prompt_tokens", rng())
    assert (clipped.min(), clipped.max()) == (10, 2000)


def test_lognormal_by_its_mean_has_that_mean() -> None:
    lengths = parse_lengths("lognormal-mean:1000:0.5")
    assert lengths.draw(200_000, "prompt_tokens", rng()).mean() == pytest.approx(1000, rel=0.01)
    assert parse_lengths(str(lengths)) == lengths


def test_empirical_lengths_for_both_keep_the_pairs_of_the_trace() -> None:
    n = np.arange(1, 51)
    source = Empirical(Trace(np.zeros(50, dtype=np.int64), n, 1000 - n), "t")
    trace = generate(requests=500, rate=1, prompt=source, output=source, seed=3)
    assert bool((trace.prompt_tokens + trace.output_tokens == 1000).all())
    assert len(set(trace.prompt_tokens.tolist())) > 40


def test_empirical_lengths_from_a_file_pair_too(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    n = np.arange(1, 51)
    write_trace(Trace(np.zeros(50, dtype=np.int64), n, 1000 - n), path)
    spec = f"empirical:{path}"
    both = generate(requests=99, rate=1, prompt=spec, output=spec)
    assert bool((both.prompt_tokens + both.output_tokens == 1000).all())
    assert "prompt=empirical:t.csv, output=empirical:t.csv" in both.notes[0]
    apart = generate(requests=99, rate=1, prompt=spec, output="fixed:5")
    assert set(apart.output_tokens.tolist()) == {5}
