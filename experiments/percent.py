"""Shares as text: 100 % is written only of all, 0 % only of none."""

from __future__ import annotations


def percent(share: float, digits: int = 1) -> str:
    """A share (0..1) in percent, rounded, but never up to all nor down to none.

    >>> percent(0.9642), percent(3999 / 4000), percent(1.0), percent(0.9972, 0)
    ('96.4 %', '99.9 %', '100.0 %', '99 %')
    >>> percent(0.0), percent(0.0002), percent(0.002, 0)
    ('0.0 %', '< 0.1 %', '< 1 %')
    """
    least = 10.0**-digits
    value = round(100 * share, digits)
    if share < 1 and value >= 100:
        value = 100 - least
    if share > 0 and value <= 0:
        return f"< {least:.{digits}f} %"
    return f"{value:.{digits}f} %"
