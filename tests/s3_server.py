"""An S3-compatible server in a process of its own, on loopback."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.request

# It chooses its port itself: one that is free now may be taken before a server has started.
_SERVER = """
import signal
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
signal.pause()
"""


def s3_server(bucket: str) -> tuple[subprocess.Popen[bytes], str]:
    """Start a server with one empty bucket; return its process and its URL."""
    process = subprocess.Popen([sys.executable, "-c", _SERVER], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                               env={**os.environ, "PYTHONWARNINGS": "ignore"})
    assert process.stdout is not None
    with process.stdout:
        url = f"http://127.0.0.1:{int(process.stdout.readline())}"
    request = urllib.request.Request(f"{url}/{bucket}", method="PUT")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    opener.open(request, timeout=600).close()
    return process, url
