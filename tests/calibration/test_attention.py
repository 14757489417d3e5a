"""Which library attends, over a cache of which dtype: found by running it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from calibration import attention, attention_libraries  # noqa: E402  # after the skip
from calibration.attention import BACKENDS, TORCH_SDPA, choose_backend  # noqa: E402
from calibration.batch import Batch, Cache, Chunk  # noqa: E402
from calibration.errors import CalibrationError  # noqa: E402
from calibration.kernels import Decoder  # noqa: E402
from calibration.kv_dtype import kv_dtype_of, quantised  # noqa: E402
from calibration.sizes import DecoderSizes  # noqa: E402

SMALL = DecoderSizes(
    name="small",
    family="llama",
    hidden=32,
    intermediate=48,
    layers=1,
    heads=4,
    kv_heads=2,
    head_dim=16,
    vocabulary=50,
)
CUDA = torch.device("cuda:0")


@pytest.fixture
def installed(monkeypatch):
    """Says which libraries can be imported."""

    def install(*names):
        monkeypatch.setattr(
            attention.importlib.util, "find_spec", lambda name: name if name in names else None
        )

    return install


def probe_of(answers):
    """Attention that gives the numbers of the backend's module, or raises what stands there."""

    def probe(backend):
        answer = answers.get(backend.module, 1.0)
        if isinstance(answer, Exception):
            raise answer
        return torch.full((4,), answer)

    return probe


def test_flashinfer_is_taken_where_it_runs(installed):
    installed("flashinfer", "flash_attn")
    assert choose_backend("auto", CUDA, probe_of({})) == (BACKENDS["flashinfer"], [])


def test_a_library_that_fails_or_is_absent_is_passed_over_and_named(installed):
    installed("flash_attn")
    broken = RuntimeError("no kernel image is available\nmore")
    backend, refused = choose_backend("auto", CUDA, probe_of({"flash_attn": broken}))
    assert backend is TORCH_SDPA
    assert refused == ["flashinfer: not installed", "flash_attn: no kernel image is available"]


@pytest.mark.parametrize("wrong", [1.2, float("nan")])
def test_a_library_that_gives_other_numbers_is_passed_over(installed, wrong):
    installed("flashinfer", "flash_attn")
    backend, refused = choose_backend("auto", CUDA, probe_of({"flashinfer": wrong}))
    assert backend is BACKENDS["flash_attn"]
    assert refused == ["flashinfer: gives other numbers than torch"]


def test_a_backend_asked_for_is_taken_or_refused_with_its_reason(installed):
    installed("flash_attn")
    assert choose_backend("torch_sdpa", CUDA, probe_of({}))[0] is TORCH_SDPA
    with pytest.raises(CalibrationError, match=r"flashinfer: not installed\): take .*auto"):
        choose_backend("flashinfer", CUDA, probe_of({}))
    with pytest.raises(CalibrationError, match="did you mean flash_attn"):
        choose_backend("flash_atn", CUDA, probe_of({}))
    with pytest.raises(CalibrationError, match="its kernels are for CUDA devices"):
        choose_backend("flash_attn", torch.device("cpu"), probe_of({}))


def test_a_cache_that_no_backend_reads_is_refused_with_the_remedy(installed):
    installed()
    with pytest.raises(CalibrationError, match=r"not implemented for fp8\): take --kv-cache-dtype"):
        choose_backend("auto", CUDA, probe_of({"torch": RuntimeError("not implemented for fp8")}))


@pytest.mark.parametrize("name", ["fp8", "fp8_e5m2", "int8", "bfloat16"])
def test_attention_over_a_quantised_cache_is_nearly_that_over_the_plain_one(name):
    """Relative distance: fp8 keeps 3 or 2 bits, int8 has 32 steps a standard deviation."""
    with torch.inference_mode():
        plain = Decoder(SMALL, cache_tokens=64)
        decoder = Decoder(SMALL, cache_tokens=64, kv_dtype=kv_dtype_of(name, torch.float32))
        rows = [plain.random(6, heads, 16) for heads in (4, 2, 2)]
        held = [plain.random(2 * 2 * 8 * 16).view(2, 2, 8, 16) for _ in range(2)]
        attended = []
        for one in (plain, decoder):
            cache = Cache(*(quantised(half, one.kv_dtype) for half in held))
            attended.append(one.attend(cache, *rows, one.batch([Chunk(1, 2, 5)], [6])))
    assert decoder.cache(0, 1, 8).keys.dtype == decoder.kv_dtype
    distance = (attended[1] - attended[0]).norm() / attended[0].norm()
    assert 0 < distance < {"fp8_e5m2": 0.15}.get(name, 0.06)


def test_int8_keeps_four_standard_deviations():
    assert quantised(torch.tensor([0.0, 4.0, -9.0, 2.0]), torch.int8).tolist() == [0, 127, -127, 64]


def test_an_unknown_cache_dtype_names_the_nearest():
    with pytest.raises(CalibrationError, match=r"'int4' is not one of auto.*, did you mean int8\?"):
        kv_dtype_of("int4", torch.float32)


class FlashInfer:
    """Its API, as far as it is called, computed by torch."""

    def __init__(self):
        self.plans = []

    def single_prefill_with_kv_cache(self, q, k, v, *, causal, kv_layout):
        assert causal
        assert kv_layout == "HND"
        cache = Cache(k[None], v[None])
        return attention.sdpa_of_chunk(q, cache, Chunk(0, k.shape[1] - len(q), len(q)))

    def BatchDecodeWithPagedKVCacheWrapper(self, workspace, layout, **buffers):  # noqa: N802
        assert layout == "HND"
        assert buffers["use_cuda_graph"]
        return SimpleNamespace(plan=self.plan, run=self.run)

    def plan(self, indptr, indices, last_page_len, *sizes, **dtypes):
        assert dtypes == {
            "pos_encoding_mode": "NONE",
            "q_data_type": torch.float32,
            "kv_data_type": torch.float32,
        }
        self.lengths = last_page_len
        self.plans.append((indptr.tolist(), indices.tolist(), last_page_len.tolist(), sizes))

    def run(self, q, paged):
        keys, values = paged
        contexts = self.lengths.long() - 1
        longest = int(self.lengths.max())
        mask = (torch.arange(longest) > contexts[:, None])[:, None, None]
        batch = SimpleNamespace(
            decodes=len(q), mask=torch.zeros(mask.shape).masked_fill(mask, float("-inf"))
        )
        return attention.sdpa_of_decodes(q, Cache(keys, values), batch)


def test_flashinfer_gets_a_page_per_sequence_and_one_plan_per_batch(monkeypatch):
    library = FlashInfer()
    monkeypatch.setattr(attention_libraries, "_library", lambda name: library)
    monkeypatch.setattr(attention_libraries, "WORKSPACE_BYTES", 16)
    with torch.inference_mode():
        decoder = Decoder(SMALL, cache_tokens=64)
        rows = [decoder.random(7, heads, 16) for heads in (4, 2, 2)]
        batch, cache = decoder.batch([Chunk(2, 3, 5)], [4, 9]), decoder.cache(0, 3, 12)
        wanted = decoder.attend(cache, *rows, batch)
        decoder.backend = BACKENDS["flashinfer"]
        for _ in range(2):
            torch.testing.assert_close(decoder.attend(cache, *rows, batch), wanted)
    assert library.plans == [([0, 1, 2], [0, 1], [5, 10], (4, 2, 16, 12))]


def test_flash_attn_gets_tokens_before_heads(monkeypatch):
    def with_kvcache(q, k_cache, v_cache, *, cache_seqlens, causal):
        assert causal
        assert cache_seqlens.dtype == torch.int32
        held = Cache(k_cache.transpose(1, 2), v_cache.transpose(1, 2))
        return attention.sdpa_of_decodes(q[:, 0], held, batch)[:, None]

    def func(q, k, v, *, causal):
        assert causal
        held = Cache(k.transpose(1, 2), v.transpose(1, 2))
        new = q.shape[1]
        return attention.sdpa_of_chunk(q[0], held, Chunk(0, k.shape[1] - new, new))[None]

    library = SimpleNamespace(flash_attn_with_kvcache=with_kvcache, flash_attn_func=func)
    monkeypatch.setattr(attention_libraries, "_library", lambda name: library)
    with torch.inference_mode():
        decoder = Decoder(SMALL, cache_tokens=64)
        rows = [decoder.random(7, heads, 16) for heads in (4, 2, 2)]
        batch, cache = decoder.batch([Chunk(2, 3, 5)], [4, 9]), decoder.cache(0, 3, 12)
        wanted = decoder.attend(cache, *rows, batch)
        decoder.backend = BACKENDS["flash_attn"]
        torch.testing.assert_close(decoder.attend(cache, *rows, batch), wanted)


def test_padding_rows_run_through_the_gemms_and_get_no_token():
    with torch.inference_mode():
        decoder = Decoder(SMALL, cache_tokens=64)
        batch = decoder.batch([], [3, 6, 5], padding=1)
        assert isinstance(batch, Batch)
        assert (len(batch.tokens), batch.decodes) == (4, 3)
        assert decoder.step(batch, [decoder.cache(0, 3, 8)]).shape == (3,)
