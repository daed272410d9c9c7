"""What asv does not tell its benchmarks, told: the machine's name, ``-b``, ``--quick`` and ``--dry-run``.

asv loads this as a plugin (``asv.conf.json``) in its own process and hands its environment on to the sweeps.
"""

from __future__ import annotations

import argparse
import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import MutableMapping, Sequence

from benchmarks.instrument import origin

MEASURING = ("run", "continuous")
LOCAL = "local"


def tell(argv: Sequence[str], environ: MutableMapping[str, str]) -> None:
    """Put what the sweep must know of asv's arguments ``argv`` into ``environ``.

    Without ``--machine`` the machine is called ``local``: asv's own default is the host's name, which would be
    published with the results.
    """
    options = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    options.add_argument("--machine", "-m", type=origin.machine_name)
    options.add_argument("--bench", "-b", action="append", default=[])
    options.add_argument("--quick", "-q", action="store_true")
    options.add_argument("--dry-run", "-n", action="store_true")
    options.add_argument("--set-commit-hash")
    given, _ = options.parse_known_args(list(argv))
    environ["AXIALBENCH_MACHINE"] = given.machine or LOCAL
    environ.setdefault("AXIALBENCH_BENCH", "\n".join(given.bench))
    if given.quick:
        environ.setdefault("AXIALBENCH_EFFORT", "quick")
    if given.set_commit_hash:
        environ["AXIALBENCH_COMMIT"] = given.set_commit_hash
    if given.dry_run:
        environ["AXIALBENCH_RESULTS"] = folder = tempfile.mkdtemp(prefix="axialbench-dry-run-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)


def setup() -> None:
    """asv calls this when it loads the plugin."""
    from asv.console import log
    from asv.machine import Machine

    Machine.hardcoded_machine_name = LOCAL
    if any(command in sys.argv[1:3] for command in MEASURING):
        tell(sys.argv[1:], os.environ)
        describe(os.environ["AXIALBENCH_MACHINE"])
        for warning in origin.warnings(origin.dirty()):
            log.warning(warning)


def describe(name: str) -> None:
    """Have asv know this machine as ``name``, unless it does. It would ask, and suggest the host's name."""
    from asv.machine import Machine, MachineCollection
    from asv.util import UserError

    try:
        MachineCollection.load(name)
    except UserError:
        MachineCollection.save(name, Machine.get_defaults() | {"machine": name})
