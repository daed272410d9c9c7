"""The page Who wins where: winners and shares are the DataFrame's, predictions hold where the truth is known."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from site_browser import Watched, choose, settled

from benchmarks import axes
from benchmarks.instrument import problems
from dashboard import demo, history
from dashboard.__main__ import main
from dashboard.pages import where
from impls import cost
from impls.zoo import af2

LIMIT = 2_300_000_000
"""Bytes; the memory of the generated machine, so that eager fits some of its sizes alone."""
HOSTILE = "</script><img src=x onerror=\"document.title='broken'\"> \u202e\u05e9\u05dc '" + "y" * 10_000


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("results")
    demo.write(path, demo.COMMITS[:1], modules=["msa_row", "triangle", "template", "depth"], memory_limit=LIMIT)
    return path


@pytest.fixture(scope="module")
def site(results: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    return build(results, tmp_path_factory.mktemp("site"))


def build(results: Path, out: Path) -> str:
    """The address of the page."""
    assert main(["build", "--results", str(results), "--out", str(out), "--no-asv"]) == 0
    return out.as_uri() + "/index.html#page=where"


@pytest.fixture(scope="module")
def cells(results: Path) -> pd.DataFrame:
    found = history.load(results).cells
    return found[(found["dtype"] == "float32") & (found["direction"] == "forward")]


def tiles(page: Any) -> pd.DataFrame:
    """The page's table: a row for each tile."""
    rows = page.locator("[data-page=where] .data-table tr").all_inner_texts()
    heading, *body = [row.split("\t") for row in rows]
    table = pd.DataFrame([[cell.strip() for cell in row] for row in body], columns=[name.strip() for name in heading])
    for axis in ("S", "R", "T", "N_head"):
        table[axis] = pd.to_numeric(table[axis]).astype("Int64")
    return table


def number(text: str) -> float:
    """A number as the page writes it, in its unit: "46.2 ms" is 0.0462."""
    value, unit = re.fullmatch(r"([\d.]+)\s*(\D*)", text).groups()  # type: ignore[union-attr]
    return float(value) * {"p": 1e-12, "n": 1e-9, "µ": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9}.get(unit[:1], 1)


def truth(backend: str, S: int, R: int, N_head: int = 8) -> tuple[float, float]:
    """Seconds and bytes of the made-up backend in forward float32 row attention, before noise."""
    model, scores = demo.BACKENDS[backend], S * N_head * R * R
    bytes_ = scores * model.bytes_per_score + scores / R * 32 * model.bytes_per_output
    return scores * model.per_score + model.start, bytes_


def inputs(S: int, R: int, N_head: int = 8) -> int:
    return problems.Problem("msa_row", "core", "float32", N_head, 32, R, S=S).input_bytes


def of_row(page: Any) -> pd.DataFrame:
    table = tiles(page)
    return table[table["Operation"] == "MSA row attention with pair bias"]


def test_inputs_are_those_that_the_instrument_counts() -> None:
    for (operation, centre), level in itertools.product(axes.CENTRE.items(), ("core", "module")):
        ours, *_ = where.counts(af2(operation, **centre), level)
        if (operation, level) != ("template_pointwise", "module"):  # which the instrument never measures
            assert ours * 4 == problems.Problem(operation, level, "float32", **centre).input_bytes, (operation, level)


def test_numbers_of_a_problem_are_those_of_the_closed_forms() -> None:
    problem = af2("msa_row", S=512, R=384)
    _, scores, forward, training = where.counts(problem, "core")
    assert scores == 512 * 8 * 384**2
    assert (forward, training) == (512 * 8 * 384 * 32, cost.output_bytes(problem.with_(direction="training")) // 4)


def test_measured_tiles_are_the_dataframes(watched: Watched, site: str, cells: pd.DataFrame) -> None:
    table = of_row(watched.open(site))
    measured = table[table["Kind"] == "measured"]
    own = cells[(cells["operation"] == "msa_row") & (cells["N_head"] == 8) & (cells["status"] == "ok")]
    assert len(measured) == len(own[["S", "R"]].drop_duplicates()) == 8
    for tile in measured.to_dict("records"):
        there = own[(own["S"] == tile["S"]) & (own["R"] == tile["R"])].drop_duplicates("backend")
        first = there.set_index("backend").loc[tile["Winner"]]
        assert first["standing"] == "fastest"
        assert number(tile["Time, s"]) == pytest.approx(first["seconds"], rel=5e-3)
        assert set(tile["Level with"].split()) == set(there[there["standing"] == "level"]["backend"])
        if "eager" in set(there["backend"]):
            assert number(tile["Eager’s time over its"].rstrip("×")) == pytest.approx(first["speedup"], rel=5e-3)
        margin = number(tile["Margin, in its uncertainty"])
        assert (margin > 1) == (tile["Level with"] == "")


def test_a_tile_says_what_the_table_says(watched: Watched, site: str) -> None:
    page = watched.open(site)
    table = of_row(page).to_dict("records")
    shown = page.locator(".where-map").first.locator("td.tile").all()
    assert len(shown) == len(table) == 4 * 5
    for tile, row in zip(shown, table, strict=True):
        assert tile.get_attribute("data-kind") == row["Kind"]
        name, *rest = tile.locator("span:not(.visually-hidden)").all_inner_texts()
        assert name == (
            "level: " + ", ".join([row["Winner"], *row["Level with"].split()]) if row["Level with"] else row["Winner"]
        )
        assert ("predicted" in rest) == (row["Kind"] == "predicted")
        assert any(row["Eager’s time over its"] in text for text in rest) or "eager: no room" in rest
        assert f"S {row['S']}, R {row['R']}, N_head 8, {row['Kind']}" in tile.locator(".visually-hidden").inner_text()


def test_predictions_hold_where_the_truth_is_known(watched: Watched, site: str) -> None:
    page = watched.open(site)
    table = of_row(page)
    predicted = table[table["Kind"] == "predicted"]
    assert len(predicted) == 12
    for tile in predicted.to_dict("records"):
        seconds, _ = truth(tile["Winner"], tile["S"], tile["R"])
        assert number(tile["Time, s"]) == pytest.approx(seconds, rel=0.1)
    choose(page, "by", "memory")
    for tile in of_row(page).to_dict("records"):
        _, bytes_ = truth(tile["Winner"], tile["S"], tile["R"])
        assert number(tile["Memory, B"]) == pytest.approx(bytes_, rel=0.02)
        assert tile["Winner"] in (
            "sdpa",
            "flex",
        )  # neither keeps a score; sdpa is level with flex, and neither is starred
        assert tile["Level with"]


def test_the_memory_wall_stands_where_the_truth_puts_it(watched: Watched, site: str) -> None:
    page = watched.open(site)
    for wall in ("eager", "compiled", "sdpa"):
        page.locator("select[name=wall]").select_option(wall)
        settled(page)
        for tile in of_row(page).to_dict("records"):
            need = truth(wall, tile["S"], tile["R"])[1] + inputs(tile["S"], tile["R"])
            assert tile[f"Does {wall} fit?"] == ("no" if need > LIMIT else "yes"), (wall, tile)
    page.locator("select[name=wall]").select_option("eager")
    settled(page)
    lines = page.locator(".where-map").first.locator(".wall-left, .wall-top")
    assert 0 < lines.count() < 20
    assert "eager does not fit in 2.30\u00a0GB" in page.locator("section.operation .verdict").first.inner_text()


def test_within_a_memory_what_needs_more_loses(watched: Watched, site: str) -> None:
    page = watched.open(site + "&by=within&within=16&direction=forward")
    assert page.locator("input[name=within]").count() == 5
    for tile in of_row(page).to_dict("records"):
        _, bytes_ = truth(tile["Winner"], tile["S"], tile["R"])
        assert bytes_ + inputs(tile["S"], tile["R"]) <= 16e9
        need = truth("eager", tile["S"], tile["R"])[1] + inputs(tile["S"], tile["R"])
        assert tile["Does eager fit?"] == ("no" if need > 16e9 else "yes")
    page.locator(".where-map").first.locator("td.tile button").last.focus()
    behind = page.locator(".behind").first
    behind.locator("summary").click()
    assert re.search(r"needs about 2\d\.\d\sGB, inputs included; 16(\.0)?\sGB allowed", behind.inner_text())


def test_a_product_is_exact_for_power_laws_and_unsure_for_others(watched: Watched, site: str) -> None:
    page = watched.open(site)
    centre = {"S": 128, "R": 256, "T": None, "N_head": 8}

    def at(over_R: list[tuple[int, float]], **place: int) -> Any:
        series = {"S": [(64, 64.0), (128, 128.0), (256, 256.0)], "R": over_R, "T": [], "N_head": []}
        points = {axis: [{"size": x, "value": y, "low": y, "high": y} for x, y in own] for axis, own in series.items()}
        return page.evaluate(
            "([series, centre, place]) => productAt(series, centre, place, [12.7, 4.3, 3.2])",
            [points, centre, centre | place],
        )

    squares = [(64, 8.0), (128, 32.0), (256, 128.0)]
    for S, R in ((64, 64), (256, 128), (512, 1024)):
        found = at(squares, S=S, R=R)
        assert found["value"] == pytest.approx(S * (R / 256) ** 2)
        assert found["high"] == pytest.approx(found["low"])
    bent = at([(64, 20.0), (128, 32.0), (256, 128.0)], S=64, R=64)
    assert bent["value"] == pytest.approx(10)
    assert bent["high"] > 2 * bent["low"]
    assert at(squares[1:], S=64, R=128) is None  # two sizes do not tell how far from a law they lie
    assert at(squares, S=64, N_head=4) is None
    assert at([(64, 20.0), (128, 90.0), (256, 95.0)], R=4096) is None  # too unsure to be of use


@pytest.mark.parametrize(("by", "column"), [("time", "seconds"), ("memory", "bytes")])
def test_shares_are_those_of_the_dataframe(
    watched: Watched, site: str, cells: pd.DataFrame, by: str, column: str
) -> None:
    page = watched.open(f"{site}&by={by}")
    timed = cells[cells["level"] != "stack"].drop_duplicates(["point", "backend"])
    values = timed.where(timed["status"] == "ok").assign(point=timed["point"], backend=timed["backend"])
    table = values.pivot(index="point", columns="backend", values=column)
    table = table[table.notna().any(axis=1)]
    eager = table["eager"].copy()
    held = timed[timed["backend"] == "eager"].set_index("point")["predicted_bytes"].reindex(table.index)
    eager = eager.fillna(held if by == "memory" else float("inf"))
    shown = page.locator(".shares table tr").all_inner_texts()
    times = [float(text.strip(" ≥×")) for text in shown[0].split("\t")[1:]]
    assert len(shown) == 7
    for row in shown[1:]:
        name, *shares = (text.strip() for text in row.split("\t"))
        for least, share in zip(times, shares, strict=True):
            expected = (eager / table[name] >= least).sum() / len(table)
            assert share.replace("\u00a0", " ") == f"{100 * expected:.0f} %", (name, least)
    assert f"of the {len(table)} problems measured" in page.locator("[aria-labelledby=where-shares]").inner_text()


def test_every_choice_changes_what_the_page_says_and_stands_in_the_address(watched: Watched, site: str) -> None:
    page = watched.open(site)
    content = page.locator("[data-page=where] .content")
    for name, value in (
        ("by", "memory"),
        ("by", "within"),
        ("within", "24"),
        ("by", "time"),
        ("heads", "h4"),
        ("wall", "sdpa"),
    ):
        before = content.inner_text()
        if name in ("heads", "wall"):
            page.locator(f"select[name={name}]").select_option(value)
            settled(page)
        else:
            choose(page, name, value)
        assert content.inner_text() != before, f"{name}={value} changed nothing"
        assert f"{name}={value}" in page.url
    shown = content.inner_text()
    assert watched.open(page.url).locator("[data-page=where] .content").inner_text() == shown
    table = of_row(page)
    assert set(table["N_head"]) == {4}
    assert list(table[table["Kind"] == "measured"][["S", "R"]].itertuples(index=False, name=None)) == [(128, 256)]
    assert watched.outside(site.partition("index")[0]) == []


def test_keys_walk_over_the_tiles_and_open_the_details(watched: Watched, site: str) -> None:
    page = watched.open(site)
    behind = page.locator(".behind").first
    page.locator("td.tile button[tabindex='0']").first.focus()
    before = behind.inner_text()
    page.keyboard.press("ArrowDown")
    assert behind.inner_text() != before
    behind.locator("button[data-cell]").first.click()
    assert page.locator("#details").is_visible()
    assert "Interval" in page.locator("#details").inner_text()


def test_hostile_text_shows_as_text_and_nothing_sticks_out_of_a_narrow_page(browser: Any, tmp_path: Path) -> None:
    path = demo.write(tmp_path / "r", [demo.Commit("x")], modules=["triangle"], machine='<b>"m" \u202e\' & #?%2F')[0]
    journal = path.read_text().replace("needs CUDA", "<script>document.title='broken'</script>" + "z" * 10_000)
    hostile = '"' + HOSTILE.replace('"', '\\"') + '"'
    path.write_text(
        journal.replace('"chunked"', hostile).replace('"triangle_ending"', '"<img src=x onerror=alert(1)>"')
    )
    watched = Watched(browser, viewport={"width": 360, "height": 740})
    page = watched.open(build(tmp_path / "r", tmp_path / "s"))
    for by in ("time", "memory", "within"):
        choose(page, "by", by)
        page.wait_for_timeout(200)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.title().startswith("AxialBench")
    content = page.locator("[data-page=where] .content")
    assert content.locator("img, script").count() == 0
    assert "</script><img src=x" in content.inner_text()
    page.context.close()
    assert watched.wrong == []


def test_without_the_chart_library_and_without_anything_measured_it_says_so(
    watched: Watched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dashboard.build.chart_library", lambda: "")
    monkeypatch.setattr(demo, "BACKENDS", {"eager": demo.Model(0, 0, 0, unsupported="needs CUDA")})
    demo.write(tmp_path / "r", demo.COMMITS[:1], modules=["triangle"])
    page = watched.open(build(tmp_path / "r", tmp_path / "s"))
    text = page.locator("[data-page=where] .content").inner_text()
    assert "Nobody wins here." in text
    assert "nothing ran" in page.locator("td.tile").first.inner_text()
    assert "nothing to compare with" in text
