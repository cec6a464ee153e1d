"""Tests in this directory pass on every Keras backend: `KERAS_BACKEND=jax pytest tests/backends`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # `references` serves the tests above too
