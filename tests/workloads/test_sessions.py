"""`generate_sessions` and the presets made of it: exact tokens, links, pauses."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from simulator.errors import WorkloadError
from simulator.trace import Trace
from workloads import (
    PRESETS,
    Pauses,
    bundled_trace,
    generate,
    generate_sessions,
    head,
    parse_lengths,
    parse_pauses,
    preset,
)
from workloads.lengths import Empirical

Identical = Callable[[Trace, Trace], None]
S = 10**9

CHAT = {
    "rate": 2,
    "turns": "uniform:1:6",
    "first_prompt": "lognormal:300:1:1:5000",
    "new_text": "uniform:1:80",
    "output": "uniform:1:200",
    "system_prompt_tokens": 48,
    "think_time_s": "exponential:5",
}
AGENTS = {**CHAT, "tool_probability": 0.4, "tool_time_s": 0.25, "tool_result": "uniform:900:999"}


def parents(trace: Trace) -> list[int | None]:
    """Rows of the parents."""
    rows = {trace.id_of(row): row for row in range(len(trace))}
    return [None if name is None else rows[name] for name in trace.parent or ()]


def test_a_turn_repeats_everything_before_it_token_for_token() -> None:
    """System prompt 48, then 100; answers of 30, new text of 7: 148, 148 + 30 + 7 = 185, 222."""
    trace = generate_sessions(
        sessions=2,
        rate=0.5,
        arrival="constant",
        turns=3,
        first_prompt=100,
        new_text=7,
        output=30,
        system_prompt_tokens=48,
        think_time_s=1.5,
    )
    assert trace.prompt_tokens.tolist() == [148, 185, 222] * 2
    assert trace.output_tokens.tolist() == [30] * 6
    assert trace.ids == ("s0.1", "s0.2", "s0.3", "s1.1", "s1.2", "s1.3")
    assert trace.parent == (None, "s0.1", "s0.2", None, "s1.1", "s1.2")
    assert trace.session == ("s0",) * 3 + ("s1",) * 3
    assert trace.arrival_ns.tolist() == [2 * S] * 3 + [4 * S] * 3
    assert trace.think_ns is not None
    assert trace.think_ns.tolist() == [0, 3 * S // 2, 3 * S // 2] * 2
    assert trace.prefix_group == ("system prompt",) * 6
    assert trace.prefix_tokens is not None
    assert trace.prefix_tokens.tolist() == [48] * 6
    assert trace.notes == (
        "generated sessions: sessions=2, arrival=constant, rate=0.5, turns=fixed:3, "
        "system_prompt_tokens=48, first_prompt=fixed:100, new_text=fixed:7, output=fixed:30, "
        "think_time_s=fixed:1.5, seed=0",
    )


def test_drawn_turns_add_up_too() -> None:
    trace = generate_sessions(sessions=200, seed=4, **CHAT)  # type: ignore[arg-type]
    added = []
    for row, parent in enumerate(parents(trace)):
        if parent is None:
            assert trace.prompt_tokens[row] > 48
        else:
            before = trace.prompt_tokens[parent] + trace.output_tokens[parent]
            added.append(int(trace.prompt_tokens[row] - before))
    assert (min(added), max(added)) == (1, 80)
    assert set(np.unique(list(turns_of(trace).values()))) == {1, 2, 3, 4, 5, 6}


def turns_of(trace: Trace) -> dict[str, int]:
    """Turns of each session."""
    names, counts = np.unique(np.array(trace.session), return_counts=True)
    return dict(zip(names.tolist(), counts.tolist(), strict=True))


def test_without_a_system_prompt_nothing_is_shared() -> None:
    trace = generate_sessions(
        sessions=1, arrival="all-at-once", turns=1, first_prompt=9, new_text=1, output=1
    )
    assert trace.prefix_group is None
    assert trace.prefix_tokens is None
    assert trace.arrival_ns.tolist() == [0]


def test_the_same_seed_gives_the_same_sessions_and_another_seed_others(
    identical: Identical,
) -> None:
    one, two, other = (generate_sessions(sessions=50, seed=s, **AGENTS) for s in (7, 7, 8))  # type: ignore[arg-type]
    identical(one, two)
    assert one.prompt_tokens.tolist() != other.prompt_tokens.tolist()


def test_more_sessions_another_rate_or_tools_leave_the_rest_as_it_was() -> None:
    few = generate_sessions(sessions=20, seed=1, **CHAT)  # type: ignore[arg-type]
    many = generate_sessions(sessions=90, seed=1, **CHAT)  # type: ignore[arg-type]
    fast = generate_sessions(sessions=20, seed=1, **{**CHAT, "rate": 9})  # type: ignore[arg-type]
    tools = generate_sessions(sessions=20, seed=1, **AGENTS)  # type: ignore[arg-type]
    for column in ("prompt_tokens", "output_tokens", "think_ns", "arrival_ns"):
        first = getattr(many, column)[: len(few)]
        np.testing.assert_array_equal(getattr(few, column), first)
        if column != "arrival_ns":
            np.testing.assert_array_equal(getattr(few, column), getattr(fast, column))
    np.testing.assert_array_equal(few.output_tokens, tools.output_tokens)


def test_so_many_requests_are_the_first_turns_of_so_many_sessions(identical: Identical) -> None:
    asked = generate_sessions(requests=33, seed=1, **CHAT)  # type: ignore[arg-type]
    cut = head(generate_sessions(sessions=33, seed=1, **CHAT), 33)  # type: ignore[arg-type]
    assert len(asked) == asked.rows_in == 33
    for column in ("arrival_ns", "prompt_tokens", "output_tokens", "think_ns"):
        np.testing.assert_array_equal(getattr(asked, column), getattr(cut, column))
    assert asked.parent == cut.parent


def test_tools_answer_in_their_own_time_with_their_own_text() -> None:
    trace = generate_sessions(sessions=2000, seed=1, **AGENTS)  # type: ignore[arg-type]
    assert trace.think_ns is not None
    later = [(row, parent) for row, parent in enumerate(parents(trace)) if parent is not None]
    rows, before = (np.array(column) for column in zip(*later, strict=True))
    added = trace.prompt_tokens[rows] - trace.prompt_tokens[before] - trace.output_tokens[before]
    by_tool = added >= 900
    assert by_tool.mean() == pytest.approx(0.4, abs=0.02)
    assert set(trace.think_ns[rows[by_tool]].tolist()) == {S // 4}
    assert trace.think_ns[rows[~by_tool]].mean() / S == pytest.approx(5, rel=0.05)
    assert added[~by_tool].max() <= 80


def test_a_session_ends_before_its_context_is_too_long_but_has_a_first_turn() -> None:
    """Prompt and answer of the turns: 110, 140, 170. 140 leaves two of them, 100 the first."""
    settings = {"sessions": 2, "rate": 1, "turns": 3, "first_prompt": 100, "new_text": 20}
    lengths = []
    for longest in (170, 169, 140, 100):
        trace = generate_sessions(output=10, max_context_tokens=longest, **settings)  # type: ignore[arg-type]
        lengths.append(len(trace) / 2)
        assert trace.notes[1] == f"sessions end before a context of more than {longest} tokens"
    assert lengths == [3, 2, 2, 1]


def test_lengths_may_come_from_a_trace_and_turns_may_not() -> None:
    source = Empirical(bundled_trace(), "bundled")
    settings = {**CHAT, "new_text": source, "output": source, "sessions": 30}
    trace = generate_sessions(**settings)  # type: ignore[arg-type]
    assert set(trace.output_tokens.tolist()) <= set(source.trace.output_tokens.tolist())
    with pytest.raises(WorkloadError, match="lengths are tokens, not turns"):
        generate_sessions(**{**settings, "turns": source})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"requests": 5}, "give sessions or requests, one of the two"),
        ({"sessions": None}, "give sessions or requests, one of the two"),
        ({"sessions": 0}, "sessions 0 must be"),
        ({"sessions": None, "requests": 0}, "requests 0 must be"),
        ({"rate": None}, "arrival poisson needs a rate"),
        ({"turns": 0}, "lengths from 0"),
        ({"turns": "fixed:2000000000"}, "2,000,000,000 turns, more than 100,000,000"),
        ({"new_text": "fixed:2000000000"}, "a prompt grows to 4,00"),
        ({"system_prompt_tokens": -1}, "system_prompt_tokens -1 must be"),
        ({"think_time_s": -1}, "fixed pause -1.0 s must be"),
        ({"tool_probability": 1.5, "tool_time_s": 1}, "tool_probability 1.5 must be from 0 to 1"),
        ({"tool_probability": 0.5}, "tool_probability 0.5 needs tool_time_s"),
        ({"tool_time_s": 1}, "need a tool_probability above 0"),
        ({"max_context_tokens": 0}, "max_context_tokens 0 must be"),
        ({"seed": -1}, "seed -1 must be"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, object], reason: str) -> None:
    plain = {"sessions": 1, "rate": 1, "turns": 3, "first_prompt": 9, "new_text": 9, "output": 9}
    with pytest.raises(WorkloadError, match=reason):
        generate_sessions(**{**plain, **settings})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["multi-turn-chat", "agent-tools"])
def test_a_preset_of_sessions_has_turns_pauses_and_a_system_prompt(name: str) -> None:
    trace = preset(name, requests=300, rate=2, seed=5)
    chosen = PRESETS[name].sessions
    assert chosen is not None
    assert "rate=2" in trace.notes[1]
    assert trace.parent is not None
    assert 0 < sum(parent is None for parent in trace.parent) < 150
    assert trace.prefix_tokens is not None
    assert set(trace.prefix_tokens.tolist()) == {chosen.system_prompt_tokens}
    later = np.array([parent is not None for parent in trace.parent])
    context = (trace.prompt_tokens + trace.output_tokens)[later]
    assert int(context.max()) <= chosen.max_context_tokens


def test_the_conversations_preset_has_the_figures_its_origin_names() -> None:
    trace = preset("multi-turn-chat", requests=50_000, seed=1)
    assert trace.think_ns is not None
    rows = np.array([row for row, parent in enumerate(parents(trace)) if parent is not None])
    starts = np.setdiff1d(np.arange(len(trace)), rows)
    assert len(trace) / len(starts) == pytest.approx(3.05, rel=0.02)
    assert np.percentile(trace.prompt_tokens[starts], [50, 90]) == pytest.approx(
        [5947, 26119], rel=0.03
    )
    assert np.percentile(trace.output_tokens, [50, 90]) == pytest.approx([350, 597], rel=0.02)
    assert np.percentile(trace.think_ns[rows] / S, [50, 90]) == pytest.approx([135, 504], rel=0.02)
    assert trace.prompt_tokens.mean() == pytest.approx(12_100, rel=0.02)


def test_without_a_longest_context_the_preset_has_the_turns_and_texts_of_its_sources() -> None:
    chosen = PRESETS["multi-turn-chat"]
    assert chosen.sessions is not None
    drawn = parse_lengths(chosen.sessions.turns).draw(100_000, "prompt_tokens", rng())
    assert drawn.mean() == pytest.approx(3.51, rel=0.02)
    added = parse_lengths(chosen.sessions.new_text).draw(100_000, "prompt_tokens", rng())
    assert np.percentile(added, [50, 90, 99]) == pytest.approx([39, 4785, 18366], rel=0.1)


def rng() -> np.random.Generator:
    """A fresh generator, always the same."""
    return np.random.Generator(np.random.PCG64(1))


@pytest.mark.parametrize(
    ("text", "pauses"),
    [
        (2, Pauses("fixed", 2.0)),
        ("0.5", Pauses("fixed", 0.5)),
        ("fixed:0", Pauses("fixed", 0.0)),
        ("exponential:30", Pauses("exponential", 30.0)),
        ("lognormal:135:1.03", Pauses("lognormal", 135.0, 1.03)),
        ("lognormal:135:1.03:1:1477", Pauses("lognormal", 135.0, 1.03, 1.0, 1477.0)),
    ],
)
def test_pauses_are_read_and_written_alike(text: str | float, pauses: Pauses) -> None:
    assert parse_pauses(text) == pauses
    assert parse_pauses(str(pauses)) == pauses


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("exponental:3", r"unknown pause 'exponental', did you mean exponential\?"),
        ("exponential", "must be written exponential:MEAN"),
        ("exponential:3:4", "must be written exponential:MEAN"),
        ("lognormal:3", "must be written lognormal:MEDIAN:SIGMA"),
        ("lognormal:x:1", "must be written lognormal:MEDIAN:SIGMA"),
        ("lognormal:0:1", "lognormal median 0.0 must be"),
        ("lognormal:1:-1", "sigma -1.0 must be"),
        ("lognormal:1:1:5:4", "pauses from 5.0 s to 4.0 s must be"),
        ("fixed:nan", "fixed pause nan s must be"),
        ("1e10", "fixed pause 10000000000.0 s must be from 0 to 1e"),
    ],
)
def test_pauses_that_cannot_be_are_refused(text: str, reason: str) -> None:
    with pytest.raises(WorkloadError, match=reason):
        parse_pauses(text)


def test_pauses_have_their_distribution() -> None:
    """p90 of the log-normal: 10 exp(1.2816 x 0.5) = 18.98 s."""
    assert parse_pauses(0.25).draw_ns(3, rng()).tolist() == [S // 4] * 3
    exponential = parse_pauses("exponential:3").draw_ns(100_000, rng()) / S
    assert exponential.mean() == pytest.approx(3, rel=0.01)
    lognormal = parse_pauses("lognormal:10:0.5").draw_ns(100_000, rng()) / S
    assert np.percentile(lognormal, [50, 90]) == pytest.approx([10, 18.98], rel=0.01)
    wild = parse_pauses("lognormal:10:900:2:20").draw_ns(1000, rng()) / S
    assert (wild.min(), wild.max()) == (2, 20)


def test_generate_and_generate_sessions_of_one_turn_differ_in_their_links_only() -> None:
    plain = generate(requests=20, rate=2, prompt=9, output=3, seed=2)
    single = generate_sessions(
        sessions=20, rate=2, turns=1, first_prompt=9, new_text=1, output=3, seed=2
    )
    for column in ("arrival_ns", "prompt_tokens", "output_tokens"):
        np.testing.assert_array_equal(getattr(plain, column), getattr(single, column))
    assert single.parent == (None,) * 20
