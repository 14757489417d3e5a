"""Shares as text: 100 % is written only of all, 0 % only of none."""

from __future__ import annotations


def percent(share: float, digits: int = 1) -> str:
    """A share (0..1) in percent, rounded, but never up to all nor down to none.

    >>> percent(0.9642), percent(3999 / 4000), percent(1.0), percent(0.9972, 0)
    ('96.4 %', '99.9 %', '100.0 %', '99 %')
    >>> percent(0.0), percent(0.0002), percent(0.002, 0)
    ('0.0 %', '< 0.1 %', '< 1 %')
    """
    value = percentage(share, digits)
    if share > 0 and value <= 0:
        return f"< {10.0**-digits:.{digits}f} %"
    return f"{value:.{digits}f} %"


def percentage(share: float, digits: int = 1) -> float:
    """The same as a number: 100 only of all.

    >>> percentage(3999 / 4000), percentage(1.0), percentage(0.25)
    (99.9, 100.0, 25.0)
    """
    value = round(100 * share, digits)
    return round(100 - 10.0**-digits, digits) if share < 1 and value >= 100 else value
