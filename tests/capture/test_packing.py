"""Values of a training as plain data, and back."""

from __future__ import annotations

import collections
import dataclasses
import json
import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from barograph.capture.torch.packing import Packer
from barograph.capture.torch.unpacking import Unpacker
from barograph.errors import DamagedChunk, NotPlain
from barograph.runs.format.tensors import array_from_raw, read_tensor, tensor_entries, tensors_bytes


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclasses.dataclass
class Sample:
    image: Any
    name: str = ""

    def __post_init__(self) -> None:
        made.append(self.name)


made: list[str] = []


class Encoding(collections.UserDict[str, Any]):
    """As tokenizers return it."""


class Output(collections.OrderedDict[str, Any]):
    """As models return it."""


class Odd:
    """What only pickle can hold."""


def through(value: Any, packer: Packer | None = None, **more: Any) -> Any:
    """Pack a value, write it to bytes and text, read them, and unpack it."""
    packer = packer or Packer()
    content = json.loads(json.dumps(packer.pack(value, "it"), allow_nan=False))
    data = tensors_bytes({name: array_from_raw(tensor) for name, tensor in packer.tensors.items()})
    tensors = {name: read_tensor(data, name, "file") for name in tensor_entries(data, "file")}
    return Unpacker(tensors, "file", **more).unpack(content)


def same(one: Any, other: Any) -> bool:
    """Return whether two values are one in class and to the last bit."""
    if type(one) is not type(other):
        return False
    if isinstance(one, torch.Tensor):
        return (one.dtype == other.dtype and one.shape == other.shape and one.stride() == other.stride()
                and one.requires_grad == other.requires_grad
                and one.reshape(-1).view(torch.uint8).tolist() == other.reshape(-1).view(torch.uint8).tolist())
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    if isinstance(one, dict | collections.UserDict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, Sample):
        return same(vars(one), vars(other))
    return bool(one == other) or (isinstance(one, float) and math.isnan(one) and math.isnan(other))


DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2,
          torch.complex64, torch.complex128, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint64,
          torch.uint32, torch.uint16, torch.uint8, torch.bool)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_tensor_of_every_type_comes_back_to_the_last_bit(dtype: torch.dtype) -> None:
    assert same(through(torch.arange(6).to(dtype).reshape(2, 3)), torch.arange(6).to(dtype).reshape(2, 3))


@pytest.mark.parametrize("value", [
    None, True, False, 0, -(2**80), "", 'a"\n\u00e9\ud800', 0.1, -0.0, math.inf, -math.inf, math.nan, 1e-310,
    complex(0.1, math.inf), b"", b"\x00\xff", range(3, 9, 2), torch.float16, torch.Size([2, 3]),
    torch.device("cpu"), Path("a") / "b", np.float32(0.1), np.int64(3), np.bool_(True),
    np.arange(6).reshape(2, 3)[:, ::-1], np.zeros((0, 2)), [1, (2, [3]), {"a": (), 4: [None]}], {1, 2},
    frozenset({"a"}),
    Pair(1, [2]), collections.OrderedDict(b=1, a=2), Encoding(ids=[1]), Output(loss=1.0, logits=[2]),
    torch.tensor(math.nan), torch.zeros(0, 3), torch.randn(3).requires_grad_(), torch.randn(4, 3).t(),
    torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last),
], ids=lambda value: type(value).__name__)
def test_what_is_plain_comes_back_as_it_was(value: Any) -> None:
    assert same(through(value), value)


def test_gaps_and_overlaps_are_not_kept() -> None:
    for value in (torch.arange(10)[::2], torch.arange(3).expand(4, 3), torch.randn(2, 2).to(torch.complex64).conj()):
        back = through(value)
        assert torch.equal(back, value)
        assert back.is_contiguous()


def test_one_tensor_in_two_places_is_one_again() -> None:
    both = torch.ones(2)
    packer = Packer()
    one, other = through({"x": both, "y": [both]}, packer).values()
    assert one is other[0]
    assert len(packer.tensors) == 1


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta state")
@pytest.mark.parametrize("make", [
    lambda: torch.eye(3).to_sparse(), lambda: torch.eye(3).to_sparse().coalesce(), lambda: torch.eye(3).to_sparse_csr(),
    lambda: torch.sparse_coo_tensor([[0, 0]], [1.0, 2.0], (4,), check_invariants=True),
], ids=["coo", "coalesced", "csr", "twice"])
def test_sparse_tensors_come_back(make: Any) -> None:
    value = make()
    back = through(value)
    assert back.layout is value.layout
    assert torch.equal(back.to_dense(), value.to_dense())
    if value.layout is torch.sparse_coo:
        assert (back.is_coalesced(), back._nnz()) == (value.is_coalesced(), value._nnz())


def test_ragged_tensors_come_back() -> None:
    value = torch.nested.nested_tensor([torch.arange(2.0), torch.arange(3.0)], layout=torch.jagged)
    back = through(value)
    assert back.is_nested
    assert [part.tolist() for part in back.unbind()] == [[0.0, 1.0], [0.0, 1.0, 2.0]]


@pytest.mark.parametrize("value", [
    np.array([["a", "bcd"], ["", "ü"]]), np.array([b"a", b"bc"]), np.array(["2026-11-22", "NaT"], "datetime64[D]"),
    np.array([3, 5], ">m8[s]"), np.array([]).astype("U1"), np.array(7, "datetime64[s]"),
], ids=["texts", "bytes", "days", "durations", "none", "one"])
def test_arrays_of_what_are_no_numbers_come_back(value: Any) -> None:
    back = through(value)
    assert (back.dtype, back.shape) == (value.dtype, value.shape)
    assert np.array_equal(back, value, equal_nan=value.dtype.kind == "M")


def test_arrays_of_objects_come_back() -> None:
    value = np.empty((2, 1), object)
    value[0, 0], value[1, 0] = {"boxes": torch.ones(2)}, "cat"
    back = through(value)
    assert back.shape == (2, 1)
    assert torch.equal(back[0, 0]["boxes"], torch.ones(2))
    assert back[1, 0] == "cat"
    with pytest.raises(NotPlain, match="it/0 holds Odd"):
        Packer().pack(np.array([Odd()], object), "it")


def test_slices_come_back() -> None:
    assert through([slice(None, 3), slice(1, 9, 2)]) == [slice(None, 3), slice(1, 9, 2)]


def test_a_dataclass_comes_back_without_being_made_again() -> None:
    value = Sample(torch.ones(2), "cat")
    made.clear()
    assert same(through(value), value)
    assert made == []


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "1", "I", "F", "P"])
def test_images_come_back(mode: str) -> None:
    image = pytest.importorskip("PIL.Image")
    value = image.fromarray(np.arange(48, dtype=np.uint8).reshape(4, 4, 3)).convert(mode)
    back = through([value])[0]
    assert (back.mode, back.size, back.tobytes(), back.getpalette()) == (
        value.mode, value.size, value.tobytes(), value.getpalette())


def test_what_only_pickle_can_hold_is_refused_or_kept_apart() -> None:
    odd = Odd()
    with pytest.raises(NotPlain, match="it/a/1 holds Odd, which is not plain data"):
        Packer().pack({"a": [1, odd]}, "it")
    packer = Packer(keeps_apart=True)
    with pytest.raises(NotPlain, match="test_packing:Odd, which is pickled, and the pickle was not opened"):
        through({"a": [1, odd]}, packer)
    assert packer.apart == [odd]
    assert through({"a": [1, odd]}, Packer(keeps_apart=True), apart=[odd]) == {"a": [1, odd]}


def test_what_holds_itself_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(NotPlain):
        Packer().pack(endless, "it")


def test_a_class_that_is_not_loaded_is_not_looked_for() -> None:
    with pytest.raises(NotPlain, match="antigravity:Sample, but the script has loaded no such dataclass"):
        Unpacker({}, "file").unpack({"fields": [["image", 1]], "as": "antigravity:Sample"})
    with pytest.raises(NotPlain):
        Unpacker({}, "file").unpack({"fields": [["args", 1]], "as": "subprocess:Popen"})
    assert Unpacker({}, "file").unpack({"map": {"a": 1}, "as": "antigravity:Sample"}) == {"a": 1}


@pytest.mark.parametrize("content", [
    {}, {"reduce": ["os.system", "true"]}, {"tensor": "missing"}, {"tensor": ["it"]},
    {"tensor": "it", "strides": [9, 9]},
    {"tensor": "it", "strides": [1, -2]}, {"tensor": "it", "strides": [0, 0]},
    {"map": [1]}, {"items": [[[1], 2]]}, {"items": [1]}, {"dtype": "save"}, {"dtype": "nn.Linear"}, {"tuple": None},
    {"range": [1, 2, 0]}, {"float": "much"}, {"fields": [1], "as": "test_packing:Pair"},
    {"sparse_coo": {"indices": "it", "values": "it", "size": [1], "coalesced": True}}, {"image": {"mode": "L"}},
    {"texts": ["a"], "of": "O", "shape": [1]}, {"texts": "it", "of": "U1", "shape": [9]},
    {"times": [1], "of": "f8", "shape": [1]}, {"objects": [1, 2], "shape": [3]}, {"objects": 3, "shape": [3]},
    {"slice": [1, 2, 3, 4, 5]}, {"nested": [], "layout": "sparse_coo"}, {"path": 3},
    {"complex": ["1"]}, {"device": "nowhere"},
], ids=json.dumps)
def test_a_hostile_entry_is_damage_and_nothing_else(content: Any) -> None:
    with pytest.raises(DamagedChunk, match="file"):
        Unpacker({"it": np.ones((2, 2), np.float32)}, "file").unpack(content)


def test_what_is_nested_without_end_is_damage() -> None:
    content: Any = 1
    for _ in range(100_000):
        content = [content]
    with pytest.raises(DamagedChunk, match="RecursionError"):
        Unpacker({}, "file").unpack(content)


def test_a_device_that_is_not_here_is_said() -> None:
    unpacker = Unpacker({"it": np.ones(2, np.float32)}, "file")
    assert unpacker.unpack({"tensor": "it", "device": "cuda:7"}).device.type == "cpu"
    assert unpacker.moved == {"cuda:7"}
