"""From a config to a scheduler: one of ours by name, or a user's class from `path.py:Class`."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simulator.errors import ConfigError, RunwayError, nearest
from simulator.schedulers import SCHEDULERS, Scheduler

from .blame import blame
from .config import RunConfig, flag_of
from .explain import aliases
from .provenance import file_identity

DEFAULT_MAX_NUM_SEQS = 128
POLICY_FIELDS = {
    "max_num_batched_tokens": "max_num_batched_tokens",
    "max_num_seqs": "max_num_seqs",
    "chunk_size": "chunk_size",
    "wait_for_full_batch": "wait_for_full_batch",
    "batch_timeout_s": "batch_timeout_s",
    "deliver": "deliver",
    "pad_prompts": "pad_prompts",
    "enable_chunked_prefill": "enable_chunked_prefill",
    "scheduler_reserve_full_isl": "scheduler_reserve_full_isl",
    "scheduling_policy": "policy",
    "chunked_prefill_size": "chunked_prefill_size",
    "schedule_conservativeness": "schedule_conservativeness",
    "enable_mixed_chunk": "enable_mixed_chunk",
    "tpot_target_ms": "tpot_target_ms",
}
"""Field of `RunConfig` -> the constructor argument of a policy that it becomes, if there is one."""

ENGINE_NAMES = {"max_num_seqs": "max_running_requests"}
"""Field -> the argument it becomes in a policy that uses its engine's name for it."""


@dataclass(frozen=True, slots=True)
class Policy:
    """A scheduler ready to run.

    parameters: every constructor argument with the value it has. path: the user's file, if any.
    notes: settings that this policy does not use. unused_fields: of `POLICY_FIELDS`, all that its
        constructor takes under no name. async_scheduling, prefix_caching: as the config
        says, or what the policy says is its default.
    """

    scheduler: Scheduler
    name: str
    parameters: dict[str, object]
    path: Path | None
    notes: tuple[str, ...]
    unused_fields: tuple[str, ...]
    async_scheduling: bool
    prefix_caching: bool

    @property
    def effective_chunk_size(self) -> int | None:
        """Most tokens of one prompt in a step, after the budget; None: not limited, not said."""
        size = getattr(self.scheduler, "effective_chunk_size", None)
        return None if size is None else int(size)

    def described(self) -> dict[str, object]:
        """For provenance: name, resolved parameters, effective chunk size, and the user's file."""
        return {
            "name": self.name,
            "parameters": self.parameters,
            "effective_chunk_size": self.effective_chunk_size,
            "async_scheduling": self.async_scheduling,
            **({"file": file_identity(self.path)} if self.path else {}),
        }


def build_policy(config: RunConfig) -> Policy:
    """The scheduler a config asks for.

    Only what its constructor takes is passed; what it does not take and is not at its default
    becomes a note.

    Raises:
        ConfigError: no such policy, or its constructor refuses the values.
    """
    kind = scheduler_class(config.scheduler)
    accepted = inspect.signature(kind).parameters
    arguments = _arguments(config, accepted)
    _require(config, accepted, arguments)
    try:
        scheduler = kind(**arguments)
    except RunwayError:
        raise
    except Exception as error:  # a user's own constructor may raise anything
        raise ConfigError(f"scheduler {config.scheduler}: {blame(error)}") from error
    if not callable(getattr(scheduler, "plan", None)):
        raise ConfigError(f"scheduler {config.scheduler} has no method plan(self, view)")
    return Policy(
        scheduler,
        str(getattr(scheduler, "name", kind.__name__)),
        {name: arguments.get(name, accepted[name].default) for name in _shown(accepted)},
        _file_of(config.scheduler) if ".py:" in config.scheduler else None,
        _unused(config, accepted),
        _unused_fields(accepted),
        _switch(config.async_scheduling, scheduler, "default_async_scheduling"),
        _switch(config.enable_prefix_caching, scheduler, "default_prefix_caching"),
    )


def scheduler_class(spec: str) -> Callable[..., Scheduler]:
    """The class behind a name of `SCHEDULERS` or `path.py:Class`.

    Raises:
        ConfigError: no such policy, file or class, or the file does not load.
    """
    if ".py:" in spec:
        return _load(_file_of(spec), spec.rpartition(":")[2])
    if spec.endswith(".py"):
        raise ConfigError(f"scheduler {spec}: name the class too, as {spec}:MyScheduler")
    if spec not in SCHEDULERS:
        raise ConfigError(
            f"scheduler {spec!r} is none of {', '.join(SCHEDULERS)}"
            f"{nearest(spec, SCHEDULERS)} (your own: path.py:Class)"
        )
    return SCHEDULERS[spec]


def _file_of(spec: str) -> Path:
    return Path(spec.rpartition(":")[0])


def _load(path: Path, name: str) -> Callable[..., Scheduler]:
    if not path.is_file():
        raise ConfigError(f"scheduler file {path}: no such file")
    spec = importlib.util.spec_from_file_location(f"runway_policy_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # a user's file may raise anything
        raise ConfigError(f"scheduler file {path} does not load: {blame(error, path)}") from error
    found = getattr(module, name, None)
    if not isinstance(found, type):
        classes = [key for key, held in vars(module).items() if _is_own_class(held, module)]
        raise ConfigError(
            f"scheduler file {path} has no class {name}{nearest(name, classes)}; "
            f"it has {', '.join(classes) or 'none'}"
        )
    return found


def _is_own_class(held: object, module: object) -> bool:
    return isinstance(held, type) and held.__module__ == getattr(module, "__name__", None)


def _arguments(
    config: RunConfig, accepted: Mapping[str, inspect.Parameter]
) -> dict[str, Any]:  # Any: whatever a user's constructor takes
    """Constructor arguments: the policy fields it takes, then the user's own."""
    own = config.scheduler_args or {}
    known = _shown(accepted)
    is_ours = config.scheduler in SCHEDULERS
    taken = {name: field for field, name in POLICY_FIELDS.items() if is_ours or name == field}
    taken |= _other_names()
    for name in own:
        if name in taken:
            raise ConfigError(f"--scheduler-arg {name}: use {flag_of(taken[name])} instead")
        if name not in known and not _takes_any(accepted):
            raise ConfigError(
                f"scheduler {config.scheduler} takes no argument {name}{nearest(name, known)}; "
                f"it takes {', '.join(known) or 'none'}"
            )
    return {**_limits(config, known), **own}


def _require(
    config: RunConfig, accepted: Mapping[str, inspect.Parameter], arguments: Mapping[str, object]
) -> None:
    """Refuse a constructor argument that has no default and got no value."""
    fields = {argument: field for field, argument in POLICY_FIELDS.items()}
    flags = [
        flag_of(fields[name]) if name in fields else f"--scheduler-arg {name}=..."
        for name, parameter in accepted.items()
        if _is_named(parameter) and parameter.default is parameter.empty and name not in arguments
    ]
    if flags:
        said = f"scheduler {config.scheduler} lacks an argument without default"
        raise ConfigError(f"{said}: give {' and '.join(flags)}")


def _limits(config: RunConfig, known: list[str]) -> dict[str, object]:
    """The policy fields a constructor takes. Unset ones keep the policy's own default."""
    names = {field: _argument_of(field, known) for field in POLICY_FIELDS}
    held = {name: getattr(config, field) for field, name in names.items() if name in known}
    budget, seats = held.get("max_num_batched_tokens"), names["max_num_seqs"]
    if seats in held and held[seats] is None:
        held[seats] = min(DEFAULT_MAX_NUM_SEQS, budget or DEFAULT_MAX_NUM_SEQS)
    return {
        name: value
        for name, value in held.items()
        if value is not None or name == "max_num_batched_tokens"
    }


def _argument_of(field: str, known: Container[str]) -> str:
    """The constructor argument that a field becomes, under the name that this policy uses."""
    name = POLICY_FIELDS[field]
    return name if name in known else ENGINE_NAMES.get(field, name)


def _unused(config: RunConfig, accepted: Mapping[str, inspect.Parameter]) -> tuple[str, ...]:
    held = {field: getattr(config, field) for field in _unused_fields(accepted)}
    return tuple(
        f"{name} {value} is not used by {config.scheduler}"
        for name, value in held.items()
        if value != RunConfig.model_fields[name].default
    )


def _unused_fields(accepted: Container[str]) -> tuple[str, ...]:
    return tuple(f for f in POLICY_FIELDS if _argument_of(f, accepted) not in accepted)


def _switch(asked: bool | None, scheduler: Scheduler, default: str) -> bool:
    """What is asked for, or the default that the policy names."""
    return bool(getattr(scheduler, default, False)) if asked is None else asked


def _shown(accepted: Mapping[str, inspect.Parameter]) -> list[str]:
    """Constructor arguments by name, without second names of another one."""
    other = _other_names()
    return [
        name
        for name, parameter in accepted.items()
        if _is_named(parameter) and other.get(name) not in accepted
    ]


def _other_names() -> dict[str, str]:
    """Other names of the fields that go to a policy -> the field."""
    other = aliases(RunConfig.model_fields)
    return {alias: field for alias, field in other.items() if field in POLICY_FIELDS}


def _is_named(parameter: inspect.Parameter) -> bool:
    return parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)


def _takes_any(accepted: Mapping[str, inspect.Parameter]) -> bool:
    return any(parameter.kind is parameter.VAR_KEYWORD for parameter in accepted.values())
