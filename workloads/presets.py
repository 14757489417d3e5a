"""Presets: typical workloads, each with the origin of its figures and a typical SLO.

Importing the table loads nothing else, so that listings and help are quick.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simulator.trace import Trace


@dataclass(frozen=True, slots=True)
class Turns:
    """What makes a preset one of sessions; see `generate_sessions`."""

    turns: str
    new_text: str
    think_time_s: str
    system_prompt_tokens: int
    max_context_tokens: int
    tool_time_s: str | None = None
    tool_probability: float = 0.0
    tool_result: str | None = None


@dataclass(frozen=True, slots=True)
class Preset:
    """Settings for `generate`, and the limits its goodput is usually judged by.

    rate: default requests per second, None for all at once. prompt, output: see `LENGTHS`.
    ttft_ms, tpot_ms: the SLO, milliseconds. origin: where every figure comes from.
    sessions: settings for `generate_sessions` instead; the rate is then of sessions, and prompt
    is what the first turn says after the system prompt.
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
    sessions: Turns | None = None


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
    "multi-turn-chat": Preset(
        description="conversations: every turn repeats the ones before it, people think between",
        arrival="poisson",
        rate=1.0,
        prompt="lognormal:5435:1.21:1:126195",
        output="lognormal:350:0.417:1:2000",
        ttft_ms=2000.0,
        tpot_ms=200.0,
        sessions=Turns(
            turns="lognormal-mean:3.5:0.9:1:40",
            new_text="lognormal:39:3.75:1:18366",
            think_time_s="lognormal:135:1.03:1:1477",
            system_prompt_tokens=512,
            max_context_tokens=32_768,
        ),
        origin=(
            "Lengths and pauses: Mooncake conversation trace (Apache-2.0; Qin et al., FAST 2025), "
            "where we took a request to be a later turn if its hash_ids go on from all full blocks "
            "of an earlier one (3,654 of 12,031). Matched: prompts that continue nothing, p50 "
            "5,947 and p90 26,119 (some had earlier turns before the hour of the trace, so they "
            "are long); text added by later turns, p50 39, p90 4,785 and p99 18,366; outputs, p50 "
            "350 and p90 597; time between turns, p50 135 s, p90 504 s and p99 1,477 s (from "
            "arrival to arrival, so the pause is too long by one answer); the first 512 tokens "
            "are the same for all. The hour cuts sessions, so turns are those of ShareGPT: 3.51 "
            "on average (330,239 in 94,145 conversations, as Yan et al. count in "
            "arXiv:2512.17843), their spread is our assumption, and sessions end at 32,768 "
            "tokens, which leaves 3.05 turns and a mean prompt of 12,100 (the trace's: 12,035). "
            "Rate: 1 session/s gives 3.1 requests/s (the trace's: 3.4). SLO: MLPerf Inference, "
            "Llama 2 70B server (p99)."
        ),
    ),
    "agent-tools": Preset(
        description="agents: one system prompt, many short turns, most of them sent by tools",
        arrival="poisson",
        rate=0.1,
        prompt="lognormal:1000:0.8:50:16000",
        output="lognormal:69:1.35:1:893",
        ttft_ms=2000.0,
        tpot_ms=50.0,
        sessions=Turns(
            turns="lognormal:12:0.6:2:60",
            new_text="lognormal:60:0.8:5:2000",
            think_time_s="lognormal:30:1:1:600",
            system_prompt_tokens=4096,
            max_context_tokens=32_768,
            tool_time_s="lognormal:1.5:1.2:0.05:300",
            tool_probability=0.9,
            tool_result="lognormal:400:1.3:10:20000",
        ),
        origin=(
            "Outputs: Mooncake synthetic trace (Apache-2.0; Qin et al., FAST 2025), taken as a "
            "stand-in for agents: p50 69 and p90 389 matched. All else is our assumption, since "
            "no public trace with tool times was found: 4,096 tokens of instructions and tool "
            "descriptions shared by all, 12 turns in the median, nine in ten of the later ones a "
            "tool's result of some 400 tokens after some 1.5 s, the others a person's after some "
            "30 s, an end at 32,768 tokens; rate and SLO too."
        ),
    ),
}
"""Preset name -> settings."""


def preset(name: str, *, requests: int, rate: float | None = None, seed: int = 0) -> Trace:
    """Generate a preset's workload. A `rate` turns an all-at-once preset into Poisson arrivals.

    requests: how many; turns of sessions count one by one. rate: per second; of sessions in a
    preset of sessions.

    Raises:
        WorkloadError: an unknown name or a bad setting.
    """
    from simulator.errors import WorkloadError, nearest

    from .sessions import generate_sessions
    from .synthetic import generate

    if name not in PRESETS:
        raise WorkloadError(
            f"unknown preset {name!r}{nearest(name, PRESETS)}: {', '.join(PRESETS)}"
        )
    chosen = PRESETS[name]
    arrival = "poisson" if rate and chosen.arrival == "all-at-once" else chosen.arrival
    rate = chosen.rate if rate is None else rate
    if chosen.sessions is not None:
        trace = generate_sessions(
            requests=requests,
            first_prompt=chosen.prompt,
            output=chosen.output,
            rate=rate,
            arrival=arrival,
            burstiness=chosen.burstiness,
            seed=seed,
            **asdict(chosen.sessions),
        )
    else:
        trace = generate(
            requests=requests,
            prompt=chosen.prompt,
            output=chosen.output,
            rate=rate,
            arrival=arrival,
            burstiness=chosen.burstiness,
            seed=seed,
        )
    return replace(trace, notes=(f"preset {name}", *trace.notes))
