"""Measure a first visit to pages of the built book over a slow line, for *Environment and run times*.

python tools/first_visit.py [SITE]     by default _build/html; writes book/first_visit.json

Nothing is kept from page to page. The line is that of a telephone in a weak network, the processor four times
slower than this one, and files come gzipped, as from a server of static pages.
"""

import datetime
import functools
import gzip
import http.server
import json
import platform
import sys
import threading
from pathlib import Path

from pdf import FLAGS, chromium
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parents[1]
RECORD = ROOT / "book/first_visit.json"
PAGES = (
    "book/intro",
    "notebooks/05_normalization",
    "notebooks/08_attention",
    "notebooks/17_language_model",
    "book/prove_here",
)
LINE = dict(offline=False, latency=150, downloadThroughput=1.6e6 / 8, uploadThroughput=0.75e6 / 8)
SLOWER = 4
ROUNDS = 3

# Sees, from before the page begins, what it paints first, at most, and what moves.
WATCH = """
window.seen = { largest: 0, shift: 0 };
new PerformanceObserver(list => list.getEntries().forEach(e => { seen.largest = e.startTime; }))
    .observe({ type: 'largest-contentful-paint', buffered: true });
new PerformanceObserver(list => list.getEntries().forEach(e => { seen.shift += e.value; }))
    .observe({ type: 'layout-shift', buffered: true });
"""

# Milliseconds from the click; formulas are whole when their letters have come.
READ = """async () => {
    await document.fonts.ready;
    const formulas = performance.now();
    await new Promise(done => setTimeout(done, 1500));
    const first = performance.getEntriesByName('first-contentful-paint')[0].startTime;
    return { first, formulas, ...seen };
}"""


class Gzipped(http.server.SimpleHTTPRequestHandler):
    """Serves text gzipped, and counts the bytes of all that it serves."""

    served = 0

    def do_GET(self):
        file = Path(self.translate_path(self.path))
        if not file.is_file():
            self.send_error(404)
            return
        body = file.read_bytes()
        packed = file.suffix in {".html", ".css", ".js", ".svg", ".json"}
        body = gzip.compress(body) if packed else body
        Gzipped.served += len(body)
        self.send_response(200)
        self.send_header("Content-Type", self.guess_type(file))
        if packed:
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


def visit(browser, address):
    """One visit to a page by somebody who was never there: times in seconds, kilobytes, the sum of shifts."""
    context = browser.new_context(viewport=dict(width=390, height=844), service_workers="block")
    page, Gzipped.served = context.new_page(), 0
    page.add_init_script(WATCH)
    session = context.new_cdp_session(page)
    session.send("Network.enable")
    session.send("Network.emulateNetworkConditions", LINE)
    session.send("Emulation.setCPUThrottlingRate", {"rate": SLOWER})
    page.goto(address, wait_until="load", timeout=120_000)
    seen = page.evaluate(READ)
    context.close()
    times = {name: seen[name] / 1000 for name in ("first", "largest", "formulas")}
    return {**times, "shift": seen["shift"], "kilobytes": Gzipped.served / 1000}


def main(site):
    handler, rows = functools.partial(Gzipped, directory=site), {}
    with (
        http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server,
        sync_playwright() as playwright,
    ):
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        for name in PAGES:
            address = f"http://127.0.0.1:{server.server_port}/{name}.html"
            seen = [visit(browser, address) for _ in range(ROUNDS)]
            rows[name] = {key: round(sorted(one[key] for one in seen)[ROUNDS // 2], 2) for key in seen[0]}
            print(name, rows[name])
        record = {"date": datetime.date.today().isoformat(), "browser": f"Chromium {browser.version}"}
        record |= {"system": platform.system(), "slower": SLOWER, "pages": rows}
        browser.close()
        server.shutdown()
    RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(*sys.argv[1:2] or [ROOT / "_build/html"]).resolve())
