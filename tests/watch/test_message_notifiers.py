"""Webhooks, commands and Apprise's services: real servers on loopback, real processes."""

from __future__ import annotations

import email
import email.policy
import json
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP
from apprise.manager_plugins import NotificationManager
from cloudevents.core.bindings.http import HTTPMessage, from_structured_event

from barograph.errors import SettingsError
from barograph.model.finding import Evidence, Finding, FindingState, Severity
from barograph.model.key import Key, Kind
from barograph.model.notify import notify_from
from barograph.model.settings import Settings
from barograph.model.step import Mode
from barograph.watch.addressing import recipients_of
from barograph.watch.apprise_notifier import AppriseNotifier, title_of
from barograph.watch.command_notifier import CommandNotifier
from barograph.watch.message import Message, message_of
from barograph.watch.message_notifier import NotDelivered
from barograph.watch.notices import Event, Notice
from barograph.watch.secrets import filled
from barograph.watch.webhook import Webhook, cloud_event, source_of
from receivers import closed_port, hook

FINDING = Finding(
    id="G101-40-000000000000", code="G101", rule="vanishing-gradient", severity=Severity.COSTLY,
    state=FindingState.OPEN, message="The gradient of [fc1] vanishes.", remedy="Use ReLU.",
    evidence=(Evidence(Key(Kind.GRADIENT, "fc1.weight"), 41, "mean_abs", float("nan"), float("inf"), "it is none"),),
    subject="", worker="p0", optimizer="", mode=Mode.TRAIN, since_step=40, opened_step=41, last_step=41,
    closed_step=None, opened_unix=0.0,
)


def message(event: Event = Event.OPENED, text: str = "", finding: Finding | None = FINDING) -> Message:
    return message_of(Notice(event, text, finding), "s3://bucket/runs/a run", 1_800_000_000.25)


OPENED = message()
CLOSED = message(Event.CLOSED, finding=replace(FINDING, state=FindingState.CLOSED))
ACTION = message(Event.ACTION, "asked the training to stop")
PROBLEM = message(Event.PROBLEM, "The store is away.", None)


# Webhooks


@pytest.mark.parametrize(("sent", "kind"), [
    (OPENED, "org.barograph.finding.opened"), (CLOSED, "org.barograph.finding.closed"),
    (ACTION, "org.barograph.action"), (PROBLEM, "org.barograph.problem"),
])
def test_a_webhook_gets_what_the_cloudevents_library_reads_as_an_event(sent: Message, kind: str) -> None:
    with hook() as server:
        Webhook(filled(server.url), timeout_secs=10).send([sent])
        got = server.wait_for(1)[0]

    event = from_structured_event(HTTPMessage(got.headers, got.body))
    assert got.headers["Content-Type"] == "application/cloudevents+json; charset=utf-8"
    assert (event.get_specversion(), event.get_type(), event.get_id()) == ("1.0", kind, sent.id)
    assert event.get_source() == "s3://bucket/runs/a%20run"
    assert event.get_time().timestamp() == 1_800_000_000.25
    data: Any = event.get_data()
    assert data == sent.body()
    assert event.get_subject() == ("G101 vanishing-gradient" if sent.finding else None)


def test_what_was_gathered_is_a_batch_of_events() -> None:
    with hook() as server:
        Webhook(filled(server.url), timeout_secs=10).send([OPENED, CLOSED])
        got = server.wait_for(1)[0]

    assert got.headers["Content-Type"].startswith("application/cloudevents-batch+json")
    assert got.json == [cloud_event(OPENED), cloud_event(CLOSED)]


def test_an_event_is_strict_json() -> None:
    text = json.dumps(cloud_event(OPENED), allow_nan=False)

    assert json.loads(text)["data"]["finding"]["evidence"][0]["value"] is None


@pytest.mark.parametrize(("run", "source"), [
    ("runs/first", "runs/first"), ("/data/my runs/ä", "/data/my%20runs/%C3%A4"), ("", "run"),
    ("https://me:hunter2@host/a?sig=x#y", "https://host/a"),
])
def test_the_source_is_a_uri_reference_without_secrets(run: str, source: str) -> None:
    assert source_of(run) == source


@pytest.mark.parametrize(("status", "why", "again"), [
    (500, "HTTP 500 Internal Server Error", True), (503, "HTTP 503 Service Unavailable", True),
    (429, "HTTP 429 Too Many Requests", True), (404, "HTTP 404 Not Found", False),
    (401, "HTTP 401 Unauthorized", False),
    (307, "HTTP 307 Temporary Redirect: redirects are not followed; use the target URL", False),
])
def test_an_answer_says_whether_to_try_again(status: int, why: str, again: bool) -> None:
    elsewhere = {"Location": "http://127.0.0.1:1/"}
    with hook(answers=[status], headers=elsewhere) as server, pytest.raises(NotDelivered) as no:
        Webhook(filled(server.url), timeout_secs=10).send([OPENED])

    assert (str(no.value), no.value.again) == (why, again)


@pytest.mark.parametrize(("after", "secs"), [("7", 7.0), ("never", 0.0), ("99999", 600.0), ("-3", 0.0)])
def test_one_who_says_when_to_come_again_is_heard(after: str, secs: float) -> None:
    with hook(answers=[503], headers={"Retry-After": after}) as server, pytest.raises(NotDelivered) as no:
        Webhook(filled(server.url), timeout_secs=10).send([OPENED])

    assert no.value.after_secs == secs


@pytest.mark.parametrize("way", ["hang", "drip"])
def test_a_webhook_that_never_answers_takes_its_time_and_no_more(way: str) -> None:
    with hook(**{way: True}) as server:
        begin = time.monotonic()
        with pytest.raises(NotDelivered, match=r"no response within 0\.5 s"):
            Webhook(filled(server.url), timeout_secs=0.5).send([OPENED])
        assert time.monotonic() - begin < 60


def test_a_webhook_that_nobody_listens_at_says_so_without_the_url() -> None:
    url = filled(f"http://127.0.0.1:{closed_port()}/$HOOK", {"HOOK": "secret-path"})
    with pytest.raises(NotDelivered) as no:
        Webhook(url, timeout_secs=5).send([OPENED])

    assert (str(no.value), no.value.again) == ("Connection refused", True)


def test_a_webhook_is_reached_only_if_its_certificate_is_trusted() -> None:
    with hook() as server:
        with pytest.raises(NotDelivered, match=r"(?i)ssl|wrong version|record layer"):
            Webhook(filled(server.url.replace("http:", "https:")), timeout_secs=5).send([OPENED])
        assert server.got == []


# Commands


def test_a_command_gets_each_message_as_a_line_of_json(tmp_path: Path) -> None:
    out = tmp_path / "what came"
    CommandNotifier(f"sh -c 'cat > \"$0\"' '{out}'", timeout_secs=30).send([OPENED, CLOSED])

    assert [json.loads(line) for line in out.read_text().splitlines()] == [OPENED.body(), CLOSED.body()]


def test_no_shell_reads_the_command(tmp_path: Path) -> None:
    with pytest.raises(NotDelivered, match=r"exit code 3: \$HOME ; touch x \*"):
        CommandNotifier("sh -c 'echo \"$0\"; exit 3' '$HOME ; touch x *'", timeout_secs=30).send([OPENED])
    assert not (tmp_path / "x").exists()


def test_a_command_that_fails_says_its_last_words() -> None:
    with pytest.raises(NotDelivered) as no:
        CommandNotifier("sh -c 'echo out; echo no such desk >&2; exit 4'", timeout_secs=30).send([OPENED])

    assert (str(no.value), no.value.again) == ("it ended with exit code 4: out no such desk", True)


def test_what_a_command_says_of_secrets_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHAT_TOKEN", "hush-hush-123456")
    with pytest.raises(NotDelivered) as no:
        CommandNotifier("sh -c 'echo calling https://chat/$CHAT_TOKEN; exit 3'", timeout_secs=10).send([OPENED])
    assert str(no.value) == "it ended with exit code 3: calling https://chat/***"


def test_a_command_that_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    words = f"sh -c 'echo waiting; sleep 100 & echo $! > \"{pid}\"; wait'"
    with pytest.raises(NotDelivered, match=r"did not end within 1 s and was killed: waiting"):
        CommandNotifier(words, timeout_secs=1).send([OPENED])

    child = int(pid.read_text())
    deadline = time.monotonic() + 600
    while time.monotonic() < deadline and is_running(child):
        time.sleep(0.01)  # another process: there is nothing to wait on but its end
    assert not is_running(child)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_what_a_command_leaves_running_holds_up_nothing() -> None:
    begin = time.monotonic()
    CommandNotifier("sh -c 'sleep 300 & exit 0'", timeout_secs=200).send([OPENED])

    assert time.monotonic() - begin < 100


def test_a_command_that_takes_nothing_in_is_told_all_the_same() -> None:
    CommandNotifier("true", timeout_secs=30).send([OPENED] * 2000)


@pytest.mark.parametrize(("text", "message"), [
    ("no-such-program --x", 'Cannot find the program "no-such-program"'), ("", "is empty"),
    ("sh -c 'x", "No closing quotation"),
])
def test_a_command_that_cannot_be_is_refused(text: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        CommandNotifier(text, timeout_secs=1)


# Mail, through Apprise


class Mailbox:
    """Keeps what a mail server on loopback takes in; or refuses."""

    def __init__(self, refusal: str = "") -> None:
        self.refusal = refusal
        self.mails: list[Any] = []

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802 - aiosmtpd's name
        if self.refusal:
            return self.refusal
        self.mails.append(email.message_from_bytes(envelope.content, policy=email.policy.default))
        return "250 OK"

    async def handle_RCPT(  # noqa: N802 - aiosmtpd's name
        self, server: Any, session: Any, envelope: Any, address: str, options: list[str]
    ) -> str:
        if self.refusal.startswith("550"):
            return self.refusal
        envelope.rcpt_tos.append(address)
        return "250 OK"


class _Server(Controller):
    def factory(self) -> SMTP:
        return SMTP(self.handler, hostname="loopback")


@contextmanager
def mail_server(box: Mailbox) -> Iterator[str]:
    server = _Server(box, hostname="127.0.0.1", port=closed_port())
    server.start()
    try:
        yield f"mailto://127.0.0.1:{server.port}?from=barograph@example.org&to=ops@example.org"
    finally:
        server.stop()


def apprised(url: str, timeout_secs: float = 10.0) -> AppriseNotifier:
    return AppriseNotifier(filled(url), timeout_secs=timeout_secs, inline=True)


def test_a_mail_says_what_where_and_what_to_do() -> None:
    box = Mailbox()
    with mail_server(box) as url:
        apprised(url).send([OPENED])

    mail = box.mails[0]
    text = mail.get_body(("plain", "html")).get_content()
    assert mail["Subject"] == "barograph: costly G101 vanishing-gradient"
    for part in ("The gradient of [fc1] vanishes.", "Use ReLU.", "s3://bucket/runs/a run", "gradient:fc1.weight"):
        assert part in text


@pytest.mark.parametrize(("messages", "title"), [
    ([CLOSED], "barograph: gone: costly G101 vanishing-gradient"),
    ([PROBLEM], "barograph: problem: The store is away."),
    ([OPENED, CLOSED, PROBLEM], "barograph: 3 notices, the worst costly"), ([CLOSED, PROBLEM], "barograph: 2 notices"),
])
def test_the_subject_says_the_worst(messages: list[Message], title: str) -> None:
    assert title_of(messages) == title


@pytest.mark.parametrize("refusal", ["550 no such user here", "554 this looks like spam"])
def test_a_mail_server_that_refuses_is_a_reason(refusal: str) -> None:
    with mail_server(Mailbox(refusal)) as url, pytest.raises(NotDelivered) as no:
        apprised(url).send([OPENED])

    assert "ops@example.org" not in str(no.value)
    assert "failed" in str(no.value)


def test_a_mail_server_that_is_not_there_is_a_reason() -> None:
    with pytest.raises(NotDelivered):
        apprised(f"mailto://127.0.0.1:{closed_port()}?from=a@example.org&to=b@example.org").send([OPENED])


def test_what_apprise_logs_goes_nowhere(capfd: pytest.CaptureFixture[str]) -> None:
    heard: list[logging.LogRecord] = []
    everybodys = logging.Handler()
    everybodys.emit = heard.append  # type: ignore[method-assign]
    logging.getLogger().addHandler(everybodys)
    try:
        with pytest.raises(NotDelivered, match="Connection refused"):
            apprised(f"mailto://127.0.0.1:{closed_port()}?from=a@example.org&to=b@example.org").send([OPENED])
    finally:
        logging.getLogger().removeHandler(everybodys)

    assert heard == []
    assert capfd.readouterr() == ("", "")


# From settings


def labels(*to: Any) -> list[str]:
    return [item.label for item in recipients_of(Settings(notify=tuple(notify_from(entry) for entry in to))).values()]


def test_what_is_told_is_called_by_what_is_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK", "https://example.org/very-secret")

    assert labels("https://example.org/hook", "$HOOK", "json://localhost", "command:true",
                  {"to": "$HOOK", "name": "ops"}, "https://example.org/${HOOK}") == [
        "the webhook https://example.org", "the webhook $HOOK", "the service json", "the command true", "ops",
        "the webhook https://example.org"]


@pytest.mark.parametrize(("to", "message"), [
    ("slak://a/b/c", r'notify 1: unknown service "slak". Did you mean "slack"'),
    ("carrier-pigeon://x", "Available: https, command, and the services of Apprise: mailto"),
    ("htps://example.org", 'Did you mean "https"'),
    ("nowhere", '"nowhere" is not a URL'), ("https://[::1/x", "is not a URL: Invalid IPv6"),
    ("https://", "has no host"),
    ("$NOPE", r"\$NOPE"),
    ("$NO_URL", "the value from the environment or file is not a URL"),
    ({"to": "mailto://a:b@example.org", "name": "ops"}, 'notify "ops": the URL contains a password in plain text'),
    ("tgram://short/1", "tgram"),
    ({"to": "https://example.org", "rules": ["dead-rely"]}, 'Did you mean "dead-relu"'),
])
def test_what_cannot_be_told_is_refused_at_the_start(monkeypatch: pytest.MonkeyPatch, to: Any, message: str) -> None:
    monkeypatch.setenv("NO_URL", "hunter2")
    with pytest.raises(SettingsError, match=message) as refusal:
        labels(to)
    assert "hunter2" not in str(refusal.value)


def test_a_service_whose_url_holds_a_token_itself_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    url = "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnl/#ops"
    with pytest.raises(SettingsError, match="password or a token in plain text"):
        AppriseNotifier(filled(url), timeout_secs=1, inline=True)
    monkeypatch.setenv("SLACK", url)

    assert labels("$SLACK") == ["the service slack"]


@pytest.mark.parametrize(("requirements", "message"), [
    ({"packages_required": "gntp"},
     r"The service json is not available on this machine\. It requires gntp: install it with pip\."),
    ({"packages_required": ["a >= 2", "b"]}, "It requires a >= 2, b: install it with pip"),
    ({"packages_required": [], "details": "libdbus-1.so.x must be installed."}, "libdbus-1.so.x must be installed."),
])
def test_a_service_that_this_machine_cannot_use_says_what_it_needs(
    monkeypatch: pytest.MonkeyPatch, requirements: Any, message: str
) -> None:
    service = NotificationManager()["json"]
    monkeypatch.setattr(service, "enabled", False)
    monkeypatch.setattr(service, "requirements", requirements)

    with pytest.raises(SettingsError, match=message):
        labels("json://localhost")


def test_rules_are_chosen_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    table = {"to": "command:true", "rules": ["-vanishing-gradient"]}
    told = next(iter(recipients_of(Settings(notify=(notify_from(table),))).values()))
    told.add(OPENED)
    told.add(message(finding=replace(FINDING, code="G102")))

    assert [entry["id"] for entry in told.to_json()["owed"]] == ["G101-40-000000000000.opened"]


def test_two_alike_are_two() -> None:
    assert len(labels("command:true", "command:true")) == 2


def test_nothing_of_the_watcher_is_told_in_the_environment_of_a_command() -> None:
    assert "BAROGRAPH_NOTIFY" not in os.environ
