"""`DecoderSizes`: the shapes of a decoder's kernels, from its Hugging Face `config.json`.

Read here and not by `costmodels.ModelConfig`, so that measuring needs nothing but torch and numpy.
Llama, Mistral, Qwen2 and Qwen3; with experts Mixtral, Qwen2-MoE and Qwen3-MoE.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace
from pathlib import Path

from .config_json import ConfigJson
from .errors import CalibrationError

BUNDLED = Path(__file__).resolve().parents[1] / "costmodels" / "models"
DENSE = ("llama", "mistral", "qwen2", "qwen3")
EXPERTS_KEY = {
    "mixtral": "num_local_experts",
    "qwen2_moe": "num_experts",
    "qwen3_moe": "num_experts",
}
"""Families with experts, and how each calls their number."""
FAMILIES = (*DENSE, *EXPERTS_KEY)
QK_NORM = ("qwen3", "qwen3_moe")
OTHER_SHAPES = ("quantization_config", "num_local_experts", "num_experts", "n_routed_experts")
"""Keys of models whose kernels are not those timed here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderSizes:
    """Counts. max_model_len: 0 if the file does not say; rope_theta: base of the rotations.

    experts: 0 for a dense model. With experts, `intermediate` is that of each of them, and
    `shared_intermediate` that of the one that all tokens pass (0: there is none).
    """

    name: str
    family: str
    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    ties_embeddings: bool = False
    attention_bias: bool = False
    max_model_len: int = 0
    rope_theta: float = 10_000.0
    experts: int = 0
    experts_per_token: int = 0
    shared_intermediate: int = 0

    @property
    def qkv(self) -> int:
        """Columns of the fused QKV matrix."""
        return (self.heads + 2 * self.kv_heads) * self.head_dim

    @property
    def shapes(self) -> str:
        """What decides the time of every kernel, in words."""
        experts = f", {self.experts_per_token} of {self.experts} experts" if self.experts else ""
        shared = f" and a shared one of {self.shared_intermediate}" * bool(self.shared_intermediate)
        return (
            f"{self.family}, {self.layers} layers, hidden {self.hidden}, intermediate "
            f"{self.intermediate}{experts}{shared}, {self.heads} heads and {self.kv_heads} KV heads"
            f" of {self.head_dim}, vocabulary {self.vocabulary}"
        )

    @property
    def has_qk_norm(self) -> bool:
        """Are queries and keys normalised before they are rotated, as in Qwen3?"""
        return self.family in QK_NORM

    @property
    def mlp_weights(self) -> int:
        """Weights of a layer's MLP, or of all its experts and their router."""
        if not self.experts:
            return 3 * self.hidden * self.intermediate
        each = 3 * self.hidden * self.intermediate + self.hidden
        # The shared expert has a gate of one column.
        shared = 3 * self.hidden * self.shared_intermediate + self.hidden
        return self.experts * each + (shared if self.shared_intermediate else 0)

    @property
    def weights(self) -> int:
        """Weights of all matrices."""
        attention = self.hidden * (self.qkv + self.heads * self.head_dim)
        tables = (1 if self.ties_embeddings else 2) * self.vocabulary * self.hidden
        return self.layers * (attention + self.mlp_weights) + tables

    @property
    def kv_elements_per_token(self) -> int:
        """Elements that one token takes in the KV cache, all layers."""
        return 2 * self.layers * self.kv_heads * self.head_dim

    def divided(self, tensor_parallel: int) -> DecoderSizes:
        """The shapes on each of `tensor_parallel` devices.

        Heads, MLP (every expert's too) and vocabulary are split, as in vLLM; KV heads are split, or
        copied where there are fewer of them than devices. Source: Shoeybi et al., "Megatron-LM"
        (2019), section 3. CalibrationError where something cannot be split evenly.
        """
        tp = tensor_parallel
        if tp == 1:
            return self
        for what in ("heads", "intermediate", "shared_intermediate"):
            if getattr(self, what) % tp:
                raise CalibrationError(
                    f"tensor parallel size {tp} does not divide the {getattr(self, what)} "
                    f"{what.replace('_', ' ')} of {self.name}: take a divisor of it"
                )
        if self.kv_heads % tp and tp % self.kv_heads:
            raise CalibrationError(
                f"tensor parallel size {tp} neither divides the {self.kv_heads} KV heads of "
                f"{self.name} nor is a multiple of them"
            )
        return replace(
            self,
            heads=self.heads // tp,
            kv_heads=max(1, self.kv_heads // tp),
            intermediate=self.intermediate // tp,
            shared_intermediate=self.shared_intermediate // tp,
            vocabulary=-(-self.vocabulary // tp),
        )


def find_sizes(name_or_path: str | Path) -> DecoderSizes:
    """A `config.json` by path (or the folder of one), or a bundled model by name.

    Raises CalibrationError, naming file and key, for anything wrong, missing or not timed here.
    """
    path = Path(name_or_path)
    bundled = {file.stem: file for file in sorted(BUNDLED.glob("*.json"))}
    if str(name_or_path) in bundled:
        path = bundled[str(name_or_path)]
    elif (path / "config.json").is_file():
        path = path / "config.json"
    elif path.suffix != ".json":
        near = difflib.get_close_matches(str(name_or_path), bundled, n=1)
        hint = f", did you mean {near[0]}?" if near else ""
        raise CalibrationError(
            f"model {str(name_or_path)!r} is neither a config.json nor bundled{hint} "
            f"(bundled: {', '.join(bundled)})"
        )
    return _sizes(ConfigJson(path))


def _sizes(config: ConfigJson) -> DecoderSizes:
    family = config.get("model_type")
    if family not in FAMILIES:
        raise config.error(f"model_type {family!r} is not one of {', '.join(FAMILIES)}")
    for key in OTHER_SHAPES:
        if config.get(key) is not None and key != EXPERTS_KEY.get(str(family)):
            raise config.error(f"{key}: kernels of such models are not timed yet")
    if config.get("sliding_window") is not None and config.get("use_sliding_window", True):
        raise config.error(
            f"sliding_window is {config.get('sliding_window')}: attention over a window is not "
            "timed; set it to null to time the whole context"
        )
    hidden, heads = config.whole("hidden_size"), config.whole("num_attention_heads")
    kv_heads = config.whole("num_key_value_heads", heads)
    if heads % kv_heads:
        raise config.error(f"{kv_heads} KV heads do not divide {heads} heads")
    sizes = DecoderSizes(
        name=config.name,
        family=str(family),
        hidden=hidden,
        intermediate=0,
        layers=config.whole("num_hidden_layers"),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=config.whole("head_dim", hidden // heads),
        vocabulary=config.whole("vocab_size"),
        ties_embeddings=bool(config.get("tie_word_embeddings", False)),
        attention_bias=bool(config.get("attention_bias", family in ("qwen2", "qwen2_moe"))),
        max_model_len=config.whole("max_position_embeddings", 0),
        rope_theta=config.rope_theta(),
    )
    return _with_mlp(sizes, config)


def _with_mlp(sizes: DecoderSizes, config: ConfigJson) -> DecoderSizes:
    """The same with its MLP or its experts."""
    if sizes.family in DENSE:
        return replace(sizes, intermediate=config.whole("intermediate_size"))
    if config.get("mlp_only_layers") or config.get("decoder_sparse_step", 1) != 1:
        raise config.error(
            "mlp_only_layers, decoder_sparse_step: layers with and without experts in one model "
            "are not timed yet"
        )
    of_qwen = sizes.family != "mixtral"
    experts = config.whole(EXPERTS_KEY[sizes.family])
    per_token = config.whole("num_experts_per_tok")
    if per_token > experts:
        raise config.error(f"num_experts_per_tok is {per_token}: there are {experts} experts")
    return replace(
        sizes,
        intermediate=config.whole("moe_intermediate_size" if of_qwen else "intermediate_size"),
        experts=experts,
        experts_per_token=per_token,
        shared_intermediate=config.whole("shared_expert_intermediate_size", 0),
    )
