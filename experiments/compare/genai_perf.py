"""profile_export.json of GenAI-Perf: when each request and response happened, ns.

Source: llm_profile_data_parser.py of genai_perf. Responses without content, such as
the one that only names the role, are left out, as GenAI-Perf does. How many tokens a response
carried is not in the file (GenAI-Perf tokenizes the text), so there is no TPOT.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from simulator.errors import ConfigError
from simulator.units import NS_PER_MS, NS_PER_S

from .log import Floats, Log, pooled

Request = Mapping[str, Any]
"""Parsed JSON. Any: JSON values."""


def recognises(content: Any) -> bool:  # Any: parsed JSON
    """Experiments with requests in them."""
    return (
        isinstance(content, dict)
        and isinstance(content.get("experiments"), list)
        and len(content["experiments"]) > 0
        and isinstance(content["experiments"][0], dict)
        and "requests" in content["experiments"][0]
    )


def read(path: Path, content: Any) -> Log:  # Any: parsed JSON
    """Read the requests of the one experiment.

    Raises:
        ConfigError: several experiments, or no request.
    """
    experiments = content["experiments"]
    if len(experiments) > 1:
        raise ConfigError(
            f"{path}: holds {len(experiments)} experiments (load levels): profile one at a time"
        )
    requests = sorted(experiments[0]["requests"], key=lambda request: int(request["timestamp"]))
    if not requests:
        raise ConfigError(f"{path}: no request in it")
    start = np.array([request["timestamp"] for request in requests], np.float64)
    responses = [_answers(request) for request in requests]
    first = np.array([times[0] if len(times) else np.nan for times in responses])
    last = np.array([times[-1] if len(times) else np.nan for times in responses])
    gaps = np.concatenate([np.zeros(0), *(np.diff(times) for times in responses)])
    return Log(
        name=path.name,
        kind="GenAI-Perf",
        is_measured=True,
        requests={
            "ttft_ms": (first - start) / NS_PER_MS,
            "e2el_ms": (last - start) / NS_PER_MS,
            "arrival_s": (start - start.min()) / NS_PER_S,
        },
        gaps=pooled(gaps / NS_PER_MS),
        rates=_rates(start, last),
        notes=(
            "its gaps are between responses, which may carry several tokens; it has no token "
            "counts, so no TPOT: profile_export_genai_perf.json states it as inter token latency",
        ),
    )


def _rates(start: Floats, last: Floats) -> dict[str, float]:
    lasting = float(np.nanmax(last) - start.min()) / NS_PER_S
    return {"request_throughput": len(start) / lasting, "duration_s": lasting} if lasting else {}


def _answers(request: Request) -> Floats:
    """Times of the responses that carry content, ns."""
    times: Sequence[int] = request["response_timestamps"]
    outputs = request.get("response_outputs") or [{}] * len(times)
    kept = [at for at, output in zip(times, outputs, strict=False) if not _is_empty(output)]
    return np.array(kept, np.float64)


def _is_empty(output: Any) -> bool:  # Any: parsed JSON
    """True for a streamed response that has no text in it, or only says that it was the last."""
    text = output.get("response") if isinstance(output, dict) else None
    if not isinstance(text, str):
        return False
    parts = [part.removeprefix("data:").strip() for part in text.strip().split("\n\n")]
    return not any(_has_content(part) for part in parts)


def _has_content(part: str) -> bool:
    if part in ("", "[DONE]"):
        return False
    try:
        choices = json.loads(part).get("choices")
    except (ValueError, AttributeError):
        return True
    if not choices:
        return choices is None
    delta = choices[0].get("delta") or {}
    return bool(choices[0].get("text") or delta.get("content") or delta.get("reasoning_content"))
