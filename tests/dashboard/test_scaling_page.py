"""The scaling page: its laws are those of Python and theory, its numbers the record's; words follow every choice."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from site_browser import Watched, choose, settled

from dashboard import demo, history, scaling
from dashboard.__main__ import main
from dashboard.build import chart_library
from dashboard.pages import scaling as page_data
from impls import cost
from impls.problem import Problem

MEMORIES = [16, 24, 40, 80, 141]
SCATTERED = {64: 1.1, 128: 0.9, 256: 1.1, 192: 0.95}


def test_the_story_is_told_in_closed_forms() -> None:
    at = {(point["backend"], point["size"]): point["value"] for point in page_data.story()}
    assert at["column attention", 5120] == 2 * 251_658_240_000
    assert at["global attention", 5120] == 2 * 49_152_000


def test_a_curve_is_what_impls_costs_say(cells: pd.DataFrame) -> None:
    curves = page_data.curves(cells)
    (own,) = (
        curve for curve in curves
        if (curve["operation"], curve["axis"], curve["dtype"], curve["direction"])
        == ("msa_column", "S", "bfloat16", "training")
    )  # fmt: skip
    assert own["sizes"] == [128, 512, 1024, 2048, 5120]
    problem = Problem(operation="msa_column", S=5120, R=256, N_head=8, c=32, dtype="bfloat16", direction="training")
    assert own["scores"][-1] == cost.score_bytes(problem) == 256 * 8 * 5120**2 * 2
    assert own["flops"][-1] == cost.core_flops(problem)
    assert own["moved"][-1] == cost.least_bytes_moved(problem)
    assert own["output"][-1] == cost.output_bytes(problem)


def test_what_is_no_attention_has_no_curve(cells: pd.DataFrame) -> None:
    assert {curve["operation"] for curve in page_data.curves(cells)} == {"msa_row", "msa_column"}
    odd = cells.assign(operation="<b>attention</b>")
    assert page_data.curves(odd) == []
    unknown = cells.assign(B=math.nan)
    assert page_data.curves(unknown) == []


def test_the_roof_is_the_best_of_a_commits_anchors() -> None:
    common = {"machine": "m", "env": "e", "threads": 2, "commit": "c" * 40, "dirty": False}
    anchors = [{"matmul": 2e-3, "copy": 4e-3}, {"matmul": 1e-3}, {"matmul": "odd", "copy": 0}, {"copy": -1.0}, None]
    sweeps = pd.DataFrame([common | {"anchors": found} for found in anchors])
    assert page_data.roofs(sweeps) == {"m/e/2": {"c" * 8: {"flops": 2.684355e11, "bytes": 3.355443e10}}}
    assert page_data.roofs(sweeps.assign(threads=None, dirty=True, anchors=[{"copy": 1.0}] * 5)) == {
        "m/e/?": {"c" * 8 + "+": {"bytes": 134217700.0}}
    }
    assert page_data.roofs(sweeps.assign(anchors=None)) == {}


def test_eager_holds_two_score_tensors_as_the_story_says() -> None:
    """The record of this project: column attention, forward, less one output."""
    cells = history.load(Path(__file__).parents[2] / "results").cells
    eager = cells[
        (cells["operation"] == "msa_column") & (cells["level"] == "core") & (cells["backend"] == "eager")
        & (cells["direction"] == "forward") & (cells["bytes"] > 0)
    ]  # fmt: skip
    assert len(eager) > 2
    for row in eager.to_dict("records"):
        sizes = {name: int(row[name]) for name in ("S", "R", "N_head", "c")}
        problem = Problem(operation="msa_column", dtype=row["dtype"], **sizes)
        beyond = row["bytes"] - 2 * cost.score_bytes(problem)
        assert 0 < beyond < 2.1 * cost.output_bytes(problem)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two machines: one with both anchors, whose chunked starts late and overtakes; one with none."""
    path = tmp_path_factory.mktemp("results")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(demo.BACKENDS, "chunked", demo.Model(1.43e-9, 30e-3, 0.4))
        for journal in demo.write(path, demo.COMMITS[:2], modules=["msa_row", "msa_column"], noise=0.005):
            _anchor(journal, {"matmul": 2e-3, "copy": 4e-3})
        for journal in demo.write(path, demo.COMMITS[:1], machine="other", modules=["template"], seed=1):
            _anchor(journal, None)
    return path


def _anchor(journal: Path, anchors: dict[str, float] | None) -> None:
    records = [json.loads(line) for line in journal.read_text().splitlines()]
    for record in records:
        if record["record"] == "sweep":
            record["anchors"] = anchors
    journal.write_text("".join(json.dumps(record) + "\n" for record in records))


@pytest.fixture(scope="module")
def cells(results: Path) -> pd.DataFrame:
    """The newest commit of the first machine."""
    cells = history.load(results).cells
    own = cells[cells["machine"] == "generated"]
    return own[own["commit"] == own["commit"].iloc[-1]]


@pytest.fixture(scope="module")
def charted(results: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    assert main(["build", "--results", str(results), "--out", str(out), "--no-asv"]) == 0
    return out / "index.html"


@pytest.fixture(scope="module")
def site(charted: Path) -> str:
    """The same without the charts' library: words and tables stand alone, and load at once."""
    plain = charted.with_name("plain.html")
    plain.write_text(charted.read_text(encoding="utf-8").replace(chart_library(), ""), encoding="utf-8")
    return plain.as_uri()


PLACE = f"#page=scaling&dtype=float32&direction=forward&place=generated/{demo.ENV}/2"
ROW, COLUMN = "&operation=msa_row+core", "&operation=msa_column+core"


@pytest.fixture(scope="module")
def laws(browser: Any, site: str) -> Iterator[Any]:
    """The page for its arithmetic alone."""
    found = Watched(browser)
    yield found.open(site)
    found.page.context.close()
    assert found.wrong == []


@pytest.fixture(scope="module")
def quantiles(laws: Any) -> list[float]:
    """Of Student's t, as the page has them."""
    return list(laws.evaluate("load('scaling').then((theory) => theory.quantiles)"))


def words(page: Any) -> str:
    return str(page.locator("[data-page=scaling]").inner_text())


def table(page: Any, caption: str) -> list[list[str]]:
    """The rows of the table with that caption."""
    rows = page.locator("figure", has_text=caption).locator("tbody tr").all()
    return [row.locator("th, td").all_inner_texts() for row in rows]


def si(text: str) -> float:
    """The number that a text such as "3.21 ms" stands for."""
    number, unit = re.fullmatch(r"([\d.]+)\s(.*)", text).groups()  # type: ignore[union-attr]
    powers = {"µ": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12}
    return float(number) * 10.0 ** (powers[unit[0]] if unit[0] in powers and len(unit) > 1 else 0)


def test_its_fit_is_pythons(laws: Any, quantiles: list[float]) -> None:
    rng = np.random.default_rng(0)
    for points in (2, 2, 3, 4, 6, 9):
        sizes = np.sort(rng.choice(np.arange(8, 800), points, replace=False))
        values = 1e-9 * sizes ** rng.uniform(0.5, 3) * np.exp(rng.normal(0, 0.2, points))
        errors = rng.uniform(0, 0.5, points)
        drawn = [
            {"size": int(n), "value": v, "low": v * math.exp(-e), "high": v * math.exp(e)}
            for n, v, e in zip(sizes, values, errors, strict=True)
        ]
        expected = scaling.fit(sizes, values, errors)
        law = laws.evaluate("([points, quantiles]) => powerLaw(points, quantiles)", [drawn, quantiles])
        assert [law[end] for end in ("slope", "low", "high")] == pytest.approx(
            [expected.slope, expected.low, expected.high], rel=1e-6
        )
    assert laws.evaluate("powerLaw([{size: 8, value: 1}, {size: 8, value: 2}], [12])") is None


def test_an_extrapolation_holds_what_comes_as_often_as_it_says(laws: Any, quantiles: list[float]) -> None:
    """Of 1,000 next measurements, 95 %: between 92 and 98 is what chance allows."""
    rng = np.random.default_rng(1)
    sizes = [64, 128, 256, 384]
    series = [[float(n**2 * math.exp(rng.normal(0, 0.1))) for n in [*sizes, 768]] for _ in range(1000)]
    held = laws.evaluate(
        "([sizes, series, quantiles]) => series.filter((values) => {"
        "  const points = sizes.map((size, at) => ({size, value: values[at], low: null, high: null}));"
        "  const {low, high} = powerLaw(points, quantiles).at(768);"
        "  return low <= values.at(-1) && values.at(-1) <= high; }).length",
        [sizes, series, quantiles],
    )
    assert 920 <= held <= 980


def test_an_extrapolation_ends_where_its_interval_spans_a_factor_of_ten(laws: Any, quantiles: list[float]) -> None:
    points = [{"size": n, "value": n**2 * off, "low": None, "high": None} for n, off in SCATTERED.items()]
    call = "([points, quantiles, sizes]) => foretold({sizes}, 256, 'time', powerLaw(points, quantiles), null)"
    near, far = 512, 1_000_000
    (only,) = laws.evaluate(call, [points, quantiles, [64, 256, near, far]])
    assert only["size"] == near
    assert only["how"] == "extrapolated by the fit"
    assert only["low"] < only["value"] < only["high"] < 10 * only["low"]
    assert laws.evaluate(call, [points[:2], quantiles, [near]]) == []  # of two points no line can be judged


def test_memory_is_told_in_scores_and_outputs_only_where_that_holds(laws: Any) -> None:
    def law(value: str) -> Any:
        problems = "[[16, 4], [64, 8], [400, 20], [9, 30]]"
        return laws.evaluate(f"memoryLaw({problems}.map(([scores, output]) => ({{scores, output, value: {value}}})))")

    assert law("2 * scores + 1.5 * output") == pytest.approx({"scores": 2, "output": 1.5, "misfit": 0}, abs=1e-9)
    assert law("1.06 * output") == pytest.approx({"scores": 0, "output": 1.06, "misfit": 0}, abs=1e-9)
    assert law("output * (1 + scores / 400)")["misfit"] > 0.05
    two = "[[16, 4], [64, 8]].map(([scores, output]) => ({scores, output, value: 2 * scores + output}))"
    assert laws.evaluate(f"memoryLaw({two})")["misfit"] > 0.05  # two problems always fit two terms
    assert laws.evaluate("memoryLaw([{scores: 16, output: 4, value: 9}])") is None


def test_a_crossover_is_claimed_only_where_the_order_is_sure_at_both_ends(laws: Any) -> None:
    def found(a: list[float], b: list[float], spread: float, more: bool = False) -> list[dict[str, Any]]:
        def line(values: list[float]) -> list[dict[str, float]]:
            sizes = (64, 128, 256, 512)
            return [
                {"size": n, "value": v, "low": v / spread, "high": v * spread}
                for n, v in zip(sizes, values, strict=True)
            ]

        call = "([a, b, more]) => crossovers('a', a, 'b', b, more)"
        return list(laws.evaluate(call, [line(a), line(b), more]))

    straight, flat = [1.0, 2.0, 4.0, 8.0], [2.9, 2.9, 2.9, 2.9]
    (one,) = found(straight, flat, 1.05)
    assert (one["before"], one["after"], one["from"], one["to"]) == ("a", "b", 128, 256)
    assert (one["size"], one["value"]) == (pytest.approx(64 * 2.9), pytest.approx(2.9))
    (other,) = found(straight, flat, 1.05, more=True)
    assert (other["before"], other["after"]) == ("b", "a")
    (wide,) = found(straight, flat, 1.3)  # at 128 and at 256 nobody is ahead
    assert (wide["from"], wide["to"]) == (64, 512)
    assert wide["size"] == pytest.approx(64 * 2.9)
    assert found(straight, flat, 3) == []
    assert found(straight, [1.01, 2.02, 3.98, 7.95], 1.0) == []  # closer than anybody cares


def test_exponents_are_those_of_the_command(watched: Watched, site: str, cells: pd.DataFrame) -> None:
    expected = scaling.exponents(cells)
    for quantity, column in (("time", "seconds"), ("memory", "bytes")):
        page = watched.open(f"{site}{PLACE}{ROW}&axis=R&quantity={quantity}")
        own = expected[
            (expected["operation"] == "msa_row") & (expected["axis"] == "R") & (expected["dtype"] == "float32")
            & (expected["direction"] == "forward") & (expected["quantity"] == column)
        ].set_index("backend")  # fmt: skip
        shown = {row[0]: row[1:] for row in table(page, f"How the {quantity} grows with R")}
        assert len(own) == 6
        for backend, row in own.iterrows():
            assert shown[str(backend)][0] == f"R^{row['exponent']:.2f}"
            assert shown[str(backend)][1] in ("", f"{row['low']:.2f} to {row['high']:.2f}")
        work, least = (shown[name][0] for name in list(shown)[:2])
        assert (work, least) == (f"R^{own['work'].iloc[0]:.2f}", f"R^{own['least'].iloc[0]:.2f}")
        first = page.locator(".growth .verdict strong").first.inner_text()
        assert first.startswith(f"eager’s {quantity} grows as R^{own.loc['eager', 'exponent']:.2f}")
        assert f"{'the work (FLOPs)' if quantity == 'time' else 'the score tensor'} as {work}" in first


def test_its_numbers_are_the_dataframes(watched: Watched, site: str, cells: pd.DataFrame) -> None:
    own = cells[
        (cells["series"] == "OverS") & (cells["operation"] == "msa_row") & (cells["dtype"] == "float32")
        & (cells["direction"] == "forward") & (cells["status"] == "ok")
    ]  # fmt: skip
    expected = {
        "time": own["seconds"], "memory": own["bytes"], "rate": own["flops"] / own["seconds"],
    }  # fmt: skip
    for quantity, values in expected.items():
        page = watched.open(f"{site}{PLACE}{ROW}&axis=S&quantity={quantity}")
        rows = {(row[0], int(row[1])): row for row in table(page, "Every number") if row[-1] == "measured"}
        assert len(rows) == len(own) == 24
        for (_, cell), value in zip(own.iterrows(), values, strict=True):
            row = rows[cell["backend"], int(cell["S"])]
            assert si(row[2]) == pytest.approx(value, rel=5e-3)
            if quantity == "time":
                assert [si(end) for end in row[3:5]] == pytest.approx(
                    [cell["seconds_low"], cell["seconds_high"]], rel=5e-3
                )


def test_crossovers_are_said_and_ringed(watched: Watched, charted: Path) -> None:
    """Planted: eager takes 4.4 ns a score, chunked 1.43 and 30 ms a call: they meet at R of 99."""
    page = watched.open(f"{charted.as_uri()}{PLACE}{ROW}&axis=R&quantity=time&theme=dark")
    said = page.locator(".growth li", has_text="chunked overtakes eager").inner_text()
    at, low, high = re.search(r"from R of about (\d+) on, between the measured (\d+) and (\d+)", said).groups()  # type: ignore[union-attr]
    assert (low, high) == ("64", "128")
    assert 90 <= int(at) <= 110
    page.locator("svg.marks").last.wait_for()
    rings = page.locator(".growth").first.locator("[aria-label*='overtakes eager']")
    assert rings.count() >= 1
    ink = page.locator(".growth .role-axis-label text").first.evaluate("text => getComputedStyle(text).fill")
    assert min(map(int, re.findall(r"\d+", ink))) > 150, "dark text on a dark page"


def test_memory_is_predicted_beyond_the_measured_sizes_and_meets_the_walls(watched: Watched, charted: Path) -> None:
    page = watched.open(f"{charted.as_uri()}{PLACE}{COLUMN}&axis=S&quantity=memory")
    rows = {(row[0], int(row[1])): row for row in table(page, "Every number")}
    row, scores = rows["eager", 5120], 5120**2 * 256 * 8
    assert row[-1] == "predicted from closed forms"
    assert si(row[2]) == pytest.approx(scores * (8.5 + 4 * 32 / 256), rel=0.05)  # what the generated eager holds
    walls = {row[0]: row[1:] for row in table(page, "needs as much beyond its inputs")}
    for gigabytes, text in zip(MEMORIES, walls["eager"], strict=True):
        size = int(re.search(r"[\d,]+", text)[0].replace(",", ""))  # type: ignore[index]
        assert 8.5 * 256 * 8 * size**2 == pytest.approx(gigabytes * 1e9, rel=0.15)
    page.locator("svg.marks").last.wait_for()
    drawn = page.locator(".growth svg.marks").first.text_content()
    assert all(f"{gigabytes} GB" in drawn for gigabytes in MEMORIES)


def test_what_the_record_predicts_is_shown_as_predicted(watched: Watched, site: str, cells: pd.DataFrame) -> None:
    page = watched.open(site + PLACE.replace("forward", "training") + COLUMN + "&axis=S&quantity=memory")
    big = cells[
        (cells["status"] == "too_big") & (cells["operation"] == "msa_column") & (cells["dtype"] == "float32")
        & (cells["series"] == "OverS") & (cells["backend"] == "eager")
    ]  # fmt: skip
    (expected,) = big["predicted_bytes"]
    (row,) = (row for row in table(page, "Every number") if row[:2] == ["eager", "1024"])
    assert row[-1] == "predicted by the instrument, without running"
    assert si(row[2]) == pytest.approx(expected, rel=5e-3)


def test_time_is_extrapolated_no_farther_than_its_interval_allows(watched: Watched, site: str) -> None:
    page = watched.open(f"{site}{PLACE}{ROW}&axis=S&quantity=time")
    rows = [row for row in table(page, "Every number") if row[-1] == "extrapolated by the fit"]
    assert {(row[0], row[1]) for row in rows} >= {("eager", "1024"), ("eager", "5120")}
    for row in rows:
        value, low, high = (si(text) for text in row[2:5])
        assert low < value < high <= 10 * low
    assert "are extrapolated" in words(page)
    page = watched.open(f"{site}{PLACE}{ROW}&axis=R&quantity=time")  # measured up to 768
    assert "xtrapolated" not in words(page)


def test_the_roof_and_the_share_of_it_that_is_reached(watched: Watched, site: str, cells: pd.DataFrame) -> None:
    page = watched.open(f"{site}{PLACE}{ROW}&axis=R")
    roof = 2 * 512**3 / 2e-3
    own = cells[
        (cells["operation"] == "msa_row") & (cells["size"] == "R=768") & (cells["dtype"] == "float32")
        & (cells["direction"] == "forward") & (cells["status"] == "ok")
    ]  # fmt: skip
    shares = own.set_index("backend").eval("flops / seconds") / roof
    said = page.locator(".growth li", has_text="of the matrix product’s rate at R 768").inner_text()
    assert said.startswith(f"{shares.idxmax()} reaches {100 * shares.max():.0f} %".replace(" %", "\u00a0%"))
    for backend, share in shares.drop(shares.idxmax()).items():
        assert f"{backend} {100 * share:.0f}\u00a0%" in said
    assert "a copy of 64 MB 33.6\u00a0GB/s" in words(page)


def test_without_anchors_it_says_that_the_roof_is_missing(watched: Watched, site: str) -> None:
    page = watched.open(site + PLACE.replace("generated", "other"))
    assert "The roof is missing" in words(page)
    assert "nan" not in words(page).lower().split()


def test_every_choice_changes_what_it_says_and_its_address(watched: Watched, site: str) -> None:
    page = watched.open(site + PLACE)
    first = words(page)
    for name, value in (
        ("quantity", "memory"), ("quantity", "rate"), ("axis", "R"), ("axis", "N_head"), ("dtype", "bfloat16"),
        ("direction", "training"), ("quantity", "time"),
    ):  # fmt: skip
        before = words(page)
        choose(page, name, value)
        assert words(page) != before, f"{name}={value} changed nothing"
        assert f"{name}={value}" in page.url
    for name in ("operation", "commit", "place"):
        before = words(page)
        page.locator(f"select[name={name}]").select_option(index=1)
        settled(page)
        assert words(page) != before, f"{name} changed nothing"
    shown, address = words(page), page.url
    assert words(watched.open(address)) == shown
    page = watched.open(site + PLACE)
    choose(page, "quantity", "memory")
    page.go_back()
    settled(page)
    assert words(page) == first
    assert watched.outside(site.removesuffix("plain.html")) == []


def test_whatever_is_chosen_it_speaks_in_numbers_and_words(laws: Any) -> None:
    said = laws.evaluate(
        """async () => {
        const said = [];
        for (const view of data.views) for (const commit of view.commits) {
          await loadCommit(commit);
          const cells = cellsOf(data, commit);
          for (const direction of directionsOf(cells)) for (const dtype of dtypesOf(cells)) {
            const common = { place: placeOf(view), direction, dtype, sort: "", filter: "" };
            for (const operation of Object.keys(scalingOperations({ cells }))) {
              const axes = scalingAxes(cellsOfOperation({ cells, chosen: { ...common, operation } }));
              for (const axis of [...axes, ""]) for (const quantity of Object.keys(QUANTITIES)) {
                const chosen = { ...common, operation, axis, quantity };
                const drawn = await PAGES.scaling.draw({ view, commit, cells, chosen });
                said.push(drawn.map((node) => node.textContent).join(" "));
              }
            }
          }
        }
        return said; }"""
    )
    assert len(said) > 100
    assert [text for text in said if re.search(r"NaN|undefined|Infinity|null|\[object", text)] == []
    assert min(map(len, said)) > 500


def test_the_global_attentions_story_is_told_in_words(watched: Watched, site: str) -> None:
    said = words(watched.open(site + PLACE)).replace("\u00a0", " ")
    assert "At S 5,120, R 300 and 8 heads in float32" in said
    assert "2 × 252 GB" in said
    assert "2 × 49.2 MB" in said


def test_without_the_chart_library_the_story_is_a_table(watched: Watched, site: str) -> None:
    page = watched.open(site + PLACE)
    assert page.locator("svg.marks").count() == 0
    assert len(table(page, "Bytes of two score tensors")) == 2 * len(page_data.STORY_SIZES)


def test_hostile_names_show_as_text_and_nothing_sticks_out(browser: Any, tmp_path: Path) -> None:
    (path,) = demo.write(tmp_path / "r", demo.COMMITS[:1], machine="<b>m", modules=["msa_row", "depth"])
    text = "<img src=x onerror=\"document.title='broken'\"> \u202e\u05e9" + "y" * 10_000
    journal = path.read_text().replace('"backend": "sdpa"', f'"backend": {json.dumps(text)}')
    path.write_text(journal.replace('"backend": "flash_attn"', '"backend": "<script>"'))
    assert main(["build", "--results", str(tmp_path / "r"), "--out", str(tmp_path / "s"), "--no-asv"]) == 0
    watched = Watched(browser, viewport={"width": 360, "height": 740})
    page = watched.open((tmp_path / "s" / "index.html").as_uri() + "#page=scaling&axis=R")
    for quantity in ("memory", "time"):
        choose(page, "quantity", quantity)
        page.locator(".growth svg.marks").last.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        assert page.locator(".growth img, .growth script").count() == 0
        assert "<img src=x" in words(page)
    assert page.title().startswith("AxialBench")
    page.context.close()
    assert watched.wrong == []


def test_what_was_not_run_is_said_in_words(watched: Watched, tmp_path: Path) -> None:
    (path,) = demo.write(tmp_path / "r", demo.COMMITS[:1], modules=["template"], dtypes=["float32"])
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    empty = {"status": "not_run", "reason": "no time", "seconds": None, "bytes": None, "predicted_bytes": None}
    path.write_text("".join(json.dumps(line | (empty if line["record"] == "cell" else {})) + "\n" for line in lines))
    assert main(["build", "--results", str(tmp_path / "r"), "--out", str(tmp_path / "s"), "--no-asv"]) == 0
    said = words(watched.open((tmp_path / "s" / "index.html").as_uri() + "#page=scaling"))
    assert "No backend has a number here." in said
    assert "(not run)" in said
    assert "--effort full" in said
    assert "No core was timed here." in said
