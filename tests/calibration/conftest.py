"""A step log written by hand-made rows, and the measured logs where they are at hand."""

from pathlib import Path

import numpy as np
import pytest

from calibration.step_log import StepLog

MEASURED = (
    Path(__file__).resolve().parents[2] / "../shared/ground-truth/aic-fpm-b300-vllm0201"
).resolve()


@pytest.fixture
def measured_logs():
    """The folder of measured step logs; skips where it is absent."""
    if not MEASURED.is_dir():
        pytest.skip("the measured step logs are not beside this checkout")
    return MEASURED


def log_of(steps, ms=None, segment="all", counters=None):
    """A log of steps, each (prompt chunks, decode contexts); a chunk is (whole, past, new)."""

    def column(value):
        return np.array([float(value(chunks, contexts)) for chunks, contexts in steps])

    return StepLog(
        segment=np.array([segment] * len(steps)),
        counter=np.arange(len(steps)) if counters is None else np.array(counters),
        prefill_tokens=column(lambda chunks, _: sum(new for _, _, new in chunks)),
        prefill_requests=column(lambda chunks, _: len(chunks)),
        prefill_past=column(lambda chunks, _: sum(past for _, past, _ in chunks)),
        prompt_variance=column(
            lambda chunks, _: np.var([whole for whole, _, _ in chunks]) if chunks else 0
        ),
        decode_seqs=column(lambda _, contexts: len(contexts)),
        decode_context=column(lambda _, contexts: sum(contexts)),
        context_variance=column(lambda _, contexts: np.var(contexts) if contexts else 0),
        measured_ms=np.ones(len(steps)) if ms is None else np.asarray(ms, dtype=float),
    )
