"""The code of a job: what is sent, what is not, and that an archive from anybody unpacks only where it may."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import socket
import subprocess
import tarfile
import time
from pathlib import Path

import pytest

from barograph.errors import JobError, JobRefused
from barograph.jobs import code
from barograph.jobs.code import pack, unpack
from barograph.provenance.secrets import Secrets
from repositories import Repository, isolate_git, new_repository

KEY = "AKIA" + "IOSFODNN7EXAMPLE"
PRIVATE = "-----BEGIN RSA PRIVATE " + "KEY-----\nMIIEow\n-----END RSA PRIVATE " + "KEY-----\n"


@pytest.fixture(autouse=True)
def own_git_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    isolate_git(tmp_path, monkeypatch)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return new_repository(tmp_path / "repository")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "folder"
    made.mkdir()
    (made / "train.py").write_text("print(1)\n")
    return made


@pytest.fixture
def target(tmp_path: Path) -> Path:
    made = tmp_path / "target"
    made.mkdir()
    return made


def sent(directory: Path, target: Path) -> dict[str, str]:
    """Return the files that arrive, by path."""
    unpack(pack(directory, secrets=Secrets()).data, target)
    return {path.relative_to(target).as_posix(): path.read_text() for path in target.rglob("*") if path.is_file()}


def test_tracked_files_arrive_as_they_are_in_the_working_tree(repository: Repository, target: Path) -> None:
    repository.write("gone.py", "1")
    repository.write("model/net.py", "old")
    repository.commit()
    repository.write("model/net.py", "new")
    (repository.root / "gone.py").unlink()
    assert sent(repository.root, target) == {"train.py": "print(1)\nprint(2)\nprint(3)\n", "model/net.py": "new"}


def test_untracked_files_arrive_and_ignored_ones_do_not(repository: Repository, target: Path) -> None:
    repository.write(".gitignore", "*.log\n")
    repository.write("a.log", "x")
    repository.write("config/lr.toml", "lr = 1")
    assert sorted(sent(repository.root, target)) == [".gitignore", "config/lr.toml", "train.py"]


def test_a_file_in_conflict_arrives_once(repository: Repository, target: Path) -> None:
    repository.git("checkout", "--quiet", "-b", "other")
    repository.write("train.py", "theirs")
    repository.commit()
    repository.git("checkout", "--quiet", "trunk")
    repository.write("train.py", "ours")
    repository.commit()
    subprocess.run(["git", "merge", "--quiet", "other"], cwd=repository.root, check=False, capture_output=True)
    packed = pack(repository.root, secrets=Secrets())
    assert unpack(packed.data, target) == ["train.py"]
    assert "<<<<<<<" in (target / "train.py").read_text()


def test_only_the_folder_of_the_script_is_sent(repository: Repository, target: Path) -> None:
    repository.write("examples/digits/train.py", "inner")
    repository.commit()
    repository.write("examples/digits/more.py", "loose")
    assert sent(repository.root / "examples/digits", target) == {"train.py": "inner", "more.py": "loose"}


def test_files_of_submodules_arrive(repository: Repository, tmp_path: Path, target: Path) -> None:
    library = new_repository(tmp_path / "library")
    repository.git("submodule", "--quiet", "add", str(library.root), "third/library")
    repository.commit()
    repository.write("third/library/train.py", "changed")
    repository.write("third/library/loose.py", "loose")
    assert {name: text for name, text in sent(repository.root, target).items() if name.startswith("third")} == {
        "third/library/train.py": "changed", "third/library/loose.py": "loose"}


def test_a_submodule_that_is_not_checked_out_is_named(repository: Repository, tmp_path: Path) -> None:
    library = new_repository(tmp_path / "library")
    repository.git("submodule", "--quiet", "add", str(library.root), "library")
    repository.commit()
    repository.git("submodule", "--quiet", "deinit", "--force", "library")
    assert pack(repository.root, secrets=Secrets()).notes == (
        '"library": the submodule is not checked out. Run git submodule update --init.',)


def test_a_repository_within_is_named(repository: Repository) -> None:
    new_repository(repository.root / "other")
    assert pack(repository.root, secrets=Secrets()).notes == ('"other/": a repository of its own.',)


def test_a_folder_that_its_repository_ignores_is_sent_whole(repository: Repository, target: Path) -> None:
    repository.write(".gitignore", "scratch/\n")
    repository.write("scratch/try.py", "x")
    assert sent(repository.root / "scratch", target) == {"try.py": "x"}


def test_without_git_what_is_no_code_stays(folder: Path, target: Path) -> None:
    for name in ("pkg/a.py", "pkg/__pycache__/a.pyc", ".env", ".cache/x", "env/pyvenv.cfg", "env/lib/x.py",
                 "conda/conda-meta/history", "node_modules/a.js", "runs/first/run.json", "runs/first/attempts/0",
                 "jobs/store/event", "mine.egg-info/PKG-INFO"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")
    unpack(pack(folder, secrets=Secrets(), away=[folder / "jobs"]).data, target)
    assert sorted(path.relative_to(target).as_posix() for path in target.rglob("*") if path.is_file()) == [
        "pkg/a.py", "train.py"]


def test_a_virtual_environment_that_nobody_ignores_stays(repository: Repository, target: Path) -> None:
    for name in ("env/pyvenv.cfg", "env/lib/x.py", "__pycache__/a.pyc", "environment.py"):
        repository.write(name, "x")
    assert sorted(sent(repository.root, target)) == ["environment.py", "train.py"]


def test_large_files_are_named_with_what_to_do(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code, "LOOSE_FILE_BYTES", 100)
    monkeypatch.setattr(code, "FILE_BYTES", 1000)
    repository.write("tracked.bin", "x" * 900)
    repository.write("weights.bin", "x" * 1001)
    repository.commit()
    repository.write("loose.csv", "x" * 101)
    packed = pack(repository.root, secrets=Secrets())
    assert sorted(packed.notes) == ['"loose.csv": 101 bytes, more than 100. Pass data with --data.',
                                    '"weights.bin": 1,001 bytes, more than 1,000. Pass data with --data.']


@pytest.mark.parametrize("with_git", [True, False])
def test_too_many_files_are_refused(folder: Path, with_git: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code, "MOST_FILES", 3)
    if with_git:
        new_repository(folder)
    (folder / "data").mkdir()
    for name in "abc":
        (folder / "data" / f"{name}.py").write_text("x")
    with pytest.raises(JobRefused, match=r'^The code is too much to send: more than 3 files, mostly "data"\. Move'):
        pack(folder, secrets=Secrets())


@pytest.mark.parametrize("with_git", [True, False])
def test_runs_and_jobs_do_not_count(
    folder: Path, with_git: bool, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(code, "MOST_FILES", 3)
    if with_git:
        new_repository(folder)
    for number in range(9):
        for name in (f"jobs/{number}", f"runs/first/attempts/{number}", "runs/first/run.json"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text("x")
    packed = pack(folder, secrets=Secrets(), away=[folder / "jobs"])
    assert (unpack(packed.data, target), packed.notes) == (["train.py"], ())


def test_too_many_bytes_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code, "MOST_BYTES", 2 * 2**20)
    (folder / "data").mkdir()
    for name in "abc":
        (folder / f"{name}.py").write_text("x" * 2**18)
        (folder / "data" / f"{name}.py").write_text("x" * 2**20)
    with pytest.raises(JobRefused, match=r'too much to send: more than 2 MiB, mostly "data"\. Move data out'):
        pack(folder, secrets=Secrets())


@pytest.mark.parametrize(("place", "reason"), [("home", "your home directory"), ("", "your home directory"),
                                               ("/", "the root of the file system")])
def test_a_folder_that_cannot_be_code_is_refused(
    place: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    with pytest.raises(JobRefused, match=f"too much to send: {reason}"):
        pack(tmp_path / place, secrets=Secrets())


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(JobRefused, match="does not exist"):
        pack(tmp_path / "none", secrets=Secrets())


def test_the_same_files_give_the_same_archive(tmp_path: Path) -> None:
    packed = []
    for place, mode in (("one", 0o600), ("two", 0o644)):
        made = tmp_path / place
        made.mkdir()
        for name in ("b.py", "a.py") if place == "one" else ("a.py", "b.py"):
            (made / name).write_text(name)
            (made / name).chmod(mode)
            os.utime(made / name, (0, len(packed)))
        packed.append(pack(made, secrets=Secrets()))
    assert packed[0] == packed[1]
    assert packed[0].digest == hashlib.sha256(packed[0].data).hexdigest()
    assert packed[0].size_bytes == len(packed[0].data)


def test_a_changed_byte_gives_another_digest(folder: Path) -> None:
    before = pack(folder, secrets=Secrets()).digest
    (folder / "train.py").write_text("print(2)\n")
    assert pack(folder, secrets=Secrets()).digest != before


def test_executable_bits_and_links_arrive(repository: Repository, target: Path) -> None:
    repository.write("run.sh", "#!/bin/sh\n").chmod(0o755)
    (repository.root / "again.py").symlink_to("train.py")
    repository.commit()
    unpack(pack(repository.root, secrets=Secrets()).data, target)
    assert os.access(target / "run.sh", os.X_OK)
    assert not os.access(target / "train.py", os.X_OK) or os.stat(target / "train.py").st_mode & 0o100 == 0
    assert os.readlink(target / "again.py") == "train.py"


def test_code_can_be_unpacked_again(folder: Path, target: Path) -> None:
    (folder / "again.py").symlink_to("train.py")
    packed = pack(folder, secrets=Secrets())
    assert unpack(packed.data, target) == unpack(packed.data, target) == ["again.py", "train.py"]


def test_a_pipe_and_a_socket_are_named(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.fspath(folder / "socket"))
        packed = pack(folder, secrets=Secrets())
    assert packed.notes == ('"pipe": not a regular file.', '"socket": not a regular file.')


@pytest.mark.parametrize("leads_to", ["/etc/passwd", "../outside", ".git/config"])
@pytest.mark.parametrize("with_git", [True, False])
def test_links_that_lead_out_are_named(folder: Path, leads_to: str, with_git: bool, target: Path) -> None:
    if with_git:
        new_repository(folder)
    (folder / "link").symlink_to(leads_to)
    packed = pack(folder, secrets=Secrets())
    assert packed.notes == (f'"link": the link leads out of the folder, to "{leads_to}".',)
    assert unpack(packed.data, target) == ["train.py"]


def test_secrets_do_not_travel(repository: Repository, target: Path) -> None:
    repository.write("config.py", f'key = "{KEY}"\n')
    repository.write("requirements.txt", "--index-url https://me:hunter2@host/simple\nnumpy\n")
    repository.write(".env", "A=1")
    repository.write("key.pem", PRIVATE)
    repository.write("login.py", 'send("the-value-of-it")\n')
    repository.commit()
    packed = pack(repository.root, secrets=Secrets({"MY_TOKEN": "the-value-of-it"}))
    unpack(packed.data, target)
    assert (target / "config.py").read_text() == 'key = "***"\n'
    assert (target / "requirements.txt").read_text() == "--index-url https://***@host/simple\nnumpy\n"
    assert (target / "login.py").read_text() == 'send("***")\n'
    assert not (target / ".env").exists()
    assert not (target / "key.pem").exists()
    assert len(packed.notes) == 5


def test_what_only_looks_like_a_secret_is_code_and_arrives(repository: Repository, target: Path) -> None:
    text = 'password = "changeme"\nheaders = {"api_key": "not-a-real-key-1234567"}\n'
    repository.write("secrets.py", text)
    repository.commit()
    unpack(pack(repository.root, secrets=Secrets()).data, target)
    assert (target / "secrets.py").read_text() == text


def test_code_without_files_is_empty(tmp_path: Path, target: Path) -> None:
    (tmp_path / "empty").mkdir()
    packed = pack(tmp_path / "empty", secrets=Secrets())
    assert (packed.size_bytes, unpack(packed.data, target)) == (0, [])


def test_a_name_of_any_bytes_arrives(folder: Path, target: Path) -> None:
    name = b"odd\xff\n \xc3\xa4.py"
    Path(os.fsdecode(os.path.join(os.fsencode(folder), name))).write_text("x")
    unpack(pack(folder, secrets=Secrets()).data, target)
    assert name in os.listdir(os.fsencode(target))


def test_five_hundred_files_take_a_fifth_of_a_second(repository: Repository) -> None:
    text = "".join(f"    value_{number} = {{'token': tokens[{number}], 'url': url}}  # a line of code\n"
                   for number in range(60))
    for number in range(500):
        repository.write(f"pkg{number % 20}/module_{number}.py", f"# {number}\n{text}")
    repository.commit()
    pack(repository.root, secrets=Secrets())
    began = time.process_time()
    pack(repository.root, secrets=Secrets())
    assert time.process_time() - began < 1.0  # a loaded machine is slower; the time on an idle one is 0.07 s


def archive_of(*entries: tarfile.TarInfo, content: bytes = b"") -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        for entry in entries:
            entry.size = len(content) if entry.isfile() else 0
            archive.addfile(entry, io.BytesIO(content))
    return made.getvalue()


def entry(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname = kind, link
    return made


@pytest.mark.parametrize("entries", [
    [entry("../out")], [entry("/out")], [entry("a/../../out")], [entry(".git/hooks/post-checkout")],
    [entry("link", tarfile.SYMTYPE, "/etc")], [entry("link", tarfile.SYMTYPE, "../..")],
    [entry("hard", tarfile.LNKTYPE, "/etc/passwd")], [entry("pipe", tarfile.FIFOTYPE)],
    [entry("device", tarfile.CHRTYPE)], [entry("fine.py"), entry("../out")],
], ids=lambda entries: entries[-1].name)
def test_a_hostile_archive_writes_nothing(entries: list[tarfile.TarInfo], target: Path) -> None:
    with pytest.raises(JobError, match="the archive of the code"):
        unpack(archive_of(*entries, content=b"x"), target)
    assert list(target.iterdir()) == []
    assert not (target.parent / "out").exists()


def test_an_archive_does_not_write_through_its_own_link(target: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (target / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(JobError, match="leads through a link"):
        unpack(archive_of(entry("link/file"), content=b"x"), target)
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_an_archive_that_grows_without_end_is_refused(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code, "MOST_BYTES", 1000)
    with pytest.raises(JobError, match="The archive of the code has more than 1,000 bytes"):
        unpack(archive_of(entry("a"), entry("b"), content=bytes(600)), target)
    assert list(target.iterdir()) == []


@pytest.mark.parametrize("data", [
    pytest.param(b"not an archive", id="text"), pytest.param(gzip.compress(b"x" * 2000), id="no tar"),
    pytest.param(gzip.compress(bytes(5000))[:20], id="cut off"),
    pytest.param(gzip.compress(os.urandom(3000))[:-900], id="noise"),
])
def test_a_damaged_archive_is_refused(data: bytes, target: Path) -> None:
    with pytest.raises(JobError, match="Cannot unpack the archive of the code"):
        unpack(data, target)
