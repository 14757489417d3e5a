"""The lesson: U01 and U02, simulated."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from costmodels import LessonCostModel
from experiments.lesson import run_lesson

Runway = Callable[..., Result]


def test_the_five_ways_have_the_numbers_of_the_lesson() -> None:
    """TTFT of the prompt, cadence and worst gap of the streams (ms), steps with prompt tokens."""
    found = [
        (o.variant.name, o.ttft_ms, o.cadence_ms, o.worst_gap_ms, o.prompt_steps)
        for o in run_lesson(LessonCostModel())
    ]
    assert found == [
        ("whole prompt first", 80.0, 88.0, 88.0, 1),
        ("whole prompt fused", 88.0, 88.0, 88.0, 1),
        ("chunks of 256 fused", 144.0, 18.0, 18.0, 8),
        ("chunks of 256 in turn", 136.0, 18.0, 18.0, 8),
        ("token budget 256 fused", 152.0, 17.84375, 17.84375, 9),
    ]


def test_under_a_budget_the_decodes_take_their_tokens_from_the_chunk() -> None:
    """U02: 252 prompt tokens beside four decodes, eight times, then the last 32."""
    steps = run_lesson(LessonCostModel())[-1].steps
    prompt = [
        row
        for row in zip(*(steps[name].tolist() for name in steps), strict=True)
        if row[0] >= 0 and row[2]
    ]
    assert [(tokens, streams) for _, _, tokens, streams in prompt] == [(252, 4)] * 8 + [(32, 4)]
    assert [duration for _, duration, _, _ in prompt] == [17.84375] * 8 + [9.25]


def test_the_command_prints_a_table_and_a_lane_per_variant(
    runway: Runway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = runway("lesson").stdout.splitlines()
    row = next(line.split() for line in lines if "in turn   " in line)
    assert row[-4:] == ["8", "136.00", "18.00", "18.00"]
    assert lines[lines.index("chunks of 256 in turn") + 1] == (
        "P----D---P----D---P----D---P----D---P----D---P----D---P----D---P----*D---D---D--"
    )
    assert max(map(len, lines)) <= 80
    assert lines[-1] == "drew lesson/timeline.png"
    assert (tmp_path / "lesson" / "timeline.png").read_bytes().startswith(b"\x89PNG")


def test_as_json_it_writes_no_file(
    runway: Runway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    variants = json.loads(runway("lesson", "--json").stdout)["variants"]
    assert [variant["ttft_ms"] for variant in variants] == [80, 88, 144, 136, 152]
    assert list(tmp_path.iterdir()) == []
