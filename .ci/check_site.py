"""The site stands alone and is light: every link inside of it leads somewhere, nothing is loaded from
elsewhere, and what the home page waits for is small, compressed as servers send it.

    python .ci/check_site.py out/site
"""

import gzip
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LIMIT = 200_000  # bytes until the home page is shown, without pictures
LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src"}


class Page(HTMLParser):
    """What a page loads, where it links to, and the places inside of it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.deferred: set[str] = set()
        self.links: list[str] = []
        self.places: set[str] = set()
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        said = {key: value for key, value in attrs if value is not None}
        self.places |= {said[key] for key in ("id", "name") if key in said}
        if tag == "a" and "href" in said:
            self.links.append(said["href"])
        elif tag in LOADED and LOADED[tag] in said:
            self.loaded.append(said[LOADED[tag]])
            if any(key == "defer" for key, _ in attrs):
                self.deferred.add(said[LOADED[tag]])


def target(page: Path, link: str) -> Path:
    """The file that a link of a page names."""
    path = unquote(urlsplit(link).path)
    found = (page.parent / path).resolve() if path else page
    return found / "index.html" if found.is_dir() else found


def failures(site: Path) -> list[str]:
    """One sentence for each thing that is not as it should be."""
    files = site.resolve().rglob("*.html")
    pages = {path: Page(path) for path in files if "_static" not in path.parts}
    said = []
    for path, page in pages.items():
        name = path.relative_to(site.resolve())
        for address in page.loaded:
            if urlsplit(address).netloc:
                said.append(f"{name} loads {address} from elsewhere")
            elif not address.startswith("data:") and not target(path, address).exists():
                said.append(f"{name} loads {address}, which is not there")
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            there = target(path, link)
            if not there.exists():
                said.append(f"{name} links to {link}, which is not there")
            elif (
                there in pages
                and parts.fragment
                and unquote(parts.fragment) not in pages[there].places
            ):
                said.append(f"{name} links to {link}: no such place there")
    return sorted(set(said))


def weight(site: Path) -> int:
    """Bytes, each file compressed, that the home page waits for before it is shown."""
    home = site / "index.html"
    page = Page(home)
    parts = {target(home, address) for address in set(page.loaded) - page.deferred}
    files = [home, *(path for path in parts if path.suffix in (".css", ".js"))]
    return sum(len(gzip.compress(path.read_bytes())) for path in files)


if __name__ == "__main__":
    site = Path(sys.argv[1])
    found, bytes_of_home = failures(site), weight(site)
    if bytes_of_home > LIMIT:
        found.append(f"the home page weighs {bytes_of_home:,} bytes, more than {LIMIT:,}")
    print(*found, f"the home page: {bytes_of_home:,} bytes", sep="\n")
    sys.exit(bool(found))
