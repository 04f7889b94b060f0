"""Programs that write the data of `benchmarks.studio.data` with each tool, in its own environment."""
