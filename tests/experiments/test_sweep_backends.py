"""Processes, Ray and Dask: equal results; a trace is read once and never sent with a point."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from experiments import workload
from experiments.sweep import SweepSpec, load_spec, run_sweep, runner
from experiments.sweep.backends import check_workers
from experiments.sweep.jobs import Job, list_jobs
from experiments.sweep.sharing import file_key, mapped, read_files
from simulator.errors import ConfigError, RunwayError

FILES = ("sweep.parquet", "sweep.csv", "sweep.yaml", "timelines.parquet")
TraceOf = Callable[..., Path]


@pytest.fixture
def spec(trace_of: TraceOf, per_token: Path) -> SweepSpec:
    trace = trace_of(*((0.1 * row, 50 + 7 * row, 5) for row in range(40)))
    base = {"trace": str(trace), "cost_model": str(per_token), "kv_blocks": 200}
    grid = {"rate": [5.0, 10.0], "scheduler": ["chunked", "continuous"]}
    return load_spec(None, base, {**grid, "max_num_batched_tokens": [512]})


@pytest.fixture
def expected(spec: SweepSpec, tmp_path: Path) -> dict[str, bytes]:
    run_sweep(spec, tmp_path / "here")
    return contents(tmp_path / "here")


def contents(out: Path) -> dict[str, bytes]:
    return {name: (out / name).read_bytes() for name in FILES}


def read_only_here(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of trace files as they are read; each is gone after it was read once.

    A worker, or a point, that read for itself would not find it: its point would fail.
    """
    read: list[str] = []
    read_trace = workload.workloads.read_trace

    def once(path: str, **how: object) -> object:
        trace = read_trace(path, **how)  # type: ignore[arg-type]
        read.append(path)
        return trace

    identity = workload.file_identity

    def identify(path: Path) -> dict[str, str]:
        found = identity(path)
        path.rename(path.with_suffix(".gone"))
        return found

    monkeypatch.setattr(workload.workloads, "read_trace", once)
    monkeypatch.setattr(workload, "file_identity", identify)
    return read


def back(spec: SweepSpec) -> None:
    """The trace file in its place again."""
    path = Path(str(spec.base["trace"]))
    path.with_suffix(".gone").rename(path)


@pytest.mark.parametrize("jobs", [1, 2])
def test_processes_get_the_trace_that_one_of_them_read(
    spec: SweepSpec,
    expected: dict[str, bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    jobs: int,
) -> None:
    out = tmp_path / "out"
    read = read_only_here(monkeypatch)
    # What was read is asked for again only when the results are written.
    write = runner.write_sweep
    monkeypatch.setattr(runner, "write_sweep", lambda *each: (back(spec), write(*each)))
    monkeypatch.setattr(runner.PointStore, "open", opened_before(runner.PointStore.open, spec))
    run_sweep(spec, out, jobs=jobs)
    assert len(read) == 1
    assert contents(out) == expected
    assert not list((out / "points").glob(".trace*"))


def opened_before(open_store: Callable[..., None], spec: SweepSpec) -> Callable[..., None]:
    """`PointStore.open` with the trace file in place: it hashes the files that settings name."""

    def opened(self: object, asked: SweepSpec) -> None:
        back(spec)
        open_store(self, asked)
        path = Path(str(spec.base["trace"]))
        path.rename(path.with_suffix(".gone"))

    return opened


def test_of_a_workload_the_point_with_the_most_steps_starts_first(spec: SweepSpec) -> None:
    """At both rates: chunks of 64, then a budget of 512 tokens, then no limit at all."""
    base = {name: value for name, value in spec.base.items() if name != "kv_blocks"}
    grid = {"rate": [5.0, 10.0], "chunk_size": [None, 64], "max_num_batched_tokens": [None, 512]}
    asked = load_spec(None, base, grid)
    records, jobs = list_jobs(asked)
    assert not records
    order = [
        (job.config.rate, job.config.chunk_size, job.config.max_num_batched_tokens) for job in jobs
    ]
    at_one_rate = [(64, None), (64, 512), (None, 512), (None, None)]
    assert order == [(rate, *sizes) for rate in (5.0, 10.0) for sizes in at_one_rate]


def test_the_points_that_take_longest_start_first() -> None:
    """Most requests first; of as many the lowest rate, where most steps have few sequences."""
    grid = {"requests": [20, 40], "rate": [9.0, 3.0], "max_num_batched_tokens": [1024, 512]}
    _, jobs = list_jobs(load_spec(None, {"cost_model": "lesson"}, grid))
    order = [(j.config.requests, j.config.rate, j.config.max_num_batched_tokens) for j in jobs]
    assert order == [
        (n, rate, size) for n in (40, 20) for rate in (3.0, 9.0) for size in (512, 1024)
    ]


def test_a_sweep_that_is_refused_in_spite_of_its_processes_leaves_nothing(
    spec: SweepSpec, tmp_path: Path
) -> None:
    base = {**spec.base, "trace": str(tmp_path / "missing.csv")}
    with pytest.raises(RunwayError, match=r"missing\.csv"):
        run_sweep(load_spec(None, base, spec.grid), tmp_path / "out", jobs=2)
    assert not (tmp_path / "out").exists()


def test_what_is_sent_with_a_point_does_not_grow_with_the_trace(
    trace_of: TraceOf, tmp_path: Path
) -> None:
    sizes = []
    for rows in (10, 5000):
        trace = trace_of(*((0.1 * row, 50, 5) for row in range(rows)))
        spec = load_spec(None, {"trace": str(trace)}, {"chunk_size": [64]})
        config = spec.config(next(spec.points()))
        files = read_files([config])
        with mapped(files, tmp_path) as handles:
            handle = handles[str(file_key(config))]
            job = Job((0, 0), config, handle)
            sizes.append(len(pickle.dumps(job)))
            arrivals = handle.get().trace.arrival_ns
            assert len(arrivals) == rows
            assert isinstance(arrivals.base, np.memmap)
    assert max(sizes) < 4000
    assert abs(sizes[1] - sizes[0]) < 10


def test_ray_runs_the_sweep(spec: SweepSpec, expected: dict[str, bytes], tmp_path: Path) -> None:
    """A local Ray is started, and stopped afterwards."""
    ray = pytest.importorskip("ray", reason="Ray is not installed (the extra `ray`)")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Ray's own
        outcome = run_sweep(spec, tmp_path / "ray", jobs=2, backend="ray")
    assert outcome.ok == 4
    assert contents(tmp_path / "ray") == expected
    assert not ray.is_initialized()


def test_dask_runs_the_sweep(spec: SweepSpec, expected: dict[str, bytes], tmp_path: Path) -> None:
    """On the Dask that this process is connected to, which is left as it was."""
    distributed = pytest.importorskip(
        "distributed", reason="Dask is not installed (the extra `dask`)"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Dask's own
        local = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
        with distributed.LocalCluster(**local) as cluster, distributed.Client(cluster) as client:
            outcome = run_sweep(spec, tmp_path / "dask", jobs=2, backend="dask")
            assert client.status == "running"
    assert outcome.ok == 4
    assert contents(tmp_path / "dask") == expected


def test_a_backend_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"backend 'rey' is none of loky, ray, dask, did you"):
        check_workers(1, "rey")
    monkeypatch.setattr("experiments.sweep.backends.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"backend ray needs the package ray: pip install 'llm-"):
        check_workers(1, "ray")
