"""`runway compare`: each format by a small hand-made file, matching, differences, the verdict."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.compare import Log, compare, read_log
from experiments.compare.files import load_comparison
from experiments.compare.log import pooled
from experiments.compare.matching import match
from experiments.config import load_config
from experiments.run import run_config, write_run
from simulator.errors import ConfigError

from .conftest import Runway

VLLM: dict[str, Any] = {
    "backend": "vllm",
    "request_rate": "inf",
    "max_concurrency": None,
    "duration": 2.0,
    "completed": 2,
    "failed": 1,
    "total_input_tokens": 300,
    "total_output_tokens": 5,
    "request_throughput": 1.0,
    "request_goodput": None,
    "output_throughput": 2.5,
    "total_token_throughput": 152.5,
    "mean_ttft_ms": 150.0,
    "median_ttft_ms": 150.0,
    "std_ttft_ms": 50.0,
    "p99_ttft_ms": 199.0,
    "mean_tpot_ms": 12.5,
    "median_tpot_ms": 12.5,
    "p99_tpot_ms": 14.95,
    "mean_itl_ms": 13.3333,
    "median_itl_ms": 10.0,
    "p99_itl_ms": 19.8,
}
DETAILS: dict[str, Any] = {
    "input_lens": [100, 200, 50],
    "output_lens": [3, 2, 0],
    "ttfts": [0.1, 0.2, 0.0],
    "itls": [[0.01, 0.02], [0.01], []],
    "start_times": [1000.5, 1001.0, 1002.0],
    "generated_texts": ["", "", ""],
    "errors": ["", "", "refused"],
}
AIPERF = [
    {
        "metadata": {"request_start_ns": 2_000_000_000, "conversation_id": "b"},
        "metrics": {
            "input_sequence_length": {"value": 200, "unit": "tokens"},
            "time_to_first_token": {"value": 200.0, "unit": "ms"},
            "request_latency": {"value": 210.0, "unit": "ms"},
            "output_sequence_length": {"value": 2, "unit": "tokens"},
            "inter_token_latency": {"value": 10.0, "unit": "ms"},
            "inter_chunk_latency": {"value": [10.0], "unit": "ms"},
        },
        "error": None,
    },
    {
        "metadata": {"request_start_ns": 1_000_000_000, "conversation_id": "a"},
        "metrics": {
            "input_sequence_length": {"value": 100, "unit": "tokens"},
            "time_to_first_token": {"value": 100.0, "unit": "ms"},
            "request_latency": {"value": 130.0, "unit": "ms"},
            "output_sequence_length": {"value": 3, "unit": "tokens"},
            "inter_token_latency": {"value": 15.0, "unit": "ms"},
            "inter_chunk_latency": {"value": [10.0, 20.0], "unit": "ms"},
        },
        "error": None,
    },
    {
        "metadata": {"request_start_ns": 3_000_000_000, "conversation_id": "c"},
        "metrics": {"error_isl": {"value": 50, "unit": "tokens"}},
        "error": {"code": 499, "type": "RequestCancellationError", "message": "cancelled"},
    },
]
AIPERF_SUMMARY: dict[str, Any] = {
    "request_throughput": {"unit": "requests/sec", "avg": 1.0},
    "request_latency": {"unit": "ms", "avg": 170.0, "p50": 170.0, "p90": 202.0, "p99": 209.2},
    "time_to_first_token": {"unit": "ms", "avg": 150.0, "p50": 150.0, "p90": 190.0, "p99": 199.0},
    "inter_token_latency": {"unit": "ms", "avg": 12.5, "p50": 12.5, "p90": 14.5, "p99": 14.95},
    "output_token_throughput": {"unit": "tokens/sec", "avg": 2.5},
    "benchmark_duration": {"unit": "sec", "avg": 2.0},
    "was_cancelled": False,
    "goodput": None,
    "input_config": {"endpoint": {"streaming": True}},
}
AIPERF_CSV = """\
Metric,avg,min,max,p99,p90,p75,p50,std
Time to First Token (ms),"1,150.00",100.00,200.00,199.00,190.00,175.00,150.00,50.00
Inter Token Latency (ms),12.50,10.00,15.00,14.95,14.50,13.75,12.50,2.50
Output Sequence Length (tokens),2.50,2.00,3.00,2.99,2.90,2.75,2.50,0.50

Metric,Value
Output Token Throughput (tokens/sec),2.50
Request Throughput (requests/sec),1.00
"""
CHUNK = 'data: {"choices":[{"index":0,"delta":{"content":"%s"},"finish_reason":null}]}\n\n'
ROLE = 'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n'
GENAI_PERF = {
    "service_kind": "openai",
    "experiments": [
        {
            "experiment": {"mode": "concurrency", "value": 1},
            "requests": [
                {
                    "timestamp": 1_000_000_000,
                    "response_timestamps": [1_050_000_000, 1_100_000_000, 1_110_000_000] * 1
                    + [1_130_000_000, 1_131_000_000],
                    "response_outputs": [
                        {"response": text}
                        for text in (
                            ROLE,
                            CHUNK % "a",
                            CHUNK % "b",
                            CHUNK % "c",
                            "data: [DONE]\n\n",
                        )
                    ],
                },
                {
                    "timestamp": 2_000_000_000,
                    "response_timestamps": [2_200_000_000, 2_210_000_000],
                    "response_outputs": [{"text_output": " I"}, {"text_output": " am"}],
                },
            ],
        }
    ],
}
GUIDELLM = {
    "benchmarks": [
        {
            "duration": 2.0,
            "metrics": {
                "requests_per_second": {"successful": {"mean": 1.0}},
                "output_tokens_per_second": {"successful": {"mean": 2.5}},
                "time_to_first_token_ms": {
                    "successful": {"mean": 150.0, "median": 150.0, "percentiles": {"p99": 199.0}}
                },
                "inter_token_latency_ms": {
                    "successful": {"mean": 12.5, "count": 2, "percentiles": {"p50": 12.5}}
                },
                "time_per_output_token_ms": {"successful": {"mean": 74.2, "percentiles": {}}},
                "request_latency": {"successful": {"mean": 0.17, "percentiles": {"p50": 0.17}}},
            },
        }
    ]
}
ROWS = [
    {"id": "a", "prompt_tokens": 100, "output_tokens": 3, "ttft_ms": 100.0, "e2el_ms": 130.0},
    {"id": "b", "prompt_tokens": 200, "output_tokens": 2, "ttft_ms": 200.0, "e2el_ms": 210.0},
]


def saved(folder: Path, name: str, content: Any) -> Path:
    """A file with this content: text as it is, a list of lines as JSON lines, else JSON."""
    path = folder / name
    if isinstance(content, str):
        path.write_text(content)
    elif name.endswith("jsonl"):
        path.write_text("\n".join(map(json.dumps, content)) + "\n")
    else:
        path.write_text(json.dumps(content))
    return path


def check_two_requests(log: Log) -> None:
    """TTFT 100 and 200, E2E 130 and 210 ms; 3 and 2 tokens, so TPOT 15 and 10 ms."""
    assert log.samples("ttft_ms").tolist() == pytest.approx([100, 200])
    assert log.samples("e2el_ms").tolist() == pytest.approx([130, 210])
    assert log.samples("tpot_ms").tolist() == pytest.approx([10, 15])
    assert log.statistics("ttft_ms") == pytest.approx(
        {"mean": 150, "p50": 150, "p90": 190, "p99": 199, "n": 2}
    )
    assert log.tokens("prompt_tokens") == 300, "the prompt of a failed request is not counted"
    assert log.tokens("output_tokens") == 5


def test_vllm_bench_with_single_requests(tmp_path: Path) -> None:
    log = read_log(saved(tmp_path, "vllm.json", VLLM | DETAILS))
    assert log.kind == "vllm bench serve"
    check_two_requests(log)
    assert log.statistics("itl_ms") == pytest.approx(
        {"mean": 40 / 3, "p50": 10, "p90": 18, "p99": 19.8, "n": 3}
    )
    assert len(log) == 3, "the failed request keeps its place"
    assert log.requests["arrival_s"].tolist() == [0, 0.5, 1.5]
    assert log.rates["output_throughput"] == 2.5
    assert "request_goodput" not in log.rates
    assert any("1 requests failed" in note for note in log.notes)
    assert any("sent at once" in note for note in log.notes)


def test_vllm_bench_without_them_has_its_statistics(tmp_path: Path) -> None:
    log = read_log(saved(tmp_path, "vllm.json", VLLM))
    assert log.statistics("ttft_ms") == {"mean": 150.0, "p50": 150.0, "p99": 199.0}
    assert log.statistics("itl_ms")["p99"] == 19.8
    assert len(log) == 0
    assert any("--save-detailed" in note for note in log.notes)


def test_responses_of_several_tokens_are_no_itl(tmp_path: Path) -> None:
    few = {**DETAILS, "output_lens": [30, 20, 0]}
    log = read_log(saved(tmp_path, "vllm.json", VLLM | few))
    assert any(note.startswith("3 gaps for 48 tokens") for note in log.notes)


def test_aiperf_s_inter_token_latency_is_our_tpot(tmp_path: Path) -> None:
    """Records in the order they were sent; gaps between chunks are the pooled ITL."""
    log = read_log(saved(tmp_path, "profile_export.jsonl", AIPERF))
    check_two_requests(log)
    assert log.ids == ("a", "b", "c")
    assert log.statistics("itl_ms")["mean"] == pytest.approx(40 / 3)
    assert any("average per request" in note for note in log.notes)


@pytest.mark.parametrize("name", ["profile_export_aiperf.json", "profile_export_genai_perf.json"])
def test_the_summaries_of_aiperf_and_genai_perf(tmp_path: Path, name: str) -> None:
    log = read_log(saved(tmp_path, name, AIPERF_SUMMARY))
    assert log.kind == ("GenAI-Perf" if "genai" in name else "AIPerf")
    assert log.statistics("tpot_ms") == {"mean": 12.5, "p50": 12.5, "p90": 14.5, "p99": 14.95}
    assert log.statistics("itl_ms") == {}
    assert log.rates == {"request_throughput": 1, "output_throughput": 2.5, "duration_s": 2}
    early = read_log(saved(tmp_path, name, {"records": AIPERF_SUMMARY, "was_cancelled": False}))
    assert early.stated == log.stated


def test_the_csv_summary_has_thousands_and_sections(tmp_path: Path) -> None:
    log = read_log(saved(tmp_path, "profile_export_genai_perf.csv", AIPERF_CSV))
    assert log.statistics("ttft_ms")["mean"] == 1150
    assert log.statistics("tpot_ms")["p99"] == 14.95
    assert log.rates == {"output_throughput": 2.5, "request_throughput": 1.0}


def test_an_aiperf_folder_has_requests_and_rates(tmp_path: Path) -> None:
    saved(tmp_path, "profile_export.jsonl", AIPERF)
    saved(tmp_path, "profile_export_aiperf.json", AIPERF_SUMMARY)
    log = read_log(tmp_path)
    check_two_requests(log)
    assert log.rates["output_throughput"] == 2.5


def test_genai_perf_s_responses_without_content_are_none(tmp_path: Path) -> None:
    """The role at 50 ms and [DONE] are dropped: first token at 100, last at 130 ms."""
    log = read_log(saved(tmp_path, "profile_export.json", GENAI_PERF))
    assert log.samples("ttft_ms").tolist() == [100, 200]
    assert log.samples("e2el_ms").tolist() == [130, 210]
    assert log.statistics("tpot_ms") == {}
    assert log.statistics("itl_ms")["n"] == 3


def test_guidellm_s_names_are_mapped(tmp_path: Path) -> None:
    """Its ITL is our TPOT, its time per output token our normalized latency; latency in s."""
    log = read_log(saved(tmp_path, "benchmarks.json", GUIDELLM))
    assert log.statistics("tpot_ms") == {"mean": 12.5, "p50": 12.5, "n": 2}
    assert log.statistics("norm_latency_ms") == {"mean": 74.2}
    assert log.statistics("e2el_ms") == {"mean": 170, "p50": 170}
    assert log.statistics("ttft_ms")["p50"] == 150


@pytest.mark.parametrize("name", ["r.csv", "r.csv.gz", "r.jsonl", "r.parquet", "seconds.csv"])
def test_our_request_format(tmp_path: Path, name: str) -> None:
    import pandas as pd

    frame, path = pd.DataFrame(ROWS), tmp_path / name
    if name == "seconds.csv":
        frame["ttft_s"], frame["e2el_s"] = frame.pop("ttft_ms") / 1e3, frame.pop("e2el_ms") / 1e3
    if name.endswith("jsonl"):
        saved(tmp_path, name, ROWS)
    elif name.endswith("parquet"):
        frame.to_parquet(path)
    elif name.endswith("gz"):
        path.write_bytes(gzip.compress(frame.to_csv(index=False).encode()))
    else:
        frame.to_csv(path, index=False)
    log = read_log(path)
    check_two_requests(log)
    assert log.ids == ("a", "b")
    assert log.is_measured


def test_times_in_other_units_and_as_instants(tmp_path: Path) -> None:
    """TTFT 100 and 200 ms as us; the same requests as the instants of a log; one that failed."""
    text = "request_id,input_tokens,output_tokens,ttft_us,e2e_us,status\n"
    text += "a,100,3,100000,130000,ok\nb,200,2,200000,210000,ok\nc,50,9,1,1,error\n"
    check_two_requests(read_log(saved(tmp_path, "us.csv", text)))
    text = "arrival_s,first_token_s,last_token_s,prompt_tokens,output_tokens\n"
    text += "5.0,5.1,5.13,100,3\n6.0,6.2,6.21,200,2\n"
    log = read_log(saved(tmp_path, "instants.csv", text))
    check_two_requests(log)
    assert log.requests["arrival_s"].tolist() == [5, 6]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.txt", "hello"),
        ("a.csv", "x,y\n1,2\n"),
        ("a.json", {"x": 1}),
        ("a.json", []),
        ("a.csv", ""),
        ("a.json", "{"),
        ("a.parquet", "no"),
        ("b.json", {"benchmarks": [{"metrics": {}}] * 2}),
        ("c.json", {"experiments": [{"requests": []}] * 2}),
        ("d.json", VLLM | {"ttfts": [0.1]}),
        ("e.jsonl", [VLLM, VLLM]),
    ],
)
def test_what_cannot_be_read_is_one_message(
    tmp_path: Path, runway: Runway, name: str, content: Any
) -> None:
    path = saved(tmp_path, name, content)
    told = runway("compare", path, path)
    assert told.exit_code == 2
    assert told.stderr.startswith(f"Error: {path}: ")
    assert told.stderr.count("\n") == 1
    assert told.stdout == ""


def log_of(ttft: list[float], *, prompts: list[float] | None = None, ids: str = "") -> Log:
    columns = {"ttft_ms": np.array(ttft)}
    if prompts:
        columns["prompt_tokens"] = np.array(prompts)
        columns["output_tokens"] = np.full(len(ttft), 7.0)
    return Log("x", "test", True, columns, ids=tuple(ids) or None)


def test_requests_are_matched_by_id_then_order_then_length() -> None:
    one = log_of([1, 2, 3], prompts=[100, 900, 300], ids="abc")
    found = match(one, log_of([5, 6, 7], prompts=[300, 100, 900], ids="cab"))
    assert found is not None
    assert (found.how, found.second.tolist()) == ("by id", [1, 2, 0])
    found = match(one, log_of([5, 6, 7], prompts=[104, 911, 300]))
    assert found is not None, "a chat template adds a few tokens"
    assert (found.how, found.second.tolist()) == ("by order", [0, 1, 2])
    found = match(one, log_of([5, 6, 7, 8], prompts=[300, 900, 100, 5000]))
    assert found is not None
    assert found.how == "by prompt and output length, in order of arrival"
    assert found.second.tolist() == [2, 1, 0]


def test_what_cannot_be_told_apart_is_not_matched() -> None:
    assert match(log_of([1, 2]), log_of([1, 2])) is None
    assert match(log_of([1, 2], prompts=[100, 200]), log_of([1, 2], prompts=[3000, 9])) is None
    wrong_ids = match(
        log_of([1, 2], prompts=[100, 500], ids="ab"), log_of([1, 2], prompts=[500, 100], ids="ab")
    )
    assert wrong_ids is not None
    assert wrong_ids.how.startswith("by prompt"), "ids that contradict the lengths are no ids"


def test_differences_and_errors_by_hand() -> None:
    """TTFT 100 and 200 against 110 and 180: mean 150 and 145, errors +10 % and -10 %."""
    one = log_of([100, 200], prompts=[10, 20])
    found = compare(one, log_of([110, 180], prompts=[10, 20]))
    mean = found.differences[0]
    assert (mean.metric, mean.statistic, mean.reference, mean.other) == (
        "ttft_ms",
        "mean",
        150,
        145,
    )
    assert mean.relative == pytest.approx(-5 / 150)
    error = found.errors[0]
    assert (error.pairs, error.longer) == (2, 0.5)
    assert error.median == pytest.approx(0)
    assert error.median_absolute == pytest.approx(0.1)
    assert found.apart["ttft_ms"] == 0.5
    same = compare(one, one)
    assert same.verdict.startswith("x equals x in all")


def test_the_measured_one_is_the_reference() -> None:
    measured = log_of([100.0])
    simulated = Log("sim", "Runway run", False, {"ttft_ms": np.array([120.0])})
    for pair in ((measured, simulated), (simulated, measured)):
        found = compare(*pair)
        assert found.reference is measured
        assert "sim is within 20.0 % of x in mean and p50 of TTFT" in found.verdict
        assert any("network and streaming" in note for note in found.notes)


def test_other_totals_are_another_workload() -> None:
    found = compare(log_of([1.0], prompts=[100]), log_of([1.0], prompts=[200]))
    assert any("two workloads" in note for note in found.notes)


@pytest.mark.parametrize(
    ("scale", "unit"), [(1e-3, "seconds"), (1e3, "microseconds"), (1.0, ""), (0.02, "")]
)
def test_other_units_under_names_in_ms_are_suspected(scale: float, unit: str) -> None:
    ms = np.array([100.0, 200.0, 450.0])
    first = Log("sim", "run", False, {"ttft_ms": 1.3 * ms, "e2el_ms": 9 * ms})
    second = Log("meas.csv", "requests", True, {"ttft_ms": scale * ms, "e2el_ms": scale * 11 * ms})
    for pair in ((first, second), (second, first)):
        notes = [note for note in compare(*pair).notes if "may hold" in note]
        assert len(notes) == bool(unit)
        assert all(f"meas.csv may hold {unit} under names in _ms" in note for note in notes)


def test_nothing_in_common_is_one_message() -> None:
    with pytest.raises(ConfigError, match="have no metric in common: TTFT against E2E"):
        compare(log_of([1.0]), Log("y", "test", True, {"e2el_ms": np.array([1.0])}))


def test_pooled_gaps_have_numpy_s_percentiles() -> None:
    values = np.array([1.0, 1, 1, 2, 2, 5, 9, 9, 9, 30])
    gaps = pooled(values)
    assert gaps is not None
    expected = {f"p{q}": np.percentile(values, q) for q in (50, 90, 99)}
    assert gaps.statistics() == pytest.approx({"mean": values.mean(), "n": 10, **expected})


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The same 80 requests under two policies, saved with their steps."""
    folders = []
    for scheduler in ("chunked", "continuous"):
        config = load_config(None, {"workload": "bundled", "head": 80, "scheduler": scheduler})
        folders.append(tmp_path_factory.mktemp("runs") / scheduler)
        write_run(run_config(config), folders[-1], steps=True)
    return folders[0], folders[1]


def test_a_run_s_statistics_are_those_of_its_summary(runs: tuple[Path, Path]) -> None:
    for folder in runs:
        log = read_log(folder)
        summary = json.loads((folder / "summary.json").read_text())
        for metric in ("ttft_ms", "tpot_ms", "itl_ms", "e2el_ms", "queue_ms"):
            stated = {name: summary[metric][name] for name in ("mean", "p50", "p90", "p99", "n")}
            assert log.statistics(metric) == pytest.approx(stated, rel=1e-9)


def test_of_a_trimmed_run_only_the_requests_of_its_window_count(tmp_path: Path) -> None:
    config = {"workload": "bundled", "head": 60, "warmup_requests": 20}
    write_run(run_config(load_config(None, config)), tmp_path / "run", steps=True)
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    log = read_log(tmp_path / "run")
    assert len(log) == summary["window"]["submitted"] == 40
    for metric in ("ttft_ms", "itl_ms", "e2el_ms"):
        stated = {name: summary[metric][name] for name in ("mean", "p50", "p90", "p99", "n")}
        assert log.statistics(metric) == pytest.approx(stated, rel=1e-9)


def test_two_runs_give_a_table_a_verdict_and_figures(
    runs: tuple[Path, Path], runway: Runway, tmp_path: Path
) -> None:
    told = runway("compare", *runs, "--out", tmp_path / "out")
    assert told.exit_code == 0, told.output
    verdict = told.stdout.partition("\n")[0]
    assert verdict.startswith("continuous (continuous) against chunked (chunked): TTFT p99")
    assert "80 requests matched by id" in told.stdout
    figures = sorted(path.name for path in (tmp_path / "out/figures").iterdir())
    assert figures == ["cdf.png", "qq.png"]
    kept = load_comparison(tmp_path / "out")
    assert kept.found["verdict"] == verdict
    assert kept.requests is not None
    assert len(kept.requests) == 80
    drawn = [tmp_path / "out/figures" / name for name in figures]
    before = [path.read_bytes() for path in drawn]
    assert runway("plot", tmp_path / "out").exit_code == 0
    assert [path.read_bytes() for path in drawn] == before


def test_a_run_equals_itself(runs: tuple[Path, Path], runway: Runway) -> None:
    told = json.loads(runway("compare", runs[0], runs[0], "--json").stdout)
    assert "equals" in told["verdict"]
    assert all(each["relative"] in (0, None) for each in told["differences"])
    assert all(error["median_absolute"] == 0 for error in told["request_errors"])


def test_a_run_against_an_engine_s_log(
    runs: tuple[Path, Path], runway: Runway, tmp_path: Path
) -> None:
    """The same requests as `vllm bench serve` would log them, each 10 % slower."""
    import pandas as pd

    frame = pd.read_parquet(runs[0] / "requests.parquet")
    later = frame["output_tokens"] - 1
    detail = {
        "input_lens": frame["prompt_tokens"].tolist(),
        "output_lens": frame["output_tokens"].tolist(),
        "ttfts": (frame["ttft_ms"] * 1.1 / 1e3).tolist(),
        "itls": [
            [tpot * 1.1 / 1e3] * count
            for tpot, count in zip(frame["tpot_ms"].fillna(0), later, strict=True)
        ],
        "errors": [""] * len(frame),
    }
    path = saved(tmp_path, "bench.json", {**VLLM, **detail})
    told = json.loads(runway("compare", runs[0], path, "--json").stdout)
    assert told["reference"]["kind"] == "vllm bench serve"
    assert told["matched"] == {"how": "by order", "pairs": 80}
    for error in told["request_errors"]:
        if error["metric"] in ("ttft_ms", "e2el_ms", "tpot_ms"):
            assert error["median"] == pytest.approx(1 / 1.1 - 1)
    assert "is within 9.1 % of bench.json in mean and p50 of TTFT, TPOT" in told["verdict"]


def test_a_folder_with_a_run_is_not_overwritten(runs: tuple[Path, Path], runway: Runway) -> None:
    told = runway("compare", *runs, "--out", runs[0])
    assert told.exit_code == 2
    assert "holds other results (summary.json)" in told.stderr
