"""The page: its numbers are the DataFrame's, it loads nothing, and no text in the results can break it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from dashboard import demo, history, units
from dashboard.__main__ import main
from dashboard.build import SCRIPTS, render, sources
from dashboard.commit_cells import NUMBERS, TEXT
from dashboard.payload import site_data, to_json
from dashboard.texts import PLACE_NUMBERS, PLACE_TEXT

ROOT = Path(__file__).parents[2]
HOSTILE = [
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)> & \"quotes\" 'single'",
    "\u202eright to left \u05e9\u05dc\u05d5\u05dd",
    "<!--",
    "{{ 7 * 7 }} {% raw %}",
    "x" * 10_000,
    "\u2028\u2029\x00\x1b[31m",
    "\\u003c ${alert(1)} `",
]


class Page(HTMLParser):
    """What a browser would see: the elements with their attributes, and the text of each script."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self._inside = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._inside = tag
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            self.scripts[-1] += data

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    @property
    def data(self) -> dict[str, Any]:
        return json.loads(self.scripts[0])


def content(site: Path, name: str) -> dict[str, Any]:
    """What a data file hands to the page."""
    text = (site / "data" / f"{name}.js").read_text(encoding="ascii")
    return json.loads(text.removeprefix(f'receive("{name}", ').removesuffix(");\n"))


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("results")
    demo.write(path, demo.COMMITS[:2])
    return path


def build(results: Path, out: Path) -> Page:
    assert main(["build", "--results", str(results), "--out", str(out), "--no-asv"]) == 0
    return Page((out / "index.html").read_text(encoding="utf-8"))


def decoded(data: dict[str, Any], site: Path) -> pd.DataFrame:
    """The page's data as the page reads it."""
    rows = []
    for view in data["views"]:
        for commit in view["commits"]:
            own = commit if "cells" in commit else content(site, commit["file"])
            cells, strings = own["cells"], own["strings"]
            for at, place in enumerate(cells["place"]):
                row = {"machine": view["machine"], "commit": commit["hash"]}
                row |= {name: data["strings"][data["places"][name][place]] for name in PLACE_TEXT}
                row |= {name: data["places"][name][place] for name in PLACE_NUMBERS}
                row |= {name: strings[cells[name][at]] for name in TEXT}
                row |= {name: cells[name][at] if at < len(cells[name]) else None for name in NUMBERS}
                kernels = cells["kernels"][at] if at < len(cells["kernels"]) else []
                rows.append(row | {"kernels": [strings[kernel] for kernel in kernels or []]})
    return pd.DataFrame(rows)


def test_every_number_on_the_page_is_the_dataframes(results: Path, tmp_path: Path) -> None:
    cells = history.load(results).cells
    shown = decoded(build(results, tmp_path).data, tmp_path)
    key = ["machine", "commit", "series", "operation", "size", "dtype", "direction", "backend"]
    assert len(shown) == len(cells) > 1000
    assert not cells.duplicated(key).any()
    cells, shown = cells.sort_values(key, ignore_index=True), shown.sort_values(key, ignore_index=True)
    for name in (*PLACE_TEXT, *TEXT):
        assert (shown[name] == cells[name]).all(), name
    for name in (*PLACE_NUMBERS, *NUMBERS):
        of_page = shown[name].astype("float64")
        assert (of_page.isna() == cells[name].isna()).all(), name
        assert (abs(of_page - cells[name]).dropna() <= 1e-6 * abs(cells[name]).dropna()).all(), name
    assert (shown["kernels"] == cells["kernels"]).all()


def test_commits_and_machines_stand_newest_first(tmp_path: Path) -> None:
    demo.write(tmp_path, demo.COMMITS[:1], machine="old")
    demo.write(tmp_path, demo.COMMITS[:3], machine="new", seed=1)
    views = site_data(history.load(tmp_path)).page["views"]
    assert [view["machine"] for view in views] == ["new", "old"]
    dates = [commit["date"] for commit in views[0]["commits"]]
    assert dates == sorted(dates, reverse=True)


def test_the_page_loads_nothing(results: Path, tmp_path: Path) -> None:
    page = build(results, tmp_path)
    for tag, attributes in page.elements:
        for name in ("src", "href", "action", "data", "srcset"):
            value = attributes.get(name) or ""
            ours = value in ("feed.xml", "cells.csv", "cells.parquet") or value.startswith(("#", "data:", "asv/"))
            assert ours or not value, f"<{tag} {name}={value}>"
        assert not (tag == "link" and attributes.get("rel") == "stylesheet")
    (policy,) = (attributes["content"] for tag, attributes in page.elements if attributes.get("http-equiv") is not None)
    assert "default-src 'none'" in (policy or "")
    code = "".join(path.read_text() for path in sources("*.css", "pages/*.css", *SCRIPTS))
    assert not re.search(r"https?://|@import|\bfetch\((?!\))|XMLHttpRequest|innerHTML|\beval\(", code)


def test_no_two_scripts_give_the_same_name_to_unlike_things() -> None:
    names = Counter(
        name
        for path in sources(*SCRIPTS)
        for name in re.findall(
            r"^(?:async )?(?:function|const|let|class) ([A-Za-z_$]+)", path.read_text(), re.MULTILINE
        )
    )
    assert [name for name, times in names.items() if times > 1] == []


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_stays_text(tmp_path: Path, text: str) -> None:
    machine = text.replace("/", "|").replace("\x00", "")[:100]
    path = demo.write(tmp_path / "results", [demo.Commit(text)], machine=machine, modules=["template"])[0]
    journal = path.read_text().replace("needs CUDA", json.dumps(text)[1:-1])
    path.write_text(journal + '{"schema": "' + json.dumps(text)[1:-1] + '"}\n')
    page = build(tmp_path / "results", tmp_path / "site")
    plain = Page(render(site_data(history.load(_plain(tmp_path / "plain"))).page, asv_pages=False))
    assert page.scripts[1:] == plain.scripts[1:]
    assert {tag for tag, _ in page.elements} <= {tag for tag, _ in plain.elements} | {"details", "summary", "ul", "li"}
    assert not any("onerror" in attributes for _, attributes in page.elements)
    (view,) = page.data["views"]
    assert view["machine"] == machine
    assert view["commits"][0]["subject"] == text
    assert text in view["commits"][0]["strings"]


def _plain(results: Path) -> Path:
    demo.write(results, [demo.Commit("plain")], modules=["template"])
    return results


def test_no_results_yet(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    page = build(tmp_path / "results", tmp_path / "site")
    assert page.data["views"] == []
    assert "make bench" in (tmp_path / "site" / "index.html").read_text()


def test_no_folder_of_results_is_an_error_with_a_way_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["build", "--results", str(tmp_path / "no"), "--out", str(tmp_path / "site"), "--no-asv"]) == 2
    assert "make bench" in capsys.readouterr().err


def test_what_could_not_be_read_stands_on_the_page_and_on_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = demo.write(tmp_path / "results", demo.COMMITS[:1], modules=["template"])[0]
    with path.open("a") as file:
        file.write("{torn")
    build(tmp_path / "results", tmp_path / "site")
    assert "torn" in capsys.readouterr().err
    assert "the last line is torn" in (tmp_path / "site" / "index.html").read_text()
    assert main(["check", "--results", str(tmp_path / "results")]) == 1
    assert path.name in capsys.readouterr().out


def test_data_cannot_end_its_element_and_has_no_nan(results: Path) -> None:
    data = site_data(history.load(results))
    text = to_json([data.page, data.files])
    assert not set("<>&") & set(text)
    assert text.isascii()
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def test_the_reader_needs_no_torch(results: Path, tmp_path: Path) -> None:
    code = (
        "import sys; from dashboard.__main__ import main;"
        f"main(['build', '--results', {str(results)!r}, '--out', {str(tmp_path)!r}, '--no-asv']);"
        "assert 'torch' not in sys.modules, 'torch was imported'"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, timeout=120)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.00321, "s", "3.21 ms"), (1.0, "s", "1.00 s"), (0.9996, "s", "1.00 s"), (12.34, "s", "12.3 s"),
        (4.56e-7, "s", "456 ns"), (2.517e9, "B", "2.52 GB"), (603979776, "B", "604 MB"), (999.6, "B", "1.00 kB"),
        (42, "B", "42 B"), (0, "B", "0 B"), (9.5e10, "FLOP/s", "95.0 GFLOP/s"), (float("nan"), "s", "unknown"),
    ],
)  # fmt: skip
def test_units(value: float, unit: str, text: str) -> None:
    assert units.si(value, unit) == text.replace(" ", "\u00a0")


def test_state_of_the_machine_in_words(results: Path) -> None:
    data = site_data(history.load(results)).page
    assert "load 0.4; CPU time stolen 0; MHz 2500" in data["views"][0]["commits"][0]["strings"]


def test_one_commit_without_a_date(tmp_path: Path) -> None:
    path = demo.write(tmp_path, demo.COMMITS[:1], modules=["template"])[0]
    path.write_text(path.read_text().replace('"commit_date": "2026', '"commit_date": "yesterday 2026'))
    (view,) = site_data(history.load(tmp_path)).page["views"]
    assert view["commits"][0]["date"] == ""
    assert pd.isna(history.load(tmp_path).cells["commit_date"]).all()
