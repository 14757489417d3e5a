"""What a search found, for one scheduler: in numbers, and what may be said of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from experiments.policies import POLICY_FIELDS

from .best import Incumbent
from .candidates import Candidate
from .certainty import Certainty
from .evaluate import Evaluation
from .evaluator import Evaluator
from .knobs import Knobs
from .limits import SATURATED
from .sensitivity import Level
from .vllm_flags import vllm_flags

FOUND = "found"
NO_RATE = "no rate meets the SLO"
EVERY_RATE = "every rate that was tried meets the SLO"
FAILED = "its runs fail"
INVALID = "no configuration can be run"


@dataclass(frozen=True, slots=True)
class Answer:
    """The best configuration of a scheduler.

    status: one of the constants above. rate: the highest that meets the SLO; failed: the lowest
    tried that does not. binding: what is not met there (or, without a rate, at the lowest tried).
    at: the run at the rate; beyond: the run at `failed`. baseline: the same scheduler as given,
    without any knob turned, and its rate. violations: (failed, passed) rates out of order.
    saturates_from: the lowest tried rate whose run is saturated. configurations: how many
    different ones were compared, of how many (None: a range has no end).
    """

    scheduler: str
    status: str
    candidate: Candidate | None
    rate: float | None
    failed: float | None
    binding: tuple[str, ...]
    at: Evaluation | None
    beyond: Evaluation | None
    baseline: Candidate | None
    baseline_rate: float | None
    violations: tuple[tuple[float, float], ...]
    saturates_from: float | None
    certainty: Certainty | None
    sensitivity: tuple[Level, ...]
    configurations: int
    space: int | None
    invalid: dict[str, str]

    def flags(self, knobs: Knobs) -> str | None:
        """What to paste behind `vllm serve`; None without an answer, or for another policy."""
        if self.candidate is None or self.rate is None:
            return None
        found = self.candidate
        blocks, _ = found.identity["kv"]
        return vllm_flags(self.scheduler, found.resolved, tuple(knobs.domains), kv_blocks=blocks)

    def described(self, knobs: Knobs) -> dict[str, Any]:  # Any: JSON values
        """For search.json."""
        found = self.candidate
        levels: dict[str, list[dict[str, Any]]] = {name: [] for name in knobs.domains}
        for level in self.sensitivity:
            levels[level.knob].append(level.described(self.rate or 1.0))
        return {
            "scheduler": self.scheduler,
            "status": self.status,
            "rate": self.rate,
            "failed_rate": self.failed,
            "binding": list(self.binding),
            "certainty": self.certainty.described() if self.certainty else None,
            "configuration": found.key if found else None,
            "settings": dict(found.settings) if found else None,
            "unused": list(found.unused) if found else [],
            "effective_chunk_size": found.effective_chunk_size if found else None,
            "resolved": {k: found.resolved.get(k) for k in POLICY_FIELDS} if found else None,
            "vllm_flags": self.flags(knobs),
            "notes": list(found.notes) if found else [],
            "baseline_rate": self.baseline_rate,
            "at_rate": _numbers(self.at),
            "beyond": _numbers(self.beyond),
            "monotone": not self.violations,
            "violations": [{"failed": a, "passed": b} for a, b in self.violations],
            "saturates_from": self.saturates_from,
            "sensitivity": levels,
            "configurations": self.configurations,
            "space": self.space,
            "invalid": self.invalid,
        }


def answer_of(
    evaluator: Evaluator,
    incumbent: Incumbent,
    baseline: Incumbent | None,
    **told: Any,  # Any: fields of Answer that are known already
) -> Answer:
    """An answer from what was run."""
    tried = evaluator.of(incumbent.candidate)
    by_rate = {evaluation.rate: evaluation for evaluation in tried}
    rate, failed = incumbent.bracket.passed, incumbent.bracket.failed
    beyond = by_rate[failed] if failed is not None else None
    broken = beyond.broken(evaluator.objective) if beyond else []
    status = NO_RATE if rate is None else FOUND if failed is not None else EVERY_RATE
    if rate is None and beyond is not None and beyond.error:
        status = FAILED
    return Answer(
        scheduler=str(incumbent.candidate.config.scheduler),
        status=status,
        candidate=incumbent.candidate,
        rate=rate,
        failed=failed,
        binding=tuple([beyond.error] if beyond and beyond.error else broken),
        at=by_rate[rate] if rate is not None else None,
        beyond=beyond,
        baseline=baseline.candidate if baseline else None,
        baseline_rate=baseline.bracket.passed if baseline else None,
        violations=tuple(incumbent.bracket.violations),
        saturates_from=min((e.rate for e in tried if e.saturated), default=None),
        **told,
    )


def no_answer(scheduler: str, invalid: dict[str, str], space: int | None) -> Answer:
    """For a scheduler none of whose configurations can be run."""
    return Answer(
        *(scheduler, INVALID, None, None, None, (), None, None, None, None, (), None, None, ()),
        configurations=0,
        space=space,
        invalid=invalid,
    )


def ranked(answers: Sequence[Answer]) -> list[Answer]:
    """The best first."""
    return sorted(answers, key=lambda answer: -(answer.rate or 0.0))


def _numbers(evaluation: Evaluation | None) -> dict[str, Any] | None:  # Any: JSON values
    if evaluation is None:
        return None
    return {
        "rate": evaluation.rate,
        "limits": {name: asdict(told) for name, told in evaluation.limits.items()},
        SATURATED: evaluation.saturated,
        **evaluation.more,
    }
