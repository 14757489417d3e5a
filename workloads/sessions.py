"""`generate_sessions`: conversations and agents, whose every turn repeats all turns before it.

Turn k's prompt is turn k-1's prompt, its answer and new text; so an engine with prefix caching
computes little more than the new text. When a turn is sent depends on when the one before it was
answered, which only the simulation knows: the trace holds the pause (`think_ns`), not the time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulator.errors import WorkloadError
from simulator.trace import Trace

from .arrivals import Ints
from .lengths import Empirical, Lengths, parse_lengths
from .limits import MAX_TOKENS, at_least, shortest
from .load import OpenLoop
from .pauses import Pauses, parse_pauses
from .synthetic import stream

SYSTEM_PROMPT = "system prompt"
"""Name of the prefix group of all rows."""

MOST_TURNS = 10**8
"""More than fits a computer's memory as columns."""

_TURNS, _FIRST, _NEW, _OUTPUT, _THINK, _BY_TOOL, _TOOL_TEXT, _TOOL_TIME = range(11, 19)


@dataclass(frozen=True, slots=True)
class _Texts:
    """What turns consist of. Each has a random stream of its own, turn after turn of session
    after session, so that more sessions leave the first ones as they were."""

    turns: Lengths
    system_prompt_tokens: int
    first_prompt: Lengths
    new_text: Lengths
    output: Lengths
    think_time_s: Pauses
    tool_time_s: Pauses | None
    tool_probability: float
    tool_result: Lengths

    def __str__(self) -> str:
        parts = [f"turns={self.turns}", f"system_prompt_tokens={self.system_prompt_tokens}"]
        parts += [f"first_prompt={self.first_prompt}", f"new_text={self.new_text}"]
        parts += [f"output={self.output}", f"think_time_s={self.think_time_s}"]
        if self.tool_time_s is not None:
            parts += [f"tool_time_s={self.tool_time_s}", f"tool_result={self.tool_result}"]
            parts += [f"tool_probability={shortest(self.tool_probability)}"]
        return ", ".join(parts)


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """All turns of all sessions as columns, session by session; turn counts from 1."""

    session: Ints
    turn: Ints
    prompt_tokens: Ints
    output_tokens: Ints
    think_ns: Ints

    def take(self, rows: Ints | NDArray[np.bool_]) -> _Rows:
        """Some of them: a mask or indices."""
        columns = (self.session, self.turn, self.prompt_tokens, self.output_tokens, self.think_ns)
        return _Rows(*(column[rows] for column in columns))


def generate_sessions(
    *,
    turns: Lengths | str | int,
    first_prompt: Lengths | str | int,
    new_text: Lengths | str | int,
    output: Lengths | str | int,
    sessions: int | None = None,
    requests: int | None = None,
    rate: float | None = None,
    arrival: str = "poisson",
    burstiness: float = 1.0,
    on_s: float | None = None,
    off_s: float | None = None,
    system_prompt_tokens: int = 0,
    think_time_s: Pauses | str | float = 0.0,
    tool_time_s: Pauses | str | float | None = None,
    tool_probability: float = 0.0,
    tool_result: Lengths | str | int | None = None,
    max_context_tokens: int | None = None,
    seed: int = 0,
) -> Trace:
    """Sessions of several turns; each turn waits for the answer to the one before it.

    The rows have `session`, `parent` and `think_ns`, with which `simulate` sends a turn its pause
    after the one before it finished. A later turn's `arrival_ns` is its session's start: no more
    than a lower bound, which keeps sessions together when rows are sorted, cut or windowed.

    Args:
        sessions: how many; or requests: as many sessions as give so many turns, the last cut.
        turns: per session, written as a length (see `LENGTHS`; `empirical` has no turns).
        rate: sessions per second; arrival, burstiness, on_s, off_s: as in `generate`.
        system_prompt_tokens: the start of every prompt, the same for all (`prefix_group`).
        first_prompt: what follows it in turn 1. new_text: what each later turn adds to the
            earlier prompt and answer. output: every answer.
        think_time_s: pause before a later turn, seconds or a distribution (see `PAUSES`).
        tool_probability: share of later turns sent by a tool instead of a person: they come after
            tool_time_s and add tool_result (None: as new_text).
        max_context_tokens: a session ends before the turn whose prompt and answer would be
            longer; its first turn stays.

    Raises:
        WorkloadError: a setting is out of range, missing, or contradicts another.

    >>> trace = generate_sessions(
    ...     sessions=1, rate=1, turns=3, first_prompt=100, new_text=20, output=10, think_time_s=5
    ... )
    >>> trace.prompt_tokens.tolist(), trace.ids, trace.parent
    ([100, 130, 160], ('s0.1', 's0.2', 's0.3'), (None, 's0.1', 's0.2'))
    """
    if (sessions is None) == (requests is None):
        raise WorkloadError("give sessions or requests, one of the two")
    at_least("seed", seed, 0)
    load = OpenLoop(arrival, rate, burstiness, on_s, off_s)
    texts = _Texts(
        turns=_turn_counts(turns),
        system_prompt_tokens=at_least("system_prompt_tokens", system_prompt_tokens, 0),
        first_prompt=_lengths(first_prompt),
        new_text=_lengths(new_text),
        output=_lengths(output),
        think_time_s=_pauses(think_time_s),
        tool_time_s=None if tool_time_s is None else _pauses(tool_time_s),
        tool_probability=_tool_share(tool_probability, tool_time_s, tool_result),
        tool_result=_lengths(new_text if tool_result is None else tool_result),
    )
    if sessions is not None:
        rows = _drawn(texts, at_least("sessions", sessions, 1), seed)
        asked = f"sessions={sessions}"
    else:
        # A session has at least one turn, so there are never more sessions than requests.
        rows = _drawn(texts, at_least("requests", requests or 0, 1), seed)
        asked = f"requests={requests}"
    rows, notes = _within(rows, max_context_tokens)
    if requests is not None:
        rows = rows.take(np.arange(requests))
    settings = f"generated sessions: {asked}, {load}, {texts}, seed={seed}"
    starts_ns = load.arrival_ns(int(rows.session[-1]) + 1, seed)
    return _trace(rows, starts_ns, system_prompt_tokens, (settings, *notes))


def _drawn(texts: _Texts, sessions: int, seed: int) -> _Rows:
    counts = texts.turns.draw(sessions, "prompt_tokens", stream(seed, _TURNS))
    total = int(counts.sum())
    if total > MOST_TURNS:
        raise WorkloadError(
            f"{sessions:,} sessions of {texts.turns} have {total:,} turns, more than "
            f"{MOST_TURNS:,}: lower one of them"
        )
    starts = np.cumsum(counts) - counts
    first = texts.first_prompt.draw(sessions, "prompt_tokens", stream(seed, _FIRST))
    added = texts.new_text.draw(total, "prompt_tokens", stream(seed, _NEW))
    output = texts.output.draw(total, "output_tokens", stream(seed, _OUTPUT))
    think_ns = texts.think_time_s.draw_ns(total, stream(seed, _THINK))
    if texts.tool_time_s is not None:
        by_tool = stream(seed, _BY_TOOL).random(total) < texts.tool_probability
        results = texts.tool_result.draw(total, "prompt_tokens", stream(seed, _TOOL_TEXT))
        runs_ns = texts.tool_time_s.draw_ns(total, stream(seed, _TOOL_TIME))
        added = np.where(by_tool, results, added)
        think_ns = np.where(by_tool, runs_ns, think_ns)
    added[starts] = texts.system_prompt_tokens + first
    think_ns[starts] = 0
    said = np.cumsum(added + output)
    before = np.repeat(said[starts] - added[starts] - output[starts], counts)
    prompt = said - output - before
    if int(prompt.max()) > MAX_TOKENS:
        raise WorkloadError(f"a prompt grows to {int(prompt.max()):,} tokens: give fewer turns")
    return _Rows(
        session=np.repeat(np.arange(sessions), counts),
        turn=np.arange(total) - np.repeat(starts, counts) + 1,
        prompt_tokens=prompt,
        output_tokens=output,
        think_ns=think_ns,
    )


def _within(rows: _Rows, max_context_tokens: int | None) -> tuple[_Rows, tuple[str, ...]]:
    """The turns up to the longest context, and a note if sessions end early for it."""
    if max_context_tokens is None:
        return rows, ()
    longest = at_least("max_context_tokens", max_context_tokens, 1)
    fits = (rows.prompt_tokens + rows.output_tokens <= longest) | (rows.turn == 1)
    return rows.take(fits), (f"sessions end before a context of more than {longest:,} tokens",)


def _trace(
    rows: _Rows, starts_ns: Ints, system_prompt_tokens: int, notes: tuple[str, ...]
) -> Trace:
    names = [f"s{session}" for session in rows.session.tolist()]
    turns = rows.turn.tolist()
    count, shared = len(turns), system_prompt_tokens > 0
    return Trace(
        arrival_ns=starts_ns[rows.session],
        prompt_tokens=rows.prompt_tokens,
        output_tokens=rows.output_tokens,
        ids=tuple(f"{name}.{turn}" for name, turn in zip(names, turns, strict=True)),
        think_ns=rows.think_ns,
        session=tuple(names),
        parent=tuple(
            f"{name}.{turn - 1}" if turn > 1 else None
            for name, turn in zip(names, turns, strict=True)
        ),
        prefix_group=(SYSTEM_PROMPT,) * count if shared else None,
        prefix_tokens=np.full(count, system_prompt_tokens, dtype=np.int64) if shared else None,
        notes=notes,
        rows_in=count,
    )


def _lengths(given: Lengths | str | int) -> Lengths:
    return parse_lengths(given) if isinstance(given, str | int) else given


def _pauses(given: Pauses | str | float) -> Pauses:
    return given if isinstance(given, Pauses) else parse_pauses(given)


def _turn_counts(given: Lengths | str | int) -> Lengths:
    turns = _lengths(given)
    if isinstance(turns, Empirical):
        raise WorkloadError(f"turns {turns}: a trace's lengths are tokens, not turns: give figures")
    return turns


def _tool_share(probability: float, time_s: object, result: object) -> float:
    if not 0 <= probability <= 1:
        raise WorkloadError(f"tool_probability {probability} must be from 0 to 1")
    if probability and time_s is None:
        raise WorkloadError(f"tool_probability {probability} needs tool_time_s, seconds")
    if not probability and (time_s is not None or result is not None):
        raise WorkloadError("tool_time_s and tool_result need a tool_probability above 0")
    return probability
