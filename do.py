#!/usr/bin/env python3
"""The verbs of the project: `python3 do.py VERB`. Python and a network are all they ask for.

Each makes the virtual environment in `.venv` first, where it is missing or out of date. Further
arguments go to the tool behind the verb: `python3 do.py test tests/rules -k relu`.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
PYTHON = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
READY = VENV / ".ready"
OLDEST = (3, 11)

_SOURCES = ("pyproject.toml", "setup.py", "requirements-test.txt", "src/barograph/*.c", "src/barograph/*.h")
_MADE = (".venv", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".import_linter_cache", ".hypothesis", "build",
         "site", "src/barograph.egg-info")


def setup(_: Sequence[str] = ()) -> int:
    """make the virtual environment with everything in it"""
    mark = _mark()
    if PYTHON.exists() and READY.is_file() and READY.read_text() == mark:
        return 0
    print("Setting up .venv; the first time this downloads PyTorch and the test tools, which takes minutes.",
          flush=True)
    if not PYTHON.exists():
        made = subprocess.call([sys.executable, "-m", "venv", str(VENV)])
        if made:
            print("No virtual environment could be made. Debian and Ubuntu keep that in the package python3-venv.",
                  file=sys.stderr)
            return made
    failed = _python("-m", "pip", "install", "--quiet", "--no-compile", "--requirement", "requirements-test.txt",
                     "--editable", ".")
    if not failed:
        # pip compiles what it has installed with one process. Files that are for no Python of today fail, as with it.
        _python("-m", "compileall", "-qq", "-j", "0", str(VENV))
        READY.write_text(mark)
    return failed


def demo(arguments: Sequence[str]) -> int:
    """train a small network twice, healthy and with a planted fault, and see what is found"""
    return setup() or _python("examples/demo.py", *arguments)


def test(arguments: Sequence[str]) -> int:
    """run every test, with ruff, mypy and the import rules; --fast: none that trains in another process

    Further arguments go to pytest (-n 0: one test at a time).
    """
    # Hundreds of processes import Barograph: each would compile it anew where compiled files are not to be kept.
    return setup() or _python("-m", "pytest", "-n", "2", "--dist", "worksteal", *arguments, PYTHONDONTWRITEBYTECODE="")


def versions(names: Sequence[str]) -> int:
    """run the tests of each framework, or of those named, with its oldest supported version (.ci/versions.toml)"""
    import tomllib  # not before Python 3.11, which an older one must be told

    with (ROOT / ".ci" / "versions.toml").open("rb") as file:
        known = tomllib.load(file)
    if unknown := sorted(set(names) - known.keys()):
        print(f"There is no {', '.join(unknown)} in .ci/versions.toml; there are {', '.join(known)}.", file=sys.stderr)
        return 2
    failed = setup()
    for name in names or known if not failed else ():
        packages = known[name]["packages"]
        # So called, since Barograph takes what is anywhere else for the script's own.
        folder = ROOT / ".cache" / "versions" / "-".join(packages) / "site-packages"
        print(f"{name}: {', '.join(packages)}", flush=True)
        if not folder.is_dir():
            alone = () if known[name].get("dependencies") else ("--no-deps",)
            failed |= _python("-m", "pip", "install", "--quiet", *alone, "--target", f"{folder}.new", *packages)
            if failed:
                break
            Path(f"{folder}.new").rename(folder)
        paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
        failed |= _python("-m", "pytest", "-q", "-n", "0", *known[name]["tests"], PYTHONPATH=os.pathsep.join(paths),
                          **known[name].get("environment", {}))
    return failed


def check(_: Sequence[str]) -> int:
    """lint, types, import floors, documents"""
    return (setup() or _python("-m", "ruff", "check", ".") or _python("-m", "mypy")
            or _python("-m", "pytest", "-q", "tests/test_floors.py", "tests/test_docs.py"))


def bench(arguments: Sequence[str]) -> int:
    """measure costs beside other tools; prints ratios (see benchmarks/README.md)"""
    return setup() or _python("benchmarks/run.py", *arguments)


def docs(_: Sequence[str]) -> int:
    """write the rules' pages from the code and build the documentation site into site/"""
    return setup() or _python("-m", "barograph.rules.pages", "docs/rules") or _python("docs/build_site.py")


def clean(_: Sequence[str]) -> int:
    """remove what the verbs made"""
    for name in _MADE:
        shutil.rmtree(ROOT / name, ignore_errors=True)
    return 0


VERBS: dict[str, Callable[[Sequence[str]], int]] = {
    verb.__name__: verb for verb in (demo, test, check, bench, versions, docs, setup, clean)
}


def main(arguments: Sequence[str]) -> int:
    """Run a verb and return its exit code; without one, list them."""
    if sys.version_info < OLDEST:
        print(f"Barograph needs Python {'.'.join(map(str, OLDEST))} or later; this is {sys.version.split()[0]} "
              f"({sys.executable}).", file=sys.stderr)
        return 2
    if not arguments or arguments[0] not in VERBS:
        print("Usage: python3 do.py VERB [ARGUMENTS]\n")
        print("\n".join(f"  {name:<9}{(verb.__doc__ or '').splitlines()[0]}" for name, verb in VERBS.items()))
        return 0 if arguments[:1] in ([], ["help"], ["-h"], ["--help"]) else 2
    return VERBS[arguments[0]](arguments[1:])


def _python(*arguments: str, **variables: str) -> int:
    sys.stdout.flush()
    try:
        return subprocess.call([str(PYTHON), *arguments], cwd=ROOT, env={**os.environ, **variables})
    except KeyboardInterrupt:
        return 130


def _mark() -> str:
    """Return what tells an environment that was made from these files from any other."""
    digest = hashlib.sha256(sys.version.encode())
    for pattern in _SOURCES:
        for path in sorted(ROOT.glob(pattern)):
            digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
