"""Write each array of a golden.npz as plain float32, which C++ reads without a library: unpack_golden.py NPZ FOLDER."""

import sys
from pathlib import Path

import numpy as np

folder = Path(sys.argv[2])
folder.mkdir(parents=True, exist_ok=True)
for name, values in np.load(sys.argv[1]).items():
    (folder / f"{name}.f32").write_bytes(values.astype("<f4").tobytes())
