import json
import subprocess
import sys
from pathlib import Path

import pytest

import nmn_keras

ROOT = Path(__file__).parent.parent
LIGHT = (
    "nmn_keras",
    "nmn_keras.envs",
    "nmn_keras.baselines",
    "nmn_keras.optima",
    "nmn_keras.known_task",
    "nmn_keras.spaces",
    "nmn_keras.evaluation",
    "nmn_keras.contract",
    "nmn_keras.runtime",
    "nmn_keras.zoo",
    "nmn_keras.card",
    "nmn_keras.hub",
    "nmn_keras.checkpoint",
    "nmn_keras.client",
    "nmn_keras.client.streams",
    "nmn_keras.analysis.page",
    "nmn_keras.analysis.statistics",
    "nmn_keras.analysis.training",
    "nmn_keras.analysis.learning",
    "nmn_keras.analysis.robustness",
    "nmn_keras.analysis.beyond",
    "nmn_keras.reproduce_command",
    "serve",
    "serve.__main__",
)


def test_what_only_plays_or_serves_loads_no_framework():
    script = """
import importlib, json, sys
found = {}
for name in sys.argv[1:]:
    importlib.import_module(name)
    heavy = {"keras", "tensorflow", "jax", "torch", "onnx", "matplotlib", "huggingface_hub"}
    found[name] = sorted(heavy & set(sys.modules))
print(json.dumps(found))
"""
    done = subprocess.run([sys.executable, "-c", script, *LIGHT], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {name: [] for name in LIGHT}


def test_every_name_can_be_had_and_a_wrong_one_lists_them():
    for name in nmn_keras.__all__:
        assert getattr(nmn_keras, name) is not None
    assert {"ActorCritic", "NMNDense", "zoo", "envs"} <= set(dir(nmn_keras))
    with pytest.raises(AttributeError, match=r"has no attribute 'Actor'; it has .*'ActorCritic'"):
        nmn_keras.Actor  # noqa: B018
