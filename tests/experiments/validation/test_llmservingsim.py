"""LLMServingSim's runs: a tiny one made here, and the recorded ones with the errors reached."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from experiments.validation import llmservingsim, validate
from experiments.validation.llmservingsim import opening
from experiments.validation.llmservingsim.compare import served
from experiments.validation.llmservingsim.prefixes import RECENT, block_hashes
from experiments.validation.llmservingsim.prices import (
    cost_model,
    kernel_table,
    split_kv_below,
    usable_blocks,
)
from experiments.validation.llmservingsim.recorded import read_run
from simulator.errors import ConfigError

SHARED = Path(__file__).resolve().parents[3] / "../shared"
RUNS = SHARED / "ground-truth/llmservingsim-vllm019"
needs_runs = pytest.mark.skipif(not RUNS.is_dir(), reason="the recorded runs are not here")

TTFT_MAPE = ("ttft_ms", "mape")
HEADER = (
    "request_index,input_tokens,output_tokens,planned_arrival_ns,shared_prefix_blocks16,arrival_s,"
    "queued_s,scheduled_s,first_token_s,last_token_s"
)
META = """\
vllm_version: 0.19.0
cuda_version: '13.0'
gpu: My GPU
profiled_at: '2026-01-01'
model: meta-llama/Llama-3.1-8B
variant: bf16
tp_degrees: [1, 2]
engine_effective:
  max_num_batched_tokens: 64
  hf_overrides: {intermediate_size: 7168, num_attention_heads: 16, vocab_size: 64128}
"""


def table(path, header, rows):
    path.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n")


def run_folder(folder, *, gpus=1, requests=(), engine=None, one_token_us=1000):
    """GEMMs of 1 ms a layer, attention of 0.5 ms, logits of 10 ms, a link of 20 us and 16 GB/s.

    one_token_us: of the GEMMs, up to 9 tokens.
    """
    profile = folder / "profile"
    profile.mkdir(parents=True)
    (profile / "meta.yaml").write_text(META)
    tp = profile / f"tp{gpus}"
    gemms = [("qkv_proj", n, time_us) for n, time_us in ((1, one_token_us), (9, one_token_us))]
    table(Path(f"{tp}_dense.csv"), "layer,tokens,time_us", [*gemms, ("qkv_proj", 64, 1000)])
    table(
        Path(f"{tp}_per_sequence.csv"),
        "layer,sequences,time_us",
        [("lm_head", n, 10000) for n in (1, 8)],
    )
    attention = [(0, 0, n, kv, 500) for n in (1, 2, 8) for kv in (16, 64)]
    attention += [(n, past, 0, 0, 500) for n in (16, 32, 64) for past in (0, 64)]
    columns = "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us"
    table(Path(f"{tp}_attention.csv"), columns, attention)
    table(folder / "requests.csv", HEADER, requests)
    settings = {
        **{"tensor_parallel_size": gpus, "data_parallel_size": 1},
        **{"max_num_seqs": 8, "max_num_batched_tokens": 64, "max_model_len": None},
        **(engine or {}),
    }
    meta = {"model": "meta-llama/Llama-3.1-8B", "engine_kwargs": settings}
    (folder / "vllm_meta.json").write_text(json.dumps(meta))
    instance = {"npu_mem": {"mem_size": 96, "mem_bw": 1597}}
    cluster = {"link_bw": 16, "link_latency": 20000, "nodes": [{"instances": [instance]}]}
    (folder / "llmservingsim_cluster_config.json").write_text(json.dumps(cluster))
    return folder


def request(row, prompt, output, arrival_s, *, queued_s, first_s, last_s, shared=0):
    planned_ns = round(arrival_s * 1e9)
    times = (arrival_s, queued_s, queued_s, first_s, last_s)
    return (row, prompt, output, planned_ns, shared, *times)


def test_a_run_is_simulated_with_its_own_settings(tmp_path):
    """32 layers x 1.5 ms + 10 ms: a step takes 58 ms. Planned ahead: the second request comes at
    10 ms, is taken in when the first step ends, at 58, and first computes in the third, beside the
    last decode of the first request, whose attention adds 16 ms.
    """
    rows = [
        request(0, 40, 3, 0.0, queued_s=0.0, first_s=0.058, last_s=0.190),
        request(1, 40, 2, 0.01, queued_s=0.058, first_s=0.190, last_s=0.248),
    ]
    run = read_run(run_folder(tmp_path / "one", requests=rows))
    simulated = served(run, kernel_table(run))
    assert simulated.taken_ns.tolist() == [0, 58_000_000]
    times = simulated.times(run.trace.output_tokens)
    for quantity, measured in run.times.items():
        assert times[quantity] == pytest.approx(measured, abs=1e-6), quantity


def test_two_gpus_pay_their_link_twice_a_layer(tmp_path):
    """A prompt of 32 tokens is a message of 256 KiB: 20 us and 16.384 us, 64 times."""
    rows = [request(0, 32, 2, 0.0, queued_s=0.0, first_s=0.003, last_s=0.004)]
    one, two = (
        read_run(run_folder(tmp_path / f"tp{gpus}", gpus=gpus, requests=rows)) for gpus in (1, 2)
    )
    first_ns = [int(served(run, kernel_table(run)).first_token_ns[0]) for run in (one, two)]
    assert first_ns[1] - first_ns[0] == pytest.approx(64 * 36_384, abs=2)


def test_blocks_as_recorded_less_the_null_block_else_from_memory(tmp_path):
    rows = [request(0, 32, 2, 0.0, queued_s=0.0, first_s=0.003, last_s=0.004)]
    folder = run_folder(tmp_path / "one", requests=rows)
    blocks, known = usable_blocks(read_run(folder))
    assert blocks > 30_000
    assert "an estimate" in known
    meta = json.loads((folder / "vllm_meta.json").read_text())
    meta["kv_cache"] = {"num_gpu_blocks": 100, "gpu_memory_utilization": 0.9}
    (folder / "vllm_meta.json").write_text(json.dumps(meta))
    assert usable_blocks(read_run(folder))[0] == 99


def test_attention_of_decodes_splits_below_a_batch_that_fills_the_gpu(tmp_path):
    """8 KV heads: 38 x 8 is 0.8 of 2 x 188 multiprocessors, 37 x 8 is not; two GPUs have 4 each."""
    rows = [request(0, 32, 2, 0.0, queued_s=0.0, first_s=0.003, last_s=0.004)]
    for gpus, below in ((1, 38), (2, 76)):
        run = read_run(run_folder(tmp_path / f"tp{gpus}", gpus=gpus, requests=rows))
        assert split_kv_below(run, kernel_table(run)) == 0
        meta = run.folder / "profile/meta.yaml"
        gpu = "NVIDIA RTX PRO 6000 Blackwell Server Edition"
        meta.write_text(meta.read_text().replace("My GPU", gpu))
        assert split_kv_below(run, kernel_table(run)) == below


def test_batch_sizes_are_vllms_default_unless_recorded(tmp_path):
    rows = [request(0, 32, 2, 0.0, queued_s=0.0, first_s=0.003, last_s=0.004)]
    folder = run_folder(tmp_path / "one", requests=rows, engine={"max_num_seqs": 12})
    assert read_run(folder).graph_sizes == (1, 2, 4, 8, 16, 24)
    meta = json.loads((folder / "vllm_meta.json").read_text())
    meta["resolved_config"] = {"compilation_config": {"cudagraph_capture_sizes": [8, 1]}}
    (folder / "vllm_meta.json").write_text(json.dumps(meta))
    assert read_run(folder).graph_sizes == (1, 8)


def test_a_trace_with_hashes_says_who_shares_a_prefix(tmp_path):
    lengths = np.array([40, 50]), np.array([5, 6]), np.array([0, 2])
    (tmp_path / "run").mkdir()
    hashes, rule = block_hashes(tmp_path / "run", *lengths)
    assert (hashes, rule) == (((0, 1), (0, 1, 2)), RECENT)
    (tmp_path / "traces").mkdir()
    lines = [
        {"timestamp": 0, "input_length": 40, "output_length": 5, "hash_ids": [7, 8]},
        {"timestamp": 9, "input_length": 50, "output_length": 6, "hash_ids": [7, 9, 11]},
    ]
    (tmp_path / "traces/same.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    hashes, rule = block_hashes(tmp_path / "run", *lengths)
    assert hashes == ((7, 8), (7, 9, 11))
    assert "same.jsonl" in rule


def full_steps_run(tmp_path, slower):
    """40 prompts of a full step each, all there at once. A step takes 58 ms, the GEMMs and logits
    of a single token 18; the log is `slower` in the 40 that the prompt adds.
    """
    step_s = 0.018 + 0.040 * slower
    rows = [
        request(i, 64, 1, 0.0, queued_s=0.0, first_s=(i + 1) * step_s, last_s=(i + 1) * step_s)
        for i in range(40)
    ]
    return read_run(run_folder(tmp_path / f"slower-{slower}", requests=rows, one_token_us=250))


@pytest.mark.parametrize("slower", [1.0, 1.07])
def test_the_constant_is_read_off_full_steps_of_the_opening(tmp_path, slower):
    """The first tenth: requests 0 to 3, three spans of one step between them."""
    run = full_steps_run(tmp_path, slower)
    table = kernel_table(run)
    constant = opening.constant_of(run, served(run, table).result, cost_model(run, table))
    assert constant.factor == pytest.approx(slower, abs=0.01)
    assert constant.spans == 3
    assert constant.seen == {0, 1, 2, 3}


def test_requests_that_the_constant_saw_are_not_compared(tmp_path):
    full_steps_run(tmp_path, 1.25)
    report = validate(tmp_path)
    counts = {row.fitted_on: row.n for row in report.rows if row.quantity == "ttft_ms"}
    assert list(counts.values()) == [40, 36]
    errors = [row.error for row in report.rows if (row.quantity, row.statistic) == TTFT_MAPE]
    assert errors == pytest.approx([1 - 58 / 68, 0.0], abs=0.002)


def test_a_folder_without_runs_is_not_recognised(tmp_path):
    assert not llmservingsim.recognises(tmp_path)
    with pytest.raises(ConfigError, match="holds no known dataset"):
        validate(tmp_path)


def test_a_missing_column_and_an_unknown_model_are_named(tmp_path):
    rows = [request(0, 32, 2, 0.0, queued_s=0.0, first_s=0.003, last_s=0.004)]
    folder = run_folder(tmp_path / "one", requests=rows)
    text = (folder / "vllm_meta.json").read_text()
    (folder / "vllm_meta.json").write_text(text.replace("Llama-3.1-8B", "Gemma-9"))
    with pytest.raises(ConfigError, match="'meta-llama/Gemma-9' is not among the bundled sizes"):
        validate(tmp_path)
    csv_text = (folder / "requests.csv").read_text()
    (folder / "requests.csv").write_text(csv_text.replace("queued_s", "queue_s"))
    with pytest.raises(ConfigError, match=r"requests\.csv: column queued_s missing"):
        validate(tmp_path)


def test_a_run_that_cannot_be_priced_is_noted_and_the_others_are_compared(tmp_path):
    rows = [request(0, 32, 2, 0.0, queued_s=0.0, first_s=0.003, last_s=0.004)]
    run_folder(tmp_path / "good", requests=rows)
    strange = run_folder(tmp_path / "strange", requests=rows) / "vllm_meta.json"
    strange.write_text(strange.read_text().replace("Llama-3.1-8B", "Gemma-9"))
    report = validate(tmp_path)
    assert {row.run for row in report.rows} == {"good"}
    assert any(note.startswith("strange is left out: ") for note in report.notes)


@pytest.fixture(scope="module")
def errors(llmservingsim_report):
    """(run, fitted on nothing?, quantity, statistic) -> error of the recorded runs."""
    return {
        (row.run, row.fitted_on == "nothing", row.quantity, row.statistic): row
        for row in llmservingsim_report.rows
    }


@needs_runs
@pytest.mark.parametrize(
    ("run", "unfitted", "means", "mapes"),
    [
        ("rtx4090_llama-3.1-8b", True, (0.005, 0.005, 0.005), (0.032, 0.019, 0.007)),
        ("rtxpro6000_llama-3.1-8b", False, (0.005, 0.005, 0.005), (0.043, 0.013, 0.011)),
        ("rtxpro6000_qwen3-30b-a3b_dp2ep2", False, (0.015, 0.015, 0.015), (0.108, 0.017, 0.016)),
    ],
)
def test_errors_on_recorded_runs_stay_as_small_as_they_are(errors, run, unfitted, means, mapes):
    for quantity, mean, mape in zip(("ttft_ms", "tpot_ms", "e2el_ms"), means, mapes, strict=True):
        assert abs(errors[run, unfitted, quantity, "mean"].error) < mean, quantity
        assert errors[run, unfitted, quantity, "mape"].error < mape, quantity


@needs_runs
def test_the_peers_errors_are_those_it_published(errors):
    """Its summary of the RTX PRO 6000 run: -4.0, -1.0 and -1.8 %."""
    for quantity, published in (("ttft_ms", -0.040), ("tpot_ms", -0.010), ("e2el_ms", -0.018)):
        row = errors["rtxpro6000_llama-3.1-8b", True, quantity, "mean"]
        assert row.peer == pytest.approx(published, abs=6e-4)


@needs_runs
def test_measured_times_are_those_of_the_authors_summary():
    """Mean TTFT and E2E of the RTX 4090 run: 65,456.6 and 86,578.3 ms."""
    run = read_run(RUNS / "rtx4090_llama-3.1-8b")
    assert run.times["ttft_ms"].mean() == pytest.approx(65_456.6, abs=0.06)
    assert run.times["e2el_ms"].mean() == pytest.approx(86_578.3, abs=0.06)
    with (RUNS / "rtx4090_llama-3.1-8b/requests.csv").open() as file:
        assert len(run.trace) == len(list(csv.DictReader(file)))
