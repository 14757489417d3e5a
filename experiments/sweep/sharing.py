"""Trace files, read once by the process that leads a sweep and shared with those that work.

What travels with a point is a small handle, never the trace. On one machine the trace is a file
that every process maps into memory; on a Ray cluster it lies in the object store, on a Dask
cluster each worker holds it: neither needs a file system in common.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from experiments.config import RunConfig
from experiments.workload import TraceFile, read_trace_file
from simulator.errors import RunwayError
from simulator.trace import Trace


class Handle(Hashable, Protocol):
    """How a process gets at a trace file that another one read; equal digests, equal files."""

    @property
    def digest(self) -> str:
        """Of the file and of how it was read."""

    def get(self) -> TraceFile:
        """The file, as it was read."""


@dataclass(frozen=True, slots=True)
class InMemory:
    """For the process that read it."""

    digest: str
    file: TraceFile = field(compare=False)

    def get(self) -> TraceFile:
        """The file, as it was read."""
        return self.file


@dataclass(frozen=True, slots=True)
class Mapped:
    """A file on this machine, its columns mapped into memory once per process."""

    digest: str
    path: str = field(compare=False)

    def get(self) -> TraceFile:
        """The file, as it was read."""
        return _mapped(self)


@dataclass(frozen=True, slots=True)
class InRay:
    """In the object store of a Ray cluster. Any: Ray is an extra, and its references untyped."""

    digest: str
    reference: Any = field(compare=False)

    def get(self) -> TraceFile:
        """The file, as it was read."""
        ray: Any = import_module("ray")  # Any: an extra, perhaps not installed
        file: TraceFile = ray.get(self.reference)
        return file


@dataclass(frozen=True, slots=True)
class InDask:
    """With every worker of a Dask cluster, workers that join later included."""

    digest: str

    def get(self) -> TraceFile:
        """The file, as it was read."""
        distributed: Any = import_module("distributed")  # Any: an extra, perhaps not installed
        file: TraceFile = distributed.get_worker().plugins[self.digest].file
        return file


def file_key(config: RunConfig) -> str | None:
    """What decides how a trace file is read, as text; None for a workload without a file."""
    if config.trace is None:
        return None
    settings = ("trace", "format", "columns", "bad_rows", "failed_rows")
    return repr([getattr(config, name) for name in settings])


def read_files(configs: Iterable[RunConfig]) -> dict[str, TraceFile]:
    """Every different trace file of these runs, read once.

    A file that cannot be read is left out: its points say why.
    """
    found: dict[str, TraceFile] = {}
    for key, config in {file_key(config): config for config in configs}.items():
        if key is not None:
            try:
                found[key] = read_trace_file(config)
            except (RunwayError, OSError):
                continue
    return found


def in_memory(files: Mapping[str, TraceFile]) -> dict[str, Handle]:
    """Handles for this process itself."""
    return {key: InMemory(_digest(key, file), file) for key, file in files.items()}


@contextmanager
def mapped(files: Mapping[str, TraceFile], folder: Path) -> Iterator[dict[str, Handle]]:
    """The files in `folder`, for processes of this machine; gone afterwards."""
    import joblib

    digests = {key: _digest(key, file) for key, file in files.items()}
    paths = {key: folder / f".trace-{digest}.tmp" for key, digest in digests.items()}
    try:
        for key, path in paths.items():
            joblib.dump(files[key], path)
        yield {key: Mapped(digests[key], str(path)) for key, path in paths.items()}
    finally:
        for path in paths.values():
            path.unlink(missing_ok=True)


def in_ray(files: Mapping[str, TraceFile]) -> dict[str, Handle]:
    """The files in the object store of the Ray cluster that this process is connected to."""
    ray: Any = import_module("ray")  # Any: as above
    return {key: InRay(_digest(key, file), ray.put(file)) for key, file in files.items()}


@contextmanager
def in_dask(files: Mapping[str, TraceFile], client: Any) -> Iterator[dict[str, Handle]]:
    """The files with every worker of a Dask client. Any: Dask is an extra without types."""
    distributed: Any = import_module("distributed")  # Any: as above

    class Holds(distributed.WorkerPlugin):  # type: ignore[misc]  # its base has no types
        """What a worker keeps, under the file's digest, until it is taken away again."""

        def __init__(self, file: TraceFile) -> None:
            self.file = file

    digests = {key: _digest(key, file) for key, file in files.items()}
    for key, file in files.items():
        client.register_plugin(Holds(file), name=digests[key])
    try:
        yield {key: InDask(digest) for key, digest in digests.items()}
    finally:
        for digest in digests.values():
            client.unregister_worker_plugin(digest)


def _digest(key: str, file: TraceFile) -> str:
    return hashlib.sha256(f"{key} {file.identity['sha256']}".encode()).hexdigest()[:24]


@lru_cache(maxsize=4)
def _mapped(handle: Mapped) -> TraceFile:
    import joblib

    file: TraceFile = joblib.load(handle.path, mmap_mode="r")
    return replace(file, trace=_plain(file.trace))


def _plain(trace: Trace) -> Trace:
    """Columns as plain arrays over the same mapped memory: `memmap` objects are slow to slice."""
    columns = {name: getattr(trace, name) for name in Trace.__slots__}
    arrays: dict[str, Any] = {  # Any: mypy checks the values against every field
        name: np.asarray(column)
        for name, column in columns.items()
        if isinstance(column, np.ndarray)
    }
    return replace(trace, **arrays)
