# ruff: noqa: E501
"""The rows of the suite of tasks: environments, steps, and the numbers of the peer and of others, as data.

RecurrentPPO has rl-zoo3's tuned numbers: those of the model cards at https://huggingface.co/sb3 (`ppo_lstm-...NoVel-...`)
for CartPole, Pendulum and MountainCarContinuous without velocities; those of rl-zoo3's `hyperparams/ppo_lstm.yml` (commit
038ab16) for the rest. What rl-zoo3 lacks names the entry whose numbers it has. Published scores are of rl-zoo3's `benchmark.md`,
one run each.
"""

from dataclasses import dataclass, field
from typing import Any

RELU_64 = {
    "ortho_init": False,
    "activation_fn": "ReLU",
    "lstm_hidden_size": 64,
    "enable_critic_lstm": True,
    "net_arch": {"pi": [64], "vf": [64]},
}

PEERS: dict[str, dict[str, Any]] = {
    "CartPoleNoVel-v1": dict(
        normalize={"norm_obs": True, "norm_reward": False}, n_envs=8, n_steps=32, batch_size=256, gae_lambda=0.8,
        gamma=0.98, n_epochs=20, ent_coef=0.0, learning_rate="lin_0.001", clip_range="lin_0.2", policy_kwargs=RELU_64,
    ),
    "PendulumNoVel-v1": dict(
        normalize={"norm_obs": True, "norm_reward": False}, n_envs=4, n_steps=1024, gae_lambda=0.95, gamma=0.9,
        n_epochs=10, ent_coef=0.0, learning_rate=1e-3, clip_range=0.2, use_sde=True, sde_sample_freq=4,
        policy_kwargs=RELU_64,
    ),
    "MountainCarContinuousNoVel-v0": dict(
        normalize={"norm_obs": True, "norm_reward": False}, n_envs=8, n_steps=1024, batch_size=256, gae_lambda=0.9,
        gamma=0.9999, n_epochs=10, ent_coef=0.00429, learning_rate=7.77e-5, clip_range=0.1, max_grad_norm=5,
        vf_coef=0.19, use_sde=True, sde_sample_freq=8,
        policy_kwargs={
            "log_std_init": 0.0, "ortho_init": False, "lstm_hidden_size": 32, "enable_critic_lstm": True,
            "net_arch": {"pi": [64], "vf": [64]},
        },
    ),
    "LunarLanderNoVel-v2": dict(
        n_envs=16, n_steps=1024, batch_size=64, gae_lambda=0.98, gamma=0.999, n_epochs=4, ent_coef=0.01,
    ),
    "Acrobot-v1": dict(
        normalize={}, n_envs=16, n_steps=256, gae_lambda=0.94, gamma=0.99, n_epochs=4, ent_coef=0.0,
    ),
    "HalfCheetah-v3": dict(
        normalize={}, n_envs=1, n_steps=512, batch_size=64, gamma=0.98, learning_rate=2.0633e-5, ent_coef=0.000401762,
        clip_range=0.1, n_epochs=20, gae_lambda=0.92, max_grad_norm=0.8, vf_coef=0.58096,
        policy_kwargs={
            "log_std_init": -2, "ortho_init": False, "activation_fn": "ReLU",
            "net_arch": {"pi": [256, 256], "vf": [256, 256]},
        },
    ),
}  # fmt: skip
"""Arguments of RecurrentPPO, "normalize" those of VecNormalize."""


@dataclass(frozen=True)
class Row:
    """An environment and what is known of it."""

    env: str
    """What `nmn_keras.envs.make` takes."""
    steps: int
    """Environment steps of a training, the same for all players."""
    peer: str
    """Whose numbers of `PEERS` RecurrentPPO has."""
    kwargs: dict[str, Any] = field(default_factory=dict)
    masked: tuple[int, ...] = ()
    """Observed numbers that are multiplied by 0, as rl-zoo3's MaskVelocityWrapper does it."""
    told: bool = False
    """Whether there is a player that is told the parameters."""
    published: tuple[float, str] | None = None
    """rl-zoo3's score, and of what."""


def _hidden(env: str, limit: int, **parameters: Any) -> dict[str, Any]:
    paths = {f"unwrapped.{name.replace('__', '.')}": law for name, law in parameters.items()}
    return {"env": env, "parameters": paths, "max_episode_steps": limit}


_HIDDEN, _M = "nmn_keras/HiddenParameters-v0", 1_000_000

ROWS: dict[str, Row] = {
    "cartpole-novel": Row("CartPole-v1", _M, "CartPoleNoVel-v1", masked=(1, 3), published=(500.0, "ppo_lstm, 0.1M steps")),
    "pendulum-novel": Row(
        "Pendulum-v1", _M, "PendulumNoVel-v1", masked=(2,), published=(-217.933, "ppo_lstm, 0.1M steps")
    ),
    "mountaincar-novel": Row(
        "MountainCarContinuous-v0", _M, "MountainCarContinuousNoVel-v0", masked=(1,),
        published=(91.469, "ppo_lstm, 0.3M steps"),
    ),
    "lunarlander-novel": Row("LunarLander-v3", _M, "LunarLanderNoVel-v2", masked=(2, 3, 5)),
    "acrobot": Row("Acrobot-v1", _M, "Acrobot-v1", published=(-73.506, "ppo, 1M steps")),
    "pendulum": Row("Pendulum-v1", _M, "PendulumNoVel-v1", published=(-172.225, "ppo, 0.1M steps")),
    "mountaincar": Row(
        "MountainCarContinuous-v0", _M, "MountainCarContinuousNoVel-v0", published=(88.343, "ppo, 0.02M steps")
    ),
    "popgym-cartpole": Row("popgym:popgym-PositionOnlyCartPoleEasy-v0", _M, "CartPoleNoVel-v1", kwargs={"max_episode_steps": 200}),
    "popgym-noisy-pendulum": Row("popgym:popgym-NoisyPositionOnlyPendulumEasy-v0", _M, "PendulumNoVel-v1", kwargs={"max_episode_steps": 200}),
    "popgym-pendulum": Row("popgym:popgym-PositionOnlyPendulumEasy-v0", _M, "PendulumNoVel-v1", kwargs={"max_episode_steps": 200}),
    "popgym-repeat": Row("popgym:popgym-RepeatPreviousEasy-v0", _M, "CartPoleNoVel-v1", kwargs={"max_episode_steps": 51}),
    "hidden-cartpole": Row(
        _HIDDEN, _M, "CartPoleNoVel-v1", told=True,
        kwargs=_hidden("CartPole-v1", 500, length=[0.25, 1.5], masspole=[0.05, 0.5], force_mag=[5.0, 15.0]),
    ),
    "hidden-pendulum": Row(
        _HIDDEN, _M, "PendulumNoVel-v1", told=True, kwargs=_hidden("Pendulum-v1", 200, m=[0.5, 2.0], l=[0.5, 1.5]),
    ),
    "cheetah-direction": Row("nmn_keras/HalfCheetahDirection-v0", 2 * _M, "HalfCheetah-v3", told=True),
    "cheetah-velocity": Row("nmn_keras/HalfCheetahVelocity-v0", 2 * _M, "HalfCheetah-v3", told=True),
    "cheetah-motors": Row(
        _HIDDEN, 2 * _M, "HalfCheetah-v3", told=True,
        kwargs={
            "env": "HalfCheetah-v5", "max_episode_steps": 1000,
            "parameters": {"unwrapped.model.actuator_gear[:, 0]": {"scale": [0.3, 1.5], "each": True}},
        },
    ),
}  # fmt: skip
