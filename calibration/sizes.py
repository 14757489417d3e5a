"""`DecoderSizes`: the shapes of a dense decoder's kernels, from its Hugging Face `config.json`.

Read here and not by `costmodels.ModelConfig`, so that measuring needs nothing but torch and numpy.
Llama, Mistral, Qwen2 and Qwen3.
"""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass
from pathlib import Path

from .errors import CalibrationError

BUNDLED = Path(__file__).resolve().parents[1] / "costmodels" / "models"
FAMILIES = ("llama", "mistral", "qwen2", "qwen3")
OTHER_SHAPES = ("quantization_config", "num_local_experts", "num_experts", "n_routed_experts")
"""Keys of models whose kernels are not those timed here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderSizes:
    """Counts. max_model_len: 0 if the file does not say; rope_theta: base of the rotations."""

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

    @property
    def qkv(self) -> int:
        """Columns of the fused QKV matrix."""
        return (self.heads + 2 * self.kv_heads) * self.head_dim

    @property
    def weights(self) -> int:
        """Weights of all matrices."""
        attention = self.hidden * (self.qkv + self.heads * self.head_dim)
        tables = (1 if self.ties_embeddings else 2) * self.vocabulary * self.hidden
        return self.layers * (attention + 3 * self.hidden * self.intermediate) + tables

    @property
    def kv_elements_per_token(self) -> int:
        """Elements that one token takes in the KV cache, all layers."""
        return 2 * self.layers * self.kv_heads * self.head_dim


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
    return _sizes(_read(path), path)


def _read(path: Path) -> dict[str, object]:
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CalibrationError(f"{path}: no such file: give a model's config.json") from None
    except (OSError, UnicodeDecodeError) as error:
        raise CalibrationError(f"{path}: cannot be read: {error}") from None
    except json.JSONDecodeError as error:
        at = f"{path}:{error.lineno}:{error.colno}"
        raise CalibrationError(f"{at}: not JSON: {error.msg}") from None
    if not isinstance(raw, dict):
        raise CalibrationError(f"{path}: must be a JSON object, as in a model's config.json")
    return raw


def _sizes(raw: dict[str, object], path: Path) -> DecoderSizes:
    family = raw.get("model_type")
    if family not in FAMILIES:
        raise CalibrationError(f"{path}: model_type {family!r} is not one of {', '.join(FAMILIES)}")
    for key in OTHER_SHAPES:
        if raw.get(key) is not None:
            raise CalibrationError(f"{path}: {key}: kernels of such models are not timed yet")
    if raw.get("sliding_window") is not None and raw.get("use_sliding_window", True):
        raise CalibrationError(
            f"{path}: sliding_window is {raw['sliding_window']}: attention over a window is not "
            "timed; set it to null to time the whole context"
        )
    hidden, heads = _whole(raw, "hidden_size", path), _whole(raw, "num_attention_heads", path)
    kv_heads = _whole(raw, "num_key_value_heads", path, heads)
    if heads % kv_heads:
        raise CalibrationError(f"{path}: {kv_heads} KV heads do not divide {heads} heads")
    return DecoderSizes(
        name=path.stem if path.stem != "config" else path.resolve().parent.name,
        family=str(family),
        hidden=hidden,
        intermediate=_whole(raw, "intermediate_size", path),
        layers=_whole(raw, "num_hidden_layers", path),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=_whole(raw, "head_dim", path, hidden // heads),
        vocabulary=_whole(raw, "vocab_size", path),
        ties_embeddings=bool(raw.get("tie_word_embeddings", False)),
        attention_bias=bool(raw.get("attention_bias", family == "qwen2")),
        max_model_len=_whole(raw, "max_position_embeddings", path, 0),
        rope_theta=_theta(raw.get("rope_theta", 10_000.0), path),
    )


def _whole(raw: dict[str, object], key: str, path: Path, default: int | None = None) -> int:
    value = raw.get(key)
    if value is None and default is not None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise CalibrationError(f"{path}: {key} is {value!r}: must be a whole number, at least 1")
    return value


def _theta(value: object, path: Path) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise CalibrationError(f"{path}: rope_theta is {value!r}: must be a number above 0")
    return float(value)
