"""The command: a log in, a cost table out; the bundled tables come from it."""

import gzip
import json
import random
import shlex

import pytest

from calibration.fit import quantities_of
from calibration.from_steps import main
from calibration.step_log import read_step_log
from costmodels import load_cost_model
from costmodels.table import load_table
from simulator.errors import WorkloadError
from simulator.plan import StepShape

SETTING = shlex.split(
    "--name mine --description 'my GPU' --device GPU --dtype bfloat16 --model Llama --engine vLLM "
    "--software vllm=0.20.1 --date 2026-06-13 --source here --licence MIT"
)
HEADER = (
    "workload_segment,counter_id,sum_prefill_tokens,num_prefill_requests,sum_prefill_kv_tokens,"
    "var_prefill_length,num_decode_requests,sum_decode_kv_tokens,var_decode_kv_tokens,latency_ms"
)


OWN = "step,prefill_tokens,prefill_past_tokens,decode_seqs,decode_context_tokens,step_ms"


def write_own_log(path, *, n=120):
    """12 ms + 0.05 ms a token + 0.001 ms a context token, in Runway's own columns."""
    rng = random.Random(0)
    lines = [OWN]
    for step in range(n):
        prompt, seqs = rng.choice([0, 0, rng.randint(16, 400)]), rng.randint(1, 16)
        context = seqs * rng.randint(100, 3000)
        ms = 12 + 0.05 * (prompt + seqs) + 0.001 * context
        lines.append(f"{2 * step},{prompt},0,{seqs},{context},{ms:.4f}")
    path.write_text("\n".join(lines))
    return path


def write_log(path, rows=60, last=""):
    """One request decodes from context 100 on: 10 ms + 0.01 ms per context token."""
    lines = [f"a,{k},0,0,0,0,1,{100 + k},0,{11 + 0.01 * k:.3f}" for k in range(rows)]
    lines.append("b,99,0,0,0,0,1,1100,0,22.0")
    path.write_text("\n".join([HEADER, *lines, last]))
    return path


def test_log_and_output_are_enough(tmp_path, capsys):
    """The steps model, the held-out error, and what nobody stated, in a JSON file."""
    log, output = write_own_log(tmp_path / "log.csv"), tmp_path / "mine.json"
    assert main([str(log), "-o", str(output)]) == 0
    said = capsys.readouterr().out
    assert "held-out error median" in said
    assert "! the log cannot tell continued_prompt_ms: no step of the log has any" in said
    told = json.loads(output.read_text())
    assert (told["kind"], told["name"]) == ("steps", "mine")
    assert {"median", "p90", "n"} <= told["held_out"].keys()
    assert told["held_out"]["median"] < 0.01
    assert told["provenance"]["device"] == "not stated"
    model = load_cost_model(output, model="llama-3.1-8b")  # may be: nobody said of which it is
    assert model.step_ns(StepShape(((100, 0),), 4, 4000)) / 1e6 == pytest.approx(21.2, rel=0.01)


def test_a_known_device_and_model_bound_the_terms(tmp_path):
    """Every context of this log is alike within its step: what the longest one costs is the
    device's to say."""
    log, output = write_own_log(tmp_path / "log.csv"), tmp_path / "mine.yaml"
    known = ["--device", "NVIDIA B300 SXM6", "--model", "Qwen/Qwen3-32B", "--engine", "vLLM 0.20.1"]
    assert main([str(log), "-o", str(output), *known]) == 0
    parameters = load_table(output).parameters
    assert parameters["attention_tokens_per_pair"] == pytest.approx(1 / 29_760, rel=1e-3)
    assert parameters["longest_context_sequences_per_wave"] == 18.5


def test_own_columns_that_are_needed(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text(OWN.replace("decode_seqs", "decode_seq") + "\n0,0,0,1,100,9")
    with pytest.raises(WorkloadError, match="column decode_seqs missing, did you mean decode_seq"):
        read_step_log(path)


def test_own_columns_may_be_few_and_may_say_more(tmp_path):
    """Without `step` nothing follows; a prompt is alone; pairs and longest are taken as given."""
    path = tmp_path / "log.csv"
    path.write_text(
        "prefill_tokens,decode_seqs,decode_context_tokens,longest_context,step_ms\n"
        "100,2,300,250,9\n0,2,302,251,8\n"
    )
    log = read_step_log(path)
    assert not log.follows.any()
    quantities = quantities_of(log)
    assert quantities.longest_context.tolist() == [250, 251]
    assert quantities.token_pairs.tolist() == [5000, 0]


def test_the_command_writes_a_table_that_loads(tmp_path, capsys):
    log, output = write_log(tmp_path / "log.csv"), tmp_path / "mine.yaml"
    fit = ["--kind", "linear", "--segment", "a", "--test-segment", "b", "--kv-blocks", "1000"]
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
        (["--segment", "c", "--kind", "linear"], "segment 'c' has 0 steps"),
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
