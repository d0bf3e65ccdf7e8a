"""What tests ask of a page in a browser."""

SIZES = {"phone": (360, 740), "desk": (1200, 900)}


def set_up(browser, size, scheme="light", media="screen"):
    width, height = SIZES[size]
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": size == "phone"}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})


def count_beside(browser):
    """Pixels beside the page, to which one would have to scroll."""
    page = "document.documentElement"  # innerWidth grows with what is beside, on a phone
    return browser.execute_script(f"return {page}.scrollWidth - {page}.clientWidth")


def count_broken(browser):
    """Pictures that are not there; those that are only loaded when seen are loaded first."""
    look = "[...document.images].forEach(i => { i.loading = 'eager' })"
    browser.execute_script(look)
    return browser.execute_async_script(
        """const done = arguments[0];
        const waiting = [...document.images].filter(i => !i.complete);
        const settle = waiting.map(i => new Promise(r => { i.onload = i.onerror = r }));
        Promise.all(settle).then(() =>
            done([...document.images].filter(i => !i.naturalWidth).length));"""
    )
