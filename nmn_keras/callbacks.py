"""Keras callbacks of `ActorCritic.fit`: one epoch is one update."""

import contextlib
import signal
import threading

import keras

_SHOWN = ("reward", "discounted_return", "share", "kl", "val_discounted_return", "val_share")


class UpdateProgress(keras.callbacks.Callback):
    """Keras's progress bar over updates, with return and, where it is known, share of the optimum."""

    def __init__(self, updates, first=0):
        super().__init__()
        self.updates, self.first = updates, first

    def on_train_begin(self, logs=None):
        """Start the bar at the first update to come."""
        self.bar = keras.utils.Progbar(
            self.updates, unit_name="update", stateful_metrics=[*_SHOWN]
        )
        self.bar.update(self.first)

    def on_epoch_end(self, epoch, logs=None):
        """Advance by one update."""
        shown = [(name, logs[name]) for name in _SHOWN if name in logs]
        self.bar.update(epoch + 1, shown)


class RunCheckpoint(keras.callbacks.Callback):
    """Save the run every `freq` updates and when training ends, so that it can be resumed."""

    def __init__(self, run_dir, freq):
        super().__init__()
        self.run_dir, self.freq = run_dir, freq

    def on_epoch_end(self, epoch, logs=None):
        """Save if it is time to."""
        if (epoch + 1) % self.freq == 0:
            self.model.save(self.run_dir)

    def on_train_end(self, logs=None):
        """Save what was reached; a run that diverged does not come here and keeps its last good checkpoint."""
        self.model.save(self.run_dir)


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
