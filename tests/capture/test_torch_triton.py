"""The fused reduction for CUDA. Without a GPU it runs in Triton's interpreter, on CPU tensors; that proves what it
computes, and compiling it for two kinds of GPU that it is valid, but nothing of its speed."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import numpy as np
import pytest
import torch

from barograph.capture.torch import triton as torch_triton
from barograph.measures.summary import row_from_summary, summarize
from barograph.model.selection import Histogram

NONE, SAMPLED, EXACT = Histogram.NONE, Histogram.SAMPLED, Histogram.EXACT
BOUND = 2.0**-17

needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed here")

INTERPRET = """
import sys, torch
from barograph.capture.torch import triton as torch_triton
cases = torch.load(sys.argv[1], weights_only=False)
torch.save({name: torch_triton.reduce_many(*case) for name, case in cases.items()}, sys.argv[2])
"""

COMPILE = """
import triton, triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from barograph.capture.torch import triton_kernels as kernels

TABLES = {"pointers": "*i64", "sizes": "*i64", "chunk_tensor": "*i32", "chunk_first": "*i64"}
BLOCKS = {"CHUNK": 16384, "BLOCK": 1024}

def compile(kernel, signature, constants, capability):
    kinds = {**signature, **dict.fromkeys(constants, "constexpr")}
    places = {(kernel.arg_names.index(name),): value for name, value in constants.items()}
    triton.compile(ASTSource(kernel, signature=kinds, constexprs=places),
                   target=GPUTarget("cuda", capability, 32), options={"enable_fp_fusion": False})
    print(kernel.__name__)

for capability in (80, 90):
    for element, wide in ((tl.float32, False), (tl.bfloat16, False), (tl.float64, True)):
        kind = {"ELEMENT": element, "WIDE": wide, **BLOCKS}
        compile(kernels.summarize_chunks, {**TABLES, "partials": "*fp64"}, {**kind, "ALIGNED": True}, capability)
        for sampled in (False, True):
            compile(kernels.count_exponents, {**TABLES, "exponents": "*i64"}, {**kind, "SAMPLED": sampled}, capability)
    compile(kernels.merge_chunks, {"partials": "*fp64", "first_chunk": "*i32", "moments": "*fp64"}, {"BLOCK": 64},
            capability)
"""


def cases() -> dict[str, tuple[list[torch.Tensor], list[Histogram]]]:
    torch.manual_seed(0)
    normal = torch.randn(40_000)
    strange = normal.clone()
    strange[[0, 7, 20_000, 39_999]] = torch.tensor([float("nan"), float("inf"), -float("inf"), float("nan")])
    bits = torch.randint(-(2**31), 2**31 - 1, (20_001,), dtype=torch.int64).to(torch.int32).view(torch.float32)
    whole = torch.randint(-100, 100, (5000,))
    scales = [1e-44, 1e-30, 1e-17, 1e18, 1e30]
    types = [torch.float64, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2, torch.int8,
             torch.uint8, torch.int16, torch.int32, torch.int64, torch.bool, torch.complex64]
    return {
        "sizes": ([torch.randn(n) for n in (0, 1, 1023, 1024, 1025, 16_383, 16_384, 16_385, 50_000)], [EXACT] * 9),
        "none": ([normal, torch.zeros(0)], [NONE, NONE]),
        "nothing": ([torch.zeros(0)], [EXACT]),
        "mixed histograms": ([normal, normal.half(), normal, torch.tensor(3.0)], [NONE, EXACT, SAMPLED, SAMPLED]),
        "strange": ([strange, strange.double(), strange.half()], [EXACT] * 3),
        "any bits": ([bits], [EXACT]),
        "scales": ([normal.clamp(-3, 3) * scale for scale in scales], [EXACT] * 5),
        "zeros": ([torch.zeros(3000), normal.relu(), -torch.zeros(10)], [EXACT] * 3),
        "not at a multiple of 16 bytes": ([normal[1:], normal.half()[3:]], [EXACT, EXACT]),
        "types": ([whole.to(kind) for kind in types], [EXACT] * len(types)),
        "large whole numbers": ([torch.tensor([2**62, -1, 0])], [EXACT]),
        "beyond float32": ([torch.tensor([1e300, -1e300, 1e-300, 0.0], dtype=torch.float64)], [EXACT]),
    }


@pytest.fixture(scope="module")
def interpreted(tmp_path_factory):
    place = tmp_path_factory.mktemp("triton")
    torch.save(cases(), place / "cases.pt")
    environment = {**os.environ, "TRITON_INTERPRET": "1"}  # read when triton is imported, so: another process
    done = subprocess.run([sys.executable, "-c", INTERPRET, place / "cases.pt", place / "results.pt"],
                          env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return torch.load(place / "results.pt")


@needs_triton
@pytest.mark.parametrize("name", list(cases()))
def test_agrees_with_the_plain_reference_in_the_interpreter(interpreted, name):
    assert_as_reference(*cases()[name], *interpreted[name])


@needs_triton
def test_compiles_for_a_gpu():
    done = subprocess.run([sys.executable, "-W", "error", "-c", COMPILE], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split()) == 20


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")
@pytest.mark.parametrize("name", list(cases()))
def test_agrees_with_the_plain_reference_on_a_gpu(name):
    tensors, histograms = cases()[name]
    assert torch_triton.unavailable_reason(torch.device("cuda")) == ""
    moments, exponents = torch_triton.reduce_many([tensor.cuda() for tensor in tensors], histograms)
    assert_as_reference(tensors, histograms, moments.cpu(), None if exponents is None else exponents.cpu())


def test_a_tensor_that_is_not_on_a_gpu_is_not_for_it():
    assert "not on a CUDA device" in torch_triton.unavailable_reason(torch.device("cpu"))


def test_importing_it_does_not_import_triton():
    code = "import sys, barograph.capture.torch.triton; print('triton' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert done.stdout.strip() == "False", done.stderr


def assert_as_reference(tensors, histograms, moments, exponents) -> None:
    assert (exponents is None) == (not any(histograms))
    for number, (tensor, histogram) in enumerate(zip(tensors, histograms, strict=True)):
        row, bins = row_from_summary(summarize(as_array(tensor), histogram=histogram))
        found = moments[number].numpy()
        assert found[:7].tolist() == row[:7].tolist()
        for column, magnitude in ((7, 9), (8, 8), (9, 9)):
            assert found[column] == pytest.approx(row[column], rel=0, abs=BOUND * min(row[magnitude], 1e308))
        if exponents is not None:
            assert exponents[number].tolist() == bins.tolist()


def as_array(tensor: torch.Tensor) -> np.ndarray:
    narrow = tensor.dtype in (torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2)
    return (tensor.float() if narrow else tensor).numpy()
