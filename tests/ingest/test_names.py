"""Which key each of smdebug's names is."""

from __future__ import annotations

import pytest

from barograph.ingest.smdebug.names import Naming

TORCH = ("Net_conv.weight", "Net_layers.0.fc.bias", "gradient/Net_conv.weight", "gradient/Net_cls_token",
         "Net_cls_token", "conv_output_0", "layers.0.fc_output_0", "Net_output_0", "CrossEntropyLoss_output_0")


@pytest.mark.parametrize(("name", "key"), [
    ("Net_conv.weight", "weight:conv.weight"),
    ("Net_layers.0.fc.bias", "weight:layers.0.fc.bias"),
    ("Net_cls_token", "weight:cls_token"),
    ("gradient/Net_conv.weight", "gradient:conv.weight"),
    ("conv_output_0", "output:conv"),
    ("conv_output_2", "output:conv[2]"),
    ("conv_input_0", "input:conv"),
    ("Net_output_0", "output:Net"),
    ("CrossEntropyLoss_output_0", "loss:total"),
    ("CrossEntropyLoss_input_1", "input:CrossEntropyLoss[1]"),
    ("scalar/lr", "scalar:lr"),
    ("mine", "custom:mine"),
    ("smdebug/reductions/abs_mean/gradient/Net_conv.weight", "gradient:conv.weight[abs_mean]"),
    ("smdebug/reductions/l2/mine", "custom:mine[l2]"),
])
def test_names_of_pytorch(name: str, key: str) -> None:
    assert str(Naming(TORCH).key(name)) == key


@pytest.mark.parametrize(("name", "key"), [
    ("dense0_weight", "weight:dense0_weight"),
    ("gradient/dense0_weight", "gradient:dense0_weight"),
    ("dense0_relu_output_0", "output:dense0_relu"),
    ("softmaxcrossentropyloss0_output_0", "loss:total"),
])
def test_names_of_mxnet(name: str, key: str) -> None:
    known = ("dense0_weight", "dense0_bias", "gradient/dense0_weight", "softmaxcrossentropyloss0_output_0")
    assert str(Naming(known).key(name)) == key


@pytest.mark.parametrize(("name", "key"), [
    ("dense/weights/dense/kernel:0", "weight:dense.kernel"),
    ("gradients/dense/kernelGrad", "gradient:dense.kernel"),
    ("dense/outputs", "output:dense"),
    ("loss", "loss:total"),
    ("accuracy", "scalar:accuracy"),
    ("Adam/dense/kernel/m:0", "optimizer_state:Adam.dense.kernel.m"),
])
def test_names_of_keras(name: str, key: str) -> None:
    collections = {"metrics": ["accuracy"], "losses": ["loss"], "optimizer_variables": ["Adam/dense/kernel/m:0"],
                   "weights": ["dense/weights/dense/kernel:0"], "gradients": ["gradients/dense/kernelGrad"]}
    assert str(Naming((), collections).key(name)) == key


@pytest.mark.parametrize(("name", "key"), [
    ("train-rmse", "scalar:train-rmse"),
    ("feature_importance/cover/f1", "importance:f1[cover]"),
    ("feature_importance/total_gain/f1", "importance:f1"),
    ("average_shap/f1", "importance:f1[shap]"),
    ("predictions", "custom:predictions"),
    ("hyperparameters/scale_pos_weight", "custom:hyperparameters/scale_pos_weight"),
])
def test_names_of_xgboost(name: str, key: str) -> None:
    assert str(Naming((), {"metrics": ["train-rmse"]}).key(name)) == key


def test_several_losses_keep_their_names() -> None:
    naming = Naming(("CrossEntropyLoss_output_0", "MSELoss_output_0"))
    assert str(naming.key("MSELoss_output_0")) == "loss:MSELoss"


def test_a_class_with_low_lines_is_told_by_the_modules_that_hold_its_parameters() -> None:
    naming = Naming(("My_Net_fc.weight", "My_Net_out.bias", "fc_output_0", "out_output_0"))
    assert str(naming.key("My_Net_fc.weight")) == "weight:fc.weight"


def test_no_two_names_share_a_key() -> None:
    naming = Naming(("A_fc.weight", "B_fc.weight", "fc_output_0"))
    names = ["conv_output_0", "module.conv_output_0", "scalar/a", "A_fc.weight", "B_fc.weight"]
    assert len({naming.key(name) for name in names}) == len(names)
    assert str(naming.key("module.conv_output_0")) == "custom:module.conv_output_0"


def test_a_name_keeps_its_key() -> None:
    naming = Naming(TORCH)
    assert naming.key("Net_conv.weight") is naming.key("Net_conv.weight")
