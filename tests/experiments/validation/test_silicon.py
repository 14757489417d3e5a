"""The measured servers of AIConfigurator: which rows are used, and the errors reached on some."""

import csv
import gzip
from pathlib import Path

import numpy as np
import pytest

from costmodels.aiconfigurator import is_installed
from experiments.validation import silicon, validate
from experiments.validation.silicon import closed_loop, rank_correlation
from experiments.validation.silicon.reuse import REUSED, flops_needed
from experiments.validation.silicon.servers import NO_CONCURRENCY, Server, read_servers
from simulator.errors import ConfigError

FILE = (
    Path(__file__).resolve().parents[3]
    / "../shared/ground-truth/aic-silicon-5221/silicon_sample.csv.gz"
)
needs_package = pytest.mark.skipif(
    not is_installed(), reason="aiconfigurator-core is not installed"
)

GOOD = {
    **{"source": "gap-analysis/x.csv", "concurrency": "8.0", "batch_size": "8.0", "mode": "agg"},
    **{"backend": "vllm", "model_path": "Qwen/Qwen3-32B", "system": "h100_sxm", "precision": ""},
    **{"backend_version": "0.12.0"},
    **{"isl": "1024", "osl": "128", "gemm_quant_mode": "", "tp_size": "2.0", "pp_size": "1.0"},
    **{"silicon_ttft_ms": "150.0", "silicon_tpot_ms": "18.0"},
}


def written(folder, *changes):
    path = folder / silicon.FILE
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, GOOD)
        writer.writeheader()
        writer.writerows({**GOOD, **change} for change in changes)
    return path


@needs_package
@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"mode": "disagg"}, "prefill and decode on different GPUs"),
        ({"model_path": "openai/gpt-oss-120b"}, "no dense model with bundled sizes"),
        ({"gemm_quant_mode": "nvfp4"}, "four-bit weights"),
        ({"precision": "fp4"}, "four-bit weights"),
        ({"system": "mi300x"}, "no kernels of that GPU or back end"),
        ({"batch_size": "4.0"}, "several replicas or pipeline stages"),
        ({"pp_size": "2.0"}, "several replicas or pipeline stages"),
        ({"concurrency": "", "batch_size": ""}, "no load"),
        ({"osl": "1"}, "one output token"),
    ],
)
def test_a_row_is_left_out_by_a_rule_that_is_named(tmp_path, change, rule):
    servers, excluded = read_servers(written(tmp_path, {}, change))
    assert len(servers) == 1
    assert excluded == {rule: 1}


@needs_package
def test_precision_is_as_recorded_but_for_nvidias_checkpoints(tmp_path):
    fp8 = {"gemm_quant_mode": "fp8", "precision": "fp8"}
    servers, _ = read_servers(
        written(
            tmp_path,
            {},
            fp8,
            {**fp8, "model_path": "nvidia/Llama-3.1-8B-Instruct-FP8"},
            {**fp8, "source": "2026-04-06.csv", "backend": "trtllm"},
        )
    )
    assert [(server.dtype, server.kv_dtype) for server in servers] == [
        ("bfloat16", "bfloat16"),
        ("fp8", "bfloat16"),
        ("fp8_static", "bfloat16"),
        ("fp8_static", "fp8"),
    ]
    assert [server.who for server in servers] == ["NVIDIA", "NVIDIA", "NVIDIA", "InferenceX"]


@needs_package
def test_sglang_mixes_prompts_where_its_loads_are_those_aiconfigurator_proposes(tmp_path):
    by_hand, proposed = (
        {"backend": "sglang", "source": f"gap-analysis/{name}.csv"} for name in ("a", "b")
    )
    load = {"concurrency": "56.0", "batch_size": "56.0"}
    servers, _ = read_servers(written(tmp_path, {}, by_hand, proposed, {**proposed, **load}))
    assert [(server.backend, server.mixes_prompts) for server in servers] == [
        ("vllm", True),
        ("sglang", False),
        ("sglang", True),
        ("sglang", True),
    ]


@needs_package
def test_a_row_without_the_clients_concurrency_is_doubtful(tmp_path):
    path = written(tmp_path, {"concurrency": "", "batch_size": "16.0"}, {})
    servers, excluded = read_servers(path)
    assert [(server.users, server.doubt) for server in servers] == [(8, ""), (16, NO_CONCURRENCY)]
    assert not excluded
    groups = {row.run: row.n for row in validate(tmp_path).rows}
    assert [(run, n) for run, n in groups.items() if run.startswith("all")] == [
        ("all 1", 1),
        ("all 1, and 1 doubtful ones", 2),
    ]


@needs_package
def test_a_recording_beyond_the_gpus_arithmetic_is_doubtful_as_a_whole(tmp_path):
    """8 users, 1,024 + 128 tokens of 62 GFLOP and more, in 20 ms + 127 x 1 ms: 4.1 PFLOP/s, where
    no GEMM of two H100 reaches 2.
    """
    quick = {"silicon_ttft_ms": "20.0", "silicon_tpot_ms": "1.0", "source": "gap-analysis/q.csv"}
    slow = {"source": "gap-analysis/q.csv"}
    servers, excluded = read_servers(written(tmp_path, {}, quick, slow))
    assert [(server.recording.split("/vllm")[0], server.doubt) for server in servers] == [
        ("gap-analysis/x.csv", ""),
        ("gap-analysis/q.csv", REUSED),
        ("gap-analysis/q.csv", REUSED),
    ]
    assert not excluded
    row = servers[0]._replace(ttft_ms=20.0, tpot_ms=1.0)
    each = 2 * 64 * 487_587_840 * 1152 + 4 * 64 * 64 * 128 * 1024**2 / 2
    assert flops_needed(row) == pytest.approx(8 * each / 0.147)


def test_lengths_vary_where_the_benchmark_says_so():
    server = Server("InferenceX", "h", "vllm", "m", "b", "b", 1, 100, 50, 20, 1.0, 1.0)
    varied, fixed = (closed_loop.load(server._replace(who=who)) for who in ("InferenceX", "NVIDIA"))
    assert len(varied) == len(fixed) == 100
    assert (varied.prompt_tokens.min(), varied.prompt_tokens.max()) == (80, 100)
    assert varied.output_tokens.min() >= 40
    assert set(fixed.prompt_tokens.tolist()) == {100}


def test_rank_correlation_shares_the_ranks_of_equal_values():
    """Ranks 1, 2.5, 2.5, 4 against 1, 2, 3, 4: 4.5 / sqrt(4.5 x 5)."""
    rho = rank_correlation(np.array([1.0, 2.0, 2.0, 9.0]), np.array([1.0, 2.0, 3.0, 4.0]))
    assert rho == pytest.approx(4.5 / (4.5 * 5) ** 0.5)


def test_without_the_package_one_message_says_how_to_get_it(tmp_path, monkeypatch):
    written(tmp_path, {})
    monkeypatch.setattr(silicon, "is_installed", lambda: False)
    with pytest.raises(ConfigError, match=r"pip install 'llm-runway\[aic\]'"):
        validate(tmp_path)


@needs_package
@pytest.mark.skipif(not FILE.is_file(), reason="the measured servers are not here")
def test_errors_on_measured_servers_stay_as_small_as_they_are(tmp_path):
    """Every 24th row of short answers and up to 32 users; on all 884 usable rows the median error
    of TPOT is 8.6 % and rho 0.980, on the 309 of InferenceX 4.9 % and 0.989.
    """
    with gzip.open(FILE, "rt") as file:
        reader = csv.DictReader(file)
        small = [
            row
            for row in reader
            if float(row["osl"]) <= 1024 and 1 <= float(row["concurrency"] or 0) <= 32
        ]
    with (tmp_path / silicon.FILE).open("w", newline="") as file:
        writer = csv.DictWriter(file, reader.fieldnames)
        writer.writeheader()
        writer.writerows(small[::24])
    rows = {
        (row.run.split()[0], row.quantity, row.statistic): row
        for row in validate(tmp_path).rows
        if "doubtful" not in row.run
    }
    assert rows["all", "tpot_ms", "median_abs_error"].n > 15
    assert rows["all", "tpot_ms", "median_abs_error"].error < 0.12
    assert rows["all", "tpot_ms", "mape"].error < 0.2
    assert rows["all", "tpot_ms", "rank_correlation"].error > 0.95
    assert rows["InferenceX", "tpot_ms", "mape"].peer == 0.101
    assert [key for key, row in rows.items() if row.peer] == [("InferenceX", "tpot_ms", "mape")]
