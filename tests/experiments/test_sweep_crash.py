"""What a sweep survives: kill -9 at any moment, a full disk, an unwritable folder."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import signal
import stat
from collections.abc import Callable
from multiprocessing import forkserver
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from experiments.sweep import SweepSpec, load_spec, run_sweep, store
from simulator.errors import ConfigError

KILLS = 20
POINTS = 44


def spec_of_many_points() -> SweepSpec:
    base = {"requests": 40, "rate": 5, "cost_model": "lesson", "kv_blocks": 4000}
    return load_spec(None, base, {"chunk_size": [*range(16, 16 + POINTS)]})


def sweep_again(out: str) -> None:
    """In a process of its own."""
    run_sweep(spec_of_many_points(), Path(out), jobs=1)


def test_twenty_kills_at_random_moments_lose_and_double_nothing(tmp_path: Path) -> None:
    """Each start goes on where the one before was killed; in the end all is as if never killed.

    A start is killed after one to four more records, at a random moment of the next one's life.
    """
    whole, out = tmp_path / "whole", tmp_path / "out"
    run_sweep(spec_of_many_points(), whole)
    rng, killed = np.random.default_rng(5), 0
    # A server that has imported everything: a start costs milliseconds.
    forkserver._forkserver._stop()  # one of another test has not imported this file
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, "experiments.sweep", "pandas"])
    kept: list[int] = []
    while killed < KILLS:
        before = len(records(out))
        process = context.Process(target=sweep_again, args=(str(out),))
        process.start()
        goal = min(before + int(rng.integers(1, 3)), POINTS - 2)
        while process.is_alive() and len(records(out)) < goal:
            process.join(timeout=0.001)
        process.join(timeout=float(rng.uniform(0, 0.01)))
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        killed += process.exitcode == -signal.SIGKILL
        assert all(json.loads(text)["status"] == "ok" for text in records(out).values())
        kept.append(len(records(out)))
    assert kept == sorted(kept)
    assert kept[0] < kept[-1]
    outcome = run_sweep(spec_of_many_points(), out)
    assert outcome.resumed >= kept[-1]
    assert records(out) == records(whole)
    for name in ("sweep.parquet", "sweep.csv", "sweep.yaml"):
        assert (out / name).read_bytes() == (whole / name).read_bytes()
    assert pd.read_parquet(out / "sweep.parquet")["chunk_size"].is_unique


def records(out: Path) -> dict[str, str]:
    """The records that are in place, by name; drafts are none."""
    folder = out / "points"
    return {path.name: path.read_text() for path in sorted(folder.glob("[0-9]*.json"))}


def test_a_full_disk_is_one_message_and_what_is_done_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The third record does not fit; with room again the same call runs the other points."""
    out, spec = tmp_path / "out", spec_of_many_points()
    written: list[str] = []
    fsync = os.fsync

    def full(handle: int) -> None:
        written.append("")
        if len(written) > 3:  # the first is what was asked
            raise OSError(errno.ENOSPC, "No space left on device")
        fsync(handle)

    monkeypatch.setattr(store.os, "fsync", full)
    with pytest.raises(ConfigError) as error:
        run_sweep(spec, out)
    assert str(error.value) == (
        f"cannot write results to {out}: No space left on device; what is done is kept: make room "
        "and run the same command again"
    )
    assert sorted(path.name[:6] for path in (out / "points").iterdir()) == [
        *("000000", "000001", "sweep."),
    ]
    monkeypatch.undo()
    assert run_sweep(spec, out).resumed == 2


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_an_unwritable_folder_is_one_message(tmp_path: Path) -> None:
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    with pytest.raises(ConfigError, match=r"cannot write results to .*: Permission denied"):
        run_sweep(spec_of_many_points(), tmp_path / "out")
    tmp_path.chmod(stat.S_IRWXU)


def test_a_file_in_the_way_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(
        ConfigError, match=r"cannot write results to .*out: it is a file, give a folder"
    ):
        run_sweep(spec_of_many_points(), tmp_path / "out")


@pytest.fixture
def deadly(tmp_path: Path) -> str:
    """A policy that kills its process, as the kernel does when memory runs out."""
    policy = tmp_path / "deadly.py"
    policy.write_text(
        "import os, signal\nfrom simulator import ChunkedPrefillScheduler\n"
        "class Deadly(ChunkedPrefillScheduler):\n    def plan(self, view):\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    return f"{policy}:Deadly"


def test_a_point_that_kills_its_process_is_a_failed_row_and_the_rest_runs(
    tmp_path: Path, trace_of: Callable[..., Path], per_token: Path, deadly: str
) -> None:
    """Also when it is all that is left of a sweep that is run again."""
    trace = trace_of(*((0.1 * row, 10, 2) for row in range(20)))
    base = {"trace": str(trace), "cost_model": str(per_token), "kv_blocks": 99}
    schedulers = ["chunked", deadly, "continuous", "vllm"]
    spec = load_spec(None, base, {"scheduler": schedulers, "max_num_seqs": [1, 2, 3]})
    outcome = run_sweep(spec, tmp_path / "out", jobs=2)
    rows = outcome.rows
    assert (outcome.ok, outcome.failed) == (9, 3)
    assert {*rows[rows["status"] == "failed"]["reason"]} == {
        "its process died (killed by signal 9: out of memory?)"
    }
    assert rows["status"].tolist() == ["ok"] * 3 + ["failed"] * 3 + ["ok"] * 6
    again = run_sweep(spec, tmp_path / "out", jobs=2)
    assert (again.resumed, again.ok, again.failed) == (9, 9, 3)
    alone = load_spec(None, base, {**spec.grid, "scheduler": [deadly, "vllm"], "max_num_seqs": [1]})
    run_sweep(alone, tmp_path / "alone", jobs=2)
    assert run_sweep(alone, tmp_path / "alone", jobs=2).failed == 1


def test_a_sweep_all_of_whose_points_kill_their_process_ends(
    tmp_path: Path, trace_of: Callable[..., Path], per_token: Path, deadly: str
) -> None:
    base = {"trace": str(trace_of((0, 10, 2))), "cost_model": str(per_token), "kv_blocks": 9}
    spec = load_spec(None, {**base, "scheduler": deadly}, {"max_num_seqs": [1, 2, 3, 4, 5]})
    outcome = run_sweep(spec, tmp_path / "out", jobs=2)
    assert (outcome.ok, outcome.failed) == (0, 5)
