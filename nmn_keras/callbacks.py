"""Keras callbacks of `ActorCritic.fit`: one epoch is one update."""

import contextlib
import csv
import io
import json
import math
import signal
import subprocess
import threading
from pathlib import Path

import keras

import nmn_keras
from nmn_keras.checkpoint import ORIGIN, replace_json, replace_text

_SHOWN = (
    "episode_return",
    "episode_length",
    "reward",
    "discounted_return",
    "share",
    "kl",
    "val_discounted_return",
    "val_share",
)


class UpdateProgress(keras.callbacks.Callback):
    """Keras's progress bar over updates: what episodes gave first, once one has ended; then rewards and shares."""

    def __init__(self, updates, first=0):
        super().__init__()
        self.updates, self.first = updates, first

    def on_train_begin(self, logs=None):
        """Start the bar at the first update to come."""
        self.bar = _Bar(self.updates, unit_name="update", stateful_metrics=[*_SHOWN])
        self.bar.update(self.first)

    def on_epoch_end(self, epoch, logs=None):
        """Advance by one update."""
        known = [(name, logs[name]) for name in _SHOWN if name in logs]
        self.bar.update(epoch + 1, known)


class _Bar(keras.utils.Progbar):
    """A progress bar whose numbers keep their order, whichever is known first; the last one known stays."""

    def update(self, current, values=None, finalize=None):
        """Show the numbers of one update."""
        present: list[str] = getattr(self, "_values_order")  # noqa: B009  # Keras's, untyped
        names = {*present, *(name for name, _ in values or ())}
        self._values_order = [name for name in _SHOWN if name in names]
        super().update(current, values, finalize)


class RunCheckpoint(keras.callbacks.Callback):
    """Save the run when training begins, every `freq` updates and when it ends, so that it can be resumed."""

    def __init__(self, run_dir, freq):
        super().__init__()
        self.run_dir, self.freq = run_dir, freq

    def on_train_begin(self, logs=None):
        """Save what there is: a run that is killed or diverges at once can be resumed too."""
        self.model.save_run(self.run_dir)

    def on_epoch_end(self, epoch, logs=None):
        """Save if it is time to."""
        if (epoch + 1) % self.freq == 0:
            self.model.save_run(self.run_dir)

    def on_train_end(self, logs=None):
        """Save what was reached; a run that diverged does not come here and keeps its last good checkpoint."""
        self.model.save_run(self.run_dir)


class Origin(keras.callbacks.Callback):
    """Note in `origin.json` what made a run, and at which commit; a resumed run keeps its first note."""

    def __init__(self, run_dir, command):
        super().__init__()
        self.path, self.command = Path(run_dir) / ORIGIN, command

    def on_train_begin(self, logs=None):
        """Write it, unless it is there."""
        if not self.path.exists():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            replace_json(self.path, {"command": self.command, "commit": _commit()})


def _commit():
    """The checkout's commit, marked if files differ from it; "unknown" outside a checkout."""
    git = ["git", "-C", str(Path(__file__).parent)]
    try:
        commit = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
        changes = subprocess.run([*git, "status", "--porcelain", "--", "."], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return f"unknown (version {nmn_keras.__version__})"
    return commit.stdout.strip() + (" with changes" if changes.stdout else "")


class BestWeights(keras.callbacks.Callback):
    """Keep the weights of the best-validated update in `best.weights.h5`, its logs in `best.json`."""

    def __init__(self, run_dir, monitor="val_discounted_return"):
        super().__init__()
        self.monitor = monitor
        self.weights = Path(run_dir) / "best.weights.h5"
        self.record = Path(run_dir) / "best.json"

    def on_train_begin(self, logs=None):
        """Take up the record of a resumed run."""
        self.best = -math.inf
        if self.record.exists():
            self.best = json.loads(self.record.read_text())[self.monitor]

    def on_epoch_end(self, epoch, logs=None):
        """Save if this update was validated and is the best so far."""
        if logs.get(self.monitor, -math.inf) > self.best:
            self.best = logs[self.monitor]
            self.weights.parent.mkdir(parents=True, exist_ok=True)
            self.model.save_weights(self.weights)
            replace_json(self.record, {"update": epoch + 1, **logs})


class CurveLogger(keras.callbacks.Callback):
    """One row per update in `curves.csv`: the update, episodes so far, then every log.

    Unlike Keras's CSVLogger it drops the rows past the checkpoint that a run is resumed from.
    """

    def __init__(self, path):
        super().__init__()
        self.path = Path(path)

    def on_train_begin(self, logs=None):
        """Keep what a resumed run has logged up to where it goes on."""
        self.rows = []
        if self.path.exists():
            with self.path.open(newline="") as file:
                rows = list(csv.DictReader(file))
            self.rows = [row for row in rows if int(row["update"]) <= self.model.run.update]

    def on_epoch_end(self, epoch, logs=None):
        """Write all rows; a validation may add columns late."""
        episodes = (epoch + 1) * self.model.recipe.episodes_per_update
        self.rows.append({"update": epoch + 1, "episodes": episodes, **logs})
        names = list(dict.fromkeys(name for row in self.rows for name in row))
        table = io.StringIO()
        writer = csv.DictWriter(table, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        replace_text(self.path, table.getvalue())


def recording(run_dir, run, checkpoint_freq):
    """The callbacks by which a run fills its directory."""
    backend, made = keras.backend.backend(), "a factory" if run.env_id is None else repr(run.env_id)
    arguments = [made, f"seed={run.seed}", *([f"env_kwargs={run.env_kwargs}"] if run.env_kwargs else [])]
    return [
        Origin(run_dir, f"KERAS_BACKEND={backend}, in Python: ActorCritic.fit({', '.join(arguments)})"),
        BestWeights(run_dir),
        CurveLogger(Path(run_dir) / "curves.csv"),
        RunCheckpoint(run_dir, checkpoint_freq),
    ]


@contextlib.contextmanager
def deferred_interrupt():
    """Let a SIGINT wait until the present update is whole; a second one interrupts at once.

    Yields a function that tells whether one came. Outside the main thread signals cannot be handled: it never did.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    came = []
    previous = signal.getsignal(signal.SIGINT)

    def remember(signum, frame):
        came.append(signum)
        signal.signal(signal.SIGINT, previous)

    signal.signal(signal.SIGINT, remember)
    try:
        yield lambda: bool(came)
    finally:
        signal.signal(signal.SIGINT, previous)
