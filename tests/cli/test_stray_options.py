"""Options that were probably meant for our command, and that a script receives."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.main import get_command

from barograph.cli.jobs.tune import GROUP
from barograph.cli.main import parsed
from barograph.cli.stray_options import stray_notes
from barograph.errors import SettingsError, UnknownName

OWN = ["--vary", "--name", "--max-time", "--parallel", "--stop-on-findings", "--checkpoint", "--experiment", "--tag",
       "--to"]
PARSES = 'parser.add_argument("--lr")\n'


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(PARSES, encoding="utf-8")
    return tmp_path / "train.py"


def notes(*words: str) -> list[str]:
    return stray_notes(words, OWN, "barograph tune start")


def tune(words: Sequence[str]) -> None:
    start = get_command(GROUP).commands["start"]  # type: ignore[attr-defined]
    start.make_context("barograph tune", list(words))


def test_a_misspelled_option_after_the_script_is_named(script: Path) -> None:
    assert notes("train.py", "--lr", "0.1", "--vray", "x=0..1", "--vray=y=0..1") == [
        "train.py receives --vray, which it does not mention. Did you mean --vary?"]
    assert notes("python", "-u", "train.py", "--maxtime", "3h") == [
        "train.py receives --maxtime, which it does not mention. Did you mean --max-time?"]


@pytest.mark.parametrize("word", ["--ary", "--varyy", "--vart", "--vray", "--vvary", "--vari"])
@pytest.mark.parametrize("text", [
    PARSES, '@click.option("--lr")', "lr: float = typer.Option(0.1)", 'flags.DEFINE_float("lr", 0.1, "")',
    "docopt(__doc__)", "fire.Fire(train)",
])
def test_one_slip_in_a_script_that_reads_its_options_is_named(script: Path, text: str, word: str) -> None:
    script.write_text(text, encoding="utf-8")
    assert notes("train.py", word, "1") == [
        f"train.py receives {word}, which it does not mention. Did you mean --vary?"]


@pytest.mark.parametrize(("word", "expected"), [
    ("--max", "--maximize, --max-time or --max-cost"), ("--min", "--minimize"), ("--job", "--jobs"),
    ("--stop=asha", "--stop-rule or --stop-on-findings"), ("--met", "--metric"), ("--no-stop", "--no-stop-on-findings"),
])
def test_an_abbreviation_names_all_options_that_begin_so(script: Path, word: str, expected: str) -> None:
    own = ["--set", "--maximize", "--minimize", "--metric", "--jobs", "--stop-rule", "--stop-on-findings",
           "--no-stop-on-findings", "--max-time", "--max-cost"]
    script.write_text(f'"""barograph tune train.py --minimize loss --jobs 8"""\n{PARSES}', encoding="utf-8")
    assert stray_notes(["train.py", word], own, "barograph tune") == [
        f"train.py receives {word.partition('=')[0]}, which it does not mention. Did you mean {expected}?"]


@pytest.mark.parametrize(("word", "expected"), [
    ("--trials", "--jobs"), ("--n_trials=40", "--jobs"), ("--n-jobs", "--parallel"),
])
def test_a_name_that_other_tuners_use_is_understood(
    script: Path, word: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    tune(["train.py", "--vary", "lr=0..1", word, "40"])
    name = word.partition("=")[0]
    assert f"train.py receives {name}, which it does not mention. Did you mean {expected}?" in capsys.readouterr().err
    with pytest.raises(UnknownName, match=f"There is no option {name}. Did you mean {expected}"):
        tune(["--algorithm", "xgboost", word, "40"])
    script.write_text(f'{PARSES}parser.add_argument("{name}")', encoding="utf-8")
    tune(["train.py", "--vary", "lr=0..1", word, "40"])
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("words", "hint"), [
    (["resume", "digits", "--trials", "8"], " Did you mean --jobs?"), (["resume", "digits", "--max"],
     " Did you mean --max-time?"), (["show", "digits", "--jsno"], " Did you mean --json?"), (["list", "--far"], ""),
])
def test_the_other_commands_of_tune_suggest_options_alike(words: list[str], hint: str) -> None:
    command = get_command(GROUP).commands[words[0]]  # type: ignore[attr-defined]
    with pytest.raises(UnknownName) as error:
        command.make_context(words[0], words[1:])
    assert str(error.value) == f"There is no option {next(word for word in words if '--' in word)}.{hint}"


def test_three_other_letters_are_no_slip(script: Path) -> None:
    assert stray_notes(["train.py", "--met"], ["--set"], "barograph run") == []


@pytest.mark.parametrize(("command", "word", "expected"), [
    ("run", "--pres", "Did you mean --preset?"), ("submit", "--inst", "Did you mean --instances?"),
    ("submit", "--max", "Did you mean --max-wait, --max-runtime or --max-restarts?"), ("run", "--met", None),
    ("run", "--presset", "Did you mean --preset?"),
])
def test_run_and_submit_reject_an_unknown_option_like_tune(command: str, word: str, expected: str | None) -> None:
    with pytest.raises(UnknownName) as error:
        parsed(command, [word, "1", "train.py"])
    assert str(error.value) == f"There is no option {word}.{f' {expected}' if expected else ''}"


def test_an_option_without_its_value_is_an_error_as_before() -> None:
    with pytest.raises(SettingsError, match="--preset"):
        parsed("run", ["--preset"])


def test_an_option_after_the_script_belongs_before_it(script: Path) -> None:
    assert notes("train.py", "--name", "first") == [
        "train.py receives --name, which it does not mention. Options of barograph tune start come before the script."]


@pytest.mark.parametrize(("text", "words"), [
    (PARSES + 'parser.add_argument("--vray")', ("train.py", "--vray", "1")),
    ('parser.add_argument("--variant")', ("train.py", "--var", "1")),
    (PARSES + "stop_on_finding: bool = False", ("train.py", "--stop-on-finding")),
    ("options = read_options()", ("train.py", "--name", "first", "--tags", "a")),
    ("from opts import parse\nparse()", ("train.py", "--checkpoint-dir", "o", "--experiment-name", "e", "--tags", "a")),
    ("parser = HfArgumentParser(TrainingArguments)", ("train.py", "--name", "first", "--tags", "a")),
    ("parser = ArgumentParser()\nadd_arguments(parser)", ("train.py", "--name", "first")),
    ("# We do not fire here.", ("train.py", "--name", "first")),
    (PARSES, ("train.py", "--checkpoint-dir", "o", "--experiment-name", "e", "--times", "3", "--top", "5")),
    (PARSES, ("train.py", "--epochs", "3", "--lr=0.1", "vary", "-v")),
    (PARSES, ("torchrun", "--vray", "train.py")),
    (PARSES, ("python", "-m", "train", "--vray")),
    (PARSES, ("absent.py", "--vray")),
    (f"from helper.options import parser\n{PARSES}", ("train.py", "--workers", "4", "--timeout", "60")),
])
def test_what_may_be_an_option_of_the_script_is_not_noted(script: Path, text: str, words: tuple[str, ...]) -> None:
    script.write_text(text, encoding="utf-8")
    assert notes(*words) == []


@pytest.mark.parametrize("words", [
    ("--vray", "x=0..1", "train.py"), ("--algorithm", "xgboost", "max_depth=3", "--vray", "x=0..1"),
    ("tune.toml", "--vray", "x=0..1"),
])
def test_a_misspelled_option_that_no_script_can_receive_is_an_error(script: Path, words: tuple[str, ...]) -> None:
    with pytest.raises(UnknownName, match=r"^There is no option --vray\. Did you mean --vary\?$"):
        tune(words)


@pytest.mark.parametrize(("words", "expected"), [
    (["train.py", "--vray", "x=0..1"],
     "barograph: note: train.py receives --vray, which it does not mention. Did you mean --vary?\n"),
    (["--vary", "x=0..1", "--", "train.py", "--vray", "1"], ""),
    (["--vary", "x=0..1", "--", "--vray"], ""),
])
def test_words_after_two_dashes_are_meant_for_the_script(
    script: Path, words: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    tune(words)
    assert capsys.readouterr().err == expected


def test_an_option_of_a_module_beside_the_script_is_its_own(
    script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (script.parent / "shared").mkdir()
    (script.parent / "shared" / "__init__.py").write_text("import train\n", encoding="utf-8")
    (script.parent / "shared" / "options.py").write_text('parser.add_argument("--name")\n', encoding="utf-8")
    script.write_text(f"import shared\nfrom shared.options import parser\n{PARSES}", encoding="utf-8")

    assert parsed("submit", ["train.py", "--name", "a"])
    with pytest.raises(UnknownName, match="receives --cpus"):
        parsed("submit", ["train.py", "--name", "a", "--cpus", "2"])


def test_run_names_an_option_behind_the_script(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert parsed("run", ["train.py", "--preset", "free"])
    assert capsys.readouterr().err == (
        "barograph: note: train.py receives --preset, which it does not mention. Options of barograph run come before "
        "the script.\n")


@pytest.mark.parametrize(("word", "hint"), [
    ("--dry-run", "Options of barograph submit come before the script."), ("--instnces=2", "Did you mean --instances?"),
])
def test_submit_refuses_an_option_behind_the_script_that_would_start_a_job(
    script: Path, word: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UnknownName) as refused:
        parsed("submit", ["train.py", word])
    assert str(refused.value) == (f"train.py receives {word.partition('=')[0]}, which it does not mention. {hint} "
                                  "To pass it to the script, write -- before the script.")
    assert parsed("submit", ["--", "train.py", word])
    assert parsed("submit", ["train.py", "--lr", "0.1"])
    assert capsys.readouterr().err == ""
