"""The journal: a line a cell, on disk at once; torn lines cost nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.instrument import journal

EXAMPLE = Path(__file__).parents[1] / "data" / "journal" / "example.jsonl"


def test_what_is_appended_is_read(tmp_path):
    path = tmp_path / "deep" / "journal.jsonl"
    journal.append(path, {"record": "cell", "x": 1.5})
    journal.append(path, {"record": "cell", "x": None}, {"record": "done"})
    assert list(journal.read(path)) == [
        {"schema": 1, "record": "cell", "x": 1.5},
        {"schema": 1, "record": "cell", "x": None},
        {"schema": 1, "record": "done"},
    ]


@pytest.mark.parametrize("cut", range(1, 20, 3))
def test_a_torn_last_line_is_dropped_and_ends_before_the_next(tmp_path, cut):
    path = tmp_path / "journal.jsonl"
    journal.append(path, {"record": "cell", "n": 1})
    journal.append(path, {"record": "cell", "n": 2})
    path.write_bytes(path.read_bytes()[:-cut])
    assert [r["n"] for r in journal.read(path)] in ([1], [1, 2])
    journal.append(path, {"record": "cell", "n": 3})
    assert [r["n"] for r in journal.read(path)] in ([1, 3], [1, 2, 3])


def test_numbers_that_are_not_finite_are_refused_before_anything_is_written(tmp_path):
    path = tmp_path / "journal.jsonl"
    with pytest.raises(ValueError, match="Out of range float"):
        journal.append(path, {"record": "cell", "error": float("nan")})
    assert not path.exists() or not path.read_bytes()


def test_other_schemas_and_no_file_are_nothing(tmp_path):
    path = tmp_path / "journal.jsonl"
    assert list(journal.read(path)) == []
    path.write_text('{"schema": 99, "record": "cell"}\n[1]\n7\n')
    assert list(journal.read(path)) == []


def test_a_whole_file_is_the_old_or_the_new(tmp_path):
    path = tmp_path / "file.json"
    journal.write_atomically(path, "old")
    journal.write_atomically(path, "new")
    assert path.read_text() == "new"
    assert [p.name for p in tmp_path.iterdir()] == ["file.json"]


def test_the_example_has_the_schema():
    records = list(journal.read(EXAMPLE))
    assert len(records) == len(EXAMPLE.read_text().splitlines())
    assert {r["record"] for r in records} == {"sweep", "cell", "done"}
    assert json.dumps(records, allow_nan=False)
