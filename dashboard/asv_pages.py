"""asv's history pages with no network: its published data under the face of asv-tachyon, over http and from a file.

asv's own pages load ten files from other hosts, so they are left out. asv-tachyon's page fetches JSON, which browsers
refuse to a page opened from a file: beside each JSON file stands the same data as a script, and ``from_file.js``
answers the page's requests from those.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

DATA = ("index.json", "info.json", "regressions.json", "regressions.xml", "graphs")
PUBLISHED = "published.js"
FROM_FILE = Path(__file__).parent / "site" / "from_file.js"


class AsvPagesError(RuntimeError):
    """asv's pages could not be made; the message says why and what to do."""


def publish(asv_html: Path) -> None:
    """Run ``asv publish`` into ``asv_html`` in the current directory. Raises AsvPagesError when it fails."""
    _run([sys.executable, "-m", "asv", "publish", "--html-dir", str(asv_html)])


def install(asv_html: Path, out: Path, subjects: Mapping[str, str]) -> None:
    """Copy what ``asv publish`` wrote to ``asv_html`` into the new folder ``out``, under asv-tachyon's face.

    ``subjects`` are the first lines of the commits' messages, by full hash. Raises AsvPagesError where asv has
    published nothing or asv-tachyon is missing.
    """
    if not (asv_html / "index.json").is_file():
        raise AsvPagesError(f"{asv_html} holds no published pages of asv: run `asv publish` first")
    out.mkdir(parents=True)
    for name in DATA:
        source = asv_html / name
        if source.is_dir():
            shutil.copytree(source, out / name)
        elif source.exists():
            shutil.copy2(source, out / name)
    _run([sys.executable, "-m", "asv_tachyon", "install", "--no-backup", str(out)])
    (out / "commits.json").write_text(json.dumps({"by_hash": dict(subjects)}), encoding="utf-8")
    _make_readable_from_a_file(out)


def _run(command: list[str]) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except subprocess.CalledProcessError as error:
        said = (error.stderr or error.stdout).strip().splitlines()
        module = command[2]
        missing = f"No module named {module}" in error.stderr
        way_out = "install it: pip install 'axialbench[bench]'" if missing else "; ".join(said[-3:])
        raise AsvPagesError(f"`{' '.join(command[1:])}` failed: {way_out}") from error


def _make_readable_from_a_file(out: Path) -> None:
    """Give every JSON file its script, and let the page's own script be a plain one (modules need a server)."""
    names = []
    for path in sorted(out.rglob("*.json")):
        name, data = path.relative_to(out).as_posix(), json.loads(path.read_text(encoding="utf-8"))
        path.with_name(path.name + ".js").write_text(f"answerFromFile({json.dumps(name)},{json.dumps(data)})\n")
        names.append(name)
    (out / PUBLISHED).write_text(f"publish({json.dumps(names)})\n")
    page = out / "index.html"
    html = page.read_text(encoding="utf-8")
    shutil.copy2(FROM_FILE, out / FROM_FILE.name)
    html = re.sub(
        r'<script type="module"( crossorigin)? src=',
        f'<script src="{FROM_FILE.name}"></script><script src="{PUBLISHED}"></script><script defer src=',
        html,
    )
    html = re.sub(r'(<link rel="stylesheet") crossorigin', r"\1", html)
    page.write_text(html, encoding="utf-8")
