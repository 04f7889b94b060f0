"""Builds the native statistics loop. Everything else is in pyproject.toml.

The module is optional: where no C compiler is found the package installs without it, and the plain
NumPy twin serves, slower, and says so.
"""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "barograph._native",
            sources=["src/barograph/_native.c"],
            depends=["src/barograph/_native_lanes.h", "src/barograph/_native_xla.h"],
            # Fused multiply-add would round differently from one processor to the next.
            extra_compile_args=["-O3", "-ffp-contract=off"],
            define_macros=[("Py_LIMITED_API", "0x030B0000")],
            py_limited_api=True,
            optional=True,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
