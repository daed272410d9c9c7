"""What changed, on the page and in the feed; and the dataset beside it."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pandas as pd
import pytest

from dashboard import demo, history
from dashboard.__main__ import main
from dashboard.feed import ATOM

HOSTILE = '<script>alert(1)</script> & "quotes" \x1b[31m \u202eleft'
WORSE = demo.Commit(HOSTILE, {"chunked": 1.2}, heavier={"sdpa": 1.5})


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    results, out = tmp_path_factory.mktemp("results"), tmp_path_factory.mktemp("site")
    commits = [*(demo.Commit(f"before {n}") for n in range(10)), WORSE, *(demo.Commit(f"after {n}") for n in range(6))]
    demo.write(results, commits, modules=["template"], dtypes=["float32"], noise=0.01)
    assert main(["build", "--results", str(results), "--out", str(out), "--no-asv"]) == 0
    (out / "results").symlink_to(results)
    return out


def test_the_page_tells_the_commit_that_made_it_worse_and_its_text_breaks_nothing(site: Path) -> None:
    html = (site / "index.html").read_text()
    (section,) = html.split('<section id="changed"')[1:]
    section = section.partition("</section>")[0]
    assert section.count('class="event worse"') == 1
    assert "<script>" not in section
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in section
    assert "more memory" in section
    assert "template_pointwise OverT T=4 float32 chunked forward" in section


def test_the_feed_has_an_entry_for_it(site: Path) -> None:
    feed = ElementTree.parse(site / "feed.xml").getroot()
    entries = feed.findall(f"{{{ATOM}}}entry")
    titles = [entry.findtext(f"{{{ATOM}}}title") or "" for entry in entries]
    (title,) = [title for title in titles if "more memory" in title]
    assert "<script>alert(1)</script>" in title
    content = entries[titles.index(title)].findtext(f"{{{ATOM}}}content") or ""
    assert "slower: template_pointwise OverT T=4 float32 chunked forward: +" in content


def test_the_downloads_are_the_dataframe(site: Path) -> None:
    cells = history.load(site / "results").cells
    for got in (pd.read_csv(site / "cells.csv", low_memory=False), pd.read_parquet(site / "cells.parquet")):
        assert list(got.columns) == list(cells.columns)
        assert len(got) == len(cells)
        assert got["seconds"].dropna().tolist() == pytest.approx(cells["seconds"].dropna().tolist())
        assert json.loads(got["samples"].iloc[0] or "[]") == cells["samples"].iloc[0]
