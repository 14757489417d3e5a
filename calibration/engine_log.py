"""`EngineLog`: a run of a serving engine, step by step and request by request, from one JSON file.

The file says what was asked of the engine (`engine`, `requests`) and what it did (`steps`):

    engine    max_batch_tokens, max_seqs, block_size, num_blocks (one of them is the null block),
              prefix_caching, long_prefill_token_threshold
    requests  id, arrival_s, prompt_len, output_len, ttft_s, e2e_s, tpot_s
    steps     start_s, end_s, batch {id: tokens}, preempted [ids], free_blocks (after scheduling)

and `kind`, `versions`, `model`. Such a file is written by a small driver around vLLM's `LLMEngine`
(docs/calibration.md says what it must note down). From the batches alone follows what every step
computed: prompt chunks and their past, decodes and their context.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.errors import WorkloadError
from simulator.plan import StepShape
from simulator.trace import Trace
from simulator.units import NS_PER_S

from .step_log import StepLog

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Record = Mapping[str, Any]  # Any: JSON values, checked where they are read


class LoggedStep(NamedTuple):
    """A step. chunks: (row, new, past); decodes: (row, context); rows are those of the trace.

    start_ns: when it was planned; end_ns: when its tokens were there. duration_ns: from the end of
    the step before, if there was work then, else from its start.
    """

    start_ns: int
    end_ns: int
    duration_ns: int
    chunks: tuple[tuple[int, int, int], ...]
    decodes: tuple[tuple[int, int], ...]
    preempted: tuple[int, ...]
    free_blocks: int

    @property
    def shape(self) -> StepShape:
        """As a cost model sees it."""
        contexts = [context for _, context in self.decodes]
        chunks = tuple((new, past) for _, new, past in self.chunks)
        return StepShape(chunks, len(contexts), sum(contexts), max(contexts, default=0))

    @property
    def batch(self) -> dict[int, int]:
        """Row -> tokens computed."""
        return {row: new for row, new, _ in self.chunks} | {row: 1 for row, _ in self.decodes}


@dataclass(frozen=True, slots=True)
class EngineLimits:
    """What the engine was started with. kv_blocks: usable ones, without the null block."""

    max_num_batched_tokens: int
    max_num_seqs: int
    kv_blocks: int
    block_size: int
    long_prefill_token_threshold: int


@dataclass(frozen=True, slots=True, eq=False)
class EngineLog:
    """A run. ttft_ms, tpot_ms, e2el_ms: of every request, shape (requests,); TPOT is NaN for one
    token.
    """

    path: Path
    limits: EngineLimits
    trace: Trace
    steps: tuple[LoggedStep, ...]
    ttft_ms: Floats
    tpot_ms: Floats
    e2el_ms: Floats


def read_engine_log(path: Path) -> EngineLog:
    """Read and check a file. Raises WorkloadError naming the file and what is wrong with it."""
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise WorkloadError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise WorkloadError(f"{path}: not the JSON of an engine's run: {error}") from None
    if not isinstance(raw, dict):
        raise WorkloadError(f"{path}: must be a JSON object with engine, requests and steps")
    try:
        return _log(path, raw)
    except KeyError as error:
        raise WorkloadError(f"{path}: {error.args[0]!r} is missing, or not in requests") from None
    except (TypeError, ValueError, AttributeError) as error:
        raise WorkloadError(f"{path}: holds what such a run cannot: {error}") from None


def _log(path: Path, raw: Record) -> EngineLog:
    engine, requests = raw["engine"], sorted(raw["requests"], key=lambda each: each["arrival_s"])
    if engine["prefix_caching"]:
        raise WorkloadError(
            f"{path}: recorded with prefix caching, and the file does not say what was shared: "
            "record with it off"
        )
    for each in requests:
        if each.get("ttft_s") is None:
            raise WorkloadError(f"{path}: request {each['id']!r} has no first token")
    if not requests or not raw["steps"]:
        raise WorkloadError(f"{path}: no requests or no steps")
    trace = Trace(
        arrival_ns=_column([round(each["arrival_s"] * NS_PER_S) for each in requests]),
        prompt_tokens=_column([each["prompt_len"] for each in requests]),
        output_tokens=_column([each["output_len"] for each in requests]),
        ids=tuple(str(each["id"]) for each in requests),
        notes=(f"requests of {path.name}, as they arrived at the engine",),
    )
    ttft, tpot, e2el = (
        np.array([np.nan if (s := each[key]) is None else 1e3 * s for each in requests])
        for key in ("ttft_s", "tpot_s", "e2e_s")
    )
    return EngineLog(
        path=path,
        limits=_limits(engine),
        trace=trace,
        steps=tuple(_steps(raw["steps"], trace)),
        ttft_ms=ttft,
        tpot_ms=tpot,
        e2el_ms=e2el,
    )


def _limits(engine: Record) -> EngineLimits:
    return EngineLimits(
        max_num_batched_tokens=int(engine["max_batch_tokens"]),
        max_num_seqs=int(engine["max_seqs"]),
        kv_blocks=int(engine["num_blocks"]) - 1,
        block_size=int(engine["block_size"]),
        long_prefill_token_threshold=int(engine.get("long_prefill_token_threshold", 0)),
    )


def _column(values: list[int]) -> Ints:
    return np.array(values, dtype=np.int64)


class _Progress:
    """How far every request is, step after step."""

    def __init__(self, trace: Trace) -> None:
        rows = len(trace)
        self._prompt, self._output = trace.prompt_tokens.tolist(), trace.output_tokens.tolist()
        self._arrival: list[int] = trace.arrival_ns.tolist()
        self._computed, self._produced = [0] * rows, [0] * rows
        self._left, self._seen = 0, 0

    def has_work(self, now_ns: int) -> bool:
        """Whether anybody who has arrived by now still wants a token."""
        while self._seen < len(self._arrival) and self._arrival[self._seen] <= now_ns:
            self._seen += 1
            self._left += 1
        return self._left > 0

    def preempt(self, row: int) -> None:
        self._computed[row] = 0

    def compute(self, row: int, new: int) -> tuple[int, bool]:
        """Tokens in the cache before, and whether this is prompt work."""
        past, known = self._computed[row], self._prompt[row] + self._produced[row]
        self._computed[row] = past + new
        if past + new > known:
            raise ValueError(f"a step computes token {past + new} of row {row}, which has {known}")
        if past + new == known:
            self._produced[row] += 1
            self._left -= int(self._produced[row] == self._output[row])
        # A decode is the one token that no prompt or recomputation has left over.
        return past, not (new == 1 and past == known - 1 and self._produced[row] > 1 and past > 0)


def _steps(recorded: list[Record], trace: Trace) -> list[LoggedStep]:
    progress = _Progress(trace)
    rows = {name: row for row, name in enumerate(trace.ids or ())}
    steps: list[LoggedStep] = []
    for each in recorded:
        start_ns, end_ns = (round(each[key] * NS_PER_S) for key in ("start_s", "end_s"))
        before_ns = steps[-1].end_ns if steps else start_ns
        if end_ns <= start_ns or start_ns < before_ns:
            raise ValueError(f"step {len(steps)} does not follow the step before it in time")
        since_ns = before_ns if progress.has_work(before_ns) else start_ns
        progress.has_work(start_ns)
        preempted = tuple(rows[name] for name in each.get("preempted", ()))
        for row in preempted:
            progress.preempt(row)
        chunks, decodes = [], []
        for name, new in each["batch"].items():
            row = rows[name]
            past, is_prompt = progress.compute(row, int(new))
            if is_prompt:
                chunks.append((row, int(new), past))
            else:
                decodes.append((row, past))
        steps.append(
            LoggedStep(
                *(start_ns, end_ns, end_ns - since_ns),
                *(tuple(chunks), tuple(decodes), preempted),
                int(each["free_blocks"]),
            )
        )
    return steps


def step_log_of(log: EngineLog) -> StepLog:
    """The steps as the columns that prices are fitted to."""
    prompts = log.trace.prompt_tokens
    shapes = [step.shape for step in log.steps]

    def column(values: Iterable[float]) -> Floats:
        return np.fromiter(values, np.float64, len(shapes))

    return StepLog(
        segment=np.full(len(shapes), "", dtype=np.str_),
        counter=np.arange(len(shapes), dtype=np.float64),
        prefill_tokens=column(shape.prefill_tokens for shape in shapes),
        prefill_requests=column(len(shape.chunks) for shape in shapes),
        prefill_past=column(sum(past for _, past in shape.chunks) for shape in shapes),
        prompt_variance=column(
            _variance([int(prompts[row]) for row, _, _ in step.chunks]) for step in log.steps
        ),
        decode_seqs=column(shape.decode_seqs for shape in shapes),
        decode_context=column(shape.decode_context_tokens for shape in shapes),
        context_variance=column(
            _variance([context for _, context in step.decodes]) for step in log.steps
        ),
        measured_ms=column(step.duration_ns / 1e6 for step in log.steps),
    )


def _variance(values: list[int]) -> float:
    return float(np.var(values)) if values else 0.0
