"""U02: the token budget is shared with the decodes of the step, one token each."""

from __future__ import annotations

from simulator import ChunkedPrefillScheduler
from tests.cases.streams import Scene, scene


def prompt_steps(seen: Scene) -> list[tuple[int, int, float]]:
    """(prompt tokens, decodes, ms) of the steps that carried the long prompt."""
    steps = seen.result.steps
    rows = zip(
        steps.prefill_tokens.tolist(),
        steps.decode_seqs.tolist(),
        (steps.duration_ns / 1e6).tolist(),
        strict=True,
    )
    return [row for row in rows if row[0] and row[1]]


def test_budget_of_256_leaves_252_prompt_tokens_beside_four_decodes() -> None:
    """8 x 17.84375 + 9.25 = 152, not 144."""
    seen = scene(ChunkedPrefillScheduler(256))

    assert prompt_steps(seen) == [(252, 4, 17.84375)] * 8 + [(32, 4, 9.25)]
    assert seen.ttft == 152.0
    assert seen.gaps_until == [17.84375] * 8 + [9.25]


def test_budget_of_260_with_chunks_of_256_takes_eight_steps_of_18() -> None:
    seen = scene(ChunkedPrefillScheduler(260, chunk_size=256))

    assert prompt_steps(seen) == [(256, 4, 18.0)] * 8
    assert seen.ttft == 144.0


def test_budget_is_reduced_by_the_decodes_that_run_not_by_the_seats() -> None:
    """128 seats, four of them taken: still 252."""
    assert prompt_steps(scene(ChunkedPrefillScheduler(256, 8))) == prompt_steps(
        scene(ChunkedPrefillScheduler(256, 128))
    )
