"""``results/conformance/contracts.jsonl``: contracts as data, a line for every backend and question."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from impls.conformance.contracts import Contract

SCHEMA = 1


def record(contracts: list[Contract]) -> str:
    """The whole file; ``results/conformance/README.md`` describes it."""
    return "".join(json.dumps(line) + "\n" for contract in contracts for line in lines(contract))


def lines(contract: Contract) -> Iterator[dict[str, Any]]:
    """A line for every question; for a backend that was not run, one that says why."""
    version = torch.__version__.partition("+")[0]
    about = {"schema": SCHEMA, "backend": contract.backend.name, "device": contract.device, "torch": version}
    if contract.unavailable:
        yield about | {"question": None, "declared": None, "found": f"not run: {contract.why_not_run}", "ok": None}
    for finding in contract.findings:
        yield about | {
            "question": finding.question,
            "declared": finding.declared,
            "found": finding.found,
            "ok": finding.ok,
        }
