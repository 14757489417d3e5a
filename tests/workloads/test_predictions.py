"""What a predictor of output lengths says, with its error stated."""

from __future__ import annotations

import numpy as np
import pytest

from simulator import WorkloadError
from tests.timeline import asked
from workloads import bundled_trace, merge, predict_outputs, read_trace, write_trace


def test_the_error_has_the_spread_that_was_asked_for_and_no_bias() -> None:
    """ln(predicted / true) of 600 requests: mean 0 and sigma 0.5, within 3 standard errors."""
    trace = predict_outputs(bundled_trace(), "lognormal:0.5", seed=1)

    errors = np.log(trace.predicted_output_tokens / trace.output_tokens)

    assert abs(errors.mean()) < 3 * 0.5 / np.sqrt(600)
    assert abs(errors.std() - 0.5) < 3 * 0.5 / np.sqrt(1200)


def test_the_seed_decides_and_nothing_else_of_the_trace_changes() -> None:
    one, again, other = (predict_outputs(bundled_trace(), "lognormal:1", seed=s) for s in (1, 1, 2))

    assert (one.predicted_output_tokens == again.predicted_output_tokens).all()
    assert (one.predicted_output_tokens != other.predicted_output_tokens).any()
    assert (one.output_tokens == bundled_trace().output_tokens).all()


def test_mean_knows_only_who_asks() -> None:
    """Client a: 2 and 4, b: 9."""
    trace = asked((0, 5, 2), (1, 5, 4), (2, 5, 9), client=("a", "a", "b"))

    assert predict_outputs(trace, "mean").predicted_output_tokens.tolist() == [3, 3, 9]


def test_only_the_oracle_tells_the_truth() -> None:
    trace = asked((0, 5, 2), (1, 5, 40))

    assert predict_outputs(trace, "oracle").predicted_output_tokens.tolist() == [2, 40]
    for predictor in ("lognormal", "lognormal:0", "lognormal:x", "oracle:1", "orakel"):
        with pytest.raises(WorkloadError):
            predict_outputs(trace, predictor)


def test_predictions_are_kept_in_files_and_merges(tmp_path) -> None:
    """A client without predictions gets none (0)."""
    predicted = predict_outputs(asked((0, 5, 2)), "oracle")

    both = merge({"a": predicted, "b": asked((1, 5, 7))})
    write_trace(both, tmp_path / "both.csv")

    assert both.predicted_output_tokens.tolist() == [2, 0]
    assert read_trace(tmp_path / "both.csv").predicted_output_tokens.tolist() == [2, 0]
