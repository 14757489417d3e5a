"""Imports go one way: between the packages, inside `simulator`, and for heavy libraries."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

MAY_IMPORT = {
    "simulator": set(),
    "workloads": {"simulator.request", "simulator.trace", "simulator.units", "simulator.errors"},
    "costmodels": {
        *("simulator.plan", "simulator.cost_model", "simulator.units", "simulator.errors"),
        *("simulator.output", "simulator.compiled"),
    },
    "calibration": {
        *("costmodels.table", "simulator"),
        # Fits price steps as the cost model does, within what a datasheet allows.
        *("costmodels.decode_batches", "costmodels.hardware", "costmodels.model_config"),
        "costmodels.steps",
    },
    "experiments": {"simulator", "workloads", "costmodels"},
    # It fits prices to a part of each recording and tests them on the rest.
    "experiments.validation": {
        "simulator",
        "workloads",
        "costmodels",
        "calibration",
        "experiments",
    },
    "experiments.cli": {"simulator", "workloads", "costmodels", "calibration", "experiments"},
}
"""Package -> what it may import of the others; a name allows everything below it."""

ORDER = (
    *(
        "compiled",
        "units",
        "errors",
        "output",
        "statistics",
        "notebook",
        "step_log",
        "request",
        "block_run",
        "sequence",
        "trace",
        "turns",
        "feed",
    ),
    *("client_delay", "result", "request_log"),
    *("token_times", "leap_log", "kv_cache", "resume_cache", "keys", "prefix_keys", "block_store"),
    "prefix_cache",
    *("queues", "decode_pool", "plan", "cost_model", "view", "schedulers", "leap"),
    *("clock", "options"),
    *(
        "lifecycle",
        "promise",
        "validation",
        "decode_launch",
        "launch",
        "engine",
        "intervals",
        "window",
        "timings",
    ),
    *("service", "occupancy", "rework", "saturation", "fairness", "outcome", "identities"),
    *("metrics", "tables", "simulation", "data_parallel"),
)
"""Modules of `simulator`: each may import those before it."""

ONLY_IN = {
    "torch": ("calibration",),
    "scipy": ("calibration", "experiments.sweep", "experiments.search"),
    "matplotlib": ("experiments.plots",),
    "pydantic": ("experiments",),
    "click": ("experiments.cli",),
    "rich": ("experiments.cli",),
    "joblib": ("experiments.sweep",),
    "ray": ("experiments.sweep",),
    "distributed": ("experiments.sweep",),
    "optuna": ("experiments.search",),
    "simpy": ("simulator.clock", "simulator.engine", "simulator.simulation"),
}
"""Library -> the only modules that may import it."""

NOT_FOR_HELP = (
    "pandas",
    "scipy",
    "matplotlib",
    "torch",
    "pydantic",
    "pyarrow",
    "rich",
    "yaml",
    "optuna",
)

PACKAGES = ("simulator", "workloads", "costmodels", "calibration", "experiments")

FILES = sorted(path for package in PACKAGES for path in ROOT.joinpath(package).rglob("*.py"))


def module_of(path: Path) -> str:
    """The dotted name of a file of this repository."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(path: Path) -> set[str]:
    """Absolute names of all modules that a file imports, in functions and for typing too."""
    package = module_of(path).split(".")
    if path.name != "__init__.py":
        package.pop()
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*base, *(node.module or "").split(".")]).strip(".")
            found |= {source} if node.module else {f"{source}.{a.name}" for a in node.names}
    return found


def within(module: str, allowed: Iterable[str]) -> bool:
    """Is the module one of these, or below one?"""
    return any(module == name or module.startswith(f"{name}.") for name in allowed)


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_a_module_imports_only_what_its_package_may(path: Path) -> None:
    module = module_of(path)
    home = module.partition(".")[0]
    allowed = MAY_IMPORT[max((key for key in MAY_IMPORT if within(module, [key])), key=len)]
    for name in imports_of(path):
        top = name.partition(".")[0]
        assert top not in MAY_IMPORT or top == home or within(name, allowed), f"imports {name}"
        assert top not in ONLY_IN or within(module, ONLY_IN[top]), f"imports {name}"


@pytest.mark.parametrize("path", sorted(ROOT.joinpath("simulator").rglob("*.py")), ids=module_of)
def test_inside_the_simulator_a_module_imports_only_those_before_it(path: Path) -> None:
    if path.parent.name == "simulator" and path.name == "__init__.py":
        return
    own = module_of(path).split(".")[1]
    assert own in ORDER, f"give {own} its place in ORDER"
    used = {name.split(".")[1] for name in imports_of(path) if name.startswith("simulator.")}
    before = ORDER[: ORDER.index(own)]
    assert used <= {*before, *([own] if own == "schedulers" else [])}


def test_help_loads_no_heavy_library() -> None:
    program = (
        "import sys; from click.testing import CliRunner; from experiments.cli import main\n"
        "result = CliRunner().invoke(main, ['--help']); assert result.exit_code == 0\n"
        "print(*(name for name in sys.modules if '.' not in name))"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout.split()
    assert "click" in loaded
    assert not {*loaded} & {*NOT_FOR_HELP}
