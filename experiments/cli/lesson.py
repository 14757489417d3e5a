"""`runway lesson`: the worked example as a table, a timeline in text and a figure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from .terminal import number, print_table, say

if TYPE_CHECKING:
    from experiments.lesson import Outcome

MS_PER_CHARACTER = 2.0
SHOWN_MS = 158.0


@click.command("lesson")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Folder for the figure. [default: lesson; with --json no figure]",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--quiet", is_flag=True, help="Print nothing.")
def command(out: Path | None, as_json: bool, quiet: bool) -> None:
    """A 2,048-token prompt arrives while four streams decode at 8 ms a token. Whole or in chunks,
    first or fused: who waits how long?
    """
    from costmodels import load_cost_model
    from experiments.lesson import run_lesson

    outcomes = run_lesson(load_cost_model("lesson"))
    figure = None if as_json and out is None else _draw(outcomes, out or Path("lesson"))
    if quiet:
        return
    if as_json:
        from experiments.results import json_text

        say(json_text({"variants": [outcome.as_dict() for outcome in outcomes]}))
    else:
        _print(outcomes, figure)


def _draw(outcomes: list[Outcome], out: Path) -> Path:
    from experiments.plots.lesson import draw_lesson
    from experiments.results import results_folder

    with results_folder(out, owned=("timeline.png",)) as draft:
        draw_lesson(outcomes, draft / "timeline.png")
    return out / "timeline.png"


def _print(outcomes: list[Outcome], figure: Path | None) -> None:
    header = ("the prompt runs", "scheduler", "steps", "TTFT", "cadence", "worst gap")
    rows = [
        (
            outcome.variant.name,
            outcome.variant.scheduler,
            str(outcome.prompt_steps),
            number(outcome.ttft_ms, 2),
            number(outcome.cadence_ms, 2),
            number(outcome.worst_gap_ms, 2),
        )
        for outcome in outcomes
    ]
    title = "Four streams decode at 8 ms; a 2,048-token prompt arrives. Times in ms"
    print_table(title, header, rows, text_columns=2)
    say("\nTTFT: of the prompt. Cadence, worst gap: between two tokens of a stream.")
    say(
        f"Lanes: the steps since its arrival, {MS_PER_CHARACTER:g} ms a character. P prompt,\n"
        "D decode, F both fused, * its first token."
    )
    for outcome in outcomes:
        say(f"\n{outcome.variant.name}\n{text_timeline(outcome)}")
    if figure:
        say(f"\ndrew {figure}")


def text_timeline(outcome: Outcome) -> str:
    """A lane of characters: a step is its letter, then dashes for as long as it lasts."""
    width = round(SHOWN_MS / MS_PER_CHARACTER)
    lane = [" "] * width
    steps = outcome.steps
    for start, duration, prefill, decodes in zip(
        steps["start_ms"].tolist(),
        steps["duration_ms"].tolist(),
        steps["prefill_tokens"].tolist(),
        steps["decode_seqs"].tolist(),
        strict=True,
    ):
        first = round(start / MS_PER_CHARACTER)
        last = min(round((start + duration) / MS_PER_CHARACTER), width)
        if start >= 0 and first < last:
            letter = "F" if prefill and decodes else "P" if prefill else "D"
            lane[first:last] = letter + "-" * (last - first - 1)
    done = round(outcome.ttft_ms / MS_PER_CHARACTER)
    return "".join(lane[:done]) + "*" + "".join(lane[done:])
