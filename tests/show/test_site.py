"""The documentation site, which `make docs` makes, in a real browser."""

import re
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from browsing import SIZES, count_beside, count_broken, set_up

pytestmark = [pytest.mark.slow, pytest.mark.browser]

SITE = Path(__file__).parents[2] / "docs" / "_build" / "html"
PAGES = sorted(str(path.relative_to(SITE)) for path in SITE.rglob("*.html"))
PAGES = [page for page in PAGES if not page.startswith(("_static", "_modules"))]


SOURCES = [
    page for page in sorted(SITE.parents[1].rglob("*.md")) if SITE.parent not in page.parents
]


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        """Nothing: tests print what is wrong."""


@pytest.fixture(scope="module")
def address():
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=SITE))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_site_is_built():
    assert len(PAGES) > 60, "make docs builds it"


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("page", PAGES)
def test_page_opens_without_errors_and_fits(browser, address, page, size):
    set_up(browser, size)
    browser.get_log("browser")
    browser.get(f"{address}/{page}")
    assert count_broken(browser) == 0
    assert count_beside(browser) <= 0
    errors = [e["message"] for e in browser.get_log("browser") if e["level"] == "SEVERE"]
    assert errors == []


DRAWING = [
    page
    for page in SOURCES
    if re.search(r"^(owlfi\.)?(plots|plt)\.|^ *plots\.", page.read_text("utf-8"), re.M)
]


@pytest.mark.parametrize("page", DRAWING, ids=lambda page: page.stem)
def test_pages_that_draw_have_pictures(page):
    html = SITE / page.relative_to(SITE.parents[1]).with_suffix(".html")
    assert "_images/" in html.read_text("utf-8")


@pytest.mark.parametrize("word", ["minimum_distance", "outliers", "SLURM"])
def test_search_finds(browser, address, word):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    set_up(browser, "desk")
    browser.get(f"{address}/search.html?q={word}")
    WebDriverWait(browser, 20).until(
        lambda driver: driver.find_elements(By.CSS_SELECTOR, "#search-results li a")
    )
