"""The code of two runs: commits, and the changes that one of them or both had not committed."""

from __future__ import annotations

from pathlib import Path

import pytest

from barograph.model.origin import Code, Origin
from barograph.provenance.gathering import Gathered
from barograph.rerun.code_difference import MOST_LINES, CodeDifference, code_difference
from barograph.runs.state.origins import write_origin
from barograph.store.base import Store
from barograph.store.urls import store_from_url

CODE = Code("/repository", commit="abc")


def patch(path: str, *lines: str) -> bytes:
    text = "".join(f"{line}\n" for line in lines)
    head = f"diff --git a/{path} b/{path}\nindex 1..2 100644\n--- a/{path}\n+++ b/{path}\n"
    return f"{head}@@ -1,2 +1,2 @@\n{text}".encode()


@pytest.fixture
def kept(tmp_path: Path) -> object:
    def kept(diff: bytes, code: Code | None = CODE, *, untracked: bytes = b"") -> tuple[Store, Origin]:
        store = store_from_url(str(tmp_path / str(len(list(tmp_path.iterdir())))))
        return store, write_origin(store, 0, Gathered(Origin(code=code), diff=diff, untracked=untracked))

    return kept


def test_a_file_that_one_run_changed_is_shown_with_its_changes(kept) -> None:
    same = patch("same.py", "-a", "+b")
    found = code_difference(kept(same), kept(same + patch("train.py", " import torch", "-lr = 0.1", "+lr = 0.2")))

    (file,) = found.files
    assert (file.path, file.only) == ("train.py", "second")
    assert file.lines == ("@@ -1,2 +1,2 @@", " import torch", "-lr = 0.1", "+lr = 0.2")
    assert (found.commits, found.left_out, found.problem) == (("abc", "abc"), 0, "")


def test_of_a_file_that_both_changed_the_difference_of_the_changes_is_shown(kept) -> None:
    found = code_difference(kept(patch("train.py", "-lr = 0.1", "+lr = 0.2")),
                            kept(patch("train.py", "-lr = 0.1", "+lr = 0.3")))

    (file,) = found.files
    assert file.only == ""
    assert [line for line in file.lines if line[0] in "+-"] == ["-+lr = 0.2", "++lr = 0.3"]


def test_renamed_new_and_binary_files_have_their_paths(kept) -> None:
    renamed = b"diff --git a/old.py b/new.py\nsimilarity index 100%\nrename from old.py\nrename to new.py\n"
    added = (b"diff --git a/added.py b/added.py\nnew file mode 100644\n--- /dev/null\n+++ b/added.py\n"
             b"@@ -0,0 +1 @@\n+x\n")
    binary = b"diff --git a/a.bin b/a.bin\nindex 1..2\nGIT binary patch\nliteral 3\n"

    found = code_difference(kept(b""), kept(renamed + added + binary))

    assert [file.path for file in found.files] == ["a.bin", "added.py", "new.py"]


def test_what_is_not_known_is_said(kept) -> None:
    store, origin = kept(patch("train.py", "+x"))

    assert "was not recorded" in code_difference(kept(b""), (store, None)).problem
    assert "was not recorded" in code_difference(kept(b""), kept(b"", None)).problem
    assert code_difference(kept(b"", untracked=b"one"), kept(b"", untracked=b"two")).problem == (
        "Their untracked files differ.")
    assert origin.code is not None
    store.delete(origin.code.diff)
    assert "is missing" in code_difference(kept(b""), (store, origin)).problem


def test_a_huge_difference_is_cut_and_says_so(kept) -> None:
    lines = [f"+{number}" for number in range(MOST_LINES)]
    found = code_difference(kept(b""), kept(patch("a.py", *lines) + patch("b.py", "+x")))

    assert isinstance(found, CodeDifference)
    assert sum(len(file.lines) for file in found.files) == MOST_LINES
    assert found.left_out == 3
