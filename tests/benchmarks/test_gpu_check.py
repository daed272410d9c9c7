"""``gpu-check`` on a CPU: every part at tiny sizes, what is cut short or dies; the clock's checks on a played GPU."""

from __future__ import annotations

import argparse
import json
import math
import time
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from played_cuda import GB, PROPERTIES, played_cuda

import impls
from benchmarks import axes
from benchmarks.gpu_check import abilities, clocks, command, environment, equivalence, recorder, report, speed
from benchmarks.gpu_check.parts import PARTS, Task
from benchmarks.instrument import journal, memory
from benchmarks.instrument.clock import CudaClock, Samples
from benchmarks.instrument.worker import Worker

NOTHING = {part.name: [] for part in PARTS}


def task(folder: Path, part: str, seconds: float = 60.0) -> Task:
    return Task(folder, part, "cpu", seconds, tiny=True)


def written(folder: Path, part: str) -> list[dict[str, Any]]:
    return list(journal.read(folder / f"{part}.jsonl"))


# The parts


def test_the_environment_is_written_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    environment.main(task(tmp_path, "environment"))
    (found,) = written(tmp_path, "environment")
    assert found["torch"] == torch.__version__
    assert found["cuda"] is torch.cuda.is_available()
    assert found["variables"]["CUDA_VISIBLE_DEVICES"] == "1"
    assert len(found["commit"]) == 40
    assert f"torch {found['packages']['torch']}" in "\n".join(report.environment([found]))


def test_every_backend_says_what_it_takes_and_why_not_the_rest(tmp_path: Path) -> None:
    abilities.main(task(tmp_path, "abilities"))
    answers = {one["backend"]: one for one in written(tmp_path, "abilities") if one["record"] == "backend"}
    assert list(answers) == impls.names()
    assert not any(reasons for each in answers["eager"]["why_not"].values() for reasons in each.values())
    flash = answers["sdpa_flash"]["why_not"]
    assert not flash["float32 forward"]["a bias, no mask"]
    assert "gradient of the bias" in flash["float32 training"]["a bias, no mask"][0]
    rows = dict(report.abilities(written(tmp_path, "abilities")))
    assert rows["deepspeed_evo"].startswith("no: ")
    assert "needs CUDA" in rows["deepspeed_evo"]


def test_a_backend_that_ends_the_process_when_it_is_asked_is_named() -> None:
    records = [{"record": "asking", "backend": "bad"}]
    assert dict(report.abilities(records))["bad"] == "**the process ended while it was asked**"


def test_the_instrument_is_checked(tmp_path: Path) -> None:
    clocks.main(task(tmp_path, "clocks"))
    found = {one["question"]: one for one in written(tmp_path, "clocks")}
    assert len(found) == len(clocks.CHECKS)
    assert "Error" not in "".join(one["words"] for one in found.values())
    assert found["Is memory the same whenever it is measured?"]["ok"]
    assert found["Is a disturbed block noticed?"]["ok"] in (True, None)
    assert found["Is the cache cold, and its flush not counted?"]["ok"] is None
    assert math.isfinite(found["Does the clock agree with the host's, for a long call?"]["numbers"]["clock"])
    assert found["What does another process on the device cost?"]["numbers"]["beside"]["matmul"] > 0


def test_a_check_that_raises_is_a_failure_and_a_late_one_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(clock: Any, device: str, tiny: bool) -> clocks.Answer:
        raise RuntimeError("CUDA error")

    monkeypatch.setattr(clocks, "CHECKS", (broken,))
    clocks.main(task(tmp_path, "clocks"))
    clocks.main(task(tmp_path, "clocks", seconds=-1.0))
    first, second = written(tmp_path, "clocks")
    assert (first["ok"], first["words"]) == (False, "RuntimeError: CUDA error")
    assert second["record"] == "left out"
    assert list(report.failures(NOTHING | {"clocks": [first]})) == [
        "the instrument: broken No: RuntimeError: CUDA error"
    ]


def test_real_sizes_in_both_dtypes_over_every_backend() -> None:
    sweeps = speed.sweeps(tiny=False)
    plain = {cell.key for name, cells in sweeps.items() for cell in cells if name != "built"}
    assert len(plain) == 2 * 12 * (len(axes.BACKENDS) - len(axes.COMPILING)) * 2
    assert "msa_row core S=512 R=384 N_head=8 c=32 bfloat16 cuequivariance training" in plain
    assert "msa_global_column core S=5120 R=384 N_head=8 c=8 float32 eager forward" in plain
    assert {cell.backend for cell in sweeps["built"]} == set(axes.COMPILING)
    assert list(sweeps) == list(speed.SHARES)


def test_the_sweep_is_in_the_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = {cell.backend: cell for cell in speed.sweeps(tiny=True)["final bfloat16"] if cell.direction == "forward"}
    few = {"final bfloat16": [cells["eager"], cells["cuequivariance"]]}
    monkeypatch.setattr(speed, "sweeps", lambda tiny: few)
    monkeypatch.setenv("AXIALBENCH_PROGRESS", "")
    speed.main(task(tmp_path, "speed"))
    (path,) = tmp_path.glob("speed/journal/*.jsonl")
    records = [record for record in journal.read(path) if record["record"] == "cell"]
    assert {record["params"]["backend"]: record["status"] for record in records} == {
        "eager": "ok", "cuequivariance": "unsupported",
    }  # fmt: skip
    assert report.write(tmp_path) == []
    assert "| eager | ok" in (tmp_path / "report.md").read_text()


TESTS = """
import os
import pytest

@pytest.mark.parametrize("name", ["eager", "sdpa"])
@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_something(device, number, name):
    if (name, number) == ("eager", 1):
        os.kill(os.getpid(), 11)
    if (name, number) == ("sdpa", 0):
        pytest.skip("takes nothing")
    assert (name, number) != ("sdpa", 2), "off by two"

def test_of_no_device():
    assert False
"""


def test_tests_are_recorded_and_one_that_ends_the_process_takes_no_other_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "test_played.py").write_text(TESTS)
    monkeypatch.setattr(equivalence, "TESTS", (str(tmp_path / "test_played.py"),))
    equivalence.main(task(tmp_path, "equivalence"))
    tests = [one for one in written(tmp_path, "equivalence") if one["record"] == "test"]
    assert sorted((one["backend"], one["outcome"]) for one in tests) == [
        ("eager", "crashed"), ("eager", "passed"), ("eager", "passed"),
        ("sdpa", "failed"), ("sdpa", "passed"), ("sdpa", "skipped"),
    ]  # fmt: skip
    whys = {one["outcome"]: one["why"] for one in tests}
    assert whys["crashed"] == "by SIGSEGV"
    assert "off by two" in whys["failed"]
    assert "takes nothing" in whys["skipped"]
    wrong = report.write(tmp_path)
    assert len(wrong) == 2
    assert "| all | 3 | 1 | 1 | 1 | 0 |" in (tmp_path / "report.md").read_text()


def test_what_no_time_is_left_for_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "test_played.py").write_text(TESTS.replace("os.kill", "(lambda *given: None)"))
    monkeypatch.setattr(equivalence, "TESTS", (str(tmp_path / "test_played.py"),))
    equivalence.main(task(tmp_path, "equivalence", seconds=0.01))
    assert len([one for one in written(tmp_path, "equivalence") if one["record"] == "test"]) == 1
    assert not [one for one in written(tmp_path, "equivalence") if one["record"] == "pytest failed"]
    *_, total = report.outcomes(written(tmp_path, "equivalence"))
    assert total[-1] == "5"


def test_a_suite_that_cannot_begin_is_not_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "test_played.py").write_text("import os\nos.kill(os.getpid(), 9)\n")
    monkeypatch.setattr(equivalence, "TESTS", (str(tmp_path / "test_played.py"),))
    equivalence.main(task(tmp_path, "equivalence"))
    (found,) = written(tmp_path, "equivalence")
    assert "pytest ended by SIGKILL" in found["why"]
    assert len(report.write(tmp_path)) == 1


def test_backends_take_turns_and_those_that_build_code_come_last() -> None:
    items = [
        SimpleNamespace(nodeid=f"{name} {n}", callspec=SimpleNamespace(params={"name": name, "device": "cuda"}))
        for name in ("flex", "eager", "sdpa")
        for n in range(3)
    ]
    turns = [recorder.backend_of(item) for item in recorder.in_turns([Hashed(item) for item in items])]
    assert turns[6:] == ["flex"] * 3
    assert all(set(turns[i : i + 2]) == {"eager", "sdpa"} for i in (0, 2, 4))


class Hashed:
    """A namespace that can be a key, as pytest's items can."""

    def __init__(self, item: SimpleNamespace) -> None:
        self.nodeid, self.callspec = item.nodeid, item.callspec


def test_a_lost_device_ends_the_process_after_its_test_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = []
    monkeypatch.setattr(recorder, "lost", lambda device: device == "cuda")
    monkeypatch.setattr(recorder.os, "_exit", ended.append)
    for device in ("cpu", "cuda"):
        plugin = recorder.Recorder(str(tmp_path / f"{device}.jsonl"), device, time.time() + 60)
        plugin.backends["a"] = "trifast"
        plugin.pytest_runtest_logreport(
            SimpleNamespace(when="call", outcome="failed", nodeid="a", duration=1.0, longrepr="x\nillegal access")
        )
        (record,) = journal.read(tmp_path / f"{device}.jsonl")
        assert (record["backend"], record["why"]) == ("trifast", "x illegal access")
    assert ended == [recorder.LOST]


# The code for CUDA, played by the CPU


def test_every_line_for_cuda_runs(tmp_path: Path) -> None:
    with played_cuda():
        for part in (environment, clocks):
            part.main(Task(tmp_path, part.__name__.rpartition(".")[2], "cuda", 60.0, tiny=True))
        answers = abilities.answer("sdpa_efficient", "cuda"), abilities.answer("chunked", "cuda")
    (found,) = written(tmp_path, "environment")
    assert (found["device_name"], found["capability"], found["built_for"]) == ("Played GPU", [9, 0], ["sm_90"])
    assert [answer["words"] for answer in answers] == ["yes: float32, bfloat16, float16", "yes"]
    checks = {one["question"]: one for one in written(tmp_path, "clocks")}
    assert "Error" not in "".join(one["words"] for one in checks.values())
    assert checks["Is the cache cold, and its flush not counted?"]["numbers"]["bytes"] == PROPERTIES.L2_cache_size / 4
    assert (
        len(checks["Is a call that is bound by its launch told from one that is not?"]["numbers"]["short"]["host"])
        == 10
    )


def test_a_worker_does_everything_on_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Worker, "rates", lambda worker: {})  # of products that take a CPU half a minute
    cell = next(cell for cell in speed.sweeps(tiny=True)["initial bfloat16"] if cell.backend == "chunked")
    order = {"problem": asdict(cell.problem), "backend": cell.backend, "direction": "training"}
    with played_cuda():
        worker = Worker("cuda", threads=1, limit=0)
        hello = worker.obey({"do": "hello"})
        asked = worker.obey({"do": "ask", **order})
        proved = worker.obey({"do": "prove", **order, "repeats": 2, "checked_scores": 2**20})
        warm = worker.obey({"do": "warm", **order, "most": 0.05})
        timed = worker.obey({"do": "time", **order, "n": 3})
        anchored = worker.obey({"do": "anchor", "name": "copy", "n": 2})
        refused = worker.obey({"do": "ask", **order | {"backend": "flash_attn"}})
        assert worker.obey({"do": "forget"}) == {}
    assert (hello["device"], hello["device_name"], hello["free_bytes"]) == ("cuda", "Played GPU", 79 * GB)
    assert asked["predicted_bytes"] > 0
    assert max(one["error"] / one["budget"] for one in proved["errors"].values()) <= 1
    assert warm["seconds"] > 0
    assert len(timed["seconds"]) == len(timed["host"]) == 3
    assert all(0 < seconds <= host for seconds, host in zip(timed["seconds"], timed["host"], strict=True))
    assert len(anchored["host"]) == 2
    assert "takes no bias" in refused["unsupported"]


def test_memory_on_cuda_is_the_peak_beyond_what_was_there() -> None:
    with played_cuda():
        assert memory.measured(lambda cotangent: {}, SimpleNamespace(is_cuda=True)) == (GB, [])


# The clock's checks, on a played GPU


class Played:
    """A device by its own clock: calls on a cold or warm cache, and a flush that may fail or be counted."""

    FLUSH, COLD, WARM = 50e-6, 10e-6, 5e-6

    def __init__(self, flushes: bool = True, counted: float = 0.0, host: float = 1e-6) -> None:
        self.flushes, self.counted, self.host, self.warm = flushes, counted, host, False

    def zero_(self) -> None:
        self.warm = self.warm and not self.flushes

    def sum(self) -> float:
        seconds = self.WARM if self.warm else self.COLD
        self.warm = True
        return seconds


class PlayedClock(CudaClock):
    def __init__(self, gpu: Played) -> None:
        self.gpu, self.flush = gpu, gpu  # type: ignore[assignment]

    def sample(self, call: Any, n: int) -> Samples:
        seconds = []
        for _ in range(n):
            self.flush.zero_()
            taken = call()
            seconds.append(taken + self.gpu.counted if isinstance(taken, float) else self.gpu.FLUSH)
        return Samples(seconds, [self.gpu.host] * n)


@pytest.mark.parametrize(
    ("gpu", "ok"),
    [(Played(), True), (Played(flushes=False), False), (Played(counted=60e-6), False)],
    ids=["as it should be", "the flush fails", "the flush is counted"],
)
def test_a_flush_that_fails_or_is_counted_is_found(gpu: Played, ok: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(L2_cache_size=2**20))
    monkeypatch.setattr(torch, "ones", lambda *size, device: SimpleNamespace(sum=gpu.sum, nbytes=2**19))
    monkeypatch.setattr(clocks, "Busy", lambda device: SimpleNamespace(zero_=lambda: None))
    found = clocks.cache_is_cold(PlayedClock(gpu), "cuda", True)
    assert found.ok is ok, found.words


@pytest.mark.parametrize(("off", "ok"), [(1.0, True), (1.2, False), (0.5, False)])
def test_a_clock_that_is_off_is_found(off: float, ok: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clocks, "stopwatch", lambda call, device: (0.05, None))
    wrong = SimpleNamespace(sample=lambda call, n: Samples([0.05 * off] * n))
    assert clocks.clock_agrees_with_host(wrong, "cpu", True).ok is ok


@pytest.mark.parametrize(
    ("hosts", "ok"), [((2e-3, 1e-3), True), ((1e-6, 1e-3), False), ((2e-3, 1.0), False), (None, None)]
)
def test_a_launch_that_is_not_told_is_found(hosts: tuple[float, float] | None, ok: bool | None) -> None:
    answers = iter(
        Samples([seconds], None if hosts is None else [host])
        for seconds, host in zip((1e-3, 0.05), hosts or (0, 0), strict=True)
    )
    played = SimpleNamespace(sample=lambda call, n: next(answers))
    assert clocks.slow_launches_are_told(played, "cpu", True).ok is ok


# The command


def given(folder: Path, **options: Any) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    usual = parser.parse_args(["--device", "cpu", "--tiny", "--minutes", "1", "--results", str(folder)])
    return argparse.Namespace(**vars(usual) | options)


def test_a_run_writes_a_folder_of_its_own_and_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(given(tmp_path, part=["environment"])) == 0
    (folder,) = (tmp_path / "local" / "gpu-check").iterdir()
    page = (folder / "report.md").read_text()
    assert "| environment | driver, device, packages |" in page
    assert page.count("not begun") == len(PARTS) - 1
    assert "0 wrong" in capsys.readouterr().out


def test_the_times_of_the_parts_are_shares_of_what_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits: dict[str, float] = {}

    def run(part: Any, folder: Path, device: str, limit: float, tiny: bool) -> tuple[str, bool]:
        limits[part.name] = limit
        return "came to its end", False

    monkeypatch.setattr(command, "run", run)
    assert command.main(given(tmp_path, minutes=8.0)) == 0
    assert list(limits) == [part.name for part in PARTS]
    assert limits["environment"] == pytest.approx(475 * 25 / 470, rel=0.01)
    assert limits["equivalence"] == pytest.approx(475, rel=0.01)  # nothing before it took any


def test_a_part_that_hangs_is_ended_and_what_it_wrote_is_kept(tmp_path: Path) -> None:
    part = next(part for part in PARTS if part.name == "abilities")
    begun = time.monotonic()
    assert command.run(part, tmp_path, "cpu", 0.2, True) == ("cut short after 0 s: it had found nothing", True)
    journal.append(tmp_path / "abilities.jsonl", {"record": "asking", "backend": "eager"})
    assert command.run(part, tmp_path, "cpu", 0.2, True) == ("cut short after 0 s: what it had found is kept", False)
    assert command.run(part, tmp_path, "cpu", 0.0, True)[0] == "left out: no time was left"
    assert time.monotonic() - begun < 10
    assert written(tmp_path, "abilities")[0]["backend"] == "eager"


def test_a_part_that_fails_says_so(tmp_path: Path) -> None:
    part = PARTS[0]
    (tmp_path / "environment.jsonl").mkdir()
    ended, failed = command.run(part, tmp_path, "cpu", 60.0, True)
    assert (ended, failed) == ("ended with exit status 1; its log says more", True)
    assert "IsADirectoryError" in (tmp_path / "environment.log").read_text()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is CUDA")
def test_without_cuda_it_says_so_and_runs_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(given(tmp_path, device="cuda")) == 2
    assert "--device cpu the same parts run on the CPU" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_page_can_be_made_of_nothing(tmp_path: Path) -> None:
    assert report.write(tmp_path) == []
    assert "Nothing is known of the environment" in (tmp_path / "report.md").read_text()
    assert json.dumps(report.table(("a",), iter([("x|y",)]))) == json.dumps(["| a |", "| --- |", "| x\\|y |"])
