"""Prices from request times alone: logs simulated with known prices, which must come back."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from calibration.from_requests import main
from calibration.request_cells import FitLog
from calibration.request_fit import fit_requests
from calibration.request_times import RequestTimes, read_request_times
from calibration.served import Serving, serve
from costmodels import StepsCostModel
from costmodels.table import load_table
from simulator import ClientDelay, Trace
from simulator.errors import ConfigError, WorkloadError
from simulator.units import NS_PER_MS, NS_PER_S

SERVING = Serving(max_num_batched_tokens=2048, max_num_seqs=64, kv_blocks=5000)
CONTEXT_MS = 1e-4
TRUTH = StepsCostModel(
    step_ms=10,
    compute_ms_per_token=0.05,
    knee_tokens=200,
    decode_ms_per_sequence=0.06,
    decode_ms_per_context_token=CONTEXT_MS,
)


def simulated(rate: float, requests: int, seed: int, *, alike: bool = False) -> RequestTimes:
    """A log of an engine with the prices above behind 5 ms of HTTP."""
    rng = np.random.default_rng(seed)
    gaps = rng.exponential(NS_PER_S / rate, requests)
    prompts = np.clip(rng.lognormal(6, 0.7, requests), 16, 3000).astype(np.int64)
    outputs = np.clip(rng.lognormal(3.5, 0.6, requests), 2, 200).astype(np.int64)
    if alike:
        prompts[:], outputs[:] = 500, 40
    arrival_ns = np.cumsum(gaps).astype(np.int64)
    arrival_ns -= arrival_ns[0]
    trace = Trace(arrival_ns=arrival_ns, prompt_tokens=prompts, output_tokens=outputs)
    served = serve(trace, TRUTH, SERVING, ClientDelay(request_ns=5 * NS_PER_MS))
    return RequestTimes(
        f"{rate:g}-per-s", arrival_ns, prompts, outputs, served.ttft_ms, served.e2e_ms
    )


def seen(times: RequestTimes) -> FitLog:
    return FitLog(times, np.ones(len(times), dtype=np.bool_))


def write(times: RequestTimes, path: Path) -> Path:
    """JSON lines, as a benchmark client would."""
    rows = zip(
        *(times.arrival_ns / 1e9, times.prompt_tokens, times.output_tokens),
        *(times.ttft_ms, times.e2e_ms),
        strict=True,
    )
    names = ("send_s", "prompt_tokens", "output_tokens", "ttft_ms", "e2el_ms")
    path.write_text(
        "".join(json.dumps(dict(zip(names, map(float, r), strict=True))) + "\n" for r in rows)
    )
    return path


def test_known_prices_come_back_from_two_logs_of_request_times() -> None:
    logs = [seen(simulated(4, 150, 1)), seen(simulated(12, 200, 2))]

    fit = fit_requests(logs, SERVING, known={"decode_ms_per_context_token": CONTEXT_MS})

    assert fit.unidentified == {}
    assert fit.parameters["step_ms"] == pytest.approx(10, rel=0.02)
    assert fit.parameters["compute_ms_per_token"] == pytest.approx(0.05, rel=0.05)
    assert fit.parameters["decode_ms_per_sequence"] == pytest.approx(0.06, rel=0.35)
    assert fit.client_delay_ms == pytest.approx(5, rel=0.2)
    knee = fit.parameters["step_ms"] / fit.parameters["compute_ms_per_token"]
    assert fit.parameters["knee_tokens"] == knee


def test_requests_served_one_at_a_time_price_no_sequence() -> None:
    fit = fit_requests(
        [seen(simulated(0.02, 60, 3))], SERVING, known={"decode_ms_per_context_token": CONTEXT_MS}
    )

    assert "decode_ms_per_sequence" not in fit.parameters
    assert "the log" in fit.unidentified["decode_ms_per_sequence"]


def test_a_log_of_a_single_shape_is_refused() -> None:
    with pytest.raises(ConfigError, match="one shape: prompts of 500 to 500 tokens at one rate"):
        fit_requests([seen(simulated(1, 100, 4, alike=True))], SERVING)


def test_the_command_holds_a_run_out_and_says_what_is_absent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs = [
        write(simulated(rate, 40, seed), tmp_path / f"{rate}.jsonl")
        for rate, seed in ((4, 1), (10, 2), (7, 3))
    ]
    output = tmp_path / "mine.yaml"

    status = main(
        [*map(str, logs), "-o", str(output), "--max-num-seqs", "64", "--kv-blocks", "5000"]
    )

    assert status == 0
    table, told = load_table(output), capsys.readouterr().out
    assert table.is_measured
    assert (table.kind, table.name, table.held_out["n"]) == ("steps", "mine", 40)
    assert "7.jsonl, a run the fit never saw" in table.held_out["split"]
    assert table.held_out["median"] < 0.05
    for absent in ("decode_ms_per_context_token", "attention_tokens_per_pair"):
        assert f"absent: {absent}" in told
    assert "--client-delay-in-ms" in table.provenance["note"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ttft_ms": "x"}, "request 1: ttft_ms is 'x': must be a number, at least 0"),
        ({"prompt_tokens": 0}, "request 1: prompt_tokens is '0': must be a number, at least 1"),
        ({"e2el_ms": 0.5}, "request 1: E2E is below TTFT"),
        ({"ttft_ms": None, "tfft_ms": 1}, "no column ttft_s, ttft_ms or ttft_us, did you mean"),
    ],
)
def test_bad_logs_are_refused_by_row_and_column(
    tmp_path: Path, change: dict[str, object], message: str
) -> None:
    rows = [
        {"send_s": k, "prompt_tokens": 5, "output_tokens": 2, "ttft_ms": 1.0, "e2el_ms": 2.0}
        for k in range(40)
    ]
    rows[0] |= change
    if "tfft_ms" in change:
        rows = [{k: v for k, v in {**row, "tfft_ms": 1}.items() if k != "ttft_ms"} for row in rows]
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))

    with pytest.raises(WorkloadError, match=message):
        read_request_times(path)


def test_times_are_read_in_any_unit_and_from_the_planned_arrival_behind_a_cap(
    tmp_path: Path,
) -> None:
    path = tmp_path / "log.csv"
    lines = [f"{2000 + k},{3000 + 2 * k},7,2,1500,2500" for k in range(40)]
    header = "arrival_us,send_us,input_tokens,output_tokens,ttft_us,e2e_us"
    path.write_text("\n".join([header, *lines]))

    sent, planned = read_request_times(path), read_request_times(path, planned=True)

    assert sent.arrival_ns[:2].tolist() == [0, 2000]
    assert planned.arrival_ns[:2].tolist() == [0, 1000]
    assert (sent.ttft_ms[0], sent.e2e_ms[0], sent.tpot_ms[0]) == (1.5, 2.5, 1.0)
    assert sent.most_in_flight == 40


def test_a_cache_that_could_not_have_served_the_log_is_refused() -> None:
    times = simulated(4, 40, 1)
    small = Serving(max_num_batched_tokens=2048, max_num_seqs=64, kv_blocks=20)
    with pytest.raises(ConfigError, match="kv_blocks 20 of 16 hold fewer"):
        serve(times.trace, TRUTH, small, ClientDelay())
