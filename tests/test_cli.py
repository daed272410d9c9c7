"""``python -m impls``: the table of backends, in words and as JSON."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import impls
from impls.__main__ import main
from impls.abilities import ability
from impls.interface import Backend
from impls.problem import CoreProblem


def limited(limits) -> Backend:
    return Backend("limited", "", impls.get("eager").attend, limits=limits)


def test_the_command_prints_every_backend() -> None:
    result = subprocess.run([sys.executable, "-m", "impls"], capture_output=True, text=True, check=True)
    header, rule, *lines = result.stdout.splitlines()
    assert header.split("  ")[0] == "backend"
    assert set(rule) == {"-", " "}
    assert [line.split()[0] for line in lines if not line.startswith(" ")] == impls.names()


def test_every_column_is_aligned(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "90")
    main([])
    header, *lines = capsys.readouterr().out.splitlines()
    second = header.index("what it is")
    assert all(len(line) <= 90 for line in lines)
    assert all(line[second - 2 : second].strip(" ") == "" for line in lines if not line.startswith("-"))


def test_json_says_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--json"])
    table = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert list(table) == impls.names()
    assert table["eager"]["devices"]["cpu"] == {"runs": True, "words": "yes", "reasons": []}
    assert table["eager"]["traits"]["exact"] is True
    assert table["eager"]["error"] is None


@pytest.mark.usefixtures("plugin")
def test_a_broken_plugin_is_a_row_with_its_error(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--json"])
    table = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert "No module named 'no_such_module'" in table["broken"]["error"]
    assert "expected an impls.Backend" in table["number"]["error"]
    assert table["mean_of_v"]["devices"]["cpu"]["runs"]
    assert table["sundays"]["devices"]["cpu"] == {"runs": False, "words": "no", "reasons": ["only on Sundays"]}
    main([])
    assert "cannot be loaded" in capsys.readouterr().out


def forward_only(p: CoreProblem) -> list[str]:
    return ["has no backward"] if p.training or p.bias_grad else []


def half_without_bias(p: CoreProblem) -> list[str]:
    return ["no bias"] * (p.bias_shape is not None) + ["half only"] * (p.dtype not in ("bfloat16", "float16"))


def no_bias_gradient(p: CoreProblem) -> list[str]:
    return ["no gradient of the bias"] if p.bias_grad else []


@pytest.mark.parametrize(
    ("limits", "words", "reasons"),
    [
        (lambda p: [], "yes", ()),
        (lambda p: ["needs a GPU"], "no", ("needs a GPU",)),
        (lambda p: ["needs a GPU", *half_without_bias(p)], "no", ("needs a GPU",)),
        (forward_only, "yes: forward only", ("has no backward",)),
        (half_without_bias, "yes: problems without a bias; bfloat16, float16", ("half only", "no bias")),
        (no_bias_gradient, "yes: not training with a bias", ("no gradient of the bias",)),
    ],
)
def test_limits_become_words(limits, words: str, reasons: tuple[str, ...]) -> None:
    found = ability(limited(limits), "cpu")
    assert (found.words, set(found.reasons)) == (words, set(reasons))
