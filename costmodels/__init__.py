"""Prices of engine steps: cost models and the table files they are read from."""

import simulator.compiled as compiled  # first: it decides which form of the modules is imported

# isort: split
from .constant import ConstantCostModel
from .extrapolation import ExtrapolationWarning
from .hardware import GPU, GPUS, find_gpu
from .lesson import LessonCostModel
from .linear import LinearCostModel
from .loading import (
    DEFAULT_COST_MODEL,
    LoadedCostModel,
    list_cost_models,
    load_cost_model,
)
from .model_config import ModelConfig, find_model
from .model_memory import DEFAULT_ACTIVATION_RESERVE_BYTES, kv_blocks_from_memory
from .operators import OperatorsCostModel
from .operators_table import Operator, OperatorGrids
from .roofline import RooflineCostModel
from .steps import StepsCostModel
from .table import CostTable, KVCapacity, load_table, save_table

__all__ = [
    "DEFAULT_ACTIVATION_RESERVE_BYTES",
    "DEFAULT_COST_MODEL",
    "GPU",
    "GPUS",
    "ConstantCostModel",
    "CostTable",
    "ExtrapolationWarning",
    "KVCapacity",
    "LessonCostModel",
    "LinearCostModel",
    "LoadedCostModel",
    "ModelConfig",
    "Operator",
    "OperatorGrids",
    "OperatorsCostModel",
    "RooflineCostModel",
    "StepsCostModel",
    "find_gpu",
    "find_model",
    "kv_blocks_from_memory",
    "list_cost_models",
    "load_cost_model",
    "load_table",
    "save_table",
]

compiled.document(LinearCostModel)
