"""``python -m benchmarks run``: what it says when its child does not come to its end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from benchmarks import __main__ as run
from benchmarks.instrument import journal, origin
from benchmarks.instrument.workers import how_it_ended

KILLED = """\
[50.00%] ··· Setting up depth:14                                         failed
[50.00%] ···· some last words
[50.00%] ···· asv: setup_cache failed (exit status -9)
"""  # as asv 0.6.6 writes it
HERE = Path("results/local/journal/c0ffee00-env.jsonl")


def begin(path: Path, sweep: str, cells: int, done: bool, started: float) -> None:
    when = datetime.fromtimestamp(started, UTC).isoformat(timespec="seconds")
    journal.append(path, {"record": "sweep", "sweep": sweep, "module": sweep, "started": when})
    for _ in range(cells):
        journal.append(path, {"record": "cell", "sweep": sweep, "status": "ok"})
    if done:
        journal.append(path, {"record": "done", "sweep": sweep, "timed_seconds": 1.0})


def test_how_a_process_ended() -> None:
    assert how_it_ended(3) == "with exit status 3"
    assert how_it_ended(-signal.SIGTERM) == "by SIGTERM"
    assert how_it_ended(-signal.SIGKILL) == "by SIGKILL (as the system does when memory runs out)"


def test_only_what_this_run_began_counts(tmp_path: Path) -> None:
    now = time.time()
    begin(tmp_path / "a.jsonl", "msa_row", cells=9, done=False, started=now - 3600)
    begin(tmp_path / "a.jsonl", "block", cells=2, done=True, started=now)
    records = list(run.records_since(tmp_path, now))
    assert {record["sweep"] for record in records} == {"block"}
    assert run.cut_short(records, log="all went well") == []


def test_a_sweep_without_its_end_was_cut_short(tmp_path: Path) -> None:
    begin(tmp_path / "a.jsonl", "block", cells=2, done=True, started=time.time())
    begin(tmp_path / "a.jsonl", "depth", cells=5, done=False, started=time.time())
    records = list(run.records_since(tmp_path, time.time() - 60))
    (sentence,) = run.cut_short(records, KILLED)
    assert sentence.startswith("Measuring depth was cut short after 5 cells: its process ended by SIGKILL")
    assert "after 5 cells: its process ended too early" in run.cut_short(records, "nothing")[0]


def test_a_sweep_that_never_began_is_missed_too() -> None:
    log = KILLED.replace("depth:14", "block:15").replace("-9", "1")
    sentences = run.cut_short([], KILLED + log)
    assert [sentence.split(":")[0] for sentence in sentences] == [
        f"Measuring {module} was cut short after 0 cells" for module in ("depth", "block")
    ]
    assert "with exit status 1" in sentences[1]


ASV = """
import os, sys, time
from datetime import UTC, datetime
from pathlib import Path
sys.path.insert(0, {root!r})
from benchmarks.instrument import journal
path = Path({here!r})
journal.append(path, {{"record": "sweep", "sweep": "s", "module": "depth", "started": datetime.now(UTC).isoformat()}})
journal.append(path, {{"record": "cell", "sweep": "s", "status": "ok"}})
print("columns", os.environ["COLUMNS"])
{end}
"""


@pytest.mark.parametrize(
    ("end", "status", "said"),
    [
        (f"print({KILLED!r}); sys.exit(2)", 1, "Measuring depth was cut short after 1 cells: its process ended by"),
        ("os.kill(os.getpid(), 9)", -9, "asv run ended by SIGKILL"),
    ],
)
def test_a_killed_child_is_told_and_how_to_go_on(tmp_path, monkeypatch, capsys, end, status, said) -> None:
    """With a program in asv's place that writes a journal and is killed, or whose own child was."""
    (tmp_path / ".asv").mkdir()
    script = ASV.format(root=str(origin.ROOT), here=str(tmp_path / HERE), end=end)
    start = subprocess.Popen
    monkeypatch.setattr(run.origin, "ROOT", tmp_path)
    monkeypatch.setattr(run, "LOG", tmp_path / ".asv" / "run.log")
    monkeypatch.setattr(run.origin, "dirty", lambda: {"impls": False, "benchmarks": False})
    monkeypatch.setattr(
        run.subprocess, "Popen", lambda command, **options: start([sys.executable, "-c", script], **options)
    )
    assert run.measure("quick", "local", "HEAD") == status
    out = capsys.readouterr().out
    assert said in out
    assert run.RESUME in out
    assert "columns 200" in (tmp_path / ".asv" / "run.log").read_text()
    assert os.environ.get("COLUMNS") != "200"
