"""What steps with prompts cost, from logs of steps as a client sees them (`SeenSteps`).

Such times are not booked where they belong: while the host launches a step with prompts, kernel by
kernel, it hands out the step before it late. So a step with prompts and its neighbours are taken
as one *episode*, whose sum is right.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.errors import ConfigError

from .seen_steps import AROUND, LEAST, DecodeLine, Floats, Physics, SeenSteps

APART = 6
"""So many decode-only steps between two steps with prompts end an episode."""
TILES = (1, 64, 128, 256)
RECOVERIES_MS = (5.0, 7.0, 10.0, 14.0, 20.0, 28.0, 40.0)
CLASS_TOKENS = 64
"""Lone steps with prompts whose tokens fall in the same range of so many are alike."""


class Compute(NamedTuple):
    """What a step with prompts costs beyond its decode side.

    offset_ms + token_ms x tokens (with the tokens that attention is worth) in whole tiles, less the
    boost saving (`BoostClock`). kinds: of episodes fitted, each counted once; error: mean
    relative error over them; episodes: how many there are. offset_is_physics: no step with two
    prompts or more was seen often enough, so the offset is 0: a step reads or computes.
    """

    offset_ms: float
    token_ms: float
    tile_tokens: int
    boost_saving_ms: float
    boost_recovery_ms: float
    kinds: int
    episodes: int
    error: float
    offset_is_physics: bool


class _Episode(NamedTuple):
    """kind: what it is like. rest_ms: its time less that of its decode side. tokens, pairs: of
    its steps with prompts, one entry each; pauses_ms: before each, infinite before the first."""

    kind: tuple[int, ...]
    rest_ms: float
    tokens: tuple[float, ...]
    pairs: tuple[float, ...]
    pauses_ms: tuple[float, ...]


# Any: whole numbers and floats, as `StepsCostModel` takes them.
def steps_parameters(line: DecodeLine, compute: Compute, physics: Physics) -> dict[str, Any]:
    """Of `StepsCostModel`: the knee is where compute overtakes the read of the weights."""
    parameters: dict[str, Any] = {
        "step_ms": line.step_ms,
        "compute_ms_per_token": compute.token_ms,
        "knee_tokens": max(line.step_ms - compute.offset_ms, 0.0) / compute.token_ms,
        "attention_tokens_per_pair": physics.attention_tokens_per_pair,
        "decode_ms_per_sequence": line.sequence_ms,
        "decode_ms_per_context_token": physics.context_ms_per_token,
        "compute_tile_tokens": compute.tile_tokens,
    }
    if compute.boost_saving_ms > 0:
        parameters["boost_saving_ms"] = compute.boost_saving_ms
        parameters["boost_recovery_ms"] = compute.boost_recovery_ms
    return parameters


def fit_compute(logs: Sequence[tuple[SeenSteps, DecodeLine]], physics: Physics) -> Compute:
    """Compute, its tile and the boost clock, from episodes; every kind of episode counts once.

    Least squares of relative errors over the middles of the kinds, for every tile and recovery
    time of a list; the smallest error wins. Raises ConfigError if there is nothing to fit.
    """
    kinds: dict[tuple[int, ...], list[_Episode]] = {}
    for log, line in logs:
        for episode in _episodes(log, physics, line):
            kinds.setdefault(episode.kind, []).append(episode)
    often = {kind: members for kind, members in sorted(kinds.items()) if len(members) >= LEAST}
    if not often:
        raise ConfigError("no step with prompts, alone among decodes, often enough to be fitted")
    physical = not any(kind[0] == 1 and kind[1] > 1 for kind in often)
    fits = [
        (*_fit_episodes([*often.values()], physics, tile, recovery, physical), tile, recovery)
        for tile in TILES
        for recovery in RECOVERIES_MS
    ]
    error, (offset, token, saving), tile, recovery = min(fits, key=lambda fit: fit[0])
    episodes = sum(map(len, often.values()))
    return Compute(*(offset, token, tile, saving, recovery, len(often), episodes, error), physical)


def _episodes(log: SeenSteps, physics: Physics, line: DecodeLine) -> Iterator[_Episode]:
    side = line.sequence_ms * log.decode_seqs + physics.context_ms_per_token * log.decode_context
    alone = line.step_ms + side
    with_prompts = np.flatnonzero(log.prompts)
    breaks = np.flatnonzero(np.diff(with_prompts) > APART) + 1
    for group in np.split(with_prompts, breaks):
        if not len(group) or group[0] <= AROUND or group[-1] + AROUND >= len(log.prompts):
            continue
        span = slice(group[0] - AROUND, group[-1] + AROUND + 1)
        if not log.is_whole[span].all():
            continue
        decodes = log.prompts[span] == 0
        rest_ms = log.interval_ms[span].sum() - alone[span][decodes].sum() - side[group].sum()
        pauses = [log.interval_ms[before + 1 : after].sum() for before, after in pairwise(group)]
        tokens = log.prompt_tokens[group] + log.decode_seqs[group]
        yield _Episode(
            kind=_kind(log, group, tokens),
            rest_ms=float(rest_ms),
            tokens=tuple(tokens.tolist()),
            pairs=tuple((log.prompt_tokens[group] ** 2 / (2 * log.prompts[group])).tolist()),
            pauses_ms=(np.inf, *pauses),
        )


def _kind(log: SeenSteps, group: NDArray[np.int64], tokens: Floats) -> tuple[int, ...]:
    """Alike are lone steps of as many prompts and tokens, and rows of steps as far apart."""
    prompts = log.prompts[group]
    if len(group) == 1:
        return (1, int(prompts[0]), int(-(-tokens[0] // CLASS_TOKENS)))
    return (len(group), *map(int, prompts), *map(int, np.diff(group)))


def _fit_episodes(
    classes: list[list[_Episode]], physics: Physics, tile: int, recovery_ms: float, physical: bool
) -> tuple[float, tuple[float, ...]]:
    """(mean relative error over classes, (offset, compute, boost saving)); ms.

    physical: the offset is 0: a step computes, or it reads the weights, whichever takes longer.
    """
    middles = [_middle(members) for members in classes]
    rest = np.array([np.mean([episode.rest_ms for episode in middle]) for middle in middles])
    terms = np.array(
        [
            np.mean([_regressors(e, physics, tile, recovery_ms) for e in middle], axis=0)
            for middle in middles
        ]
    )
    relative = terms / rest[:, None] * [0 if physical else 1, 1, -1]
    found = _least_squares(relative, np.ones(len(rest)))
    return float(np.abs(relative @ found - 1).mean()), found


def _middle(members: list[_Episode]) -> list[_Episode]:
    """The middle half by time: their mean is robust, and their tokens are their own."""
    ordered = sorted(members, key=lambda episode: episode.rest_ms)
    cut = len(ordered) // 4
    return ordered[cut : len(ordered) - cut]


def _regressors(episode: _Episode, physics: Physics, tile: int, recovery_ms: float) -> Floats:
    """What offset, compute per token and boost saving multiply in an episode."""
    pairs = np.array(episode.pairs) * physics.attention_tokens_per_pair
    tokens = np.ceil(np.array(episode.tokens) / tile) * tile + pairs
    saved = 1 - recovery_ms / (np.array(episode.pauses_ms) + recovery_ms)
    return np.array([len(tokens), tokens.sum(), saved.sum()])


def _least_squares(terms: Floats, values: Floats) -> tuple[float, ...]:
    """Non-negative least squares, columns scaled alike."""
    from scipy.optimize import nnls

    scale = np.maximum(np.abs(terms).max(axis=0), np.finfo(np.float64).tiny)
    coefficients, _ = nnls(terms / scale, values)
    return tuple((coefficients / scale).tolist())
