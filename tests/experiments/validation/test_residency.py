"""The residency dataset: errors reached, on the files if they are there; and bad folders."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from experiments.validation import residency
from experiments.validation.residency.peer import read_peer
from experiments.validation.residency.prices import Calibrated, calibrate, predict
from experiments.validation.residency.recordings import Recording, recordings_in
from simulator.errors import ConfigError

NAME = "blis-residency-h100-qwen3-14b"
FOLDER = Path(__file__).resolve().parents[4] / "shared" / "ground-truth" / NAME
needs_files = pytest.mark.skipif(not FOLDER.is_dir(), reason=f"needs {NAME} beside the repository")


@pytest.fixture(scope="module")
def recordings() -> dict[str, Recording]:
    return {recording.run: recording for recording in recordings_in(FOLDER)}


@pytest.fixture(scope="module")
def fitted(recordings: dict[str, Recording]) -> dict[str, Calibrated]:
    return calibrate([*recordings.values()])


def errors(recording: Recording, image: Calibrated) -> tuple[float, float, float, float]:
    """Relative errors: TTFT p50 and mean, mean TPOT, mean E2E."""
    predicted = predict(recording, image.model, image.delay)
    p50 = np.median(predicted.ttft_ms) / np.median(recording.ttft_ms) - 1
    pairs = (
        (predicted.ttft_ms, recording.ttft_ms),
        (predicted.tpot_ms, recording.tpot_ms),
        (predicted.e2e_ms, recording.e2e_ms),
    )
    return (float(p50), *(float(ours.mean() / real.mean() - 1) for ours, real in pairs))


@needs_files
def test_only_runs_at_2_requests_a_second_are_fitted(
    recordings: dict[str, Recording], fitted: dict[str, Calibrated]
) -> None:
    used = {run for image in fitted.values() for run in image.runs}
    assert used
    assert all(recordings[run].load < 2.5 for run in used)
    assert {image.image for image in fitted.values()} == {"vanilla", "patched"}
    for image in fitted.values():
        assert all(recordings[run].image == image.image for run in image.runs)


@needs_files
@pytest.mark.parametrize(
    ("run", "bounds"),
    [
        ("sweep_rate__agg_8rps__vanilla", (0.04, 0.04, 0.015, 0.015)),
        ("sweep_tenants__5T_agg_10rps__patched", (0.04, 0.04, 0.015, 0.015)),
        ("w5_sweep__agg12", (0.05, 0.07, 0.03, 0.03)),
    ],
)
def test_unsaturated_runs_are_right_to_a_few_percent(
    recordings: dict[str, Recording],
    fitted: dict[str, Calibrated],
    run: str,
    bounds: tuple[float, ...],
) -> None:
    if run not in recordings:
        pytest.skip(f"{run} is not in the folder")
    found = errors(recordings[run], fitted[recordings[run].image])
    assert all(abs(error) <= bound for error, bound in zip(found, bounds, strict=True)), found


@needs_files
def test_a_kv_bound_run_is_right_to_a_percent(
    recordings: dict[str, Recording], fitted: dict[str, Calibrated]
) -> None:
    run = "w7_sweep__agg12"
    if run not in recordings:
        pytest.skip(f"{run} is not in the folder")
    found = errors(recordings[run], fitted["patched"])
    assert max(map(abs, found)) <= 0.01, found


@needs_files
def test_the_peer_is_read_by_run() -> None:
    assert read_peer(FOLDER)["w5_sweep__agg24"] == pytest.approx(-0.933, abs=0.001)


def test_other_folders_are_not_recognised(tmp_path: Path) -> None:
    assert not residency.recognises(tmp_path)
    (tmp_path / "runs").mkdir()
    assert not residency.recognises(tmp_path)


def test_a_run_without_its_columns_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "derived_steps").mkdir()
    with gzip.open(tmp_path / "runs" / "a.csv.gz", "wt") as file:
        file.write("arrival_us,send_us\n0,0\n")
    assert residency.recognises(tmp_path)
    with pytest.raises(ConfigError, match=r"a.csv.gz: lacks the columns input_tokens"):
        residency.validate(tmp_path)


def test_a_folder_with_nothing_to_fit_is_refused(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "derived_steps").mkdir()
    columns = "arrival_us,send_us,input_tokens,output_tokens,ttft_us,e2e_us,status\n"
    with gzip.open(tmp_path / "runs" / "a__vanilla.csv.gz", "wt") as file:
        file.write(columns + "0,0,9,2,50,90,ok\n9,9,9,2,50,90,failed\n")
    with pytest.raises(ConfigError, match="nothing to fit prices on"):
        residency.validate(tmp_path)
