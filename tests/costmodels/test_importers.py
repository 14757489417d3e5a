"""Published operator tables against hand sums: small ones made here, and the real ones."""

import csv
import gzip
import json
from pathlib import Path

import pytest

from costmodels import find_model, load_cost_model, load_table
from costmodels.importers import import_table
from costmodels.importers.__main__ import main
from costmodels.importers.csv_rows import read_rows
from costmodels.importers.experts import COLUMNS, experts_operator
from costmodels.importers.kernel_attention import around, with_history
from simulator.errors import ConfigError, TableFormatError
from simulator.plan import StepShape

PROFILES = Path(__file__).resolve().parents[2] / "../shared/profiles"
RTX4090 = PROFILES / "llmservingsim/RTX4090/Llama-3.1-8B"
needs_profiles = pytest.mark.skipif(not PROFILES.is_dir(), reason="published tables are not here")

TINY = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 256,
}


@pytest.fixture
def tiny(tmp_path):
    path = tmp_path / "tiny.json"
    path.write_text(json.dumps(TINY))
    return path


def write(path, header, *rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [header, *(",".join(map(str, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n")


META = """\
vllm_version: 0.19.0
cuda_version: '12.8'
gpu: My GPU
profiled_at: '2026-01-01'
model: tiny
variant: bf16
tp_degrees: [1]
engine_effective:
  max_num_batched_tokens: 64
  hf_overrides: {intermediate_size: 128, num_attention_heads: 4, vocab_size: 256}
"""


@pytest.fixture
def llmservingsim(tmp_path):
    folder = tmp_path / "gpu/tiny"
    layers = ("qkv_proj", "layernorm", "embedding")
    dense = [(layer, n, 10.0 + n) for layer in layers for n in (1, 8, 64)]
    write(folder / "tp1/dense.csv", "layer,tokens,time_us", *dense)
    write(folder / "tp1/per_sequence.csv", "layer,sequences,time_us", ("lm_head", 1, 50.0))
    attention = [(0, 0, n, kv, 1.0 * n) for n in (1, 2, 8) for kv in (16, 64)]
    attention += [(chunk, 0, 0, 0, 2.0 * chunk) for chunk in (16, 32)]
    attention += [(chunk, past, 2, kv, 40.0) for chunk in (16, 32) for past in (0, 16)
                  for kv in (16, 64)]  # fmt: skip
    write(
        folder / "tp1/attention.csv", "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us",
        *attention,
    )  # fmt: skip
    (folder / "meta.yaml").write_text(META)
    return folder


def test_llmservingsim_is_in_microseconds_of_one_layer(llmservingsim, tiny):
    """One decode: 2 layers x (qkv 11 + norm twice 11 + attention 1), embedding 11, lm_head 50."""
    model = load_cost_model(f"llmservingsim:{llmservingsim}", model=tiny)
    assert model.step_ns(StepShape((), 1, 16)) == 1000 * (2 * (11 + 22 + 1) + 11 + 50)
    assert model.table.provenance["device"] == "My GPU"
    assert model.table.max_num_batched_tokens == 64
    attention = model.table.operators.attention
    assert {point[0] for point in attention if point[2] and point[0]} == {16, 32}
    assert not [point for point in attention if point[1] and point[2]]
    between = {name: op.between for name, op in model.table.operators.counted.items()}
    assert (between["qkv_proj"], between["layernorm"]) == ("next", "line")


def test_llmservingsim_files_may_lie_beside_each_other(llmservingsim, tiny):
    for file in (llmservingsim / "tp1").iterdir():
        file.rename(llmservingsim / f"tp1_{file.name}")
    (llmservingsim / "tp1").rmdir()
    model = load_cost_model(f"llmservingsim:{llmservingsim}", model=tiny)
    assert model.step_ns(StepShape((), 1, 16)) == 1000 * (2 * (11 + 22 + 1) + 11 + 50)


@pytest.mark.parametrize(
    ("profiled", "skew", "mixed"), [("true", ((2, 0.2), (8, 0.0)), ((2, 0.9),)), ("false", (), ())]
)
def test_unequal_contexts_count_where_their_profile_was_on(
    llmservingsim, tiny, profiled, skew, mixed
):
    """Medians of alpha by decodes, alone and beside chunks; below 0 is noise, no value no ratio."""
    rows = [("pure", 2, 0.1), ("pure", 2, 0.3), ("pure", 2, 0.2), ("pure", 8, -0.1)]
    beside = [("mixed", 2, 0.9), ("mixed", 2, "")]
    write(llmservingsim / "tp1/skew.csv", "regime,n,alpha", *rows, *beside)
    meta = llmservingsim / "meta.yaml"
    meta.write_text(meta.read_text() + f"skew_profile: {{enabled: {profiled}}}\n")
    model = load_cost_model(f"llmservingsim:{llmservingsim}", model=tiny)
    assert model.table.operators.skew == skew
    assert model.table.operators.mixed_skew == mixed


def test_experts_are_priced_by_how_many_the_tokens_reach(llmservingsim, tiny):
    """4 experts, 2 a token. 1 token reaches 2: 20 us. 2 tokens reach 3: halfway from 24 to 44.
    On 2 GPUs, each has half of both: 2 tokens are 1 token and 1.5 experts, as little as 2 cost.
    """
    moe = [(1, 2, 20.0), (2, 2, 24.0), (1, 4, 40.0), (2, 4, 44.0)]
    write(llmservingsim / "tp1/moe.csv", "tokens,activated_experts,time_us", *moe)
    model = load_cost_model(f"llmservingsim:{llmservingsim}", model=tiny)
    points = dict(model.table.operators.counted["experts"].points)
    assert (points[1], points[2]) == (20.0, 34.0)
    rows = read_rows(llmservingsim / "tp1/moe.csv", COLUMNS)
    assert dict(experts_operator(rows, 2).points)[2] == 20.0
    with pytest.raises(ConfigError, match="3 GPUs do not divide 4 experts"):
        experts_operator(rows, 3)


def test_a_model_of_another_size_is_refused(llmservingsim):
    with pytest.raises(ConfigError, match="was measured for tiny, whose intermediate_size is 128"):
        load_cost_model(f"llmservingsim:{llmservingsim}", model="llama-3.1-8b")


def test_a_bad_cell_is_named_by_file_line_and_column(llmservingsim, tiny):
    with (llmservingsim / "tp1/per_sequence.csv").open("a") as file:
        file.write("lm_head,2,fast\n")
    with pytest.raises(TableFormatError, match=r"per_sequence.csv:3: time_us must be a number"):
        load_cost_model(f"llmservingsim:{llmservingsim}", model=tiny)


def test_a_layer_that_is_not_understood_is_refused(llmservingsim, tiny):
    with (llmservingsim / "tp1/dense.csv").open("a") as file:
        file.write("router,2,5\n")
    with pytest.raises(TableFormatError, match=r"dense.csv:11: layer 'router' is not understood"):
        load_cost_model(f"llmservingsim:{llmservingsim}", model=tiny)


def test_a_missing_file_is_named_with_what_is_there(llmservingsim, tiny):
    (llmservingsim / "tp1/attention.csv").unlink()
    with pytest.raises(ConfigError, match=r"attention.csv: no such file \(there: dense.csv, per_"):
        load_cost_model(f"llmservingsim:{llmservingsim}", model=tiny)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "needs a model"),
        ({"model": "llama-3.1-8b", "dtype": "fp8"}, "dtype 'fp8' has no effect"),
        ({"model": "llama-3.1-8b", "tp": 0}, "must be at least 1"),
    ],
)
def test_options_that_make_no_sense_are_refused(llmservingsim, options, problem):
    with pytest.raises(ConfigError, match=problem):
        load_cost_model(f"llmservingsim:{llmservingsim}", **options)


def test_an_unknown_source_or_folder_is_refused(tmp_path):
    model = find_model("llama-3.1-8b")
    with pytest.raises(ConfigError, match="no importer 'vidor', did you mean vidur"):
        import_table("vidor", tmp_path, model)
    with pytest.raises(ConfigError, match="no such folder"):
        import_table("vidur", tmp_path / "absent", model)


def test_the_command_writes_a_table_that_loads(llmservingsim, tiny, tmp_path, capsys):
    out = tmp_path / "table.json"
    code = main(["llmservingsim", str(llmservingsim), "--model", str(tiny), "-o", str(out)])
    assert code == 0
    assert load_table(out).held_out["n"] > 0
    assert "held-out error median" in capsys.readouterr().out


def test_the_command_says_what_is_wrong_and_exits_with_2(tmp_path, capsys):
    arguments = ["vidur", str(tmp_path), "--model", "llama-3.1-8b", "-o", str(tmp_path / "t")]
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith("Error: ")


VIDUR = (
    *("input_layernorm", "attn_pre_proj", "attn_rope", "attn_post_proj", "mlp_down_proj"),
    *("post_attention_layernorm", "mlp_up_proj", "mlp_act", "add", "emb"),
)


@pytest.fixture
def vidur(tmp_path):
    folder = tmp_path / "a100/tiny"
    sizes = "n_embd,n_expanded_embd,n_head,n_kv_head,num_tokens,num_tensor_parallel_workers"
    write(
        folder / "mlp.csv",
        ",".join(f"time_stats.{name}.median" for name in VIDUR) + f",{sizes}",
        *((*[0.001 * tokens] * 10, 64, 128, 4, 2, tokens, 2) for tokens in (1, 2, 4)),
        *((*[0.003 * tokens] * 10, 64, 128, 4, 2, tokens, 2) for tokens in (4,)),
    )
    header = (
        "time_stats.attn_prefill.median,time_stats.attn_decode.median,n_embd,n_q_head,n_kv_head,"
        "num_tensor_parallel_workers,batch_size,prefill_chunk_size,kv_cache_size,is_prefill"
    )
    rows = [("", 0.02 * n, 64, 4, 2, 2, n, 0, kv, "False") for n in (1, 2, 4) for kv in (8, 16)]
    rows += [(0.1 * n, "", 64, 4, 2, 2, 1, n, 0, "True") for n in (1, 2, 4)]
    write(folder / "attention.csv", header, *rows)
    return folder


def test_vidur_is_in_milliseconds_and_repeated_rows_are_averaged(vidur, tiny):
    """4 decodes: nine operators of a layer at (4 + 12) / 2 = 8 us, attention 80; embedding 8."""
    model = load_cost_model(f"vidur:{vidur}", model=tiny, tp=2)
    assert model.step_ns(StepShape((), 4, 32)) == 1000 * (2 * (9 * 8 + 80) + 8)
    assert model.step_ns(StepShape(((2, 0),), 0, 0)) == 1000 * (2 * (9 * 2 + 200) + 2)
    assert "without all-reduce" in model.table.provenance["note"]


def test_vidur_adds_the_all_reduce_of_a_node_in_bytes(vidur, tiny):
    """2 decodes x 64 x 2 bytes = 256 bytes: 30 us, twice a layer."""
    header = "time_stats.all_reduce.median,size,num_workers,devices_per_node"
    rows = [(0.03, 256, 2, 2), (0.05, 512, 2, 2), (9.0, 256, 2, 1), (9.0, 256, 4, 4)]
    alone = load_cost_model(f"vidur:{vidur}", model=tiny, tp=2)
    write(vidur / "all_reduce.csv", header, *rows)
    model = load_cost_model(f"vidur:{vidur}", model=tiny, tp=2)
    shape = StepShape((), 2, 16)
    assert model.step_ns(shape) - alone.step_ns(shape) == 2 * 2 * 30_000


def test_vidur_has_no_rows_for_another_degree(vidur, tiny):
    with pytest.raises(ConfigError, match=r"no rows for 4 GPUs \(there: \[2\]\)"):
        load_cost_model(f"vidur:{vidur}", model=tiny, tp=4)


def test_the_history_of_a_chunk_is_the_difference_of_two_whole_prompts():
    """T(4) = 20, T(8) = 60: 4 tokens after 4 cost 40; 4 after 4 of a flat curve cost T(4)."""
    assert with_history(((4, 20.0), (8, 60.0))) == [
        (4, 0, 0, 0, 20.0),
        (4, 4, 0, 0, 40.0),
        (8, 0, 0, 0, 60.0),
    ]
    assert with_history(((4, 20.0), (8, 21.0)))[1] == (4, 4, 0, 0, 20.0)


def test_the_measured_sizes_around_one():
    assert around([32, 64, 128], 64) == (64, 64)
    assert around([32, 64, 128], 100) == (64, 128)
    assert around([32, 64, 128], 500) == (64, 128)


def rows_of(name):
    with gzip.open(RTX4090 / f"tp1/{name}.csv.gz", "rt") as file:
        return list(csv.DictReader(file))


def column(name, axis, count):
    return {row["layer"]: float(row["time_us"]) for row in rows_of(name) if row[axis] == str(count)}


@needs_profiles
def test_rtx_4090_steps_are_the_sums_of_the_published_rows():
    """32 decodes at 1,024; and 16 prompt tokens beside them, whose attention was measured."""
    model = load_cost_model(f"llmservingsim:{RTX4090}", model="llama-3.1-8b")
    attention = {
        (row["prefill_chunk"], row["kv_prefill"], row["n_decode"], row["kv_decode"]): float(
            row["time_us"]
        )
        for row in rows_of("attention")
    }
    for shape, tokens, sequences, key in (
        (StepShape((), 32, 32 * 1024), 32, 32, ("0", "0", "32", "1024")),
        (StepShape(((16, 0),), 32, 32 * 1024), 48, None, ("16", "0", "32", "1024")),
    ):
        dense = column("dense", "tokens", tokens)
        per_step = dense.pop("embedding") + dense.pop("final_layernorm")
        layer = sum(dense.values()) + dense["layernorm"] + attention[key]
        if sequences:
            heads = sum(column("per_sequence", "sequences", sequences).values())
        else:  # 33 sequences lie between the measured 32 and 36
            low, high = (
                sum(column("per_sequence", "sequences", count).values()) for count in (32, 36)
            )
            heads = low + (high - low) / 4
        assert model.step_ns(shape) == pytest.approx(1000 * (32 * layer + per_step + heads), abs=2)


@needs_profiles
def test_h100_decode_steps_from_public_kernels_are_near_the_measured_ones():
    """Qwen3-14B on one H100, vLLM: 11.11 ms + 0.040 a sequence + 6.1e-5 a context token, and
    11.11 + 0.0387 x (tokens - 255) for prompts, both fitted to real steps; nothing is fitted here.
    """
    folder = PROFILES / "aiconfigurator/h100_sxm/vllm-0.24.0"
    model = load_cost_model(f"aiconfigurator:{folder}", model="qwen3-14b")
    for seqs in (1, 4, 10):
        real_ms = 11.11 + 0.040 * seqs + 6.1e-5 * 500 * seqs
        assert model.step_ns(StepShape((), seqs, 500 * seqs)) / 1e6 == pytest.approx(
            real_ms, rel=0.05
        )
    real_ms = 11.11 + 0.0387 * (986 - 255)
    assert model.step_ns(StepShape(((986, 0),), 0, 0)) / 1e6 == pytest.approx(real_ms, rel=0.05)


@needs_profiles
def test_every_published_model_that_fits_is_imported_and_has_its_error(tmp_path):
    llama = {**TINY, "hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 80}
    llama |= {"num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 128}
    (tmp_path / "llama-2-70b.json").write_text(json.dumps({**llama, "vocab_size": 32000}))
    tables = [
        import_table(source, PROFILES / folder, find_model(model), tensor_parallel=tp)
        for source, folder, model, tp in (
            ("vidur", "vidur/a100/Llama-2-70b-hf", tmp_path / "llama-2-70b.json", 2),
            ("llmservingsim", "llmservingsim/RTXPRO6000/Qwen3-32B", "qwen3-32b", 2),
            ("llmservingsim", "llmservingsim/RTXPRO6000/Llama-3.1-8B", "llama-3.1-8b", 1),
            ("aiconfigurator", "aiconfigurator/h200_sxm/vllm-0.24.0", "qwen3-32b", 4),
            ("aiconfigurator", "aiconfigurator/a100_sxm/vllm-0.14.0", "llama-3.1-8b", 2),
        )
    ]
    assert all(table.is_measured for table in tables)
    assert all(0 < table.held_out["median"] < 0.1 for table in tables)


@needs_profiles
def test_a_published_mixture_of_experts_has_prices_and_no_other_model_takes_them():
    """One decode: 48 layers, of which experts take 50.2 us each, for 8 of 128."""
    folder = PROFILES / "llmservingsim/RTXPRO6000/Qwen3-30B-A3B-Instruct-2507"
    model = load_cost_model(f"llmservingsim:{folder}", model="qwen3-30b-a3b")
    terms = dict(model.explain(StepShape((), 1, 512)))
    assert terms["experts"] == pytest.approx(48 * 50.2297 / 1000, rel=1e-5)
    with pytest.raises(ConfigError):
        load_cost_model(f"llmservingsim:{folder}", model="qwen3-32b")
