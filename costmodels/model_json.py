"""Reading a model's `config.json`: which keys there may be, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

from simulator.errors import ConfigError, nearest

EXPERTS_KEY = {
    "mixtral": "num_local_experts",
    "qwen2_moe": "num_experts",
    "qwen3_moe": "num_experts",
}
"""Families with experts, and how each calls their number."""
FAMILIES = ("llama", "mistral", "qwen2", "qwen3", *EXPERTS_KEY)
SIZES = (
    *("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"),
    "vocab_size",
)
EXPERTS = (
    *("num_experts_per_tok", "moe_intermediate_size", "shared_expert_intermediate_size"),
    *("mlp_only_layers", "decoder_sparse_step"),
)
"""Read of families with experts only."""
READ = (
    *SIZES,
    *("model_type", "num_key_value_heads", "head_dim", "tie_word_embeddings"),
    *("attention_bias", "max_position_embeddings", "sliding_window", "use_sliding_window"),
)
WITHOUT_SIZE = (
    *("architectures", "attention_dropout", "auto_map", "dtype", "hidden_act", "mlp_bias"),
    *("initializer_range", "layer_types", "max_window_layers", "pretraining_tp", "rms_norm_eps"),
    *("rope_parameters", "rope_scaling", "rope_theta", "torch_dtype", "use_cache"),
    *("norm_topk_prob", "output_router_logits", "router_aux_loss_coef", "router_jitter_noise"),
)
"""Keys that change no size counted here, and that are ignored."""


def read_json(path: Path) -> dict[str, object]:
    """The keys of a file; ConfigError says where it is wrong."""
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file: give a model's config.json") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None
    except json.JSONDecodeError as error:
        at = f"{path}:{error.lineno}:{error.colno}"
        raise ConfigError(f"{at}: not JSON: {error.msg}") from None
    if not isinstance(raw, dict):
        raise ConfigError(f"{path}: must be a JSON object, as in a model's config.json")
    return raw


def refuse_unknown(raw: dict[str, object], path: Path) -> None:
    """Refuse a key that may change the size of the model, a family that is not known."""
    family = raw.get("model_type")
    if family is not None and family not in FAMILIES:
        raise ConfigError(f"{path}: model_type {family!r} is not one of {', '.join(FAMILIES)}")
    of_experts = (EXPERTS_KEY[str(family)], *EXPERTS) if family in EXPERTS_KEY else ()
    known = (*READ, *of_experts, *WITHOUT_SIZE)
    for key in raw:
        if key in known or key.startswith("_") or key.endswith(("_token_id", "_version")):
            continue
        raise ConfigError(
            f"{path}: {key} is not understood{nearest(key, known)}: it may change the size of "
            "the model; remove it from the file if it does not"
        )
    if raw.get("sliding_window") is not None and raw.get("use_sliding_window", True):
        raise ConfigError(
            f"{path}: sliding_window is {raw['sliding_window']}: the KV cache of a sliding window "
            "is not modelled; set it to null to count the whole context"
        )


def experts_of(raw: dict[str, object], path: Path) -> dict[str, int]:
    """The sizes of a model with experts; nothing for a dense one."""
    family = str(raw.get("model_type"))
    if family not in EXPERTS_KEY:
        return {}
    if raw.get("mlp_only_layers") or raw.get("decoder_sparse_step", 1) != 1:
        raise ConfigError(
            f"{path}: mlp_only_layers, decoder_sparse_step: layers with and without experts in one "
            "model are not counted"
        )
    of_each = "intermediate_size" if family == "mixtral" else "moe_intermediate_size"
    size = {
        "experts": whole_number(raw, EXPERTS_KEY[family], path),
        "experts_per_token": whole_number(raw, "num_experts_per_tok", path),
        "intermediate_size": whole_number(raw, of_each, path),
        "shared_intermediate_size": whole_number(raw, "shared_expert_intermediate_size", path, 0),
    }
    if size["experts_per_token"] > size["experts"]:
        raise ConfigError(
            f"{path}: num_experts_per_tok is {size['experts_per_token']}: there are "
            f"{size['experts']} experts"
        )
    return size


def whole_number(raw: dict[str, object], key: str, path: Path, default: int | None = None) -> int:
    """A whole number, at least 1; the default if the key is absent or null."""
    value = raw.get(key)
    if value is None and default is not None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigError(f"{path}: {key} is {value!r}: must be a whole number, at least 1")
    return value
