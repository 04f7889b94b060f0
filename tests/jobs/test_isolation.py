"""The limits of an instance, with this machine's real control groups and namespaces where it has them."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from barograph.errors import JobRefused
from barograph.jobs import confine, isolation
from barograph.jobs.engines.engine import INSTANCE_VARIABLE
from barograph.jobs.engines.local import _network
from barograph.jobs.isolation import (
    Available,
    Confinement,
    clean_up,
    confined,
    has_own_network,
    held_network,
    limits_here,
    limits_problem,
    was_out_of_memory,
)
from barograph.jobs.launchers import World, launch_plan
from barograph.machine.marked import kill_marked
from barograph.machine.memory_group import MemoryGroup, memory_group
from barograph.processes.command import Command
from barograph.processes.local_process import PIPE, LocalProcess
from barograph.processes.run_to_end import Completed, run_to_end
from barograph.processes.streamed_process import StreamedProcess
from sagemaker_toolkit import NAMES_RESOLVE

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits are enforced on Linux")
needs_groups = pytest.mark.skipif(not limits_here().has_memory_groups, reason="no control group can be created here")
needs_network = pytest.mark.skipif(bool(limits_here().network_problem), reason=limits_here().network_problem)
needs_names = pytest.mark.skipif(not NAMES_RESOLVE, reason="no mount namespace can be entered here")

MIB = 2**20
LONGEST_SECS = 600.0
FILL = "import sys; kept = [b'x' * 2**20 for _ in range(int(sys.argv[1]))]; print('filled')"
REACH = """
import socket
server = socket.create_server(("127.0.0.1", 0))
socket.create_connection(server.getsockname()).close()
print(sorted(name for _, name in socket.if_nameindex()))
try:
    socket.create_connection(("192.0.2.1", 80), timeout=5)
except OSError as error:
    print(error.strerror)
"""
SPACIOUS = Available(cpus=(0, 1, 2, 3), memory_bytes=2**40, has_memory_groups=False, network_problem="")


def python(code: str, *words: str) -> Command:
    return Command((sys.executable, "-c", code, *words))


def run(made: Confinement) -> Completed:
    return run_to_end(made.command, timeout_secs=LONGEST_SECS)


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    made = tmp_path / "instance"
    yield made
    clean_up(made)


@contextlib.contextmanager
def network_of_test() -> Iterator[int]:
    network = held_network(os.environ)
    try:
        yield network
    finally:
        os.kill(network, signal.SIGKILL)


def wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + LONGEST_SECS
    while (state := Path(f"/proc/{pid}/stat")).exists() and b") Z" not in state.read_bytes():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_cpus_and_memory_are_known_without_probes() -> None:
    assert limits_here(probes=False).cpus == limits_here().cpus


def test_without_limits_the_command_stays_as_it_is(directory: Path) -> None:
    command = Command(("train.sh", "x"), "/", {"A": "1"})
    assert confined(command, directory=directory, available=SPACIOUS).command == command


def test_a_process_runs_on_its_cpus_only(directory: Path) -> None:
    cpu = limits_here().cpus[-1]
    code = "import os; print(sorted(os.sched_getaffinity(0)), os.environ['OMP_NUM_THREADS'])"
    done = run(confined(python(code), directory=directory, cpus=1, cpu_set=(cpu,)))
    assert done.out.decode() == f"[{cpu}] 1\n"


def test_without_chosen_cpus_only_the_threads_are_limited(directory: Path) -> None:
    command = python("import os; print(len(os.sched_getaffinity(0)), os.environ['OMP_NUM_THREADS'])")
    made = confined(replace(command, environment={}), directory=directory, cpus=0.5)
    assert run(made).out.decode() == f"{len(limits_here().cpus)} 1\n"


def test_threads_that_the_command_sets_stay(directory: Path) -> None:
    command = replace(python("import os; print(os.environ['OMP_NUM_THREADS'], os.environ['MKL_NUM_THREADS'])"),
                      environment={**os.environ, "OMP_NUM_THREADS": "7"})
    assert run(confined(command, directory=directory, cpus=1)).out == b"7 1\n"


def test_directory_environment_exit_code_and_number_are_those_of_the_command(directory: Path, tmp_path: Path) -> None:
    code = "import os, sys; print(os.getcwd(), dict(os.environ), os.getpid(), os.getsid(0)); sys.exit(3)"
    command = Command((sys.executable, "-I", "-c", code), str(tmp_path), {"A": "1", "LC_ALL": "C.UTF-8"})
    process = LocalProcess(confined(command, directory=directory, cpu_set=limits_here().cpus).command, stdout=PIPE)
    assert process.stdout is not None
    with process.stdout:
        said = process.stdout.read().decode()
    assert process.wait() == 3
    assert said == f"{tmp_path} {{'A': '1', 'LC_ALL': 'C.UTF-8'}} {process.pid} {process.pid}\n"


@pytest.mark.parametrize(("program", "code", "reason"), [
    ("no-such-program", 127, "program not found: no-such-program."), ("/", 126, "/ cannot be run: Permission denied."),
])
def test_a_program_that_cannot_start_is_named(program: str, code: int, reason: str, directory: Path) -> None:
    done = run(confined(Command((program,)), directory=directory, cpu_set=limits_here().cpus))
    assert (done.exit_code, done.err.decode()) == (code, f"Barograph: {reason}\n")


@needs_groups
def test_the_kernel_ends_a_process_that_uses_too_much_memory(directory: Path) -> None:
    made = confined(python(FILL, "400"), directory=directory, memory_bytes=100 * MIB)
    assert (run(made).exit_code, made.was_out_of_memory()) == (-9, True)
    made.clean_up()
    assert made.was_out_of_memory(), "also after the group is gone"
    assert not [path for path in directory.iterdir() if path.name == "confinement.json"]


@needs_groups
def test_without_a_limit_everything_that_the_command_starts_is_in_a_group_too_and_is_ended_with_it(
    directory: Path
) -> None:
    made = confined(Command(("sh", "-c", "(setsid env -i sh -c 'echo $$; exec sleep 600' &)")), directory=directory)
    process = LocalProcess(made.command, stdout=PIPE)
    assert process.stdout is not None
    with process.stdout:
        pid = int(process.stdout.readline())
    process.wait()
    (group,) = [Path(path) for path in json.loads((directory / "confinement.json").read_text())]
    assert str(pid) in (group / "cgroup.procs").read_text().split()
    inner = group / "inner"  # of a job that the script submitted
    inner.mkdir()
    (inner / "cgroup.procs").write_text(str(pid))
    made.clean_up()
    assert not group.exists()
    wait_until_gone(pid)
    assert not made.was_out_of_memory()


@needs_groups
def test_processes_of_one_instance_share_the_limit(directory: Path) -> None:
    code = "import sys; kept = b'x' * (60 * 2**20); print('filled', flush=True); sys.stdin.read()"
    first = LocalProcess(confined(python(code), directory=directory, memory_bytes=100 * MIB).command, stdin=PIPE,
                         stdout=PIPE)
    assert first.stdin is not None
    assert first.stdout is not None
    with first.stdin, first.stdout:
        assert first.stdout.readline() == b"filled\n"
        second = confined(python(FILL, "90"), directory=directory, memory_bytes=100 * MIB)
        run(second)
        assert second.was_out_of_memory()
    first.kill()
    first.wait()


@needs_groups
def test_the_limit_of_an_instance_can_be_raised_and_lowered(directory: Path) -> None:
    confined(python(""), directory=directory, memory_bytes=100 * MIB)
    made = confined(python(FILL, "200"), directory=directory, memory_bytes=400 * MIB)
    assert (run(made).out, made.was_out_of_memory()) == (b"filled\n", False)
    made = confined(python(FILL, "200"), directory=directory, memory_bytes=100 * MIB)
    assert (run(made).out, made.was_out_of_memory()) == (b"", True)


def test_a_process_within_its_limit_is_left_alone(directory: Path) -> None:
    made = confined(python(FILL, "20"), directory=directory, memory_bytes=200 * MIB)
    assert (run(made).out, made.was_out_of_memory()) == (b"filled\n", False)


def test_a_directory_that_is_used_again_forgets_the_last_time(directory: Path) -> None:
    directory.mkdir()
    (directory / "out-of-memory").touch()
    assert was_out_of_memory(directory)
    confined(python(""), directory=directory, memory_bytes=200 * MIB)
    assert not was_out_of_memory(directory)


@pytest.fixture
def no_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation, "memory_group", lambda name: None)


def test_without_control_groups_memory_is_measured_and_the_instance_ended(no_groups: None, directory: Path) -> None:
    code = "import time; kept = b'x' * (300 * 2**20); time.sleep(600)"
    made = confined(python(code), directory=directory, memory_bytes=150 * MIB)
    assert (run(made).exit_code, made.was_out_of_memory()) == (-9, True)


def test_memory_of_children_is_measured_and_shared_pages_once(no_groups: None, directory: Path) -> None:
    code = ("import os, sys\nkept = b'x' * (80 * 2**20)\n"
            "children = [os.fork() for _ in range(3)]\n"
            "if 0 not in children:\n"
            "    [os.waitpid(child, 0) for child in children]\n    print('ended')\n"
            "else:\n    import time; time.sleep(1.5); os._exit(0)\n")
    made = confined(python(code), directory=directory, memory_bytes=200 * MIB)
    assert (run(made).out, made.was_out_of_memory()) == (b"ended\n", False)


def test_memory_of_a_child_in_a_session_of_its_own_is_measured(no_groups: None, directory: Path) -> None:
    fill = "import time; kept = b'x' * (300 * 2**20); time.sleep(600)"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {fill!r}], start_new_session=True)"
    made = confined(python(code), directory=directory, memory_bytes=150 * MIB)
    assert (run(made).exit_code, made.was_out_of_memory()) == (-9, True)


def test_the_watcher_ends_with_what_it_watches(no_groups: None, directory: Path) -> None:
    made = confined(python("import time; time.sleep(600)"), directory=directory, memory_bytes=900 * MIB)
    process = LocalProcess(made.command)
    watchers: list[int] = []
    while not watchers:
        watchers = [int(path.name) for path in Path("/proc").glob("[0-9]*")
                    if str(directory).encode() in _command_line(path) and b"memory_watch" in _command_line(path)
                    and path.name != str(process.pid)]
    process.kill()
    process.wait()
    for pid in watchers:
        wait_until_gone(pid)


def _command_line(path: Path) -> bytes:
    try:
        return (path / "cmdline").read_bytes()
    except OSError:
        return b""


def test_a_group_that_cannot_be_created_is_replaced_by_measuring(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isolation, "memory_group", lambda name: MemoryGroup(tmp_path / "none" / name))
    made = confined(python(""), directory=directory, memory_bytes=100 * MIB)
    assert "memory_watch" in made.command.arguments[4]
    assert not (directory / "confinement.json").exists()


@needs_groups
def test_nothing_is_left_after_everything_was_killed(tmp_path: Path) -> None:
    directory = tmp_path / "instance"
    # A daemon leaves the session, and so the process group.
    daemon = "import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(1000)\ntime.sleep(1000)"
    starter = ("import sys, time\nfrom pathlib import Path\nfrom barograph.jobs.isolation import confined\n"
               "from barograph.processes.command import Command\n"
               "from barograph.processes.local_process import LocalProcess\n"
               f"made = confined(Command((sys.executable, '-c', {daemon!r})), directory=Path({str(directory)!r}),\n"
               f"                memory_bytes={500 * MIB}, no_network={not limits_here().network_problem})\n"
               "print(LocalProcess(made.command).pid, flush=True)\ntime.sleep(1000)")
    killed = subprocess.Popen([sys.executable, "-c", starter], stdout=subprocess.PIPE, text=True)
    assert killed.stdout is not None
    with killed.stdout:
        script = int(killed.stdout.readline())
    (group,) = [Path(path) for path in json.loads((directory / "confinement.json").read_text())]
    pids: list[str] = []
    while len(pids) < 2:
        pids = (group / "cgroup.procs").read_text().split()
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    clean_up(directory)
    assert not group.exists()
    for pid in {script, *map(int, pids)}:
        wait_until_gone(pid)
    assert not was_out_of_memory(directory)


def test_cleaning_up_where_nothing_is_does_nothing(tmp_path: Path) -> None:
    clean_up(tmp_path / "none")
    assert list(tmp_path.iterdir()) == []


@needs_network
def test_without_network_only_this_machine_is_reached(directory: Path) -> None:
    done = run(confined(python(REACH), directory=directory, no_network=True))
    names, why = done.out.decode().splitlines()
    assert "'lo'" in names
    assert "'eth0'" not in names
    assert why == "Network is unreachable"


@needs_network
def test_a_server_of_this_machine_is_not_reached(directory: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        code = f"import socket; socket.create_connection(('127.0.0.1', {server.getsockname()[1]}))"
        done = run(confined(python(code), directory=directory, no_network=True))
    assert b"ConnectionRefusedError" in done.err


@needs_network
def test_several_processes_share_a_network_of_their_own(directory: Path) -> None:
    code = "import os; print(os.readlink('/proc/self/ns/net'))"
    with network_of_test() as network:
        spaces = [run(confined(python(code), directory=directory, no_network=True, network_of=network)).out
                  for _ in range(2)]
        assert spaces[0] == spaces[1] == f"{os.readlink(f'/proc/{network}/ns/net')}\n".encode()
        assert os.readlink("/proc/self/ns/net") not in spaces[0].decode()
        assert has_own_network(network)
    wait_until_gone(network)
    assert not has_own_network(network)
    assert not has_own_network(os.getpid())


@needs_network
def test_a_network_outlives_who_made_it() -> None:
    code = ("import os; from barograph.jobs.isolation import held_network; "
            "print(held_network({'MARK': 'x'}), flush=True); os._exit(0)")
    network = int(run_to_end(python(code), timeout_secs=LONGEST_SECS).out)
    try:
        assert has_own_network(network)
    finally:
        os.kill(network, signal.SIGKILL)
    wait_until_gone(network)


@needs_names
def test_the_names_of_the_instances_resolve_for_the_command_only(directory: Path) -> None:
    before = Path("/etc/hosts").read_bytes()
    code = ("import socket; print([socket.gethostbyname(name) for name in ('algo-1', 'algo-2', 'localhost')], "
            "socket.gethostbyaddr('127.0.0.1')[0])")
    made = confined(python(code), directory=directory, hosts={"algo-1": "127.0.0.1", "algo-2": "10.9.8.7"})
    name = socket.gethostbyaddr("127.0.0.1")[0]
    assert run(made).out.decode() == f"['127.0.0.1', '10.9.8.7', '127.0.0.1'] {name}\n"
    assert Path("/etc/hosts").read_bytes() == before


@pytest.mark.parametrize(("names", "expected"), [(1, False), (2, True)])
def test_a_user_namespace_is_entered_for_the_names_of_several_instances_only(
    names: int, expected: bool, directory: Path
) -> None:
    hosts = {f"algo-{number}": "127.0.0.1" for number in range(names)}
    made = confined(Command(("x",)), directory=directory, hosts=hosts, available=SPACIOUS)
    assert json.loads(made.command.arguments[-2])["hosts"] == [str(directory / "hosts"), expected]


@pytest.mark.parametrize(("given", "reason"), [
    ({"cpus": 5}, "The job asks for 5 CPUs, and this machine has 4. Lower --cpus."),
    ({"cpu_set": (1, 9)}, "The instance cannot run on CPU 9, which this process may not use."),
    ({"memory_bytes": 2**41}, "The job asks for 2.05e+03 GiB of memory, and this machine has 1.02e+03 GiB. Lower"),
    ({"no_network": True}, "--no-network cannot be enforced here: it needs Linux. Run the job without it."),
])
def test_a_limit_that_cannot_be_enforced_is_refused(given: dict[str, object], reason: str, directory: Path) -> None:
    poor = replace(SPACIOUS, network_problem="it needs Linux")
    assert limits_problem(poor, **given).startswith(reason)  # type: ignore[arg-type]
    with pytest.raises(JobRefused):
        confined(Command(("x",)), directory=directory, available=poor, **given)  # type: ignore[arg-type]
    assert not directory.exists()


def test_limits_that_can_be_enforced_are_no_problem() -> None:
    assert limits_problem(SPACIOUS, cpus=4, cpu_set=(0, 3), memory_bytes=2**30, no_network=True) == ""


def test_a_limit_that_fails_late_is_named(directory: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert confine.main([json.dumps({"procs": str(directory / "none" / "cgroup.procs")}), "true"]) == 125
    assert capfd.readouterr().err == "Barograph: the limits of this job cannot be set: No such file or directory.\n"


def test_a_user_without_privileges_gets_a_network_of_their_own(tmp_path: Path) -> None:
    system = shutil.which("python3", path="/usr/bin")
    if os.geteuid() or system is None:
        pytest.skip("needs root, and a Python that everybody may run")
    script = Path(tmp_path, "confine.py")
    shutil.copy(confine.__file__, script)
    for folder in (script, *script.parents[:-2]):
        folder.chmod(0o755)
    code = "import os, socket; print(os.getuid(), socket.create_server(('127.0.0.1', 0)) and 'lo')"
    done = subprocess.run([system, "-I", "-S", str(script), '{"network": "new"}', system, "-c", code], user=65534,
                          group=65534, extra_groups=[], capture_output=True, text=True, check=False, cwd="/")
    assert (done.stdout, done.stderr) == ("65534 lo\n", "")


def test_a_user_without_privileges_gets_names_and_a_network_of_their_own(tmp_path: Path) -> None:
    system = shutil.which("python3", path="/usr/bin")
    if os.geteuid() or system is None:
        pytest.skip("needs root, and a Python that everybody may run")
    script, hosts = Path(tmp_path, "confine.py"), Path(tmp_path, "hosts")
    shutil.copy(confine.__file__, script)
    hosts.write_text("10.9.8.7 algo-2\n")
    for folder in (hosts, script, *script.parents[:-2]):
        folder.chmod(0o755)
    code = "import os, socket; print(os.getuid(), socket.gethostbyname('algo-2'))"
    for network in ({}, {"network": "new"}):
        settings = json.dumps({"hosts": [str(hosts), True], **network})
        done = subprocess.run([system, "-I", "-S", str(script), settings, system, "-c", code], user=65534, group=65534,
                              extra_groups=[], capture_output=True, text=True, check=False, cwd="/")
        assert (done.stdout, done.stderr) == ("65534 10.9.8.7\n", "")
    code = "import os; print(open('/etc/hosts').read().count('algo-2'), os.readlink('/proc/self/ns/user'))"
    for hosts_given in ([str(hosts), False], [str(tmp_path / "none"), True]):  # not allowed, and not possible
        done = subprocess.run([system, "-I", "-S", str(script), json.dumps({"hosts": hosts_given}), system, "-c", code],
                              user=65534, group=65534, extra_groups=[], capture_output=True, text=True, check=False,
                              cwd="/")
        assert (done.stdout, done.stderr) == (f"0 {os.readlink('/proc/self/ns/user')}\n", "")


def test_a_failed_system_call_says_what_is_missing() -> None:
    done = subprocess.run([sys.executable, "-I", "-S", confine.__file__, '{"network": "4194305"}', "true"],
                          capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        125, "Barograph: the limits of this job cannot be set: No such file or directory.\n")
    with pytest.raises(OSError, match=r"^\[Errno 1\] A limit is not available \(Operation not permitted\)$"), \
            confine._named("A limit"):
        raise PermissionError(1, "x")


def proc_of(folder: Path, groups_of_process: str, mounts: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "cgroup").write_text(groups_of_process)
    (folder / "mountinfo").write_text(mounts)
    return folder


def version_2(top: Path, path: str, *, controls: str = "", limit: str = "") -> Path:
    group = top / path
    group.mkdir(parents=True, exist_ok=True)
    (group / "cgroup.subtree_control").write_text(controls)
    (group / "cgroup.procs").touch()
    if limit:
        (group / "memory.max").write_text(limit)
    return group


@pytest.mark.parametrize(("limit", "expected"), [("", True), ("max", True), ("1000000", False)])
def test_a_group_of_version_2_stands_beside_the_own_one_unless_that_has_a_limit(
    limit: str, expected: bool, tmp_path: Path
) -> None:
    top = tmp_path / "mount"
    version_2(top, ".", controls="cpu memory")
    user = version_2(top, "user", controls="memory pids")
    version_2(top, "user/session", limit=limit)
    proc = proc_of(tmp_path / "proc", "0::/user/session\n", f"30 1 0:26 / {top} rw - cgroup2 cgroup2 rw\n")
    assert memory_group("mine", proc) == (MemoryGroup(user / "mine") if expected else None)


def test_a_group_of_version_2_without_the_controller_is_none(tmp_path: Path) -> None:
    version_2(tmp_path / "mount", ".", controls="cpu")
    proc = proc_of(tmp_path / "proc", "0::/\n", f"30 1 0:26 / {tmp_path / 'mount'} rw - cgroup2 cgroup2 rw\n")
    assert memory_group("mine", proc) is None


def test_a_group_of_version_1_stands_in_the_own_one_also_in_a_container(tmp_path: Path) -> None:
    own = tmp_path / "mount/inner"
    own.mkdir(parents=True)
    (own / "cgroup.procs").touch()
    proc = proc_of(tmp_path / "proc", "4:cpu:/\n3:memory,hugetlb:/docker/1/inner\n0::/\n",
                   f"30 1 0:26 /docker/1 {tmp_path / 'mount'} rw - cgroup cgroup rw,memory\n")
    assert memory_group("mine", proc) == MemoryGroup(own / "mine")


def test_without_a_proc_file_system_there_is_no_group(tmp_path: Path) -> None:
    assert memory_group("mine", tmp_path) is None


def test_a_group_of_version_2_is_set_up_and_read(tmp_path: Path) -> None:
    group = MemoryGroup(version_2(tmp_path, "mine", limit="max"))
    group.create(1000)
    assert [(group.path / f"memory.{name}").read_text() for name in ("max", "swap.max", "oom.group")] == [
        "1000", "0", "1"]
    (group.path / "memory.events").write_text("low 0\nmax 4\noom 1\noom_kill 0\n")
    assert not group.was_out_of_memory()
    (group.path / "memory.events").write_text("low 0\nmax 4\noom 1\noom_kill 1\n")
    assert group.was_out_of_memory()


@needs_network
def test_two_confined_instances_of_torch_meet_without_network(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    (tmp_path / "train.py").write_text(
        "import torch, torch.distributed as dist\ndist.init_process_group('gloo')\n"
        "t = torch.ones(1) * dist.get_rank()\ndist.all_reduce(t)\n"
        "print('sum', t.item(), flush=True)\ndist.destroy_process_group()\n")
    with network_of_test() as network:
        started = []
        for index in (0, 1):
            work = tmp_path / f"instance-{index}"
            (command,) = launch_plan(["train.py"], World(("127.0.0.1",) * 2, index, port=29400), directory=tmp_path,
                                     environment={**os.environ, "TMPDIR": str(work)}).commands
            made = confined(command, directory=work, cpus=1, memory_bytes=2**31, no_network=True,
                            network_of=network)
            started.append((made, StreamedProcess(made.command, merged=True)))
        for made, process in started:
            assert process.wait(LONGEST_SECS) == 0
            assert b"sum 1.0" in process.output().out
            made.clean_up()


@needs_network
def test_another_controller_finds_the_network_of_an_attempt() -> None:
    mark = f"job-{os.getpid()}/0-network/"
    network = _network(mark)
    try:
        assert _network(mark) == network
    finally:
        assert kill_marked(INSTANCE_VARIABLE, mark) == 1


def test_limits_of_cpus_and_memory_are_known_without_probes() -> None:
    known, probed = limits_here(probes=False), limits_here()
    assert (known.cpus, known.memory_bytes, known.has_memory_groups) == (
        probed.cpus, probed.memory_bytes, probed.has_memory_groups)


def test_all_that_is_probed_is_read() -> None:
    printed = subprocess.run([*isolation._wrapper(), "--probe"], capture_output=True, check=True).stdout
    assert tuple(json.loads(printed)) == isolation._PROBED
