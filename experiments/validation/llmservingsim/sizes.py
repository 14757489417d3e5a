"""The sizes of the model that a run served."""

from __future__ import annotations

from pathlib import Path

from costmodels import ModelConfig, find_model
from costmodels.model_config import bundled_models
from simulator.errors import ConfigError

BYTES = 2
"""Per element of bf16."""


def model_of(folder: Path, name: str) -> ModelConfig:
    """The bundled sizes of a model: of the longest name that its own begins with."""
    served = name.rpartition("/")[2].lower()
    known = [held for held in bundled_models() if served.startswith(held)]
    if not known:
        raise ConfigError(
            f"{folder}: model {name!r} is not among the bundled sizes "
            f"({', '.join(bundled_models())}): add its config.json to costmodels/models"
        )
    return find_model(max(known, key=len))


def weight_bytes(model: ModelConfig, gpus: int, replicas: int) -> int:
    """On each GPU: its share of the weights; replicas divide the experts among them."""
    elsewhere = model.layers * model.experts * model.expert_weights * (replicas - 1) // replicas
    return model.weight_bytes(tp=gpus) - BYTES * elsewhere // gpus
