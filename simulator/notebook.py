"""What a notebook shows of a result: a small table, as HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from .statistics import Distribution

SHOWN = ("mean", "p50", "p90", "p99", "max", "n")


def latency_html(caption: str, latencies: Mapping[str, Distribution], notes: Sequence[str]) -> str:
    """Latencies in ms as a table under a caption, and lines of text below.

    >>> html = latency_html("run", {"TTFT": Distribution(mean=1234.5, n=2)}, ["2 < 3"])
    >>> "<td>1,234.5</td>" in html, "<td>-</td>" in html, "<div>2 &lt; 3</div>" in html
    (True, True, True)
    """
    heads = "".join(f"<th>{name}</th>" for name in ("ms", *SHOWN))
    rows = "".join(_row(name, described) for name, described in latencies.items())
    below = "".join(f"<div>{escape(note)}</div>" for note in notes)
    return (
        f"<div><b>{escape(caption)}</b><table><thead><tr>{heads}</tr></thead>"
        f"<tbody>{rows}</tbody></table>{below}</div>"
    )


def _row(name: str, described: Distribution) -> str:
    values = (getattr(described, field) for field in SHOWN[:-1])
    cells = ["-" if value is None else f"{value:,.1f}" for value in values]
    numbers = "".join(f"<td>{cell}</td>" for cell in (*cells, f"{described.n:,}"))
    return f"<tr><th>{escape(name)}</th>{numbers}</tr>"
