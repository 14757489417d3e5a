"""How every figure looks: size, type, colours, words for fields and metrics, saving.

Figures are made with `matplotlib.figure.Figure` directly, never pyplot: no global state, no
window, and the same bytes for the same data.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from textwrap import wrap

import matplotlib as mpl
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from simulator.output import whole_file

WIDTH_IN = 10.0
_LINE_CHARACTERS = 112
"""What fits across a figure in the size of the explaining lines."""
_LINE_IN = 0.23
"""From one of them to the next."""

DPI = 160

INK = "#222222"
MUTED = "#6b6b6b"
RULE = "#d9d9d9"
GOOD = "#e3f1e6"
"""The area inside the SLO limits."""

PREFILL = "#E69F00"
DECODE = "#0072B2"
"""Prompt work is orange and decoding blue in every figure."""

OKABE_ITO = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Colours that stay apart for colour-blind readers. Source: Okabe and Ito, 2008."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X")

FIELD_LABELS = {
    "chunk_size": "chunk size (tokens)",
    "max_num_batched_tokens": "token budget (tokens a step)",
    "max_num_seqs": "max sequences",
    "rate": "arrival rate (requests/s)",
    "scheduler": "scheduler",
    "kv_blocks": "KV blocks",
    "block_size": "block size (tokens)",
    "burstiness": "burstiness (gamma shape)",
    "time_scale": "time scale",
    "requests": "requests",
    "users": "users",
    "seed": "seed",
    "enable_prefix_caching": "prefix caching",
}

SHORT_LABELS = {
    "chunk_size": "chunk",
    "max_num_batched_tokens": "budget",
    "max_num_seqs": "max seqs",
    "rate": "rate",
    "kv_blocks": "KV blocks",
    "enable_prefix_caching": "prefix caching",
}

METRIC_LABELS = {
    "ttft_ms_p50": "TTFT p50 (ms)",
    "ttft_ms_p99": "TTFT p99 (ms)",
    "tpot_ms_p50": "TPOT p50 (ms)",
    "tpot_ms_p99": "TPOT p99 (ms)",
    "itl_ms_p99": "ITL p99 (ms)",
    "itl_ms_max": "ITL max (ms)",
    "output_throughput": "output throughput (tokens/s)",
    "request_throughput": "request throughput (requests/s)",
    "request_goodput": "request goodput (requests/s)",
}

_RC = {
    "font.family": "DejaVu Sans",
    "font.size": 11,
    "text.color": INK,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.titlesize": 11.5,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": RULE,
    "grid.linewidth": 0.7,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "lines.linewidth": 2.0,
    "legend.frameon": False,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "hatch.linewidth": 0.6,
}


@contextmanager
def house_style() -> Iterator[None]:
    """Draw and save inside this, so that a user's matplotlibrc changes nothing."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_RC)  # type: ignore[arg-type]  # the stub wants literal keys
        yield


def save(figure: Figure, path: Path) -> Path:
    """Write the PNG in one piece, without a date or version inside; returns the path.

    Raises:
        ConfigError: the place cannot be written to.
    """
    with whole_file(path) as draft:
        figure.savefig(draft, format="png", dpi=DPI, metadata={"Software": None})
    return path


def headline(figure: Figure, title: str, *lines: str) -> None:
    """Title and explaining lines at the top left; `layout='constrained'` keeps their room.

    Long lines are wrapped, empty ones left out.
    """
    lines = _wrapped(lines)
    room = "\n" * len(lines)
    figure.suptitle(f"{title}{room}", x=0.012, ha="left", fontsize=15, weight="bold")
    for number, line in enumerate(lines):
        top = 1 - (0.38 + _LINE_IN * number) / figure.get_figheight()
        figure.text(0.012, top, line, ha="left", va="top", fontsize=10.5, color=MUTED)


def headline_in(*lines: str) -> float:
    """The height (inches) that `headline` takes for these explaining lines."""
    return _LINE_IN * len(_wrapped(lines))


def _wrapped(lines: Sequence[str]) -> tuple[str, ...]:
    return tuple(part for line in lines for part in wrap(line, _LINE_CHARACTERS))


def sentences(*each: str) -> str:
    """Explaining sentences as one line of `headline`; empty ones are left out.

    >>> sentences("Held fixed: rate 4.", "", "Darker is better.")
    'Held fixed: rate 4. Darker is better.'
    """
    return " ".join(filter(None, each))


def legend_rows(
    figure: Figure, groups: Sequence[Sequence[Artist]], told: Sequence[str] = ()
) -> None:
    """A legend under the figure, a row per group (a long group takes several rows).

    told: lines of text above it.
    """
    above = {"title": "\n".join(told), "title_fontsize": 10, "alignment": "left"} if told else {}
    columns = min(5, max((len(group) for group in groups), default=0))
    rows: list[list[Artist]] = []
    for group in groups:
        for start in range(0, len(group), columns):
            row = list(group[start : start + columns])
            rows.append(row + [Patch(alpha=0.0, label=" ") for _ in range(columns - len(row))])
    if rows:
        handles = [row[column] for column in range(columns) for row in rows]
        figure.legend(
            handles=handles,
            loc="outside lower left",
            ncols=columns,
            fontsize=10,
            columnspacing=1.6,
            handletextpad=0.6,
            **above,
        )


def dot(name: str, colour: str, marker: str, *, hollow: bool = False) -> Line2D:
    """A legend entry for a mark."""
    return Line2D(
        [],
        [],
        color=colour,
        marker=marker,
        markerfacecolor="white" if hollow else colour,
        markersize=8,
        linestyle="none",
        label=name,
    )


def palette(count: int) -> list[str]:
    """`count` colours; Okabe-Ito while it lasts, then steps of viridis."""
    if count <= len(OKABE_ITO):
        return list(OKABE_ITO[:count])
    ramp = mpl.colormaps["viridis"]
    return [to_hex(ramp(step / (count - 1) * 0.92)) for step in range(count)]


def field_label(field: str) -> str:
    """The axis label of a swept field, unit included."""
    return FIELD_LABELS.get(field, field.replace("_", " "))


def short_label(field: str) -> str:
    """The name of a swept field inside a legend or a label."""
    return SHORT_LABELS.get(field, field.replace("_", " "))


def metric_label(metric: str) -> str:
    """The axis label of a metric column, unit included."""
    return METRIC_LABELS.get(metric, metric.replace("_", " "))


def level_label(field: str, value: object) -> str:
    """A field and one of its values, as a legend says it.

    >>> level_label("chunk_size", 512), level_label("scheduler", "static")
    ('chunk 512', 'static')
    """
    words = value_label(value)
    return words if field in ("scheduler", "variant") else f"{short_label(field)} {words}"


def value_label(value: object) -> str:
    """A swept value as people write it.

    >>> value_label(2048), value_label(0.5), value_label(4.0), value_label(None), value_label(True)
    ('2,048', '0.5', '4', 'none', 'true')
    """
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:,.0f}" if value.is_integer() else f"{value:g}"
    if isinstance(value, int):
        return f"{value:,}"
    return str(value)


def tick_label(number: float) -> str:
    """An axis number without exponents: 0.5, 20, 1,500, 15k.

    >>> [tick_label(n) for n in (0.5, 20, 1500, 15000, 2000000)]
    ['0.5', '20', '1,500', '15k', '2M']
    """
    if abs(number) >= 1e6:
        return f"{number / 1e6:g}M"
    if abs(number) >= 1e4:
        return f"{number / 1e3:g}k"
    return f"{number:,.0f}" if float(number).is_integer() else f"{number:g}"


def plain_ticks(axes: Axes, which: str) -> None:
    """Write the axis' numbers with `tick_label`; on a log axis 1, 2 and 5 of each decade.

    The power of ten alone where there are many decades; round numbers where there is none.
    """
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_formatter(FuncFormatter(lambda number, _: tick_label(number)))
    if axis.get_scale() == "log":
        low, high = sorted(axes.get_xlim() if which == "x" else axes.get_ylim())
        wide = high / low > 200
        axis.set_major_locator(LogLocator(subs=(1.0,) if wide else (1.0, 2.0, 5.0), numticks=20))
        if high / low < 5:
            axis.set_major_locator(MaxNLocator(nbins=5))
        axis.set_minor_formatter(NullFormatter())


def spans_decades(values: Sequence[float], factor: float = 8.0) -> bool:
    """True if positive values differ so much that a linear axis would hide the small ones."""
    return len(values) > 0 and min(values) > 0 and max(values) / min(values) > factor
