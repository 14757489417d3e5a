"""The timed work is a decoder: chunks, cache, groups and masks give what plain attention gives."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from calibration.batch import Chunk  # noqa: E402  # after the skip
from calibration.kernels import Decoder  # noqa: E402
from calibration.sizes import DecoderSizes  # noqa: E402

SMALL = DecoderSizes(
    name="small",
    family="llama",
    hidden=32,
    intermediate=48,
    layers=2,
    heads=4,
    kv_heads=2,
    head_dim=8,
    vocabulary=50,
)
TOKENS = 12


@pytest.fixture
def decoder():
    with torch.inference_mode():
        yield Decoder(SMALL, cache_tokens=64)


def qkv(decoder, tokens):
    return (
        decoder.random(tokens, SMALL.heads, SMALL.head_dim),
        decoder.random(tokens, SMALL.kv_heads, SMALL.head_dim),
        decoder.random(tokens, SMALL.kv_heads, SMALL.head_dim),
    )


def plain_attention(q, k, v):
    """Causal attention written out, head by head; (tokens, heads x head size)."""
    group = SMALL.heads // SMALL.kv_heads
    hidden = torch.ones(len(q), len(q)).triu(1).bool()
    heads = []
    for head in range(SMALL.heads):
        scores = q[:, head] @ k[:, head // group].T * SMALL.head_dim**-0.5
        weights = scores.masked_fill(hidden, float("-inf")).softmax(-1)
        heads.append(weights @ v[:, head // group])
    return torch.cat(heads, dim=-1)


def attend(decoder, cache, rows, chunks, contexts):
    return decoder.attend(cache, *rows, decoder.batch(chunks, contexts))


def test_a_whole_prompt_attends_causally_with_grouped_queries(decoder):
    rows, cache = qkv(decoder, TOKENS), decoder.cache(0, 1, TOKENS)
    attended = attend(decoder, cache, rows, [Chunk(0, 0, TOKENS)], [])
    torch.testing.assert_close(attended, plain_attention(*rows))


def test_chunks_and_a_decode_give_what_the_whole_prompt_gives(decoder):
    rows, cache = qkv(decoder, TOKENS), decoder.cache(0, 1, TOKENS + 4)
    parts = []
    for past, end in ((0, 5), (5, 11)):
        part = [row[past:end] for row in rows]
        parts.append(attend(decoder, cache, part, [Chunk(0, past, end - past)], []))
    parts.append(attend(decoder, cache, [row[11:] for row in rows], [], [11]))
    torch.testing.assert_close(torch.cat(parts), plain_attention(*rows))


def test_decodes_of_unequal_contexts_beside_a_chunk_do_not_see_each_other(decoder):
    """Sequences of 3 and 7 tokens decode their last one beside a prompt of 4."""
    prompts = [qkv(decoder, tokens) for tokens in (3, 7, 4)]
    cache = decoder.cache(0, 3, 8)
    for slot, tokens in ((0, 2), (1, 6)):
        rows = [row[:tokens] for row in prompts[slot]]
        attend(decoder, cache, rows, [Chunk(slot, 0, tokens)], [])
    mixed = [
        torch.cat([short[2:], long[6:], prompt])
        for short, long, prompt in zip(*prompts, strict=True)
    ]
    attended = attend(decoder, cache, mixed, [Chunk(2, 0, 4)], [2, 6])
    short, long, prompt = (plain_attention(*rows) for rows in prompts)
    torch.testing.assert_close(attended, torch.cat([short[2:], long[6:], prompt]))


def test_rotation_keeps_lengths_and_depends_on_the_distance_only(decoder):
    """q at 5, k at 3 and q at 9, k at 7 have the same product; position 0 is not turned."""
    vector = decoder.random(1, 1, SMALL.head_dim)

    def turned(position):
        batch = decoder.batch([], [position])
        return decoder.rotate(vector, vector, batch)[0].flatten()

    torch.testing.assert_close(turned(0), vector.flatten())
    torch.testing.assert_close(turned(9).norm(), vector.norm())
    torch.testing.assert_close(turned(5) @ turned(3), turned(9) @ turned(7))


def test_a_step_samples_one_token_per_sequence_and_laps_every_kernel(decoder):
    batch = decoder.batch([Chunk(2, 0, 5)], [3, 6])
    caches = [decoder.cache(layer, 3, 8) for layer in range(SMALL.layers)]
    laps = []
    tokens = decoder.step(batch, caches, laps.append)
    assert tokens.shape == (3,)
    assert all(0 <= token < SMALL.vocabulary for token in tokens.tolist())
    layer = ["norms", "qkv", "rope", "attention", "o", "norms", "gate_up", "activation", "down"]
    assert laps == ["embedding", *layer * SMALL.layers, "final_norm", "lm_head", "sampler"]


def test_weights_and_cache_are_random_and_the_seed_repeats_them():
    one, same, other = (Decoder(SMALL, cache_tokens=8, seed=seed) for seed in (1, 1, 2))
    weights, cache = one.layers[0].qkv, one.cache(1, 2, 4)
    assert weights.count_nonzero() == weights.numel()
    assert cache.keys.count_nonzero() == cache.keys.numel()
    assert torch.equal(weights, same.layers[0].qkv)
    assert not torch.equal(weights, other.layers[0].qkv)


@pytest.mark.parametrize("family", ["qwen2", "qwen3"])
def test_qwen_has_its_bias_or_its_norms(family):
    from dataclasses import replace

    sizes = replace(SMALL, family=family, attention_bias=family == "qwen2", ties_embeddings=True)
    decoder = Decoder(sizes, cache_tokens=8)
    assert (decoder.layers[0].qkv_bias is not None) == (family == "qwen2")
    assert decoder.lm_head is decoder.embeddings
    caches = [decoder.cache(layer, 1, 8) for layer in range(2)]
    assert decoder.step(decoder.batch([Chunk(0, 0, 4)], []), caches).shape == (1,)


@pytest.mark.gpu
def test_kernels_are_timed_by_device_events():
    if not torch.cuda.is_available():
        pytest.skip("there is no CUDA device")
    from calibration.grid import Shape
    from calibration.measuring import StepTimer
    from calibration.timing import CAREFUL

    with torch.inference_mode():
        timer = StepTimer(Decoder(SMALL, device="cuda:0", dtype=torch.bfloat16))
        kernels = timer.kernels(Shape(16, 0, 2, 8), CAREFUL)
        assert all(trial.median_ns > 0 for trial in kernels.values())
        assert timer.whole(Shape(0, 0, 2, 8), CAREFUL).median_ns > 0
