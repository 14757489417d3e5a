"""Policies that aim at latencies of their own, and whether those are the limits of the run."""

from __future__ import annotations

from collections.abc import Mapping

from .policies import Policy
from .run_config import RunConfig

AIMS: Mapping[str, Mapping[str, str]] = {
    "edf": {"ttft_ms": "ttft_ms", "tpot_ms": "tpot_ms"},
    "dynamic": {"tpot_target_ms": "tpot_ms"},
}
"""Policy -> its parameter -> the limit of a good request that it stands for."""


def missed_limits(config: RunConfig, policy: Policy) -> tuple[str, ...]:
    """A note if a policy aims, by its defaults, at other latencies than the run is judged by.

    A target that was given is meant, so nothing is said of it. config: with its SLO.
    """
    limits, given = config.slo or {}, config.scheduler_args or {}
    missed = {
        name: limit
        for name, limit in AIMS.get(config.scheduler, {}).items()
        if limit in limits
        and name not in given
        and getattr(config, name, None) is None
        and policy.parameters[name] != limits[limit]
    }
    if not missed:
        return ()
    aims = {limit: policy.parameters[name] for name, limit in missed.items()}
    flags = " ".join(_flag(name, limits[limit]) for name, limit in missed.items())
    slo = _words({limit: limits[limit] for limit in aims})
    return (f"{config.scheduler} aims at {_words(aims)}, not at the SLO ({slo}): {flags}",)


def _words(limits: Mapping[str, object]) -> str:
    return ", ".join(f"{name.removesuffix('_ms')} {ms:g} ms" for name, ms in limits.items())


def _flag(name: str, ms: float) -> str:
    is_field = name in RunConfig.model_fields
    return f"--{name.replace('_', '-')} {ms:g}" if is_field else f"--scheduler-arg {name}={ms:g}"
