"""The command: a log in, a cost table out; the bundled tables come from it."""

import gzip
import shlex

import pytest

from calibration.from_steps import main
from calibration.step_log import read_step_log
from costmodels.table import load_table
from simulator.errors import WorkloadError

SETTING = shlex.split(
    "--name mine --description 'my GPU' --device GPU --dtype bfloat16 --model Llama --engine vLLM "
    "--software vllm=0.20.1 --date 2026-06-13 --source here --licence MIT"
)
HEADER = (
    "workload_segment,counter_id,sum_prefill_tokens,num_prefill_requests,sum_prefill_kv_tokens,"
    "var_prefill_length,num_decode_requests,sum_decode_kv_tokens,var_decode_kv_tokens,latency_ms"
)


def write_log(path, rows=60, last=""):
    """One request decodes from context 100 on: 10 ms + 0.01 ms per context token."""
    lines = [f"a,{k},0,0,0,0,1,{100 + k},0,{11 + 0.01 * k:.3f}" for k in range(rows)]
    lines.append("b,99,0,0,0,0,1,1100,0,22.0")
    path.write_text("\n".join([HEADER, *lines, last]))
    return path


def test_the_command_writes_a_table_that_loads(tmp_path, capsys):
    log, output = write_log(tmp_path / "log.csv"), tmp_path / "mine.yaml"
    fit = ["--segment", "a", "--test-segment", "b", "--kv-blocks", "1000"]
    assert main([str(log), "-o", str(output), *fit, *SETTING]) == 0
    table = load_table(output)
    assert "held-out error median 0.0 %" in capsys.readouterr().out
    assert table.is_measured
    assert table.provenance["samples"] == 51
    assert table.held_out["n"] == 9
    assert table.kv.blocks == 1000
    assert table.fitted_range["decode_context_tokens"] == [100, 159]
    # The other segment lies beyond: 10 + 0.01 x 1100 = 21 ms against 22 measured.
    assert table.extrapolation["time_outside_fitted_range"] == 1.0
    assert table.extrapolation["sum_of_all_steps"] == pytest.approx(-1 / 22, abs=2e-3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--segment", "c"], "segment 'c' has 0 steps"),
        (["--segment", "a", "--test-segment", "c"], "segment 'c' is not in the log"),
        (["--segment", "a", "--software", "vllm"], "--software is 'vllm': must be PACKAGE=VERSION"),
        (["--segment", "a", "--licence", ""], "provenance.licence must be text"),
    ],
)
def test_bad_input_gives_one_message_and_no_table(tmp_path, capsys, arguments, message):
    log, output = write_log(tmp_path / "log.csv"), tmp_path / "mine.yaml"
    assert main([str(log), "-o", str(output), *SETTING, *arguments]) == 2
    assert message in capsys.readouterr().err
    assert not output.exists()


def test_a_gzipped_log_is_the_same_log(tmp_path):
    plain = write_log(tmp_path / "log.csv")
    packed = tmp_path / "log.csv.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert (read_step_log(packed).measured_ms == read_step_log(plain).measured_ms).all()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a step log"),
        (HEADER, "no steps, only a header"),
        (
            HEADER.replace("latency_ms", "latency"),
            "column latency_ms missing, did you mean latency",
        ),
        (f"{HEADER}\na,0,0,0,0,0,1,100,0,fast", r"log.csv:2: latency_ms is 'fast'"),
        (f"{HEADER}\na,0,0,0,0,0,1,100,0,9\na,1,0,0,0,0,1,-1,0,9", r"log.csv:3: sum_decode_kv"),
        (f"{HEADER}\na,0,0,0,0,0,1,100,0,0", r"log.csv:2: latency_ms is '0': .* above 0"),
        (f"{HEADER}\na,0,0,0,0,0,1,100,0,", r"log.csv:2: latency_ms is 'nan'"),
    ],
)
def test_a_log_that_lies_is_refused(tmp_path, text, message):
    path = tmp_path / "log.csv"
    path.write_text(text)
    with pytest.raises(WorkloadError, match=message):
        read_step_log(path)


def test_a_missing_or_broken_file_is_refused(tmp_path):
    with pytest.raises(WorkloadError, match="no such file"):
        read_step_log(tmp_path / "absent.csv")
    cut = tmp_path / "cut.csv.gz"
    cut.write_bytes(gzip.compress(write_log(tmp_path / "log.csv").read_bytes())[:50])
    with pytest.raises(WorkloadError, match="not a step log"):
        read_step_log(cut)
