"""Every link inside the built site leads somewhere: `python check_links.py _build/html`."""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The links, pictures and anchors of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        self.anchors.update(filter(None, (known.get("id"), known.get("name"))))
        self.targets += filter(None, (known.get("href"), known.get("src")))


def read_page(path: Path) -> Page:
    """Raises UnicodeDecodeError for what is no text."""
    page = Page()
    page.feed(path.read_text())
    return page


def find_broken(root: Path) -> list[str]:
    """Links that lead to no file, or to no anchor of one; those to other sites are not followed."""
    written = [path for path in sorted(root.rglob("*.html")) if "_static" not in path.parts]
    pages = {path: read_page(path) for path in written}
    broken = []
    for path, page in pages.items():
        for target in page.targets:
            link = urlsplit(target)
            if link.scheme or link.netloc:
                continue
            aim = (path.parent / unquote(link.path)).resolve() if link.path else path
            anchors = pages[aim].anchors if aim in pages else {link.fragment}
            if not aim.exists() or (link.fragment and unquote(link.fragment) not in anchors):
                broken.append(f"{path.relative_to(root)}: {target}")
    return broken


if __name__ == "__main__":
    site = Path(sys.argv[1]).resolve()
    found = find_broken(site)
    print("\n".join(found) or f"every link inside {site} leads somewhere")
    sys.exit(f"{len(found)} broken links in {site}" if found else 0)
