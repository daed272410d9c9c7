"""Between asv and the sweep: what the plugin tells, whose the numbers are, asv's files made again from journals."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from asv.results import Results
from misbehaving import cell, origin

from benchmarks.instrument import journal, plugin
from benchmarks.instrument.findings import Finding
from benchmarks.instrument.origin import Origin, dirty, instrument, warnings
from benchmarks.instrument.rebuild import rebuild, value
from benchmarks.suite import series_of

ROOT = Path(__file__).resolve().parents[2]


def test_the_plugin_tells_what_asv_keeps_to_itself():
    environ = {}
    plugin.tell(
        ["run", "NEW", "--machine", "big-iron", "-b", "msa_row.*sdpa", "--bench=block", "--quick", "-e"], environ
    )
    assert environ == {
        "AXIALBENCH_MACHINE": "big-iron", "AXIALBENCH_BENCH": "msa_row.*sdpa\nblock", "AXIALBENCH_EFFORT": "quick",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["lab/gpu", "..", "", "a b"])
def test_a_machine_that_no_folder_can_be_called_after_is_refused(name, capsys):
    with pytest.raises(SystemExit):
        plugin.tell(["run", "--machine", name], {})
    assert f"{name!r} names no folder" in capsys.readouterr().err


def test_without_a_name_the_machine_is_local_and_a_dry_run_leaves_the_record_alone():
    environ = {"AXIALBENCH_EFFORT": "full"}
    plugin.tell(["run", "-q", "-n"], environ)
    assert environ["AXIALBENCH_MACHINE"] == "local"
    assert environ["AXIALBENCH_EFFORT"] == "full"
    assert not Path(environ["AXIALBENCH_RESULTS"]).is_relative_to(ROOT)


def test_what_a_dry_run_measured_is_gone_when_asv_ends():
    code = """
import os
from pathlib import Path
from benchmarks.instrument import plugin
plugin.tell(["run", "--dry-run"], os.environ)
folder = Path(os.environ["AXIALBENCH_RESULTS"])
(folder / "local").mkdir()
print(folder)
"""
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    folder = Path(ended.stdout.strip())
    assert folder.name.startswith("axialbench-dry-run-")
    assert not folder.exists()


def test_the_origin_is_what_asv_says(tmp_path):
    environ = {
        "ASV_CONF_DIR": str(ROOT), "ASV_COMMIT": "abcdef01" * 5, "ASV_ENV_NAME": "virtualenv-py3.11",
        "ASV_ENV_DIR": str(tmp_path), "AXIALBENCH_MACHINE": "big-iron",
    }  # fmt: skip
    (tmp_path / "asv-env-info.json").write_text('{"requirements": {"torch": "2.13.0"}}')
    found = Origin.from_environment(environ)
    assert found.journal == ROOT / "results/big-iron/journal/abcdef01-virtualenv-py3.11.jsonl"
    assert found.requirements == {"torch": "2.13.0"}
    assert found.env_dir == tmp_path


def test_nothing_is_installed_in_an_existing_environment():
    assert Origin.from_environment({"ASV_ENV_DIR": "/somewhere", "AXIALBENCH_COMMIT": "12345678"}).env_dir is None


@pytest.fixture
def repository(tmp_path):
    for room in ("impls", "benchmarks"):
        (tmp_path / room).mkdir()
        (tmp_path / room / "a.py").write_text("1\n")
    for command in (["init", "-q"], ["add", "."], ["-c", "user.name=x", "-c", "user.email=x@y", "commit", "-qm", "x"]):
        subprocess.run(["git", "-C", str(tmp_path), *command], check=True)
    return tmp_path


def test_uncommitted_changes_are_told(repository):
    assert dirty(repository) == {"impls": False, "benchmarks": False}
    assert warnings(dirty(repository)) == []
    (repository / "impls" / "a.py").write_text("2\n")
    (warning,) = warnings(dirty(repository))
    assert "YOUR EDITS ARE NOT MEASURED" in warning
    (repository / "benchmarks" / "new.py").write_text("3\n")
    assert "BELONG TO NO COMMIT" in warnings(dirty(repository))[1]


def test_the_instrument_has_a_hash():
    assert instrument() == instrument()
    assert len(instrument()) == 12


STATUSES = {
    "eager": "ok",
    "sdpa": "inaccurate",
    "compiled": "crashed",
    "flex": "unsupported",
}


@pytest.fixture
def recorded(tmp_path):
    """A folder of results with a journal and what asv needs beside it, but no file of asv's."""
    source = origin(tmp_path)
    journal.append(source.journal, {
        "record": "sweep", "sweep": "s", "module": "msa_row", "commit": source.commit, "python": "3.11.7",
        "commit_date": source.commit_date, "machine": source.machine, "env_name": source.env_name,
        "requirements": source.requirements,
    })  # fmt: skip
    for backend, status in STATUSES.items():
        finding = Finding([cell(backend)], status=status, reason="why")
        finding.samples, finding.rounds, finding.processes = [0.3, 0.1, 0.2], [0, 1, 2], [0, 0, 1]
        finding.bytes, finding.error = 1000, 0.25
        finding.cells[0].params["R"] = 64
        journal.append(source.journal, *finding.records("s", "cpu"))
    series = next(s for s in series_of("msa_row") if type(s).__name__ == "OverR")
    benchmarks = {"version": 2}
    for quantity, unit in (("seconds", "seconds"), ("bytes", "bytes"), ("error", "x budget")):
        name = f"msa_row.OverR.{quantity}_forward"
        benchmarks[name] = {
            "name": name, "version": "1", "unit": unit, "type": quantity, "param_names": series.param_names,
            "params": [[repr(value) for value in values] for values in series.params],
        }  # fmt: skip
    (tmp_path / "benchmarks.json").write_text(json.dumps(benchmarks))
    machine = {"machine": "bench-1", "cpu": "a cpu", "version": 1}
    (tmp_path / "bench-1" / "machine.json").write_text(json.dumps(machine))
    return tmp_path, source, benchmarks


def test_asvs_file_is_made_again_from_the_journal(recorded):
    results, source, benchmarks = recorded
    assert list(rebuild(results)) == [source.asv_file]
    saved = Results.load(str(source.asv_file))
    assert saved.commit_hash == source.commit
    assert saved.params["machine"] == "bench-1"
    assert saved.params["torch"] == "2.13.0"

    def values(quantity):
        name = f"msa_row.OverR.{quantity}_forward"
        params = benchmarks[name]["params"]
        found = saved.get_result_value(name, params)[: len(params[2])]
        return dict(zip((p.strip("'") for p in params[2]), found, strict=True))

    assert values("seconds")["eager"] == pytest.approx(0.2)
    assert values("bytes")["eager"] == 1000
    assert values("error")["sdpa"] == 0.25
    assert math.isnan(values("seconds")["sdpa"])
    assert values("seconds")["compiled"] is None
    assert math.isnan(values("seconds")["flex"])
    assert math.isnan(values("seconds")["xformers"])
    name = "msa_row.OverR.seconds_forward"
    assert saved.get_result_samples(name, benchmarks[name]["params"])[0] == [0.3, 0.1, 0.2]


def test_drift_is_the_error_of_a_stack():
    assert value({"status": "inaccurate", "error": 2.5}, "error_depth") == 2.5
    assert math.isnan(value({"status": "not_run"}, "error_depth"))


def test_what_asv_has_saved_is_not_taken_up_again(recorded):
    results, source, _ = recorded
    assert source.saved_by_asv("msa_row") == datetime.fromtimestamp(0, UTC)
    list(rebuild(results))
    last = max(datetime.fromisoformat(r["time"]) for r in journal.read(source.journal) if r["record"] == "cell")
    assert source.saved_by_asv("msa_row") >= last
    assert source.saved_by_asv("msa") == datetime.fromtimestamp(0, UTC)
