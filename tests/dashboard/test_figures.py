"""The README's figures, drawn without a browser."""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from dashboard import charts, demo, history
from dashboard.__main__ import main

pytest.importorskip("vl_convert", reason="vl-convert-python is not installed")

from dashboard import figures


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("results")
    demo.write(path, demo.COMMITS[:2])
    demo.write(path, [demo.Commit("elsewhere")], machine="other", modules=["msa_row"], seed=3)
    return path


def test_figures_are_drawn(results: Path, tmp_path: Path) -> None:
    assert main(["figures", "--results", str(results), "--out", str(tmp_path), "--machine", "generated"]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"speedup.svg", "speedup.png", "scaling.svg", "scaling.png"}
    assert (tmp_path / "speedup.png").read_bytes().startswith(b"\x89PNG")
    text = "".join(ElementTree.parse(tmp_path / "speedup.svg").getroot().itertext())
    for shown in ("MSA row attention with pair bias", "Template pointwise attention", "chunked", "training", "2×"):
        assert shown in text
    text = "".join(ElementTree.parse(tmp_path / "scaling.svg").getroot().itertext())
    for shown in ("Memory beyond the inputs", "R (residues)", "768", "eager", " GB", " ms"):
        assert shown in text


def test_the_newest_commit_is_drawn_unless_another_is_named(results: Path) -> None:
    cells = history.load(results).cells
    first, *_, last = cells[cells["machine"] == "generated"]["commit"]
    assert set(figures.newest(cells)["commit"]) == {last}
    assert set(figures.newest(cells, commit=first[:8])["commit"]) == {first}
    assert set(figures.newest(cells, machine="other")["machine"]) == {"other"}
    with pytest.raises(ValueError, match="nowhere"):
        figures.newest(cells, machine="nowhere")


def test_points_are_the_dataframes_numbers(results: Path) -> None:
    cells = figures.newest(history.load(results).cells)
    spec = figures.scaling(cells[cells["dtype"] == "float32"])
    assert spec is not None
    times, bytes_ = (panel["data"]["values"] for panel in spec["hconcat"])
    own = cells[
        (cells["operation"] == "msa_row") & (cells["series"] == "OverR") & (cells["direction"] == "forward")
        & (cells["dtype"] == "float32") & (cells["backend"] == "sdpa")
    ].set_index("R")  # fmt: skip
    assert {v["size"]: v["value"] for v in times if v["backend"] == "sdpa"} == own["seconds"].to_dict()
    assert {v["size"]: v["value"] for v in bytes_ if v["backend"] == "sdpa"} == own["bytes"].to_dict()
    assert all(value["low"] <= value["value"] <= value["high"] for value in times)


def test_predicted_bytes_are_told_from_measured() -> None:
    row = {"backend": "eager", "S": 5120.0, "size": "S=5120", "bytes": float("nan"), "predicted_bytes": 5e11}
    (value,) = figures.points(row, "S", "B", figures.BYTES)
    assert (value["kind"], value["value"]) == ("predicted", 5e11)


def test_backends_keep_their_looks_whoever_else_is_shown() -> None:
    few, many = charts.scales(["eager", "sdpa"]), charts.scales(["eager", "ours", "sdpa", "chunked"])
    for name in ("colours", "shapes"):
        looks = [dict(zip(found[name]["domain"], found[name]["range"], strict=True)) for found in (few, many)]
        assert looks[0]["sdpa"] == looks[1]["sdpa"]
        assert len({(many["colours"]["range"][i], many["shapes"]["range"][i]) for i in range(4)}) == 4


def test_nothing_to_draw_is_an_error_with_a_way_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "results").mkdir()
    assert main(["figures", "--results", str(tmp_path / "results"), "--out", str(tmp_path / "f")]) == 2
    assert "no results" in capsys.readouterr().err


def test_without_the_library_it_says_what_to_install(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    monkeypatch.delitem(sys.modules, "dashboard.figures")
    monkeypatch.delattr("dashboard.figures")
    assert main(["figures", "--results", str(results)]) == 2
    assert "axialbench[site]" in capsys.readouterr().err
