"""Step prices and client delay, from the runs at 2 requests a second and the datasheet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calibration.episodes import Compute, fit_compute, steps_parameters
from calibration.seen_steps import DecodeLine, Physics, SeenSteps, fit_decode
from calibration.served import Served, Serving, serve
from costmodels import StepsCostModel, find_gpu, find_model
from simulator import ClientDelay, Trace
from simulator.errors import ConfigError
from simulator.units import NS_PER_MS, ms_to_ns

from .recordings import Recording

MOST_LOAD = 2.5
"""Requests per second of a run that may be fitted: those planned at 2, and their Poisson noise."""
BANDWIDTH_SHARE = 0.8
"""Of the datasheet's, what reading KV reaches. With 13 streams at most and all contexts alike the
recordings cannot tell KV from sequences, so this is assumed, not fitted."""
DELAY_ROUNDS = 4

SERVING = Serving(
    max_num_batched_tokens=8192,
    max_num_seqs=256,
    kv_blocks=18_038 - 1,
    block_size=16,
    max_concurrency=256,
)
"""As the origin's server log and specification say. One of the 18,038 blocks (288,608 tokens) is
vLLM's null block. The client holds at most 256 requests in flight: above saturation the recorded
sends follow from that, so what is replayed are the planned arrivals."""
NS_PER_US = 1000


@dataclass(frozen=True, slots=True)
class Calibrated:
    """Of one server image. runs: fitted on. step_ms and such: see `DecodeLine`, `Compute`."""

    image: str
    runs: tuple[str, ...]
    line: DecodeLine
    compute: Compute
    model: StepsCostModel
    delay: ClientDelay

    @property
    def name(self) -> str:
        """What its prices saw, for the rows."""
        return f"2 req/s runs ({self.image})"

    def told(self) -> list[str]:
        """What was fitted, in words."""
        compute, line = self.compute, self.line
        knee = (line.step_ms - compute.offset_ms) / compute.token_ms
        tied = " (by physics: no two prompts shared a step)" if compute.offset_is_physics else ""
        delay_ms = self.delay.request_ns / NS_PER_MS
        return [
            f"{self.image}: fitted on {', '.join(self.runs)}: step {line.step_ms:.3f} ms + "
            f"{line.sequence_ms:.4f} ms a sequence; client delay {delay_ms:.2f} ms, in and out",
            f"{self.image}: compute {compute.token_ms:.5f} ms a token, in tiles of "
            f"{compute.tile_tokens}, past {knee:.0f} tokens{tied}; boost saves "
            f"{compute.boost_saving_ms:.2f} ms, half of it back after "
            f"{compute.boost_recovery_ms:g} ms: from {compute.episodes:,} episodes of "
            f"{compute.kinds} kinds of all images, mean error {compute.error:.1%}",
        ]


def physics() -> Physics:
    """KV reading at a share of the bandwidth; attention tied to the FLOPs of the matrices."""
    model, gpu = find_model("qwen3-14b"), find_gpu("h100-sxm")
    read_s = model.kv_bytes_per_token() / (BANDWIDTH_SHARE * gpu.bandwidth_bytes_per_s)
    return Physics(read_s * 1000, model.attention_tokens_per_pair)


def calibrate(recordings: Sequence[Recording]) -> dict[str, Calibrated]:
    """Image -> what was fitted to its runs; an image without such runs takes all of them.

    Raises:
        ConfigError: no run at 2 requests a second with derived steps.
    """
    fitted = [
        (recording, recording.steps)
        for recording in recordings
        if recording.steps is not None and recording.load <= MOST_LOAD
    ]
    if not fitted:
        raise ConfigError(
            f"no run of at most {MOST_LOAD:g} requests a second has derived_steps: nothing to fit "
            "prices on"
        )
    constants = physics()
    own: dict[str, list[tuple[Recording, SeenSteps]]] = {}
    for recording in recordings:
        own[recording.image] = [pair for pair in fitted if pair[0].image == recording.image]
    lines = {
        image: fit_decode([steps for _, steps in pairs or fitted], constants)
        for image, pairs in own.items()
    }
    compute = fit_compute([(steps, lines[each.image]) for each, steps in fitted], constants)
    return {
        image: _calibrated(image, [each for each, _ in pairs or fitted], lines[image], compute)
        for image, pairs in own.items()
    }


def predict(recording: Recording, model: StepsCostModel, delay: ClientDelay) -> Served:
    """Serve a run's planned arrivals again."""
    trace = Trace(
        arrival_ns=recording.arrival_us * NS_PER_US,
        prompt_tokens=recording.prompt_tokens,
        output_tokens=recording.output_tokens,
    )
    return serve(trace, model, SERVING, delay)


def _calibrated(
    image: str, runs: list[Recording], line: DecodeLine, compute: Compute
) -> Calibrated:
    model = StepsCostModel(**steps_parameters(line, compute, physics()))
    return Calibrated(
        image=image,
        runs=tuple(recording.run for recording in runs),
        line=line,
        compute=compute,
        model=model,
        delay=_delay(runs, model),
    )


def _delay(runs: Sequence[Recording], model: StepsCostModel) -> ClientDelay:
    """What makes the median TTFT of the fitted runs right.

    Only the sum of both ways shows in a client's log, so all of it is put on the way in; and only
    its constant part, since all prompts of these runs are alike.
    """
    delay_ms = 0.0
    for _ in range(DELAY_ROUNDS):
        delay = ClientDelay(request_ns=ms_to_ns(delay_ms))
        short = [
            float(
                np.median(recording.ttft_ms) - np.median(predict(recording, model, delay).ttft_ms)
            )
            for recording in runs
        ]
        delay_ms = max(delay_ms + float(np.mean(short)), 0.0)
    return ClientDelay(request_ns=ms_to_ns(delay_ms))
