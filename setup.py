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
            depends=[f"src/barograph/_native_{part}.h" for part in ("lanes", "threads", "xla")],
            # Fused multiply-add would round differently from one processor to the next.
            extra_compile_args=["-O3", "-ffp-contract=off", "-pthread"],
            extra_link_args=["-pthread"],
            define_macros=[("Py_LIMITED_API", "0x030B0000")],
            py_limited_api=True,
            optional=True,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
