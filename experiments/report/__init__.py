"""One self-contained HTML page about saved results: no server, no network, no library."""

from .build import build_report, write_report

__all__ = ["build_report", "write_report"]
