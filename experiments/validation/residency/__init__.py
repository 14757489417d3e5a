"""residency-vllm: Qwen3-14B on one H100, vLLM's defaults, 2 to 30 requests a second.

Prices, boost clock and client delay come from the runs at 2 requests a second or less whose token
times were recorded; every other run found in the folder is predicted. Source:
github.com/inference-sim/residency-vllm.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from calibration.served import Served
from experiments.validation.report import DatasetReport, Row, Samples, compared

from .kernels import kernel_rows
from .peer import read_peer
from .prices import Calibrated, calibrate, predict
from .recordings import Recording, recordings_in, runs_in

SOURCE = (
    "github.com/inference-sim/residency-vllm, commit 2641b57 (no licence stated): one H100 80GB, "
    "Qwen3-14B bf16, vLLM 0.23.0 serving over HTTP"
)


def recognises(folder: Path) -> bool:
    """Does it hold runs (CSV.gz of sends, TTFT and E2E) and steps derived from their tokens?"""
    return bool(runs_in(folder)) and (folder / "derived_steps").is_dir()


def validate(folder: Path) -> DatasetReport:
    """Fit on the runs at 2 requests a second, predict all others.

    Raises:
        ConfigError: a file is missing columns, or no run is fit to be fitted.
    """
    recordings = recordings_in(folder)
    calibrated = calibrate(recordings)
    fitted = {run for image in calibrated.values() for run in image.runs}
    peers = read_peer(folder)
    rows: list[Row] = []
    samples: list[Samples] = []
    for recording in recordings:
        if recording.run in fitted:
            continue
        image = calibrated[recording.image]
        pairs = _pairs(recording, predict(recording, image.model, image.delay))
        rows += _rows(pairs, image.name, peers.get(recording.run))
        samples += pairs[:-1]
    by_kernels, told = kernel_rows(recordings, calibrated)
    return DatasetReport(
        dataset="residency",
        source=SOURCE,
        rows=(*rows, *by_kernels),
        samples=tuple(samples),
        notes=(*_notes(calibrated), *told),
    )


def _pairs(recording: Recording, predicted: Served) -> list[Samples]:
    """TTFT, TPOT and E2E of every finished request; the makespan last."""
    several = recording.output_tokens > 1
    return [
        recording.samples("ttft_ms", recording.ttft_ms, predicted.ttft_ms),
        recording.samples("tpot_ms", recording.tpot_ms[several], predicted.tpot_ms[several]),
        recording.samples("e2el_ms", recording.e2e_ms, predicted.e2e_ms),
        recording.samples(
            "makespan_s", np.array([recording.makespan_s]), np.array([predicted.makespan_s])
        ),
    ]


def _rows(pairs: Sequence[Samples], fitted_on: str, peer: float | None) -> list[Row]:
    rows = []
    for pair in pairs:
        whole = pair.quantity == "makespan_s"
        found = (
            compared(pair, ("mean",), fitted_on=fitted_on)
            if whole
            else compared(pair, fitted_on=fitted_on)
        )
        rows += [
            replace(row, peer=peer, note="peer: BLIS, mean of the tenants")
            if peer is not None and (row.quantity, row.statistic) == ("ttft_ms", "p50")
            else row
            for row in found
        ]
    return rows


def _notes(calibrated: dict[str, Calibrated]) -> list[str]:
    return [line for image in calibrated.values() for line in image.told()]


__all__ = ["recognises", "validate"]
