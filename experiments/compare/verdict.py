"""A comparison in one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .log import LATENCIES, Log
from .matching import Matching

if TYPE_CHECKING:
    from .comparison import Difference, RequestErrors

SAME = 0.01
"""A difference of less than this is none worth naming."""

_COMPARABLE = ("ttft_ms", "tpot_ms", "e2el_ms")

_TOLD = (
    *(("ttft_ms", "p99"), ("tpot_ms", "p99"), ("itl_ms", "p99"), ("e2el_ms", "mean")),
    *(("output_throughput", ""), ("request_goodput", "")),
)


def verdict(
    reference: Log,
    other: Log,
    differences: Sequence[Difference],
    errors: Sequence[RequestErrors],
    matching: Matching | None,
) -> str:
    """How far the other is from the reference, and where most."""
    if all(each.reference == each.other for each in differences):
        same = f"{other.name} equals {reference.name} in all {len(differences)} numbers compared"
        return f"{same}{_single(errors, matching)}."
    if reference.is_measured and not other.is_measured:
        return _accuracy(reference, other, differences) + _single(errors, matching) + "."
    return _trade(reference, other, differences) + _who(errors, matching) + "."


def _accuracy(reference: Log, other: Log, differences: Sequence[Difference]) -> str:
    """Of a simulation against a measurement: typical and worst error.

    ITL is left out where there is more to tell: a client's gaps are between responses.
    """
    from .comparison import NAMES

    known = [d for d in differences if d.metric in LATENCIES and d.relative is not None]
    known = [each for each in known if each.metric in _COMPARABLE] or known
    typical = [d for d in known if d.statistic in ("mean", "p50")]
    if not known:
        return f"{other.name} against {reference.name}: no latency in common"
    shown = typical or known
    within = max(abs(each.relative or 0.0) for each in shown)
    worst = max(known, key=lambda each: abs(each.relative or 0.0))
    metrics = ", ".join(dict.fromkeys(NAMES[each.metric] for each in shown))
    at = "mean and p50" if typical else "all statistics"
    return (
        f"{other.name} is within {100 * within:.1f} % of {reference.name} in {at} of {metrics}; "
        f"worst {NAMES[worst.metric]} {worst.statistic} {signed(worst.relative)}"
    )


def _trade(reference: Log, other: Log, differences: Sequence[Difference]) -> str:
    """Of two engines: what rose and what fell."""
    from .comparison import NAMES

    known = {(d.metric, d.statistic): d for d in differences}
    told = [known[key] for key in _TOLD if key in known and known[key].relative is not None]
    told = told or [each for each in differences if each.relative is not None][:4]
    moved = [each for each in told if abs(each.relative or 0.0) >= SAME]
    words = [f"{NAMES[d.metric]} {d.statistic}".rstrip() + f" {signed(d.relative)}" for d in moved]
    if not words:
        return f"{other.name} against {reference.name}: less than 1 % apart wherever it matters"
    return f"{other.name} against {reference.name}: {', '.join(words)}"


def _single(errors: Sequence[RequestErrors], matching: Matching | None) -> str:
    from .comparison import NAMES

    if matching is None or not errors:
        return ""
    shown = next((each for each in errors if each.metric == "e2el_ms"), errors[0])
    return (
        f"; half of {shown.pairs:,} requests matched {matching.how} are within "
        f"{100 * shown.median_absolute:.1f} % in {NAMES[shown.metric]}"
    )


def _who(errors: Sequence[RequestErrors], matching: Matching | None) -> str:
    from .comparison import NAMES

    if matching is None:
        return ""
    shares = [
        f"{NAMES[each.metric]} is longer for {100 * each.longer:.0f} %"
        for each in errors
        if each.metric in ("ttft_ms", "tpot_ms")
    ]
    return f"; {' and '.join(shares)} of {errors[0].pairs:,} requests" if shares else ""


def signed(share: float | None) -> str:
    """
    >>> signed(0.1234), signed(-0.5), signed(None)
    ('+12.3 %', '-50.0 %', '-')
    """
    return "-" if share is None else f"{100 * share:+.1f} %"
