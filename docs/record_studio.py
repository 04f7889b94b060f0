"""Records the pictures of the web page, light and dark: `python do.py demo`, then `python docs/record_studio.py`.

Groups of runs and the inside of a model need more runs than the demo has; for seeds 0 to 2 and rates 0.002 and 0.02:

    barograph run --to barograph-runs/demo/lr-RATE-seed-SEED --probe 300 --saliency 8 examples/digits.py \\
        --epochs 8 --lr RATE --seed SEED

It needs a Chromium of the system and playwright, which is in requirements-test.txt. Without a folder, it writes the few
pictures that the documentation shows to docs/pictures, with few colors so that they stay small. With `--all FOLDER`, it
writes every page, light and dark, at three widths, to look at them.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import threading
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import uvicorn
from PIL import Image
from playwright.sync_api import sync_playwright

from barograph.web.app import application

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs" / "pictures"
RUNS = ROOT / "barograph-runs" / "demo"
SICK, WELL = "0/faulty", "0/healthy"
PAGES = {
    "now": "#/now",
    "runs": "#/runs",
    "runs-curves": "#/runs?chart=curves&metric=metrics.loss.last&by=params.fault",
    "studies": "#/studies",
    "jobs": "#/jobs",
    "compare": f"#/compare?run={WELL}&run={SICK}",
    "run": f"#/run/{SICK}",
    "charts": f"#/run/{WELL}?tab=charts",
    "layers": f"#/run/{SICK}?tab=layers&layer=relu2",
    "inside": f"#/run/{WELL}?tab=inside",
    "step": f"#/run/{SICK}?tab=step&step=0",
    "data": f"#/run/{WELL}?tab=data",
    "time": f"#/run/{WELL}?tab=time",
    "files": f"#/run/{WELL}?tab=files",
    "lineage": f"#/run/{WELL}?tab=lineage",
    "output": f"#/run/{SICK}?tab=output",
    "environment": f"#/run/{WELL}?tab=environment",
    "groups": "#/runs?chart=curves&metric=metrics.eval_loss.last&by=params.lr&q=name+contains+%27lr-%27",
    "latent": "#/run/0/lr-0.002-seed-0?tab=inside",
}
"""Addresses of all pages, about the runs of the demo."""

SHOWN = {"run": ("light", 760), "layers": ("dark", 760), "groups": ("light", 840), "latent": ("light", 990)}
"""Pictures of the documentation: their color scheme and height."""

WIDTHS = (390, 1280, 1920)
_WIDTH = 1180
_COLORS = 200


def main(*arguments: str) -> int:
    """Write the pictures; return 1 if a page has an error in its console."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="pages; default: all")
    parser.add_argument("--runs", default=str(RUNS), help="folder with the runs of the demo")
    parser.add_argument("--all", type=Path, metavar="FOLDER", help="write every page, light and dark, at three widths")
    asked = parser.parse_args(arguments)
    chromium = next(filter(None, map(shutil.which, ("chromium", "google-chrome", "chromium-headless-shell"))), None)
    if chromium is None:
        print("There is no Chromium on this machine.", file=sys.stderr)
        return 1
    server = uvicorn.Server(uvicorn.Config(application([asked.runs], hosts=["127.0.0.1"]), port=0, log_level="warning"))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()))
    thread.start()
    while not server.started:
        thread.join(0.05)
    url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
    complaints: list[str] = []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name, scheme, size, file in pictures(asked.names, asked.all):
            picture = recorded(browser, url + PAGES[name], scheme, size, complaints, whole=asked.all is not None)
            file.parent.mkdir(parents=True, exist_ok=True)
            # Few colors: screens of this page have few, and a repository keeps every version of a picture.
            Image.open(BytesIO(picture)).convert("RGB").quantize(_COLORS).save(file, optimize=True)
            print(f"{file}: {file.stat().st_size:,} bytes")
        browser.close()
    server.should_exit = True
    thread.join()
    print("\n".join(complaints), file=sys.stderr)
    return 1 if complaints else 0


def pictures(names: list[str], folder: Path | None) -> Iterator[tuple[str, str, dict[str, int], Path]]:
    """Yield page, color scheme, size and file of each picture."""
    if folder is None:
        yield from ((name, scheme, {"width": _WIDTH, "height": height}, PICTURES / f"{name}.png")
                    for name, (scheme, height) in SHOWN.items() if not names or name in names)
        return
    for name in names or PAGES:
        for width in WIDTHS:
            for scheme in ("light", "dark"):
                yield name, scheme, {"width": width, "height": 900}, folder / f"{name}-{width}-{scheme}.png"


def recorded(browser: Any, url: str, scheme: str, size: dict[str, int], complaints: list[str], *, whole: bool) -> bytes:
    """Return a picture of a page, and note messages of its console and whether it is wider than the window."""
    context = browser.new_context(viewport=size, color_scheme=scheme)
    page = context.new_page()
    page.on("console", lambda message: complaints.append(f"{url}: {message.text}"))
    page.on("pageerror", lambda error: complaints.append(f"{url}: {error}"))
    page.goto(url)
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(500)  # the last chart is drawn after its data came
    if page.evaluate("document.documentElement.scrollWidth") > size["width"]:
        complaints.append(f"{url}: wider than {size['width']} pixels")
    picture: bytes = page.screenshot(full_page=whole)
    context.close()
    return picture


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
