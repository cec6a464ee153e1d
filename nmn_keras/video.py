"""Pictures of an environment as a video file: mp4 by PyAV, gif by Pillow."""

import math
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

SUFFIXES = (".mp4", ".gif")


def check_path(path: str | Path) -> None:
    """Refuse a file that could not be written, before anything is played.

    Raises:
        ValueError: if its suffix is none of `SUFFIXES`.
        FileExistsError: if it exists.
        FileNotFoundError: if its folder does not.
        ModuleNotFoundError: if it is an mp4 and PyAV is not installed.
    """
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(f"A video is a file that ends in {' or '.join(SUFFIXES)}. Received: {path}")
    if path.exists():
        raise FileExistsError(f"{path} exists; nothing was written. Give another file.")
    if not path.absolute().parent.is_dir():
        raise FileNotFoundError(f"There is no folder for the video. Received: {path}")
    if path.suffix.lower() == ".mp4":
        _pyav()


def write(path: str | Path, frames: Iterable[NDArray[np.uint8]], fps: float) -> int:
    """Write a video, whole or not at all, and return its number of frames.

    Args:
        path: of the file; see `check_path`.
        frames: pictures `(height, width, 3)`, all of one size. An odd last row or column is repeated in an mp4, whose
            sides must be even.
        fps: pictures in a second; a gif counts in hundredths of a second.

    Raises:
        ValueError: if there is no frame.
    """
    path = Path(path)
    temporary = path.with_name(f"{path.stem}.part{path.suffix}")
    count = 0

    def counted():
        nonlocal count
        for frame in frames:
            count += 1
            yield np.ascontiguousarray(frame[..., :3], dtype=np.uint8)

    try:
        (_write_gif if path.suffix.lower() == ".gif" else _write_mp4)(temporary, counted(), fps)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return count


def _write_mp4(path, frames, fps):
    first = next(frames, None)
    if first is None:
        raise ValueError("A video needs a frame. Received: none")
    height, width = (math.ceil(side / 2) * 2 for side in first.shape[:2])
    av = _pyav()
    with av.open(str(path), "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=Fraction(fps).limit_denominator(1000))
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for frame in _with_first(first, frames):
            edges = [(0, height - frame.shape[0]), (0, width - frame.shape[1]), (0, 0)]
            picture = av.VideoFrame.from_ndarray(np.pad(frame, edges, mode="edge"), format="rgb24")
            container.mux(stream.encode(picture))
        container.mux(stream.encode(None))


def _write_gif(path, frames, fps):
    from PIL import Image

    first = next(frames, None)
    if first is None:
        raise ValueError("A video needs a frame. Received: none")
    others = (Image.fromarray(frame) for frame in frames)
    duration = max(20, 10 * round(100 / fps))  # browsers slow down what is faster
    Image.fromarray(first).save(path, "GIF", save_all=True, append_images=others, duration=duration, loop=0)


def _with_first(first, frames):
    yield first
    yield from frames


def _pyav():
    try:
        import av
    except ImportError as error:
        raise ModuleNotFoundError(
            "An mp4 needs PyAV, which is not installed: `pip install 'nmn_keras[play]'`; a gif needs nothing more."
        ) from error
    return av
