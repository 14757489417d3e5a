"""U01: a long prompt lands on four running streams. Decode step 8 ms, 2,048 tokens 80 ms."""

from __future__ import annotations

from simulator import AlternatingScheduler, ChunkedPrefillScheduler, ContinuousScheduler
from simulator.metrics import summarize
from tests.cases.streams import scene


def test_whole_prompt_first_makes_streams_wait_88_and_the_prompt_80() -> None:
    seen = scene(ContinuousScheduler(None))

    assert (seen.ttft, seen.gaps_until) == (80, [88])
    assert set(seen.gaps_after) == {8}


def test_whole_prompt_fused_makes_both_wait_88() -> None:
    seen = scene(ChunkedPrefillScheduler(None))

    assert (seen.ttft, seen.gaps_until) == (88, [88])
    assert set(seen.gaps_after) == {8}


def test_chunks_of_256_fused_tick_every_18_and_take_144() -> None:
    """8 steps of 10 + 8."""
    seen = scene(ChunkedPrefillScheduler(None, chunk_size=256))

    assert (seen.ttft, seen.gaps_until) == (144, [18] * 8)
    assert set(seen.gaps_after) == {8}


def test_chunks_of_256_in_turn_tick_every_18_and_take_136() -> None:
    """8 chunks of 10 and 7 decodes of 8 before the last of them is done."""
    seen = scene(AlternatingScheduler(None, chunk_size=256))

    assert (seen.ttft, seen.gaps_until) == (136, [18] * 8)
    assert set(seen.gaps_after) == {8}


def test_report_names_the_scheduler_and_shows_both_sides_of_the_trade() -> None:
    """Chunks cost the prompt 56 to 64 ms and save the streams 70 of their worst gap."""
    whole, fused, by_turns = (
        scene(policy)
        for policy in (
            ContinuousScheduler(None),
            ChunkedPrefillScheduler(None, chunk_size=256),
            AlternatingScheduler(None, chunk_size=256),
        )
    )

    assert [one.result.scheduler for one in (whole, fused, by_turns)] == [
        "continuous",
        "chunked",
        "alternating",
    ]
    assert (fused.ttft - whole.ttft, by_turns.ttft - whole.ttft) == (64, 56)
    summaries = [summarize(one.result) for one in (whole, fused, by_turns)]
    assert [summary["itl_ms"]["max"] for summary in summaries] == [88, 18, 18]
    assert [summary["ttft_ms"]["max"] for summary in summaries] == [80, 144, 136]
