"""One setting: a YAML key and a flag, with its help. `RunConfig` is a list of these."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic import Field
from pydantic.fields import FieldInfo


@dataclass(frozen=True, slots=True)
class Option:
    """How a field shows itself to a user.

    section: the heading it stands under. metavar: what stands for its value, unit included.
    flag: its flag, if that is not its name with dashes. aliases: other names it answers to.
    shown: its default in words, if the value does not say it.
    """

    section: str
    metavar: str | None = None
    flag: str | None = None
    aliases: tuple[str, ...] = ()
    shown: str | None = None


def option(default: object, description: str, **how: Any) -> Any:
    """A pydantic field that carries its `Option`; `how` are the fields of `Option`.

    Any: pydantic's own `Field` returns it, so that a field may be annotated with its real type.
    """
    return Field(default, description=description, json_schema_extra={"option": Option(**how)})  # type: ignore[dict-item]  # never exported as a JSON schema


def option_of(field: FieldInfo) -> Option:
    """The `Option` a field was made with."""
    extra = field.json_schema_extra
    assert isinstance(extra, dict)
    found = extra["option"]
    assert isinstance(found, Option)
    return found


workload_option = partial(option, section="Workload")
transform_option = partial(option, section="Transforms")
scheduler_option = partial(option, section="Scheduler")
memory_option = partial(option, section="Cost model and memory")
measure_option = partial(option, section="Measurement")
output_option = partial(option, section="Output")
