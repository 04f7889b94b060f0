"""The documentation site builds without a warning, and every page has its place in the navigation."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

import barograph
from barograph import tracking
from pages import ROOT

MINUTE = 60.0


def module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


@pytest.fixture(scope="module")
def site() -> ModuleType:
    return module("build_site")


def test_the_site_builds_without_a_warning(site: ModuleType, tmp_path: Path) -> None:
    build = ("import sys; from pathlib import Path; sys.path.insert(0, 'docs'); import build_site; "
             f"sys.exit(build_site.main(Path({str(tmp_path / 'build')!r}), Path({str(tmp_path / 'site')!r})))")
    done = subprocess.run([sys.executable, "-c", build], cwd=ROOT, capture_output=True, text=True, timeout=30 * MINUTE)
    assert done.returncode == 0, done.stdout + done.stderr
    made = {path.relative_to(tmp_path / "site").as_posix() for path in (tmp_path / "site").rglob("index.html")}
    assert {"index.html", "reference/api/record/index.html", "rules/A101-dead-relu/index.html"} <= made
    assert "barograph.attach" in (tmp_path / "site/reference/api/record/index.html").read_text(encoding="utf-8")


def test_every_page_is_in_the_navigation_once(site: ModuleType, tmp_path: Path) -> None:
    nav = tomllib.loads(site.configuration(tmp_path))["project"]["nav"]
    listed = list(site.listed(nav))
    assert sorted(listed) == sorted({place for place in site.sites().values() if place.endswith(".md")})


def test_a_link_to_a_file_that_is_not_on_the_site_is_refused(site: ModuleType) -> None:
    page = ROOT / "docs" / "why" / "README.md"
    with pytest.raises(site.DeadLink, match=r"docs/why/README.md links to .* which is not on the site"):
        site.with_site_links(page, "why/index.md", {page: "why/index.md"})


def test_every_public_name_is_in_the_api_reference() -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs/reference/api").glob("*.md"))
    shown = set(re.findall(r"^::: ([\w.]+)$", text, re.MULTILINE))
    names = {f"barograph.{name}" for name in barograph.__all__ if name != "__version__"}
    names |= {f"barograph.tracking.{name}" for name in tracking.__all__}
    assert names - shown == set()


def test_the_picture_of_the_demo_shows_the_text_and_loads_nothing() -> None:
    picture = module("record_demo").drawn("$ barograph run train.py\n\x1b[31mAll units of relu2 are dead\x1b[0m")
    assert "relu2" in picture
    assert set(re.findall(r"https?://[^\s\"<)]+", picture)) == {"http://www.w3.org/2000/svg", "https://www.textualize.io"}
