"""The site in a real browser: from a file and over http, with no console error and no request outside."""

from __future__ import annotations

import functools
import http.server
import json
import re
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from site_browser import Watched, choose, select, settled

from dashboard import demo, history
from dashboard.__main__ import main


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("results")
    demo.write(path, demo.COMMITS[:2], modules=["msa_row", "triangle", "depth"])
    demo.write(path, demo.COMMITS[:1], machine="other", modules=["msa_row"], dtypes=["float32"], seed=1)
    return path


@pytest.fixture(scope="module")
def site(results: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    assert main(["build", "--results", str(results), "--out", str(out), "--no-asv"]) == 0
    return out


@pytest.fixture
def served(site: Path) -> Iterator[str]:
    yield from serve(site)


def serve(folder: Path) -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            """Keep the test's output clean."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def test_a_card_says_of_memory_what_is_true(watched: Watched, site: Path) -> None:
    page = watched.open(site.as_uri() + "/index.html")
    for less, said in (
        (101 / 67.2, ", 67\u00a0% of its memory"), (2.9, ", 1/3 of its memory"), (31.4, ", 1/31 of its memory"),
        (1, ", 100\u00a0% of its memory"), (1 / 4.4, ", but 4.40× its memory"),
    ):  # fmt: skip
        assert page.evaluate(f"make('p', {{}}, ...memoryFact({less}, String)).textContent") == said


def test_a_chart_is_exported_under_the_name_of_its_caption(watched: Watched, site: Path) -> None:
    page = watched.open(site.as_uri() + "/index.html#page=history&quantity=memory")
    page.locator("[data-page=history] svg.marks").wait_for()
    page.locator("[data-page=history] .chart summary").click()
    with page.expect_download() as started:
        page.locator("[data-page=history] .vega-actions a", has_text="SVG").click()
    assert started.value.suggested_filename == "memory-over-commits.svg"


def test_a_click_beside_a_headings_text_sorts(watched: Watched, site: Path) -> None:
    page = watched.open(site.as_uri() + "/index.html#page=history")
    heading = page.locator("[data-page=history] .data-table thead th").nth(1)
    box = heading.bounding_box()
    for x in (2, box["width"] - 3):
        before = heading.get_attribute("aria-sort")
        heading.click(position={"x": x, "y": box["height"] / 2})
        assert heading.get_attribute("aria-sort") != before


def tables(page: Any) -> str:
    return str(page.locator("#operations").inner_text())


def test_from_a_file_it_shows_and_asks_for_nothing(watched: Watched, site: Path) -> None:
    page = watched.open(site.as_uri() + "/index.html")
    assert page.locator(".operation").count() == 4
    assert page.locator("td button.cell").count() > 50
    assert watched.outside(site.as_uri()) == []
    assert [url for url in watched.requests if url != "about:blank"] == [site.as_uri() + "/index.html"]


def test_over_http_it_asks_for_itself_alone(watched: Watched, served: str) -> None:
    watched.open(served)
    assert [url for url in watched.requests if url != "about:blank"] == [served]


def test_a_cell_shows_the_dataframes_number(watched: Watched, site: Path, results: Path) -> None:
    page = watched.open(site.as_uri() + "/index.html#place=generated/" + demo.ENV + "/2&dtype=float32&show=time")
    cells = history.load(results).cells
    newest = cells[(cells["machine"] == "generated")]["commit"].iloc[-1]
    own = cells[
        (cells["commit"] == newest) & (cells["series"] == "OverS") & (cells["dtype"] == "float32")
        & (cells["backend"] == "sdpa") & (cells["direction"] == "forward")
    ].sort_values("S")  # fmt: skip
    row = page.locator("#operation-msa_row-core table").first.locator("tbody tr", has_text="sdpa").first
    shown = [float(re.search(r"([\d.]+)\s*ms", text)[1]) / 1e3 for text in row.locator(".first").all_inner_texts()]  # type: ignore[index]
    assert shown == pytest.approx(list(own["seconds"]), rel=5e-3)
    ratios = [float(text.removesuffix("× eager")) for text in row.locator(".second").all_inner_texts()]
    assert ratios == pytest.approx(list(own["speedup"]), rel=5e-3)


def test_a_stack_shows_its_drift_whatever_else_is_shown(watched: Watched, site: Path, results: Path) -> None:
    page = watched.open(site.as_uri() + "/index.html#place=generated/" + demo.ENV + "/2&dtype=float32")
    cells = history.load(results).cells
    newest = cells[cells["machine"] == "generated"]["commit"].iloc[-1]
    own = cells[
        (cells["commit"] == newest) & (cells["level"] == "stack") & (cells["dtype"] == "float32")
        & (cells["backend"] == "chunked") & (cells["direction"] == "forward")
    ].sort_values("blocks")  # fmt: skip
    stack = page.locator("#operation-evoformer-stack")
    for show in ("time", "memory", "all"):
        choose(page, "show", show)
        row = stack.locator("tbody tr", has_text="chunked").first
        shown = [float(text.removesuffix("×")) for text in row.locator(".first").all_inner_texts()]
        assert shown == pytest.approx(list(own["error"]), rel=5e-3)
    assert "After 48 blocks, in units of eager's drift" in stack.inner_text()
    stack.locator("tbody button.cell").first.click()
    assert "eager’s drift" in page.locator("#details").inner_text()


def test_every_control_changes_what_the_page_says_and_its_address(watched: Watched, site: Path) -> None:
    page = watched.open(site.as_uri() + "/index.html")
    for name, value in (
        ("direction", "training"), ("dtype", "bfloat16"), ("show", "speedup"), ("show", "memory"), ("show", "error"),
        ("show", "all"), ("show", "time"), ("as", "charts"), ("as", "tables"),
    ):  # fmt: skip
        before, address = tables(page), page.url
        choose(page, name, value)
        assert tables(page) != before, f"{name}={value} changed nothing"
        assert page.url != address
        assert f"{name}={value}" in page.url
    for name in ("commit", "place"):
        before = page.locator("body").inner_text()
        select(page, name, 1)
        assert page.locator("body").inner_text() != before
        assert f"{name}=" in page.url
    assert "other" in page.locator("#measured").inner_text() or "generated" in page.locator("#measured").inner_text()
    dark, light = (_background(page, theme) for theme in ("dark", "light"))
    assert sum(dark) < 200 < 600 < sum(light)


def _background(page: Any, theme: str) -> list[int]:
    choose(page, "theme", theme)
    return _colour(page)


def _colour(page: Any) -> list[int]:
    """Red, green and blue of the page itself."""
    colour = page.evaluate(
        "(() => { const c = document.createElement('canvas').getContext('2d', {willReadFrequently: true});"
        "c.fillStyle = getComputedStyle(document.body).backgroundColor; c.fillRect(0, 0, 1, 1);"
        "return [...c.getImageData(0, 0, 1, 1).data].slice(0, 3); })()"
    )
    return list(colour)


def test_the_address_restores_every_choice_and_the_back_button_works(watched: Watched, site: Path) -> None:
    page = watched.open(site.as_uri() + "/index.html")
    first = tables(page)
    choose(page, "direction", "training")
    choose(page, "show", "memory")
    select(page, "commit", 1)
    shown, address = page.locator("body").inner_text(), page.url
    assert watched.open(address).locator("body").inner_text() == shown
    page = watched.open(site.as_uri() + "/index.html")
    choose(page, "direction", "training")
    assert tables(page) != first
    page.go_back()
    settled(page)
    assert tables(page) == first
    assert page.locator("input[name=direction][value=forward]").is_checked()


def test_an_address_with_what_does_not_exist_says_so(watched: Watched, site: Path) -> None:
    page = watched.open(site.as_uri() + "/index.html#commit=deadbeef&show=%3Cb%3E&dtype=float32")
    assert "deadbeef" in page.locator("#notice").inner_text()
    assert page.locator(".operation").count() == 4


def test_charts_draw_every_number_and_ask_for_nothing(watched: Watched, site: Path) -> None:
    pytest.importorskip("vl_convert", reason="vl-convert-python is not installed")
    page = watched.open(site.as_uri() + "/index.html#as=charts&dtype=float32&direction=forward&show=time")
    page.locator("svg.marks").last.wait_for()
    section = page.locator("#operation-msa_row-core")
    assert section.locator("svg.marks").count() == 3  # over S, R and heads
    over_s = section.locator("svg.marks").first
    timed = [cell for cell in _cells_of(page) if cell["series"] == "OverS" and cell["seconds"] is not None]
    assert over_s.locator(".mark-symbol.role-mark path").count() == len(timed)
    assert "chunked" in over_s.text_content()
    choose(page, "theme", "dark")
    page.locator("svg.marks").last.wait_for()
    assert watched.outside(site.as_uri()) == []


def test_one_picture_shows_every_backend_beside_eager(watched: Watched, site: Path, results: Path) -> None:
    pytest.importorskip("vl_convert", reason="vl-convert-python is not installed")
    page = watched.open(site.as_uri() + f"/index.html#place=generated/{demo.ENV}/2&dtype=float32&direction=forward")
    page.locator("#picture svg.marks").wait_for()
    cells = history.load(results).cells
    own = cells[(cells["commit"] == cells["commit"].iloc[-1]) & (cells["machine"] == "generated")]
    central = {"msa_row": "S=128", "triangle_starting": "R=256", "triangle_ending": "R=256"}
    own = own[
        (own["dtype"] == "float32") & (own["direction"] == "forward") & own["speedup"].notna()
        & (own["backend"] != "eager") & (own["size"] == own["operation"].map(central))
    ]  # fmt: skip
    marks = page.locator("#picture .mark-symbol.role-mark path")
    assert marks.count() == len(own) >= 12
    labels = marks.evaluate_all("all => all.map(mark => mark.getAttribute('aria-label'))")
    for row in own.to_dict("records"):
        assert any(row["backend"] in label and f"{row['speedup']:.3g}" in label for label in labels), labels


def test_paper_is_white_and_shows_all_that_was_chosen(watched: Watched, site: Path) -> None:
    page = watched.open(site.as_uri() + "/index.html#page=history&theme=dark&dtype=bfloat16&quantity=memory")
    page.emulate_media(media="print")
    assert sum(_colour(page)) > 600
    printed = page.locator("#printed").inner_text()
    for chosen in ("Numbers as: bfloat16", "Quantity: memory", "Operation: MSA row attention with pair bias"):
        assert chosen in printed
    assert not page.locator("#choices").is_visible()
    table = page.locator("[data-page=history] .data-table .scroll")
    assert table.evaluate("box => box.scrollHeight <= box.clientHeight && getComputedStyle(box).maxHeight === 'none'")
    page.emulate_media(media="screen")
    assert not page.locator("#printed").is_visible()


def test_without_the_chart_library_the_tables_stand_alone(
    watched: Watched, results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dashboard.build.chart_library", lambda: "")
    assert main(["build", "--results", str(results), "--out", str(tmp_path), "--no-asv"]) == 0
    page = watched.open(tmp_path.as_uri() + "/index.html")
    assert page.locator(".operation").count() == 4
    assert not page.locator("[data-choice=as]").is_visible()


def _cells_of(page: Any) -> list[dict[str, Any]]:
    """The cells that the page shows now."""
    return list(page.evaluate(
        "(async () => { const { shown: { cells, chosen } } = await settle(data, fromAddress(location.hash));"
        "return cells.filter((cell) => cell.dtype === chosen.dtype && cell.direction === chosen.direction); })()"
    ))  # fmt: skip


def test_every_empty_cell_says_why(watched: Watched, site: Path) -> None:
    page = watched.open(site.as_uri() + "/index.html")
    reasons = page.locator("td.empty .reason").all_inner_texts()
    assert len(reasons) > 5
    assert all(reasons)
    assert "needs CUDA" in reasons


def test_the_keyboard_reaches_a_cell_and_its_details(watched: Watched, site: Path) -> None:
    page = watched.open(site.as_uri() + "/index.html")
    page.locator("select[name=commit]").focus()
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.className").startswith("cell"):
            break
    first = page.evaluate("document.activeElement.innerText")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.innerText") != first
    card = page.locator("#details")
    assert card.is_visible()
    for term in ("Status", "Interval", "Samples", "Memory", "Error", "Kernels", "Measure it again"):
        assert term in card.inner_text()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.className") == "close"
    page.keyboard.press("Escape")
    assert not card.is_visible()
    assert page.evaluate("document.activeElement.className").startswith("cell")


def test_serve_shows_the_site_to_this_machine(site: Path) -> None:
    command = [sys.executable, "-m", "dashboard", "serve", "--out", str(site), "--port", "0"]
    process = subprocess.Popen(command, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, text=True)
    try:
        address = process.stdout.readline().split()[0]  # type: ignore[union-attr]
        assert address.startswith("http://127.0.0.1:")
        assert b"AxialBench" in urllib.request.urlopen(address, timeout=10).read()
    finally:
        process.terminate()
        process.communicate(timeout=10)


def test_serve_without_a_site_says_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--out", str(tmp_path)]) == 2
    assert "python -m dashboard build" in capsys.readouterr().err


@pytest.mark.parametrize("width", [360, 1300])
def test_nothing_sticks_out_and_everything_can_be_clicked(browser: Any, site: Path, width: int) -> None:
    watched = Watched(browser, viewport={"width": width, "height": 740})
    page = watched.open(site.as_uri() + "/index.html#show=all")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.locator("button.cell[data-cell]").first.click()
    box = page.locator("#details").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= width
    page.locator("#details .close").click()
    assert not page.locator("#details").is_visible()
    page.context.close()
    assert watched.wrong == []


def test_hostile_text_shows_as_text(browser: Any, tmp_path: Path) -> None:
    text = "</script><img src=x onerror=\"document.title='broken'\"> \u202e\u05e9\u05dc\u05d5\u05dd '" + "y" * 10_000
    machine = '<b>"m" \u202e\' & #?%2F'
    path = demo.write(tmp_path / "r", [demo.Commit(text)], machine=machine, modules=["msa_row"])[0]
    journal = path.read_text().replace("needs CUDA", "<script>document.title='broken'</script>" + "z" * 10_000)
    path.write_text(journal.replace('"backend": "flex"', '"backend": "<img src=x onerror=alert(1)>"'))
    assert main(["build", "--results", str(tmp_path / "r"), "--out", str(tmp_path / "s"), "--no-asv"]) == 0
    watched = Watched(browser, viewport={"width": 360, "height": 740})
    page = watched.open((tmp_path / "s").as_uri() + "/index.html")
    assert page.title().startswith("AxialBench")
    assert page.locator("#measured b, #measured img, #operations script").count() == 0
    assert '<b>"m"' in page.locator("#measured").inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    choose(page, "show", "all")
    shown, address = tables(page), page.url
    assert tables(watched.open(address)) == shown
    choose(page, "as", "charts")
    page.wait_for_timeout(500)
    assert page.locator("#operations img, #operations script").count() == 0
    choose(page, "as", "tables")
    page.locator("td.empty button").first.click()
    assert page.locator("#details").bounding_box()["height"] <= 740
    page.context.close()
    assert watched.wrong == []


def test_a_copied_command_runs_nothing_else(watched: Watched, tmp_path: Path) -> None:
    path = demo.write(tmp_path / "r", demo.COMMITS[:1], modules=["template"])[0]
    journal = path.read_text().replace('"quick"', '"quick; touch broken;"').replace('"flex"', "\"'; touch broken; '\"")
    path.write_text(journal.replace('"commit": "', '"commit": "$(touch broken)'))
    assert main(["build", "--results", str(tmp_path / "r"), "--out", str(tmp_path / "s"), "--no-asv"]) == 0
    watched.open((tmp_path / "s").as_uri() + "/index.html")
    commands = {cell["command"] for cell in _cells_of(watched.page)}
    assert len(commands) == 8 * 3
    for command in commands:
        subprocess.run(["bash", "-c", f"asv() {{ :; }}; {command}"], cwd=tmp_path, check=True)
    assert not (tmp_path / "broken").exists()


def test_the_command_of_a_place_that_cells_share_measures_all_of_them(watched: Watched, tmp_path: Path) -> None:
    path = demo.write(tmp_path / "r", demo.COMMITS[:1], modules=["template"], dtypes=["float32"])[0]
    records = [json.loads(line) for line in path.read_text().splitlines()]
    for record in records[1:]:
        if record["params"]["backend"] in ("compiled", "flex"):
            record |= {"status": "not_run", "reason": "quick effort", "seconds": None, "error": None, "errors": {}}
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    assert main(["build", "--results", str(tmp_path / "r"), "--out", str(tmp_path / "s"), "--no-asv"]) == 0
    page = watched.open((tmp_path / "s").as_uri() + "/index.html")
    commands = {}
    for view in ("verdict", "correctness"):
        page = watched.open((tmp_path / "s").as_uri() + f"/index.html#page={view}")
        page.locator(f"[data-page={view}] tbody tr", has_text="compiled").first.locator("button.cell").first.click()
        commands[view] = page.locator("#details pre").inner_text()
    for command in commands.values():
        assert command.count(" -b ") >= 2
        for backend in ("compiled", "flex"):
            assert f".{backend}." in command
        assert "xformers" not in command
    assert [commands["verdict"].count(f"forward.{T},") for T in (1, 2, 4)] == [2, 2, 2]
    assert page.locator("#details h3").inner_text().startswith("compiled, flex")


def test_without_results_it_says_what_to_do(watched: Watched, tmp_path: Path) -> None:
    (tmp_path / "r").mkdir()
    assert main(["build", "--results", str(tmp_path / "r"), "--out", str(tmp_path / "s"), "--no-asv"]) == 0
    page = watched.open((tmp_path / "s").as_uri() + "/index.html")
    assert "make bench" in page.locator("main").inner_text()


@pytest.fixture(scope="module")
def site_with_asv(asv_project: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("asv", reason="asv is not installed")
    pytest.importorskip("asv_tachyon", reason="asv-tachyon is not installed")
    out = tmp_path_factory.mktemp("with-asv")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(asv_project.root)
        assert main(["build", "--out", str(out)]) == 0
    return out


@pytest.mark.parametrize("scheme", ["file", "http"])
def test_asvs_history_needs_no_network(watched: Watched, site_with_asv: Path, scheme: str) -> None:
    server = serve(site_with_asv)
    base = site_with_asv.as_uri() + "/" if scheme == "file" else next(server)
    page = watched.open(base + "index.html")
    page.locator("#asv").click()
    page.get_by_text("msa_row.OverR.seconds_forward").first.wait_for()
    for view in ("Explore", "Heatmap", "Compare", "Regressions"):
        page.get_by_role("button", name=view, exact=True).or_(
            page.get_by_role("link", name=view, exact=True)
        ).first.click()
    page.get_by_role("button", name="Explore", exact=True).or_(
        page.get_by_role("link", name="Explore", exact=True)
    ).first.click()
    page.get_by_text("msa_row.OverR.seconds_forward").first.click()
    page.locator("canvas").first.wait_for()
    assert watched.outside(base) == []
    server.close()


def test_asvs_own_pages_that_need_a_network_are_left_out(site_with_asv: Path) -> None:
    pages = site_with_asv / "asv"
    for path in [*pages.glob("*.html"), *pages.glob("*.js"), *pages.glob("*.css")]:
        assert not re.search(r"(src|href)=[\"']?(https?:)?//", path.read_text(encoding="utf-8")), path
    assert not (pages / "asv.js").exists()
