"""A process ends as it would without a recording."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

SCRIPT = """
from barograph.capture.process_end import ProcessEnd

class Closing:
    kind = "nothing"

    def failed(self, kind, error):
        self.kind = kind.__name__

    def close(self):
        eval("0")  # as a named tuple does
        print("closed after", self.kind)

closing = Closing()
end = ProcessEnd(lambda: closing, lambda: None)
end.watch()
{last}
"""


@pytest.mark.parametrize(("last", "said", "code"), [
    ("raise KeyboardInterrupt", "KeyboardInterrupt", -signal.SIGINT),
    ("raise ValueError", "ValueError", 1),
    ("try:\n    raise KeyboardInterrupt\nexcept KeyboardInterrupt:\n    pass", "nothing", 0),
    ("import sys\nsys.excepthook = print\nraise KeyboardInterrupt", "KeyboardInterrupt", -signal.SIGINT),
    ("import sys\ntry:\n    raise KeyboardInterrupt\nexcept KeyboardInterrupt:\n    sys.excepthook(*sys.exc_info())",
     "KeyboardInterrupt", 0),
])
def test_the_exit_code_is_that_of_the_script(last: str, said: str, code: int) -> None:
    script = SCRIPT.format(last=last)
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (ended.stdout.splitlines()[-1], ended.returncode) == (f"closed after {said}", code), ended.stderr
