"""Prefix caching at scale: chats of 100,000 requests, and Mooncake's trace beside the peer.

Every run is a process of its own; what counts is the time of the event loop. On the trace both
programs have the same cache, limits and (where the linear model touches the peer's) prices.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from statistics import median

import numpy as np

from costmodels import load_cost_model
from simulator import PrefixCache, Trace, VllmScheduler, simulate
from workloads import generate, generate_sessions

from .loads import MOONCAKE, Load
from .peer import PYTHON, replay
from .processes import run
from .report import middle, write, write_row

REQUESTS = 100_000
LIMIT_S = 10
REPETITIONS = 3
COST_MODEL = "b300-qwen3-32b-tp2"
CONVERSATION = Load("mooncake", MOONCAKE, 0.914)
QUARTER = 0.25


def one_system_prompt(requests: int) -> Trace:
    """Chat as `interactive-chat` has it, all requests behind the same 512 tokens."""
    return _behind_prefixes(
        1, requests, prompt="lognormal:1020:0.77:1:14050", output="lognormal:129:0.93:1:1000"
    )


def fifty_prefixes(requests: int) -> Trace:
    """Shorter chat, every request behind one of fifty prefixes of 512 tokens."""
    return _behind_prefixes(
        50, requests, prompt="lognormal:600:0.6:50:4000", output="lognormal:150:0.6:4:800"
    )


def sessions(requests: int) -> Trace:
    """Conversations of two to six turns, all behind the same 500 tokens."""
    return generate_sessions(
        requests=requests,
        rate=2,
        turns="uniform:2:6",
        system_prompt_tokens=500,
        first_prompt="lognormal:200:0.8:10:2000",
        new_text="lognormal:60:0.8:5:500",
        output="lognormal:200:0.7:5:1000",
        think_time_s=10,
        seed=1,
    )


CHATS: dict[str, Callable[[int], Trace]] = {
    "one system prompt": one_system_prompt,
    "fifty prefixes": fifty_prefixes,
    "sessions": sessions,
}


def measure() -> None:
    """Write loop time of every chat, and of the trace the ratio to the peer's."""
    write(f"{REQUESTS:,} requests of `vllm`, {COST_MODEL} (limit {LIMIT_S} s)")
    write_row(["", "loop s", "us/request", "steps", "hit rate"], width=18)
    for name in CHATS:
        samples = [_apart("chat", name) for _ in range(REPETITIONS)]
        _write_ours(name, samples, REQUESTS)
    if not CONVERSATION.is_here:
        write("\nno Mooncake trace beside the project")
        return
    ours: list[dict[str, float]] = []
    theirs: list[float] = []
    for _ in range(REPETITIONS):
        ours.append(_apart("trace", CONVERSATION.name))
        if PYTHON:
            theirs.append(replay(CONVERSATION, prefix_caching=True).wall_s)
    write(f"\nMooncake conversation, `vllm` as it comes, median of {REPETITIONS}, in turn")
    _write_ours("Runway", ours, int(ours[0]["requests"]))
    if not PYTHON:
        write("no peer: RUNWAY_PEER_PYTHON is not set")
        return
    write_row(["DynoSim", middle(theirs)], width=18)
    ratio = median(sample["wall_s"] for sample in ours) / median(theirs)
    write(f"Runway / DynoSim {ratio:.3f}, limit {QUARTER}")


def _behind_prefixes(prefixes: int, requests: int, *, prompt: str, output: str) -> Trace:
    trace = generate(requests=requests, rate=8, prompt=prompt, output=output, seed=1)
    groups = np.random.default_rng(0).integers(0, prefixes, len(trace))
    return replace(
        trace,
        prefix_group=tuple(map(str, groups.tolist())),
        prefix_tokens=np.minimum(trace.prompt_tokens - 1, 512),
    )


def _apart(kind: str, name: str) -> dict[str, float]:
    sample: dict[str, float] = json.loads(
        run([sys.executable, "-m", "tests.benchmarks.prefixes", kind, name]).output
    )
    return sample


def _write_ours(name: str, samples: list[dict[str, float]], requests: int) -> None:
    loops = [sample["wall_s"] for sample in samples]
    last = samples[-1]
    rate = f"{last['cached'] / last['prompt']:.1%}"
    each = middle(loops, 0, 1e6 / requests)
    write_row([name, middle(loops), each, int(last["steps"]), rate], width=18)


def _one(kind: str, name: str) -> dict[str, float]:
    """One run, for the process that `_apart` starts."""
    if kind == "trace":
        result = CONVERSATION.simulate("vllm as is")
    else:
        cost_model = load_cost_model(COST_MODEL)
        kv = cost_model.table.kv
        assert kv is not None, "the bundled tables have a KV capacity"
        cache = PrefixCache(kv.blocks, kv.block_size)
        result = simulate(CHATS[name](REQUESTS), VllmScheduler(), cost_model, cache)
    return {
        "wall_s": result.wall_s,
        "requests": len(result.trace),
        "steps": len(result.steps),
        "cached": int(result.requests.cached_tokens.sum()),
        "prompt": int(result.trace.prompt_tokens.sum()),
    }


if __name__ == "__main__":
    write(json.dumps(_one(*sys.argv[1:])))
