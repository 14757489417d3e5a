"""What the options of a calibration change: measured small, on this CPU, and stamped."""

from __future__ import annotations

import json

import pytest

torch = pytest.importorskip("torch")

from calibration import machine  # noqa: E402  # after the skip
from calibration.all_reduce import all_reduce_of, ring_us, timed  # noqa: E402
from calibration.calibrate import calibrate  # noqa: E402
from calibration.errors import CalibrationError  # noqa: E402
from calibration.grid import Shape  # noqa: E402
from calibration.kernel_table import with_host_time  # noqa: E402
from calibration.machine import fastest, steady  # noqa: E402
from calibration.measuring import StepTimer  # noqa: E402
from calibration.options import run_calibration  # noqa: E402
from calibration.predict import Grids  # noqa: E402
from calibration.settings import Settings, captured_sizes  # noqa: E402
from calibration.trial import Trial  # noqa: E402
from calibration.trials import WHOLE, TrialLog, begun_with  # noqa: E402
from costmodels import find_model, load_cost_model  # noqa: E402
from simulator import StepShape  # noqa: E402

DENSE = {
    "model_type": "llama",
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 64,
    "max_position_embeddings": 128,
}
SPARSE = {**DENSE, "model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2}
DECODE = StepShape((), 3, 90)


@pytest.fixture(autouse=True)
def threads():
    """The number of threads is the process's: put it back."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def measured(folder, config=DENSE, **changes):
    """A table, and the cost model that reads it."""
    model = folder / "small.json"
    model.write_text(json.dumps(config))
    given = {
        **{"time_budget_s": 0.2, "threads": 1, "max_num_batched_tokens": 32, "max_num_seqs": 4},
        **{"max_model_len": 64, **changes},
    }
    outcome = calibrate(Settings(model=str(model), output=folder / "table.json", **given))
    return load_cost_model(outcome.output)


def test_every_point_keeps_the_range_and_the_number_of_its_samples(tmp_path):
    grids = measured(tmp_path).table.operators
    qkv = grids.counted["qkv"]
    assert len(qkv.spread) == len(qkv.points)
    assert all(iqr_us >= 0 and samples >= 1 for iqr_us, samples in qkv.spread)
    assert len(grids.attention_spread) == len(grids.attention)
    # 32 x (4 + 2 x 2) heads x 8 of head size, 4 bytes each.
    assert qkv.work == (2 * 32 * 64, 32 * 64 * 4, (32 + 64) * 4)
    held_out = [step for step in grids.steps if step.is_held_out]
    assert len(held_out) >= 3
    assert len(grids.steps) > len(held_out)


def test_experts_are_timed_and_composed_into_the_price(tmp_path):
    model = measured(tmp_path, SPARSE)
    counted = model.table.operators.counted
    assert "gate_up" not in counted
    experts = counted["experts"]
    # One token goes to its 2 experts, many tokens to all 4.
    assert (experts.activated[0], experts.activated[-1]) == (2.0, 4.0)
    assert "4 experts, 2 a token" in model.table.provenance["note"]
    terms = dict(model.explain(DECODE))
    assert terms["router"] > 0
    assert terms["experts"] > 0


def test_a_quantised_cache_is_stamped_and_holds_twice_the_tokens(tmp_path):
    table = measured(tmp_path, kv_cache_dtype="fp8").table
    assert table.name == "small-cpu-float32-kv-fp8"
    assert table.provenance["kv_cache_dtype"] == "fp8"
    assert "quantised to float8_e4m3fn" in table.provenance["note"]
    # 2 layers x 2 x 2 KV heads x 8 x 1 byte = 64 bytes a token, 16 tokens a block, in 4 GiB.
    assert table.kv.blocks == 2**22


def test_a_given_all_reduce_is_priced_twice_a_layer_and_stamped_as_given(tmp_path):
    """3 tokens x 32 x 4 bytes = 384 bytes: 20 us + 2 x 1/2 x 384 / 1e9 s, 2 layers, twice each."""
    given = {"all_reduce_bandwidth": 1.0, "all_reduce_latency": 20.0}
    model = measured(tmp_path, tensor_parallel_size=2, **given)
    provenance = model.table.provenance
    assert provenance["tensor_parallel"] == 2
    assert provenance["all_reduce"] == "given, not measured: 1 GB/s and 20 us, a ring of 2"
    assert dict(model.explain(DECODE))["all_reduce"] == pytest.approx(4 * 20.384e-3)
    # Half of the 8 heads' columns, half of the MLP.
    assert model.table.operators.counted["qkv"].work[0] == 2 * 32 * 32
    assert model.table.name.endswith("-tp2")


def test_an_all_reduce_over_two_processes_is_timed():
    two = timed("gloo", 2, [64, 4096], torch.float32)
    assert [len(trial.samples_ns) for trial in two] == [21, 21]
    assert all(trial.median_ns > 0 for trial in two)


def test_without_enough_devices_an_all_reduce_must_be_given(monkeypatch, tmp_path):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    given = Settings(model="m", output=tmp_path / "t", device="cuda:0", tensor_parallel_size=4)
    with pytest.raises(
        CalibrationError, match=r"needs 4 CUDA devices .* there are 1: give --all-r"
    ):
        all_reduce_of(given, 32, torch.bfloat16, [1, 2])


def test_a_ring_moves_its_bytes_twice_but_for_its_own_share():
    """4 devices: 2 x 3/4 x 1 MB at 10 GB/s is 150 us, after 7 us."""
    assert ring_us(1_000_000, 4, 10.0, 7.0) == pytest.approx(157.0)


def test_decodes_are_padded_to_captured_sizes_when_timed_and_when_priced(tmp_path, monkeypatch):
    padded = []
    inputs = StepTimer._inputs

    def noted(timer, shape, padding=0):
        padded.append((shape.decode_seqs + padding, shape.chunk))
        return inputs(timer, shape, padding)

    monkeypatch.setattr(StepTimer, "_inputs", noted)
    model = measured(tmp_path, cudagraph_capture_sizes=(1, 4))
    assert model.table.parameters["decode_batch_sizes"] == [1, 4]
    assert (4, 0) in padded
    tokens = [dict(model.explain(StepShape((), n, n * 30)))["qkv"] for n in (2, 3, 4)]
    assert tokens[0] == tokens[1] == tokens[2]


def test_padding_is_priced_as_the_cost_model_prices_it():
    grids = Grids(
        layers=1,
        by_tokens={"qkv": [(1, 10.0), (8, 17.0)]},
        by_sequences={},
        attention=[(0, 0, 1, 16, 0.0), (0, 0, 8, 16, 0.0), (16, 0, 0, 0, 0.0)],
        captured=(1, 4, 8),
    )
    assert grids.step_us(Shape(0, 0, 3, 16)) == 13.0
    assert grids.step_us(Shape(16, 0, 3, 16)) == pytest.approx(28.0), "mixed steps are not padded"


def test_cuda_has_the_capture_sizes_of_the_engine(tmp_path):
    given = Settings(model="m", output=tmp_path / "t", device="cuda:0")
    assert captured_sizes(given, 12) == (1, 2, 4, 8, 16, 24)
    sizes = captured_sizes(given, 256)
    assert sizes[:6] == (1, 2, 4, 8, 16, 24)
    assert sizes[-3:] == (480, 496, 512)
    assert captured_sizes(Settings(model="m", output=tmp_path / "t"), 256) == ()


def test_smoothing_is_stated_either_way(tmp_path):
    kept = measured(tmp_path).table.provenance["smoothing"]
    assert kept.startswith("none: times kept as measured, ")
    table = measured(tmp_path, smooth="isotonic").table
    assert table.provenance["smoothing"].startswith("isotonic: ")
    for operator in table.operators.counted.values():
        times = [us for _, us in operator.points]
        assert times == sorted(times)


def test_fewer_threads_are_taken_only_where_they_are_clearly_faster():
    assert fastest([4, 2, 1], lambda n: {4: 90.0, 2: 50.0, 1: 60.0}[n]) == 2
    assert fastest([2, 1], lambda n: {2: 100.0, 1: 98.0}[n]) == 2


@pytest.mark.parametrize(
    ("slowdown", "given", "chosen"),
    [
        (1.01, (None, None), (2, "wall")),
        (1.6, (None, None), (1, "cpu")),
        (1.6, (2, None), (2, "wall")),
        (1.6, (1, None), (1, "cpu")),
        (1.6, (None, "wall"), (1, "wall")),
        (1.01, (None, "cpu"), (1, "cpu")),
    ],
)
def test_a_busy_cpu_is_timed_with_one_thread_by_its_cpu_time(slowdown, given, chosen, monkeypatch):
    monkeypatch.setattr(machine, "_slowdown", lambda call: slowdown)
    monkeypatch.setattr(machine, "_fastest_threads", lambda call: 2)
    assert steady((None, None), given) == chosen


def test_a_resumed_run_keeps_the_threads_and_the_clock_it_was_begun_with(tmp_path, monkeypatch):
    def kill(share, done, total):
        if done == 3:
            raise KeyboardInterrupt

    model = tmp_path / "small.json"
    model.write_text(json.dumps(DENSE))
    given = {"model": str(model), "output": tmp_path / "table.json", "time_budget_s": 0.2}
    given |= {"max_num_batched_tokens": 32, "max_num_seqs": 2, "max_model_len": 64}
    monkeypatch.setattr(machine, "_slowdown", lambda call: 1.6)
    with pytest.raises(KeyboardInterrupt):
        calibrate(Settings(**given), kill)
    assert begun_with(tmp_path / "table.json.partial") == (1, "cpu")
    monkeypatch.setattr(machine, "_slowdown", lambda call: 1.0)
    provenance = load_cost_model(calibrate(Settings(**given, resume=True)).output).table.provenance
    assert (provenance["threads"], provenance["clock"]) == (1, "cpu")


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"all_reduce_latency": 5.0}, "--all-reduce-latency has no effect without --tensor-p"),
        ({"tensor_parallel_size": 2, "all_reduce_latency": 5.0}, "an all-reduce takes both"),
        ({"tensor_parallel_size": 0}, "tensor_parallel_size is 0: must be at least 1"),
        ({"tensor_parallel_size": 7}, "size 7 does not divide the 32 heads of llama-3.1-8b"),
        ({"smooth": "lots"}, "smooth is 'lots': must be none or isotonic"),
        ({"cudagraph_capture_sizes": "4,2"}, r"are \[4, 2\]: must be whole numbers, ascending"),
        ({"cudagraph_capture_sizes": "few"}, "'few': must be as in 1,2,4,8"),
        ({"kv_cache_dtype": "fp9"}, "kv cache dtype 'fp9' is not one of auto"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(flags, said, tmp_path):
    assert find_model("llama-3.1-8b").attention_heads == 32
    given = {"model": "llama-3.1-8b", "threads": 1, **flags}
    with pytest.raises(CalibrationError, match=said):
        run_calibration(given, tmp_path / "t.json", lambda share, done, total: None)
    assert not list(tmp_path.iterdir())


def test_a_short_step_says_more_of_the_hosts_time_than_a_long_one(tmp_path):
    """15 us where kernels take 10, 1,200 where they take 1,000: 5 us of host, not 200."""
    grids = Grids(
        layers=1,
        by_tokens={"qkv": [(1, 10.0), (100, 1000.0)]},
        by_sequences={},
        attention=[(0, 0, 1, 16, 0.0), (1, 0, 0, 0, 0.0), (100, 0, 0, 0, 0.0)],
    )
    log = TrialLog(tmp_path / "t.partial", {}, resume=False)
    short, long = Shape(1, 0, 0, 0), Shape(100, 0, 0, 0)
    log.add(short, {WHOLE: Trial((15_000.0,))})
    log.add(long, {WHOLE: Trial((1_200_000.0,))})
    assert with_host_time(grids, log, [short, long, Shape(2, 0, 0, 0)]).host_us == 5.0
