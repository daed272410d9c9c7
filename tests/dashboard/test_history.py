"""Journals and asv's files as one table: right numbers, and nothing lost to what cannot be read."""

from __future__ import annotations

import json
import math
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from dashboard import demo, history

EXAMPLE = Path(__file__).parents[1] / "data" / "journal" / "example.jsonl"
Record = dict[str, Any]


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """The example of ``results/README.md`` where it would lie."""
    path = tmp_path / "example" / "journal" / "16ff6449-virtualenv-py3.11-torch2.13.0.jsonl"
    path.parent.mkdir(parents=True)
    shutil.copy(EXAMPLE, path)
    return path


def change(journal: Path, changed: Callable[[Record], Record | None]) -> None:
    """Rewrite every record; None leaves it out."""
    records = [changed(json.loads(line)) for line in journal.read_text().splitlines()]
    journal.write_text("".join(json.dumps(record) + "\n" for record in records if record is not None))


def again(journal: Path, **changes: Any) -> None:
    """Append the first cell of the journal once more, with changes."""
    cell = next(json.loads(line) for line in journal.read_text().splitlines() if '"cell"' in line)
    with journal.open("a") as file:
        file.write(json.dumps(cell | changes) + "\n")


def of(cells: pd.DataFrame, backend: str, direction: str = "forward") -> pd.Series:
    (index,) = cells.index[(cells["backend"] == backend) & (cells["direction"] == direction)]
    return cells.loc[index]


def test_the_example_of_the_readme(journal: Path) -> None:
    read = history.load(journal.parents[2])
    assert read.findings == ()
    assert len(read.cells) == 4
    eager, sdpa, flash = (of(read.cells, name) for name in ("eager", "sdpa", "flash_attn"))
    assert eager["seconds"] == 0.3
    assert (sdpa["n"], sdpa["rounds"], sdpa["samples"][3]) == (8, 4, 0.12)
    assert sdpa["seconds"] == statistics.median(sdpa["samples"])
    assert sdpa["seconds_low"] <= sdpa["seconds_q25"] <= sdpa["seconds"] <= sdpa["seconds_q75"] <= sdpa["seconds_high"]
    assert sdpa["speedup"] == pytest.approx(3.0)
    assert sdpa["speedup_low"] == eager["seconds_low"] / sdpa["seconds_high"] < 3.0
    assert sdpa["speedup_high"] == eager["seconds_high"] / sdpa["seconds_low"] > 3.0
    assert (sdpa["standing"], eager["standing"]) == ("fastest", "")
    assert (sdpa["bytes"], sdpa["error"], sdpa["S"], sdpa["R"], sdpa["size"]) == (67108864, 0.3, 128, 256, "R=256")
    assert (flash["status"], flash["reason"], flash["n"]) == ("unsupported", "needs CUDA", 0)
    assert pd.isna(flash["seconds"])
    big = of(read.cells, "eager", "training")
    assert (big["status"], big["predicted_bytes"]) == ("too_big", 251e9)
    assert read.sweeps.loc[0, "torch"] == "2.13.0+cpu"


def test_columns_and_dtypes_are_those_documented(journal: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for results in (journal.parents[2], tmp_path / "empty"):
        cells = history.load(results).cells
        assert {name: str(dtype) for name, dtype in cells.dtypes.items()} == {
            name: dtype for name, (dtype, _) in history.COLUMNS.items()
        }


def test_no_folder_is_an_error_with_a_way_out(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="make bench"):
        history.load(tmp_path / "nothing")


def test_a_torn_last_line_loses_nothing_else(journal: Path) -> None:
    with journal.open("a") as file:
        file.write('{"schema": 1, "record": "cell", "sweep": "2026')
    read = history.load(journal.parents[2])
    assert len(read.cells) == 4
    (finding,) = read.findings
    assert str(journal) in str(finding)
    assert "torn" in str(finding)
    assert "line 7" in str(finding)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("<html>not ours</html>", "not JSON"),
        ("[1, 2]", "not JSON"),
        ('{"schema": 2, "record": "cell"}', "schema 2"),
        ('{"record": "cell"}', "schema None"),
        ('{"schema": 1, "record": "cell", "sweep": "20260110T120000Z-msa_row"}', "lacks 'params'"),
        ('{"schema": 1, "record": "sweep"}', "lacks 'sweep'"),
        ('{"schema": 1, "record": "cell", "sweep": "x", "params": 3, "problem": [], "seconds": null}', "schema"),
        ('{"schema": 1, "sweep": "x"}', "lacks 'record'"),
    ],
)
def test_a_line_that_is_not_ours_loses_nothing_else(journal: Path, line: str, said: str) -> None:
    text = journal.read_text()
    journal.write_text(f"{line}\n{text}")
    read = history.load(journal.parents[2])
    assert len(read.cells) == 4
    assert any(said in str(finding) and "line 1" in str(finding) for finding in read.findings)
    assert all(finding.way_out for finding in read.findings)


def test_records_of_kinds_to_come_are_left_alone(journal: Path) -> None:
    with journal.open("a") as file:
        file.write('{"schema": 1, "record": "weather", "sky": "blue"}\n')
    assert history.load(journal.parents[2]).findings == ()


def test_binary_rubbish_is_a_finding(journal: Path) -> None:
    beside = journal.with_name("0badf00d-env.jsonl")
    beside.write_bytes(b"\x00\xff\xfe\n\x80")
    read = history.load(journal.parents[2])
    assert len(read.cells) == 4
    assert any(finding.path == beside for finding in read.findings)


def test_what_is_no_journal_is_named(journal: Path) -> None:
    journal.with_name("notes.txt").write_text("hello")
    assert "notes.txt" in str(history.load(journal.parents[2]).findings[0])


def test_nan_and_infinity_are_unknown_and_break_nothing(journal: Path) -> None:
    text = journal.read_text().replace('"error": 0.3', '"error": NaN').replace('"bytes": 67108864', '"bytes": Infinity')
    journal.write_text(text.replace("[0.1, 0.11", "[NaN, 0.11"))
    sdpa = of(history.load(journal.parents[2]).cells, "sdpa")
    assert pd.isna(sdpa["error"])
    assert pd.isna(sdpa["bytes"])
    assert sdpa["n"] == 7


def test_of_a_cell_measured_twice_the_latest_counts(journal: Path) -> None:
    again(journal, time="2026-01-10T13:00:00+00:00", seconds={"samples": [0.5] * 8, "rounds": [0] * 8})
    cells = history.load(journal.parents[2]).cells
    assert len(cells) == 4
    assert of(cells, "eager")["seconds"] == 0.5
    again(journal, time="2026-01-10T11:00:00+00:00", seconds={"samples": [0.9] * 8, "rounds": [0] * 8})
    assert of(history.load(journal.parents[2]).cells, "eager")["seconds"] == 0.5


def test_a_long_generated_history_has_every_commit(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "dashboard.demo", str(tmp_path), "--commits", "12", "--module", "depth"]
    subprocess.run(command, cwd=Path(__file__).parents[2], check=True)
    cells = history.load(tmp_path).cells
    sizes = cells.groupby(["env", "commit"], sort=False).size().tolist()
    assert sizes == [len(cells) // 13] * 13  # the newest commit with the next torch as well
    assert cells["commit_date"].is_monotonic_increasing


def test_not_run_replaces_no_result(journal: Path) -> None:
    again(journal, time="2026-01-10T13:00:00+00:00", status="not_run", reason="quick effort", seconds=None)
    assert of(history.load(journal.parents[2]).cells, "eager")["status"] == "ok"


def test_dirty_measurements_stand_apart(journal: Path) -> None:
    beside = journal.with_name("16ff6449-other.jsonl")
    shutil.copy(journal, beside)
    change(beside, lambda record: record | ({"dirty": {"impls": True}} if record["record"] == "sweep" else {}))
    cells = history.load(journal.parents[2]).cells
    assert len(cells) == 8
    assert cells.groupby("dirty")["speedup"].max().to_dict() == pytest.approx({False: 3.0, True: 3.0})


def test_environments_are_series_apart_that_can_be_put_side_by_side(tmp_path: Path) -> None:
    """The same commits under two versions of torch: no cell replaces another's, none is compared across."""
    older, newer = (f"virtualenv-py3.11-torch{version}" for version in ("2.13.0", "2.14.1"))
    demo.write(tmp_path, demo.COMMITS[:2], modules=["template"], env=older)
    alone = history.load(tmp_path).cells
    demo.write(tmp_path, demo.COMMITS[:2], modules=["template"], env=newer)
    for path in (tmp_path / "generated" / "journal").glob(f"*{newer}.jsonl"):
        faster = [json.loads(line) for line in path.read_text().splitlines()]
        for record in faster:
            if record.get("seconds"):
                record["seconds"]["samples"] = [x / 10 for x in record["seconds"]["samples"]]
        path.write_text("".join(json.dumps(record) + "\n" for record in faster))
    read = history.load(tmp_path)
    assert set(read.sweeps["torch"]) == {"2.13.0+cpu", "2.14.1+cpu"}
    of_older = read.cells[read.cells["env"] == older].reset_index(drop=True)
    pd.testing.assert_frame_equal(of_older, alone)
    side_by_side = read.cells[read.cells["status"] == "ok"].pivot_table(
        "seconds", ["module", "series", "params", "direction"], "env", aggfunc="median"
    )
    assert (side_by_side[newer] / side_by_side[older]).median() == pytest.approx(0.1)


def test_a_line_of_other_types_says_the_same(tmp_path: Path) -> None:
    """What one strict reader takes, and what the lenient one takes word by word, are the same table."""
    demo.write(tmp_path, demo.COMMITS[:1], modules=["template", "depth"])
    (journal,) = (tmp_path / "generated" / "journal").iterdir()
    strict = history.load(tmp_path).cells
    change(journal, lambda record: record | {"compile_seconds": record.get("compile_seconds") or math.nan})
    lenient = history.load(tmp_path)
    assert "NaN" in journal.read_text()
    assert lenient.findings == ()
    pd.testing.assert_frame_equal(lenient.cells, strict)


def test_cells_without_their_sweep_are_kept_under_the_files_name(journal: Path) -> None:
    change(journal, lambda record: None if record["record"] == "sweep" else record)
    read = history.load(journal.parents[2])
    assert set(read.cells["commit"]) == {"16ff6449"}
    assert len(read.cells) == 4
    assert read.findings


def test_wrong_results_have_no_speed_up(journal: Path) -> None:
    change(journal, lambda record: record | ({"status": "inaccurate"} if "sdpa" in str(record.get("cell")) else {}))
    sdpa = of(history.load(journal.parents[2]).cells, "sdpa")
    assert pd.isna(sdpa["speedup"])
    assert sdpa["standing"] == ""


def test_a_backend_whose_interval_reaches_the_fastest_is_level(tmp_path: Path) -> None:
    demo.write(tmp_path, demo.COMMITS[:1], modules=["msa_row"])
    cells = history.load(tmp_path).cells
    timed = cells[cells["status"] == "ok"]
    for _, group in timed.groupby([*history.COMPARABLE]):
        fastest = group.loc[group["seconds"].idxmin()]
        assert fastest["standing"] == "fastest"
        for _, row in group.iterrows():
            if row["backend"] != fastest["backend"]:
                assert (row["standing"] == "level") == (row["seconds_low"] <= fastest["seconds_high"])


def test_frame_warns_of_what_it_could_not_read(journal: Path) -> None:
    journal.write_text("rubbish\n" + journal.read_text())
    with pytest.warns(history.HistoryWarning, match="not JSON"):
        assert len(history.frame(journal.parents[2])) == 4


def test_asvs_files_stand_in_for_a_missing_journal(asv_project: Any) -> None:
    read = history.load(asv_project.results)
    assert read.findings == ()
    first = read.cells[read.cells["commit"] == asv_project.commits[0]].set_index(["backend", "size"])
    assert set(first["source"]) == {"asv"}
    sdpa = first.loc[("sdpa", "R=256")]
    assert (sdpa["seconds"], sdpa["n"], sdpa["bytes"], sdpa["operation"]) == (0.1, 8, 60, "msa_row")
    assert sdpa["speedup"] == pytest.approx(3.0)
    assert first.loc[("flash_attn", "R=256"), "status"] == "skipped"
    assert first.loc[("eager", "R=512"), "status"] == "failed"
    assert "asv keeps no reason" in first.loc[("flash_attn", "R=256"), "reason"]


def test_a_journal_wins_over_asvs_file(asv_project: Any, tmp_path: Path) -> None:
    results = tmp_path / "results"
    shutil.copytree(asv_project.results, results)
    commit = asv_project.commits[0]
    path = results / "reference" / "journal" / f"{commit[:8]}-existing-py.jsonl"
    path.parent.mkdir()
    shutil.copy(EXAMPLE, path)
    change(
        path,
        lambda record: record | ({"commit": commit, "env_name": "existing-py"} if record["record"] == "sweep" else {}),
    )
    cells = history.load(results).cells
    own = cells[(cells["commit"] == commit) & (cells["size"] == "R=256")].set_index("backend")
    assert own.loc["sdpa", "source"] == "journal"
    assert own.loc["flash_attn", "reason"] == "needs CUDA"
    assert len(own) == 3


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"version": 2}', '{"version": 1}', '{"version": 2, "results": {"a": null}}']
)
def test_a_broken_results_file_of_asv_is_named(asv_project: Any, tmp_path: Path, text: str) -> None:
    results = tmp_path / "results"
    shutil.copytree(asv_project.results, results)
    (results / "reference" / "0badf00d-env.json").write_text(text)
    read = history.load(results)
    assert len(read.cells) == 18
    (finding,) = read.findings
    assert "0badf00d-env.json" in str(finding)
    assert "rebuild" in finding.way_out


def test_a_broken_list_of_benchmarks_is_named(asv_project: Any, tmp_path: Path) -> None:
    results = tmp_path / "results"
    shutil.copytree(asv_project.results, results)
    (results / "benchmarks.json").write_text("{")
    read = history.load(results)
    assert read.cells.empty
    assert "benchmarks.json" in str(read.findings[0])


def test_a_compiled_graph_is_the_same_kernel_whatever_its_hash(journal: Path) -> None:
    hashed = ["## Call CompiledFxGraph f6l3ktbxbln75rh67lrrbgg22e6ikg5j2 ##", "aten::mul"]
    change(journal, lambda record: record | {"kernels": hashed} if record["record"] == "cell" else record)
    kernels = history.load(journal.parents[2]).cells["kernels"]
    assert all(names == ["CompiledFxGraph", "aten::mul"] for names in kernels)
