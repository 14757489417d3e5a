"""Validation on AIConfigurator's step logs: on a run whose truth is known, and on the real ones."""

from pathlib import Path

import pandas as pd
import pytest

from experiments.validation import validate
from experiments.validation.aic_fpm import recognises
from experiments.validation.aic_fpm.first_order import LoggedStep, first_order, subsets
from experiments.validation.aic_fpm.prices import gpu_of, splits_of, steps_of
from experiments.validation.aic_fpm.replay import arrivals_of
from experiments.validation.aic_fpm.rows import prices_by, schedule
from experiments.validation.aic_fpm.runs import read_run
from simulator.errors import ConfigError

from .recorded_run import BUDGET, CLIENTS, ORDER, write_run

REAL = (
    Path(__file__).resolve().parents[3] / "../shared/ground-truth/aic-fpm-b300-vllm0201"
).resolve()


def rows_of(report):
    return {(row.fitted_on.split(":")[0], row.quantity, row.statistic): row for row in report.rows}


def by_name(rows):
    return {(row.quantity, row.statistic): row for row in rows}


@pytest.mark.parametrize("alignment", [0, 128])
def test_a_run_of_the_same_engine_is_matched_exactly(tmp_path, alignment):
    """Order of arrival, steps, E2E and prices are found from the files alone."""
    write_run(tmp_path, alignment=alignment)
    run = read_run(tmp_path, "mine_tp2_ep1")
    assert (run.clients, run.budget, run.alignment) == (CLIENTS, BUDGET, alignment or 1)
    assert tuple(arrivals_of(run).order) == ORDER
    report = validate(tmp_path)
    rows = rows_of(report)
    assert rows["nothing", "step sequence", "differing"].error == 0
    assert rows["nothing", "step sequence", "steps"].error == 0
    assert abs(rows["nothing", "e2el_ms", "largest difference"].error) < 1e-3
    split = "sweep + first 30% of the real steps"
    assert rows[split, "step_ms (decode)", "mape"].error < 0.01
    assert rows[split, "e2el_ms", "mape"].error < 0.02
    assert abs(rows[split, "makespan_s", "whole run"].error) < 0.01
    ended = rows[split, "e2el_ms (ended in the test part)", "mape"]
    assert ended.error < 0.02
    assert [len(samples.measured) for samples in report.samples] == [ended.n]
    assert ended.n < rows[split, "e2el_ms", "mape"].n
    assert any("sizes of mine are not known" in note for note in report.notes)
    assert any("no file names it: taken to be NVIDIA B300 SXM" in note for note in report.notes)


def test_a_lost_request_is_said_and_the_rest_compared(tmp_path):
    """Of one request nothing is known but that its prompt was computed: it has no row."""
    requests = write_run(tmp_path)
    lost = requests[requests.request_index != requests.request_index.max()]
    lost.to_csv(tmp_path / "mine_tp2_ep1.requests.csv.gz", index=False)
    report = validate(tmp_path)
    assert any("more than the requests have: a request was lost" in note for note in report.notes)
    assert rows_of(report)["nothing", "e2el_ms", "mape"].n == len(lost) - CLIENTS


def test_a_failed_request_that_was_computed_is_simulated_but_not_compared(tmp_path):
    requests = write_run(tmp_path)
    requests.loc[requests.request_index == 220, "e2e_seconds"] = None
    requests.to_csv(tmp_path / "mine_tp2_ep1.requests.csv.gz", index=False)
    report = validate(tmp_path)
    assert "mine_tp2_ep1: 1 requests failed and have no E2E (computed)" in report.notes
    rows = rows_of(report)
    assert rows["nothing", "e2el_ms", "mape"].n == len(requests) - CLIENTS - 1
    assert rows["nothing", "step sequence", "differing"].error == 0


def test_where_no_order_fits_requests_come_by_number_and_that_is_said(tmp_path):
    write_run(tmp_path)
    path = tmp_path / "mine_tp2_ep1.steps.csv.gz"
    steps = pd.read_csv(path)
    steps["var_prefill_length"] += 7
    steps.to_csv(path, index=False)
    report = validate(tmp_path)
    assert any("no order of the first 6 requests fits the log" in note for note in report.notes)
    assert rows_of(report)["nothing", "step sequence", "differing"].error > 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda steps, _: steps.drop(steps[steps.workload_segment == "sweep"].index), "needs both"),
        (lambda steps, _: steps.rename(columns={"latency_ms": "ms"}), "column latency_ms missing"),
    ],
)
def test_files_of_another_kind_are_refused(tmp_path, change, message):
    write_run(tmp_path)
    path = tmp_path / "mine_tp2_ep1.steps.csv.gz"
    change(pd.read_csv(path), None).to_csv(path, index=False)
    with pytest.raises(ConfigError, match=message):
        validate(tmp_path)


def test_requests_without_a_column_are_refused(tmp_path):
    write_run(tmp_path).drop(columns="prompt_tokens").to_csv(
        tmp_path / "mine_tp2_ep1.requests.csv.gz", index=False
    )
    with pytest.raises(ConfigError, match="column prompt_tokens missing"):
        validate(tmp_path)


def test_a_folder_without_runs_is_not_recognised(tmp_path):
    assert not recognises(tmp_path)
    write_run(tmp_path)
    assert recognises(tmp_path)


def test_the_gpu_is_named_by_layer_timings_or_a_description(tmp_path):
    (tmp_path / "SOURCE.md").write_text("measured on one NVIDIA H100 SXM5")
    assert gpu_of(tmp_path)[0].title == "NVIDIA H100 SXM"
    timings = pd.DataFrame({"system": ["NVIDIA B300 SXM6 AC"], "latency_ms": [1.0]})
    timings.to_csv(tmp_path / "layerwise_perf_x.csv.gz", index=False)
    assert gpu_of(tmp_path)[0].title == "NVIDIA B300 SXM"


def test_an_order_is_read_off_sums_and_variances():
    """Prompts of 60, 30, 10 and 50 under a budget of 100: 30 and 60 first, then 50 (cut at 10
    tokens) and 10: only this order makes the sums."""
    prompts = [60, 30, 10, 50]
    log = [
        LoggedStep(100, 3, 0, 155.556, 0, 0),
        LoggedStep(50, 2, 10, 400.0, 2, 90),
        LoggedStep(0, 0, 0, 0.0, 4, 152),
    ]
    found = first_order(prompts, log, clients=4, budget=100, alignment=1)
    assert found is not None
    assert found.order == [0, 1, 3, 2]
    assert found.step == [0, 0, 0, 1]
    assert first_order(prompts, log[:1], clients=4, budget=100, alignment=1) is None


def test_subsets_of_a_sum():
    sizes = dict(enumerate([5, 5, 3, 2, 7]))
    assert sorted(subsets(range(5), sizes, 10, 2)) == [(0, 1), (2, 4)]
    assert sorted(subsets(range(5), sizes, 10, 3)) == [(0, 2, 3), (1, 2, 3)]
    assert list(subsets(range(5), sizes, 0, 0)) == [()]
    assert list(subsets(range(5), sizes, 4, 0)) == []


@pytest.fixture
def real():
    """A measured run, by name."""

    def read(name):
        if not (REAL / f"{name}.steps.csv.gz").is_file():
            pytest.skip("the measured runs are not beside this checkout")
        return read_run(REAL, name)

    return read


DENSE = [f"qwen3-32b_tp{tp}_ep1" for tp in (1, 2, 4)]
HYBRID = [f"qwen3.6-35b-a3b_tp{tp}_ep1" for tp in (1, 2)]


@pytest.mark.parametrize("name", DENSE)
def test_measured_dense_runs_step_by_step(real, name):
    """With measured step times: the same steps, and E2E within 2 ms."""
    rows = by_name(schedule(real(name))[0].rows)
    assert rows["step sequence", "differing"].error == 0
    worst = rows["e2el_ms", "largest difference"]
    assert abs(worst.predicted - worst.measured) < 2


@pytest.mark.parametrize("name", HYBRID)
def test_measured_hybrid_runs_step_by_step(real, name):
    """Steps are shorter than the client's jitter: exact only with all arrivals off the log."""
    rows = by_name(schedule(real(name))[0].rows)
    assert rows["step sequence (all arrivals from the log)", "differing"].error == 0
    assert rows["e2el_ms", "mape"].error < 0.002


@pytest.mark.parametrize(
    ("name", "split", "decode", "mixed", "e2e", "makespan"),
    [
        (DENSE[0], 0, 0.022, 0.025, 0.012, 0.005),
        (DENSE[1], 0, 0.040, 0.038, 0.008, 0.010),
        (DENSE[2], 0, 0.021, 0.032, 0.007, 0.010),
        (DENSE[0], 1, 0.029, 0.031, 0.019, 0.006),
        (DENSE[1], 1, 0.039, 0.042, 0.020, 0.005),
        (DENSE[2], 1, 0.018, 0.050, 0.009, 0.006),
        (HYBRID[0], 0, 0.044, 0.035, 0.029, 0.025),
        (HYBRID[1], 0, 0.027, 0.038, 0.013, 0.008),
        (HYBRID[1], 1, 0.046, 0.084, 0.045, 0.036),
    ],
)
def test_prices_fitted_to_a_part_of_a_measured_run(real, name, split, decode, mixed, e2e, makespan):
    """The errors reached on steps and requests that the fit never saw, and a little more.

    split 0: sweep and the first 30 % of the real steps; 1: the sweep alone.
    """
    run = real(name)
    steps = steps_of(run)
    chosen = splits_of(run, steps)[split]
    rows = by_name(prices_by(run, gpu_of(REAL)[0], chosen, steps, schedule(run)[1]).rows)
    assert rows["step_ms (decode)", "mape"].error < decode
    assert rows["step_ms (mixed)", "mape"].error < mixed
    assert rows["e2el_ms", "mape"].error < e2e
    assert abs(rows["makespan_s", "whole run"].error) < makespan
