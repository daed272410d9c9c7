"""The comparisons in pairs of ``results/*/comparisons/``: what cannot be read is a finding, and loses no other.

A comparison is {"file", "machine", "base", "head", "summary", "environment", "outcomes": [outcome, ...]}, a side of it
{"commit", "subject", "backend", "torch"}. An outcome has "cell" (as ``problem.key backend direction`` of the journal),
"name", "verdict", "changes", and "ratio", "low", "high", "detectable", "pairs", or null for each of these.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dashboard.findings import Findings
from dashboard.naming import number

SCHEMA = 1
ESTIMATED = ("ratio", "low", "high", "detectable")
AGAIN = "compare the two again (python -m benchmarks compare), or delete the file"


def comparisons(results: Path, findings: Findings) -> list[dict[str, Any]]:
    """Those recorded under ``results``, written last first."""
    found = []
    for path in results.glob("*/comparisons/*.json"):
        try:
            written, said = path.stat().st_mtime, json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            findings.add(path, f"cannot be read: {error.strerror}", "check that it is a readable file")
            continue
        except (ValueError, RecursionError):
            findings.add(path, "not JSON: half written when the comparison was stopped, or edited", AGAIN)
            continue
        schema = said.get("schema") if isinstance(said, dict) else None
        if schema != SCHEMA:
            way_out = "update AxialBench, or move the file out of the results folder"
            findings.add(path, f"schema {schema!r}; this dashboard reads schema {SCHEMA}", way_out)
            continue
        machine = path.parent.parent.name
        try:
            own = {"file": f"{machine}/comparisons/{path.name}", "machine": machine} | _comparison(said)
        except KeyError as error:
            findings.add(path, f"a comparison without {error}: not written to its end, or by an older version", AGAIN)
        except (TypeError, ValueError, AttributeError) as error:
            findings.add(path, f"a comparison that does not follow schema {SCHEMA} ({str(error)[:200]})", AGAIN)
        else:
            found.append((written, own))
    return [own for _, own in sorted(found, key=lambda pair: pair[0], reverse=True)]


def _comparison(said: dict[str, Any]) -> dict[str, Any]:
    return {
        **{role: _side(said["sides"][role]) for role in ("base", "head")},
        "summary": str(said["summary"]),
        "environment": [str(words) for words in said["environment"]],
        "outcomes": [_outcome(outcome) for outcome in said["outcomes"]],
    }


def _side(side: dict[str, Any]) -> dict[str, str]:
    return {name: str(side.get(name) or "") for name in ("commit", "subject", "backend", "torch")}


def _outcome(outcome: dict[str, Any]) -> dict[str, Any]:
    estimate = outcome["estimate"] or {}
    return {
        **{name: str(outcome[name]) for name in ("cell", "name", "verdict")},
        "changes": [str(words) for words in outcome["changes"]],
        **{name: number(estimate.get(name)) for name in ESTIMATED},
        "pairs": len(outcome["launches"]),
    }
