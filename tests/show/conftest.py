"""Chromium for those who ask for it."""

import pytest

HOW = "install it: apt-get install chromium chromium-driver; pip install selenium"


@pytest.fixture(scope="module")
def browser():
    try:
        from selenium import webdriver
    except ImportError:
        pytest.fail(f"selenium is missing; {HOW}")
    options = webdriver.ChromeOptions()
    for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    try:
        driver = webdriver.Chrome(options=options)
    except Exception as error:  # of selenium, of the driver or of the browser
        pytest.fail(f"Chromium does not start ({error}); {HOW}")
    yield driver
    driver.quit()
