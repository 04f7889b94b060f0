"""A job of several instances without network: its processes reach each other and nothing else."""

from __future__ import annotations

import os
from typing import Any

import pytest

from barograph.jobs.isolation import limits_here
from barograph.machine.marked import marked_processes

MEET = """
import os, socket, time

space = os.readlink("/proc/self/ns/net")
address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
try:
    socket.create_connection(("192.0.2.1", 80), timeout=5)
except OSError as error:
    outside = error.strerror
if os.environ["RANK"] == "0":
    with socket.create_server(address) as server:
        for _ in range(int(os.environ["WORLD_SIZE"]) - 1):
            peer, _ = server.accept()
            assert peer.recv(100).decode() == space
            peer.sendall(b"met")
else:
    deadline = time.monotonic() + 600
    while time.monotonic() < deadline:
        try:
            peer = socket.create_connection(address)
            break
        except ConnectionRefusedError:
            time.sleep(0.01)
    peer.sendall(space.encode())
    assert peer.recv(3) == b"met"
print("rank", os.environ["RANK"], outside, space, flush=True)
"""


@pytest.mark.skipif(bool(limits_here().network_problem), reason=limits_here().network_problem)
def test_instances_without_network_reach_each_other_and_nothing_else(desk: Any) -> None:
    desk.environment["BAROGRAPH_HOME"] = str(desk.folder / "home")
    (desk.folder / "meet.py").write_text(MEET)
    ended = desk.end(desk.start("barograph", "submit", "--instances", "2", "--processes", "2", "--cpus", "0.5",
                                "--no-network", "--wait", "meet.py"))
    assert ended.code == 0, ended.text + ended.err
    lines = sorted(line[line.index("rank"):] for line in ended.text.splitlines() if "rank" in line)
    assert [line.split(" Network")[0] for line in lines] == ["rank 0", "rank 1", "rank 2", "rank 3"]
    assert all("Network is unreachable" in line and os.readlink("/proc/self/ns/net") not in line for line in lines)
    desk.wait_until(lambda: not marked_processes("BAROGRAPH_HOME", str(desk.folder)), "nothing of the job is left")
