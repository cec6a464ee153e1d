"""Tests in this directory pass on every Keras backend: `KERAS_BACKEND=jax pytest tests/backends`."""

import os

# Hundreds of tiny programs: on JAX nearly all the time goes into compiling them.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
