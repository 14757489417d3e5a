"""From a name or a file to a cost model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from simulator.cost_model import CostModel
from simulator.errors import ConfigError, TableFormatError, nearest
from simulator.plan import StepShape

from .aiconfigurator import measured_table, systems
from .constant import ConstantCostModel
from .hardware import GPUS, find_gpu
from .lesson import LessonCostModel
from .linear import LinearCostModel
from .matching import refuse_another
from .model_config import bundled_models, find_model
from .operators import OperatorsCostModel
from .roofline import RooflineCostModel
from .steps import StepsCostModel
from .table import CostTable, load_table

BUNDLED_TABLES = Path(__file__).parent / "tables"
DEFAULT_COST_MODEL = "b300-qwen3-32b-tp1"
PUBLISHED = ("aiconfigurator", "llmservingsim", "vidur")


class LoadedCostModel(CostModel, Protocol):
    """A cost model that knows where its prices come from.

    table: parameters, provenance, held-out error, KV capacity.
    stamp: what every result priced with it must say; None for measured prices.
    """

    table: CostTable
    stamp: str | None

    def explain(self, shape: StepShape) -> list[tuple[str, float]]:
        """(term, milliseconds) of a step; their sum is its price, to the nanosecond."""


def load_cost_model(
    name_or_path: str | Path = DEFAULT_COST_MODEL,
    *,
    model: str | Path | None = None,
    device: str | None = None,
    tp: int | None = None,
    dtype: str | None = None,
    kv_dtype: str | None = None,
) -> LoadedCostModel:
    """A cost model by name (`list_cost_models()`), from a table file, or from published tables.

    model, device, tp, dtype, kv_dtype: what `roofline` prices; a measured table says so itself, and
    is refused if it was measured with something else. Published tables are named by their source
    and folder, `llmservingsim:FOLDER` (`costmodels.importers`), and need a model; tp is 1 unless
    given. So are the kernels of the package `aiconfigurator-core`, `aiconfigurator:h100_sxm`, which
    also come in several dtypes.

    >>> load_cost_model("lesson").table.kind
    'lesson'

    Raises ConfigError for an unknown name or option, TableFormatError for a bad table.
    """
    name = str(name_or_path)
    given = {"model": model, "device": device, "tp": tp, "dtype": dtype, "kv_dtype": kv_dtype}
    if name == "roofline":
        return _roofline(model, device, tp=tp, dtype=dtype, kv_dtype=kv_dtype)
    source, _, folder = name.partition(":")
    if is_published(name):
        if is_packaged(name):
            _refuse({"device": device}, name)
            return _packaged(folder, model, tp=tp, dtype=dtype, kv_dtype=kv_dtype)
        _refuse({**given, "model": None, "tp": None}, name)
        return _published(source, folder, model, 1 if tp is None else tp)
    if name == "lesson":
        _refuse(given, name)
        return LessonCostModel()
    path = _find_table(name_or_path)
    table = load_table(path)
    if not table.is_measured:
        _refuse(given, name)
    refuse_another(table, bundled_tables(), **given)  # type: ignore[arg-type]  # as they came
    try:
        return _BUILDERS[table.kind](table)
    except ConfigError as error:
        raise TableFormatError(f"{path}: {error}") from None


def is_published(name: str) -> bool:
    """Does it name kernel tables that others measured, `SOURCE:WHERE`?"""
    source, _, where = name.partition(":")
    return bool(where) and source in PUBLISHED


def is_packaged(name: str) -> bool:
    """Does it name kernels of an installed package, and not of a folder?"""
    source, _, where = name.partition(":")
    return source == "aiconfigurator" and bool(where) and not Path(where).is_dir()


def list_cost_models() -> list[tuple[str, str]]:
    """(name, one line with the held-out error) of everything `load_cost_model` knows by name."""
    tables = [(name, load_table(path).summary) for name, path in bundled_tables().items()]
    roofline = (
        f"from a datasheet (device: {', '.join(GPUS)}) and a model's config.json "
        f"(or {', '.join(bundled_models())}); uncalibrated"
    )
    kernels = (
        "kernels measured by NVIDIA and a model's config.json (or a bundled one), dtype bfloat16 "
        "or fp8; SYSTEM is one of " + ", ".join(systems())
    )
    if not systems():
        kernels = "kernels measured by NVIDIA, not installed: pip install 'llm-runway[aic]'"
    lesson = LessonCostModel().table.description
    measured = ("aiconfigurator:SYSTEM", kernels)
    return [*tables, measured, ("lesson", lesson), ("roofline", roofline)]


def _refuse(given: Mapping[str, object], name: str) -> None:
    for option, value in given.items():
        if value is not None:
            raise ConfigError(
                f"{option} {str(value)!r} has no effect on cost model {name!r}, whose table fixes "
                "it: leave it out, or use cost model 'roofline'"
            )


def bundled_tables() -> dict[str, Path]:
    """Name -> file of the tables that come with Runway."""
    return {path.stem: path for path in sorted(BUNDLED_TABLES.glob("*.yaml"))}


def _find_table(name_or_path: str | Path) -> Path:
    bundled = bundled_tables()
    if str(name_or_path) in bundled:
        return bundled[str(name_or_path)]
    path = Path(name_or_path)
    if path.suffix in (".yaml", ".yml", ".json") or path.is_file():
        return path
    known = [*bundled, "lesson", "roofline"]
    raise ConfigError(
        f"cost model {str(name_or_path)!r} is unknown{nearest(str(name_or_path), known)} "
        f"(known: {', '.join(known)}, or the path of a .yaml cost table)"
    )


def _roofline(
    model: str | Path | None,
    device: str | None,
    *,
    tp: int | None,
    dtype: str | None,
    kv_dtype: str | None,
) -> RooflineCostModel:
    if model is None or device is None:
        raise ConfigError(
            f"cost model 'roofline' needs a model (config.json, {', '.join(bundled_models())}) "
            f"and a device ({', '.join(GPUS)})"
        )
    return RooflineCostModel(
        find_gpu(device),
        find_model(model),
        tensor_parallel=1 if tp is None else tp,
        dtype=dtype or "bfloat16",
        kv_dtype=kv_dtype or "bfloat16",
    )


def _roofline_from_table(table: CostTable) -> RooflineCostModel:
    options = dict(table.parameters)
    gpu, sizes = find_gpu(str(options.pop("gpu"))), find_model(str(options.pop("model")))
    return RooflineCostModel(gpu, sizes, table=table, **_arguments(options))


def _published(source: str, folder: str, model: str | Path | None, tp: int) -> OperatorsCostModel:
    from .importers import import_table  # here, since importers are rarely wanted

    if model is None:
        raise ConfigError(
            f"{source}:{folder} needs a model (config.json, {', '.join(bundled_models())})"
        )
    return _operators_from_table(
        import_table(source, folder, find_model(model), tensor_parallel=tp)
    )


def _packaged(
    system: str,
    model: str | Path | None,
    *,
    tp: int | None,
    dtype: str | None,
    kv_dtype: str | None,
) -> OperatorsCostModel:
    if model is None:
        raise ConfigError(
            f"aiconfigurator:{system} needs a model (config.json, {', '.join(bundled_models())})"
        )
    table = measured_table(
        system,
        find_model(model),
        tensor_parallel=1 if tp is None else tp,
        dtype=dtype or "bfloat16",
        kv_dtype=kv_dtype or "bfloat16",
    )
    return _operators_from_table(table)


def _operators_from_table(table: CostTable) -> OperatorsCostModel:
    assert table.operators is not None, table.name  # `load_table` has checked
    return OperatorsCostModel(table.operators, table=table, **_arguments(table.parameters))


# Any: `load_table` has checked each parameter against the type that its kind declares.
def _arguments(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return dict(parameters)


_BUILDERS: Mapping[str, Callable[[CostTable], LoadedCostModel]] = {
    "constant": lambda table: ConstantCostModel(**_arguments(table.parameters), table=table),
    "lesson": lambda table: LessonCostModel(table=table),
    "linear": lambda table: LinearCostModel(**_arguments(table.parameters), table=table),
    "operators": _operators_from_table,
    "roofline": _roofline_from_table,
    "steps": lambda table: StepsCostModel(**_arguments(table.parameters), table=table),
}
