#!/usr/bin/env python3
"""Commands of the project: `python3 do.py COMMAND`. They need only Python and a network.

Each creates the virtual environment in `.venv` first if it is missing or outdated. Further arguments go to the
tool that the command runs: `python3 do.py test tests/rules -k relu`.
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

_SOURCES = ("pyproject.toml", "setup.py", "building/*.py", "requirements-test.txt",
            "src/barograph/*.c", "src/barograph/*.h",
            "src/barograph/web/page/*.*", "src/barograph/web/page/src/**/*.*", "src/barograph/web/page/public/*.*")
_MADE = (".venv", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".import_linter_cache", ".hypothesis", "build",
         "site", "src/barograph.egg-info", "src/barograph/web/static", "src/barograph/web/page/node_modules")
_BROWSERS = ("chromium-headless-shell", "chromium", "google-chrome")
_DEBIAN_PACKAGES = {"chromium-headless-shell": _BROWSERS, "chromium": _BROWSERS, "fuse3": ("fusermount3",),
                    "zsh": ("zsh",), "fish": ("fish",)}
"""Packages that pip does not have, and the programs of which one shows that a package is not needed.

Chromium without its windows needs a quarter of the processor time. Not every distribution has it.
"""


def setup(_: Sequence[str] = ()) -> int:
    """create the virtual environment"""
    mark = _mark()
    if PYTHON.exists() and READY.is_file() and READY.read_text() == mark:
        return 0
    print("Setting up .venv. The first time this downloads PyTorch and the test tools, which takes minutes.",
          flush=True)
    if not PYTHON.exists():
        made = subprocess.call([sys.executable, "-m", "venv", str(VENV)])
        if made:
            print("Cannot create a virtual environment. On Debian and Ubuntu, install python3-venv.",
                  file=sys.stderr)
            return made
    failed = _python("-m", "pip", "install", "--quiet", "--no-compile", "--requirement", "requirements-test.txt",
                     "--editable", ".")
    if not failed:
        # pip compiles with one process only. Some files are for other Python versions and fail, as with pip.
        _python("-m", "compileall", "-qq", "-j", "0", str(VENV))
        READY.write_text(mark)
    return failed


def demo(arguments: Sequence[str]) -> int:
    """train a small network twice, healthy and with a planted fault, and show the findings"""
    return setup() or _python("examples/demo.py", *arguments)


def test(arguments: Sequence[str]) -> int:
    """run all tests, ruff, mypy and the import rules; --fast skips tests that start a training process

    Further arguments go to pytest (-n 0: one test at a time).
    """
    failed = setup()
    if not failed:
        _install_debian_packages()
    # One worker more than two cores, since tests also wait for other processes. Hundreds of processes import Barograph,
    # and each would compile it again without compiled files.
    return failed or _python("-m", "pytest", "-n", "3", "--dist", "worksteal", *arguments, PYTHONDONTWRITEBYTECODE="")


def versions(names: Sequence[str]) -> int:
    """test all frameworks, or those named, with their oldest supported versions (.ci/versions.toml)"""
    import tomllib  # Python 3.11; `main` reports an older one

    with (ROOT / ".ci" / "versions.toml").open("rb") as file:
        known = tomllib.load(file)
    if unknown := sorted(set(names) - known.keys()):
        print(f"Not in .ci/versions.toml: {', '.join(unknown)}. Choose from {', '.join(known)}.", file=sys.stderr)
        return 2
    failed = setup()
    for name in names or known if not failed else ():
        packages = known[name]["packages"]
        # Barograph considers files outside of a folder site-packages as the user's own.
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
    """run ruff, mypy, the import rules and the checks of the documentation"""
    return (setup() or _python("-m", "ruff", "check", ".") or _python("-m", "mypy")
            or _python("-m", "pytest", "-q", "tests/test_floors.py", "tests/test_docs.py"))


def bench(arguments: Sequence[str]) -> int:
    """compare costs with other tools; prints ratios (see benchmarks/README.md)"""
    return setup() or _python("benchmarks/run.py", *arguments)


def docs(_: Sequence[str]) -> int:
    """generate the rule pages and build the documentation into site/"""
    return setup() or _python("-m", "barograph.rules.pages", "docs/rules") or _python("docs/build_site.py")


def clean(_: Sequence[str]) -> int:
    """remove everything that these commands created"""
    for name in _MADE:
        shutil.rmtree(ROOT / name, ignore_errors=True)
    return 0


VERBS: dict[str, Callable[[Sequence[str]], int]] = {
    verb.__name__: verb for verb in (demo, test, check, bench, versions, docs, setup, clean)
}


def main(arguments: Sequence[str]) -> int:
    """Run a command and return its exit code. Without a command, list them."""
    if sys.version_info < OLDEST:
        print(f"Barograph needs Python {'.'.join(map(str, OLDEST))} or later; this is {sys.version.split()[0]} "
              f"({sys.executable}).", file=sys.stderr)
        return 2
    if not arguments or arguments[0] not in VERBS:
        print("Usage: python3 do.py COMMAND [ARGUMENTS]\n")
        print("\n".join(f"  {name:<9}{(verb.__doc__ or '').splitlines()[0]}" for name, verb in VERBS.items()))
        return 0 if arguments[:1] in ([], ["help"], ["-h"], ["--help"]) else 2
    return VERBS[arguments[0]](arguments[1:])


def _python(*arguments: str, **variables: str) -> int:
    sys.stdout.flush()
    try:
        return subprocess.call([str(PYTHON), *arguments], cwd=ROOT, env={**os.environ, **variables})
    except KeyboardInterrupt:
        return 130


def _install_debian_packages() -> None:
    """Install Chromium, FUSE and shells where that is possible; the tests that need them skip without them."""
    missing = [package for package in _DEBIAN_PACKAGES if _is_needed(package)]
    if not missing or shutil.which("apt-get") is None or os.getuid() != 0:
        return
    print(f"Installing Debian packages for the tests: {', '.join(missing)}.", flush=True)
    _apt_get("update")
    # One by one: not every distribution has all of them, and apt-get would then install none.
    for package in missing:
        if _is_needed(package):
            _apt_get("install", "--yes", "--no-install-recommends", package)


def _is_needed(package: str) -> bool:
    return not any(map(shutil.which, _DEBIAN_PACKAGES[package]))


def _apt_get(*words: str) -> None:
    subprocess.call(["apt-get", "--quiet", "--quiet", *words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})


def _mark() -> str:
    """Return what tells an environment that was made from these files from any other."""
    digest = hashlib.sha256(sys.version.encode())
    for pattern in _SOURCES:
        for path in sorted(ROOT.glob(pattern)):
            digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
