"""Two runs beside each other, or a run beside the log of a real engine."""

from .comparison import Comparison, compare
from .log import Log
from .reading import read_log

__all__ = ["Comparison", "Log", "compare", "read_log"]
