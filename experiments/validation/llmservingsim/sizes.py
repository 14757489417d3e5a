"""The sizes of the model that a run served."""

from __future__ import annotations

from pathlib import Path

from costmodels import ModelConfig, find_model
from costmodels.model_config import bundled_models
from simulator.errors import ConfigError

BYTES = 2
"""Per element of bf16."""

QWEN3_30B_A3B = ModelConfig(
    name="qwen3-30b-a3b",
    family="qwen3",
    hidden_size=2048,
    intermediate_size=6144,
    layers=48,
    attention_heads=32,
    kv_heads=4,
    head_dim=128,
    vocab_size=151936,
    ties_embeddings=False,
)
"""Without its experts. Source: the model's config.json (Qwen, Apache-2.0)."""
EXPERT_WEIGHTS = {"qwen3-30b-a3b": 48 * 128 * 3 * 2048 * 768}
"""Weights of all experts: layers x experts x (gate, up, down)."""
WITH_EXPERTS = {"qwen3-30b-a3b": QWEN3_30B_A3B}


def weight_bytes(model: ModelConfig, gpus: int, replicas: int) -> int:
    """On each GPU: its share of the dense weights, and of the experts."""
    experts = EXPERT_WEIGHTS.get(model.name, 0)
    mlp = 3 * model.hidden_size * model.intermediate_size * model.layers if experts else 0
    return model.weight_bytes(tp=gpus) + BYTES * (experts // replicas - mlp) // gpus


def model_of(folder: Path, name: str) -> ModelConfig:
    """The bundled sizes of a model: of the longest name that its own begins with."""
    served = name.rpartition("/")[2].lower()
    known = [held for held in (*bundled_models(), *WITH_EXPERTS) if served.startswith(held)]
    if not known:
        raise ConfigError(
            f"{folder}: model {name!r} is not among the bundled sizes "
            f"({', '.join(bundled_models())}): add its config.json to costmodels/models"
        )
    longest = max(known, key=len)
    return WITH_EXPERTS.get(longest) or find_model(longest)
