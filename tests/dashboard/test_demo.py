"""The generated history: what is planted in it is what the alarms tell, and it stands beside what was measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from dashboard import alarms, demo, history

COUNT = 100


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> dict[str, alarms.Event]:
    path = tmp_path_factory.mktemp("results")
    demo.write(path, demo.history(COUNT), modules=["template"], dtypes=["float32"])
    return {event.subject: event for event in alarms.events(history.load(path))}


@pytest.mark.parametrize(
    ("share", "kind", "backend"),
    [
        (0.10, "slower", "chunked"), (0.16, "faster", "chunked"), (0.25, "more memory", "sdpa_math"),
        (0.33, "faster", "compiled"), (0.52, "less accurate", "sdpa_math"), (0.60, "kernel", "flex"),
        (0.68, "failed", "compiled"), (0.70, "works", "compiled"), (0.78, "less memory", "sdpa_math"),
        (0.88, "slower", "eager"),
    ],
)  # fmt: skip
def test_what_is_planted_is_told(events: dict[str, alarms.Event], share: float, kind: str, backend: str) -> None:
    event = events[demo.PLANTED[share].subject]
    assert (kind, backend) in {(finding.kind, finding.cell.split()[-2]) for finding in event.findings}


def test_the_machines_own_move_is_not_held_against_the_commit(events: dict[str, alarms.Event]) -> None:
    event = events[demo.PLANTED[0.42].subject]
    assert "anchor matmul" in event.environment
    assert event.of("confirmed") == ()


def test_nothing_else_is_confirmed_as_worse(events: dict[str, alarms.Event]) -> None:
    planted = {commit.subject for commit in demo.PLANTED.values()}
    assert {subject for subject, event in events.items() if event.of("confirmed")} <= planted


def test_the_newest_commit_stands_in_two_environments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = tmp_path / "measured"
    demo.write(measured, demo.COMMITS[:1], machine="reference", modules=["template"], dtypes=["float32"])
    arguments = ["demo", str(tmp_path / "both"), "--commits", "3", "--module", "template", "--dtype", "float32"]
    monkeypatch.setattr("sys.argv", [*arguments, "--beside", str(measured)])
    demo.main()
    cells = history.load(tmp_path / "both").cells
    assert set(cells["machine"]) == {"reference", "generated"}
    commits = cells[cells["machine"] == "generated"].groupby("env")["commit"].agg(["nunique", "last"])
    assert commits.loc[demo.ENV, "nunique"] == 3
    assert commits.loc[demo.NEXT_ENV].tolist() == [1, commits.loc[demo.ENV, "last"]]
