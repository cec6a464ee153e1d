import csv
import json
import re
import signal

import keras
import numpy as np
import pytest
from tiny_agents import assert_identical, snapshot, tiny_agent

from nmn_keras import ActorCritic, checkpoint
from nmn_keras.callbacks import BestWeights, CurveLogger, UpdateProgress, deferred_interrupt


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


class At(keras.callbacks.Callback):
    """Does something when so many updates are done."""

    def __init__(self, update, action):
        super().__init__()
        self.update, self.action = update, action

    def on_epoch_end(self, epoch, logs=None):
        if epoch + 1 == self.update:
            self.action()


# Keras's own callbacks


def test_keras_callbacks_see_updates_as_epochs(fast_agent, tmp_path):
    begun, batches, learning_rates = [], [], []
    watch = keras.callbacks.LambdaCallback(
        on_epoch_begin=lambda epoch, logs: begun.append(epoch),
        on_train_batch_end=lambda batch, logs: batches.append(logs),
        on_epoch_end=lambda epoch, logs: learning_rates.append(float(np.asarray(fast_agent.optimizer.learning_rate))),
    )
    history = fast_agent.fit(
        "b1",
        verbose=0,
        callbacks=[
            keras.callbacks.ModelCheckpoint(tmp_path / "{epoch:02d}.weights.h5", save_weights_only=True),
            keras.callbacks.CSVLogger(tmp_path / "log.csv"),
            keras.callbacks.TerminateOnNaN(),
            watch,
        ],
    ).history
    assert begun == [0, 1, 2, 3] and len(batches) == 4
    assert [logs["reward"] for logs in batches] == history["reward"]
    assert learning_rates == pytest.approx(history["actor_learning_rate"])
    logged = rows(tmp_path / "log.csv")
    assert [row["epoch"] for row in logged] == ["0", "1", "2", "3"]
    for name, values in history.items():
        assert [float(row[name]) for row in logged] == pytest.approx(values)
    assert sorted(path.name for path in tmp_path.glob("*.h5")) == [f"0{i}.weights.h5" for i in (1, 2, 3, 4)]
    fresh = tiny_agent(seed=9)
    fresh.load_weights(tmp_path / "04.weights.h5")
    for ours, theirs in zip(fast_agent.get_weights(), fresh.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_one_callback_needs_no_list(fast_agent, tmp_path):
    fast_agent.fit("b1", verbose=0, callbacks=keras.callbacks.CSVLogger(tmp_path / "log.csv"))
    assert len(rows(tmp_path / "log.csv")) == 4


def test_early_stopping_stops_and_restores(fast_agent, resettable_fast):
    kept = {}
    history = fast_agent.fit("b1", verbose=0, callbacks=[At(1, lambda: kept.update(snapshot(fast_agent)))])
    worst = keras.callbacks.EarlyStopping("actor_learning_rate", mode="max", patience=2, restore_best_weights=True)
    agent = resettable_fast.reset()
    stopped = agent.fit("b1", verbose=0, callbacks=[worst])  # the rate only falls: the first update is the best
    assert len(history.epoch) == 4 and stopped.epoch == [0, 1, 2]
    for variable in agent.trainable_variables:
        np.testing.assert_array_equal(np.asarray(variable), kept[variable.path])


def test_tensorboard(fast_agent, tmp_path):
    pytest.importorskip("tensorboard")
    fast_agent.fit("b1", verbose=0, callbacks=[keras.callbacks.TensorBoard(tmp_path)])
    content = b"".join(path.read_bytes() for path in tmp_path.rglob("events.out.*"))
    for name in (b"epoch_discounted_return", b"epoch_kl", b"epoch_share"):
        assert name in content


# What is printed


def test_verbosity(fast_agent, resettable_fast, capfd):
    history = fast_agent.fit("b1", verbose=0).history
    assert capfd.readouterr().out == ""
    resettable_fast.reset().fit("b1")
    bar = capfd.readouterr().out
    assert "4/4" in bar and "/update" in bar
    for name in ("discounted_return", "share", "reward", "kl"):
        shown = [float(text) for text in re.findall(rf" {name}: ([-+.e\d]+)", bar)]
        assert shown[-1] == pytest.approx(history[name][-1], rel=1e-3)  # of the last update, not a mean
    resettable_fast.reset().fit("b1", verbose=2)
    lines = capfd.readouterr().out.splitlines()
    assert lines[::2] == [f"Epoch {i}/4" for i in (1, 2, 3, 4)]
    assert all("share: " in line for line in lines[1::2])


def test_the_bar_of_a_resumed_run_starts_where_it_goes_on(fast_agent, capfd):
    fast_agent.fit("b1", verbose=0, callbacks=[At(3, lambda: setattr(fast_agent, "stop_training", True))])
    fast_agent.fit(resume=True, verbose=1)
    assert re.findall(r"(\d)/4", capfd.readouterr().out) == ["3", "4"]


# Ours


def test_checkpoints_come_at_the_start_when_due_and_at_the_end(fast_agent, tmp_path):
    seen = []

    class Look(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            seen.append(checkpoint.read(tmp_path)[1]["update"])

    fast_agent.fit("b1", verbose=0, run_dir=tmp_path, checkpoint_freq=3, callbacks=[Look()])
    assert seen == [0, 0, 0, 3]
    assert_identical(snapshot(ActorCritic.load(tmp_path)), snapshot(fast_agent))


def test_an_interrupt_waits_for_the_update_and_leaves_a_resumable_run(fast_agent, resettable_fast, tmp_path):
    fast_agent.fit("b1", verbose=0)
    whole = snapshot(fast_agent)
    agent, ended = resettable_fast.reset(), []

    class InMidUpdate(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            if self.model.run.update == 1:
                signal.raise_signal(signal.SIGINT)

        def on_epoch_end(self, epoch, logs=None):
            ended.append(epoch)

    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        agent.fit("b1", verbose=0, run_dir=tmp_path, callbacks=[InMidUpdate()])
    assert ended == [0, 1] and signal.getsignal(signal.SIGINT) is handler
    assert checkpoint.read(tmp_path)[1]["update"] == 2
    agent.fit(resume=True, verbose=0, run_dir=tmp_path)
    assert_identical(whole, snapshot(agent))


def test_a_second_interrupt_does_not_wait():
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), deferred_interrupt() as interrupted:
        assert not interrupted()
        signal.raise_signal(signal.SIGINT)
        assert interrupted()
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is handler


def test_best_weights_are_of_the_best_validation_even_across_a_pause(tmp_path):
    agent = tiny_agent()

    def update(epoch, score, weight):
        agent.set_weights([np.full_like(w, weight) for w in agent.get_weights()])
        best.on_epoch_end(epoch, {"reward": 0.0} | ({} if score is None else {"val_discounted_return": score}))

    for epochs in ([(0, None, 1), (1, -5.0, 2), (2, 4.0, 3), (3, 3.0, 4)], [(4, 3.5, 5), (5, None, 6)]):
        best = BestWeights(tmp_path)
        best.set_model(agent)
        best.on_train_begin()
        for epoch, score, weight in epochs:
            update(epoch, score, weight)
    record = json.loads((tmp_path / "best.json").read_text())
    assert record == {"update": 3, "reward": 0.0, "val_discounted_return": 4.0}
    agent.load_weights(tmp_path / "best.weights.h5")
    assert all((w == 3).all() for w in agent.get_weights())


def test_the_curve_has_one_row_per_update_though_a_run_goes_back(fast_agent, tmp_path):
    """The run logged three updates and goes on from the checkpoint of the second."""
    run, path = tmp_path / "run", tmp_path / "curves.csv"
    save = At(2, lambda: fast_agent.save(run))
    history = fast_agent.fit("b1", episodes=12, verbose=0, callbacks=[CurveLogger(path), save]).history
    before = rows(path)
    assert [(row["update"], row["episodes"]) for row in before] == [("1", "4"), ("2", "8"), ("3", "12")]
    assert [float(row["kl"]) for row in before] == history["kl"]
    logger = CurveLogger(path)
    logger.set_model(ActorCritic.load(run))
    logger.on_train_begin()
    logger.on_epoch_end(2, {"reward": 7.0})
    logger.on_epoch_end(3, {"reward": 8.0, "val_return": 1.0})
    after = rows(path)
    assert after[:2] == [row | {"val_return": ""} for row in before[:2]]
    assert [(row["update"], row["reward"], row["val_return"]) for row in after[2:]] == [
        ("3", "7.0", ""),
        ("4", "8.0", "1.0"),
    ]


def test_the_bar_begins_with_what_episodes_gave_once_one_has_ended(capsys):
    bar = UpdateProgress(3)
    bar.on_train_begin()
    bar.bar.interval = 0.0  # show every update
    for epoch, known in enumerate(({}, {"episode_return": -77.0, "episode_length": 78.0}, {})):
        bar.on_epoch_end(epoch, {"kl": 0.5, **known, "reward": -1.0})
    first, _, last = re.findall(
        r"(?m)\S+: [-\d.]+.*$", capsys.readouterr().out.replace("\r", "\n").replace("\x08", "")
    )[-3:]
    assert "episode" not in first and first.index("reward") < first.index("kl")
    words = re.findall(r"(\w+): (-?[\d.e+-]+)", last)
    assert [name for name, _ in words] == ["episode_return", "episode_length", "reward", "kl"]
    assert float(words[0][1]) == -77.0  # the last one known


def test_episodes_that_ended_are_logged_where_any_did(fast_agent, tmp_path):
    history = fast_agent.fit("b1", episodes=4, env_kwargs={"max_episode_steps": 10}, verbose=0).history
    assert history["episode_length"] == [10.0]
    assert history["episode_return"] == pytest.approx(np.array(history["return"]) / 2, rel=1e-5)
    assert "episode_return" not in fast_agent.fit("b1", episodes=4, verbose=0, run_dir=tmp_path / "run").history
    assert "episode_return" not in rows(tmp_path / "run" / "curves.csv")[0]
