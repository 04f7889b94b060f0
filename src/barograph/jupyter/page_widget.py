"""The page of the web UI below a cell: the same charts as in the browser, answered by the kernel. Needs anywidget."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

import anywidget
import traitlets

from barograph.errors import SettingsError
from barograph.web.in_process import Reply
from barograph.web.page_digest import BUILT
from barograph.web.page_files import MISSING
from barograph.web.saved import packed, page_with

_MOST_URLS = 60
_EVERY_SECS = 2.0


class PageWidget(anywidget.AnyWidget):
    """A page about runs. The page asks for changes itself; `follow` also sends them while a cell runs.

    Args:
        get: Returns the answer at a URL; the second argument is the version of the answer that the page has.
        start: Address at which the page opens, such as "#/run/0".
        picture: HTML for programs that show notebooks without a kernel.

    Raises:
        SettingsError: The page was not built when Barograph was installed.
    """

    page = traitlets.Unicode().tag(sync=True)

    def __init__(self, get: Callable[[str, str], Reply], *, start: str, picture: str) -> None:
        try:
            script = (BUILT / "notebook.js").read_text(encoding="utf-8")
        except OSError:
            raise SettingsError(MISSING.strip()) from None
        self._get = get
        self._picture = picture
        self._shown: OrderedDict[str, str] = OrderedDict()
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._following: threading.Thread | None = None
        super().__init__(_esm=script, page=page_with(packed({}, start=start, saved_unix=0.0), source="notebook"))
        self.on_msg(self._asked)

    def __repr__(self) -> str:
        return "PageWidget()"

    def _repr_mimebundle_(self, **options: Any) -> Any:
        bundle, metadata = super()._repr_mimebundle_(**options) or ({}, {})
        return {**bundle, "text/html": self._picture}, metadata

    def follow(self, goes_on: Callable[[], bool]) -> None:
        """Send what changed from a thread, until `goes_on` returns False."""

        def sending() -> None:
            active = True
            while active and not self._closed.wait(_EVERY_SECS):
                active = goes_on()  # before the last answers, so that nothing before the end is missed
                self.send_changes()

        self._following = threading.Thread(target=sending, name="barograph-page", daemon=True)
        self._following.start()

    def send_changes(self) -> None:
        """Send the answers that changed since the page got them."""
        with self._lock:
            shown = list(self._shown.items())
        for url, version in shown:
            self._answer(url, version, unchanged=False)

    def close(self) -> None:
        """Remove it from the notebook; when this returns, no thread follows anything."""
        self._closed.set()
        if self._following is not None:
            self._following.join()
        super().close()

    def _asked(self, widget: object, content: Mapping[str, Any], buffers: object) -> None:
        url, version = content.get("url"), content.get("version")
        if isinstance(url, str) and isinstance(version, str) and url.startswith("api/"):
            self._answer(url, version, unchanged=True)

    def _answer(self, url: str, version: str, *, unchanged: bool) -> None:
        reply = self._get(url, version)
        with self._lock:
            self._shown[url] = reply.version
            self._shown.move_to_end(url)
            while len(self._shown) > _MOST_URLS:
                self._shown.popitem(last=False)
        if unchanged or reply.status == 200:
            self.send({"url": url, "status": reply.status, "version": reply.version, "text": reply.text})
