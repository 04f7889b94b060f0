"""What `attach` refuses, it refuses before anything is claimed."""

from __future__ import annotations

import pytest
import torch

import barograph
from barograph.errors import SettingsError


@pytest.mark.parametrize(
    ("model", "optimizer", "message"),
    [
        (42, None, "given int as a model"),
        (torch.optim.SGD([torch.zeros(1, requires_grad=True)], 0.1), None, "given SGD as a model"),
        (torch.nn.Linear(1, 1), torch.nn.Linear(1, 1), "given Linear as an optimizer"),
    ],
)
def test_what_is_no_module_or_optimizer_is_refused_and_leaves_nothing(tmp_path, model, optimizer, message):
    with pytest.raises(SettingsError, match=message):
        barograph.attach(model, optimizer, to=tmp_path / "run", watch=False)
    assert not (tmp_path / "run").exists()
    with barograph.attach(torch.nn.Linear(1, 1), to=tmp_path / "run", watch=False):
        pass
