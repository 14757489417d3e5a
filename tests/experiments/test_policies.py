"""A config becomes a scheduler: ours by name, or a user's from a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.config import RunConfig, load_config
from experiments.policies import build_policy
from experiments.run import run_config
from simulator.errors import ConfigError, RunwayError
from simulator.schedulers import AlternatingScheduler, StaticScheduler

OWN = '''
class Own:
    """Does nothing."""
    def __init__(self, max_num_seqs=8, *, share: float = 0.5):
        self.max_num_seqs, self.share = max_num_seqs, share
    def plan(self, view):
        raise NotImplementedError

class Lame:
    pass

class Broken:
    def __init__(self):
        raise KeyError("gone")
'''


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(OWN, encoding="utf-8")
    return path


def complaint(**fields: object) -> str:
    with pytest.raises(ConfigError) as caught:
        build_policy(RunConfig(**fields))
    return str(caught.value)


def test_a_policy_gets_the_fields_its_constructor_takes() -> None:
    policy = build_policy(RunConfig(scheduler="alternating", chunk_size=64, max_num_seqs=4))
    assert isinstance(policy.scheduler, AlternatingScheduler)
    assert policy.parameters == {
        "max_num_batched_tokens": 2048,
        "max_num_seqs": 4,
        "chunk_size": 64,
    }
    assert policy.notes == ()


def test_max_num_seqs_defaults_to_128_or_the_smaller_budget() -> None:
    assert build_policy(RunConfig()).parameters["max_num_seqs"] == 128
    small = build_policy(RunConfig(max_num_batched_tokens=3))
    assert small.parameters["max_num_seqs"] == 3


def test_a_setting_the_policy_does_not_take_becomes_a_note() -> None:
    policy = build_policy(
        RunConfig(scheduler="static", max_num_batched_tokens=64, deliver="stream")
    )
    assert isinstance(policy.scheduler, StaticScheduler)
    assert policy.scheduler.max_num_seqs == 128
    assert policy.notes == ("max_num_batched_tokens 64 is not used by static",)


def test_a_budget_below_the_sequences_is_refused_with_both_numbers() -> None:
    """U03."""
    text = complaint(max_num_batched_tokens=3, max_num_seqs=4)
    assert "max_num_batched_tokens 3 is below max_num_seqs 4" in text
    assert "raise max_num_batched_tokens or lower max_num_seqs" in text


def test_the_effective_chunk_is_the_smaller_of_chunk_and_budget() -> None:
    """U04."""
    policy = build_policy(RunConfig(chunk_size=256, max_num_batched_tokens=128))
    assert policy.described()["effective_chunk_size"] == 128


def test_a_misspelt_policy_gets_the_nearest_name() -> None:
    assert "did you mean chunked?" in complaint(scheduler="chunkd")


def test_a_users_class_gets_its_arguments(own: Path) -> None:
    config = load_config(
        overrides={"scheduler": f"{own}:Own", "scheduler_args": ["share=0.25"], "max_num_seqs": 2}
    )
    policy = build_policy(config)
    assert policy.name == "Own"
    assert policy.parameters == {"max_num_seqs": 2, "share": 0.25}
    assert policy.path == own
    assert "sha256" in str(policy.described()["file"])


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ("{own}:Ownn", "has no class Ownn, did you mean Own?; it has Own, Lame, Broken"),
        ("{own}", "name the class too, as {own}:MyScheduler"),
        ("{own}x.py:Own", "no such file"),
        ("{own}:Lame", "has no method plan(self, view)"),
        ("{own}:Broken", "KeyError: 'gone' at {own}:14"),
    ],
)
def test_a_users_class_that_cannot_be_used_is_named(own: Path, spec: str, problem: str) -> None:
    assert problem.format(own=own) in complaint(scheduler=spec.format(own=own))


def test_a_users_file_that_does_not_load_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "bad.py"
    path.write_text("x = 1\ndef f(:\n", encoding="utf-8")
    assert f"does not load: SyntaxError: invalid syntax at {path}:2" in complaint(
        scheduler=f"{path}:F"
    )


def test_the_line_of_a_file_given_from_where_one_stands_is_named(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(own.parent)
    config = load_config(None, {"requests": 1, "rate": 1, "scheduler": "mine.py:Own"})
    with pytest.raises(ConfigError, match=r"NotImplementedError at mine\.py:7$"):
        run_config(config)


def test_an_argument_the_class_does_not_take_gets_the_nearest_name(own: Path) -> None:
    text = complaint(scheduler=f"{own}:Own", scheduler_args={"shar": 1})
    assert "takes no argument shar, did you mean share?; it takes max_num_seqs, share" in text


def test_a_field_given_as_an_argument_is_refused(own: Path) -> None:
    text = complaint(scheduler=f"{own}:Own", scheduler_args={"max_num_seqs": 1})
    assert text == "--scheduler-arg max_num_seqs: use --max-num-seqs instead"


def test_vllm_gets_its_options_under_its_own_flag_names() -> None:
    config = load_config(
        None,
        {
            "scheduler": "vllm",
            "long_prefill_token_threshold": "256",
            "enable_chunked_prefill": False,
            "scheduler_reserve_full_isl": "false",
            "scheduling_policy": "priority",
        },
    )
    policy = build_policy(config)
    assert policy.parameters == {
        "max_num_batched_tokens": 2048,
        "max_num_seqs": 128,
        "chunk_size": 256,
        "enable_chunked_prefill": False,
        "scheduler_reserve_full_isl": False,
        "policy": "priority",
        "prefill_alignment_tokens": 0,
    }
    assert policy.effective_chunk_size == 256
    assert policy.notes == ()


def test_vllm_plans_ahead_and_caches_prefixes_unless_told_otherwise() -> None:
    policy = build_policy(RunConfig(scheduler="vllm"))
    assert (policy.async_scheduling, policy.prefix_caching) == (True, True)
    off = RunConfig(scheduler="vllm", async_scheduling=False, enable_prefix_caching=False)
    policy = build_policy(off)
    assert (policy.async_scheduling, policy.prefix_caching) == (False, False)
    policy = build_policy(RunConfig(scheduler="chunked"))
    assert (policy.async_scheduling, policy.prefix_caching) == (False, False)


def test_vllm_needs_a_token_budget() -> None:
    text = complaint(scheduler="vllm", max_num_batched_tokens="none")
    assert text == "max_num_batched_tokens is none: vllm has a token budget, give one"


def test_options_of_vllm_are_noted_where_nothing_uses_them() -> None:
    policy = build_policy(RunConfig(scheduling_policy="priority", enable_chunked_prefill=True))
    assert policy.notes == (
        "enable_chunked_prefill True is not used by chunked",
        "scheduling_policy priority is not used by chunked",
    )


@pytest.mark.parametrize(
    ("name", "flag"),
    [("policy", "--scheduling-policy"), ("long_prefill_token_threshold", "--chunk-size")],
)
def test_a_constructor_argument_that_has_a_flag_is_given_by_it(name: str, flag: str) -> None:
    text = complaint(scheduler="vllm", scheduler_args=f"{name}=1")
    assert text == f"--scheduler-arg {name}: use {flag} instead"


EAGER = '''
class Eager:
    """Plans ahead; has an argument that happens to be called policy."""
    default_async_scheduling = True
    queue_key = staticmethod(lambda sequence: -sequence.prompt_tokens)
    def __init__(self, policy="edf"):
        self.policy = policy
    def plan(self, view):
        raise NotImplementedError
'''


def test_a_policy_of_ones_own_names_its_defaults(tmp_path: Path) -> None:
    path = tmp_path / "eager.py"
    path.write_text(EAGER, encoding="utf-8")
    policy = build_policy(RunConfig(scheduler=f"{path}:Eager", scheduler_args="policy=lifo"))
    assert (policy.async_scheduling, policy.prefix_caching) == (True, False)
    assert policy.parameters == {"policy": "lifo"}


def test_an_engine_s_own_names_reach_its_policy() -> None:
    """SGLang says max_running_requests; what it does not take is noted, what it does is not."""
    policy = build_policy(
        load_config(
            None,
            {
                "scheduler": "sglang",
                "max_running_requests": "32",
                "chunked_prefill_size": "4096",
                "schedule_conservativeness": "0.3",
                "chunk_size": "256",
            },
        )
    )
    assert policy.parameters == {
        "chunked_prefill_size": 4096,
        "max_running_requests": 32,
        "max_prefill_tokens": 16384,
        "schedule_conservativeness": 0.3,
        "enable_mixed_chunk": False,
    }
    assert policy.notes == ("chunk_size 256 is not used by sglang",)
    assert (policy.async_scheduling, policy.prefix_caching) == (True, True)


def test_limits_by_class_are_an_argument() -> None:
    asked = {"ttft_ms": "chat:500+documents:6000"}
    policy = build_policy(RunConfig(scheduler="edf", scheduler_args=asked))

    assert policy.scheduler._ttft_ms == {"*": 1000.0, "chat": 500.0, "documents": 6000.0}


NO_PLAN = """
from simulator import ALL, Plan

class Nothing:
    def plan(self, view):
        return None

class Pair:
    def plan(self, view):
        return ALL, ()

class NoRest:
    def plan(self, view):
        first = tuple((s, s.remaining_tokens) for s in view.waiting)
        return None if view.planned_tokens is not None else Plan(ALL, first, more=True)

class Fails:
    def plan(self, view):
        decode, prefill = None
"""


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("Nothing", "Nothing.plan() returned None, must return a simulator.Plan"),
        ("Pair", "Pair.plan() returned a tuple, must return a simulator.Plan"),
        ("NoRest", "NoRest.plan() returned None, must return a simulator.Plan"),
        (
            "Fails",
            "scheduler {path}:Fails: TypeError: cannot unpack non-iterable NoneType object at "
            "{path}:19",
        ),
    ],
)
def test_a_plan_that_is_none_is_told(tmp_path: Path, name: str, problem: str) -> None:
    path = tmp_path / "mine.py"
    path.write_text(NO_PLAN, encoding="utf-8")
    asked = {"requests": 1, "rate": 1, "scheduler": f"{path}:{name}", "cost_model": "lesson"}
    with pytest.raises(RunwayError) as caught:
        run_config(load_config(None, {**asked, "kv_blocks": 4000}))
    assert str(caught.value) == problem.format(path=path)


def test_a_constructor_argument_without_value_names_its_flag(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    text = "class Own:\n    def __init__(self, k, chunk_size, *, share=1): ...\n"
    path.write_text(f"{text}    def plan(self, view): ...\n", encoding="utf-8")
    said = complaint(scheduler=f"{path}:Own")
    assert said.endswith(
        "lacks an argument without default: give --scheduler-arg k=... and --chunk-size"
    )
    build_policy(RunConfig(scheduler=f"{path}:Own", scheduler_args=["k=1"], chunk_size=8))
