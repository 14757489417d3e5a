"""Times the steps of a grid, round after round, until they agree or the time is used up.

Every round takes the shapes in another order, so that a slow minute of the machine falls on some
samples of all shapes, not on all samples of some.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
import torch

from .batch import Batch, Cache, Chunk
from .device import CLOCKS, clock_of
from .grid import Shape
from .kernels import INPUTS, Decoder
from .predict import padding_of
from .timing import Effort, HostClock, Lap, Work, measure, measure_laps
from .trial import Trial, totals_ns
from .trials import WHOLE, TrialLog

Progress = Callable[[float, int, int], None]
"""Called with (share done, trials done, shapes)."""

MIN_ROUNDS = 3
NOISY = 0.05
"""A shape whose samples spread more than this is timed again while there is time."""
MAX_ROUNDS = 60
VISITS = 10
"""Into so many visits the time of a shape is cut: what slows the machine for a while then falls on
some samples of all shapes."""
LAPPED_LAYERS = 8
"""Layers whose kernels are timed one by one on a GPU: all are alike, and its queue is finite."""


class StepTimer:
    """Times whole steps of a decoder, and their kernels where they stand in the step.

    clock: one of `CLOCKS`, of the host. captured: sizes that decode-only whole steps are padded to.
    not_captured: why a decode step could not be captured as a CUDA graph, and ran kernel by kernel;
    None as long as all could.
    """

    def __init__(self, decoder: Decoder, clock: str = "wall", captured: Sequence[int] = ()) -> None:
        self._decoder, self._captured = decoder, captured
        self.not_captured: str | None = None
        self._device = decoder.device.type
        self._clock = clock_of(str(decoder.device), clock)
        self._host = HostClock(CLOCKS[clock])
        self.lapped_layers = len(decoder.layers)
        if self._device == "cuda":
            self.lapped_layers = min(LAPPED_LAYERS, self.lapped_layers)

    def kernels(self, shape: Shape, effort: Effort) -> dict[str, Trial]:
        """Every kernel of a step: samples summed over the layers that ran (`lapped_layers`).

        On a GPU a step's inputs are no kernel: their copy would make the host wait for the queue.
        """
        caches = self._caches(shape)[: self.lapped_layers]
        made = self._inputs(shape) if self._device == "cuda" else None

        def work(lap: Lap) -> None:
            batch = made
            if batch is None:
                batch = self._inputs(shape)
                lap(INPUTS)
            self._decoder.step(batch, caches, lap)

        return measure_laps(work, self._clock, effort)

    def whole(self, shape: Shape, effort: Effort) -> Trial:
        """A step end to end on the host's clock: from what the scheduler said of it until its
        tokens are in the host's memory.
        """
        caches = self._caches(shape)
        padding = 0 if shape.chunk else padding_of(self._captured, shape.decode_seqs)
        run: Callable[[Batch], torch.Tensor] = lambda batch: self._decoder.step(batch, caches)  # noqa: E731
        if self._device == "cuda" and not shape.chunk and self.not_captured is None:
            run = self._graph_of(run, self._inputs(shape, padding))
        work: Work = lambda _: run(self._inputs(shape, padding)).tolist()  # noqa: E731
        return measure(work, self._host, effort)

    def activated_experts(self, tokens: int) -> float:
        """Experts of a layer that a step of so many tokens uses, mean over the layers."""
        shape = Shape(tokens, 0, 0, 0)
        self._decoder.step(self._inputs(shape), self._caches(shape))
        used = [routed.used for routed in self._decoder.routed]
        return sum(used) / len(used)

    def _graph_of(
        self, run: Callable[[Batch], torch.Tensor], batch: Batch
    ) -> Callable[[Batch], torch.Tensor]:
        try:
            replay = _captured(lambda: run(batch))
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            self.not_captured = str(error).partition("\n")[0]
            return run
        return lambda _: replay()

    def _inputs(self, shape: Shape, padding: int = 0) -> Batch:
        seqs = shape.decode_seqs
        chunks = [Chunk(seqs, shape.past, shape.chunk)] if shape.chunk else []
        return self._decoder.batch(chunks, [shape.decode_context] * seqs, padding=padding)

    def _caches(self, shape: Shape) -> list[Cache]:
        layers = range(len(self._decoder.layers))
        return [self._decoder.cache(layer, shape.sequences, shape.width) for layer in layers]


def _captured(run: Callable[[], torch.Tensor]) -> Callable[[], torch.Tensor]:
    """The same work as a CUDA graph, as engines run decode steps."""
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # torch's own
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        run()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = run()

    def replay() -> torch.Tensor:
        graph.replay()
        return result

    return replay


def measure_all(
    timer: StepTimer,
    log: TrialLog,
    jobs: Sequence[tuple[Shape, bool]],
    *,
    budget_s: float,
    seed: int,
    progress: Progress,
) -> None:
    """Time every job at least once, then again while time is left and samples disagree.

    jobs: (shape, true if end to end, false if by kernels). A shape that runs out of memory is
    skipped and said so in the log.
    """
    start = time.monotonic()
    rng = np.random.default_rng((seed, log.resumed))  # resumed, not the same shapes come first
    for round_number in range(MAX_ROUNDS):
        left = [job for job in jobs if _needs_more(log, job, round_number)]
        for done, i in enumerate(rng.permutation(len(left)).tolist(), 1):
            spent = time.monotonic() - start
            if spent >= budget_s and round_number:
                return
            shape, is_whole = left[i]
            _measure_one(timer, log, shape, is_whole, _effort(budget_s, spent, len(jobs)))
            share = min(1.0, (time.monotonic() - start) / budget_s)
            progress(share, round_number * len(jobs) + done, len(jobs))
        if not left and round_number >= MIN_ROUNDS:
            return


def _effort(budget_s: float, spent_s: float, jobs: int) -> Effort:
    """A round should take a tenth of the time; in a hurry, one sample is a sample."""
    return Effort(
        budget_s=budget_s / VISITS / jobs,
        target_spread=0.0,
        min_samples=1 if spent_s > budget_s else 2,
        max_samples=20,
        warmup=1,
    )


def _needs_more(log: TrialLog, job: tuple[Shape, bool], round_number: int) -> bool:
    shape, is_whole = job
    if shape in log.skipped:
        return False
    trials = log.raw(shape, is_whole=is_whole)
    if round_number == 0:  # a resumed run has these already
        return not trials
    return round_number < MIN_ROUNDS or Trial(tuple(totals_ns(trials))).spread > NOISY


def _measure_one(
    timer: StepTimer, log: TrialLog, shape: Shape, is_whole: bool, effort: Effort
) -> None:
    try:
        if is_whole:
            log.add(shape, {WHOLE: timer.whole(shape, effort)})
        else:
            log.add(shape, timer.kernels(shape, effort))
    except (torch.OutOfMemoryError, MemoryError) as error:
        log.skip(shape, f"out of memory: {str(error).splitlines()[0]}")
    except RuntimeError as error:
        if "not enough memory" not in str(error):  # how torch says it on a CPU
            raise
        log.skip(shape, "out of memory")
