"""What a value may look like on the command line and in YAML: parsers that say what they accept.

Each parser takes text or a YAML value, returns the value in its one form, and raises
`ValueError("must be ...")`; the caller puts the flag or the file's line in front.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Annotated

from pydantic import BeforeValidator

from simulator.errors import nearest

NONE_WORDS = ("none", "null")
SLO_LIMITS = ("ttft_ms", "tpot_ms", "e2el_ms", "itl_max_ms")


def whole(minimum: int) -> Callable[[object], int | None]:
    """A parser of whole numbers from `minimum` up; `1e3` and `12.0` are whole, `12.5` is not.

    >>> whole(1)("1e3")
    1000
    """
    sentence = f"must be a whole number of at least {minimum}"

    def parse(value: object) -> int | None:
        return None if value is None else _whole(value, minimum, sentence)

    return parse


def whole_or_none(
    minimum: int, meaning: str, *, words: tuple[str, ...] = ()
) -> Callable[..., int | None]:
    """As `whole`, and `none` (or one of `words`) for no limit at all.

    >>> whole_or_none(1, "no chunking", words=("-1",))("-1") is None
    True
    """
    spelt = " or ".join((*words, "none"))
    sentence = f"must be a whole number of at least {minimum}, or {spelt} for {meaning}"

    def parse(value: object) -> int | None:
        if value is None or str(value).lower() in (*NONE_WORDS, *words):
            return None
        return _whole(value, minimum, sentence)

    return parse


def number(
    minimum: float, *, above: bool = False, maximum: float = math.inf
) -> Callable[..., float | None]:
    """A parser of finite numbers of at least (or above) `minimum`, at most `maximum`.

    >>> number(0.0, above=True, maximum=1.0)("0.9")
    0.9
    """
    sentence = f"must be a number {'above' if above else 'of at least'} {minimum:g}"
    sentence += f" and at most {maximum:g}" if math.isfinite(maximum) else ""

    def parse(value: object) -> float | None:
        if value is None:
            return None
        found = _float(value, sentence)
        small = found <= minimum if above else found < minimum
        if small or found > maximum or not math.isfinite(found):
            raise ValueError(sentence)
        return found

    return parse


def burstiness(value: object) -> float | None:
    """The gamma shape of the gaps: above 0; `inf` is constant spacing.

    >>> burstiness("inf")
    inf
    """
    sentence = "must be a number above 0 (1 is Poisson, inf is constant spacing)"
    if value is None:
        return None
    found = _float(value, sentence)
    if not found > 0:
        raise ValueError(sentence)
    return found


def window(value: object) -> tuple[float, float | None] | None:
    """`A:B` in seconds, either end left out; a two-item YAML list says the same.

    >>> window("60:")
    (60.0, None)
    """
    sentence = "must be START:END in seconds with START below END, such as 60:120 or 60:"
    if value is None:
        return None
    ends = value.split(":") if isinstance(value, str) else value
    if not isinstance(ends, (list, tuple)) or len(ends) != 2:
        raise ValueError(sentence)
    start = 0.0 if ends[0] in ("", None) else _float(ends[0], sentence)
    end = None if ends[1] in ("", None) else _float(ends[1], sentence)
    if not 0 <= start < (math.inf if end is None else end) or end == math.inf:
        raise ValueError(sentence)
    return start, end


def slo(value: object) -> dict[str, float] | None:
    """Limits as `ttft=500ms,tpot=50ms` or a mapping; without a unit a limit is in milliseconds.

    >>> slo("tpot=50,ttft=0.5s")
    {'ttft_ms': 500.0, 'tpot_ms': 50.0}
    """
    if value is None:
        return None
    found: dict[str, float] = {}
    for name, limit in pairs(value).items():
        key = name if name.endswith("_ms") else f"{name}_ms"
        if key not in SLO_LIMITS:
            known = [limit.removesuffix("_ms") for limit in SLO_LIMITS]
            raise ValueError(f"must limit {', '.join(known)}, not {name}{nearest(name, known)}")
        found[key] = _milliseconds(limit)
    if not found:
        raise ValueError("must name at least one limit, such as ttft=500ms")
    return {key: found[key] for key in SLO_LIMITS if key in found}


def client_slo(value: object) -> dict[str, dict[str, float]] | None:
    """Limits by client, as `chat.ttft=500ms,documents.ttft=6s` or a mapping of mappings.

    >>> client_slo("chat.ttft=500ms,chat.tpot=50,documents.ttft=6s")
    {'chat': {'ttft_ms': 500.0, 'tpot_ms': 50.0}, 'documents': {'ttft_ms': 6000.0}}
    """
    if value is None:
        return None
    found: dict[str, dict[str, object]] = {}
    for name, limit in pairs(value).items():
        client, _, key = name.rpartition(".")
        if isinstance(limit, Mapping):
            found[name] = dict(limit)
        elif client:
            found.setdefault(client, {})[key] = limit
        else:
            raise ValueError(f"must be CLIENT.NAME=TIME, {name} names no client")
    return {client: slo(limits) or {} for client, limits in found.items()}


def pairs(value: object) -> dict[str, object]:
    """`key=value,key=value`, a list of those, or a mapping.

    >>> pairs(["a=1", "b=2,c=3"])
    {'a': '1', 'b': '2', 'c': '3'}
    """
    if isinstance(value, Mapping):
        return {str(key): held for key, held in value.items()}
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, (list, tuple)):
        raise ValueError("must be KEY=VALUE pairs")
    found: dict[str, object] = {}
    for pair in (piece for text in texts for piece in str(text).split(",")):
        key, equals, held = pair.partition("=")
        if not equals:
            key, equals, held = pair.partition(":")
        if not (equals and key.strip() and held.strip()):
            raise ValueError(f"must be KEY=VALUE pairs, {pair!r} is none")
        found[key.strip()] = held.strip()
    return found


def text(value: object) -> object:
    """A name or a path; an empty one is a shell variable that is not set.

    >>> text("results")
    'results'
    """
    if value == "":
        raise ValueError("must not be empty")
    return value


def names(value: object) -> dict[str, str] | None:
    """`field=column` pairs, as text on both sides."""
    return None if value is None else {key: str(held) for key, held in pairs(value).items()}


def arguments(value: object) -> dict[str, object] | None:
    """`key=value` pairs whose values are read as YAML reads them: numbers, true, none, text.

    >>> arguments("share=0.5,strict=true,name=a")
    {'share': 0.5, 'strict': True, 'name': 'a'}
    """
    return None if value is None else {key: scalar(held) for key, held in pairs(value).items()}


def scalar(value: object) -> object:
    """Text as the number, truth value or nothing it spells; other values as they are."""
    if not isinstance(value, str):
        return value
    words: dict[str, object] = {"true": True, "false": False, **dict.fromkeys(NONE_WORDS)}
    if value.lower() in words:
        return words[value.lower()]
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value


def _milliseconds(value: object) -> float:
    sentence = "must give each limit as a time above 0, such as 500ms, 0.5s or 500 (milliseconds)"
    text = str(value).strip().lower()
    scale = 1.0
    if text.endswith("ms"):
        text = text.removesuffix("ms")
    elif text.endswith("s"):
        text, scale = text.removesuffix("s"), 1000.0
    found = _float(text, sentence) * scale
    if not 0 < found < math.inf:
        raise ValueError(sentence)
    return found


def _float(value: object, sentence: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError(sentence)
    try:
        return float(value)
    except ValueError:
        raise ValueError(sentence) from None


def _whole(value: object, minimum: int, sentence: str) -> int:
    if isinstance(value, str):
        try:
            value = int(value)
        except ValueError:
            value = _float(value, sentence)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
        raise ValueError(sentence)
    return value


Count = Annotated[int, BeforeValidator(whole(1))]
Natural = Annotated[int, BeforeValidator(whole(0))]
Positive = Annotated[float, BeforeValidator(number(0.0, above=True))]
NotNegative = Annotated[float, BeforeValidator(number(0.0))]
Share = Annotated[float, BeforeValidator(number(0.0, maximum=1.0))]
TokenBudget = Annotated[int | None, BeforeValidator(whole_or_none(1, "no token budget"))]
ChunkSize = Annotated[int | None, BeforeValidator(whole_or_none(1, "no chunking", words=("-1",)))]
Burstiness = Annotated[float, BeforeValidator(burstiness)]
Window = Annotated[tuple[float, float | None], BeforeValidator(window)]
Limits = Annotated[dict[str, float], BeforeValidator(slo)]
ClientLimits = Annotated[dict[str, dict[str, float]], BeforeValidator(client_slo)]
Text = Annotated[str, BeforeValidator(text)]
Columns = Annotated[dict[str, str], BeforeValidator(names)]
Arguments = Annotated[dict[str, object], BeforeValidator(arguments)]
