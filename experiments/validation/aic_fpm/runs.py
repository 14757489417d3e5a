"""The runs of a folder: step log, requests and recorded configuration, as AIConfigurator logs them.

    <model>_tp<N>_ep<N>.steps.csv.gz                    one row per forward pass
    <model>_tp<N>_ep<N>.requests.csv.gz                 prompt, output and E2E of every request
    <model>_tp<N>_ep<N>.effective_vllm_config.json      what the engine was told

What the configuration does not say is read off the log: the token budget of the live server, the
clients of the closed loop, and on which multiples the chunks of a hybrid model end.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from math import gcd
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from calibration.step_log import StepLog, read_step_log
from simulator.errors import ConfigError, WorkloadError

STEPS = ".steps.csv.gz"
REQUESTS = ".requests.csv.gz"
CONFIG = ".effective_vllm_config.json"
REAL, SWEEP = "real", "sweep"
NAME = re.compile(r"(?P<model>.+)_tp(?P<tp>\d+)_ep(?P<ep>\d+)")
COLUMNS = ("workload_label", "request_index", "prompt_tokens", "output_tokens", "e2e_seconds")

FEWEST_CONTINUED, MOST_CONTINUED = 8, 200
ALIGNED_SHARE = 0.8
SMALLEST_ALIGNMENT = 64


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """One recording. The requests are those of the `real` segment, in the order of their numbers.

    e2e_s: client side; NaN for a request that failed. budget: tokens of a step; clients: of the
    closed loop; alignment: of chunks, 1 for none. in_process: engine and worker share a process.
    notes: what is not as the format promises.
    """

    name: str
    model: str
    tensor_parallel: int
    log: StepLog
    prompt_tokens: NDArray[np.int64]
    output_tokens: NDArray[np.int64]
    e2e_s: NDArray[np.float64]
    budget: int
    clients: int
    alignment: int
    max_num_seqs: int
    in_process: bool
    notes: tuple[str, ...]

    @property
    def real(self) -> NDArray[np.int64]:
        """Rows of the log that belong to the `real` segment."""
        return np.flatnonzero(self.log.segment == REAL)


def names_of(folder: Path) -> list[str]:
    """Names of the runs in a folder that have all their files."""
    found = sorted(path.name.removesuffix(STEPS) for path in folder.glob(f"*{STEPS}"))
    return [
        name for name in found if NAME.fullmatch(name) and (folder / f"{name}{REQUESTS}").is_file()
    ]


def read_run(folder: Path, name: str) -> Run:
    """Read one run.

    Raises:
        ConfigError: a file is missing or not of this format.
    """
    match = NAME.fullmatch(name)
    if match is None:
        raise ConfigError(f"{name}: not named <model>_tp<N>_ep<N>")
    try:
        log = read_step_log(folder / f"{name}{STEPS}")
    except WorkloadError as error:
        raise ConfigError(str(error)) from None
    if REAL not in log.segment or SWEEP not in log.segment:
        raise ConfigError(f"{name}{STEPS}: needs both segments, {SWEEP!r} and {REAL!r}")
    prompts, outputs, e2e_s = _requests(folder / f"{name}{REQUESTS}")
    config = _config(folder / f"{name}{CONFIG}")
    real = log.segment == REAL
    kept, notes = _computed(prompts, e2e_s, log.prefill_tokens[real].sum())
    tensor_parallel = config.get("parallel_config.tensor_parallel_size", int(match["tp"]))
    pipeline = config.get("parallel_config.pipeline_parallel_size", 1)
    return Run(
        name=name,
        model=match["model"],
        tensor_parallel=tensor_parallel,
        log=log,
        prompt_tokens=prompts[kept],
        output_tokens=outputs[kept],
        e2e_s=e2e_s[kept],
        budget=int((log.prefill_tokens + log.decode_seqs).max()),
        clients=int((log.prefill_requests + log.decode_seqs)[real].max()),
        alignment=_alignment(log),
        max_num_seqs=config.get("scheduler_config.max_num_seqs", 128),
        in_process=tensor_parallel == pipeline == 1,
        notes=notes,
    )


def _requests(path: Path) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """(prompt tokens, output tokens, E2E) of the real segment, by request number."""
    import pandas as pd

    frame = pd.read_csv(path)
    missing = [column for column in COLUMNS if column not in frame.columns]
    if missing:
        raise ConfigError(
            f"{path.name}: column {missing[0]} missing (found: {list(frame.columns)})"
        )
    real = frame[frame.workload_label == REAL].sort_values("request_index")
    lengths = real[["prompt_tokens", "output_tokens"]]
    if not len(real) or not (lengths > 0).all(axis=None):
        raise ConfigError(
            f"{path.name}: needs requests labelled {REAL!r} with lengths of at least 1"
        )
    prompts, outputs = (lengths[name].to_numpy(np.int64) for name in lengths)
    e2e_s = pd.to_numeric(real.e2e_seconds, errors="coerce").to_numpy(np.float64)
    return prompts, outputs, np.where(e2e_s > 0, e2e_s, np.nan)


def _config(path: Path) -> dict[str, int]:
    """The whole numbers of the recorded configuration; {} if there is none."""
    if not path.is_file():
        return {}
    try:
        recorded = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ConfigError(f"{path.name}: not JSON: {error}") from None
    return {key: value for key, value in recorded.items() if type(value) is int}


def _computed(
    prompts: NDArray[np.int64], e2e_s: NDArray[np.float64], prefilled: float
) -> tuple[NDArray[np.bool_], tuple[str, ...]]:
    """Which requests the engine computed, and what to say if some failed.

    A request without an E2E failed: whether it was computed shows in the sum of prompt tokens.
    """
    everyone = np.ones(len(prompts), dtype=np.bool_)
    answered = ~np.isnan(e2e_s)
    notes = []
    kept = everyone
    if not answered.all():
        without = abs(float(prompts[answered].sum()) - prefilled)
        kept = everyone if abs(float(prompts.sum()) - prefilled) <= without else answered
        done = "computed" if kept.all() else "not computed"
        notes.append(f"{int((~answered).sum())} requests failed and have no E2E ({done})")
    lost = prefilled - float(prompts[kept].sum())
    if lost:
        than = "more" if lost > 0 else "fewer"
        notes.append(
            f"the log computed {abs(lost):,.0f} prompt tokens {than} than the requests have: a "
            "request was lost, and the steps cannot be the same"
        )
    return kept, tuple(notes)


def _alignment(log: StepLog) -> int:
    """The largest number on whose multiples nearly all part-done prompts stand; 1: there is none.

    Of the steps with one prompt, whose past is that prompt's.
    """
    alone = (log.prefill_requests == 1) & (log.prefill_past > 0)
    past = log.prefill_past[alone].astype(np.int64).tolist()[:MOST_CONTINUED]
    if len(past) < FEWEST_CONTINUED:
        return 1
    distinct = sorted(set(past))
    candidates = {gcd(a, b) for a in distinct for b in distinct if a < b}
    aligned = [
        candidate
        for candidate in candidates
        if candidate >= SMALLEST_ALIGNMENT
        and np.mean([tokens % candidate == 0 for tokens in past]) >= ALIGNED_SHARE
    ]
    return max(aligned, default=1)
