"""MuJoCo's HalfCheetah with a hidden goal: the standard tasks of meta-reinforcement learning (Finn et al. 2017)."""

from typing import Any

from gymnasium.envs.mujoco.half_cheetah_v5 import HalfCheetahEnv

from nmn_keras.envs.hidden_parameters import HiddenParameters


class DirectedHalfCheetah(HalfCheetahEnv):
    """HalfCheetah-v5 with `direction` times the speed as reward, less the control cost."""

    direction = 1.0
    """1: forward, -1: backward."""

    def _get_rew(self, x_velocity: float, action: Any) -> tuple[float, dict[str, float]]:
        return _reward(self, self._forward_reward_weight * self.direction * x_velocity, action)


class PacedHalfCheetah(HalfCheetahEnv):
    """HalfCheetah-v5 with minus the distance from a speed as reward, less the control cost."""

    velocity = 1.0
    """The speed wanted, in m/s."""

    def _get_rew(self, x_velocity: float, action: Any) -> tuple[float, dict[str, float]]:
        return _reward(self, -self._forward_reward_weight * abs(x_velocity - self.velocity), action)


def _reward(env: HalfCheetahEnv, goal: float, action: Any) -> tuple[float, dict[str, float]]:
    cost = float(env.control_cost(action))
    return float(goal) - cost, {"reward_goal": float(goal), "reward_ctrl": -cost}


def make_direction(tell: bool = False, changes: Any = (), ctrl_cost_weight: float = 0.05, **settings: Any) -> Any:
    """Make `nmn_keras/HalfCheetahDirection-v0`: forward or backward, drawn in each episode.

    Reward: direction times speed less `ctrl_cost_weight` times the squared action. Task: 1 or -1. 200 steps.

    Args:
        tell: whether the direction is appended to the observation.
        changes: within an episode, see `HiddenParameters`, of the path "unwrapped.direction".
        ctrl_cost_weight: of Finn et al. 2017.
        **settings: of HalfCheetah-v5, such as `render_mode`.
    """
    made = DirectedHalfCheetah(ctrl_cost_weight=ctrl_cost_weight, **settings)
    return HiddenParameters(made, {"unwrapped.direction": {"choice": [-1.0, 1.0]}}, changes=changes, tell=tell)


def make_velocity(
    tell: bool = False,
    changes: Any = (),
    ctrl_cost_weight: float = 0.05,
    velocity: tuple[float, float] = (0.0, 2.0),
    **settings: Any,
) -> Any:
    """Make `nmn_keras/HalfCheetahVelocity-v0`: a speed to keep, drawn in each episode.

    Reward: -|speed - wanted| less `ctrl_cost_weight` times the squared action. Task: the speed wanted. 200 steps.

    Args:
        tell: whether the speed wanted is appended to the observation.
        changes: within an episode, see `HiddenParameters`, of the path "unwrapped.velocity".
        ctrl_cost_weight: of Finn et al. 2017.
        velocity: its range in m/s; Finn et al. have 0 to 2.
        **settings: of HalfCheetah-v5, such as `render_mode`.
    """
    made = PacedHalfCheetah(ctrl_cost_weight=ctrl_cost_weight, **settings)
    return HiddenParameters(made, {"unwrapped.velocity": list(velocity)}, changes=changes, tell=tell)
