"""How much longer prompts take than their kernels one by one: the constant of a GPU.

It is read off the opening of one run, not off the errors of any: full steps whose ends are seen in
the log. In a first simulation with factor 1, take two requests (or groups) that follow each other
in getting their first token. If the log has the same two groups, and every step between their first
tokens is full (0.9 of the token budget), the same work was done in both. What prompts add to steps
of the same decodes (without prompts, a step of one token) is bound by compute: the factor on that
part makes priced time the measured one. The median over the first tenth of the requests is the
constant.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from costmodels import OperatorsCostModel
from simulator.plan import StepShape
from simulator.result import Result
from simulator.units import NS_PER_MS

from .recorded import Floats, Recorded

OPENING_SHARE = 0.1
FULL_SHARE = 0.9
SAME_STEP_DECIMALS = 4
"""First tokens of one step carry the same time, to 0.1 ms."""
FEWEST_SPANS = 2

Group = tuple[int, ...]


class Constant(NamedTuple):
    """The factor, the spans of full steps behind it, and the requests whose first tokens it saw."""

    factor: float
    spans: int
    seen: frozenset[int]


def constant_of(run: Recorded, result: Result, model: OperatorsCostModel) -> Constant | None:
    """result: of the run, as `model` prices it with factor 1. None: too few spans of full steps
    were matched.
    """
    simulated = _groups(result.requests.first_token_ns.astype(np.float64))
    measured = _groups(np.round(run.first_token_s, SAME_STEP_DECIMALS))
    ends_ns, is_full = result.steps.end_ns, _full_steps(run, result)
    opening = OPENING_SHARE * len(run.trace)
    factors, seen = [], set[int]()
    for (before, from_ns), (after, to_ns) in pairwise(simulated.items()):
        if max(after) >= opening or before not in measured or after not in measured:
            continue
        first, last = np.searchsorted(ends_ns, (from_ns, to_ns))
        if is_full[first + 1 : last + 1].all():
            more_ns = (measured[after] - measured[before]) * 1e9 - (to_ns - from_ns)
            added_ns = _added_ns(result, range(first + 1, last + 1), model)
            if added_ns > 0:
                factors.append(1 + more_ns / added_ns)
                seen |= {*before, *after}
    if len(factors) < FEWEST_SPANS:
        return None
    return Constant(float(np.median(factors)), len(factors), frozenset(seen))


def _added_ns(result: Result, steps: range, model: OperatorsCostModel) -> float:
    """What prompts add to these steps, communication aside; contexts are taken to be equal."""
    log, total = result.steps, 0.0
    for step in steps:
        shape = StepShape((), int(log.decode_seqs[step]), int(log.context_tokens[step]))
        total += int(log.duration_ns[step]) - model.without_prompts_ns(shape)
        total -= _all_reduce_ns(model, shape.decode_seqs + int(log.prefill_tokens[step]))
    return total


def _all_reduce_ns(model: OperatorsCostModel, tokens: int) -> float:
    terms = dict(model.explain(StepShape(((tokens, 0),), 0, 0)))
    return terms.get("all_reduce", 0.0) * NS_PER_MS


def _full_steps(run: Recorded, result: Result) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    tokens = result.steps.prefill_tokens + result.steps.decode_seqs
    return np.asarray(tokens >= FULL_SHARE * run.max_num_batched_tokens)


def _groups(first_token: Floats) -> dict[Group, float]:
    """Requests that get their first token at the same instant -> that instant, ascending."""
    instants, group_of = np.unique(first_token, return_inverse=True)
    members: list[list[int]] = [[] for _ in instants]
    for row, group in enumerate(group_of.tolist()):
        members[group].append(row)
    return {tuple(rows): float(at) for rows, at in zip(members, instants, strict=True)}
