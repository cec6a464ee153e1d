"""Tests in this directory pass on every Keras backend: `KERAS_BACKEND=jax pytest tests/backends`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # `references` serves the tests above too


def pytest_configure(config):
    # Keras 3.15 on JAX and torch turns variables into arrays by an `__array__` that numpy 2 calls outdated.
    config.addinivalue_line(
        "filterwarnings", "ignore:__array__ implementation doesn't accept a copy:DeprecationWarning"
    )
