"""One measuring at a time: two at once would time each other."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class NotAloneError(RuntimeError):
    """Another run is measuring into the same folder."""


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold the folder's lock, which the system gives back however this process ends (not on Windows).

    Raises NotAloneError, which names the process that holds it.
    """
    try:
        import fcntl
    except ImportError:
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / ".measuring"
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            raise NotAloneError(
                f"process {file.read().strip() or 'unknown'} is measuring into {folder}: two at once would time each "
                "other. Wait for it, or end it; a run that was ended takes up where it stopped"
            ) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield
