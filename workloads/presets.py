"""Presets: typical workloads, each with the origin of its figures and a typical SLO.

Importing the table loads nothing else, so that listings and help are quick.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simulator.trace import Trace


@dataclass(frozen=True, slots=True)
class Preset:
    """Settings for `generate`, and the limits its goodput is usually judged by.

    rate: default requests per second, None for all at once. prompt, output: see `LENGTHS`.
    ttft_ms, tpot_ms: the SLO, milliseconds. origin: where every figure comes from.
    """

    description: str
    arrival: str
    rate: float | None
    prompt: str
    output: str
    ttft_ms: float
    tpot_ms: float
    origin: str
    burstiness: float = 1.0


PRESETS: dict[str, Preset] = {
    "chat": Preset(
        description="people chatting: medium prompts, short answers",
        arrival="gamma",
        burstiness=0.84,
        rate=5.5,
        prompt="lognormal:1020:0.77:1:14050",
        output="lognormal:129:0.93:1:1000",
        ttft_ms=450.0,
        tpot_ms=40.0,
        origin=(
            "Lengths, rate and gaps: Azure LLM inference trace 2023, conversation (CC-BY-4.0; "
            "Patel et al., Splitwise, ISCA 2024): 5.53 requests/s, gap CV 1.09 = 1/sqrt(0.84), "
            "prompt p50 1,020 and p90 2,734, output p50 129 and p90 424 are matched, maxima 14,050 "
            "and 1,000; the trace's mean prompt is 1,155, the fit's about 1,370. "
            "SLO: MLPerf Inference v5.0, Llama 2 70B Interactive (p99)."
        ),
    ),
    "documents": Preset(
        description="long documents to summarise, an offline batch",
        arrival="all-at-once",
        rate=None,
        prompt="lognormal:6909:1.07:891:126195",
        output="lognormal:167:0.62:1:4056",
        ttft_ms=6000.0,
        tpot_ms=175.0,
        origin=(
            "Prompts: Mooncake conversation trace (Apache-2.0; Qin et al., Mooncake, FAST 2025): "
            "p50 6,909 and p90 27,367 matched, 891 to 126,195. Outputs: arXiv summarisation "
            "lengths of Vidur (MIT; Agrawal et al., MLSys 2024): p50 167 and p90 372 matched. "
            "Pairing the two is our assumption. SLO: MLPerf Inference v5.0, Llama 3.1 405B server "
            "(p99); a batch is usually judged by throughput instead."
        ),
    ),
    "coding-agent": Preset(
        description="coding agents: very long contexts, short tool calls, bursts",
        arrival="gamma",
        burstiness=0.5,
        rate=1.0,
        prompt="lognormal:11587:0.94:13:191378",
        output="lognormal:69:1.35:1:893",
        ttft_ms=2000.0,
        tpot_ms=50.0,
        origin=(
            "Lengths: Mooncake synthetic trace (Apache-2.0; Qin et al., FAST 2025), taken as a "
            "stand-in for agents: prompt p50 11,587 and p90 38,611, output p50 69 and p90 389 "
            "matched. Its shared prefixes (64 % of blocks) are not generated: every token is new. "
            "Burstiness, rate and SLO are our assumptions."
        ),
    ),
    "voice": Preset(
        description="spoken assistant: short turns, strict TTFT",
        arrival="poisson",
        rate=8.0,
        prompt="lognormal:400:0.6:20:4000",
        output="lognormal:45:0.6:4:300",
        ttft_ms=200.0,
        tpot_ms=50.0,
        origin=(
            "TTFT limit: people leave about 200 ms between turns (Stivers et al., PNAS 2009), and "
            "the model gets the whole of it here. TPOT limit: well under the 300 ms a token of "
            "speech at 150 words a minute. Lengths (a system prompt with a few turns, one or two "
            "spoken sentences) and rate are our assumptions; no public trace was found."
        ),
    ),
}
"""Preset name -> settings."""


def preset(name: str, *, requests: int, rate: float | None = None, seed: int = 0) -> Trace:
    """Generate a preset's workload. A `rate` turns an all-at-once preset into Poisson arrivals.

    Raises:
        WorkloadError: an unknown name or a bad setting.
    """
    from simulator.errors import WorkloadError, nearest

    from .synthetic import generate

    if name not in PRESETS:
        raise WorkloadError(
            f"unknown preset {name!r}{nearest(name, PRESETS)}: {', '.join(PRESETS)}"
        )
    chosen = PRESETS[name]
    arrival = "poisson" if rate and chosen.arrival == "all-at-once" else chosen.arrival
    trace = generate(
        requests=requests,
        prompt=chosen.prompt,
        output=chosen.output,
        rate=chosen.rate if rate is None else rate,
        arrival=arrival,
        burstiness=chosen.burstiness,
        seed=seed,
    )
    return replace(trace, notes=(f"preset {name}", *trace.notes))
