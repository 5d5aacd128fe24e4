"""What looking at pages and looking at JupyterLab share: one browser."""

import pytest


@pytest.fixture(scope="session")
def browser():
    from playwright.sync_api import sync_playwright
    from test_site import CHROMIUM, FLAGS

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()
