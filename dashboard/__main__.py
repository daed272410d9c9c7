"""``python -m dashboard``: build the site, serve it, check that the results can be read."""

from __future__ import annotations

import argparse
import functools
import http.server
import shutil
import sys
from pathlib import Path

from dashboard import alarms, asv_pages, downloads, feed, history
from dashboard.build import in_short, write_site
from dashboard.payload import site_data


def main(argv: list[str] | None = None) -> int:
    """Run one command; 0 if it did what it was asked, 1 if the results have faults, 2 if it could not."""
    arguments = _parser().parse_args(argv)
    try:
        status: int = arguments.run(arguments)
    except (OSError, ValueError, asv_pages.AsvPagesError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except ImportError as error:
        print(f"error: {error}: pip install 'axialbench[site]'", file=sys.stderr)
        return 2
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m dashboard", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)

    build = commands.add_parser("build", help="write the site")
    build.add_argument("--results", type=Path, default=Path("results"), help="the record (default: results)")
    build.add_argument("--out", type=Path, default=Path("site"), help="where to (default: site)")
    build.add_argument("--asv-html", type=Path, default=Path(".asv/html"), help="asv's pages (default: .asv/html)")
    build.add_argument("--no-asv", action="store_true", help="leave asv's history pages out")
    build.add_argument("--no-publish", action="store_true", help="take --asv-html as it is; do not run `asv publish`")
    build.set_defaults(run=_build)

    serve = commands.add_parser("serve", help="serve the site to this machine's browser")
    serve.add_argument("--out", type=Path, default=Path("site"), help="the site (default: site)")
    serve.add_argument("--port", type=int, default=8000)
    serve.set_defaults(run=_serve)

    figures = commands.add_parser("figures", help="draw the README's figures")
    figures.add_argument("--results", type=Path, default=Path("results"), help="the record (default: results)")
    figures.add_argument("--out", type=Path, default=Path("docs/figures"), help="where to (default: docs/figures)")
    figures.add_argument("--machine", help="whose results (default: those measured last)")
    figures.add_argument("--commit", help="of which commit (default: the newest)")
    figures.set_defaults(run=_figures)

    check = commands.add_parser("check", help="say what changed, commit by commit, and what cannot be read")
    check.add_argument("--results", type=Path, default=Path("results"), help="the record (default: results)")
    check.add_argument("--last", type=int, default=10, metavar="N",
                       help="fail for what the last N commits of a machine made worse (default: 10)")  # fmt: skip
    check.add_argument("--verbose", action="store_true", help="name every cell")
    check.set_defaults(run=_check)
    return parser


def _build(arguments: argparse.Namespace) -> int:
    with history.no_collection():
        read = history.load(arguments.results)
        for finding in read.findings:
            print(f"warning: {finding}", file=sys.stderr)
        events = alarms.events(read)
        data = site_data(read, events, arguments.results)
        page = write_site(data, arguments.out, _asv(arguments, read))
        downloads.write(read.cells, arguments.out)
        feed.write(events, read.cells, arguments.out)
    lines = in_short(data.page)
    ran = [line for line in lines if line["answer"] != "nothing ran"]
    for line in ran:
        print(f"{line['title']}: {line['answer']}")
    if len(ran) < len(lines):
        print(f"(and {len(lines) - len(ran)} more of which nothing ran)")
    print(f"The site lies in {page.resolve()} (open it in a browser; it needs no server)")
    return 0


def _asv(arguments: argparse.Namespace, read: history.History) -> bool:
    """Whether asv's pages stand in the site; why not is said, and the rest of the site goes on."""
    pages = arguments.out / "asv"
    shutil.rmtree(pages, ignore_errors=True)
    if arguments.no_asv:
        return False
    try:
        if not arguments.no_publish:
            asv_pages.publish(arguments.asv_html)
        asv_pages.install(
            arguments.asv_html, pages, dict(zip(read.sweeps["commit"], read.sweeps["subject"], strict=True))
        )
    except asv_pages.AsvPagesError as error:
        print(f"warning: no history pages: {error}", file=sys.stderr)
        return False
    return True


def _serve(arguments: argparse.Namespace) -> int:
    if not (arguments.out / "index.html").is_file():
        raise FileNotFoundError(f"no site in {arguments.out}: run `python -m dashboard build` first")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=arguments.out)
    with http.server.ThreadingHTTPServer(("127.0.0.1", arguments.port), handler) as server:
        print(f"http://127.0.0.1:{server.server_port}/ (Ctrl-C ends it)", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return 0
    return 0


def _figures(arguments: argparse.Namespace) -> int:
    from dashboard import figures

    cells = history.load(arguments.results).cells
    for path in figures.write(figures.newest(cells, arguments.machine, arguments.commit), arguments.out):
        print(path)
    return 0


def _check(arguments: argparse.Namespace) -> int:
    read = history.load(arguments.results)
    for finding in read.findings:
        print(finding)
    found = alarms.events(read)
    for event in found:
        print("\n".join(alarms.lines(event, verbose=arguments.verbose)))
    print(f"{len(read.cells)} cells of {read.cells['commit'].nunique()} commits, {len(read.findings)} faults")
    recent = {where: names[-arguments.last :] for where, names in alarms.commits(read).items()}
    worse = [event for event in found if event.of("confirmed") and event.commit in recent[event.machine, event.env]]
    if worse:
        print(f"worse among the last {arguments.last} commits: {', '.join(event.commit[:8] for event in worse)}")
    return 1 if read.findings or worse else 0


if __name__ == "__main__":
    sys.exit(main())
