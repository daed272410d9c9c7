"""Numbers as people read them: three digits and an SI prefix."""

from __future__ import annotations

import math

SPACE = "\u00a0"  # a number and its unit stay on one line
PREFIXES = {-4: "p", -3: "n", -2: "µ", -1: "m", 0: "", 1: "k", 2: "M", 3: "G", 4: "T", 5: "P"}


def si(value: float, unit: str) -> str:
    """``si(0.00321, "s")`` is ``"3.21 ms"``; ``si(2.517e9, "B")`` is ``"2.52 GB"``."""
    if not math.isfinite(value):
        return "unknown"
    if value == 0:
        return f"0{SPACE}{unit}"
    rounded = float(f"{value:.3g}")
    power = min(max(math.floor(math.log10(abs(rounded)) / 3 + 1e-9), 0 if unit == "B" else -4), 5)
    if unit == "B" and power == 0:
        return f"{value:.0f}{SPACE}B"
    return f"{_plain(rounded / 1000**power)}{SPACE}{PREFIXES[power]}{unit}"


def ratio(value: float) -> str:
    """``ratio(3.174)`` is ``"3.17×"``."""
    return f"{_plain(float(f'{value:.3g}'))}×" if math.isfinite(value) else "unknown"


def _plain(value: float) -> str:
    """Three significant digits without an exponent, trailing zeros kept where they mean something."""
    decimals = 2 - math.floor(math.log10(abs(value))) if value else 0
    return f"{value:.{min(max(decimals, 0), 4)}f}"
