"""Train `digits.py` twice under Barograph, healthy and with a planted fault, and check the findings of each.

    python3 do.py demo
    python examples/demo.py --fault learning-rate

`digits.py` does not import Barograph. The demo prints each command before it runs it. Exits with code 1 if the healthy
training has a problem or was not recorded completely, or if the fault was not found or its training not stopped.
"""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

import barograph
from barograph.errors import EXIT_STOPPED
from barograph.model.finding import Severity
from barograph.runs.reading.roster import Standing

SCRIPT = Path(os.path.relpath(Path(__file__).with_name("digits.py")))
RUNS = Path("barograph-runs", "demo")
TELLTALES = {"dead-relu": {"A101", "W104"}, "learning-rate": {"W101"}, "nan": {"N101"}}
"""Rules that name each fault; one of them must fire."""


def train(name, *arguments):
    """Train under Barograph; return the run and the exit code."""
    place = RUNS / name
    shutil.rmtree(place, ignore_errors=True)
    # `--budget off`: the default budget of 1% is too small to record every step of a few milliseconds.
    # `--on-finding stop`: a finding that is costly or worse ends the training.
    command = ["run", "--to", str(place), "--budget", "off", "--on-finding", "stop", str(SCRIPT), *arguments]
    print(f"\n$ barograph {' '.join(command)}\n", flush=True)
    # More threads slow so small a network down.
    environment = {"OMP_NUM_THREADS": "1", **os.environ}
    code = subprocess.call([sys.executable, "-m", "barograph", *command], env=environment)
    return barograph.open(place), code


def links_in_studio():
    """Serve the runs until nobody has looked at them for half an hour; return the links to them."""
    process = subprocess.Popen([sys.executable, "-m", "barograph.web.beside", str((RUNS / "faulty").resolve())],
                               stderr=subprocess.PIPE, text=True, start_new_session=True)
    line = process.stderr.readline().strip()
    page, found, faulty = line.partition("studio at ")[2].partition("#/run/")
    if not found:
        return line
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

    print("1. A healthy training, without problems.")
    healthy, healthy_code = train("healthy", "--epochs", str(args.epochs))
    print(f"\n2. The same script with a fault planted ({args.fault}): Barograph finds it and stops the training.")
    faulty, faulty_code = train("faulty", "--epochs", str(args.epochs), "--fault", args.fault)

    planned, made = (run.workers[0].last.step for run in (healthy, faulty))
    whole_secs, secs = (run.workers[0].last.cost.train_secs for run in (healthy, faulty))
    named = TELLTALES[args.fault] & {finding.code for finding in faulty.findings}
    checks = {
        "the healthy training ran to its end": healthy_code == 0,
        "all of its steps were recorded": healthy.workers[0].last.coverage.complete,
        # A busy machine delays steps, which a note reports.
        "it has no problems": all(finding.severity is Severity.NOTE for finding in healthy.findings),
        f"the fault is named ({' or '.join(sorted(TELLTALES[args.fault]))})": bool(named),
        f"the fault stopped its training (exit code {EXIT_STOPPED})":
            faulty_code == EXIT_STOPPED and faulty.workers[0].standing is Standing.STOPPED,
        "it stopped early": made < planned,
    }
    print("\n3. Checks:\n")
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
