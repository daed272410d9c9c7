"""What every backend takes on this device, by dtype and direction, and why not the rest."""

from __future__ import annotations

from benchmarks.gpu_check.parts import Task


def main(task: Task) -> None:
    """A record a backend. Kernels of other packages are loaded to find out: one that kills the process is seen too."""
    import impls

    for name in impls.names():
        task.write(record="asking", backend=name)
        task.write(**answer(name, task.device))


def answer(name: str, device: str) -> dict[str, object]:
    """What the backend called ``name`` says of small problems, with and without bias and mask."""
    import impls
    from impls.abilities import CHOICES, ability, typical

    try:
        backend = impls.get(name)
    except (ImportError, TypeError) as error:
        return {"record": "backend", "backend": name, "runs": False, "words": str(error), "why_not": {}}
    found = ability(backend, device)
    why_not = {
        f"{dtype} {direction}": {
            f"{bias}, {mask}": backend.why_not(typical(direction, bias, mask, dtype, device=device))
            for bias in CHOICES["bias"]
            for mask in CHOICES["mask"]
        }
        for dtype in CHOICES["dtype"]
        for direction in CHOICES["direction"]
    }
    return {"record": "backend", "backend": name, "runs": found.runs, "words": found.words, "why_not": why_not}
