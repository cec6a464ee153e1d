"""`ActorCritic`: a recurrent agent with Keras's verbs; one epoch of `fit` is one update."""

import contextlib
import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import keras
import numpy as np
from gymnasium.vector import VectorEnv
from keras import ops

from nmn_keras import callbacks as nmn_callbacks
from nmn_keras import checkpoint, defaults, envs, presets, recipes, rollout, spaces
from nmn_keras.agent_model import ARCHIVE, AgentModel, refuse_data
from nmn_keras.architecture import Architecture
from nmn_keras.evaluation import VALIDATION_SEED, benchmark_of, evaluate
from nmn_keras.networks import build_network
from nmn_keras.optimizers import Optimizers, optimizer_config, optimizer_from_config
from nmn_keras.run import Run, environment_identity
from nmn_keras.updates import backend_module
from nmn_keras.updates.batch import trained_steps


class TrainingDiverged(RuntimeError):
    """A loss became infinite or not a number."""


@keras.saving.register_keras_serializable("nmn_keras")
class ActorCritic(AgentModel):
    """A recurrent actor and critic that share nothing, trained and stepped with explicit memory.

    ```python
    agent = ActorCritic.from_preset("b1-nmn")
    agent.compile()
    history = agent.fit("b1")
    agent.evaluate("b1", episodes=1000)
    ```

    Args:
        architecture: an `Architecture`.
        recipe: "fast", "paper", or a recipe instance.
        seed: integer from which the initial weights follow, and by default everything drawn in training.
    """

    def __init__(self, architecture: Architecture, recipe="fast", seed: int = 0, **kwargs):
        super().__init__(**kwargs)
        if not isinstance(architecture, Architecture):
            raise TypeError(
                "`architecture` must be a nmn_keras.Architecture (`Architecture.for_env` derives one from an "
                f"environment). Received: {architecture!r}"
            )
        self.architecture = architecture
        self.recipe = recipes.get(recipe)
        if self.recipe.noise_color and not architecture.head.coloured:
            raise ValueError(
                "Noise that is correlated in time is for real actions: `noise_color` of a recipe for the head "
                f"{architecture.action_head!r} must be 0. Received: {self.recipe.noise_color}"
            )
        self.seed = _check_integer("seed", seed, 0)
        actor_seed, critic_seed = np.random.SeedSequence(seed).generate_state(2).tolist()
        self.actor = build_network(architecture, architecture.policy_units, actor_seed, name="actor")
        self.critic = build_network(architecture, 1, critic_seed, name="critic")
        self.run = Run()
        self.optimizers: Any = ()  # an `Optimizers` once compiled
        self.built = True

    @classmethod
    def from_preset(cls, name: str, recipe="fast", seed: int = 0) -> "ActorCritic":
        """An agent of the paper's architecture with fresh weights.

        Args:
            name: one of `nmn_keras.presets.ARCHITECTURES`, such as "b1-nmn".
            recipe: "fast", "paper", or a recipe instance; a fast recipe changes the architecture, see
                `nmn_keras.presets.FAST`.
            seed: see the class.

        Raises:
            ValueError: if no preset has that name.
        """
        architecture, recipe = presets.get(name, recipe)
        return cls(architecture, recipe, seed, name=name.replace("-", "_"))

    @classmethod
    def for_env(
        cls,
        env,
        kind: str = "nmn",
        *,
        env_kwargs: dict | None = None,
        seed: int = 0,
        architecture: dict | None = None,
        recipe: dict | None = None,
    ) -> "ActorCritic":
        """An agent for any environment, with the defaults that follow from it; see `nmn_keras.defaults.derive`.

        Args:
            env: short name, Gymnasium id, spec, environment with a spec, vector environment, or factory.
            kind: "nmn", "rnn", "film" or "hyper".
            env_kwargs: arguments of the environment.
            seed: see the class.
            architecture: fields of `Architecture` to use instead of the defaults.
            recipe: fields of `FastRecipe` to use instead of the defaults.

        Raises:
            ValueError: if a space is not supported, or a field does not fit.
        """
        derived = defaults.derive(env, kind, env_kwargs, architecture, recipe)
        return cls(derived.architecture, derived.recipe, seed)

    # Training

    def compile(self, actor_optimizer=None, critic_optimizer=None, **others):
        """Set the optimisers and compile the update.

        Args:
            actor_optimizer: a Keras optimiser whose learning rate replaces the recipe's first one; None = Adam with
                the recipe's constants. A recipe adapts the rate itself, so a schedule is refused.
            critic_optimizer: the same for the critic.
            **others: refused: an agent's losses are its recipe's.
        """
        if others:
            raise TypeError(
                "An agent has two optimisers, and its losses are its recipe's. Accepted are `actor_optimizer` and "
                f"`critic_optimizer`. Received: {', '.join(others)}"
            )
        if actor_optimizer is critic_optimizer and isinstance(actor_optimizer, keras.optimizers.Optimizer):
            raise ValueError(
                "Actor and critic need an optimiser each: its moments belong to one network. "
                f"Received: {actor_optimizer.name!r} twice"
            )
        self._compile(
            Optimizers(self._optimizer(actor_optimizer, "actor"), self._optimizer(critic_optimizer, "critic"))
        )

    def _compile(self, optimizers):
        self.optimizers = optimizers
        self.optimizers.actor.build(self.actor.trainable_variables)
        self.optimizers.critic.build(self.critic.trainable_variables)
        self.optimizer = self.optimizers.actor  # callbacks read its learning rate
        self._update = backend_module().compile_update(
            self.actor, self.critic, self.optimizers.actor, self.optimizers.critic, self.recipe
        )
        self._policy = backend_module().compile_method(self.actor, self._policy_step)
        self.compiled = True

    def fit(
        self,
        env=None,
        episodes: int | None = None,
        *,
        seed: int | None = None,
        callbacks=None,
        verbose="auto",
        resume: bool = False,
        run_dir=None,
        checkpoint_freq: int = 20,
        validation_episodes: int = 0,
        validation_freq: int = 20,
        env_kwargs: dict | None = None,
    ):
        """Train; one epoch of the callbacks is one update.

        Args:
            env: short name, Gymnasium id, spec, environment with a spec, vector environment (of as many environments
                as the recipe plays episodes in an update; any autoreset mode; it stays open), or factory; with `resume`
                the run's own unless it has no id.
            episodes: episodes in all, rounded up to whole updates; None = the recipe's, with `resume` the run's. A
                resumed run that has played as many ends.
            seed: of everything drawn; None = the constructor's. With `resume` the run's own.
            callbacks: Keras callbacks; the learning rates are the recipe's, whatever a callback sets.
            verbose: 0 silent, 1 or "auto" Keras's progress bar, 2 a line per update.
            resume: continue the run this agent is in, bit for bit as if it had never stopped.
            run_dir: directory for checkpoints, learning curve and best-validated weights, from which `nmn publish`
                makes a zoo entry; must not hold anything unless `resume`.
            checkpoint_freq: updates from one checkpoint to the next.
            validation_episodes: full episodes played with the deterministic action every `validation_freq` updates
                and after the last; their scores are logged as `val_...`.
            validation_freq: updates from one validation to the next.
            env_kwargs: arguments of the environment.

        Returns:
            Keras's `History`.

        Raises:
            ValueError, TypeError: for an environment or arguments that do not fit, before anything is written.
            FileExistsError: if `run_dir` is in use.
            TrainingDiverged: if a loss is not finite; the last checkpoint stays as it was.
            EnvironmentFailed: if the environment raises; what was reached before is kept, in `run_dir` too.
            KeyboardInterrupt: after a SIGINT, once the present update is whole and the checkpoint written.
        """
        options = {name: value for name, value in locals().items() if name != "self"}
        with nmn_callbacks.deferred_interrupt() as interrupted:
            with contextlib.closing(self.fitting(interrupted, **options)) as loop:
                due = next(loop)
                while due is not None:
                    vector, steps = due
                    due = loop.send(self._one_update(vector, steps, run_dir))
            if interrupted():
                raise KeyboardInterrupt
        return self.history

    def fitting(
        self,
        interrupted,
        env,
        episodes,
        seed,
        callbacks,
        verbose,
        resume,
        run_dir,
        checkpoint_freq,
        validation_episodes,
        validation_freq,
        env_kwargs,
    ):
        """`fit` without its updates, a generator: whoever drives it may do those of several agents together.

        It yields the vector environment and the steps to play for each update, is sent the update's logs, and yields
        None when there is nothing more to do. Its arguments are those of `fit`, and a function `interrupted` that
        says whether to stop.
        """
        if not self.compiled:
            self.compile()
        _check_integer("checkpoint_freq", checkpoint_freq, 1)
        _check_integer("validation_freq", validation_freq, 1)
        _check_integer("validation_episodes", validation_episodes, 0)
        if any(isinstance(callback, keras.callbacks.BackupAndRestore) for callback in keras.tree.flatten(callbacks)):
            raise ValueError(
                "BackupAndRestore brings back weights alone, not the run. Accepted are `run_dir=...` and, later, "
                "`ActorCritic.load(run_dir)` with `resume=True`, which go on bit for bit. Received: BackupAndRestore"
            )
        env, run = self._begin(env, episodes, seed, resume, env_kwargs or {})
        if run_dir is not None:
            self._check_run_dir(run_dir, run, resume)
        with envs.open_vec(env, self.recipe.episodes_per_update, **_arguments(env, run)) as vector:
            self._check_number(vector)
            self.check_env(vector)
            steps = self._rollout_steps(vector)
            trained_steps(self.recipe, steps)
            self.run = run
            callback_list = self._callbacks(callbacks, verbose, run_dir, checkpoint_freq)
            validate = (validation_episodes, validation_freq, env)
            yield from self._train(vector, steps, callback_list, validate, interrupted)
            yield None

    def train_step(self, played: rollout.Rollout) -> dict[str, float]:
        """One update from one rollout: actor, critic, then the recipe's adaptation.

        Returns:
            Scalars: losses, KL divergence, rates.

        Raises:
            TrainingDiverged: if a loss is not finite.
        """
        plan = self.plan_update(*played.reward.shape)
        logs = self.end_update(*self._update(played.arrays(), self.run.buffer, *plan))
        self._observe(played)
        return logs

    def _observe(self, played):
        """Take a rollout into the statistics: between updates, so that one is played and learnt from under the same."""
        a, run = self.architecture, self.run
        if not (a.normalise_observations or a.normalise_rewards):
            return
        run.statistics = run.statistics.merge(played.observation, played.reward, played.ended, self.recipe.discount)
        for network in (self.actor, self.critic):
            network.assume(run.statistics)

    def plan_update(self, steps, episodes):
        """Set the rates of the next update; its minibatches and the recipe's adapted numbers."""
        run, recipe = self.run, self.recipe
        rates = recipe.learning_rates(run.coefficients, run.update / max(run.updates, 1))
        self.optimizers.actor.learning_rate, self.optimizers.critic.learning_rate = rates
        segments = trained_steps(recipe, steps) // recipe.segment_steps * episodes
        generator = np.random.default_rng([run.seed, run.update, 1])
        minibatches = recipe.minibatches(generator, segments, segments * (len(run.buffer) + 1))
        return minibatches, {name: np.float32(value) for name, value in run.coefficients.items()}

    def end_update(self, batch, logs):
        """Take in what an update gave: the critic's batch and its logs, to which the rates are added."""
        run, recipe = self.run, self.recipe
        logs = {name: float(value) for name, value in logs.items()}
        self._check_finite(logs)
        keep = recipe.critic_batches - 1
        run.buffer = [*run.buffer, batch][-keep:] if keep else []
        rate = recipe.learning_rates(run.coefficients, run.update / max(run.updates, 1))[0]
        run.coefficients = recipe.adapt(run.coefficients, logs["kl"])
        run.update += 1
        return {**logs, **run.coefficients, "actor_learning_rate": rate}

    def _optimizer(self, optimizer, role):
        field = f"{role}_learning_rate"
        if optimizer is None:
            return keras.optimizers.Adam(
                getattr(self.recipe, field), epsilon=1e-8, global_clipnorm=self.recipe.gradient_norm
            )
        optimizer = keras.optimizers.get(optimizer)
        rate = float(np.asarray(optimizer.learning_rate))
        try:
            optimizer.learning_rate = rate
        except TypeError as error:
            raise ValueError(
                f"The recipe adapts the {role}'s learning rate, so `{role}_optimizer` needs a number for it, not a "
                f"schedule. Received: {optimizer.get_config()['learning_rate']!r}"
            ) from error
        changed: dict[str, Any] = {field: rate}
        self.recipe = dataclasses.replace(self.recipe, **changed)
        return optimizer

    def _begin(self, env, episodes, seed, resume, env_kwargs):
        """The environment to make and the `Run` to begin or to go on with; nothing changes before all is checked."""
        refuse_data(env)
        if resume:
            if not self.run.updates:
                raise ValueError(
                    "There is no run to resume: `resume=True` needs an agent that `ActorCritic.load` read from a "
                    "run directory, or one that `fit` has trained. Call `fit` without it to start one."
                )
            self._check_resumed(env, env_kwargs)
            env = self.run.env_id if env is None else env
            updates = self.run.updates if episodes is None else max(self._updates(episodes), self.run.update)
            run = dataclasses.replace(self.run, updates=updates)
        else:
            if env_kwargs and isinstance(env, VectorEnv):
                raise TypeError(f"A vector environment takes no arguments. Received: env_kwargs={env_kwargs!r}")
            env_id, env_kwargs = environment_identity(env, env_kwargs)
            seed = self.seed if seed is None else _check_integer("seed", seed, 0)
            updates = self._updates(self.recipe.episodes if episodes is None else episodes)
            run = Run(env_id, env_kwargs, seed, updates, 0, self.recipe.coefficients())
        if env is None:
            raise ValueError(
                f"`env` is missing: a short name ({', '.join(envs.BENCHMARKS)}), a Gymnasium id, a spec, an "
                "environment or a factory. Received: env=None"
            )
        return env, run

    def _check_resumed(self, env, env_kwargs):
        """Refuse to go on with another environment than the run's, where both can be told."""
        own = {"env_id": self.run.env_id, "env_kwargs": self.run.env_kwargs}
        if env is None or isinstance(env, str):
            env, env_kwargs = env or self.run.env_id, env_kwargs or self.run.env_kwargs
        env_id, env_kwargs = environment_identity(env, env_kwargs)
        given = {"env_id": env_id, "env_kwargs": env_kwargs}
        same = json.dumps(given, sort_keys=True) == json.dumps(own, sort_keys=True)  # a loaded run has lists for tuples
        if None not in (env_id, self.run.env_id) and not same:
            raise ValueError(
                f"A run goes on with its own environment, which need not be given again. Accepted is {own}. "
                f"Received: {given}"
            )

    def _updates(self, episodes):
        return math.ceil(_check_integer("episodes", episodes, 1) / self.recipe.episodes_per_update)

    def _check_run_dir(self, run_dir, run, resume):
        """Let a run write only into an empty directory or, when it goes on, into its own."""
        if not (resume and checkpoint.exists(run_dir)):
            checkpoint.refuse_existing(run_dir)
            return
        config, state, *_ = checkpoint.read(run_dir)
        self._check_alike(config, run_dir)
        own = {"env_id": run.env_id, "env_kwargs": run.env_kwargs, "seed": run.seed}
        _check_same({key: state[key] for key in own}, own, "run", run_dir)

    def _check_number(self, vector):
        if vector.num_envs != self.recipe.episodes_per_update:
            raise ValueError(
                "A vector environment needs as many environments as the recipe plays episodes in an update "
                f"(`episodes_per_update`), {self.recipe.episodes_per_update}. Received: {vector.num_envs}"
            )

    def _rollout_steps(self, vector):
        spec = vector.spec
        limit = spec and spec.kwargs.get("max_episode_steps", spec.max_episode_steps)
        steps = self.recipe.rollout_steps or limit
        if not steps:
            raise ValueError(
                "The environment has no episode length (`max_episode_steps` of its spec), so the recipe needs "
                f"`rollout_steps`. Received: {self.recipe}"
            )
        return steps

    def _callbacks(self, callbacks, verbose, run_dir, checkpoint_freq):
        chosen = [] if callbacks is None else keras.tree.flatten(callbacks)
        if run_dir is not None:
            chosen += nmn_callbacks.recording(run_dir, self.run, checkpoint_freq)
        if verbose in (1, "auto"):
            chosen.append(nmn_callbacks.UpdateProgress(self.run.updates, self.run.update))
        return keras.callbacks.CallbackList(
            chosen,
            add_history=True,
            add_progbar=verbose == 2,
            verbose=2,
            epochs=self.run.updates,
            steps=1,
            model=self,
        )

    def _train(self, vector, steps, callback_list, validate, interrupted):
        self.stop_training = False
        callback_list.on_train_begin()
        while self.run.update < self.run.updates and not (self.stop_training or interrupted()):
            epoch = self.run.update
            callback_list.on_epoch_begin(epoch)
            callback_list.on_train_batch_begin(0)
            logs = yield vector, steps
            callback_list.on_train_batch_end(0, logs)
            callback_list.on_epoch_end(epoch, logs | self._validation(*validate))
        callback_list.on_train_end()

    def benchmark(self):
        """The benchmark that the run trains on, or None."""
        return benchmark_of(self.run.env_id, self.run.env_kwargs)

    def _one_update(self, vector, steps, run_dir=None):
        a, seed = self.architecture, [self.run.seed, self.run.update]
        if (a.normalise_observations or a.normalise_rewards) and not self.run.statistics.observation.count:
            self._observe(self._play(vector, steps, np.random.default_rng([*seed, 2]), run_dir))
        played = self._play(vector, steps, np.random.default_rng(seed), run_dir)
        return self._summary(played) | self.train_step(played)

    def _play(self, vector, steps, generator, run_dir):
        try:
            return rollout.play(
                vector,
                lambda *inputs: [np.asarray(x) for x in self._policy(*inputs)],
                self.architecture,
                steps,
                self.recipe,
                generator,
            )
        except FloatingPointError as error:
            raise self._diverged(error) from error
        except Exception as error:  # of the environment; nothing has changed since the last update
            if run_dir is not None:
                self.save_run(run_dir)
            raise self._failed(error, vector, run_dir) from error.__cause__

    def _summary(self, played):
        # The optimum is known of an episode's first steps, not of several episodes in a row.
        benchmark = None if played.ended[:-1].any() else self.benchmark()
        episodes = rollout.episode_summary(played.reward, played.ended)
        return episodes | rollout.summary(played.reward, played.policy, self.architecture.head, benchmark)

    def _failed(self, error, vector, run_dir):
        """An error that the environment made in a rollout, with where the run stands."""
        again = (
            "fit(..., resume=True)"
            if run_dir is None
            else f"ActorCritic.load({str(run_dir)!r}), then `fit`, resume=True"
        )
        note = (
            f"In update {self.run.update + 1} of {self.run.updates}, of {vector.num_envs} environments. Nothing of the "
            f"{self.run.update} updates before is lost: the run goes on by {again}."
        )
        if not isinstance(error, envs.EnvironmentFailed):
            error.add_note(note)
            return error
        failed = envs.EnvironmentFailed(f"{error}\n{note}")
        failed.step, failed.environment = error.step, error.environment
        return failed

    def _validation(self, episodes, freq, env):
        due = self.run.update % freq == 0 or self.run.update == self.run.updates
        if not (episodes and due):
            return {}
        scores = evaluate(self, env, episodes, seed=VALIDATION_SEED, env_kwargs=_arguments(env, self.run))
        shown = ("return", "discounted_return", "share")
        return {f"val_{name}": scores[name] for name in shown if name in scores}

    def _check_finite(self, logs):
        bad = {name: value for name, value in logs.items() if not math.isfinite(value)}
        weights = {variable.path: np.asarray(variable) for variable in self.trainable_variables}
        bad |= {path: "not finite" for path, value in weights.items() if not np.isfinite(value).all()}
        if bad:
            raise self._diverged(bad)

    def _diverged(self, what):
        return TrainingDiverged(
            f"Training diverged in update {self.run.update + 1} of {self.run.updates}: {what} (all losses, weights and "
            "actions must be finite). The weights in memory are spoilt; the last checkpoint is not. Lower the learning "
            "rates or clip gradients (`gradient_norm`)."
        )

    # Acting

    def initial_state(self, batch_size: int) -> np.ndarray:
        """Empty memory: zeros `(N, S)`."""
        return np.zeros((batch_size, self.architecture.state_size), "float32")

    def step(self, observation, prev_action, prev_reward, state) -> dict[str, np.ndarray]:
        """One step of the actor; the ONNX contract's outputs under the contract's names.

        Args:
            observation: `(N, O)`.
            prev_action: `(N, A)`, the action really played at the last step, environment units; zeros at the start.
            prev_reward: `(N, 1)`, zeros at the start.
            state: `(N, S)`, zeros at the start.

        Returns:
            `action` (deterministic, environment units), the policy (`action_mean` and `action_log_std`, network units,
            or `logits`), for an NMN `z`, and `state_out`.

        Raises:
            ValueError: if an input has another shape.
        """
        inputs = self._check_shapes(
            observation=observation, prev_action=prev_action, prev_reward=prev_reward, state=state
        )
        outputs = self._compiled_contract()(*inputs)
        return {name: np.asarray(ops.convert_to_numpy(x)) for name, x in outputs.items()}

    def act(self, observation, prev_action, prev_reward, state, *, rng=None):
        """Action in environment units `(N, A)` and the memory after the step `(N, S)`.

        Args:
            observation: `(N, O)`.
            prev_action: `(N, A)`, the action really played at the last step; zeros at the start.
            prev_reward: `(N, 1)`, zeros at the start.
            state: `(N, S)`, zeros at the start.
            rng: numpy generator to sample the action with; None = the deterministic action.
        """
        outputs = self.step(observation, prev_action, prev_reward, state)
        action = outputs["action"] if rng is None else self.sample(outputs, rng)
        return action, outputs["state_out"]

    def sample(self, outputs, rng) -> np.ndarray:
        """Draw actions `(N, A)`, environment units, inside the action space.

        Args:
            outputs: of `step`.
            rng: numpy generator.
        """
        head = self.architecture.head
        policy = head.packed(outputs)
        return self.architecture.to_environment(head.sample(policy, head.noise(rng, policy.shape[:-1])))

    def evaluate(self, env=None, episodes: int = 1000, deterministic: bool = True, **kwargs):
        """Scores on full test episodes; see `nmn_keras.evaluation.evaluate`. `env=None` is the training one."""
        refuse_data(env)
        if env is None:
            env, kwargs = self.run.env_id, {"env_kwargs": self.run.env_kwargs, **kwargs}
        return evaluate(self, env, episodes, deterministic, **kwargs)

    def contract_outputs(self, observation, prev_action, prev_reward, state):
        """The graph behind `step` and `policy.onnx`, in `keras.ops`."""
        output, signal, state = self.actor.step(observation, prev_action, prev_reward, state)
        head = self.architecture.head
        outputs = {**head.contract_outputs(head.policy(output)), "z": signal, "state_out": state}
        return {name: x for name, x in outputs.items() if x is not None}

    def _check_shapes(self, **inputs):
        """The inputs of a step as float32 arrays."""
        a = self.architecture
        arrays = [np.asarray(x, "float32") for x in inputs.values()]
        sizes = (a.observation_size, a.action_size, 1, a.state_size)
        for name, array, size in zip(inputs, arrays, sizes, strict=True):
            if array.shape != (*arrays[0].shape[:1], size):
                raise ValueError(
                    f"`{name}` does not fit the agent: it must have shape (N, {size}), with one N for all inputs. "
                    f"Received: shape {array.shape}, observation of shape {arrays[0].shape}"
                )
        return arrays

    def _compiled_contract(self):
        if not hasattr(self, "_contract"):
            self._contract = backend_module().compile_method(self.actor, self.contract_outputs)
        return self._contract

    def _policy_step(self, observation, prev_action, prev_reward, state):
        output, state = self.actor(observation, prev_action, prev_reward, state)
        return self.architecture.head.policy(output), state

    def check_env(self, env) -> None:
        """Raise `ValueError` unless an environment's spaces are those of the architecture."""
        a = self.architecture
        spaces.describe(env).check_fit(a.observation_size, a.action_size, a.action_sizes, a.bounds())

    # Saving

    def save(self, filepath, overwrite: bool = True, zipped: bool | None = None):
        """Write weights and everything that `fit(resume=True)` needs: a run directory or a Keras archive.

        Args:
            filepath: a directory, or a file that ends in ".keras", which `keras.saving.load_model` reads too.
            overwrite: whether what is already there may be replaced.
            zipped: as in Keras; None = whether the name ends in ".keras".

        Raises:
            FileExistsError: if it must not be replaced; nothing is written.
            ValueError: for a name or `zipped` of Keras's that has no meaning here.
        """
        name = str(filepath)
        if zipped not in (None, name.endswith(ARCHIVE)) or name.endswith((".h5", ".hdf5", ".onnx")) or "://" in name:
            raise ValueError(
                "An agent is saved in a directory, or in an archive whose name ends in '.keras'. `save_weights` writes "
                "'.weights.h5', `export(format='onnx')` '.onnx', `nmn push` sends a published agent to the Hub. "
                f"Received: filepath={name!r}, zipped={zipped}"
            )
        if name.endswith(ARCHIVE):
            self.save_archive(filepath, overwrite)
            return
        if not overwrite:
            checkpoint.refuse_existing(filepath)
        self.save_run(filepath)

    def save_run(self, directory) -> None:
        """Write a run directory, whatever its name."""
        checkpoint.write(directory, self.get_config(), *self._training_state())

    @classmethod
    def load(cls, filepath) -> "ActorCritic":
        """Read a run directory or an archive that `save` or `fit(run_dir=...)` wrote.

        Raises:
            ValueError: if there is no whole checkpoint: a file missing, truncated or altered.
        """
        if str(filepath).endswith(ARCHIVE) and not Path(filepath).is_dir():
            return keras.saving.load_model(filepath, custom_objects={cls.__name__: cls})
        config, *_ = checkpoint.read(filepath)
        agent = cls.from_config(config)
        agent.restore(filepath)
        return agent

    @classmethod
    def load_published(cls, directory) -> "ActorCritic":
        """Read a zoo entry's `config.json` and `agent.weights.h5`; `nmn_keras.zoo.load` checks their hashes first."""
        config = json.loads((Path(directory) / "config.json").read_text())
        agent = cls.from_config(config)
        agent.load_weights(Path(directory) / "agent.weights.h5")
        agent.run.env_id, agent.run.env_kwargs = config["env_id"], config["env_kwargs"]
        return agent

    def restore(self, filepath) -> None:
        """Read a run directory into this agent.

        Raises:
            ValueError: if it holds another architecture or recipe, or no whole checkpoint.
        """
        config, state, weights, arrays = checkpoint.read(filepath)
        self._check_alike(config, filepath)
        self._restore_optimizers(config["optimizers"])
        self.load_weights(weights)
        self._restore_run(state, arrays)

    def _check_alike(self, config, filepath):
        # Read and written again: fields that a directory was written without have their defaults.
        architecture = Architecture.from_config(config["architecture"]).get_config()
        _check_same(architecture, self.architecture.get_config(), "architecture", filepath)
        recipe = recipes.to_config(recipes.from_config(config["recipe"]))
        _check_same(recipe, recipes.to_config(self.recipe), "recipe", filepath)

    def get_config(self) -> dict:
        """Architecture, recipe, seed and optimisers, as JSON holds them."""
        config = {
            "architecture": self.architecture.get_config(),
            "recipe": recipes.to_config(self.recipe),
            "seed": self.seed,
            "name": self.name,
            "optimizers": self._optimizer_configs() if self.compiled else None,
        }
        return json.loads(json.dumps(config))

    def _optimizer_configs(self):
        """The optimisers as the run began; the rates that it has adapted since are training state."""
        rates = (getattr(self.recipe, f"{role}_learning_rate") for role in Optimizers._fields)
        return [optimizer_config(o, rate) for o, rate in zip(self.optimizers, rates, strict=True)]

    @classmethod
    def from_config(cls, config: dict) -> "ActorCritic":
        """The inverse of `get_config`; weights are fresh."""
        return cls(
            Architecture.from_config(config["architecture"]),
            recipes.from_config(config["recipe"]),
            config["seed"],
            name=config["name"],
        )

    def _training_state(self):
        """What `checkpoint.write` takes beside the configuration."""
        arrays = self.run.arrays()
        for role, optimizer in zip(Optimizers._fields, self.optimizers, strict=False):
            arrays |= {f"{role}/{i}": v for i, v in enumerate(optimizer.variables)}
        return self.run.state(), self.save_weights, {k: np.asarray(v) for k, v in arrays.items()}

    def _restore_optimizers(self, configs):
        """Compile as the run was, unless this agent is; the recipe has the rates of its optimisers already."""
        if configs is not None and not (self.compiled and configs == self._optimizer_configs()):
            self._compile(Optimizers(*(optimizer_from_config(config) for config in configs)))

    def _restore_run(self, state, arrays):
        for role, optimizer in zip(Optimizers._fields, self.optimizers, strict=False):
            for i, variable in enumerate(optimizer.variables):
                variable.assign(arrays[f"{role}/{i}"])
        self.run = Run.restore(state, arrays)


def _arguments(env, run):
    """What a run's environment is made with; one that is made already needs nothing."""
    return {} if isinstance(env, VectorEnv) else run.env_kwargs


def _check_integer(name, value, least):
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"`{name}` must be an integer >= {least}. Received: {name}={value!r}")
    return int(value)


def _check_same(found, expected, part, filepath):
    """Compare configurations as JSON would hold them and name the fields that differ."""
    found, expected = (json.loads(json.dumps(config)) for config in (found, expected))
    differ = {
        key: (found.get(key), expected.get(key)) for key in {*found, *expected} if found.get(key) != expected.get(key)
    }
    if differ:
        raise ValueError(
            f"{str(filepath)!r} holds another {part}; nothing was changed. `ActorCritic.load` builds the agent that "
            f"it holds. Received, as field: (in the directory, in this agent): {differ}"
        )
