"""Train `digits.py` twice under Barograph, healthy and with a planted fault, and check what is said of each.

    python3 do.py demo
    python examples/demo.py --fault learning-rate

`digits.py` imports nothing of Barograph. Each of its two runs is the command that you would type yourself; it is
printed first. Ends with exit code 1 if the healthy training has a finding or was not seen whole, or if the faulty
one has not the finding it should have or was not stopped.
"""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

import barograph
from barograph.errors import EXIT_STOPPED
from barograph.runs.reading.roster import Standing

SCRIPT = Path(os.path.relpath(Path(__file__).with_name("digits.py")))
RUNS = Path("barograph-runs", "demo")
TELLTALES = {"dead-relu": {"A101", "W104"}, "learning-rate": {"W101"}, "nan": {"N101"}}
"""Fault to the rules of which one must name it: dead units are seen by their output, and by gradients that stop."""


def train(name, *arguments):
    """Train under Barograph; return the run and the exit code."""
    place = RUNS / name
    shutil.rmtree(place, ignore_errors=True)
    # `--budget off`: steps of a few milliseconds leave no room under the usual budget of 1 %, and this
    # demonstration wants every step seen. `--on-finding stop`: a finding that is costly or worse ends the training.
    command = ["run", "--to", str(place), "--budget", "off", "--on-finding", "stop", str(SCRIPT), *arguments]
    print(f"\n$ barograph {' '.join(command)}\n", flush=True)
    # Two threads for so small a network only get into each other's way.
    environment = {"OMP_NUM_THREADS": "1", **os.environ}
    code = subprocess.call([sys.executable, "-m", "barograph", *command], env=environment)
    return barograph.open(place), code


def links_in_studio():
    """Serve the runs until nobody has looked at them for half an hour; return the links to them."""
    process = subprocess.Popen([sys.executable, "-m", "barograph.web.beside", str((RUNS / "faulty").resolve())],
                               stderr=subprocess.PIPE, text=True, start_new_session=True)
    said = process.stderr.readline().strip()
    page, found, faulty = said.partition("studio at ")[2].partition("#/run/")
    if not found:
        return said
    healthy = f"{faulty.removesuffix('faulty')}healthy"
    return (f"The faulty run:  {page}#/run/{faulty}\nThe healthy run: {page}#/run/{healthy}\n"
            f"Both:            {page}#/compare?run={healthy}&run={faulty}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fault", choices=sorted(TELLTALES), default="dead-relu", help="what to plant")
    parser.add_argument("--epochs", type=int, default=40, help="of each training")
    parser.add_argument("--studio", action=argparse.BooleanOptionalAction, default=sys.stdout.isatty(),
                        help="serve the two runs in the web UI at the end; default: if this is a terminal")
    args = parser.parse_args()

    print("1. A healthy training: nothing should be found.")
    healthy, healthy_code = train("healthy", "--epochs", str(args.epochs))
    print(f"\n2. The same script with a fault planted ({args.fault}): it should be found, and the training stopped.")
    faulty, faulty_code = train("faulty", "--epochs", str(args.epochs), "--fault", args.fault)

    planned, made = (run.workers[0].last.step for run in (healthy, faulty))
    whole_secs, secs = (run.workers[0].last.cost.train_secs for run in (healthy, faulty))
    named = TELLTALES[args.fault] & {finding.code for finding in faulty.findings}
    checks = {
        "the healthy training ended by itself": healthy_code == 0,
        "all of it was seen": healthy.workers[0].last.coverage.complete,
        "it has no findings": not healthy.findings,
        f"the fault is named ({' or '.join(sorted(TELLTALES[args.fault]))})": bool(named),
        "it was stopped because of it, and its exit code says so":
            faulty_code == EXIT_STOPPED and faulty.workers[0].standing is Standing.STOPPED,
        "before all its steps were made": made < planned,
    }
    print("\n3. What was claimed, checked:\n")
    for claim, holds in checks.items():
        print(f"  {'yes' if holds else 'NO '}  {claim}")
    print(f"\nThe faulty training was stopped after {made} of {planned} steps: {1 - made / planned:.0%} of them saved\n"
          f"({secs:.1f} s of training instead of {whole_secs:.1f} s).")
    here = os.path.relpath(Path(sys.executable).with_name("barograph"))
    print(f"\nLook at it yourself:\n\n$ {here} show {RUNS / 'faulty'}\n$ {here} studio {RUNS}")
    if args.studio:
        print(f"\n{links_in_studio()}")
    return 0 if all(checks.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
