"""The page as one HTML file that works without a server: the built page with all responses inside."""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import permutations
from typing import Any, Literal
from urllib.parse import urlencode

from barograph.errors import SettingsError
from barograph.queries.heat import STATISTICS, UPDATE_RATIO
from barograph.web.embedding import is_picture, left_out
from barograph.web.in_process import Reply
from barograph.web.page_digest import BUILT
from barograph.web.page_files import MISSING

MARKER = "@@ANSWERS@@"
"""Where the answers stand in a page without them; the page replaces it when it saves itself."""

_ABOUT = ("run", "charts", "names", "recorded", "layers", "time", "cost", "data", "exhibits", "trace", "files",
          "lineage", "marks", "inside", "saved", "output", "origin", "numbers")
_KINDS = ("output", "gradient", "weight", "update")
_MOST_LINES, _LINES_AT_ONCE, _POINTS = 400, 24, 1600
_SCRIPT = r'src="\./(assets/[^"]+\.js)"'
_STYLE = r'href="\./(assets/[^"]+\.css)"'
"""Patterns for the script and the style sheet that the page's HTML loads; their file names contain hashes."""
_MOST_CONTOURED = 4
"""Parameters of a study whose contours are saved."""
_MOST_EMBEDDED_CHARS, _MOST_TEXT_CHARS, _MOST_FILES = 5_000_000, 1_000_000, 200
"""Characters of all images and of all beginnings of files, and number of files, for each run."""
_MOST_LAYERS, _MOST_STEPS, _MOST_PARTINGS, _MOST_RIDGES = 60, 60, 3, 8


def saved_answers(get: Callable[[str], Reply], runs: Sequence[str], studies: Sequence[str] = ()) -> dict[str, Any]:
    """Return the responses that the page needs for runs and studies, by URL.

    Args:
        get: Returns the response of a URL.
        runs: Keys of the runs; of several, also what the comparison needs.
        studies: Keys of studies.
    """
    answers: dict[str, Any] = {}

    def ask(urls: Iterable[str]) -> None:
        for url in urls:
            reply = get(url)
            if reply.status == 200:
                answers[url] = json.loads(reply.text)

    for key in studies:
        ask([_url("study", study=key)])
        ask(_contours(key, answers.get(_url("study", study=key), {})))
    for key in runs:
        ask(_about(key, _ABOUT))
        answers.update(_previews(get, key, answers))
        ask(_inside(key, answers.get(_url("inside", run=key), {})))
        ask(_url("cells", run=key, kind=kind, statistic=name)
            for kind in _KINDS for name in (*STATISTICS, UPDATE_RATIO))
        ask([_url("curves", run=key, name="loss", points=160)])
        charts = answers.get(_url("charts", run=key), {}).get("charts", ())
        names = [name for chart in charts for name in chart["names"]][:_MOST_LINES]
        ask(_url("lines", run=key, name=part, points=_POINTS, smooth=1) for part in _parts(names, _LINES_AT_ONCE))
        layers = [layer["path"] for layer in answers.get(_url("layers", run=key), ())][:_MOST_LAYERS]
        ask(_url("tensors", run=key, layer=layer, kind=kind, step=0) for layer in layers for kind in _KINDS)
        now = answers.get(_url("run", run=key))
        for step in [] if now is None else _steps(now):
            ask([_url("step", run=key, step=step), _url("everything", run=key, step=step)])
    if len(runs) > 1:
        ask([*_about(list(runs), ("run", "origin", "differences", "charts")),
             *(_url("parting", run=[runs[0], other]) for other in runs[1:1 + _MOST_PARTINGS])])
    return answers


def packed(answers: Mapping[str, Any], *, start: str, saved_unix: float) -> str:
    """Return responses in the format of a saved page.

    Args:
        answers: Responses by URL.
        start: Address at which the page opens, such as "#/run/0".
        saved_unix: Time of the responses, as seconds since 1970.
    """
    data = {"start": start, "saved_unix": saved_unix, "answers": answers}
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def page_with(answers: str = MARKER, *, title: str = "Barograph", source: Literal["file", "notebook"] = "file") -> str:
    """Return the page as one HTML file.

    Args:
        answers: Result of `packed`.
        title: Title until the page has started.
        source: "notebook": the page sends its requests to the notebook.

    Raises:
        SettingsError: The page was not built when Barograph was installed.
    """
    try:
        index = (BUILT / "index.html").read_text(encoding="utf-8")
        script, style = ("".join((BUILT / name).read_text(encoding="utf-8") for name in re.findall(pattern, index))
                         for pattern in (_SCRIPT, _STYLE))
        # The licenses must go with every copy of the libraries in the script.
        licenses = (BUILT / "licenses.md").read_text(encoding="utf-8").replace("--", "- -")
    except OSError:
        raise SettingsError(MISSING.strip()) from None
    # A script element ends at "</script", and "<!--" may hide its end.
    script = re.sub(r"<(?=/script|script|!--)", r"\\x3C", script, flags=re.IGNORECASE)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data: blob:; "
              "base-uri 'none'; form-action 'none'")
    return (f'<!doctype html>\n<!--\n{licenses}\n-->\n<html lang="en" data-source="{source}">\n<head>\n'
            '<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f'<meta name="color-scheme" content="light dark">\n<title>{html.escape(title)}</title>\n'
            f"<style>{style}</style>\n</head>\n<body>\n<div id=\"app\"></div>\n"
            f'<script type="application/json" id="answers">{answers}</script>\n'
            f'<script type="module">{script}</script>\n</body>\n</html>\n')


def _url(question: str, /, **query: Any) -> str:
    return f"api/{question}?{urlencode(query, doseq=True)}"


def _about(run: Any, names: Iterable[str]) -> Iterator[str]:
    return (_url(name, run=run) for name in names)


def _parts(names: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    return (names[at:at + size] for at in range(0, len(names), size))


def _inside(key: str, overview: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the tab on the inside of the model shows first, and the samples with saliency maps."""
    tensors = overview.get("tensors", [])
    yield from (_url("ridges", run=key, key=name) for name in
                sorted(tensors, key=lambda name: name.endswith("bias"))[:_MOST_RIDGES])
    seen = overview.get("evaluations", 0)
    if not seen:
        return
    yield _url("latent", run=key, method="pca", fit="all", n=seen)
    for sample in overview["saliency_samples"]:
        yield _url("sample", run=key, sample=sample, n=seen)
        yield _url("saliency", run=key, sample=sample, method=overview["saliency_methods"][-1], n=seen)


def _previews(get: Callable[[str], Reply], key: str, answers: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the images that a run logged, and previews of its files, until they are too many."""
    files = [item for item in answers.get(_url("files", run=key), ()) if item["kept"]]
    named = [(_url("file", run=key, role=item["role"], name=item["name"],
                   view="embedded" if is_picture(item["name"]) else "text"), is_picture(item["name"]))
             for item in files[:_MOST_FILES]]
    shown = [(_url("picture", run=key, title=item["title"], view="embedded"), True)
             for item in answers.get(_url("exhibits", run=key), ()) if item["kind"] == "picture"]
    left = {True: _MOST_EMBEDDED_CHARS, False: _MOST_TEXT_CHARS}
    for url, picture in [*shown, *named]:
        reply = get(url) if left[picture] > 0 else None
        if reply is not None and reply.status == 200 and len(reply.text) <= left[picture]:
            left[picture] -= len(reply.text)
            yield url, json.loads(reply.text)
        elif picture and (reply is None or reply.status == 200):
            yield url, left_out("The images of this run are too large together, so the saved page does not contain "
                                "this one.")


def _contours(key: str, study: Mapping[str, Any]) -> Iterator[str]:
    # As the page orders them: without importance, as they were declared.
    ranked = study.get("importance") or study.get("parameters", ())
    names = [one["name"] for one in ranked][:_MOST_CONTOURED]
    return (_url("study-contour", study=key, x=x, y=y) for x, y in permutations(names, 2))


def _steps(now: Mapping[str, Any]) -> list[int]:
    """Return the steps that a reader is most likely to open: where problems begin, held ones, the last."""
    named = [*(item["since_step"] for item in now["problems"]), *(item["step"] for item in now["held"]),
             max(now["steps"] - 1, 0)]
    return list(dict.fromkeys(named))[:_MOST_STEPS]
