"""The studies: how a load is said to be served, and that the page says what the programs find."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from experiments.plots.studies import draw_study
from experiments.studies.__main__ import STUDIES
from experiments.studies.page import section, write_section
from experiments.studies.study import Outcome, Served, Study, run_study
from experiments.studies.words import number, reach, table
from simulator import ConfigError

PAGE = Path(__file__).resolve().parents[2] / "docs" / "studies.md"


def outcome_of(*shares: tuple[float, ...], loads: tuple[float, ...] = (1.0, 2.0, 4.0)) -> Outcome:
    """One candidate a row of shares, one seed, one class; only `good` says anything."""
    study = replace(
        STUDIES["chat"].STUDY,
        loads=loads,
        at=loads[0],
        seeds=(1,),
        candidates={f"c{row}": lambda: None for row in range(len(shares))},
    )
    return Outcome(
        study,
        {
            (f"c{row}", load, 1, "all"): Served(share, 1, 2, 3, 4, 5, 6, 0)
            for row, held in enumerate(shares)
            for load, share in zip(loads, held, strict=True)
        },
    )


def test_capacity_is_where_the_share_falls_below_95_per_cent_on_a_line() -> None:
    """From 0.99 at 2 to 0.91 at 4 it crosses 0.95 half-way; never, and at once, are said so."""
    outcome = outcome_of((1.0, 0.99, 0.91), (1.0, 1.0, 0.96), (0.9, 0.8, 0.1))

    assert [outcome.capacity(name) for name in ("c0", "c1", "c2")] == [pytest.approx(3), 4, 1]
    assert [reach(outcome, name) for name in ("c0", "c1", "c2")] == ["3", "over 4", "under 1"]
    assert outcome.ranked() == ["c1", "c0", "c2"]


def test_the_class_that_fares_worst_decides() -> None:
    outcome = outcome_of((1.0, 1.0, 1.0))
    runs = {
        **outcome.runs,
        **{("c0", load, 1, "b"): Served(0.5, 1, 2, 3, 4, 5, 6, 0) for load in (1.0, 2.0, 4.0)},
    }
    limits = {name: outcome.study.limits["all"] for name in ("all", "b")}

    assert Outcome(replace(outcome.study, limits=limits), runs).good("c0", 1.0) == 0.5


@pytest.mark.parametrize("name", STUDIES)
def test_the_page_states_what_a_fresh_run_of_its_winner_gives(name: str) -> None:
    """The first row of the table, from `at` alone: all seeds, every column but the capacity."""
    module = STUDIES[name]
    study: Study = module.STUDY
    written = section(PAGE.read_text(encoding="utf-8"), name).splitlines()
    cells = [cell.strip() for cell in written[2].strip("|").split("|")]
    winner, stated = cells[0], cells[-len(module.COLUMNS) :]

    fresh = run_study(
        replace(study, loads=(study.at,), candidates={winner: study.candidates[winner]})
    )

    got = [
        number(quantity, fresh.mean(winner, quantity, group))
        for quantity, group in module.COLUMNS.values()
    ]
    assert stated == got


def test_the_documents_findings_are_those_of_a_fresh_run(tmp_path: Path) -> None:
    """All of the shortest study, word for word; and its figure is drawn."""
    module = STUDIES["documents"]
    outcome = run_study(module.STUDY)

    assert "\n".join(module.findings(outcome)) == section(PAGE.read_text(), "documents")
    drawn = draw_study(outcome, tmp_path / "documents.png")
    assert drawn.stat().st_size > 20_000


def test_a_figure_of_several_loads_has_both_panels(tmp_path: Path) -> None:
    study = replace(STUDIES["chat"].STUDY, loads=(8.0, 14.0), at=8.0, seeds=(1,))
    chosen = {name: study.candidates[name] for name in ("chunked 2048", "chunked 512")}

    drawn = draw_study(run_study(replace(study, candidates=chosen)), tmp_path / "chat.png")

    assert drawn.stat().st_size > 20_000


def test_only_what_stands_between_the_marks_is_replaced(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "before\n<!-- a: written by the study -->\nold\n<!-- end of a -->\nafter\n",
        encoding="utf-8",
    )

    write_section(page, "a", ["new", "lines"])

    assert page.read_text(encoding="utf-8") == (
        "before\n<!-- a: written by the study -->\nnew\nlines\n<!-- end of a -->\nafter\n"
    )
    with pytest.raises(ConfigError, match="no <!-- b"):
        write_section(page, "b", [])


def test_tables_list_the_best_candidate_first() -> None:
    lines = table(outcome_of((1.0, 0.9, 0.9), (1.0, 1.0, 0.9)), {"good": ("good", "all")})

    assert lines[0] == "|  | load with 95 % good | good |"
    assert [line.split("|")[1].strip() for line in lines[2:]] == ["c1", "c0"]
