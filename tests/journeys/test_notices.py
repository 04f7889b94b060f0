"""Notifications about a real training with a fault, to recipients on this machine."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from cloudevents.core.bindings.http import HTTPMessage, from_structured_event

from forking import TORCH
from receivers import closed_port, hook

FORKED = TORCH

FALLING_ILL = '''
import os, time

deadline = time.monotonic() + 600
step = 0
while time.monotonic() < deadline and not os.path.exists("enough"):
    if step == 20:
        with torch.no_grad():
            model[0].weight[3, 2] = float("nan")
    train_step()
    time.sleep(0.01)
    step += 1
print("trained to the end")
'''


def until(desk: Any, process: Any, condition: Any) -> Any:
    """Wait for a condition during the training, let it end, and return how it ended."""
    desk.wait_until(lambda: process.poll() is not None or condition(), "it happened")
    assert process.poll() is None
    desk.write("enough", "")
    return desk.end(process)


def state_of(desk: Any) -> str:
    """Return the content of all files of the run as text."""
    return "\n".join(path.read_bytes().decode("utf-8", "replace") for path in (desk.folder / "run").rglob("*")
                     if path.is_file() and path.suffix == ".json")


def test_a_webhook_gets_a_cloudevent_during_the_training(desk: Any) -> None:
    desk.script(FALLING_ILL)
    with hook() as server:
        desk.environment["OPS_HOOK"] = server.url.replace("/hook", "/hush-hush")
        process = desk.start("barograph", "run", "--to", "run", "--notify", "$OPS_HOOK", "train.py")
        watched = until(desk, process, lambda: server.got)
        got = server.got[0]
        assert len(server.got) == len({item.json["id"] for item in server.got})

    event = from_structured_event(HTTPMessage(got.headers, got.body))
    finding = next(item for item in desk.open().findings if item.code == "N101")
    data: Any = event.get_data()
    assert event.get_type() == "org.barograph.finding.opened"
    assert (data["finding"]["id"], data["finding"]["since_step"]) == (finding.id, 20)
    assert (watched.code, watched.text) == (0, "trained to the end\n")
    assert "hush" not in state_of(desk) + watched.err
    assert "problems" not in watched.err


def test_a_webhook_that_hangs_delays_nothing_else(desk: Any) -> None:
    desk.script(FALLING_ILL)
    desk.write("barograph.toml", '''
notify_timeout_secs = "1s"
[[notify]]
to = "$HANGS"
timeout = "500s"
name = "the desk that hangs"
[[notify]]
to = "$WORKS"
''')
    with hook(hang=True) as hanging, hook() as working:
        desk.environment |= {"HANGS": hanging.url, "WORKS": working.url}
        process = desk.start("barograph", "run", "--to", "run", "train.py")
        begin = time.monotonic()
        watched = until(desk, process, lambda: working.got and hanging.got)
        took = time.monotonic() - begin

    assert took < 400
    assert (watched.code, watched.text) == (0, "trained to the end\n")
    assert "Cannot notify the desk that hangs of N101 non-finite" in watched.err
    assert "It stays in the run, and the next watcher that notifies sends it." in watched.err
    assert desk.ending()["state"] == "finished"


def test_pending_notifications_are_sent_by_the_next_watcher(desk: Any) -> None:
    desk.script(FALLING_ILL)
    desk.write("barograph.toml", 'rules = ["N101"]')
    port = closed_port()
    desk.environment["OPS_HOOK"] = f"http://127.0.0.1:{port}/hook"
    process = desk.start("barograph", "run", "--to", "run", "--notify", "$OPS_HOOK", "train.py")
    watched = until(desk, process, lambda: list((desk.folder / "run" / "findings").glob("N101*")))
    assert "Cannot notify the webhook $OPS_HOOK: Connection refused; retrying." in watched.err
    assert str(port) not in watched.err + state_of(desk)
    with hook() as server:
        # It is the same one to tell, at another place.
        desk.environment["OPS_HOOK"] = server.url
        desk.end(desk.start("barograph", "watch", "run", "--notify", "$OPS_HOOK"))
        got = server.wait_for(1)
        desk.end(desk.start("barograph", "watch", "run", "--notify", "$OPS_HOOK"))

    assert [item.json["data"]["finding"]["code"] for item in got] == ["N101"]
    assert len(server.got) == 1


class Box:
    """A mail server that accepts or rejects mail."""

    def __init__(self, answer: str) -> None:
        self.answer = answer
        self.mails: list[bytes] = []
        self.came = threading.Event()

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802 - aiosmtpd's name
        self.mails.append(envelope.content)
        self.came.set()
        return self.answer


@contextmanager
def mail_server(box: Box) -> Iterator[str]:
    server = Controller(box, hostname="127.0.0.1", port=closed_port(), server_hostname="loopback")
    server.start()
    try:
        yield f"mailto://127.0.0.1:{server.port}?from=barograph@example.org&to=ops@example.org"
    finally:
        server.stop()


def test_a_mail_is_delivered(desk: Any) -> None:
    desk.script(FALLING_ILL)
    box = Box("250 OK")
    with mail_server(box) as url:
        process = desk.start("barograph", "run", "--to", "run", "--notify", url, "train.py")
        assert until(desk, process, box.came.is_set).code == 0

    assert b"Subject: =?utf-8?" in box.mails[0] or b"N101 non-finite" in box.mails[0]


def test_a_mail_server_that_rejects_mail_is_named_and_other_recipients_are_notified(desk: Any) -> None:
    desk.script(FALLING_ILL)
    desk.write("barograph.toml", '''
rules = ["N101"]
[[notify]]
to = "$OPS_MAIL"
retries = 1
[[notify]]
to = "command:sh -c 'cat >> told.jsonl'"
events = ["opened"]
''')
    with mail_server(Box("554 this looks like spam")) as url:
        desk.environment["OPS_MAIL"] = url
        process = desk.start("barograph", "run", "--to", "run", "train.py")
        watched = until(desk, process, (desk.folder / "told.jsonl").exists)

    assert watched.code == 0
    assert "Cannot notify the service mailto: Socket Exception: (554, b'this looks like spam')" in watched.err
    assert "ops@example.org" not in watched.err + state_of(desk)
    lines = (desk.folder / "told.jsonl").read_text().splitlines()
    assert [json.loads(line)["finding"]["code"] for line in lines] == ["N101"]


def test_a_command_that_hangs_is_killed_and_named(desk: Any) -> None:
    desk.script(FALLING_ILL)
    desk.write("barograph.toml", '''
[[notify]]
to = "command:sh -c 'echo dialling; echo $$ > pid; sleep 100'"
timeout = "1s"
retries = 0
''')
    process = desk.start("barograph", "run", "--to", "run", "train.py")
    watched = until(desk, process, (desk.folder / "pid").exists)

    assert watched.code == 0
    assert "Cannot notify the command sh: it did not end within 1 s and was killed: dialling." in watched.err
    assert not is_running(int((desk.folder / "pid").read_text()))


def is_running(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_attach_sends_notifications_too(desk: Any) -> None:
    desk.script('''
import barograph

run = barograph.attach(model, optimizer, to="run", notify=[{"to": "$OPS_HOOK", "rules": ["non-finite"]}])
''' + FALLING_ILL)
    with hook() as server:
        desk.environment["OPS_HOOK"] = server.url
        process = desk.start("python", "train.py")
        ended = until(desk, process, lambda: server.got)
        got = server.got[0]

    assert got.json["data"]["finding"]["code"] == "N101"
    assert ended.text == "trained to the end\n"
    assert server.url.rpartition(":")[2] not in state_of(desk)


@pytest.mark.parametrize(("words", "message"), [
    (("--notify", "slak://x"), 'unknown service "slak". Did you mean "slack"'),
    (("--notify", "mailto://me:hunter2@example.org"), "contains a password in plain text"),
    (("--set", "G101.actions=stopp"), 'no action "stopp". Did you mean "stop"'),
])
def test_a_wrong_recipient_is_an_error_before_anything_starts(desk: Any, words: tuple[str, ...], message: str) -> None:
    desk.script('print("started")')
    refused = desk.run(*words, "train.py")

    assert (refused.code, refused.out) == (2, b"")
    assert message in refused.err
    assert "hunter2" not in refused.err
    assert not (desk.folder / "run").exists()


def test_attach_rejects_a_wrong_recipient_too(desk: Any) -> None:
    desk.script('''
import barograph
for wrong in ({"notify": ["slak://x"]}, {"on_finding": "lower-lr"}, {"allow": ["stop"]},
              {"notify": [{"to": "x", "digest": "3 wks"}]}):
    try:
        barograph.attach(model, optimizer, to="run", **wrong)
    except barograph.BarographError as error:
        print(error)
''')
    lines = desk.python("train.py").text.splitlines()

    assert 'Did you mean "slack"' in lines[0]
    assert 'attach(…, allow={"lower_lr"})' in lines[1]
    assert "There are: lower-lr, skip-step" in lines[2]
    assert '"wks" is not a unit' in lines[3]
    assert not (desk.folder / "run").exists()
