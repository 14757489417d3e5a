"""`generate`: a workload from a seed. Same settings and seed, same requests."""

from __future__ import annotations

import numpy as np

from simulator.errors import WorkloadError
from simulator.trace import Trace

from .lengths import Empirical, Lengths, parse_lengths
from .limits import at_least
from .load import ARRIVALS, ClosedLoop, OpenLoop

__all__ = ["ARRIVALS", "generate"]

_LENGTHS, _OUTPUT, _THINK = 1, 2, 3


def generate(
    *,
    requests: int,
    prompt: Lengths | str | int,
    output: Lengths | str | int,
    rate: float | None = None,
    arrival: str = "poisson",
    burstiness: float = 1.0,
    on_s: float | None = None,
    off_s: float | None = None,
    users: int | None = None,
    think_time_s: float = 0.0,
    think: str = "fixed",
    seed: int = 0,
) -> Trace:
    """Requests with drawn arrivals and lengths.

    Arrivals, prompts, outputs and think times have random streams of their own, so changing
    the rate leaves every length as it was (common random numbers).

    Args:
        prompt, output: a length distribution, or its text (see `LENGTHS`). The same `empirical`
            source for both draws (prompt, output) pairs.
        rate: mean requests per second; none for all-at-once and for a closed loop.
        arrival: a name in `ARRIVALS`. burstiness: for gamma. on_s, off_s: for on-off.
        users: closed loop of this many users: every row arrives at 0, and the engine lets each
            user send its next row `think_ns` after its last one finished. The first row of
            each user has no pause before it.
        think_time_s: that pause; think: "fixed", or "exponential" with this mean.

    Raises:
        WorkloadError: a setting is out of range, missing, or contradicts another.

    >>> generate(requests=2, rate=8, arrival="constant", prompt=1000, output=10).notes
    ('generated: requests=2, arrival=constant, rate=8, prompt=fixed:1000, output=fixed:10, seed=0',)
    """
    at_least("requests", requests, 1)
    at_least("seed", seed, 0)
    prompts, outputs = _distributions(prompt, output)
    paired = isinstance(prompts, Empirical) and prompts is outputs
    bursts = (arrival, rate, burstiness, on_s, off_s)
    load: OpenLoop | ClosedLoop
    if users is None:
        if think_time_s or think != "fixed":
            raise WorkloadError("think_time_s is for a closed loop: give users too")
        load = OpenLoop(*bursts)
    else:
        if bursts != ("poisson", None, 1.0, None, None):
            raise WorkloadError(
                "users make a closed loop, whose arrivals follow from the service: "
                "drop rate, arrival, burstiness, on_s and off_s, or drop users"
            )
        load = ClosedLoop(users, think_time_s, think)
    outputs_seed = _LENGTHS if paired else _OUTPUT
    settings = f"{load}, prompt={prompts}, output={outputs}, seed={seed}"
    return Trace(
        arrival_ns=load.arrival_ns(requests, seed),
        prompt_tokens=prompts.draw(requests, "prompt_tokens", stream(seed, _LENGTHS)),
        output_tokens=outputs.draw(requests, "output_tokens", stream(seed, outputs_seed)),
        think_ns=load.think_ns(requests, stream(seed, _THINK)),
        notes=(f"generated: requests={requests}, {settings}",),
        rows_in=requests,
    )


def stream(seed: int, number: int) -> np.random.Generator:
    """A PCG64 generator independent of every other number's and of the arrivals'."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(number,))))


def _distributions(
    prompt: Lengths | str | int, output: Lengths | str | int
) -> tuple[Lengths, Lengths]:
    prompts = parse_lengths(prompt) if isinstance(prompt, str | int) else prompt
    if prompt == output:
        return prompts, prompts
    return prompts, parse_lengths(output) if isinstance(output, str | int) else output
