"""What the machine as a whole does, from counters that only ever go up."""

from __future__ import annotations

from collections import namedtuple
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from barograph.machine.container import Container
from barograph.machine.host import CORES_APART_SECS, MANY_CORES, Host, cpus_to_use, interface_of

Times = namedtuple("Times", ["user", "system", "idle", "iowait", "guest"])
NO_CONTAINER = Container(Path("no such folder"))


class Counters:
    """psutil, whose counters stand where a test puts them."""

    def __init__(self, cores: int = 2) -> None:
        self.cores: list[Any] = [Times(10.0, 5.0, 100.0, 1.0, 2.0)] * cores
        self.disk: Any = SimpleNamespace(read_bytes=1000, write_bytes=50)
        self.cards = {"lo": SimpleNamespace(bytes_sent=9e9, bytes_recv=9e9),
                      "eth0": SimpleNamespace(bytes_sent=10, bytes_recv=20)}

    def cpu_times(self, percpu: bool) -> list[Any]:
        assert percpu
        return list(self.cores)

    def virtual_memory(self) -> Any:
        return SimpleNamespace(total=1000, available=600)

    def disk_io_counters(self) -> Any:
        return self.disk

    def net_io_counters(self, pernic: bool) -> Any:
        assert pernic
        return dict(self.cards)

    def spend(self, core: int, **more: float) -> None:
        times = self.cores[core]
        self.cores[core] = times._replace(**{name: getattr(times, name) + secs for name, secs in more.items()})


def test_what_is_a_rate_is_told_from_the_second_reading_on() -> None:
    assert set(Host(Counters(), NO_CONTAINER).read(0.0)) == {"memory", "memory_total"}


def test_use_is_the_share_of_the_time_between_two_readings() -> None:
    counters = Counters()
    host = Host(counters, NO_CONTAINER)
    host.read(0.0)
    counters.spend(0, user=0.5)
    counters.spend(1, user=0.1, idle=0.3, iowait=0.1)
    found = host.read(0.5)
    assert {name: found[name] for name in found if name.startswith("cpu")} == {
        "cpu": 60.0, "cpu_busiest": 100.0, "cpu_iowait": 10.0, "cpu[0]": 100.0, "cpu[1]": 20.0,
    }


def test_the_time_of_a_guest_counts_once() -> None:
    counters = Counters(cores=1)
    host = Host(counters, NO_CONTAINER)
    host.read(0.0)
    counters.spend(0, user=0.5, guest=0.5, idle=0.5)
    assert host.read(1.0)["cpu"] == 50.0


def test_bytes_are_told_a_second_and_those_to_itself_not_at_all() -> None:
    counters = Counters()
    host = Host(counters, NO_CONTAINER)
    host.read(10.0)
    counters.disk = SimpleNamespace(read_bytes=3000, write_bytes=50)
    counters.cards["eth0"] = SimpleNamespace(bytes_sent=110, bytes_recv=20)
    counters.cards["lo"] = SimpleNamespace(bytes_sent=99e9, bytes_recv=99e9)
    found = host.read(12.0)
    assert (found["disk_read"], found["disk_write"], found["net_sent"], found["net_received"]) == (1000, 0, 50, 0)


def test_a_counter_that_went_back_is_left_out_once() -> None:
    counters = Counters()
    host = Host(counters, NO_CONTAINER)
    host.read(0.0)
    counters.disk = SimpleNamespace(read_bytes=10, write_bytes=60)
    assert "disk_read" not in host.read(1.0)
    assert host.read(2.0)["disk_read"] == 0.0


def test_a_machine_without_disks_or_cards_tells_of_neither() -> None:
    counters = Counters()
    counters.disk, counters.cards = None, {}
    host = Host(counters, NO_CONTAINER)
    host.read(0.0)
    assert not {"disk_read", "net_sent"} & set(host.read(1.0))


@pytest.mark.parametrize(("counter", "error", "gone", "problem"), [
    ("disk_io_counters", NotImplementedError("/proc/diskstats is not available"), {"disk_read", "disk_write"},
     "the use of disks was not recorded: /proc/diskstats is not available"),
    ("cpu_times", FileNotFoundError(2, "No such file", "/proc/stat"),
     {"cpu", "cpu_busiest", "cpu_iowait", "cpu[0]", "cpu[1]"},
     "the use of processors was not recorded: [Errno 2] No such file: '/proc/stat'"),
    ("net_io_counters", PermissionError(13, "Denied", "/proc/net/dev"), {"net_sent", "net_received"},
     "the use of the network was not recorded: [Errno 13] Denied: '/proc/net/dev'"),
    ("virtual_memory", psutil.AccessDenied(msg="hidden"), {"memory", "memory_total"},
     "the use of memory was not recorded: hidden"),
])
def test_what_a_container_hides_is_named_and_the_rest_is_told(
    monkeypatch: pytest.MonkeyPatch, counter: str, error: Exception, gone: set[str], problem: str
) -> None:
    def fails(**_: object) -> None:
        raise error

    whole, some = Counters(), Counters()
    monkeypatch.setattr(some, counter, fails)
    told = []
    for counters in (whole, some):
        host = Host(counters, NO_CONTAINER)
        host.read(0.0)
        counters.spend(0, user=0.5)
        told.append(set(host.read(1.0)))

    assert told[0] - told[1] == gone
    assert host.problem.startswith(problem)


def test_of_many_cores_each_is_told_seldom_and_the_busiest_always() -> None:
    counters = Counters(cores=MANY_CORES + 1)
    host = Host(counters, NO_CONTAINER)
    host.read(0.0)
    told = []
    for second in range(1, 13):
        for core in range(MANY_CORES + 1):
            counters.spend(core, idle=1.0)
        counters.spend(3, user=1.0)
        found = host.read(float(second))
        assert found["cpu_busiest"] == 50.0
        told.append("cpu[3]" in found)
    assert [second for second, is_told in enumerate(told, 1) if is_told] == [1, 1 + int(CORES_APART_SECS)]


def test_inside_a_container_its_own_memory_counts(tmp_path: Path) -> None:
    (tmp_path / "memory.max").write_text("500\n")
    (tmp_path / "memory.current").write_text("300\n")
    (tmp_path / "memory.stat").write_text("anon 100\ninactive_file 120\n")
    found = Host(Counters(), Container(tmp_path)).read(0.0)
    assert (found["memory"], found["memory_total"]) == (180.0, 500.0)


@pytest.mark.parametrize("limit", ["max", "9223372036854771712"])
def test_a_container_without_limit_has_the_machine(tmp_path: Path, limit: str) -> None:
    for name, text in (("memory.max", limit), ("memory.current", "300"), ("memory.stat", "")):
        (tmp_path / name).write_text(text)
    assert Host(Counters(), Container(tmp_path)).read(0.0)["memory_total"] == 1000.0


def test_this_machine_can_be_read() -> None:
    host = Host()
    host.read(0.0)
    # The counters stand still for a tick of the kernel's; until they move there is no share.
    while "cpu" not in (found := host.read(1.0)):
        pass
    assert 0.0 <= found["cpu"] <= found["cpu_busiest"] <= 100.0
    assert 0 < found["memory"] < found["memory_total"] <= psutil.virtual_memory().total


@pytest.mark.parametrize(("file", "text", "kills"), [
    ("memory.events", "low 0\noom 3\noom_kill 2\n", 2),
    ("memory/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n", 1),
    ("memory.events", "damaged", 0), ("other", "", 0),
])
def test_processes_killed_for_lack_of_memory_are_counted(tmp_path: Path, file: str, text: str, kills: int) -> None:
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text(text)

    assert Container(tmp_path).kills() == kills


def test_the_interface_of_an_address_is_found() -> None:
    loopback = interface_of("127.0.0.1")
    assert loopback in psutil.net_if_addrs()
    assert interface_of("127.0.0.2") == loopback
    assert interface_of("192.0.2.1") == "eth0"


@pytest.mark.parametrize(("files", "cpus"), [
    ({}, 8.0),
    ({"cpu.max": "max 100000\n"}, 8.0),
    ({"cpu.max": "250000 100000\n"}, 2.5),
    ({"cpu.max": "50000 100000\n"}, 1.0),  # a job reserves one CPU: none could ever start
    ({"cpu.max": "9900000 100000\n"}, 8.0),
    ({"cpu.max": "damaged"}, 8.0),
    ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, 8.0),
    ({"cpu/cpu.cfs_quota_us": "300000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 3.0),
    ({"cpu/cpu.cfs_quota_us": "300000\n"}, 8.0),
    ({"cpu/cpu.cfs_quota_us": "300000\n", "cpu/cpu.cfs_period_us": "0\n"}, 8.0),
])
def test_a_container_may_use_fewer_cpus_than_it_has_cores(tmp_path: Path, files: dict[str, str], cpus: float) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert cpus_to_use(Container(tmp_path), cores=8) == cpus
