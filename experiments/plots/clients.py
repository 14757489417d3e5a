"""`clients.png`: how the clients of a run fared beside each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from .style import (
    DECODE,
    INK,
    MUTED,
    OKABE_ITO,
    WIDTH_IN,
    dot,
    headline,
    legend_rows,
    plain_ticks,
    save,
    spans_decades,
)

Client = Mapping[str, Any]
"""One entry of `fairness.clients`. Any: JSON values."""

MOST_CLIENTS = 16
TAIL = OKABE_ITO[1]
_DASH = (0, (3, 2))


def draw_clients(summary: Mapping[str, Any], setting: str, path: Path) -> Path | None:
    """Latencies, good requests and service of each client; None with fewer than two clients.

    summary: what summary.json holds. Any: JSON values.
    """
    fairness = summary["fairness"]
    everybody: Sequence[Client] = (fairness or {}).get("clients") or []
    if len(everybody) < 2:
        return None
    clients = sorted(everybody, key=lambda client: -client["service"])[:MOST_CLIENTS]
    figure = Figure(figsize=(WIDTH_IN, 2.6 + 0.62 * len(clients)), layout="constrained")
    grid = figure.subplots(2, 2, sharey=True)
    headline(figure, "How the clients fare", _reading(fairness, len(everybody)), setting)
    limits = summary["slo"] or {}
    for axes, metric, name in zip(grid[0], ("ttft_ms", "tpot_ms"), ("TTFT", "TPOT"), strict=True):
        _draw_range(axes, clients, metric, (limits.get(metric) or {}).get("limit"))
        axes.set_title(name)
    _draw_shares(grid[1, 0], clients, everybody)
    _draw_good(grid[1, 1], clients)
    for axes in grid[:, 0]:
        axes.set_yticks(range(len(clients)), [str(client["client"]) for client in clients])
        axes.set_ylim(len(clients) - 0.4, -0.6)
    legend_rows(figure, [_legend(bool(limits))])
    return save(figure, path)


def _reading(fairness: Client, count: int) -> str:
    """Jain's index in words, and how many clients there is no room for."""
    jain = fairness["jain"]["service_per_demand"]
    words = "" if jain is None else f"Jain's index of service / demand {jain:.3f} (1 is equal). "
    left = count - MOST_CLIENTS
    return words + (f"The {MOST_CLIENTS} most served of {count:,} clients." if left > 0 else "")


def _draw_range(axes: Axes, clients: Sequence[Client], metric: str, limit_ms: float | None) -> None:
    values = []
    for place, client in enumerate(clients):
        low, high = client[metric]["p50"], client[metric]["p99"]
        if low is None:
            continue
        values += [low, high]
        axes.plot([low, high], [place, place], color=MUTED, linewidth=2, zorder=2)
        axes.plot(low, place, "o", color=DECODE, markersize=8, zorder=3)
        axes.plot(high, place, "D", color=TAIL, markersize=7, zorder=3)
    if limit_ms is not None:
        axes.axvline(limit_ms, color=INK, linewidth=1.1, linestyle=_DASH)
        values.append(limit_ms)
    if spans_decades(values):
        axes.set_xscale("log")
        axes.set_xlim(min(values) / 1.4, max(values) * 1.4)
    else:
        axes.set_xlim(0, max(values, default=1) * 1.08)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("ms")
    plain_ticks(axes, "x")


def _draw_shares(axes: Axes, clients: Sequence[Client], everybody: Sequence[Client]) -> None:
    """Service as a bar, demand as a mark, both of everybody's."""
    served, wanted = (sum(c[key] for c in everybody) or 1.0 for key in ("service", "demand"))
    share = [100 * client["service"] / served for client in clients]
    axes.barh(range(len(clients)), share, height=0.55, color=DECODE, alpha=0.85, zorder=2)
    for place, client in enumerate(clients):
        x = 100 * client["demand"] / wanted
        axes.plot([x, x], [place - 0.38, place + 0.38], color=INK, linewidth=2.5, zorder=3)
    axes.set_title("Share of service, and of demand (mark)")
    axes.set_xlabel("% of all clients'")
    axes.set_xlim(left=0)
    axes.grid(visible=False, axis="y")


def _draw_good(axes: Axes, clients: Sequence[Client]) -> None:
    known = [
        (p, c["goodput_fraction"])
        for p, c in enumerate(clients)
        if c["goodput_fraction"] is not None
    ]
    axes.barh(
        [p for p, _ in known],
        [100 * share for _, share in known],
        height=0.55,
        color="#009E73",
        alpha=0.85,
    )
    axes.set_title("Requests within the SLO")
    axes.set_xlabel("% of its requests")
    axes.set_xlim(0, 100)
    axes.grid(visible=False, axis="y")


def _legend(limited: bool) -> list[Line2D | Patch]:
    handles: list[Line2D | Patch] = [dot("p50", DECODE, "o"), dot("p99", TAIL, "D")]
    if limited:
        handles.append(Line2D([], [], color=INK, linestyle=_DASH, label="SLO limit"))
    return handles
