"""A fit to request times as a cost table: held-out requests, provenance, what is not in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodels.hardware import GPUS, find_gpu
from costmodels.model_config import ModelConfig
from costmodels.table import CostTable, Value

from .request_cells import CONTEXT, FitLog
from .request_fit import RequestFit, fit_requests
from .request_times import RequestTimes
from .served import Serving, serve
from .step_table import Setting

Floats = NDArray[np.float64]

BANDWIDTH_SHARE = 0.8
"""Of the datasheet's, what reading KV reaches; assumed."""
HELD_OUT_BLOCKS, EVERY = 12, 4
DIGITS = 6


class RequestTable(NamedTuple):
    """table: to be saved. told: lines for the user: errors, delay, what the logs do not tell."""

    table: CostTable
    told: tuple[str, ...]


def table_from_requests(
    logs: Sequence[RequestTimes],
    serving: Serving,
    setting: Setting,
    *,
    command: str,
    model: ModelConfig | None = None,
    attention_tokens_per_pair: float | None = None,
) -> RequestTable:
    """Fit the logs, hold some of their requests out, and put a table around what comes out.

    Of several logs the last is held out; of one, every fourth of twelve stretches of time.
    model: its sizes tie attention to compute, and with a known device the reading of KV.

    Raises ConfigError if the logs cannot tell the terms that every price needs.
    """
    seen, test, split = _split(logs)
    known, missing = _known(setting, model, attention_tokens_per_pair)
    pair = known.pop("attention_tokens_per_pair", 0.0)
    fit = fit_requests(seen, serving, attention_tokens_per_pair=pair, known=known)
    absent = {**missing, **fit.unidentified}
    errors = _errors(test, serving, fit)
    notes = _notes(fit, absent, errors)
    if setting.note is not None:
        notes.append(setting.note)
    table = CostTable(
        kind="steps",
        name=setting.name,
        description=setting.description,
        parameters={k: _tidy(v) for k, v in fit.parameters.items()},
        provenance=_provenance(setting, command, sum(int(log.seen.sum()) for log in seen), notes),
        held_out={"split": split, **errors["E2E"]},
        fitted_range=_fitted_range([log.times for log in seen]),
        kv=setting.kv,
        max_model_len=setting.max_model_len,
        max_num_batched_tokens=serving.max_num_batched_tokens,
    )
    return RequestTable(table, tuple(notes))


def _split(logs: Sequence[RequestTimes]) -> tuple[list[FitLog], FitLog, str]:
    """(what the fit sees, what it does not, in words)."""
    if len(logs) > 1:
        *rest, last = logs
        whole = [FitLog(log, np.ones(len(log), dtype=np.bool_)) for log in rest]
        test = FitLog(last, np.ones(len(last), dtype=np.bool_))
        return whole, test, f"E2E of all requests of {last.name}, a run the fit never saw"
    log = logs[0]
    block = np.arange(len(log)) * HELD_OUT_BLOCKS // len(log)
    held = block % EVERY == EVERY - 1
    split = (
        f"E2E of requests in {HELD_OUT_BLOCKS // EVERY} of {HELD_OUT_BLOCKS} stretches of time, "
        "whose times the fit never saw"
    )
    return [FitLog(log, ~held)], FitLog(log, held), split


def _known(
    setting: Setting, model: ModelConfig | None, attention: float | None
) -> tuple[dict[str, float], dict[str, str]]:
    """(terms that physics gives, terms that nothing gives and why)."""
    known: dict[str, float] = {}
    missing: dict[str, str] = {}
    if attention is None and model is not None:
        attention = model.attention_tokens_per_pair
    if attention is not None:
        known["attention_tokens_per_pair"] = attention
    else:
        missing["attention_tokens_per_pair"] = "no model whose sizes would tie it to compute"
    titles = {gpu.title: name for name, gpu in GPUS.items()}
    device = titles.get(setting.device, setting.device)
    if model is not None and device in GPUS:
        size = model.kv_bytes_per_token(tp=setting.tensor_parallel)
        bandwidth = BANDWIDTH_SHARE * find_gpu(device).bandwidth_bytes_per_s
        known[CONTEXT] = size / bandwidth * 1000
    else:
        missing[CONTEXT] = (
            "contexts and sequences grow together in request times; give --model and --device "
            "by names that Runway knows, and it comes from the bandwidth"
        )
    return known, missing


def _errors(test: FitLog, serving: Serving, fit: RequestFit) -> dict[str, dict[str, Value]]:
    served = serve(test.times.trace, fit.model, serving, fit.delay)
    times, several = test.times, test.seen & (test.times.output_tokens > 1)
    return {
        "TTFT": _error(served.ttft_ms, times.ttft_ms, test.seen),
        "TPOT": _error(served.tpot_ms, times.tpot_ms, several & (times.tpot_ms > 0)),
        "E2E": _error(served.e2e_ms, times.e2e_ms, test.seen),
    }


def _error(simulated: Floats, measured: Floats, rows: NDArray[np.bool_]) -> dict[str, Value]:
    off = np.abs(simulated[rows] / measured[rows] - 1)
    if not len(off):
        return {"n": 0, "mean": 0.0, "median": 0.0, "p90": 0.0}
    median, p90 = np.percentile(off, (50, 90))
    return {
        "n": len(off),
        "mean": _tidy(off.mean()),
        "median": _tidy(median),
        "p90": _tidy(p90),
    }


def _notes(
    fit: RequestFit, absent: Mapping[str, str], errors: Mapping[str, Mapping[str, Value]]
) -> list[str]:
    off = ", ".join(
        f"{name} {float(str(error['median'])):.1%} (p90 {float(str(error['p90'])):.1%})"
        for name, error in errors.items()
    )
    notes = [f"held-out median error: {off}"]
    if fit.client_delay_ms:
        delay = f"{fit.client_delay_ms:.2f}"
        notes.append(f"client delay {delay} ms, in and out: --client-delay-in-ms {delay}")
    notes.append("knee: step / compute, since a step reads the weights or computes, by physics")
    notes += [f"absent: {name}: {why}" for name, why in absent.items()]
    return notes


def _provenance(
    setting: Setting, command: str, samples: int, notes: Sequence[str]
) -> dict[str, Value]:
    return {
        "origin": "measured: request times of a real engine, fitted by simulation",
        **setting.provenance(command),
        "samples": samples,
        "note": "; ".join(notes),
    }


def _fitted_range(logs: Sequence[RequestTimes]) -> dict[str, Value]:
    prompts = np.concatenate([log.prompt_tokens for log in logs])
    outputs = np.concatenate([log.output_tokens for log in logs])
    return {
        "prompt_tokens": [int(prompts.min()), int(prompts.max())],
        "output_tokens": [int(outputs.min()), int(outputs.max())],
        "decode_seqs": [1, max(log.most_in_flight for log in logs)],
    }


def _tidy(value: float | np.float64) -> float:
    return float(f"{float(value):.{DIGITS}g}")
