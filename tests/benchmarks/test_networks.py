"""Networks put together by chance: what the worker compares, and the table of it."""

from __future__ import annotations

import pytest

from benchmarks import networks
from benchmarks.processes import run_worker


def test_a_network_is_trained_with_and_without_us() -> None:
    pytest.importorskip("keras", reason="keras is not installed")
    found = run_worker("networks_worker", {"seeds": [3, 4]}, variables={"KERAS_BACKEND": "torch"})["networks"]
    assert [network["seed"] for network in found] == [3, 4]
    assert found[0]["what"] != found[1]["what"]
    assert all(network["repeats"] and network["differs"] == [] for network in found)


def test_what_differs_is_named_and_what_repeats_nothing_is_no_witness(capsys: pytest.CaptureFixture[str]) -> None:
    def network(seed: int, repeats: bool, *differs: str) -> dict[str, object]:
        return {"seed": seed, "what": f"network {seed}", "repeats": repeats, "differs": list(differs)}

    networks.print_networks({
        "networks": {"jax": [network(0, True), network(1, True, "moments"), network(2, False, "moments")]},
        "missing": ["torch"]})
    said = capsys.readouterr().out
    assert ["jax", "3", "1", "1"] in [line.split() for line in said.splitlines()]
    said = " ".join(said.split())
    assert "jax, seed 1, recorded moments: network 1" in said
    assert "seed 2" not in said
    assert "Keras on torch was not compared: torch is not installed" in said
