"""The GPU's state, read from a played ``nvidia-smi``; and a GPU that computes no more."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest
import torch
from misbehaving import TINY

from benchmarks.instrument import gpu, machine, worker
from benchmarks.instrument.clock import Samples
from benchmarks.instrument.workers import WorkerProcess

COUNTED = {f"clocks_event_reasons_counters.{name}": "0" for name in gpu.COUNTERS}
NEW = {"clocks.sm": "1980", "temperature.gpu": "41", "power.draw": "120.50",
       "clocks_event_reasons.active": "0x0000000000000001", **COUNTED}  # fmt: skip
OLD = {"clocks.sm": "1410", "temperature.gpu": "30", "power.draw": "[N/A]",
       "clocks_throttle_reasons.active": "0x0000000000000000"}  # fmt: skip

PLAYED = """#!{python}
import json, sys
known, log = json.load(open({file!r})), open({log!r}, "a")
print(json.dumps(sys.argv[1:]), file=log)
asked = next(word for word in sys.argv if word.startswith("--query-gpu=")).partition("=")[2].split(",")
if wrong := [name for name in asked if name not in known]:
    print(f'Field "{{wrong[0]}}" is not a valid field to query.')
    sys.exit(2)
print(", ".join(known[name] for name in asked))
"""


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, str]], None]:
    """Have ``nvidia-smi`` be a program that knows these fields; what it was asked is in ``asked``."""
    program = tmp_path / "nvidia-smi"
    program.write_text(PLAYED.format(python=sys.executable, file=str(tmp_path / "known"), log=str(tmp_path / "asked")))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def play(known: dict[str, str]) -> None:
        (tmp_path / "known").write_text(json.dumps(known))
        gpu.known_fields.cache_clear()

    yield play
    gpu.known_fields.cache_clear()


def test_a_new_driver_counts_for_how_long_clocks_were_held_down(driver) -> None:
    driver(NEW)
    before = gpu.reading()
    assert (before["sm_mhz"], before["celsius"], before["watts"]) == (1980, 41, 120.5)
    assert before["throttled_us"] == dict.fromkeys(gpu.COUNTERS, 0)
    driver(NEW | {"clocks_event_reasons_counters.sw_power_cap": "350000"})
    assert gpu.held_down(before, gpu.reading()) == ["the GPU's clocks were held down: sw_power_cap for 0.35 s"]
    assert gpu.held_down(before, before) == []


@pytest.mark.parametrize(
    ("bits", "said"),
    [
        ("0x0000000000000000", []), ("0x0000000000000001", []), ("0x0000000000000102", []),
        ("0x0000000000000044", ["sw_power_cap", "hw_thermal_slowdown"]), ("[N/A]", []),
    ],
)  # fmt: skip
def test_an_old_driver_tells_what_holds_clocks_down_at_the_time(driver, bits: str, said: list[str]) -> None:
    driver(OLD)
    before = gpu.reading()
    assert before == {
        "sm_mhz": 1410, "celsius": 30, "watts": None, "throttle": "0x0000000000000000", "throttled_us": None,
    }  # fmt: skip
    driver(OLD | {"clocks_throttle_reasons.active": bits})
    for states in ((before, gpu.reading()), (gpu.reading(), before)):
        assert gpu.held_down(*states) == [f"the GPU's clocks are held down: {name}" for name in said]


def test_the_gpu_is_the_one_that_cuda_uses(driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver(NEW)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-1f2e,0")
    gpu.reading()
    assert all(json.loads(line)[:2] == ["-i", "GPU-1f2e"] for line in (tmp_path / "asked").read_text().splitlines())
    assert WorkerProcess({}, {}).environ == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    assert WorkerProcess({}, {"CUDA_DEVICE_ORDER": "FASTEST_FIRST"}).environ["CUDA_DEVICE_ORDER"] == "FASTEST_FIRST"


def test_without_nvidia_smi_nothing_is_said_and_nothing_disturbs(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    gpu.known_fields.cache_clear()
    state = machine.state([], "cuda")
    assert {state.readings[name] for name in ("sm_mhz", "celsius", "watts", "throttle", "throttled_us")} == {None}
    assert gpu.held_down(state.readings, state.readings) == []
    gpu.known_fields.cache_clear()


def test_samples_are_launch_bound_where_the_host_was_slower() -> None:
    assert Samples([1e-5] * 3, [2e-5, 3e-5, 2e-5]).launch_bound
    assert not Samples([5e-3] * 3, [1e-4, 6e-3, 6e-3]).launch_bound, "the host waited where the queue was full"
    assert not Samples([1e-3] * 3, [2e-5] * 3).launch_bound
    assert not Samples([1e-5] * 3).launch_bound


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_a_worker_whose_gpu_is_lost_ends_and_takes_no_other_cell_along(
    device: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """NVIDIA/cuEquivariance#136: after an illegal access every later call in the process fails, whosever it is."""

    def gone() -> None:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    class Ended(BaseException):
        pass

    def end(code: int) -> None:
        assert code == worker.LOST
        raise Ended

    monkeypatch.setattr(torch.cuda, "synchronize", gone)
    monkeypatch.setattr(os, "_exit", end)
    broken = object.__new__(worker.Worker)
    broken.device = device
    monkeypatch.setattr(broken, "warm", lambda **order: gone())
    order = {"do": "warm", "problem": asdict(TINY), "backend": "eager", "direction": "forward", "most": 0.1}
    if device == "cpu":
        assert broken.obey(order)["failed"] == "crashed"
        return
    with pytest.raises(Ended):
        broken.obey(order)
    assert "an illegal memory access" in capfd.readouterr().err.splitlines()[-1]
