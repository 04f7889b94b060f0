"""Records the pictures of the web page: `python do.py demo`, then `python docs/record_studio.py`.

It needs a Chromium of the system and playwright, which is in requirements-test.txt.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import threading
from pathlib import Path

import uvicorn
from playwright.sync_api import sync_playwright

from barograph.web.app import application

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs" / "pictures"
RUNS = ROOT / "barograph-runs" / "demo"
SICK = "faulty"
PAGES = {
    "now": ("#/now", "light"),
    "run": (f"#/run/0/{SICK}", "light"),
    "layers": (f"#/run/0/{SICK}?tab=layers&layer=relu2", "dark"),
    "data": ("#/run/0/healthy?tab=data", "light"),
    "compare": (f"#/compare?run=0/healthy&run=0/{SICK}", "light"),
}
_SIZE = {"width": 1180, "height": 760}


def main(runs: str = str(RUNS), *names: str) -> int:
    """Write the named pictures, or all; return 0."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        print("There is no Chromium on this machine.", file=sys.stderr)
        return 1
    server = uvicorn.Server(uvicorn.Config(application([runs], hosts=["127.0.0.1"]), port=0, log_level="warning"))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()))
    thread.start()
    while not server.started:
        thread.join(0.05)
    port = server.servers[0].sockets[0].getsockname()[1]
    PICTURES.mkdir(exist_ok=True)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name in names or PAGES:
            address, scheme = PAGES[name]
            page = browser.new_context(viewport=_SIZE, color_scheme=scheme).new_page()
            page.goto(f"http://127.0.0.1:{port}/{address}")
            page.wait_for_load_state("networkidle")
            page.wait_for_timeout(500)  # the last chart is drawn after its data came
            page.screenshot(path=PICTURES / f"{name}.png")
            print(f"{(PICTURES / name).relative_to(ROOT)}.png: {(PICTURES / f'{name}.png').stat().st_size} bytes")
        browser.close()
    server.should_exit = True
    thread.join()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
