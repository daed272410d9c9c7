"""The site in a real browser: what goes wrong, what is asked for, and how choices are made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip


class Watched:
    """A page that notes what goes wrong and what it asks for."""

    def __init__(self, browser: Any, **options: Any) -> None:
        self.page = browser.new_context(**{"viewport": {"width": 1300, "height": 900}} | options).new_page()
        self.wrong: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.wrong.append(message.text) if message.type == "error" else None)
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))

    def open(self, address: str) -> Any:
        self.page.goto("about:blank")
        self.page.goto(address)
        settled(self.page)
        return self.page

    def outside(self, base: str) -> list[str]:
        return [url for url in self.requests if not url.startswith((base, "data:", "blob:", "about:"))]


def settled(page: Any) -> None:
    """Wait until what was chosen is shown."""
    page.locator("#main:not([aria-busy])").wait_for()


def choose(page: Any, name: str, value: str) -> None:
    """Choose among the segments called ``name``."""
    page.locator(f"input[name={name}][value='{value}']").check(force=True)
    settled(page)


def select(page: Any, name: str, at: int) -> None:
    """Choose from the list called ``name`` by position."""
    page.locator(f"select[name={name}]").select_option(index=at)
    settled(page)
