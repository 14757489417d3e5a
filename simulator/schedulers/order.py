"""What policies share whose queue is not first come, first served."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from simulator.errors import ConfigError
from simulator.plan import Holds, Plan
from simulator.sequence import Sequence
from simulator.view import EngineView

OTHERS = "*"
"""Stands for every client that has no value of its own."""


def generated_tokens(view: EngineView, sequence: Sequence) -> int:
    """Output tokens of a sequence so far, those of the step under way included.

    Known to any engine: what is in the KV cache beyond the prompt, or what was there before a
    preemption.
    """
    pool = view.decoding
    reached = pool.context_of(sequence) if sequence in pool else sequence.computed_tokens
    return max(sequence.known_tokens, reached + 1) - sequence.prompt_tokens


def overtaken(plan: Plan, view: EngineView, seats: int) -> Plan:
    """The plan of a queue that is not first come, first served: an arrival may go to its head.

    So with a seat free, a decode-only plan does not hold beyond the next arrival.
    """
    if plan.holds is Holds.UNTIL_FINISH and view.waiting and seats > 0:
        return plan._replace(holds=Holds.UNTIL_ARRIVAL)
    return plan


def per_class(
    name: str, given: Mapping[str, float] | str | float, other: float
) -> dict[str, float]:
    """Client or priority -> value, with `OTHERS` for those not named.

    given: a mapping, one number for everybody, or text as on the command line.

    >>> per_class("ttft_ms", "chat:500+documents:6000", other=1000)
    {'*': 1000, 'chat': 500.0, 'documents': 6000.0}

    Raises:
        ConfigError: text that is not CLASS:NUMBER+CLASS:NUMBER, or a value that is not above 0.
    """
    if isinstance(given, str):
        pairs = [part.rpartition(":") for part in given.split("+")]
        try:
            given = {label: float(value) for label, _, value in pairs}
        except ValueError:
            given = {}
        if not given or "" in given:
            raise ConfigError(f"{name} {pairs!r} must be written CLASS:NUMBER+CLASS:NUMBER")
    elif not isinstance(given, Mapping):
        given = {OTHERS: given}
    for label, value in given.items():
        if not 0 < value < inf:
            raise ConfigError(f"{name} of {label} is {value!r}, must be a number above 0")
    return {OTHERS: other, **given}


def limit_of(values: Mapping[str, float], label: str | None) -> float:
    """The value of a class, or that of `OTHERS`."""
    return values.get(label or OTHERS, values[OTHERS])
