"""The program that computes: one process, told line by line (JSON) what to do next. It may crash; the sweep goes on.

It is started as a program, without the repository on its path, so that the ``impls`` it imports is the one that asv
installed; and says where that lies, so that the sweep can make sure.
"""

from __future__ import annotations

import gc
import importlib.util
import json
import os
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.instrument.inputs import Inputs
    from benchmarks.instrument.problems import Problem
    from benchmarks.instrument.specimen import Call
    from benchmarks.instrument.truth import Truth

T = TypeVar("T")


def import_suite() -> None:
    """Make ``benchmarks`` importable from this file's place, and nothing else that lies beside it."""
    folder = Path(__file__).resolve().parents[1]
    spec = importlib.util.spec_from_file_location(
        "benchmarks", folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None
    assert spec.loader is not None
    sys.modules["benchmarks"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)


class Worker:
    """One problem at a time, prepared on demand, and the calls of every backend on it."""

    def __init__(self, device: str | None, threads: int, limit: int, cold: bool = False) -> None:
        import torch

        from benchmarks.instrument import clock, machine

        torch.set_num_threads(threads)
        torch.set_float32_matmul_precision("highest")
        self.device = device or machine.default_device()
        self.clock: clock.Clock = clock.CudaClock() if self.device == "cuda" else clock.HostClock()
        self.limit, self.cold = limit, cold and self.device == "cpu"
        if self.device == "cpu":
            limit_memory(limit)
        self.forget()

    def hello(self) -> dict[str, Any]:
        """What runs here and on which CPUs: versions, the device, where ``impls`` comes from."""
        from benchmarks.instrument import affinity, machine

        here = {"device": self.device, "cpus": affinity.allowed()}
        return machine.software() | here | machine.hardware(self.device)

    def rates(self) -> dict[str, float]:
        """Multiplications and additions a second in a matrix product of each dtype."""
        import torch

        from benchmarks import axes

        n, rates = 4096 if self.device == "cuda" else 512, {}
        for dtype in axes.DTYPES:
            x = torch.ones(n, n, device=self.device, dtype=getattr(torch, dtype))
            rates[dtype] = 2 * n**3 / min(self.clock.sample(partial(torch.matmul, x, x), 10).seconds)
        return rates

    def forget(self) -> dict[str, Any]:
        """Free the problem at hand."""
        self.problem: Problem | None = None
        self.inputs: Inputs | None = None
        self.truth: Truth | None = None
        self.calls: dict[tuple[str, str], Call] = {}
        self.copies: list[Inputs] = []
        self.timed: dict[tuple[str, str], Callable[[], Any]] = {}
        return self.rest()

    def rest(self) -> dict[str, Any]:
        """Give the device's unused memory back, for the other workers."""
        import torch

        if self.device == "cuda":
            torch.cuda.empty_cache()
        return {}

    def prepare(self, problem: Problem) -> Inputs:
        """The inputs of ``problem``, made anew if another was at hand."""
        from benchmarks.instrument.inputs import seeded
        from benchmarks.instrument.specimen import inputs_of

        if self.problem != problem or self.inputs is None:
            self.forget()
            if "torch._dynamo" in sys.modules:
                sys.modules["torch._dynamo"].reset()
            self.problem, self.inputs = problem, inputs_of(problem, seeded(problem, self.device))
            gc.collect()
            gc.freeze()  # what torch imported by now: to look it through before every block takes a tenth of a second
        return self.inputs

    def call(self, problem: Problem, backend: str, direction: str) -> Call:
        """One call of ``backend`` on ``problem``."""
        from benchmarks.instrument.specimen import backend_called, call_of

        inputs = self.prepare(problem)
        if (backend, direction) not in self.calls:
            self.calls[backend, direction] = call_of(problem, backend_called(backend), direction, inputs)
        return self.calls[backend, direction]

    def to_time(self, problem: Problem, backend: str, direction: str) -> Callable[[], Any]:
        """What is timed: the call, and if inputs are to be cold, in turn with the same on copies of them."""
        from benchmarks.instrument import affinity, cold
        from benchmarks.instrument.specimen import backend_called, call_of

        call, inputs = self.call(problem, backend, direction), self.prepare(problem)
        if not self.copies:
            cache = cold.cache_bytes(affinity.allowed())
            self.copies = cold.copies(inputs, cache, self.limit) if self.cold else [inputs]
        if (backend, direction) not in self.timed:
            found = backend_called(backend)
            others = [call_of(problem, found, direction, copy) for copy in self.copies[1:]]
            pairs = zip([call, *others], self.copies, strict=True)
            self.timed[backend, direction] = cold.in_turn([partial(one, of.cotangent) for one, of in pairs])
        return self.timed[backend, direction]

    def ask(self, problem: Problem, backend: str, direction: str) -> dict[str, Any]:
        """Without running anything: why the backend cannot do it, how many bytes it would need, whether it compiles."""
        from benchmarks.instrument import memory
        from benchmarks.instrument.specimen import backend_called, build, core_problem

        found = backend_called(backend)
        if problem.level == "module":
            build(problem, found)
        if reasons := found.why_not(core_problem(problem, direction, self.device)):
            return {"unsupported": "; ".join(reasons)}
        return {
            "predicted_bytes": memory.predicted(problem, found, direction, self.device),
            "compiles": found.traits.compiles,
        }

    def prove(
        self, problem: Problem, backend: str, direction: str, repeats: int, checked_scores: int
    ) -> dict[str, Any]:
        """Errors against float64, peak bytes, kernels, and the seconds of the first call."""
        from benchmarks.instrument import memory
        from benchmarks.instrument.truth import truth

        call, inputs = self.call(problem, backend, direction), self.prepare(problem)
        right = self.truth = self.truth or truth(problem, inputs, checked_scores)
        first, outputs = stopwatch(lambda: call(right.cotangent), self.device)
        errors = right.errors(outputs)
        del outputs
        found = [memory.measured(call, inputs.cotangent) for _ in range(repeats)]
        return {
            "errors": errors,
            "bytes": [peak for peak, _ in found],
            "kernels": found[-1][1] if found else [],
            "first": first,
        }

    def warm(
        self, problem: Problem, backend: str, direction: str, most: float, last: float | None = None
    ) -> dict[str, Any]:
        """Warm up; the seconds of a call. ``last`` is what is known of them."""
        from benchmarks.instrument import clock

        return {"seconds": clock.warm_up(self.clock, self.to_time(problem, backend, direction), most, last)}

    def time(self, problem: Problem, backend: str, direction: str, n: int) -> dict[str, Any]:
        """``n`` timed calls."""
        from benchmarks.instrument import clock

        call = self.to_time(problem, backend, direction)
        if self.device == "cuda":
            call()  # takes back the memory that a rest gave away
        samples = clock.timed(self.clock, call, n)
        return {"seconds": samples.seconds, "host": samples.host, "copies": len(self.copies)}

    def anchor(self, name: str, n: int) -> dict[str, Any]:
        """``n`` timed calls of an anchor."""
        from benchmarks.instrument import clock
        from benchmarks.instrument.anchor import anchor

        samples = clock.timed(self.clock, anchor(name, self.device), n)
        return {"seconds": samples.seconds, "host": samples.host}

    def obey(self, order: dict[str, Any]) -> dict[str, Any]:
        """Do what ``order`` says under ``do``; its answer, or ``failed`` (a status) and ``reason``."""
        import torch

        from benchmarks.instrument.problems import Problem
        from benchmarks.instrument.specimen import AbsentError

        arguments = {name: value for name, value in order.items() if name != "do"}
        if "problem" in arguments:
            arguments["problem"] = Problem(**arguments["problem"])
        try:
            return getattr(self, order["do"])(**arguments)
        except AbsentError as error:
            return {"failed": "absent", "reason": str(error)}
        except NotImplementedError as error:
            return {"failed": "unsupported", "reason": str(error)}
        except (MemoryError, torch.OutOfMemoryError) as error:
            return {"failed": "oom", "reason": first_line(error)}
        except Exception as error:
            if lost(self.device):
                print(f"{type(error).__name__}: {first_line(error)}", file=sys.stderr, flush=True)
                os._exit(LOST)
            oom = "allocate memory" in str(error)
            return {"failed": "oom" if oom else "crashed", "reason": f"{type(error).__name__}: {first_line(error)}"}


LOST = 70
"""Exit status of a worker whose GPU computes no more."""


def lost(device: str) -> bool:
    """Whether the device computes no more, as after an illegal memory access: only a new process gets it back."""
    import torch

    if device == "cuda":
        try:
            torch.cuda.synchronize()
        except RuntimeError:
            return True
    return False


def stopwatch(call: Callable[[], T], device: str) -> tuple[float, T]:
    """Seconds of one call by the host's clock, from an idle device until it is done; and its result."""
    import torch

    if device == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    result = call()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start, result


def first_line(error: BaseException) -> str:
    """The first line of an error's message, cut to 300 characters."""
    return (str(error).strip().splitlines() or [""])[0][:300]


SLACK = 2 * 1024**3


def limit_memory(limit: int) -> None:
    """Let this process's data grow by ``limit`` bytes and some slack, so that running out is an error and not a kill.

    Linux only.
    """
    if sys.platform == "linux":
        import resource

        status = Path("/proc/self/status").read_text()
        used = next(int(row.split()[1]) * 1024 for row in status.splitlines() if row.startswith("VmData"))
        resource.setrlimit(resource.RLIMIT_DATA, (used + limit + SLACK, resource.RLIM_INFINITY))


def main() -> None:
    """Read settings, then orders from standard input, a JSON object a line; answer on what was standard output."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    import_suite()
    from benchmarks.instrument import machine

    machine.end_with_parent()
    machine.end_first()
    worker = Worker(**json.loads(sys.stdin.readline()))
    print("{}", file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(worker.obey(json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main()
