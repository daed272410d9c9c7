"""The NVIDIA GPU as ``nvidia-smi`` sees it: its clocks, and for how long something held them down."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from functools import cache
from typing import Any

FIELDS = {"sm_mhz": "clocks.sm", "celsius": "temperature.gpu", "watts": "power.draw"}
ACTIVE = ("clocks_event_reasons.active", "clocks_throttle_reasons.active")
"""What holds the clocks down at this moment, as bits: the field's name, and the one that it had in older drivers."""
COUNTERS = ("sw_power_cap", "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "sync_boost")
"""Reasons for which newer drivers count the microseconds."""
REASONS = {
    0x4: "sw_power_cap", 0x8: "hw_slowdown", 0x10: "sync_boost", 0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown", 0x80: "hw_power_brake_slowdown",
}  # fmt: skip
"""Bits of NVML's clocks event reasons that slow a measurement. An idle GPU (1) and clocks that were set (2, 0x100) are
none."""
TELLING = 10_000
"""Microseconds for which the clocks must have been held down to be mentioned."""
ORDER = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
"""For processes that compute: CUDA then counts GPUs as ``nvidia-smi`` does, and not by their speed."""


def reading() -> dict[str, Any]:
    """Clock (MHz), temperature, power (W), what holds the clocks down now (``throttle``, bits in hexadecimal), and for
    how many microseconds each reason did since the driver was loaded (``throttled_us``); None for what is not said.

    The GPU is the first that CUDA_VISIBLE_DEVICES names.
    """
    active, counters = known_fields()
    fields = [*FIELDS.values(), *([active] if active else []), *counters]
    values = dict(zip(fields, query(fields) or [""] * len(fields), strict=True))
    found: dict[str, Any] = {name: number(values[field]) for name, field in FIELDS.items()}
    throttle = values.get(active or "", "")
    counted = {field.rpartition(".")[2]: number(values[field]) for field in counters}
    return found | {
        "throttle": throttle if throttle.startswith("0x") else None,
        "throttled_us": {name: us for name, us in counted.items() if us is not None} or None,
    }


def held_down(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """What held the clocks down between two readings, in words; without counters, what did at one of the two."""
    if before.get("throttled_us") and after.get("throttled_us"):
        gained = {name: us - before["throttled_us"].get(name, us) for name, us in after["throttled_us"].items()}
        return [f"the GPU's clocks were held down: {name} for {us / 1e6:.2g} s" for name, us in gained.items()
                if us >= TELLING]  # fmt: skip
    bits = [int(found, 16) for state in (before, after) if (found := state.get("throttle"))]
    return [f"the GPU's clocks are held down: {name}" for bit, name in REASONS.items() if any(bit & x for x in bits)]


@cache
def known_fields() -> tuple[str | None, tuple[str, ...]]:
    """The fields for ``ACTIVE`` and ``COUNTERS`` that this driver knows."""
    counters = tuple(f"clocks_event_reasons_counters.{name}" for name in COUNTERS)
    return next((name for name in ACTIVE if query([name])), None), counters if query(list(counters)) else ()


def query(fields: list[str]) -> list[str] | None:
    """The values of ``fields``, or None where ``nvidia-smi`` knows them not, or is not there."""
    first = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0]
    command = ["nvidia-smi", *(["-i", first] if first else []), f"--query-gpu={','.join(fields)}",
               "--format=csv,noheader,nounits"]  # fmt: skip
    with suppress(OSError, subprocess.SubprocessError):
        said = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout
        for line in said.splitlines():
            values = [value.strip() for value in line.split(",")]
            return values if len(values) == len(fields) else None
    return None


def number(text: str) -> float | None:
    """The number in ``text``; None where it is none, such as ``[N/A]``."""
    with suppress(ValueError):
        return float(text)
    return None
