"""The benchmarks as Gymnasium environments; each class docstring is the specification."""

from gymnasium.vector import AutoresetMode

from nmn_keras.envs.dynamics import MovingTarget
from nmn_keras.envs.task_env import TaskEnv
from nmn_keras.envs.task_vector_env import TaskVectorEnv


class MovingTargetEnv(TaskEnv):
    """Benchmark 1: hit a goal of which only a biased reading is seen.

    ## Description
    A goal `p` lies on a line. The agent sees `x = p + alpha`, where the bias `alpha` is the hidden
    task: it is drawn once per episode and must be inferred from rewards. The agent names a point
    `a`; if it is within 1 of the goal, the goal moves. From "Introducing Neuromodulation in Deep
    Neural Networks to Learn Adaptive Behaviours", section "Benchmark 1" (Vecoven et al., 2020).
    The paper's appendix writes `p = x + alpha`; here, as in its text, `p = x - alpha`. The law of
    `alpha` is symmetric, so that both are one problem.

    ## Action Space
    `Box(-20, 20, (1,), float32)`: the point `a`, in the unit of the observation. Values outside
    are clipped here, before anything else; values that are not finite are refused.

    ## Observation Space
    `Box(-5, 5, (1,), float32)`: the point `x`.

    ## Rewards
    10 if `|a - p| < 1`, else `-|a - p|`, hence in [-35, -1] or 10.

    ## Starting State
    `alpha` uniform on [-10, 10] and `x` uniform on [-5, 5], independent. After a hit `x` is drawn
    anew in the same way; after a miss it stays.

    ## Episode End
    Never terminates. Truncated after 1400 steps when made by `gymnasium.make`.

    ## Information
    `info["task"]` is `[alpha]`, for analysis; an agent must not see it.
    `reset(options={"task": alpha, "position": x})` fixes what would be drawn; "position" is the
    observed point. `env.unwrapped.set_task(alpha)` changes the bias in mid-episode: `x` stays and
    the goal moves.

    ## Arguments
    `alpha_max` (10): largest bias, in (0, 15] so that every goal can be reached.
    `max_episode_steps` (None): steps after which the environment truncates by itself; None leaves
    it to the `TimeLimit` wrapper that `gymnasium.make` adds.
    `render_mode` (None): None or "rgb_array".

    ## Version History
    v0: first version.
    """

    def __init__(
        self,
        alpha_max: float = 10.0,
        max_episode_steps: int | None = None,
        render_mode: str | None = None,
    ):
        super().__init__(
            MovingTarget(alpha_max=alpha_max),
            max_episode_steps=max_episode_steps,
            render_mode=render_mode,
        )


class MovingTargetVectorEnv(TaskVectorEnv):
    """N environments of benchmark 1 at once; `MovingTargetEnv` is the specification.

    Args:
        num_envs: N.
        max_episode_steps: steps after which an episode is truncated.
        alpha_max: largest bias, in (0, 15].
        autoreset_mode: `AutoresetMode.SAME_STEP` or `AutoresetMode.DISABLED`, see `TaskVectorEnv`.
        render_mode: None or "rgb_array".

    Raises:
        ValueError: if an argument is not accepted.
    """

    def __init__(
        self,
        num_envs: int = 1,
        max_episode_steps: int = 1400,
        alpha_max: float = 10.0,
        autoreset_mode: AutoresetMode = AutoresetMode.SAME_STEP,
        render_mode: str | None = None,
    ):
        super().__init__(
            MovingTarget(alpha_max=alpha_max),
            num_envs=num_envs,
            max_episode_steps=max_episode_steps,
            autoreset_mode=autoreset_mode,
            render_mode=render_mode,
        )
