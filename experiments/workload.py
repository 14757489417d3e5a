"""From a config to a trace: one source, then the transforms, in a fixed order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import workloads
from simulator.errors import ConfigError, WorkloadError, nearest
from simulator.trace import Trace
from simulator.units import seconds_to_ns

from .config import RunConfig, flag_of
from .provenance import file_identity

BUNDLED = "bundled"
"""Another name for the default bundled workload."""

ARRIVAL_SETTINGS = ("arrival", "burstiness", "on_s", "off_s")
"""Settings of an arrival process, next to its rate."""

TAKES: Mapping[str, tuple[str, ...]] = {
    "trace": ("format", "columns", "rate", *ARRIVAL_SETTINGS, "users", "think_time_s"),
    "workload": ("rate", "users", "think_time_s"),
    "preset": ("requests", "rate"),
    "requests": (
        *("rate", *ARRIVAL_SETTINGS, "input_tokens", "output_tokens"),
        *("users", "think_time_s"),
    ),
}
"""Source -> the settings that mean something for it; `requests` alone is the generator."""


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """A trace ready to run.

    kind: its source, a key of `TAKES`. slo: its preset's limits. file: identity of the trace file,
    if it is known; None to look when asked.
    """

    trace: Trace
    kind: str
    slo: dict[str, float] | None
    file: Mapping[str, str] | None = None

    def described(self, config: RunConfig) -> dict[str, object]:
        """For provenance: the source, the file by content or the name, the seed, the notes."""
        described: dict[str, object] = {"source": self.kind, "seed": config.seed}
        if self.kind == "trace":
            described["file"] = dict(self.file or file_identity(Path(str(config.trace))))
        elif self.kind != "requests":
            described["name"] = getattr(config, self.kind)
        return {
            **described,
            "rows_in": self.trace.rows_in,
            "dropped": dict(self.trace.dropped),
            "notes": list(self.trace.notes),
        }


@dataclass(frozen=True, slots=True, eq=False)
class TraceFile:
    """A trace file as it was read, before any transform, and its identity."""

    trace: Trace
    identity: Mapping[str, str]


def read_trace_file(config: RunConfig) -> TraceFile:
    """The file that `config.trace` names.

    Raises:
        WorkloadError: it cannot be read.
    """
    trace = _read(config)
    return TraceFile(trace, file_identity(Path(str(config.trace))))


def build_workload(
    config: RunConfig, *, trace: Trace | None = None, file: TraceFile | None = None
) -> Workload:
    """Read or generate the trace, then window, filter, cut, spread and scale it.

    trace: what this config gives, if it has been built before. file: its trace file, if that has
    been read before.

    Raises:
        ConfigError: no source, two of them, or a setting that its source does not take.
        WorkloadError: the file or the generator's settings are wrong, or nothing is left.
    """
    kind = source_of(config)
    if trace is None:
        source = file.trace if file else _BUILDERS[kind](config)
        trace = _transformed(source, config, kind)
    return Workload(trace, kind, _preset_slo(config), file.identity if file else None)


def source_of(config: RunConfig) -> str:
    """Which of `TAKES` a config names.

    Raises:
        ConfigError: none, two of them, or a setting of another source.
    """
    given = [name for name in ("trace", "preset", "workload") if getattr(config, name) is not None]
    if len(given) > 1:
        raise ConfigError(f"{' and '.join(map(flag_of, given))} both name a workload: give one")
    if not given and config.requests is None:
        raise ConfigError(
            "no workload: give --trace FILE, --preset NAME, --workload bundled, or --requests N "
            "to generate one"
        )
    kind = given[0] if given else "requests"
    for name in dict.fromkeys(name for names in TAKES.values() for name in names):
        if getattr(config, name) is not None and name not in (*TAKES[kind], kind):
            hint = "; use --head N for the first N" if name == "requests" else ""
            raise ConfigError(f"{flag_of(name)} means nothing with {flag_of(kind)}{hint}: drop one")
    return kind


def _read(config: RunConfig) -> Trace:
    assert config.trace is not None
    return workloads.read_trace(
        config.trace,
        format=config.format,
        columns=config.columns,
        bad_rows=config.bad_rows,
        failed_rows=config.failed_rows,
    )


def _bundled(config: RunConfig) -> Trace:
    name = str(config.workload)
    if name != BUNDLED and name not in workloads.BUNDLED:
        known = (BUNDLED, *workloads.BUNDLED)
        raise WorkloadError(f"unknown workload {name!r}{nearest(name, known)}: {', '.join(known)}")
    return workloads.bundled_trace() if name == BUNDLED else workloads.bundled_trace(name)


def _preset(config: RunConfig) -> Trace:
    return workloads.preset(
        str(config.preset), requests=config.requests or 1000, rate=config.rate, seed=config.seed
    )


def _generate(config: RunConfig) -> Trace:
    assert config.requests is not None
    return workloads.generate(
        requests=config.requests,
        prompt=config.input_tokens or DEFAULT_INPUT,
        output=config.output_tokens or DEFAULT_OUTPUT,
        rate=config.rate,
        arrival=_arrival(config),
        burstiness=_burstiness(config),
        on_s=config.on_s,
        off_s=config.off_s,
        users=config.users,
        think_time_s=config.think_time_s or 0.0,
        seed=config.seed,
    )


def _arrival(config: RunConfig) -> str:
    return config.arrival or ("poisson" if config.burstiness is None else "gamma")


def _burstiness(config: RunConfig) -> float:
    return 1.0 if config.burstiness is None else config.burstiness


DEFAULT_INPUT = "fixed:1000"
DEFAULT_OUTPUT = "lognormal:200:0.8"

_BUILDERS: Mapping[str, Callable[[RunConfig], Trace]] = {
    "trace": _read,
    "preset": _preset,
    "workload": _bundled,
    "requests": _generate,
}


def _transformed(trace: Trace, config: RunConfig, kind: str) -> Trace:
    """Choose rows first, then move arrivals; the mean rate comes last, so that it is as asked."""
    if config.window_s is not None:
        trace = workloads.window(trace, *config.window_s)
    if config.min_prompt_tokens is not None or config.max_prompt_tokens is not None:
        trace = workloads.filter_lengths(
            trace, min_prompt=config.min_prompt_tokens, max_prompt=config.max_prompt_tokens
        )
    if config.head is not None:
        trace = workloads.head(trace, config.head)
    if config.spread_ties:
        trace = workloads.spread_ties(trace, config.seed)
    if config.time_scale is not None:
        trace = workloads.scale_time(trace, config.time_scale)
    if config.rate_scale is not None:
        trace = workloads.scale_rate(trace, config.rate_scale)
    if kind in ("trace", "workload"):
        trace = _reloaded(trace, config)
    if config.predict_outputs is not None:
        trace = workloads.predict_outputs(trace, config.predict_outputs, seed=config.seed)
    return trace


def _reloaded(trace: Trace, config: RunConfig) -> Trace:
    """A recorded trace at another rate, or served to a closed loop of users."""
    asked = [name for name in ARRIVAL_SETTINGS if getattr(config, name) is not None]
    if config.users is None:
        if (asked or config.rate is not None) and _has_no_arrivals(trace):
            return _with_arrivals(trace, config)
        if asked:
            raise ConfigError(
                f"{flag_of(asked[0])} is for requests without arrival times, and "
                f"{config.trace} has its own: drop it, or change their mean rate with --rate"
            )
        return trace if config.rate is None else workloads.at_rate(trace, config.rate)
    if asked:
        raise ConfigError(
            f"--users makes a closed loop, which has no {flag_of(asked[0])}: drop one of them"
        )
    if config.rate is not None:
        raise ConfigError("--users makes a closed loop, which has no --rate: drop one of them")
    rows = len(trace)
    think_ns = np.full(rows, seconds_to_ns(config.think_time_s or 0.0), dtype=np.int64)
    think_ns[: config.users] = 0
    return trace.changed(
        f"closed loop of {config.users} users: arrivals of the trace not used",
        arrival_ns=np.zeros(rows, dtype=np.int64),
        think_ns=think_ns,
    )


def _has_no_arrivals(trace: Trace) -> bool:
    return trace.parent is None and bool(trace.arrival_ns[0] == trace.arrival_ns[-1])


def _with_arrivals(trace: Trace, config: RunConfig) -> Trace:
    """Arrivals for a trace that has none, such as a file of lengths."""
    from workloads.load import OpenLoop

    load = OpenLoop(_arrival(config), config.rate, _burstiness(config), config.on_s, config.off_s)
    return trace.changed(
        f"arrivals generated: {load}, seed={config.seed}",
        arrival_ns=load.arrival_ns(len(trace), config.seed),
    )


def _preset_slo(config: RunConfig) -> dict[str, float] | None:
    if config.preset is None:
        return None
    held = workloads.PRESETS[config.preset]
    return {"ttft_ms": held.ttft_ms, "tpot_ms": held.tpot_ms}
