"""Files that are opened to read are taken down, and `open` is as it was afterwards."""

from __future__ import annotations

import builtins
import gzip
import io
import multiprocessing
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from barograph.capture import opened
from barograph.capture.opened import Listening
from barograph.experiments.artifacts import artifact_of
from barograph.store.urls import store_from_url


@pytest.fixture
def listening() -> Iterator[Listening]:
    begun = Listening()
    yield begun
    begun.stop()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "data.csv"
    path.write_text("1,2\n")
    return path


def test_what_is_read_is_taken_down_once_whatever_it_is_opened_with(
    listening: Listening, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zipped = tmp_path / "data.gz"
    zipped.write_bytes(gzip.compress(b"x"))
    monkeypatch.chdir(tmp_path)
    with open(file) as first, io.open(str(file), mode="rb") as second, open("data.csv") as third:  # noqa: UP020
        assert (first.read(), second.read(), third.read()) == ("1,2\n", b"1,2\n", "1,2\n")
    assert file.read_text() == "1,2\n"
    with gzip.open(zipped) as unzipped:
        assert unzipped.read() == b"x"
    assert set(listening.files.paths) == {str(file), str(zipped)}


def test_what_is_written_indexes_python_itself_and_devices_are_no_data(listening: Listening, tmp_path: Path) -> None:
    for name, mode in (("new", "w"), ("new", "a"), ("new", "r+")):
        with open(tmp_path / name, mode):
            pass
    (tmp_path / "code.py").write_text("1\n")
    index = tmp_path / "runs" / ".catalog" / "catalog.sqlite"
    index.parent.mkdir(parents=True)
    index.write_text("of all runs there")
    for path in (tmp_path / "code.py", index, os.__file__, os.devnull, "/proc/self/status"):
        with open(path):
            pass
    assert listening.files.paths == []


@pytest.mark.parametrize("path", [
    "src/mine.egg-info/PKG-INFO", "lib/other-1.0.dist-info/entry_points.txt", ".cache/matplotlib/fontlist-v390.json",
    ".config/matplotlib/matplotlibrc", ".keras/keras.json", "mpl/fontlist-v390.json", "matplotlib-k3x/matplotlibrc",
    ".matplotlib/matplotlibrc",
])
def test_what_libraries_keep_of_themselves_is_no_data_and_what_is_named_alike_is(
    listening: Listening, tmp_path: Path, path: str
) -> None:
    kept = tmp_path / path
    alike = kept.parent.parent / "data" / f"my-{kept.name}"
    for file in (kept, alike):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("1")
        file.read_text()
    assert listening.files.paths == [str(alike)]


def test_a_file_that_is_not_there_is_the_scripts_own_error(listening: Listening, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        open(tmp_path / "missing")  # noqa: SIM115
    with pytest.raises(TypeError):
        open()  # type: ignore[call-overload]  # noqa: SIM115
    assert listening.files.paths == []


def test_names_that_are_numbers_or_bytes_open_as_ever(listening: Listening, file: Path) -> None:
    handle = os.open(file, os.O_RDONLY)
    with open(handle) as one, open(os.fsencode(file)) as other:
        assert one.read() == other.read()
    assert listening.files.paths == []


def test_beyond_the_limit_openings_are_counted(
    listening: Listening, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opened, "MOST_FILES", 2)
    for number in (0, 1, 2, 3, 3, 0):
        (tmp_path / str(number)).touch()
        (tmp_path / str(number)).read_bytes()
    assert listening.since(1) == ((str(tmp_path / "1"),), 3)


def test_afterwards_open_is_the_same_object_again(file: Path) -> None:
    before = builtins.open, io.open
    listening = Listening()
    kept = open
    assert builtins.open is not before[0]
    listening.stop()
    assert (builtins.open, io.open) == before
    with kept(file) as still:
        assert still.read() == "1,2\n"
    assert listening.files.paths == []


def test_what_somebody_put_on_top_of_ours_stays(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listening = Listening()
    ours = builtins.open
    mine = lambda *words, **named: ours(*words, **named)  # noqa: E731
    monkeypatch.setattr(builtins, "open", mine)
    listening.stop()
    assert builtins.open is mine
    assert file.read_text() == "1,2\n"


def test_it_can_be_pickled_and_kept_in_a_class_as_the_function_can(listening: Listening, file: Path) -> None:
    class Keeper:
        opener = open

    with Keeper().opener(file) as found:
        assert found.read() == "1,2\n"
    assert pickle.loads(pickle.dumps(open)) is open
    assert open.__name__ == "open"


def test_an_error_of_ours_opens_the_file_and_takes_nothing_down_any_more(
    listening: Listening, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os.path, "abspath", lambda path: 1 / 0)
    with open(file) as found:
        assert found.read() == "1,2\n"
    monkeypatch.undo()
    with open(file) as found:
        assert found.read() == "1,2\n"
    assert listening.files.paths == []


def _reads(path: str) -> None:
    with open(path) as file:
        file.read()


@pytest.mark.skipif(sys.platform != "linux", reason="children are heard on Linux alone")
def test_what_forked_children_read_is_taken_down_once(listening: Listening, tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}\nodd \udcff.csv" for number in range(20)]
    for path in paths:
        path.write_text("1,2\n")
    context = multiprocessing.get_context("fork")
    started = [context.Process(target=_reads, args=(path,)) for path in (*paths, paths[0])]
    for process in started:
        process.start()
    for process in started:
        process.join()
    found, _ = listening.since(0)
    assert sorted(found) == sorted(map(str, paths))
    assert listening.since(len(found)) == ((), 0)


def test_what_barograph_reads_to_log_it_is_no_data_of_the_script(listening: Listening, file: Path) -> None:
    artifact_of(store_from_url("memory://logged"), file, None, media_type="", copy=True)
    assert listening.since(0) == ((), 0)


@pytest.mark.skipif(sys.platform != "linux", reason="children are heard on Linux alone")
def test_a_process_that_is_started_anew_says_what_it_reads(listening: Listening, file: Path) -> None:
    program = f"from barograph.capture.opened import Listening; listening = Listening(); open({str(file)!r}).close()"
    subprocess.run([sys.executable, "-c", program], check=True)
    assert listening.since(0)[0] == (str(file),)


def test_nothing_is_left_in_the_environment_or_open(file: Path) -> None:
    before = dict(os.environ), len(os.listdir("/proc/self/fd")) if sys.platform == "linux" else 0
    begun = Listening()
    begun.stop()
    assert (dict(os.environ), len(os.listdir("/proc/self/fd")) if sys.platform == "linux" else 0) == before
