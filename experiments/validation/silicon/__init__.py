"""Measured TTFT and TPOT of many servers, against closed loops priced from NVIDIA's kernels.

`silicon_sample.csv` of AIConfigurator: a row is a server under constant concurrency. Nothing is
fitted. Kernels come from the package `aiconfigurator-core`: the same GPU, back end and dtype, in a
newer version than the server's. What a row does not say is assumed alike for all: a budget of
8,192 tokens, users that send their next request at once, five requests each, all starting together.
TensorRT-LLM and vLLM are scheduled by `vllm`, SGLang by `sglang`: its prompts go before decodes, or
beside them in recordings of servers that AIConfigurator's generator launched. Doubtful are rows
without a client's concurrency, and recordings whose servers cannot have computed all prompts
(`reuse`): they are in one row of the table, beside all others, and nowhere else.

Source: https://github.com/ai-dynamo/aiconfigurator, `systems/silicon_sample.csv` (Apache-2.0).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from costmodels.aiconfigurator import PACKAGE, is_installed
from experiments.validation.report import DatasetReport, Row, Samples
from simulator.errors import ConfigError

from .closed_loop import predicted_ms
from .servers import Server, read_servers

FILE = "silicon_sample.csv"
SOURCE = "NVIDIA AIConfigurator, silicon_sample.csv (Apache-2.0)"
UNFITTED = "nothing"
PEER = 0.101
PEER_NOTE = "peer: NVIDIA's AISimulate, mean error of step time on its own 1,135 points"
"""As the accuracy page of BLIS's latency kernel reports it."""

Floats = NDArray[np.float64]


def recognises(folder: Path) -> bool:
    """Does the folder hold the file?"""
    return _file(folder) is not None


def validate(folder: Path) -> DatasetReport:
    """Simulate every usable row and compare.

    Raises:
        ConfigError: no such file, or the package with the kernels is not installed.
    """
    path = _file(folder)
    if path is None:
        raise ConfigError(f"{folder}: no {FILE}")
    if not is_installed():
        raise ConfigError(
            f"{path} is priced from kernels of the package {PACKAGE}, which is not installed: "
            "pip install 'llm-runway[aic]'"
        )
    servers, excluded = read_servers(path)
    if not [server for server in servers if not server.doubt]:
        raise ConfigError(f"{path}: no row is usable: {_counted(excluded)}")
    predicted = np.array([predicted_ms(server) for server in servers])
    measured = np.array([(server.ttft_ms, server.tpot_ms) for server in servers])
    rows: list[Row] = []
    samples: list[Samples] = []
    for group, chosen, is_drawn in _groups(servers):
        for column, quantity in ((1, "tpot_ms"), (0, "ttft_ms")):
            pairs = Samples(
                group, quantity, measured[chosen][:, column], predicted[chosen][:, column]
            )
            rows += _compared(pairs)
            samples += [pairs] if is_drawn else []
    return DatasetReport("silicon", SOURCE, tuple(rows), tuple(samples), _notes(servers, excluded))


def _file(folder: Path) -> Path | None:
    found = [folder / name for name in (FILE, f"{FILE}.gz") if (folder / name).is_file()]
    return found[0] if found else None


def _groups(servers: list[Server]) -> Iterator[tuple[str, NDArray[np.bool_], bool]]:
    """(label, rows, whether figures show them): all; of each origin, with each back end, each kind.

    A kind is a model and a dtype, on a back end and a GPU.
    """
    sure = np.array([not server.doubt for server in servers])
    yield f"all {sure.sum()}", sure, False
    if not sure.all():
        doubtful = len(servers) - sure.sum()
        yield (
            f"all {sure.sum()}, and {doubtful} doubtful ones",
            np.ones(len(servers), np.bool_),
            False,
        )
    for labels, is_drawn in (
        ([s.who for s in servers], False),
        ([f"{s.who}, {s.backend}" for s in servers], True),
        ([f"{s.who}: {s.model} {s.dtype}, {s.backend} on {s.system}" for s in servers], False),
    ):
        for label in sorted({*labels}):
            chosen = sure & np.array([held == label for held in labels])
            if chosen.any():
                yield label, chosen, is_drawn


def _compared(pairs: Samples) -> list[Row]:
    off = pairs.predicted / pairs.measured - 1
    n = len(off)

    def row(statistic: str, error: float, note: str = "") -> Row:
        return Row(
            *(pairs.run, pairs.quantity, statistic, None, None, error, n, UNFITTED), note=note
        )

    peer = PEER if (pairs.run, pairs.quantity) == ("InferenceX", "tpot_ms") else None
    rows = [
        row("median_abs_error", float(np.median(np.abs(off)))),
        replace(row("mape", float(np.abs(off).mean()), PEER_NOTE if peer else ""), peer=peer),
        row("median_error", float(np.median(off))),
    ]
    if n > 2:
        rho = rank_correlation(pairs.measured, pairs.predicted)
        rows.append(row("rank_correlation", rho, "Spearman's rho, not an error"))
    return rows


def rank_correlation(left: Floats, right: Floats) -> float:
    """Spearman's rho: the correlation of ranks; equal values share their mean rank.

    >>> round(rank_correlation(np.array([1.0, 2.0, 3.0]), np.array([10.0, 30.0, 20.0])), 6)
    0.5
    """
    return float(np.corrcoef(_ranks(left), _ranks(right))[0, 1])


def _ranks(values: Floats) -> Floats:
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    return np.asarray((last - (count - 1) / 2)[place], np.float64)


def _counted(excluded: Counter[str]) -> str:
    return ", ".join(f"{count} {rule}" for rule, count in sorted(excluded.items()))


def _notes(servers: list[Server], excluded: Counter[str]) -> tuple[str, ...]:
    doubts = Counter(server.doubt for server in servers if server.doubt)
    return (
        f"{len(servers) - doubts.total()} rows used; left out: {_counted(excluded)}; doubtful: "
        f"{_counted(doubts)}",
        "NVIDIA's AISimulate reports 10.1 % mean error of step time on a like set of InferenceX "
        "rows (its own snapshot of 1,135 points)",
        "FP8 is priced as recorded (inputs scaled as they come), but for NVIDIA's checkpoints, "
        "whose scales are static; that was decided after both had been seen",
        "that prompts are mixed into decodes where AIConfigurator's generator launched SGLang, and "
        "the rules that doubt rows without concurrency and recordings with re-used prompts, look "
        "at no error, but were written after errors had been seen",
        "TTFT is weak: it depends on how the clients start and on settings that are not recorded",
    )
