"""The page Correctness: its numbers are the record's, what is wrong is called so, and no file that is missing hides."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from site_browser import Watched, choose, settled

from dashboard import demo, history
from dashboard.__main__ import main
from dashboard.pages.correctness import FILES, files
from dashboard.pages.record import Record
from dashboard.texts import Texts

CONFORMANCE = Path(__file__).parents[2] / "results" / "conformance"
HOSTILE = "</script><img src=x onerror=\"document.title='broken'\"> \u202e\u05e9\u05dc '" + "y" * 10_000


def rows(name: str, results: Path = CONFORMANCE.parent) -> list[dict[str, Any]]:
    """The lines of a file of a record: this project's, if no other is named."""
    return [json.loads(line) for line in (results / "conformance" / FILES[name][0]).read_text().splitlines()]


def data_of(results: Path | None, empty: Path) -> dict[str, Any]:
    """What the page would be given; ``empty`` is a folder without cells."""
    found = files(Record(history.load(empty), (), results, Texts()))
    return found["correctness"]  # type: ignore[no-any-return]


def test_the_data_are_the_records_lines(tmp_path: Path) -> None:
    found = data_of(CONFORMANCE.parent, tmp_path)
    for name in FILES:
        assert (found[name]["missing"], found[name]["broken"]) == (False, 0)
        assert len(found[name]["rows"]) == len(rows(name)) > 20
        assert all(
            own.items() <= line.items() for own, line in zip(found[name]["rows"], map(_whole, rows(name)), strict=True)
        )


def _whole(line: dict[str, Any]) -> dict[str, Any]:
    return {"operation": ""} | line


@pytest.mark.parametrize(
    "line",
    [
        b'{"schema": 2, "mutant": "a", "families_by_dtype": {}, "dtypes_by_family": {}}',
        b'{"schema": 1, "mutant": "a", "families_by_dtype": {"float32": NaN}, "dtypes_by_family": {}}',
        b'{"schema": 1, "mutant": 3, "families_by_dtype": {}, "dtypes_by_family": {}}',
        b'{"schema": 1, "mutant": "a", "fam',
        b"\xff\xfe\x00",
    ],
)
def test_a_line_that_is_not_ours_loses_nothing_else(tmp_path: Path, line: bytes) -> None:
    (tmp_path / "conformance").mkdir()
    good = json.dumps(rows("kernels")[0]).encode()
    (tmp_path / "conformance" / "kill_matrix.jsonl").write_bytes(good + b"\n" + line)
    found = data_of(tmp_path, tmp_path)
    assert (len(found["kernels"]["rows"]), found["kernels"]["broken"]) == (1, 1)
    assert found["modules"]["missing"]
    assert all(data_of(None, tmp_path)[name]["missing"] for name in FILES)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """At the newest commit chunked is wrong in places; of this project's own conformance record, all."""
    path = tmp_path_factory.mktemp("results")
    commits = [demo.Commit("generated: right"), demo.Commit("generated: chunked is rough", rougher={"chunked": 4.0})]
    for journal in demo.write(path, commits, modules=["msa_row", "template", "depth"]):
        lines = [json.loads(line) for line in journal.read_text().splitlines()]
        journal.write_text("".join(json.dumps(_as_a_sweep_says(line)) + "\n" for line in lines))
    demo.write(path, commits[:1], machine="other", modules=["msa_row"], dtypes=["float32"], seed=1)
    shutil.copytree(CONFORMANCE, path / "conformance")
    return path


def _as_a_sweep_says(line: dict[str, Any]) -> dict[str, Any]:
    """``line``, called inaccurate if it is; a whole module's if it is of templates; of sdpa_math one is not finite."""
    if line["record"] == "cell" and line["module"] == "template":
        line["problem"]["level"] = "module"
    if (line.get("error") or 0) > 1 and line["problem"]["level"] == "core":
        line |= {"status": "inaccurate", "reason": "beyond its budget"}
    if line.get("params", {}).get("backend") == "sdpa_math" and line["direction"] == "training" and line["seconds"]:
        line["errors"]["dq"]["error"] = None
        line |= {"status": "inaccurate", "reason": "not finite", "error": None}
    return line


@pytest.fixture(scope="module")
def site(results: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    out = tmp_path_factory.mktemp("site")
    assert main(["build", "--results", str(results), "--out", str(out), "--no-asv"]) == 0
    return (out / "index.html").as_uri()


@pytest.fixture(scope="module")
def cells(results: Path) -> pd.DataFrame:
    """The newest commit of the first machine."""
    cells = history.load(results).cells
    own = cells[cells["machine"] == "generated"]
    return own[own["commit"] == own["commit"].iloc[-1]]


PLACE = f"#page=correctness&place=generated/{demo.ENV}/2&dtype=float32&direction=forward"


def words(page: Any) -> str:
    return str(page.locator("[data-page=correctness]").inner_text())


def part(page: Any, name: str) -> str:
    return str(page.locator(f"#correctness-{name}").inner_text())


def test_its_errors_are_the_records(watched: Watched, site: str, cells: pd.DataFrame) -> None:
    page = watched.open(site + PLACE)
    own = cells[
        (cells["level"] == "core") & (cells["dtype"] == "float32") & (cells["direction"] == "forward")
        & (cells["operation"] == "msa_row") & cells["error"].notna()
    ]  # fmt: skip
    table = page.locator("#correctness-errors table")
    for backend, worst in own.groupby("backend")["error"].max().items():
        cell = table.locator("tbody tr", has=page.get_by_text(str(backend), exact=True)).locator("td").first
        text = f"{worst:.3g}"
        expected = f"✗ {text}×" if worst > 1 else f"{worst * 100:.0f}\u00a0%"
        assert cell.locator(".first").inner_text() == expected
        assert (cell.get_attribute("class") == "beyond") == (worst > 1)
    assert "✗" in table.inner_text()
    assert "needs CUDA" in table.inner_text()


def test_it_counts_what_is_wrong_and_each_measurement_once(watched: Watched, site: str, cells: pd.DataFrame) -> None:
    page = watched.open(site + PLACE)
    once = cells[(cells["level"] != "stack") & (cells["n"] > 0)].drop_duplicates(["point", "backend"])
    wrong = once[~(once["error"] <= 1)]
    assert 0 < len(wrong) < len(once) < len(cells[cells["n"] > 0])
    assert f"{len(wrong)}\u00a0answers of {len(once)} are wrong." in page.locator(".verdict strong").inner_text()
    assert "not finite" in page.locator(".verdict").inner_text()


def test_what_is_not_finite_is_wrong_in_its_tensor_alone(watched: Watched, site: str) -> None:
    page = watched.open(site + PLACE.replace("forward", "training"))
    row = page.locator("#correctness-errors tbody tr", has=page.get_by_text("sdpa_math", exact=True))
    assert "✗ not finite" in row.inner_text()
    choose(page, "tensor", "dv")
    assert "✗" not in row.inner_text()
    choose(page, "tensor", "dq")
    assert "✗ not finite" in row.inner_text()


def test_every_choice_changes_what_it_says_and_is_restored(watched: Watched, site: str) -> None:
    page = watched.open(site + PLACE)
    for name, value in (
        ("direction", "training"), ("tensor", "dk"), ("dtype", "bfloat16"), ("level", "module"), ("kills", "modules"),
    ):  # fmt: skip
        before = words(page)
        choose(page, name, value)
        assert words(page) != before, f"{name}={value} changed nothing"
        assert f"{name}={value}" in page.url
    for name in ("backend", "commit", "place"):
        before = words(page)
        page.locator(f"select[name={name}]").select_option(index=1)
        settled(page)
        assert words(page) != before, f"{name} changed nothing"
    page.locator("#correctness-kills input").fill("msa_row")
    page.locator("#correctness-kills th button").nth(5).click()
    said, address = words(page), page.url
    assert "filter=msa_row" in address
    assert words(watched.open(address)) == said


def test_the_card_of_a_cell_has_every_tensor(watched: Watched, site: str) -> None:
    page = watched.open(site + PLACE.replace("forward", "training"))
    page.locator("#correctness-errors td.share button").first.click()
    card = page.locator("#details").inner_text()
    assert all(f"{name}\n" in card for name in ("dq", "dk", "dv", "dbias"))
    assert "asv run" in card


def test_the_kill_matrix_is_the_record(watched: Watched, site: str, results: Path) -> None:
    page = watched.open(site + PLACE + "&sort=mutant")
    fewest = {row["mutant"]: min(row["families_by_dtype"].values()) for row in rows("kernels", results)}
    said = page.locator(".verdict").inner_text()
    assert f"{len(fewest)} wrong kernels, each rejected by at least {min(fewest.values())}\u00a0famil" in said
    table = page.locator("#correctness-kills table")
    names = [text.replace("\n", "") for text in table.locator("tbody th").all_inner_texts()]
    assert sorted(names) == sorted(fewest)
    shown = table.locator("tbody td:nth-child(2)").all_inner_texts()
    assert [int(text.split()[0]) for text in shown] == [fewest[name] for name in names]
    family = table.locator("thead th").nth(3).inner_text()
    ours = {row["mutant"]: row["dtypes_by_family"].get(family, 0) for row in rows("kernels", results)}
    column = table.locator("tbody td:nth-child(4)").all_inner_texts()
    assert [0 if text == "·" else int(text) for text in column] == [ours[name] for name in names]
    tried = sum(row["tried"] for row in rows("right", results))
    assert f"It rejected {sum(row['rejected'] for row in rows('right'))} of {tried:,} answers" in said


def test_the_contracts_are_the_record(watched: Watched, site: str, results: Path) -> None:
    page = watched.open(site + PLACE)
    asked = [row for row in rows("contracts", results) if row["question"]]
    page.locator("#correctness-contracts a", has_text="flex").click()
    settled(page)
    assert "backend=flex" in page.url
    own = [row for row in asked if row["backend"] == "flex"]
    found = page.locator("#correctness-contracts .answers tbody tr").locator("td:nth-child(3)").all_inner_texts()
    assert found == [row["found"] for row in own]
    untried = sum(row["ok"] is None for row in asked)
    assert page.locator("#correctness-contracts .contracts td", has_text="–").count() == untried > 0
    assert "not run: it needs CUDA" in part(page, "contracts")


def test_the_drift_is_drawn_and_told(watched: Watched, site: str, cells: pd.DataFrame) -> None:
    pytest.importorskip("vl_convert", reason="vl-convert-python is not installed")
    page = watched.open(site + PLACE)
    deepest = cells[
        (cells["level"] == "stack") & (cells["dtype"] == "float32") & (cells["direction"] == "forward")
        & (cells["blocks"] == 48)
    ]  # fmt: skip
    worst = deepest["error"].max()
    assert f"After 48 stacked blocks rounding has carried {deepest.set_index('backend')['error'].idxmax()}" in words(
        page
    )
    assert f"{worst:.3g}"[:4] in page.locator(".verdict").inner_text()
    page.locator("#correctness-drift svg.marks").wait_for()
    assert page.locator("#correctness-drift .mark-symbol.role-mark path").count() == 2 * len(
        deepest.dropna(subset="error")
    )
    assert watched.outside(site.rpartition("/")[0]) == []


def test_a_contradiction_an_escape_and_a_false_rejection_are_called_so(watched: Watched, tmp_path: Path) -> None:
    demo.write(tmp_path / "r", demo.COMMITS[:1], modules=["template"])
    folder = tmp_path / "r" / "conformance"
    folder.mkdir()
    answer = {"schema": 1, "backend": HOSTILE, "device": "cpu", "torch": "2", "declared": HOSTILE, "found": HOSTILE}
    escaped = {"schema": 1, "mutant": HOSTILE, "families_by_dtype": {"float32": 0}, "dtypes_by_family": {"<b>": 1}}
    right = {
        "schema": 1,
        "kernel": HOSTILE,
        "dtype": "<i>",
        "tried": 9,
        "rejected": 2,
        "not_judged": 0,
        "largest_ratio": 3.5,
    }
    for name, lines in {
        "contracts.jsonl": [answer | {"question": HOSTILE, "ok": False}, answer | {"question": None, "ok": None}],
        "kill_matrix.jsonl": [escaped],
        "false_rejections.jsonl": [right],
    }.items():
        (folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"schema": 1, "tor')
    assert main(["build", "--results", str(tmp_path / "r"), "--out", str(tmp_path / "s"), "--no-asv"]) == 0
    watched.page.set_viewport_size({"width": 360, "height": 740})
    page = watched.open((tmp_path / "s" / "index.html").as_uri() + "#page=correctness")
    said = page.locator(".verdict").inner_text()
    assert "1\u00a0answer contradicts what is declared" in said
    assert "1 of them accepted in some dtype" in said
    assert "It rejected 2 of 9 answers" in said
    assert page.locator("[data-page=correctness] img, [data-page=correctness] i:not([class])").count() == 0
    assert page.title().startswith("AxialBench")
    assert "✗ none" in part(page, "kills")
    assert "✗ 2 of 9" in part(page, "right")
    for name, command in (("kills", "python tests/kill_matrix.py kill_matrix.jsonl"), ("contracts", "make contracts")):
        assert "1 line could not be read" in part(page, name)
        assert command in part(page, name)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    choose(page, "kills", "modules")
    assert "There is no results/conformance/module_kill_matrix.jsonl" in part(page, "kills")
    assert "No stack of blocks was computed" in part(page, "drift")


@pytest.mark.parametrize("width", [360, 2200])
def test_nothing_sticks_out(browser: Any, site: str, width: int) -> None:
    found = Watched(browser, viewport={"width": width, "height": 900})
    page = found.open(site + PLACE)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    choose(page, "kills", "modules")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.context.close()
    assert found.wrong == []
