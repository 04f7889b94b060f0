"""Builds the documentation site into `site/`: `python docs/build_site.py`.

Zensical reads one folder of Markdown. This script writes that folder, `build/docs`, from the pages of `docs/` and the
pages that live elsewhere in the repository (run format, examples, benchmarks), and adds the navigation. It turns links
between files into links between pages. A link to a file that is not on the site is an error, and so is every warning of
Zensical.
"""

from __future__ import annotations

import os
import posixpath
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"

ELSEWHERE = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "LICENSE": "license.md",
    "benchmarks/README.md": "explanation/benchmarks.md",
    "examples/README.md": "examples/index.md",
    "src/barograph/runs/format/FORMAT.md": "reference/run-format.md",
}
"""Files outside `docs/` that are pages of the site."""

_LINK = re.compile(r"(\]\(|src=\")([^)\"\s]+)([)\"])")
_CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_TITLE = re.compile(r"^# (.+)$", re.MULTILINE)


class DeadLink(Exception):
    """A page links to something that is not on the site."""


def main(folder: Path = ROOT / "build" / "docs", output: Path = ROOT / "site") -> int:
    """Build the site and return the exit code of Zensical."""
    shutil.rmtree(folder, ignore_errors=True)
    write_pages(folder / "pages")
    (folder / "zensical.toml").write_text(configuration(folder), encoding="utf-8")
    failed = subprocess.call([sys.executable, "-m", "zensical", "build", "--clean", "--strict"], cwd=folder,
                             env={**os.environ, "NO_COLOR": "1"})
    if not failed:
        shutil.rmtree(output, ignore_errors=True)
        shutil.copytree(folder / "site", output)
    return failed


def write_pages(target: Path) -> None:
    """Write every page of the site below `target`.

    Raises:
        DeadLink: A page links to a file that is not on the site.
    """
    places = sites()
    for source, place in places.items():
        path = target / place
        path.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix == ".md":
            path.write_text(with_site_links(source, place, places), encoding="utf-8")
        elif place.endswith(".md"):
            path.write_text(as_code(source), encoding="utf-8")
        else:
            shutil.copyfile(source, path)


def sites() -> dict[Path, str]:
    """Return each file of the repository that is on the site, and its place there."""
    places = {ROOT / name: place for name, place in ELSEWHERE.items()}
    places |= {path: f"examples/{path.stem}.md" for path in sorted((ROOT / "examples").glob("*.py"))}
    for path in sorted(DOCS.rglob("*")):
        if path.suffix in (".md", ".svg", ".png", ".css"):
            place = path.relative_to(DOCS).as_posix()
            places[path] = re.sub(r"(^|/)README\.md$", r"\1index.md", place)
    return places


def with_site_links(source: Path, place: str, places: Mapping[Path, str]) -> str:
    """Return a page with its links to files of the repository turned into links within the site."""
    text = source.read_text(encoding="utf-8")
    code = [match.span() for match in _CODE.finditer(text)]

    def moved(match: re.Match[str]) -> str:
        link = match[2]
        if "://" in link or link.startswith(("#", "mailto:")) or any(a <= match.start() < b for a, b in code):
            return match[0]
        path, _, anchor = link.partition("#")
        target = (source.parent / path).resolve()
        if target.is_dir():
            target /= "README.md"
        if target not in places:
            raise DeadLink(f"{source.relative_to(ROOT)} links to {link}, which is not on the site.")
        relative = posixpath.relpath(places[target], posixpath.dirname(place) or ".")
        return f"{match[1]}{relative}{'#' + anchor if anchor else ''}{match[3]}"

    return _LINK.sub(moved, text)


def as_code(source: Path) -> str:
    """Return a page that shows a file."""
    language = "python" if source.suffix == ".py" else "text"
    return f"# {source.name}\n\n```{language}\n{source.read_text(encoding='utf-8').rstrip()}\n```\n"


def configuration(folder: Path) -> str:
    """Return the configuration of Zensical: `site.toml` with the complete navigation."""
    settings = tomllib.loads((DOCS / "site.toml").read_text(encoding="utf-8"))
    project, nav = settings["project"], settings["nav"]
    nav["Reference"]["Rules"] = {"By code": "rules/index.md", **pages_below("rules")}
    nav["Explanation"]["Decisions"] = {"Index": "why/index.md", **pages_below("why")}
    nav["About"] = {"Contributing": "contributing.md", "Changes": "changelog.md", "License": "license.md"}
    nav["Tutorials"]["Examples"] = {"Index": "examples/index.md", **{
        path.name: f"examples/{path.stem}.md" for path in sorted((ROOT / "examples").glob("*.py"))}}
    project["docs_dir"] = "pages"
    project["nav"] = as_list(nav)
    python = project["plugins"]["mkdocstrings"]["handlers"]["python"]
    python["paths"] = [os.path.relpath(ROOT / path, folder) for path in python["paths"]]
    python["options"]["extensions"] = [str(DOCS / "docstring_examples.py")]
    return f"project = {as_toml(project)}\n"


def pages_below(folder: str) -> dict[str, str]:
    """Return title to place of the pages of a folder that are not in the navigation by themselves, by file name."""
    pages = [path for path in sorted((DOCS / folder).glob("*.md")) if path.name not in ("README.md", "by-symptom.md")]
    return {title(path): f"{folder}/{path.name}" for path in pages}


def title(path: Path) -> str:
    match = _TITLE.search(path.read_text(encoding="utf-8"))
    return match[1].replace("`", "") if match else path.stem


def as_list(nav: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{name: as_list(entry) if isinstance(entry, Mapping) else entry} for name, entry in nav.items()]


def listed(nav: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the place of every page in a navigation."""
    for item in nav:
        for entry in item.values():
            if isinstance(entry, str):
                yield entry
            else:
                yield from listed(entry)


def as_toml(value: Any) -> str:
    """Return a value as TOML, tables inline."""
    match value:
        case Mapping():
            return "{ " + ", ".join(f"{as_toml(key)} = {as_toml(entry)}" for key, entry in value.items()) + " }"
        case list():
            return "[" + ", ".join(map(as_toml, value)) + "]"
        case bool():
            return "true" if value else "false"
        case str():
            return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
        case _:
            return repr(value)


if __name__ == "__main__":
    sys.exit(main())
