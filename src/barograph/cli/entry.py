"""The program `barograph`: ends silently on Ctrl-C, also while its modules are loaded."""

import sys

_EXIT_INTERRUPTED = 130


def main() -> None:
    """Run the command line; exits with the command's code."""
    try:
        # Loaded here, because loading takes most of the time of a short command, and Ctrl-C may come meanwhile.
        from barograph.cli.main import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(_EXIT_INTERRUPTED)
