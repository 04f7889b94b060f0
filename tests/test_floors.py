"""The house stands: rooms keep to their floors, libraries to their doors, and the front door is light."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src" / "barograph"

OWNERS = {
    "torch": ("capture/torch/", "capsule/torch/"),
    "triton": ("capture/torch/",),
    "keras": ("capture/keras/", "capsule/keras/", "keras.py"),
    "xgboost": ("capture/xgboost", "xgboost.py"),
    "jax": ("capture/jax/", "capture/keras/on_jax/", "capsule/jax/", "jax.py"),
    "lightgbm": ("capture/lightgbm", "lightgbm.py"),
    "mxnet": ("capture/mxnet/",),
    "sklearn": ("capture/sklearn/",),
    "lightning": ("capture/trainers/lightning.py", "lightning.py"),
    "pytorch_lightning": ("capture/trainers/pytorch_lightning.py", "lightning.py"),
    "transformers": ("capture/trainers/transformers.py", "transformers.py"),
    "accelerate": ("capture/trainers/accelerate.py",),
    "ignite": ("capture/trainers/ignite.py",),
    "fastai": ("capture/trainers/fastai.py",),
    "obstore": ("store/",),
    "pyarrow": ("runs/", "experiments/table"),
    "pandas": ("runs/", "experiments/table"),
    "polars": ("runs/", "experiments/table"),
    "sqlalchemy": ("experiments/", "ingest/mlflow/database"),
    "alembic": ("experiments/",),
    "safetensors": ("runs/",),
    "xxhash": ("runs/",),
    "ml_dtypes": ("measures/", "runs/", "ingest/", "wire/", "debugger/"),
    "numpy": ("model/records.py", "measures/", "runs/", "capture/", "capsule/", "rules/", "queries/", "report/", "cli/",
              "testing/", "ingest/", "wire/", "export/", "debugger/", "experiments/", "share/comparison"),
    "markdown_it": ("report/markdown",),
    "psutil": ("machine/",),
    "pynvml": ("machine/",),
    "opentelemetry": ("export/otel",),
    "google": ("export/otel",),
    "ray": ("watch/ray_cluster",),
    "PIL": ("capture/torch/unpacking",),
    "apprise": ("watch/apprise_notifier",),
    "typer": ("cli/",),
    "IPython": ("jupyter/",),
    "rich": ("cli/", "watch/"),
    "yaml": ("ingest/mlflow/file_store",),
    "aim": ("ingest/aim/telling",),
}
"""Library to the beginnings of paths that may import it. `model/records.py` names arrays for type checkers alone."""

PLANTS = {
    "upward": ("measures/summary.py", "from barograph.runs import reader\n"),
    "sideways": ("rules/base.py", "from barograph.capture import session\n"),
    "hidden in a function": ("model/step.py", "def hidden():\n    from barograph.watch import loop\n"),
    "torch, where runs are read": ("runs/reading/reader.py", "import torch\n"),
    "obstore, outside the store": ("runs/reading/reader.py", "import obstore\n"),
    "a terminal, in a rule": ("rules/base.py", "import rich\n"),
    "Ray, at the command line": ("cli/record/serving.py", "def hidden():\n    import ray\n"),
    "Markdown, where it is printed": ("cli/inspect/report_page.py", "import markdown_it\n"),
    "psutil, where runs are written": ("runs/writing/publisher.py", "import psutil\n"),
}


def lint_imports(root: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as run; run()", "--no-cache"]
    environment = {**os.environ, "PYTHONPATH": str(root / "src")}
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=600)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("house")
    shutil.copy(ROOT / "pyproject.toml", root)
    shutil.copytree(SOURCES, root / "src" / "barograph", ignore=shutil.ignore_patterns("__pycache__"))
    return root


def test_every_file_keeps_to_its_floor(copy: Path) -> None:
    done = lint_imports(copy)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


@pytest.mark.parametrize("plant", PLANTS)
def test_a_wrong_import_is_found(copy: Path, plant: str) -> None:
    name, line = PLANTS[plant]
    path = copy / "src" / "barograph" / name
    sound = path.read_text(encoding="utf-8")
    path.write_text(f"{sound}\n{line}", encoding="utf-8")
    try:
        done = lint_imports(copy)
    finally:
        path.write_text(sound, encoding="utf-8")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "BROKEN" in done.stdout


@pytest.mark.parametrize("library", OWNERS)
def test_every_library_has_one_owner(library: str) -> None:
    inside = {str(path.relative_to(SOURCES).as_posix()) for path in SOURCES.rglob("*.py") if library in imported(path)}
    assert {name for name in inside if not name.startswith(OWNERS[library])} == set()


def test_no_other_library_is_used() -> None:
    used = {name for path in SOURCES.rglob("*.py") for name in imported(path)}
    assert used - set(sys.stdlib_module_names) - {"barograph"} == set(OWNERS)


def imported(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return found


def test_init_files_below_the_top_are_empty() -> None:
    assert [path for path in SOURCES.glob("*/**/__init__.py") if path.read_text(encoding="utf-8").strip()] == []


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=True)
    return done.stdout.strip()


def test_importing_barograph_takes_at_most_fifty_milliseconds() -> None:
    code = ("import time; begin = time.perf_counter(); import barograph; "
            "print(time.perf_counter() - begin)")
    # The least of several: what else this machine does can only add to it.
    assert min(float(python(code)) for _ in range(5)) <= 0.050


def test_importing_barograph_loads_nothing_heavy() -> None:
    loaded = set(python("import sys, barograph; print(*sys.modules)").split())
    assert loaded & set(OWNERS) == set()
    assert {name for name in loaded if name.startswith("barograph.")} <= {"barograph.late", "barograph.version"}


def test_every_public_name_is_there_and_loads_no_framework() -> None:
    code = ("import sys, barograph; found = [getattr(barograph, name) for name in barograph.__all__]; "
            "print(len(found), 'torch' in sys.modules)")
    number, torch_is_loaded = python(code).split()
    assert int(number) >= 14
    assert torch_is_loaded == "False"


def test_who_writes_a_run_loads_neither_the_catalog_nor_what_draws() -> None:
    loaded = python("import sys; from barograph.tracking import Run; print(*sys.modules)").split()
    assert set(loaded) & {"sqlalchemy", "alembic", "pyarrow", "barograph.report.charts"} == set()


def test_every_name_of_tracking_is_there() -> None:
    code = ("import barograph.tracking as found; print([name for name in found.__all__ if not hasattr(found, name)], "
            "sorted(found.__all__) == sorted(dir(found)))")
    assert python(code) == "[] True"
