"""The files of a search: search.json, evaluations.parquet, and every run in evaluations/."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from costmodels import DEFAULT_COST_MODEL
from experiments.config import RunConfig
from experiments.memory import build_cost_model, describe_cost_model
from experiments.provenance import runway_version
from experiments.results import (
    RUN_FILES,
    SEARCH_FILES,
    SWEEP_FILES,
    refuse_file,
    results_folder,
    write_json,
)
from experiments.workload import Workload
from simulator.errors import ConfigError

from .answer import Answer, ranked
from .certainty import lead
from .evaluator import Evaluator
from .question import Question

if TYPE_CHECKING:
    import pandas as pd


def open_folder(out: Path) -> Path:
    """`out/evaluations`, made if it is not there.

    Raises:
        ConfigError: `out` holds a run or a sweep, or cannot be written to.
    """
    refuse_file(out)
    for name in (RUN_FILES[0], SWEEP_FILES[0]):
        if (out / name).exists():
            raise ConfigError(
                f"{out} holds other results ({name}): give another folder, or remove them first"
            )
    folder = out / "evaluations"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"cannot write results to {out}: {error.strerror or error}") from None
    return folder


def write_search(
    question: Question,
    out: Path,
    answers: Sequence[Answer],
    evaluator: Evaluator,
    *,
    workload: Workload,
    config: RunConfig,
) -> dict[str, Any]:  # Any: JSON values
    """Write both files in one piece; returns what search.json holds.

    workload, config: at the workload's own rate.
    """
    priced = config.model_copy(update={"cost_model": config.cost_model or DEFAULT_COST_MODEL})
    table = build_cost_model(priced).table
    report = {
        "question": question.described(),
        "answers": [answer.described(question.knobs) for answer in answers],
        "leads": _leads(answers),
        "evaluations": len(evaluator.done),
        "replicate_kind": evaluator.replicate_kind,
        "requests": len(workload.trace),
        "workload": workload.described(config),
        "cost_model": describe_cost_model(priced, table),
        "provenance": {"runway_version": runway_version(), "files": evaluator.files},
    }
    with results_folder(out, owned=SEARCH_FILES) as draft:
        write_json(draft / "search.json", report)
        evaluation_frame(question, evaluator).to_parquet(draft / "evaluations.parquet", index=False)
    return report


def _leads(answers: Sequence[Answer]) -> list[dict[str, Any]]:  # Any: JSON values
    """The best answer against each other one, requests/s."""
    best, *others = ranked(answers)
    found = []
    for other in others:
        if best.certainty and other.certainty:
            apart, low, high = lead(best.certainty, other.certainty)
            told = {"best": best.scheduler, "other": other.scheduler, "rate_difference": apart}
            found.append({**told, "ci_low": low, "ci_high": high})
    return found


def evaluation_frame(question: Question, evaluator: Evaluator) -> pd.DataFrame:
    """One row per run: the configuration, the rate, the replicate, how each limit was met."""
    import pandas as pd

    order = {name: place for place, name in enumerate(question.schedulers)}
    rows = []
    for (key, _, _), evaluation in evaluator.done.items():
        candidate = evaluator.candidates[key]
        row: dict[str, Any] = {"scheduler": candidate.config.scheduler, "configuration": key}
        row |= {name: _text(candidate.resolved.get(name)) for name in question.knobs.domains}
        row |= {"rate": evaluation.rate, "replicate": evaluation.replicate}
        row["passed"] = evaluation.passes(evaluator.objective)
        row["saturated"] = evaluation.saturated is not None
        row["broken"] = ",".join(evaluation.broken(evaluator.objective))
        row["error"] = evaluation.error
        for name, told in evaluation.limits.items():
            row |= {name: told.value, f"{name}_share": told.share}
        rows.append(row | evaluation.more)
    frame = pd.DataFrame(rows)
    place = frame["scheduler"].map(order)
    frame = frame.assign(place=place).sort_values(
        ["place", "configuration", "replicate", "rate"], kind="stable"
    )
    frame["error"] = frame["error"].astype("str").where(frame["error"].notna())
    return frame.drop(columns="place").reset_index(drop=True)


def _text(value: object) -> str:
    return (
        "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    )
