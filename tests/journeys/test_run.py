"""`barograph run` does not change the script, and records a run."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from typing import Any, NamedTuple

import numpy as np
import pytest

ORDINARY = '''
import hashlib, os, random, sys
import numpy as np

print("arguments", sys.argv)
print("main", __name__, __file__, sys.modules["__main__"].__file__, __spec__)
print("folder", os.getcwd(), "looks first in", sys.path[0])
print("read", sys.stdin.read())
random.seed(1), np.random.seed(1), torch.manual_seed(1)
model.insert(2, nn.Dropout(0.5))
for step in range(20):
    train_step()
print("on standard error", file=sys.stderr, flush=True)
print("weights", hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest())
print("chance", random.random(), np.random.random(), torch.rand(1).item(), flush=True)
sys.stdout.buffer.write(bytes(range(256)))
os.chdir("/")
sys.exit(3)
'''


class Twice(NamedTuple):
    """The results of one script without and with Barograph."""

    desk: Any
    bare: Any
    watched: Any


@pytest.fixture(scope="module")
def ordinary(make_desk: Any) -> Twice:
    desk = make_desk("ein ordner ü")
    desk.script(ORDINARY)
    words = ["train.py", "--lr", "0.1", "ä ö", ""]
    options = ["--to", "läufe/erster lauf", "--budget", "off"]
    bare = desk.start("python", *words, stdin=subprocess.PIPE)
    watched = desk.start("barograph", "run", *options, *words, stdin=subprocess.PIPE)
    return Twice(desk, desk.end(bare, b"from a pipe"), desk.end(watched, b"from a pipe"))


def test_standard_output_is_the_scripts_byte_for_byte(ordinary: Twice) -> None:
    assert b"arguments ['train.py', '--lr', '0.1', '\xc3\xa4 \xc3\xb6', '']" in ordinary.bare.out
    assert b"read from a pipe" in ordinary.bare.out
    assert ordinary.watched.out == ordinary.bare.out


def test_weights_and_random_states_are_the_same(ordinary: Twice) -> None:
    lines = [line for line in ordinary.bare.out.splitlines() if line.startswith((b"weights", b"chance"))]
    assert len(lines) == 2
    assert all(line in ordinary.watched.out for line in lines)


def test_the_exit_code_is_passed_on(ordinary: Twice) -> None:
    assert (ordinary.bare.code, ordinary.watched.code) == (3, 3)
    assert "command   ended with exit code 3" in ordinary.watched.err


def test_standard_error_is_passed_on_and_ours_follows(ordinary: Twice) -> None:
    assert ordinary.bare.err == "on standard error\n"
    assert ordinary.watched.err.startswith("on standard error\n\nbarograph: ")


def test_the_run_stays_in_place_if_the_script_changes_its_directory(ordinary: Twice) -> None:
    run = ordinary.desk.open("läufe/erster lauf")
    assert run.steps().tolist() == list(range(20))
    assert run.manifest.command == ("train.py", "--lr", "0.1", "ä ö", "")
    assert np.isfinite(run.series("loss:total").values).all()
    assert run.series("gradient:0.weight", "l2").steps.tolist() == list(range(20))
    assert [str(state.standing) for state in run.workers] == ["finished"]


# An error of torch's own, raised below a wrapper of ours, and chained to one of the script.
UNCAUGHT = '''
train_step()
try:
    model(inputs).backward()
except RuntimeError as error:
    raise ValueError("the script's own, ü") from error
'''


def test_an_error_before_training_is_the_verdict(desk: Any) -> None:
    desk.write("train.py", "import torch\nimport surely_not_installed\nfor _ in range(3):\n    pass\n")

    done = desk.run("train.py")

    assert done.code == 1
    assert "barograph: The script ended with an error before training: ModuleNotFoundError: No module named" in done.err
    assert "Mark where a step ends" not in done.err
    assert "failed" in desk.end(desk.start("barograph", "runs", ".")).text


def test_an_uncaught_exception_looks_the_same_and_is_recorded(desk: Any) -> None:
    desk.script(UNCAUGHT)
    bare = desk.start("python", "train.py")
    watched = desk.run("train.py")
    expected = desk.end(bare)
    assert expected.code == watched.code == 1
    assert "grad can be implicitly created only for scalar outputs" in expected.err
    assert watched.err.startswith(expected.err)
    assert desk.ending()["state"] == "failed"
    assert desk.ending()["reason"] == "ValueError: the script's own, ü"


def test_a_failure_is_recorded_if_the_script_has_its_own_excepthook(desk: Any) -> None:
    desk.script('''
import sys
sys.excepthook = lambda kind, error, trace: print("shown another way")
train_step()
raise ValueError("lost")
''')
    watched = desk.run("train.py")
    assert (watched.code, watched.out) == (1, b"shown another way\n")
    assert desk.ending()["reason"] == "ValueError: lost"


def test_an_exit_with_a_message_is_passed_on(desk: Any) -> None:
    desk.script('import sys\ntrain_step()\nsys.exit("no more data")\n')
    watched = desk.run("train.py")
    assert watched.code == 1
    assert watched.err.startswith("no more data\n")


@pytest.mark.parametrize("name", ["SIGKILL", "SIGSEGV", "SIGTERM"])
def test_a_signal_that_ends_the_command_ends_barograph_run(desk: Any, name: str) -> None:
    desk.write("die.py", f"import os, signal\nos.kill(os.getpid(), signal.{name})\n")
    watched = desk.run("die.py")
    assert watched.code == -getattr(signal, name)
    assert f"command   was ended by {name}" in watched.err


# Says what it hears, until it is told to go.
LISTENING = '''
import signal, sys
def hear(number, frame):
    print("heard", signal.Signals(number).name, flush=True)
    if number == signal.SIGUSR2:
        sys.exit(5)
for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2"):
    signal.signal(getattr(signal, name), hear)
print("listening", flush=True)
while True:
    signal.pause()
'''


def test_a_signal_to_barograph_run_reaches_the_command_once(desk: Any) -> None:
    desk.write("listen.py", LISTENING)
    process = desk.start("barograph", "run", "--to", "run", "listen.py")
    assert desk.read_until(process.stdout, b"\n") == b"listening\n"
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGINT"):
        process.send_signal(getattr(signal, name))
        assert desk.read_until(process.stdout, b"\n") == f"heard {name}\n".encode()
    process.send_signal(signal.SIGUSR2)
    rest = desk.end(process)
    assert (rest.code, rest.out) == (5, b"heard SIGUSR2\n")


# Says whether, after one interrupt, there is another.
INTERRUPTED = '''
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
print("listening", flush=True)
signal.sigwait({signal.SIGINT})
print("twice" if signal.sigtimedwait({signal.SIGINT}, 1.0) else "once", flush=True)
'''


# Of two signals that come at once a process sees one; so what we pass on comes late, if we pass it on.
PASSED_ON_LATE = '''
import subprocess, time
send = subprocess.Popen.send_signal
def late(self, number):
    time.sleep(0.3)
    send(self, number)
subprocess.Popen.send_signal = late
'''


def test_ctrl_c_at_the_terminal_reaches_the_command_once(desk: Any) -> None:
    desk.write("listen.py", INTERRUPTED)
    desk.write("site/sitecustomize.py", PASSED_ON_LATE)
    desk.environment["PYTHONPATH"] = os.pathsep.join(
        filter(None, [str(desk.folder / "site"), os.environ.get("PYTHONPATH")])
    )
    ours, theirs = pty.openpty()
    process = desk.start(
        sys.executable, "-c", _IN_ITS_OWN_TERMINAL, "barograph", "run", "--no-live", "--to", "run", "listen.py",
        stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
    )
    os.close(theirs)
    with open(ours, "rb", buffering=0) as terminal:
        desk.read_until(terminal, b"listening\r\n")
        os.write(ours, b"\x03")
        assert desk.read_until(terminal, b"ce\r\n").endswith(b"once\r\n")
        desk.read_until(terminal, b"/run\r\n")
        assert desk.end(process).code == 0


_IN_ITS_OWN_TERMINAL = '''
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execvp(sys.argv[1], sys.argv[1:])
'''


def test_the_command_inherits_ignored_signals(desk: Any) -> None:
    desk.write("ask.py", "import signal\nprint(signal.getsignal(signal.SIGHUP) == signal.SIG_IGN)\n")
    watched = desk.end(desk.start("nohup", "barograph", "run", "--to", "run", "ask.py"))
    assert (watched.code, watched.out) == (0, b"True\n")


def test_ctrl_c_ends_a_training_and_is_recorded(desk: Any) -> None:
    desk.script('''
import os, signal
train_step()
try:
    os.kill(os.getpid(), signal.SIGINT)
    train_step()
finally:
    print("tidied up")
''')
    watched = desk.run("train.py")
    assert (watched.code, watched.out) == (-signal.SIGINT, b"tidied up\n")
    assert watched.err.splitlines()[-2] == "  command   was ended by SIGINT"
    assert desk.ending()["reason"] == "KeyboardInterrupt"


def test_a_module_runs_by_name_with_settings_from_a_file(forked: Any) -> None:
    forked.script("print(__spec__.name)\nfor step in range(12):\n    train_step()\n", "pkg/train.py")
    forked.write("barograph.toml", 'to = "from the file"\nbudget = "off"\nrules = ["N101"]\n[collections.few]\n'
                                 'kinds = ["weight"]\ninclude = ["0.*"]\nraw = true\nevery = 5\n')
    watched = forked.end(forked.start("barograph", "run", "--config", "barograph.toml", "python", "-m", "pkg.train"))
    assert (watched.code, watched.out) == (0, b"pkg.train\n")
    run = forked.open("from the file")
    assert run.steps().tolist() == list(range(12))
    np.testing.assert_allclose(run.tensor("weight:0.weight", 5).std(ddof=0),
                               run.series("weight:0.weight", "std").values[5], rtol=1e-5)
    assert "0 finished" not in watched.err
    assert "No problems found in 12 steps." in watched.err


def test_a_shell_script_with_two_trainings_is_two_workers(forked: Any) -> None:
    forked.script('import sys\nfor step in range(int(sys.argv[1])):\n    train_step()\n')
    forked.write("both.sh", "set -e\npython train.py 3\necho between\npython train.py 5\nexit 6\n")
    watched = forked.run("--budget", "off", "--json", "sh", "both.sh")
    assert (watched.code, watched.out) == (6, b"between\n")
    run = forked.open()
    assert [(state.worker.name, str(state.standing)) for state in run.workers] == [
        ("p0", "finished"), ("p1", "finished"),
    ]
    assert run.steps(worker="p0").tolist() == [0, 1, 2]
    assert run.steps(worker="p1").tolist() == [0, 1, 2, 3, 4]
    summary = json.loads(watched.err)
    assert summary["exit_code"] == 6
    assert summary["steps"] == 8


def test_a_command_without_a_training_runs_and_the_summary_says_so(desk: Any) -> None:
    watched = desk.run("sh", "-c", "cat; exit 4", stdin=subprocess.PIPE)
    assert watched.code == 4
    assert "barograph: 0 training steps were recorded." in watched.err
    assert "No problems found in" not in watched.err


@pytest.mark.parametrize(("command", "message"), [
    (["missing.py"], "No script at missing.py."),
    (["no-such-program", "x"], 'Program not found: "no-such-program".'),
    (["./notes.txt"], '"./notes.txt" is not an executable program.'),
])
def test_a_command_that_cannot_run_is_an_error_and_leaves_nothing(
    desk: Any, command: list[str], message: str
) -> None:
    desk.write("notes.txt", "nothing to run")
    watched = desk.run(*command)
    assert (watched.code, watched.err) == (2, f"barograph: {message}\n")
    assert not (desk.folder / "run").exists()


@pytest.mark.parametrize(("options", "toml", "message"), [
    (["--to", "memory://x"], "", "A run in memory cannot be shared by two processes"),
    (["--to", "ftp://x/y"], "", '"ftp://" is not supported'),
    (["--to", "train.py"], "", "Cannot record a run there: it is a file."),
    (["--budget", "lots"], "", 'budget is "lots"'),
    (["--budget", "0"], "", "budget is 0; it must be above 0"),
    (["--preset", "standart"], "", '"standart" is not a preset. Did you mean "standard"?'),
    (["--rules", "N101,G999"], "", "G999"),
    (["--on-finding", "stpo"], "", 'on_finding is "stpo". Did you mean "stop"?'),
    (["--config", "none.toml"], "", "No settings file at none.toml."),
    ([], "budgte = 0.1", '"budgte" is not a setting. Did you mean "budget"?'),
    ([], "flush_secs = 'soon'", 'flush_secs is "soon"; it must be a time'),
    ([], "[collections.few]\nevery = 5", "collections.few has no kinds"),
    ([], "[collections.few]\nkinds = ['weight']\nevery = -1", "every is -1"),
    ([], "[rule_settings.N101]\nonly_nans = true", "only_nan"),
    ([], "not toml", "is not valid TOML"),
])
def test_a_bad_setting_is_an_error_before_the_script_starts(
    forked: Any, options: list[str], toml: str, message: str
) -> None:
    forked.write("train.py", "print('started')")
    if toml:
        forked.write("barograph.toml", toml)
    watched = forked.end(forked.start("barograph", "run", *options, "train.py"))
    assert (watched.code, watched.out) == (2, b"")
    assert message in watched.err
    assert len(watched.err.splitlines()) == 1
    assert not list(forked.folder.glob("barograph-runs/*"))


UNRULY = """
import os
from barograph.model.finding import Severity
from barograph.model.key import Kind
from barograph.model.selection import Selection
from barograph.rules.base import Rule

class Loops(Rule):
    code, name, severity = "X901", "loops", Severity.NOTE
    needs = (Selection(kinds=frozenset({Kind.LOSS})),)

    def judge(self, view, memory):
        while view.step.number == 3:
            pass
        return ()

class Ends(Loops):
    code, name = "X902", "ends"

    def judge(self, view, memory):
        print("printed by a rule")
        if view.step.number == 5:
            os._exit(7)
        return ()
"""


def test_third_party_rules_that_loop_print_or_exit_are_named_and_the_rest_continues(forked: Any) -> None:
    forked.write("unruly.py", UNRULY)
    forked.write("barograph.toml", 'rule_timeout_secs = "1s"\nbudget = "off"\n')
    forked.script("for step in range(20):\n    inputs[0, 0] = float('nan') if step == 10 else 1.0\n    train_step()\n")
    watched = forked.run("--rules", "N101,unruly:Loops,unruly:Ends", "train.py")
    assert (watched.code, watched.out) == (0, b""), watched.err
    assert "The rule X901 loops is not used any more: it took longer than 1 s over one step." in watched.err
    assert "The rule X902 ends is not used any more: it ended the process that it runs in." in watched.err
    assert "(since step 10, N101)" in watched.err


def test_modules_next_to_the_script_do_not_shadow_ours(desk: Any) -> None:
    # Names that PyTorch itself does not import: with those, the script would end without us too.
    for name in ("barograph", "pyarrow", "obstore", "safetensors", "rich", "typer", "tomllib"):
        desk.write(f"{name}.py", f"raise SystemExit('the {name} of the script')")
    desk.script("for step in range(5):\n    train_step()\n")
    watched = desk.run("--budget", "off", "train.py")
    assert (watched.code, watched.out) == (0, b""), watched.err
    assert desk.open().steps().tolist() == list(range(5))


def test_the_terminal_shows_the_live_line_below_the_output_of_the_script(desk: Any) -> None:
    desk.script('''
import sys
for step in range(10_000_000):
    train_step()
    if step % 500 == 0:
        print("line", step, flush=True)
        if select.select([sys.stdin], [], [], 0)[0]:
            break
print("asked to end", flush=True)
'''.replace("import sys", "import select, sys"))
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 90, 0, 0))
    process = desk.start(
        sys.executable, "-c", _IN_ITS_OWN_TERMINAL, "barograph", "run", "--to", "run", "train.py",
        stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
    )
    os.close(theirs)
    with open(ours, "r+b", buffering=0) as terminal:
        seen = desk.read_until(terminal, b"0 problems")
        terminal.write(b"\n")
        seen += desk.read_until(terminal, b"asked to end\r\n")
        seen += desk.read_until(terminal, b"/run\r\n")
        assert desk.end(process).code == 0
    text = seen.decode()
    # Below the scroll region, in the last of 24 lines; and the whole terminal is given back before the summary.
    assert "\x1b[1;23r" in text
    assert re.search(r"\x1b\[24;1H\x1b\[2K\x1b\[7m barograph  0 problems · step \d+ · loss [\d.]+ · [\d.]+ "
                     r"m?s a step( · recording cost [\d.]+%)?\x1b", text)
    assert text.index("\x1b[1;24r") < text.index("barograph: ")
    # The live line may be drawn in the middle of a line.
    lines = re.findall(r"line (\d+)", re.sub("\x1b7.*?\x1b8", "", text))
    assert [int(line) for line in lines] == list(range(0, 500 * len(lines), 500))


@pytest.mark.parametrize("code", [0, 5])
def test_a_closed_terminal_does_not_change_the_exit_code(desk: Any, code: int) -> None:
    desk.script(f'''
import os, signal, sys, time
signal.signal(signal.SIGHUP, signal.SIG_IGN)
number = 0
while not os.path.exists("enough"):
    train_step()
    time.sleep(0.01)
    number += 1
    if number == 20:
        open("begun", "w").close()
sys.exit({code})
''')
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 90, 0, 0))
    process = desk.start(
        sys.executable, "-c", _IGNORING_HANG_UPS, "barograph", "run", "--to", "run", "--rules", "N101", "train.py",
        stdin=theirs, stderr=theirs, start_new_session=True,
    )
    os.close(theirs)
    with open(ours, "rb", buffering=0) as terminal:
        desk.read_until(terminal, b"problems")
        desk.wait_until((desk.folder / "begun").exists, "the training goes on")
    desk.write("enough", "")
    assert desk.end(process).code == code
    assert [str(state.standing) for state in desk.open().workers] == ["finished"]
    # It was watched to its end.
    assert (desk.folder / "run" / "watch" / "state.json").exists()


_IGNORING_HANG_UPS = '''
import os, signal, sys
signal.signal(signal.SIGHUP, signal.SIG_IGN)
os.execvp(sys.argv[1], sys.argv[1:])
'''


def test_standard_error_is_valid_json_under_json(forked: Any) -> None:
    forked.script('''
for step in range(30):
    if step == 29:
        inputs[0, 0] = float("inf")
    train_step()
''')
    watched = forked.run("--budget", "off", "--json", "--findings-to", "told/findings.jsonl", "train.py")
    assert watched.code == 0
    summary = json.loads(watched.err, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert "N101" in {item["code"] for item in summary["findings"]}
    lines = (forked.folder / "told" / "findings.jsonl").read_text().splitlines()
    told = [json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is no JSON")) for line in lines]
    assert {(item["event"], item["finding"]["code"]) for item in told} >= {("opened", "N101")}
    assert {item["run"] for item in told} == {str(forked.folder / "run")}


@pytest.mark.s3
def test_a_run_goes_to_a_bucket(forked: Any, s3_url: str) -> None:
    forked.script("for step in range(20):\n    train_step()\n")
    watched = forked.run("--budget", "off", "train.py", to=f"{s3_url}/mit leerzeichen ü")
    assert watched.code == 0
    assert f"run       {s3_url}/mit leerzeichen ü" in watched.err
    import barograph

    assert barograph.open(f"{s3_url}/mit leerzeichen ü").steps().tolist() == list(range(20))
