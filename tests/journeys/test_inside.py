"""The tab on the inside of a model in a real browser: a real training, its samples, its maps."""

from __future__ import annotations

import os
import re
import selectors
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from chromium import CHROMIUM, LONGEST_SECS
from forking import TORCH

FORKED = TORCH

playwright = pytest.importorskip("playwright.sync_api")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")

BODY = '''
model = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
images = torch.rand(190, 1, 8, 8)
labels = images.flatten(1)[:, :3].argmax(1)
for number in range(40):
    optimizer.zero_grad()
    F.cross_entropy(model(images[:100]), labels[:100]).backward()
    optimizer.step()
    if number % 10 == 9:
        model.eval()
        with torch.no_grad():
            for start in range(100, 190, 30):
                F.cross_entropy(model(images[start:start + 30]), labels[start:start + 30])
        model.train()
'''


@pytest.fixture(scope="module")
def url(make_desk: Callable[[str], Any]) -> Iterator[str]:
    desk = make_desk("inside")
    desk.script(BODY)
    done = desk.run("--budget", "off", "--probe", "60", "--saliency", "4", "train.py", to="runs/probed")
    assert done.code == 0, done.err
    process = desk.start("barograph", "studio", "runs", "--no-open", "--port", "0")
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        text, deadline = b"", time.monotonic() + LONGEST_SECS
        while b"Ctrl-C" not in text:
            assert selector.select(max(0.0, deadline - time.monotonic())), "the server did not start in time"
            data = os.read(process.stdout.fileno(), 4096)
            assert data, process.stderr.read()
            text += data
    found = re.search(rb"http://\S+", text)
    assert found is not None
    yield found[0].decode()
    process.terminate()
    process.wait()


def test_a_sample_is_opened_and_its_maps_are_seen_on_a_phone_by_keyboard(url: str) -> None:
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=[
            "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"])
        page = browser.new_context(viewport={"width": 390, "height": 844}, reduced_motion="reduce").new_page()
        page.set_default_timeout(LONGEST_SECS * 1000)
        complaints: list[str] = []
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(f"{url}#/run/0/probed")
        page.get_by_role("tab", name="Inside").click()

        space = page.get_by_label(re.compile(r"60 samples at step 40"))
        playwright.expect(space).to_be_visible()
        playwright.expect(page.get_by_text("Neighbor accuracy", exact=True)).to_be_visible()
        page.get_by_label("Evaluation", exact=True).press("Home")
        playwright.expect(page.get_by_label(re.compile(r"60 samples at step 10"))).to_be_visible()
        assert "step=10" in page.url
        space = page.get_by_label(re.compile(r"60 samples at step 10"))
        space.focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
        sample = page.get_by_label("Sample", exact=True)
        playwright.expect(sample.get_by_label("Input of the sample")).to_be_visible()
        playwright.expect(sample.get_by_label("Saliency map at step 40")).to_be_visible()
        for name in ("Learning curves", "Distributions over the training"):
            playwright.expect(page.get_by_role("heading", name=name)).to_be_visible()
        playwright.expect(page.get_by_label(re.compile("Distribution of .* at"))).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        # The link shows the same to others.
        other = browser.new_context().new_page()
        other.goto(page.url)
        playwright.expect(other.get_by_label("Saliency map at step 40")).to_be_visible()
        assert complaints == []
        browser.close()
