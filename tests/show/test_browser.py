"""Reports in a real browser: no errors, no requests, nothing beside the page.

It takes Chromium and its driver (`apt-get install chromium chromium-driver`) and selenium (`pip
install selenium`); `make test-browser` asks for these tests, and they fail where one is missing.
"""

import json

import pytest

import owlfi
from browsing import SIZES, count_beside, count_broken, set_up
from gaussian import RULE, gaussian_problem
from results_of_all_kinds import RESULTS, make_check

pytestmark = [pytest.mark.slow, pytest.mark.browser]

PALE = "return getComputedStyle(document.body).backgroundColor"


def requests_of(browser):
    """All that the page asked for, but itself."""
    messages = [json.loads(e["message"])["message"] for e in browser.get_log("performance")]
    sent = [
        m["params"]["request"]["url"]
        for m in messages
        if m["method"] == "Network.requestWillBeSent"
    ]
    return [url for url in sent if not url.startswith(("data:", "file:///"))]


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reports")
    found = {
        name: owlfi.report(result, folder / f"{number}.html")
        for number, (name, result) in enumerate(RESULTS.items())
    }
    problem = gaussian_problem()
    estimate = owlfi.Estimate(
        ("mean",),
        RESULTS["estimate"].theta[:1],
        problem.observed[:1] ** 2,
        RESULTS["estimate"].squared_mmd,
    )
    options = {
        "problem": problem,
        "rule": RULE,
        "check": make_check(1),
        "code": "x = " + "1 + " * 80,
    }
    return found | {"whole": owlfi.report(estimate, folder / "whole.html", **options)}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", [*RESULTS, "whole"])
def test_page_opens_without_errors_or_requests(browser, pages, name, size):
    set_up(browser, size)
    browser.get_log("browser"), browser.get_log("performance")
    browser.get(pages[name].as_uri())
    assert browser.get_log("browser") == []
    assert requests_of(browser) == []
    assert count_beside(browser) <= 0
    assert count_broken(browser) == 0
    assert browser.execute_script("return document.images.length") > 0
    hidden = (
        "return [...document.querySelectorAll('section')].filter(s => s.offsetHeight < 30).length"
    )
    assert browser.execute_script(hidden) == 0


def luminance(browser, script):
    numbers = browser.execute_script(script).split("(")[1].rstrip(")").split(",")[:3]
    return sum(float(number) for number in numbers) / 765


def test_page_is_light_or_dark_as_asked_for_and_light_on_paper(browser, pages):
    ink = "return getComputedStyle(document.body).color"
    for scheme, media, pale in (
        ("light", "screen", True),
        ("dark", "screen", False),
        ("dark", "print", True),
    ):
        set_up(browser, "desk", scheme, media)
        browser.get(pages["doubtful"].as_uri())
        assert (luminance(browser, PALE) > 0.5) == pale
        assert abs(luminance(browser, PALE) - luminance(browser, ink)) > 0.5


def test_all_that_scrolls_or_links_is_reached_by_keyboard(browser, pages):
    set_up(browser, "phone")
    browser.get(pages["whole"].as_uri())
    unreached = """return [...document.querySelectorAll('.scroll, pre, a')].filter(
        e => e.tabIndex < 0).length"""
    assert browser.execute_script(unreached) == 0
    nameless = """return [...document.querySelectorAll('[role=region], nav, section')].filter(
        e => !e.getAttribute('aria-label') && !e.getAttribute('aria-labelledby')).length"""
    assert browser.execute_script(nameless) == 0
