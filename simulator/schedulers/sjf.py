"""Shortest job first, by a length that is predicted, never the true one.

Source: shortest-job-first over predicted output lengths, as in Fu et al., "Efficient LLM Scheduling
by Learning to Rank" (NeurIPS 2024), and Zheng et al., "Response Length Perception and Sequence
Scheduling" (NeurIPS 2023). Only the order of admission changes: nobody who runs is pushed out.
"""

from __future__ import annotations

from collections.abc import Callable

from simulator.errors import ConfigError, nearest
from simulator.plan import Plan
from simulator.sequence import Sequence
from simulator.view import EngineView

from .chunked import ChunkedPrefillScheduler
from .limits import StepLimits
from .order import overtaken

Predictor = Callable[[Sequence], float]
"""Predicted output tokens of a request, from what a scheduler may see of it."""


class SjfScheduler(StepLimits):
    """Shortest predicted job first; everything else as `chunked`. Long jobs may wait for ever.

    max_num_batched_tokens, max_num_seqs, chunk_size: as `chunked`.
    predictor: where a request's output length comes from: "trace" (its `predicted_output_tokens`,
        of a predictor or made from the true lengths with a stated error), "max_tokens" (the limit
        its client declared), "none" (prompts alone decide), "known" (the first of these that the
        request has), or a function of the sequence.
    prompt_weight: how much a prompt token counts beside a predicted output token.

    Raises:
        ConfigError: a bad limit, an unknown predictor, or a request without a prediction.
    """

    name = "sjf"

    def __init__(
        self,
        max_num_batched_tokens: int | None = 2048,
        max_num_seqs: int = 128,
        chunk_size: int | None = None,
        *,
        predictor: str | Predictor = "known",
        prompt_weight: float = 0.1,
    ) -> None:
        super().__init__(max_num_batched_tokens, max_num_seqs, chunk_size)
        self._inner = ChunkedPrefillScheduler(max_num_batched_tokens, max_num_seqs, chunk_size)
        if isinstance(predictor, str) and predictor not in PREDICTORS:
            raise ConfigError(
                f"predictor {predictor!r}{nearest(predictor, PREDICTORS)}: {', '.join(PREDICTORS)}"
            )
        if not prompt_weight >= 0:
            raise ConfigError(f"prompt_weight is {prompt_weight}, must be 0 or more")
        self.predictor, self.prompt_weight = predictor, prompt_weight
        self._predicted = PREDICTORS[predictor] if isinstance(predictor, str) else predictor

    def queue_key(self, sequence: Sequence) -> float:
        """What the job still takes: tokens to compute, weighted, and output tokens to come."""
        produced = sequence.known_tokens - sequence.prompt_tokens
        to_come = max(0.0, self._predicted(sequence) - produced)
        return self.prompt_weight * sequence.remaining_tokens + to_come

    def plan(self, view: EngineView) -> Plan:
        """As `chunked`, from a queue in order of predicted length."""
        return overtaken(self._inner.plan(view), view, self.max_num_seqs - len(view.running))


def _of_trace(sequence: Sequence) -> float:
    if sequence.predicted_output_tokens is None:
        raise ConfigError(
            f"request {sequence.row} has no predicted_output_tokens: add the column to the trace, "
            "make it from the true lengths with predict_outputs, or use predictor max_tokens"
        )
    return sequence.predicted_output_tokens


def _declared(sequence: Sequence) -> float:
    if sequence.max_tokens is None:
        raise ConfigError(
            f"request {sequence.row} declares no max_tokens: use another predictor (trace, none)"
        )
    return sequence.max_tokens


def _nothing(sequence: Sequence) -> float:
    return 0.0


def _known(sequence: Sequence) -> float:
    return sequence.predicted_output_tokens or sequence.max_tokens or 0.0


PREDICTORS: dict[str, Predictor] = {
    "known": _known,
    "trace": _of_trace,
    "max_tokens": _declared,
    "none": _nothing,
}
"""Name -> predictor."""
