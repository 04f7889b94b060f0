"""Only executed words: what the documents show runs, what exists is documented, and links lead somewhere."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import inspect
import pkgutil
import re
import shlex
import shutil
import subprocess
import tomllib
import warnings
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer

import barograph
from barograph import errors
from barograph.capture.presets import PRESETS
from barograph.capture.torch.wrappers import LOSS_FUNCTIONS
from barograph.cli.main import application
from barograph.jobs.spec import spec_from_options
from barograph.model.facts import Fact
from barograph.model.key import Kind
from barograph.model.selection import Histogram
from barograph.model.settings import Settings, settings_from_mapping
from barograph.model.step import Mode
from barograph.queries import classes, curves, distributions, machine, predictions, trees
from barograph.report import background, content
from barograph.rules.builtin import RULES
from barograph.rules.pages import pages
from barograph.rules.registry import rules_from_settings
from barograph.runs.reading.series import statistic_named
from barograph.tune.options import split_entries
from barograph.tune.space import space_from
from forking import DIGITS
from pages import PAGES, ROOT, Block, Command, anchors, blocks, commands, links, section

FORKED = DIGITS
DOCS = ROOT / "docs"
RUN_LANGUAGES = {"python", "pycon", "console", "toml"}
READ_ELSEWHERE = {"": "", "text": "shown as it is", "sql": "tests/runs/test_format.py",
                  "ipython": "tests/jupyter/test_page.py"}
NEEDED = {"docs/reference/keras.md": ("keras", "tensorflow"), "docs/tutorials/keras.md": ("keras", "tensorflow"),
          "docs/tutorials/jax.md": ("jax", "optax"), "docs/tutorials/boosted-trees.md": ("xgboost", "sklearn")}
"""Frameworks whose trainings a page shows."""
PAGES_THAT_RUN = [page for page in PAGES if any(block.language in RUN_LANGUAGES for block in blocks(page))]


def page_name(page: Path) -> str:
    return str(page.relative_to(ROOT))


# What is shown runs


@pytest.mark.parametrize("page", PAGES_THAT_RUN, ids=page_name)
def test_what_a_page_shows_runs(page: Path, workplace: Path) -> None:
    for framework in NEEDED.get(page_name(page), ()):
        if importlib.util.find_spec(framework) is None:
            pytest.skip(f"{framework} is not installed here")
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(page):
        match block.language:
            case "python" if not block.why_not_run:
                exec(compile("\n" * (block.line - 1) + block.text, str(page), "exec"), names)
            case "pycon":
                run_examples(block, page, names)
            case "toml" if "command" in (entries := tomllib.loads(block.text)):
                study, job = split_entries({name.replace("-", "_"): value for name, value in entries.items()})
                spec_from_options(job)
                if study:
                    space_from(study["vary"], study.get("constraint", ()))
            case "toml":
                rules_from_settings(settings_from_mapping(tomllib.loads(block.text)))
            case "console":
                for command in commands(block):
                    run_command(command, page, only_read=bool(block.why_not_run))
            case language:
                assert language in READ_ELSEWHERE or block.why_not_run, f"{page}:{block.line}: what is {language!r}?"


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, programs_on_path: None) -> Path:
    """A folder with the script that the pages speak of, copied as they say."""
    shutil.copy(ROOT / "examples" / "digits.py", tmp_path / "train.py")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_examples(block: Block, page: Path, names: dict[str, Any]) -> None:
    test = doctest.DocTestParser().get_doctest(block.text, names, page.name, str(page), block.line - 1)
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    runner.run(test, out=report.append, clear_globs=False)
    assert runner.summarize(verbose=False).failed == 0, "".join(report)
    names.update(test.globs)


def run_command(command: Command, page: Path, *, only_read: bool) -> None:
    words = shlex.split(command.text)
    where = f"{page.name}:{command.line}: {command.text}"
    match words:
        case ["barograph", *rest]:
            parse(rest)
            if not only_read:
                run(words, command, where)
        case [("python" | "python3"), "do.py", verb, *_]:
            assert verb in verbs(), where
        case [("python" | "python3"), script, *_] if script.startswith("examples/"):
            assert (ROOT / script).is_file(), where
        case ["pip", "install", *_] | ["git", "clone", *_] | ["cd", _] | ["export", *_]:
            pass
        case _:
            pytest.fail(f"{where}: teach this test whether it can be run")


def run(words: list[str], command: Command, where: str) -> None:
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=600)
    assert done.returncode == 0, f"{where}\n{done.stdout}"
    if command.output:
        same = doctest.OutputChecker().check_output(
            command.output.strip() + "\n", done.stdout.strip() + "\n", doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
        assert same, f"{where}\nThe page says:\n{command.output}\nIt prints:\n{done.stdout}"


def parse(words: list[str]) -> None:
    """Fail where the words are no command with options that it has."""
    command: Any = typer.main.get_command(application())
    context = None
    while True:
        groups = getattr(command, "commands", {})
        if words and words[0] in groups:
            command, words = groups[words[0]], words[1:]
            continue
        if groups and hasattr(command, "default"):
            words = [command.default, *words]
            continue
        assert not groups or not words or words[0].startswith("-"), f"{words[0]} is no command"
        with command.make_context(command.name, list(words), parent=context):
            return


def verbs() -> dict[str, Any]:
    spec = importlib.util.spec_from_file_location("do", ROOT / "do.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: dict[str, Any] = module.VERBS
    return found


def test_the_readme_opens_with_the_two_commands_and_ci_calls_the_second() -> None:
    first = next(block for block in blocks(ROOT / "README.md") if block.language == "console")
    assert [command.text for command in commands(first)] == ["python3 do.py demo", "python3 do.py test"]
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "python3 do.py test" in ci


def test_make_knows_every_verb() -> None:
    line = next(line for line in (ROOT / "Makefile").read_text(encoding="utf-8").splitlines()
                if line.startswith("VERBS"))
    assert set(line.partition(":=")[2].split()) == set(verbs())


def test_the_oldest_versions_that_are_tested_are_those_that_are_promised() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    for name, entry in tomllib.loads((ROOT / ".ci" / "versions.toml").read_text(encoding="utf-8")).items():
        tested = entry["packages"][0].partition("==")[2]
        _, _, promised = extras[name][0].partition(">=")
        assert f"{tested}.".startswith(f"{promised}."), name
        assert all((ROOT / path).is_file() for path in entry["tests"] if path.endswith(".py")), name


# Examples in docstrings


def modules() -> Iterator[str]:
    for info in pkgutil.walk_packages(barograph.__path__, "barograph."):
        if not info.name.endswith("__main__") and not info.name.startswith("barograph._"):
            yield info.name


@pytest.mark.parametrize("name", sorted(modules()))
def test_the_examples_in_docstrings_run(name: str) -> None:
    module = import_or_skip(name)
    # A run sets up a debugger, which looks at all files that are known, for a docstring without examples too.
    with_examples = [test for test in doctest.DocTestFinder().find(module) if test.examples]
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for test in with_examples:
        runner.run(test)
    assert runner.failures == 0


def import_or_skip(name: str) -> ModuleType:
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "`torch.jit", DeprecationWarning)  # of what Ignite imports
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name in ("triton", "keras", "tensorflow", "xgboost", "lightgbm", "sklearn", "jax",
                          "mxnet", "lightning", "pytorch_lightning", "transformers", "accelerate", "ignite", "fastai",
                          "mfusepy"):
            pytest.skip(f"{error.name} is not installed here")
        raise
    except OSError as error:
        if "libfuse" in str(error):
            pytest.skip("libfuse is not installed here")
        raise


# What exists is documented


def text_of_docs() -> str:
    return "\n".join(page.read_text(encoding="utf-8") for page in PAGES
                     if page.parent.name not in ("rules", "why", "api"))


@pytest.mark.parametrize("name", [name for name in barograph.__all__ if name != "__version__"])
def test_every_public_name_is_documented(name: str) -> None:
    assert re.search(rf"barograph\.{name}\b|`{name}`", text_of_docs())


def error_classes() -> list[str]:
    return [name for name, value in vars(errors).items()
            if inspect.isclass(value) and issubclass(value, errors.BarographError)]


@pytest.mark.parametrize("name", error_classes())
def test_every_error_is_documented(name: str) -> None:
    assert f"| `{name}`" in (DOCS / "reference/errors.md").read_text(encoding="utf-8")


def options() -> Iterator[tuple[str, str]]:
    """Yield each command, with "" and then with each of its options."""
    for name, command in typer.main.get_command(application()).commands.items():
        yield name, ""
        parts = [command, *getattr(command, "commands", {}).values()]
        shown = [item for part in parts for item in part.params if not getattr(item, "hidden", False)]
        known = {word for item in shown for word in (*item.opts, *item.secondary_opts)}
        yield from ((name, word) for word in sorted(known) if word.startswith("--"))


def test_every_command_and_option_is_documented() -> None:
    text = {name: section(DOCS / "reference/commands.md", f"barograph {name}") for name, _ in options()}
    assert [name for name in text if not text[name]] == []
    assert [f"{name} {option}" for name, option in options() if option and f"`{option}`" not in text[name]] == []


def names_of_configuration() -> Iterator[tuple[str, str]]:
    yield from (("All settings", item.name) for item in fields(Settings))
    yield from (("Presets", name) for name in PRESETS)
    yield from (("Collections", name) for name in (*Kind, *Mode))
    yield from (("Collections", f'"{item.name.lower()}"') for item in Histogram)
    yield from (("Environment variables", name) for name in sorted(environment_variables()))


def environment_variables() -> set[str]:
    """Return the names in our sources that look like environment variables which we read."""
    sources = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    read = set(re.findall(r"environ(?:\.get\(|\[)\"(\w+)\"", sources))
    return read | set(re.findall(r"\"((?:AWS|BAROGRAPH|TORCHELASTIC|SLURM|MASTER)_\w+)\"", sources))


@pytest.mark.parametrize(("heading", "name"), list(names_of_configuration()))
def test_every_setting_and_its_choices_are_documented(heading: str, name: str) -> None:
    assert f"`{name}`" in section(DOCS / "reference/settings.md", heading)


def test_every_entry_of_a_collection_is_documented() -> None:
    text = section(DOCS / "reference/settings.md", "Collections")
    entries = re.findall(r"^\| `(\w+)`", text, re.MULTILINE)
    table: dict[str, Any] = {
        "kinds": ["weight"], "include": ["*"], "exclude": ["x"], "layers": ["Linear"], "every": 2, "start": 1,
        "end": 9, "steps": [3], "modes": ["train"], "histogram": "exact", "units": True, "raw": False,
    }
    assert entries == list(table)
    settings_from_mapping({"collections": {"mine": table}})


def statistics() -> list[str]:
    with pytest.raises(errors.UnknownName) as refusal:
        statistic_named("?")
    return re.findall(r"\w+", str(refusal.value).partition("There are:")[2])


@pytest.mark.parametrize("name", statistics())
def test_every_statistic_of_a_series_is_documented(name: str) -> None:
    assert f"`{name}`" in section(DOCS / "how-to/analyze-a-run.md", "One number per step")


_REPORTED = {
    content.Report: "The whole", content.RunFacts: "`run`", content.Judgement: "`judgement`",
    content.Savings: "`savings`", curves.Curve: "A curve", content.LayerHealth: "An entry of `layers`",
    content.TensorFigures: "A tensor's figures", distributions.Distribution: "An entry of `distributions`",
    classes.Classes: "An entry of `classes`", classes.ConfusionFrame: "An entry of `frames`",
    machine.StepTime: "`step_time`", machine.Gauge: "An entry of `machine`",
    trees.Importance: "An entry of `importance`", predictions.Roc: "An entry of `roc`",
    predictions.Residuals: "An entry of `residuals`", content.Missing: "An entry of `missing`",
    background.Background: "`background`", background.Made: "`made`", background.SourceCode: "`code`",
    background.OpenedFile: "An entry of `data`", background.Remark: "An entry of `notes`",
    background.ArtifactFacts: "An entry of `artifacts`",
}

_PARTS = (content, background, classes, curves, distributions, machine, predictions, trees)


def test_every_entry_of_a_report_is_documented() -> None:
    made = {value for module in _PARTS for name, value in vars(module).items()
            if is_dataclass(value) and value.__module__ == module.__name__ and not name.startswith("_")}
    assert made == set(_REPORTED)
    tables = section(DOCS / "reference/report.md", "As JSON")
    text = {of: tables.partition(f"\n### {heading}\n")[2].partition("\n### ")[0] for of, heading in _REPORTED.items()}
    assert [f"{of.__name__}.{item.name}" for of in _REPORTED for item in fields(of)
            if f"`{item.name}`" not in text[of]] == []


@pytest.mark.parametrize("name", list(Fact))
def test_every_fact_is_documented(name: Fact) -> None:
    assert f"| `{name.value}` |" in section(DOCS / "reference/records.md", "Facts")


def test_every_wrapper_is_documented() -> None:
    source = (ROOT / "src/barograph/capture/torch/wrappers.py").read_text(encoding="utf-8")
    wrapped = re.findall(r"self\._wrap\(([\w.]+), \"(\w+)\"", source)
    text = section(DOCS / "reference/pytorch.md", "The wrappers")
    assert len(wrapped) >= 6
    assert [name for _, name in wrapped if f".{name}`" not in text] == []
    assert "`torch.optim.lr_scheduler.LRScheduler.step`" in text
    assert "the loss functions of `torch.nn.functional`" in text
    assert LOSS_FUNCTIONS


def test_every_wrapper_on_keras_is_documented() -> None:
    source = (ROOT / "src/barograph/capture/keras/wrappers.py").read_text(encoding="utf-8")
    named = re.findall(r"`((?:keras|tensorflow)\.[\w.]+)`", source.partition('"""\n\nfrom')[0])
    text = section(DOCS / "reference/keras.md", "The wrappers")
    assert len(named) >= 9
    assert [name for name in named if f"`{name}`" not in text] == []


def test_every_wrapper_on_mxnet_is_documented() -> None:
    source = (ROOT / "src/barograph/capture/mxnet/integration.py").read_text(encoding="utf-8")
    wrapped = re.findall(r"self\.wrap\(([\w.]+), \"(\w+)\"", source)
    text = section(DOCS / "reference/mxnet.md", "The wrappers")
    assert len(wrapped) >= 7
    assert [name for owner, name in wrapped if f"{owner.rpartition('.')[2].lower()}.{name}`" not in text.lower()] == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_every_rule_has_its_page(rule: Any) -> None:
    assert f"[{rule.code}]({rule.code}-{rule.name}.md)" in (DOCS / "rules" / "README.md").read_text(encoding="utf-8")


def test_the_pages_of_rules_are_those_made_from_the_rules() -> None:
    committed = {path.name: path.read_text(encoding="utf-8") for path in (DOCS / "rules").glob("*.md")}
    assert committed == pages()


def test_every_dependency_has_its_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [name for names in project["optional-dependencies"].values() for name in names]
    names = {re.split(r"[<>=\[]", entry)[0] for entry in (*project["dependencies"], *extras)}
    text = (DOCS / "explanation/dependencies.md").read_text(encoding="utf-8")
    assert {name for name in names if f"| {name} " not in text} == set()


def test_every_decision_is_listed_and_dated() -> None:
    decisions = {path.name for path in (DOCS / "why").glob("*.md")} - {"README.md"}
    index = (DOCS / "why" / "README.md").read_text(encoding="utf-8")
    assert {name for name in decisions if f"({name})" not in index} == set()
    for name in decisions:
        text = (DOCS / "why" / name).read_text(encoding="utf-8")
        assert re.search(r"^\d{4}-\d\d-\d\d$", text, re.MULTILINE), name
        assert "**Rejected.**" in text, name


# Links, and what is not said


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in links(page):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


_UNSAID = {
    "an absolute path of somebody's": r"(?<![\w.:/$}~-])/(?:home|root|Users|work|tmp|opt|mnt)/\w",
    "a registry's host": r"pypi\.o[r]g|pythonhoste[d]|download\.pytorc[h]|anaconda\.o[r]g|ghcr\.i[o]|docker\.i[o]",
    "who wrote it": r"(?i)\b(?:claud[e]|anthropi[c]|opena[i]|chatgp[t]|copilo[t]|language mode[l]|coding agen[t])\b",
    "an issue's number": r"(?i)\bissue #?\d",
}


@pytest.mark.parametrize("what", _UNSAID)
def test_no_file_says(what: str) -> None:
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("which files are the project's is known from git")
    names = subprocess.run([git, "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    pattern = re.compile(_UNSAID[what])
    found = []
    for name in filter(None, names.split("\0")):
        path = ROOT / name
        if path.is_file():
            text = path.read_bytes().decode("utf-8", "ignore")
            found += [f"{name}: {line.strip()[:120]}" for line in text.splitlines() if pattern.search(line)]
    assert found == []
