"""`ModelConfig`: the sizes of a decoder, from its Hugging Face `config.json`.

Llama, Mistral, Qwen2 and Qwen3; with experts Mixtral, Qwen2-MoE and Qwen3-MoE. A key that is not
understood is refused, because it may change the size of the model (latent attention, quantised
weights).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from simulator.errors import ConfigError, nearest

from .model_json import SIZES, experts_of, read_json, refuse_unknown, whole_number
from .model_memory import heads_per_gpu, kv_bytes_per_head, linear_bytes, whole_bytes

BUNDLED_MODELS = Path(__file__).parent / "models"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """A decoder: grouped-query attention, gated MLP or experts. Sizes are counts, not bytes.

    experts: 0 for a dense model. With experts, `intermediate_size` is that of each of them, and
    `shared_intermediate_size` that of the one that all tokens pass (0: there is none).
    """

    name: str
    family: str
    hidden_size: int
    intermediate_size: int
    layers: int
    attention_heads: int
    kv_heads: int
    head_dim: int
    vocab_size: int
    ties_embeddings: bool
    attention_bias: bool = False
    max_model_len: int | None = None
    experts: int = 0
    experts_per_token: int = 0
    shared_intermediate_size: int = 0

    def __post_init__(self) -> None:
        if self.attention_heads % self.kv_heads:
            raise ConfigError(
                f"{self.name}: {self.kv_heads} KV heads do not divide "
                f"{self.attention_heads} attention heads"
            )

    @classmethod
    def from_json(cls, path: str | Path) -> ModelConfig:
        """Read a `config.json`; ConfigError names the file and the key that is wrong or missing."""
        path = Path(path)
        raw = read_json(path)
        refuse_unknown(raw, path)
        experts = experts_of(raw, path)
        needed = [key for key in SIZES if key != "intermediate_size" or not experts]
        missing = [key for key in ("model_type", *needed) if raw.get(key) is None]
        if missing:
            raise ConfigError(f"{path}: {', '.join(missing)} missing: the model's size needs it")
        size = {key: whole_number(raw, key, path) for key in needed} | experts
        hidden, heads = size["hidden_size"], size["num_attention_heads"]
        if raw.get("head_dim") is None and hidden % heads:
            raise ConfigError(f"{path}: head_dim missing, and {heads} heads do not divide {hidden}")
        return cls(
            name=path.stem if path.stem != "config" else path.resolve().parent.name,
            family=str(raw["model_type"]),
            hidden_size=hidden,
            intermediate_size=size["intermediate_size"],
            experts=size.get("experts", 0),
            experts_per_token=size.get("experts_per_token", 0),
            shared_intermediate_size=size.get("shared_intermediate_size", 0),
            layers=size["num_hidden_layers"],
            attention_heads=heads,
            kv_heads=whole_number(raw, "num_key_value_heads", path, heads),
            head_dim=whole_number(raw, "head_dim", path, hidden // heads),
            vocab_size=size["vocab_size"],
            ties_embeddings=bool(raw.get("tie_word_embeddings", False)),
            attention_bias=bool(
                raw.get("attention_bias", raw["model_type"] in ("qwen2", "qwen2_moe"))
            ),
            max_model_len=whole_number(raw, "max_position_embeddings", path, 0) or None,
        )

    @property
    def layer_weights(self) -> int:
        """Weights of one layer's matrices, all experts included."""
        return self.dense_layer_weights + self.experts * self.expert_weights

    @property
    def expert_weights(self) -> int:
        """Weights of one expert: gate, up, down; 0 for a dense model."""
        return 3 * self.hidden_size * self.intermediate_size if self.experts else 0

    @property
    def dense_layer_weights(self) -> int:
        """Weights of one layer that every token passes."""
        queries, keys = self.attention_heads * self.head_dim, self.kv_heads * self.head_dim
        attention = self.hidden_size * (2 * queries + 2 * keys)
        if not self.experts:
            return attention + 3 * self.hidden_size * self.intermediate_size
        shared = 3 * self.shared_intermediate_size + (1 if self.shared_intermediate_size else 0)
        return attention + self.hidden_size * (self.experts + shared)

    @property
    def active_layer_weights(self) -> int:
        """Weights of one layer that one token passes."""
        return self.dense_layer_weights + self.experts_per_token * self.expert_weights

    @property
    def lm_head_weights(self) -> int:
        """Weights of the output projection (shared with the embedding or not)."""
        return self.vocab_size * self.hidden_size

    @property
    def small_weights(self) -> int:
        """Norms and biases."""
        per_layer = 2 * self.hidden_size
        if self.family in ("qwen3", "qwen3_moe"):
            per_layer += 2 * self.head_dim
        if self.attention_bias:
            per_layer += (self.attention_heads + 2 * self.kv_heads) * self.head_dim
            # Qwen2 has no bias on the output projection; a Llama with attention_bias does.
            per_layer += 0 if self.family.startswith("qwen2") else self.hidden_size
        return self.layers * per_layer + self.hidden_size

    @property
    def parameters(self) -> int:
        """All weights."""
        embeddings = self.lm_head_weights * (1 if self.ties_embeddings else 2)
        return self.layers * self.layer_weights + embeddings + self.small_weights

    @property
    def attention_flops_per_pair(self) -> int:
        """FLOPs per (new token, token it attends to), all layers: Q x K and weights x V."""
        return 4 * self.attention_heads * self.head_dim * self.layers

    @property
    def attention_tokens_per_pair(self) -> float:
        """FLOPs of a token pair's attention / FLOPs of a token's matrices.

        About 1/30,000 for Qwen3-32B: the ratio that ties the two prefill terms of a fit.
        """
        return self.attention_flops_per_pair / (2 * self.layers * self.active_layer_weights)

    def weight_bytes(self, dtype: str = "bfloat16", tp: int = 1) -> int:
        """Bytes of weights on each of `tp` GPUs.

        Quantised dtypes (fp8, int8, int4) apply to the layers' matrices; embeddings, output
        projection, norms and biases stay at 2 bytes, as in the usual checkpoints. int4 adds a
        2-byte scale per 128 weights.
        """
        heads_per_gpu(self.attention_heads, tp, "attention heads")
        embeddings = self.lm_head_weights * (1 if self.ties_embeddings else 2)
        split = linear_bytes(self.layers * self.layer_weights, dtype) + 2 * embeddings
        return whole_bytes(split / tp) + 2 * self.small_weights

    def kv_bytes_per_token(self, kv_dtype: str = "bfloat16", tp: int = 1) -> int:
        """Bytes of KV cache one token takes on each of `tp` GPUs (KV heads are split, or copied).

        fp16, bf16: 2 bytes an element; fp8, int8: 1 (one scale for the tensor); int4: half, and
        per token and head a 2-byte scale and a 2-byte zero point.
        """
        heads = heads_per_gpu(self.kv_heads, tp, "KV heads")
        return 2 * self.layers * heads * kv_bytes_per_head(self.head_dim, kv_dtype)


def find_model(name_or_path: str | Path) -> ModelConfig:
    """A bundled model by name, or a `config.json` by path; ConfigError lists the bundled ones."""
    bundled = bundled_models()
    if str(name_or_path) in bundled:
        return ModelConfig.from_json(BUNDLED_MODELS / f"{name_or_path}.json")
    path = Path(name_or_path)
    if path.suffix == ".json":
        return ModelConfig.from_json(path)
    if (path / "config.json").is_file():
        return ModelConfig.from_json(path / "config.json")
    raise ConfigError(
        f"model {str(name_or_path)!r} is neither a config.json nor bundled"
        f"{nearest(str(name_or_path), bundled)} (bundled: {', '.join(bundled)})"
    )


def bundled_models() -> tuple[str, ...]:
    """Names of the bundled model sizes."""
    return tuple(sorted(path.stem for path in BUNDLED_MODELS.glob("*.json")))
