"""What looking at pages and looking at JupyterLab share: one browser, and one server of the pages."""

import functools
import http.server
import threading

import pytest


@pytest.fixture(scope="session")
def browser():
    from playwright.sync_api import sync_playwright
    from test_site import CHROMIUM, FLAGS

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def address():
    from test_site import SITE, Quiet

    handler = functools.partial(Quiet, directory=SITE)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()
