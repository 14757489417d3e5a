"""`BoostClock`: what a step with prompts saves because the GPU has not computed much of late.

Reading weights and KV cache draws little power, so between prompts a GPU runs at its boost clock;
matrix products at full rate draw more than it may for long, and within tens of milliseconds its
clock falls. A lone prompt is therefore quicker than the same prompt right after another one.
"""

from __future__ import annotations

from simulator.errors import ConfigError

from .pricing import checked

NS_PER_MS = 1e6


class BoostClock:
    """Saves `boost_saving_ms` x pause / (pause + `boost_recovery_ms`) of a step with prompts.

    The pause is the time since the last such step ended: half of the saving has come back after
    the recovery time. Never more than saving / recovery of the step's compute time is saved.

    4 ms, half of it recovered in 20 ms: after a pause of 60 ms three quarters are saved.

    >>> BoostClock(4.0, 20.0).saving_ns(50_000_000, 60_000_000)
    3000000

    Raises:
        ConfigError: a negative or non-finite parameter, or a saving without a recovery time.
    """

    __slots__ = ("_recovery_ns", "_saving_ns")

    def __init__(self, boost_saving_ms: float, boost_recovery_ms: float) -> None:
        given = {"boost_saving_ms": boost_saving_ms, "boost_recovery_ms": boost_recovery_ms}
        checked(given)
        if boost_saving_ms >= boost_recovery_ms and boost_saving_ms:
            raise ConfigError(
                f"boost_saving_ms is {boost_saving_ms:g}, boost_recovery_ms {boost_recovery_ms:g}: "
                "the saving must be shorter than the time over which the clock changes"
            )
        self._saving_ns = round(boost_saving_ms * NS_PER_MS)
        self._recovery_ns = round(boost_recovery_ms * NS_PER_MS)

    def __bool__(self) -> bool:
        return self._saving_ns > 0

    def saving_ns(self, compute_ns: int, pause_ns: int) -> int:
        """Of a step with so much compute time, so long after the last step with prompts; ns."""
        saving, recovery = self._saving_ns, self._recovery_ns
        recovered = saving - saving * recovery // (pause_ns + recovery)
        return min(recovered, compute_ns * saving // recovery)
