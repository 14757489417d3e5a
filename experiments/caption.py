"""What figures say of a run in one line: workload, size, prices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def caption_parts(summary: Mapping[str, Any]) -> list[str]:
    """Workload, number of requests, and the cost table with a word if it is not measured.

    summary: what summary.json holds. Any: JSON values.

    >>> caption_parts({
    ...     "provenance": {"workload": {"source": "preset", "name": "chat"}},
    ...     "run": {"requests": 2000},
    ...     "cost_model": {"name": "h200", "stamp": "uncalibrated: from a datasheet"},
    ... })
    ['chat', '2,000 requests', 'h200 (uncalibrated)']
    """
    workload, table = summary["provenance"]["workload"], summary["cost_model"]
    named = workload.get("name") or workload.get("file", {}).get("name") or "generated workload"
    stamp = f" ({table['stamp'].partition(':')[0]})" if table["stamp"] else ""
    return [named, f"{summary['run']['requests']:,} requests", f"{table['name']}{stamp}"]
