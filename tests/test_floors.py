"""Import rules, sizes of files and functions; and `import barograph` is fast."""

from __future__ import annotations

import ast
import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from statistics import median

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src" / "barograph"

OWNERS = {
    "torch": ("capture/torch/", "capsule/torch/", "jobs/algorithms/image_prediction",
              "jobs/algorithms/trainers/image_"),
    "triton": ("capture/torch/",),
    "keras": ("capture/keras/", "capsule/keras/", "keras.py"),
    "xgboost": ("capture/xgboost", "xgboost.py", "jobs/algorithms/table_prediction",
                "jobs/algorithms/trainers/xgboost", "jobs/algorithms/trainers/library_names"),
    "jax": ("capture/jax/", "capture/keras/on_jax/", "capsule/jax/", "jax.py"),
    "lightgbm": ("capture/lightgbm", "lightgbm.py", "jobs/algorithms/table_prediction",
                 "jobs/algorithms/trainers/lightgbm", "jobs/algorithms/trainers/library_names"),
    "mxnet": ("capture/mxnet/",),
    "sklearn": ("capture/sklearn/", "jobs/algorithms/trainers/linear", "jobs/algorithms/trainers/mlp",
                "jobs/algorithms/trainers/library_names"),
    "lightning": ("capture/trainers/lightning.py", "lightning.py"),
    "pytorch_lightning": ("capture/trainers/pytorch_lightning.py", "lightning.py"),
    "transformers": ("capture/trainers/transformers.py", "transformers.py"),
    "accelerate": ("capture/trainers/accelerate.py",),
    "ignite": ("capture/trainers/ignite.py",),
    "fastai": ("capture/trainers/fastai.py",),
    "obstore": ("store/",),
    "pyarrow": ("runs/", "experiments/table", "jobs/algorithms/tables"),
    "pandas": ("runs/", "experiments/table", "jobs/algorithms/", "tune/table"),
    "polars": ("runs/", "experiments/table"),
    "sqlalchemy": ("experiments/", "ingest/mlflow/database"),
    "alembic": ("experiments/",),
    "safetensors": ("runs/", "jobs/algorithms/image_prediction", "jobs/algorithms/trainers/image_"),
    "xxhash": ("runs/",),
    "ml_dtypes": ("measures/", "runs/", "ingest/", "wire/", "debugger/"),
    "numpy": ("model/records.py", "measures/", "runs/", "capture/", "capsule/", "rules/", "queries/", "report/", "cli/",
              "testing/", "ingest/", "wire/", "export/", "debugger/", "experiments/", "share/comparison",
              "jobs/algorithms/", "tune/", "inside.py"),
    "optuna": ("tune/strategies/optuna_library",),
    "threadpoolctl": ("tune/strategies/threads",),
    "markdown_it": ("report/markdown",),
    "psutil": ("machine/",),
    "pynvml": ("machine/",),
    "opentelemetry": ("export/otel",),
    "google": ("export/otel",),
    "starlette": ("web/",),
    "uvicorn": ("web/server",),
    "prometheus_client": ("web/metrics",),
    "orjson": ("web/answers",),
    "ray": ("processes/ray_",),
    "mfusepy": ("jobs/data/lazy_server",),
    "PIL": ("capture/torch/unpacking", "jobs/algorithms/image_prediction", "jobs/algorithms/trainers/image_"),
    "apprise": ("watch/apprise_notifier",),
    "typer": ("cli/",),
    "IPython": ("jupyter/",),
    "anywidget": ("jupyter/page_widget",),
    "traitlets": ("jupyter/page_widget",),
    "rich": ("cli/", "watch/"),
    "yaml": ("ingest/mlflow/file_store", "jobs/engines/ray_own_cluster"),
    "aim": ("ingest/aim/dump",),
}
"""Library to the path prefixes that may import it. `model/records.py` imports NumPy for type checking only."""

PLANTS = {
    "import of a higher layer": ("measures/summary.py", "from barograph.runs import reader\n", "barograph.runs"),
    "import of an independent package": (
        "rules/base.py", "from barograph.capture import session\n", "barograph.capture.session"),
    "the report in the catalog": (
        "experiments/handle.py", "def hidden():\n    from barograph.report import markup\n", "barograph.report.markup"),
    "import inside a function": (
        "model/step.py", "def hidden():\n    from barograph.watch import loop\n", "barograph.watch.loop"),
    "torch in the run reader": ("runs/reading/reader.py", "import torch\n", "torch"),
    "obstore outside the store": ("runs/reading/reader.py", "import obstore\n", "obstore"),
    "rich in a rule": ("rules/base.py", "import rich\n", "rich"),
    "ray in the command line": ("cli/record/serving.py", "def hidden():\n    import ray\n", "ray"),
    "markdown_it in the command line": ("cli/inspect/report_page.py", "import markdown_it\n", "markdown_it"),
    "psutil in the run writer": ("runs/writing/publisher.py", "import psutil\n", "psutil"),
}
"""A file, what is added to it, and the module that the rules must then name. `barograph.runs` has no `reader`."""


def lint_imports(root: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as run; run()", "--no-cache"]
    environment = {**os.environ, "PYTHONPATH": str(root / "src")}
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=600)


def copied(root: Path) -> Path:
    shutil.copy(ROOT / "pyproject.toml", root)
    unread = shutil.ignore_patterns("__pycache__", "page", "static")
    shutil.copytree(SOURCES, root / "src" / "barograph", ignore=unread)
    return root


def test_packages_import_only_what_their_layer_allows(tmp_path: Path) -> None:
    done = lint_imports(copied(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the import rules report of all plants, on one line."""
    root = copied(tmp_path_factory.mktemp("planted"))
    for name, line, _ in PLANTS.values():
        with (root / "src" / "barograph" / name).open("a", encoding="utf-8") as file:
            file.write(f"\n{line}")
    done = lint_imports(root)
    assert done.returncode == 1, done.stdout + done.stderr
    return " ".join(done.stdout.split())


@pytest.mark.parametrize("plant", PLANTS)
def test_a_forbidden_import_is_reported(reported: str, plant: str) -> None:
    name, _, imported = PLANTS[plant]
    importing = f"barograph.{name.removesuffix('.py').replace('/', '.')}"
    assert f"{importing} -> {imported} (l." in reported


@pytest.mark.parametrize("library", OWNERS)
def test_each_library_is_imported_only_by_its_owner(library: str) -> None:
    inside = {str(path.relative_to(SOURCES).as_posix()) for path in SOURCES.rglob("*.py") if library in imported(path)}
    assert {name for name in inside if not name.startswith(OWNERS[library])} == set()


def test_only_one_package_starts_processes() -> None:
    starting = {path.relative_to(SOURCES).parts[0] for path in SOURCES.rglob("*.py") if "subprocess" in imported(path)}
    assert starting == {"processes"}


def test_no_unlisted_library_is_imported() -> None:
    used = {name for path in SOURCES.rglob("*.py") for name in imported(path)}
    assert used - set(sys.stdlib_module_names) - {"barograph"} == set(OWNERS)


def test_modules_of_a_package_import_each_other_in_one_direction() -> None:
    packages = {path.relative_to(SOURCES).parts[0] for path in SOURCES.glob("*/**/*.py")}
    assert {package for package in packages if cycle_in(package)} == set()


def test_a_cycle_through_a_function_is_found(tmp_path: Path) -> None:
    package = tmp_path / "knot"
    package.mkdir()
    (package / "one.py").write_text("from barograph.knot import two\n", encoding="utf-8")
    (package / "two.py").write_text("if TYPE_CHECKING:\n    from barograph.knot.one import One\n", encoding="utf-8")
    assert cycle_in("knot", tmp_path) == []
    (package / "two.py").write_text("def f():\n    from barograph.knot.one import One\n", encoding="utf-8")
    assert set(cycle_in("knot", tmp_path)) == {"knot/one.py", "knot/two.py"}


def cycle_in(package: str, sources: Path = SOURCES) -> list[str]:
    """Return modules of a package that import each other in a circle, also inside functions, as paths."""
    graph = {path: modules_imported(path, sources) for path in (sources / package).rglob("*.py")}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return [path.relative_to(sources).as_posix() for path in error.args[1]]
    return []


def modules_imported(path: Path, sources: Path) -> set[Path]:
    """Return the files of Barograph that a module imports, but those that only a type checker sees."""
    files = {sources.joinpath(*name.split(".")[1:]).with_suffix(".py") for name in read(path).imported_at_run_time
             if name.startswith("barograph.")}
    return {file for file in files if file.is_file() and file != path}


def imported(path: Path) -> set[str]:
    return {name.partition(".")[0] for name in read(path).imported}


@dataclass
class Read:
    """What stands in a file: names of imported modules, or of what may be one, and the lengths of functions."""

    imported: set[str] = field(default_factory=set)
    imported_at_run_time: set[str] = field(default_factory=set)
    functions: list[int] = field(default_factory=list)


@functools.cache
def read_once(path: Path, text: str) -> Read:
    found = Read()
    waiting: list[tuple[ast.AST, bool]] = [(ast.parse(text), True)]
    while waiting:
        node, at_run_time = waiting.pop()
        if isinstance(node, ast.expr):
            continue  # neither an import nor a function stands in one
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            waiting += [(item, False) for item in node.body]
            waiting += [(item, at_run_time) for item in node.orelse]
            continue
        waiting += [(item, at_run_time) for item in ast.iter_child_nodes(node)]
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
            found.functions.append(node.end_lineno - node.lineno + 1)
        found.imported.update(names)
        if at_run_time:
            found.imported_at_run_time.update(names)
    return found


def read(path: Path) -> Read:
    return read_once(path, path.read_text(encoding="utf-8"))


def lines_of(paths: Iterable[Path]) -> list[int]:
    return [path.read_text(encoding="utf-8").count("\n") for path in paths]


def test_files_and_functions_are_no_longer_than_they_were() -> None:
    files = [path for path in SOURCES.rglob("*.py") if "node_modules" not in path.parts]
    functions = sorted(length for path in files for length in read(path).functions)
    assert median(lines_of(files)) <= 114
    assert max(lines_of(files)) <= 588
    assert functions[len(functions) * 95 // 100] <= 26


def test_a_rule_pulls_in_a_fortieth_of_the_package() -> None:
    loaded = python("import sys, barograph.rules.vitals; "
                    "print(*(item.__file__ for name, item in sys.modules.items() if name.startswith('barograph')))")
    files = [path for path in SOURCES.rglob("*.py") if "node_modules" not in path.parts]
    assert sum(lines_of(map(Path, loaded.split()))) <= sum(lines_of(files)) / 40


def test_init_files_below_the_top_are_empty_except_of_packages_that_users_import() -> None:
    filled = [path.parent.name for path in SOURCES.glob("*/**/__init__.py") if path.read_text(encoding="utf-8").strip()]
    assert sorted(filled) == ["jobs", "tune"]


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=True)
    return done.stdout.strip()


def test_importing_barograph_takes_at_most_fifty_milliseconds() -> None:
    code = ("import time; begin = time.process_time(); import barograph; "
            "print(time.process_time() - begin)")
    # Processor time, and the minimum of several runs: other load on the machine only adds to it.
    assert min(float(python(code)) for _ in range(5)) <= 0.050


def test_importing_barograph_loads_no_third_party_library() -> None:
    loaded = set(python("import sys, barograph; print(*sys.modules)").split())
    assert loaded & set(OWNERS) == set()
    assert {name for name in loaded if name.startswith("barograph.")} <= {"barograph.late", "barograph.version"}


def test_every_public_name_resolves_without_loading_a_framework() -> None:
    code = ("import sys, barograph; found = [getattr(barograph, name) for name in barograph.__all__]; "
            "print(len(found), 'torch' in sys.modules)")
    number, torch_is_loaded = python(code).split()
    assert int(number) >= 14
    assert torch_is_loaded == "False"


def test_writing_a_run_loads_neither_the_catalog_nor_the_charts() -> None:
    loaded = python("import sys; from barograph.tracking import Run; print(*sys.modules)").split()
    assert set(loaded) & {"sqlalchemy", "alembic", "pyarrow", "barograph.report.charts"} == set()


def test_every_name_of_tracking_resolves() -> None:
    code = ("import barograph.tracking as found; print([name for name in found.__all__ if not hasattr(found, name)], "
            "sorted(found.__all__) == sorted(dir(found)))")
    assert python(code) == "[] True"
