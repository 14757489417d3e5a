"""Event loop time against the peer's: same requests, same limits, same prices, in turn.

Every run is a process of its own. Compared are the times that both programs measure of their own
event loop, without start-up, reading and reporting.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from math import exp, log
from pathlib import Path
from platform import python_build, python_compiler, python_version
from statistics import median

import numpy as np

from simulator.compiled import INTERPRETED_BECAUSE

from .loads import LOADS, WAYS, Load, available
from .peer import PYTHON, PeerRun, replay
from .peer import __doc__ as how_to_install
from .processes import run
from .report import middle, write, write_row

REPETITIONS = 5


@dataclass(slots=True)
class Samples:
    """What the repetitions of one load gave; ours by way, the peer's by prefix caching."""

    ours: dict[str, list[dict[str, float]]] = field(default_factory=dict)
    peers: dict[bool, list[PeerRun]] = field(default_factory=dict)

    def wall_s(self, way: str) -> list[float]:
        """Our event loop, every repetition."""
        return [sample["wall_s"] for sample in self.ours[way]]

    def peer_wall_s(self, prefix_caching: bool) -> list[float]:
        """Theirs."""
        return [sample.wall_s for sample in self.peers[prefix_caching]]

    def ratio(self, way: str, prefix_caching: bool) -> float:
        """Our median over theirs."""
        return median(self.wall_s(way)) / median(self.peer_wall_s(prefix_caching))


def compare(repetitions: int = REPETITIONS) -> None:
    """Measure all loads and write the tables."""
    samples = {name: Samples() for name in available()}
    for _ in range(repetitions):
        for name, load in available().items():
            _measure(load, samples[name])
    write(f"Event loop, median (fastest-slowest) of {repetitions} runs.")
    write(_interpreter())
    write("linear: `chunked`, prices a tangent of the peer's formula; peer: that formula itself;")
    write("vllm: `vllm`, linear prices; as is: with its asynchronous pipeline and prefix caching.")
    for way in WAYS:
        _write_ours(samples, way)
    if PYTHON:
        _write_ratios(samples)
        _write_means(samples)
    else:
        write(f"\nno peer: RUNWAY_PEER_PYTHON is not set\n\n{how_to_install}")


def _measure(load: Load, into: Samples) -> None:
    for way, prefix_caching in zip(WAYS, (True, False, None, None), strict=True):
        command = [sys.executable, "-m", "tests.benchmarks.speed", load.name, way]
        into.ours.setdefault(way, []).append(json.loads(run(command).output))
        if PYTHON and prefix_caching is not None:
            peer = replay(load, prefix_caching=prefix_caching)
            into.peers.setdefault(prefix_caching, []).append(peer)


def _interpreter() -> str:
    """Which Python, how it was built, and whether the loop is compiled; the peer's always is."""
    form = "compiled" if INTERPRETED_BECAUSE is None else f"interpreted: {INTERPRETED_BECAUSE}"
    python = f"CPython {python_version()}, {python_compiler()}, {python_build()[1]}"
    return f"{python}; event loop {form}"


def _write_ours(samples: dict[str, Samples], way: str) -> None:
    write()
    write_row([way, "wall ms", "us/request", "steps", "events"], width=20)
    for name, sample in samples.items():
        last = sample.ours[way][-1]
        each = middle(sample.wall_s(way), 1, 1e6 / last["requests"])
        wall = middle(sample.wall_s(way), 0, 1e3)
        write_row([name, wall, each, int(last["steps"]), int(last["events"])], width=20)


def _write_ratios(samples: dict[str, Samples]) -> None:
    write("\nRunway / DynoSim, by our way and their prefix caching (on is their default)")
    columns = [(way, caching) for caching in (True, False) for way in WAYS]
    names = [f"{way}, {'on' if caching else 'off'}" for way, caching in columns]
    write_row(["", *names, "DynoSim on, ms", "off, ms"], width=18)
    for name, sample in samples.items():
        ratios = [f"{sample.ratio(*column):.2f}" for column in columns]
        walls = [middle(sample.peer_wall_s(caching), 0, 1e3) for caching in (True, False)]
        write_row([name, *ratios, *walls], width=18)
    rates = [sample for name, sample in samples.items() if not isinstance(LOADS[name].source, Path)]
    means = [exp(sum(log(s.ratio(*column)) for s in rates) / len(rates)) for column in columns]
    write_row(["mean of rates", *(f"{mean:.2f}" for mean in means)], width=18)


def _write_means(samples: dict[str, Samples]) -> None:
    write("\nIs it the same work? mean TTFT and TPOT, ms: each of ours; DynoSim")
    for name, sample in samples.items():
        peer = sample.peers[True][-1]
        ours = [sample.ours[way][-1] for way in WAYS]
        ttft = [f"{value:.1f}" for value in (*(each["ttft_ms"] for each in ours), peer.ttft_ms)]
        tpot = [f"{value:.2f}" for value in (*(each["tpot_ms"] for each in ours), peer.tpot_ms)]
        write_row([name, *ttft, *tpot])


def _one(name: str, way: str) -> dict[str, float]:
    """One run of ours, for the process that `_measure` starts."""
    result = LOADS[name].simulate(way)
    log_, outputs = result.requests, result.trace.output_tokens
    decode_ns = (log_.finish_ns - log_.first_token_ns)[outputs > 1]
    return {
        "wall_s": result.wall_s,
        "requests": len(result.trace),
        "steps": len(result.steps),
        "events": result.events,
        "ttft_ms": float(np.mean(log_.first_token_ns - log_.arrival_ns)) / 1e6,
        "tpot_ms": float(np.mean(decode_ns / (outputs[outputs > 1] - 1))) / 1e6,
    }


if __name__ == "__main__":
    write(json.dumps(_one(*sys.argv[1:])))
