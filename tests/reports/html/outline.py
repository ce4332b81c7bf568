"""The parts of a page that can be checked without a browser."""

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote


class Outline(HTMLParser):
    """Parser for the parts of a page that can be checked without a browser."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.anchors: list[str] = []
        self.text = ""
        self.feed(html)

    def dead_links(self, directory: Path) -> list[str]:
        """Return the links without a target on the page or below the directory of the page."""
        names = [unquote(link) for link in self.links]
        return [
            name
            for name in names
            if (name[1:] not in self.anchors if name.startswith("#") else not (directory / name).exists())
        ]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        self.tags.append(tag)
        if tag == "a":
            self.links.append(named["href"] or "")
        if named.get("id"):
            self.anchors.append(named["id"] or "")

    def handle_data(self, data: str) -> None:
        self.text += data
