"""The sweep: every cell gets a status with its reason whatever happens to the others, and nothing finished is lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from misbehaving import ALONE, NAMES, TINY, cell, origin

from benchmarks.efficiency import WORDS, spent
from benchmarks.instrument import journal
from benchmarks.instrument.alone import NotAloneError, alone
from benchmarks.instrument.cells import Selection
from benchmarks.instrument.problems import Problem
from benchmarks.instrument.sweep import WrongImplsError

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def found(sweep_over, tmp_path_factory):
    """The journal's cells, by backend and direction, of one sweep over good and misbehaving backends."""
    results = tmp_path_factory.mktemp("results")
    sweep = sweep_over(results)
    cells = [cell(name) for name in ("eager", "nothing", *NAMES)]
    cells += [cell(name, "training") for name in ("eager", "no_dbias")]
    cells.append(cell("eager", series="OverS"))
    readings = sweep.measure(cells, Selection())
    records = list(journal.read(sweep.origin.journal))
    assert len(readings) == len(cells)
    return records


def of(found, backend, direction="forward"):
    return next(
        r for r in found if r["record"] == "cell" and r["params"]["backend"] == backend and r["direction"] == direction
    )


@pytest.mark.parametrize(
    ("backend", "direction", "status", "reason"),
    [
        ("eager", "forward", "ok", ""),
        ("eager", "training", "ok", ""),
        ("nothing", "forward", "absent", "no backend 'nothing'"),
        ("crash", "forward", "crashed", "SIGABRT"),
        ("hang", "forward", "timeout", "no answer within"),
        ("shot", "forward", "oom", "the system ended the process"),
        ("segv", "forward", "crashed", "SIGSEGV"),
        ("hog", "forward", "oom", "allocate memory"),
        ("trip", "forward", "crashed", "ValueError: stumbled over a stone"),
        ("wrong", "forward", "inaccurate", "o is "),
        ("no_dbias", "training", "inaccurate", "dbias is "),
        ("nan", "forward", "inaccurate", "o is not finite"),
        ("giant", "forward", "too_big", "needs 1e+03 TB"),
        ("refuses", "forward", "unsupported", "it is Sunday"),
    ],
)
def test_every_cell_ends_in_its_status(found, backend, direction, status, reason):
    record = of(found, backend, direction)
    assert record["status"] == status, record["reason"]
    assert reason in record["reason"]
    assert bool(record["reason"]) == (status != "ok")


def test_timed_cells_keep_every_sample_with_its_round_and_process(found):
    for backend, direction in (("eager", "forward"), ("eager", "training"), ("wrong", "forward")):
        seconds = of(found, backend, direction)["seconds"]
        assert len(seconds["samples"]) == len(seconds["rounds"]) == len(seconds["processes"])
        assert seconds["rounds"] == sorted(seconds["rounds"])
        assert set(seconds["rounds"]) == set(range(4))
        assert set(seconds["processes"]) == {0, 1}
        assert all(x > 0 for x in seconds["samples"])


def test_a_problem_on_two_series_is_measured_once_and_recorded_twice(found):
    twins = [r for r in found if r["record"] == "cell" and r["cell"] == f"{TINY.key} eager forward"]
    assert [r["series"] for r in twins] == ["OverR", "OverS"]
    assert twins[0]["seconds"] == twins[1]["seconds"]


def test_the_journal_says_what_measured_and_how_it_ended(found):
    assert [r["record"] for r in (found[0], found[-1])] == ["sweep", "done"]
    assert all(r["schema"] == 1 and r["sweep"] == found[0]["sweep"] for r in found)
    assert found[0]["threads"] == 1
    assert found[0]["device"] == "cpu"
    assert found[0]["inputs"] == "warm"
    assert 0 < found[-1]["timed_seconds"] < found[-1]["orders"]["time"] < found[-1]["wall_seconds"]


def test_every_second_of_a_sweep_is_accounted_for(found):
    done = found[-1]
    assert set(done["orders"]) == set(WORDS)
    by_use = spent([done])
    assert sum(by_use.values()) == pytest.approx(done["wall_seconds"])
    assert min(by_use.values()) >= -0.1  # each is rounded to 0.01
    assert by_use["timed calls"] == done["timed_seconds"]
    assert spent([done, done]) == pytest.approx({use: 2 * seconds for use, seconds in by_use.items()})


def test_measured_memory_is_what_was_predicted(found):
    record = of(found, "eager")
    assert record["bytes"] == record["predicted_bytes"] > 0


def test_workers_must_see_the_commits_impls(sweep_over, tmp_path):
    with pytest.raises(WrongImplsError, match="does not lie in asv's environment"):
        sweep_over(tmp_path, ALONE, env_dir=tmp_path / "env").measure([cell("eager")], Selection())


def test_what_would_take_too_long_is_not_tried(sweep_over, tmp_path):
    hasty = replace(ALONE, longest_call=1e-12)
    sweep = sweep_over(tmp_path, hasty)
    (reading,) = sweep.measure([cell("eager")], Selection()).values()
    assert reading["status"] == "not_run"
    assert "brief effort allows 1e-12 s" in reading["reason"]


def test_a_module_keeps_to_its_time(sweep_over, tmp_path):
    sweep = sweep_over(tmp_path, replace(ALONE, module_seconds=0.0))
    (reading,) = sweep.measure([cell("eager")], Selection()).values()
    assert reading["status"] == "not_run"
    assert "its turn did not come" in reading["reason"]


def git(*arguments):
    return subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, check=True).stdout


def test_the_oldest_commit_can_be_measured(sweep_over, tmp_path):
    """What it lacks is absent; the rest is measured by today's suite."""
    if git("rev-parse", "--is-shallow-repository").strip() == b"true":
        pytest.skip("this clone is shallow: the oldest commit is not in it")
    oldest, *_ = git("rev-list", "--reverse", "HEAD", "--", "impls/interface.py").decode().split()
    installed = tmp_path / "installed"
    installed.mkdir()
    subprocess.run(["tar", "-x", "-C", str(installed)], input=git("archive", oldest, "impls"), check=True)
    block = replace(TINY, level="module", mask="padding")
    cells = [cell("eager"), cell("eager", "training"), cell("sdpa")]
    cells.append(cell("eager", problem=block, series="Block"))
    stack = Problem("evoformer", "stack", "float32", N_head=2, c=8, R=7, S=5, blocks=1)
    cells.append(cell("eager", problem=stack, series="OverBlocks"))
    sweep = sweep_over(tmp_path / "results", ALONE, [installed], env_dir=installed)
    readings = sweep.measure(cells, Selection())
    assert [readings[c.place]["status"] for c in cells] == ["ok", "ok", "absent", "absent", "absent"]


def test_a_full_disk_loses_nothing_that_was_finished(sweep_over, tmp_path, monkeypatch):
    """Of a disk that is full from the second cell on, the first stands in the journal; the rest is measured later."""
    cells = [cell("eager", problem=replace(TINY, R=R)) for R in (8, 9, 10)]
    write, room = journal.append, iter([True, True])  # the sweep's record, and one cell's

    def append(path, *records):
        write(path if next(room, False) else Path("/dev/full"), *records)

    monkeypatch.setattr(journal, "append", append)
    with pytest.raises(OSError, match="No space left on device"):
        sweep_over(tmp_path, ALONE).measure(cells, Selection())
    monkeypatch.undo()
    sweep = sweep_over(tmp_path, ALONE)
    assert len(sweep.measure(cells, Selection())) == 3
    measured = Counter(r["cell"] for r in journal.read(sweep.origin.journal) if r["record"] == "cell")
    assert sorted(measured.values()) == [1, 1, 1]


def test_two_runs_at_once_are_refused_and_the_first_goes_on(sweep_over, tmp_path):
    sweep = sweep_over(tmp_path, ALONE)
    with alone(tmp_path / sweep.origin.machine), pytest.raises(NotAloneError, match=f"process {os.getpid()} is"):
        sweep.measure([cell("eager")], Selection())
    assert sweep_over(tmp_path, ALONE).measure([cell("eager")], Selection())


SCRIPT = """
import sys
from pathlib import Path
sys.path[:0] = [{root!r}, {here!r}]
from misbehaving import ALONE, TINY, cell, origin
from dataclasses import replace
from benchmarks.instrument.cells import Selection
from benchmarks.instrument.sweep import Sweep
cells = [cell("eager", problem=replace(TINY, R=R)) for R in range(16, 16 + {n})]
Sweep("msa_row", origin(Path({results!r})), ALONE).measure(cells, Selection())
"""


def test_a_killed_sweep_is_taken_up_where_it_stopped(tmp_path):
    n = 30
    script = SCRIPT.format(root=str(ROOT), here=str(ROOT / "tests"), results=str(tmp_path), n=n)
    environ = {**os.environ, "AXIALBENCH_THREADS": "1", "AXIALBENCH_DEVICE": "cpu"}
    killed = subprocess.Popen([sys.executable, "-c", script], env=environ)

    def records():
        return [r for path in tmp_path.rglob("*.jsonl") for r in journal.read(path)]

    def measured():
        return Counter(r["cell"] for r in records() if r["record"] == "cell")

    deadline = time.monotonic() + 60
    while len(measured()) < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    before = measured()
    assert 3 <= len(before) < n
    saved_by_asv(tmp_path)  # as failed, after the killed sweep
    subprocess.run([sys.executable, "-c", script], env=environ, check=True)
    assert measured() == dict.fromkeys(measured(), 1)
    assert len(measured()) == n
    assert set(before) <= set(measured())
    assert [r["record"] for r in records()].count("done") == 1
    saved_by_asv(tmp_path)  # as measured: from now on everything is measured anew
    subprocess.run([sys.executable, "-c", script], env=environ, check=True)
    assert measured() == dict.fromkeys(measured(), 2)


def saved_by_asv(results: Path) -> None:
    """Leave a file of asv's in which the module was saved just now."""
    path = origin(results).asv_file
    saved = {"msa_row.OverR.seconds_forward": [None, time.time() * 1000]}
    path.write_text(json.dumps({"result_columns": ["result", "started_at"], "results": saved}))
