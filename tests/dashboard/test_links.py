"""Links inside the site: they keep what is chosen, lead to the very thing they speak of, and the way back is open."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, parse_qsl
from xml.etree import ElementTree

import pandas as pd
import pytest
from site_browser import Watched, settled

from dashboard import demo, history
from dashboard.__main__ import main
from dashboard.feed import ATOM

COMMITS = [demo.Commit(f"commit {n}") for n in range(16)]
COMMITS[8] = demo.Commit("slower", {"chunked": 1.4}, heavier={"sdpa": 1.5})
COMMON = {"place": f"second/{demo.ENV}/2", "direction": "training", "dtype": "bfloat16", "theme": "dark"}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("results")
    demo.write(path, COMMITS, modules=["msa_row", "template", "depth"], machine="second", noise=0.01)
    demo.write(path, COMMITS[:9], modules=["template"], machine='<i> "b" & #?%2F', noise=0.01, seed=1)
    return path


@pytest.fixture(scope="module")
def site(results: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    out = tmp_path_factory.mktemp("site")
    assert main(["build", "--results", str(results), "--out", str(out), "--no-asv"]) == 0
    return out.as_uri() + "/index.html"


@pytest.fixture(scope="module")
def cells(results: Path) -> pd.DataFrame:
    found = history.load(results).cells
    return found[(found["machine"] == "second") & (found["commit"] == found["commit"].iloc[-1])]


def chosen(address: str) -> dict[str, str]:
    return dict(parse_qsl(address.partition("#")[2]))


def opened(watched: Watched, site: str, page: str, **more: str) -> Any:
    """A page on which nothing common is as it is at first: the third newest commit of a machine, in training."""
    shown = watched.open(f"{site}#page={page}&" + "&".join(f"{name}={value}" for name, value in COMMON.items()))
    commit = shown.locator("select[name=commit] option").nth(2).get_attribute("value")
    address = f"{site}#" + "&".join(f"{k}={v}" for k, v in (COMMON | {"commit": commit, "page": page} | more).items())
    return watched.open(address)


def follow(page: Any, link: Any) -> dict[str, str]:
    before = page.url
    link.click()
    page.wait_for_function("before => location.href !== before", arg=before)
    page.wait_for_timeout(50)
    settled(page)
    return chosen(page.url)


@pytest.mark.parametrize(
    "page", ["verdict", "where", "scaling", "history", "compare", "changes", "correctness", "trust"]
)
def test_every_link_keeps_what_is_commonly_chosen_or_says_what_else(watched: Watched, site: str, page: str) -> None:
    shown = opened(watched, site, page)
    common = {name: value for name, value in chosen(shown.url).items() if name in (*COMMON, "commit")}
    links = shown.locator(f"#pages a, [data-page={page}] a[href^='#']:not(.vega-actions a)").evaluate_all(
        "all => all.map(link => link.getAttribute('href'))"
    )
    assert len(links) >= 8
    for link in links:
        kept = chosen(link)
        assert kept["page"], link
        assert kept["theme"] == "dark", link
        if kept["place"] != common["place"]:
            continue  # a change that another machine measured: another place, and its own commits
        differs = {name for name, value in common.items() if kept.get(name) != value}
        allowed = {"history": {"direction", "dtype"}, "compare": {"commit"}}.get(kept["page"], set())
        assert differs <= (allowed if page in ("changes", "history", "compare") else set()), link


def test_a_cards_numbers_lead_to_the_cell_that_they_are_of(watched: Watched, site: str, cells: pd.DataFrame) -> None:
    page = opened(watched, site, "verdict")
    newest = page.locator("select[name=commit] option").first.get_attribute("value")
    page = watched.open(page.url.replace(chosen(page.url)["commit"], newest))
    card = page.locator(".glance").first
    own = cells[(cells["operation"] == "msa_row") & (cells["dtype"] == "bfloat16") & (cells["direction"] == "training")]
    best = card.locator(".use").inner_text().split()[0]
    row = own[(own["backend"] == best) & (own["size"] == "S=128")].iloc[0]
    facts = card.locator(".facts a")
    said = facts.all_inner_texts()
    assert float(said[0].removesuffix("×")) == pytest.approx(row["speedup"], rel=5e-3)
    assert [float(end.removesuffix("×")) for end in said[1].split(" to ")] == pytest.approx(
        [row["speedup_low"], row["speedup_high"]], rel=5e-3
    )
    assert float(said[3].split("\u00a0")[0]) == pytest.approx(row["seconds"] * 1e3, rel=5e-3)
    assert said[5] == f"{math.floor(100 * row['error'] + 0.5)}\u00a0%"
    for n, show in ((0, "speedup"), (3, "time"), (4, "memory"), (5, "error")):
        number = facts.nth(n).inner_text()
        kept = follow(page, facts.nth(n))
        assert {name: kept[name] for name in COMMON} == COMMON
        assert kept["show"] == show
        cell = page.locator("button.cell[aria-current=location]")
        assert number in cell.inner_text()
        assert cell.locator("xpath=ancestor::tr/th").inner_text().split("\n")[0] == best
        assert page.evaluate("document.activeElement.getAttribute('aria-current')") == "location"
        box = cell.bounding_box()
        assert 0 <= box["y"] <= 900
        details = page.locator("#details")
        assert "Interval" in details.inner_text()
        page.go_back()
        page.wait_for_timeout(50)
        settled(page)
        assert details.is_hidden()
        assert page.locator("[aria-current=location]").count() == 0


def test_a_drift_leads_to_its_cell_and_a_title_to_its_section(watched: Watched, site: str) -> None:
    page = opened(watched, site, "verdict")
    card = page.locator(".glance", has_text="Depth")
    number = card.locator(".facts a").first.inner_text()
    follow(page, card.locator(".facts a").first)
    assert number in page.locator("button.cell[aria-current=location]").inner_text()
    follow(page, page.locator(".glance h3 a").nth(1))
    assert page.evaluate("document.activeElement.tagName + document.activeElement.innerText").startswith("H2Template")


def test_a_cells_card_leads_to_its_history_and_to_its_samples(watched: Watched, site: str) -> None:
    page = opened(watched, site, "verdict")
    section = page.locator("#operation-msa_row-core")
    for series in range(3):  # the centre of all three is one measurement, and stands in each
        section.locator(".series").nth(series).locator("tbody tr", has_text="chunked").locator("button.cell").nth(
            1
        ).click()
        heading = page.locator("#details h3").inner_text()
        kept = follow(page, page.locator("#details .links a").nth(1))
        assert {name: kept[name] for name in COMMON} == COMMON
        assert page.locator("#notice").inner_text() == ""
        assert page.locator("#trust-cell h4").inner_text().startswith("chunked, MSA row attention")
        assert page.locator("#details").is_hidden()
        page.go_back()
        section.locator("table").first.wait_for()
    size = heading.split(", ")[1].replace(" ", "=")
    section.locator(".series").nth(2).locator("tbody tr", has_text="chunked").locator("button.cell").nth(1).click()
    kept = follow(page, page.locator("#details .links a").nth(0))
    assert kept["cell"].endswith(size)
    assert kept["direction"] == "training"
    assert page.locator("#notice").inner_text() == ""


def test_an_event_has_an_address_that_opens_it_and_the_back_button_works(watched: Watched, site: str) -> None:
    page = opened(watched, site, "verdict")
    kept = follow(page, page.locator("#lately-title + ul a").first)
    assert {name: kept[name] for name in COMMON} == COMMON
    event = page.locator("details.event[open]")
    assert event.count() == 1
    assert event.get_attribute("id") == kept["at"]
    assert page.evaluate("document.activeElement.tagName") == "SUMMARY"
    again = watched.open(page.url)
    assert again.locator("details.event[open]").get_attribute("id") == kept["at"]
    page = opened(watched, site, "trust")
    cell = follow(page, page.locator("#trust-table tbody th a").nth(3))["cell"]
    follow(page, page.locator("#pages a", has_text="What changed"))
    assert page.evaluate("document.activeElement.innerText") == "What changed"
    for _ in range(2):
        page.go_back()
        page.wait_for_timeout(50)
        settled(page)
    assert chosen(page.url)["page"] == "trust"
    assert chosen(page.url).get("cell") != cell
    notice = watched.open(f"{site}#page=changes&at=%3Cimg%20src=x%3E").locator("#notice")
    assert notice.inner_text() == "Not on this page: <img src=x>."


def test_the_feeds_links_open_their_events(watched: Watched, site: str, results: Path) -> None:
    feed = ElementTree.parse(Path(site.removeprefix("file://")).with_name("feed.xml")).getroot()
    links = [entry.find(f"{{{ATOM}}}link").get("href") for entry in feed.findall(f"{{{ATOM}}}entry")]  # type: ignore[union-attr]
    assert len(links) >= 2
    assert len(set(links)) == len(links)
    for link in links:
        page = watched.open(site.replace("index.html", str(link)))
        (at,) = parse_qs(str(link).partition("#")[2])["at"]
        assert page.locator("details.event[open]").get_attribute("id") == at
        assert page.locator("#notice").inner_text() == ""


def test_a_page_that_a_link_leads_to_begins_at_its_top(watched: Watched, site: str) -> None:
    page = opened(watched, site, "history")
    page.locator(".data-table:visible").scroll_into_view_if_needed()
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    assert page.evaluate("scrollY") > 100
    follow(page, page.locator("[data-page=history] .data-table tbody th a").first)
    assert page.evaluate("scrollY") == 0
    assert page.evaluate("document.activeElement.id") == "compare-title"
