"""Take the pictures of README.md from the built book, in pictures/: parts of pages, as a reader sees them.

python tools/pictures.py [SITE]     by default _build/html
"""

import sys
from pathlib import Path

from pdf import FLAGS, chromium
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parents[1]
ROOM = 12  # pixels around a part

# name: (page, what is shown, from the first of these elements to the last)
PARTS = {
    "proof": ("notebooks/05_normalization.html", ["#equation-eq-rms-norm-dx", "#check-eq-rms-norm-dx"]),
    "verdict": ("book/how_to_use.html", ["div.cell:has(.output)"]),
    "map": ("book/ways.html", [".chapter-graph svg"]),
}


def main(site):
    (ROOT / "pictures").mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        page = browser.new_page(
            viewport=dict(width=1280, height=900), color_scheme="light", device_scale_factor=1.5
        )
        for name, (path, parts) in PARTS.items():
            page.goto((site / path).as_uri(), wait_until="load")
            page.evaluate("document.fonts.ready.then(() => null)")
            page.add_style_tag(content=".bd-header-article, .bd-header { display: none !important }")
            boxes = [page.locator(part).first.bounding_box() for part in parts]
            left, top = (min(box[side] for box in boxes) - ROOM for side in "xy")
            right = max(box["x"] + box["width"] for box in boxes) + ROOM
            bottom = max(box["y"] + box["height"] for box in boxes) + ROOM
            clip = dict(x=left, y=top, width=right - left, height=bottom - top)
            page.screenshot(path=ROOT / "pictures" / f"{name}.png", clip=clip, full_page=True)
        browser.close()


if __name__ == "__main__":
    main(Path(*sys.argv[1:2] or [ROOT / "_build/html"]).resolve())
