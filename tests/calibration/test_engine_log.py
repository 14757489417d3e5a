"""The JSON of an engine's run: what every step computed follows from the batches."""

from __future__ import annotations

import json

import pytest

from calibration.engine_log import read_engine_log, step_log_of
from calibration.step_log import read_step_log
from simulator.errors import WorkloadError
from simulator.plan import StepShape

ENGINE = {
    "block_size": 16,
    "num_blocks": 9,
    "max_batch_tokens": 8,
    "max_seqs": 2,
    "prefix_caching": False,
}


def request(name, arrival_s, prompt, output):
    times = {"ttft_s": 0.01, "e2e_s": 0.05, "tpot_s": 0.02 if output > 1 else None}
    return {"id": name, "arrival_s": arrival_s, "prompt_len": prompt, "output_len": output, **times}


def step(start_ms, end_ms, preempted=(), free=0, **batch):
    return {
        "start_s": start_ms / 1e3,
        "end_s": end_ms / 1e3,
        "batch": batch,
        "preempted": list(preempted),
        "free_blocks": free,
    }


RUN = {
    "kind": "vllm",
    "versions": {"vllm": "1.0"},
    "engine": ENGINE,
    "requests": [request("b", 0.010, 3, 2), request("a", 0.000, 10, 3)],
    "steps": [
        step(1, 5, a=8),
        step(6, 12, a=2),  # arrives at 10, in this step
        step(13, 20, a=1, b=3),
        step(21, 24, preempted=["b"], a=1),
        step(25, 30, b=4),  # all it had, prompt and output, again
        step(90, 91, late=2),
    ],
}
RUN["requests"].append(request("late", 0.080, 2, 1))


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "run.json"
    file.write_text(json.dumps(RUN))
    return file


def test_chunks_decodes_and_recomputation_follow_from_the_batches(path):
    """Rows are by arrival: a, b, late. b is preempted after its first token and computes 3 + 1."""
    log = read_engine_log(path)
    assert log.trace.ids == ("a", "b", "late")
    assert [(s.chunks, s.decodes) for s in log.steps] == [
        (((0, 8, 0),), ()),
        (((0, 2, 8),), ()),
        (((1, 3, 0),), ((0, 10),)),
        ((), ((0, 11),)),
        (((1, 4, 0),), ()),
        (((2, 2, 0),), ()),
    ]
    assert log.steps[2].shape == StepShape(((3, 0),), 1, 10, 10)
    assert log.steps[2].batch == {0: 1, 1: 3}
    assert log.steps[3].preempted == (1,)
    assert log.limits.kv_blocks == 8


def test_a_step_lasts_from_the_end_of_the_one_before_unless_the_engine_was_idle(path):
    durations = [step.duration_ns for step in read_engine_log(path).steps]
    assert durations == [4_000_000, 7_000_000, 8_000_000, 4_000_000, 6_000_000, 1_000_000]


def test_the_same_steps_as_columns(path):
    log = read_step_log(path)
    assert log.prefill_tokens.tolist() == [8, 2, 3, 0, 4, 2]
    assert log.prefill_past.tolist() == [0, 8, 0, 0, 0, 0]
    assert log.decode_context.tolist() == [0, 0, 10, 11, 0, 0]
    assert log.measured_ms.tolist() == [4, 7, 8, 4, 6, 1]
    assert log.follows.tolist() == [False, True, True, True, True, True]
    assert step_log_of(read_engine_log(path)).context_variance.tolist() == [0] * 6


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"engine": {**ENGINE, "prefix_caching": True}}, "recorded with prefix caching"),
        ({"engine": {}}, "'prefix_caching' is missing"),
        ({"requests": []}, "no requests or no steps"),
        ({"steps": [step(1, 5, x=8)]}, "'x' is missing, or not in requests"),
        ({"steps": [step(1, 5, a=11)]}, "computes token 11 of row 0, which has 10"),
        ({"steps": [step(5, 5, a=8)]}, "step 0 does not follow"),
        ({"steps": [step(1, 5, a=8), step(4, 6, a=2)]}, "step 1 does not follow"),
        ({"requests": [{**request("a", 0, 1, 1), "ttft_s": None}]}, "'a' has no first token"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(change, said, tmp_path):
    file = tmp_path / "run.json"
    file.write_text(json.dumps({**RUN, **change}))
    with pytest.raises(WorkloadError, match=said):
        read_engine_log(file)


def test_a_file_that_is_none_is_said(tmp_path):
    with pytest.raises(WorkloadError, match="no such file"):
        read_engine_log(tmp_path / "absent.json")
    (tmp_path / "list.json").write_text("[]")
    with pytest.raises(WorkloadError, match="must be a JSON object"):
        read_engine_log(tmp_path / "list.json")
    (tmp_path / "cut.json").write_text('{"engine": ')
    with pytest.raises(WorkloadError, match="not the JSON of an engine's run"):
        read_engine_log(tmp_path / "cut.json")
