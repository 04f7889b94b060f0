"""The web UI in a real browser, beside those of other tools on the same data."""
