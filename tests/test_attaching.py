"""What `attach` refuses, it refuses before anything is claimed."""

from __future__ import annotations

import secrets

import pytest
import torch

import barograph
from barograph.errors import SessionClosed, SettingsError
from barograph.model.step import Mode
from barograph.runs.state.checkpoints import checkpoint_names
from barograph.store.urls import store_from_url


@pytest.mark.parametrize(
    ("model", "optimizer", "message"),
    [
        (lambda: 42, lambda: None, "got int as a model"),
        (lambda: torch.optim.SGD([torch.zeros(1, requires_grad=True)], 0.1), lambda: None, "got SGD as a model"),
        (lambda: torch.nn.Linear(1, 1), lambda: torch.nn.Linear(1, 1), "got Linear as an optimizer"),
    ],
)
def test_what_is_no_module_or_optimizer_is_refused_and_leaves_nothing(tmp_path, model, optimizer, message):
    with pytest.raises(SettingsError, match=message):
        barograph.attach(model(), optimizer(), to=tmp_path / "run", watch=False)
    assert not (tmp_path / "run").exists()
    with barograph.attach(torch.nn.Linear(1, 1), to=tmp_path / "run", watch=False):
        pass


def test_a_collection_that_is_none_is_refused():
    with pytest.raises(SettingsError, match=r"collections holds 'biases'; each must be a barograph\.Selection"):
        barograph.attach(torch.nn.Linear(1, 1), to="memory://unselected", watch=False, collections=["biases"])


def test_labels_and_answers_that_the_script_names_are_in_the_run():
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with barograph.attach(model, optimizer, to="memory://attaching/named", watch=False, strict=True) as run:
        model(torch.randn(3, 2)).sum().backward()
        run.save_predictions([0, 1, 1], [0, 0, 1], "churn")
        optimizer.step()
    with pytest.raises(SessionClosed):
        run.save_predictions([0], [0])
    read = barograph.open("memory://attaching/named")
    assert [str(key) for key in read.keys(kind="label")] == ["label:churn[0]", "label:churn[1]"]
    assert read.series("confusion:churn[1,0]").values.tolist() == [1]


def test_a_loop_that_counts_its_steps_has_checkpoints_saved_where_it_asks():
    url = f"memory://attach-{secrets.token_hex(8)}"
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with barograph.attach(model, optimizer, to=url, watch=False, preset="free") as run:
        numbers = []
        for number in run.steps(4):
            numbers.append(number)
            if number == 1:
                run.checkpoint()
            optimizer.zero_grad()
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()
    assert numbers == [0, 1, 2, 3]
    (name,) = checkpoint_names(store_from_url(url))
    assert name.startswith("checkpoints/0000-00000002-")
    with pytest.raises(SessionClosed):
        run.steps(4)
    with pytest.raises(SessionClosed):
        run.checkpoint()


class DeafIntegration:
    """An integration of a framework that knows no modes."""

    def ask_for(self, selections):
        pass

    def mode_changes(self, mode):
        pass

    def remove(self):
        pass


def test_the_mode_that_the_script_sets_holds_whatever_else_listens():
    with barograph.attach(to=f"memory://{secrets.token_hex(8)}", watch=False) as run:
        run._recording.add_integration(DeafIntegration())
        with run.mode("eval"):
            assert run._recording.session.script.mode is Mode.EVAL
        assert run._recording.session.script.mode is None
