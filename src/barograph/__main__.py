"""`python -m barograph` is the command `barograph`."""

from barograph.cli.entry import main

if __name__ == "__main__":
    main()
