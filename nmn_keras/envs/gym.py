"""The benchmarks as Gymnasium environments; each class docstring is the specification."""

from gymnasium.vector import AutoresetMode

from nmn_keras.envs.dynamics import MovingTarget, TwoTargets, WindyNavigation
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


class WindyNavigationEnv(TaskEnv):
    """Benchmark 2: navigate to a target in a wind that must be found out.

    ## Description
    An agent at `u` moves on a square without edges: who leaves [-2, 2]^2 on one side comes in on the
    other. It sees where the target is, but not where the wind blows: the target's centre `(a1, a2)` and
    the wind's main direction `a3` are the hidden task, drawn once per episode. In the target, a disc of
    radius 0.4, it is rewarded and appears elsewhere. From "Introducing Neuromodulation in Deep Neural
    Networks to Learn Adaptive Behaviours", section "Benchmark 2" (Vecoven et al., 2020). Where the
    paper contradicts itself this follows the authors' code: a step costs 2, not 0.2.

    ## Action Space
    `Box(-1, 1, (1,), float32)`: the direction `a` in half-turns, that is the angle `pi a`; 0 points
    along the second axis and 0.5 along the first. The space is one whole turn. Values outside are not
    clipped: every real number is a direction, and `a + 2` is the same as `a`. Values that are not
    finite are refused.

    ## Observation Space
    `Box(-3, 3, (2,), float32)`: `(a1, a2) - u`, the target's centre relative to the agent, without
    regard to the shorter way across an edge.

    ## Transition
    In the target: `u` is drawn anew, whatever the action. Else
    `u += 0.25 (dir(pi a) + dir(a3 + n))` with `dir(b) = (sin b, cos b)` and the wind's noise `n`
    uniform on [-pi/4, pi/4]; then each coordinate above 2 loses 4 and each below -2 gains 4.

    ## Rewards
    100 if `u` was in the target when the action was chosen, else -2. The reward of reaching the target is
    therefore that of the following step, the one that moves the agent away.

    ## Starting State
    `(a1, a2)` uniform on [-1, 1]^2, `a3` on [-pi, pi), `u` on [-1.5, 1.5]^2, as after each target.

    ## Episode End
    Never terminates. Truncated after 4000 steps when made by `gymnasium.make`.

    ## Information
    `info["task"]` is `[a1, a2, a3]`, for analysis; an agent must not see it.
    `reset(options={"task": ..., "position": u})` fixes what would be drawn.
    `env.unwrapped.set_task([a1, a2, a3])` changes the task in mid-episode: `u` stays.

    ## Arguments
    `spawn_exclusion` (0): `u` is never drawn closer than this to the target's centre, in [0, 1]. The
    paper draws anywhere (0), the authors' code uses 0.6; returns differ, so say which one they are of.
    `max_episode_steps` (None): steps after which the environment truncates by itself; None leaves
    it to the `TimeLimit` wrapper that `gymnasium.make` adds.
    `render_mode` (None): None or "rgb_array".

    ## Version History
    v0: first version.
    """

    def __init__(
        self,
        spawn_exclusion: float = 0.0,
        max_episode_steps: int | None = None,
        render_mode: str | None = None,
    ):
        super().__init__(
            WindyNavigation(spawn_exclusion=spawn_exclusion),
            max_episode_steps=max_episode_steps,
            render_mode=render_mode,
        )


class WindyNavigationVectorEnv(TaskVectorEnv):
    """N environments of benchmark 2 at once; `WindyNavigationEnv` is the specification.

    Args:
        num_envs: N.
        max_episode_steps: steps after which an episode is truncated.
        spawn_exclusion: no agent appears closer to the target's centre, in [0, 1].
        autoreset_mode: `AutoresetMode.SAME_STEP` or `AutoresetMode.DISABLED`, see `TaskVectorEnv`.
        render_mode: None or "rgb_array".

    Raises:
        ValueError: if an argument is not accepted.
    """

    def __init__(
        self,
        num_envs: int = 1,
        max_episode_steps: int = 4000,
        spawn_exclusion: float = 0.0,
        autoreset_mode: AutoresetMode = AutoresetMode.SAME_STEP,
        render_mode: str | None = None,
    ):
        super().__init__(
            WindyNavigation(spawn_exclusion=spawn_exclusion),
            num_envs=num_envs,
            max_episode_steps=max_episode_steps,
            autoreset_mode=autoreset_mode,
            render_mode=render_mode,
        )


class TwoTargetsEnv(TaskEnv):
    """Benchmark 3: find out which of two targets is the good one, and navigate to it.

    ## Description
    An agent at `u` moves on a square without edges: who leaves [-2, 2]^2 on one side comes in on the
    other. It sees where two targets are, but not which one is good. Their centres `(a1, a2)` and
    `(a3, a4)` and the sign `a5` are the task, drawn once per episode: `a5 = 1` makes the first target
    the good one, `a5 = -1` the second. In a target, a disc of radius 0.4, the agent is rewarded or
    punished and appears elsewhere. From "Introducing Neuromodulation in Deep Neural Networks to Learn
    Adaptive Behaviours", section "Benchmark 3" (Vecoven et al., 2020). Its appendix prints the rewards
    as `100 a5` and `-50 a5`; its text and the authors' code give 100 and -50, whichever is which.

    ## Action Space
    `Box(-1, 1, (1,), float32)`: the direction `a` in half-turns, that is the angle `pi a`; 0 points
    along the second axis and 0.5 along the first. The space is one whole turn. Values outside are not
    clipped: every real number is a direction, and `a + 2` is the same as `a`. Values that are not
    finite are refused.

    ## Observation Space
    `Box(-3, 3, (4,), float32)`: `(a1, a2) - u` and `(a3, a4) - u`, the centres relative to the agent,
    without regard to the shorter way across an edge.

    ## Transition
    In a target: `u` is drawn anew, whatever the action. Else `u += 0.25 dir(pi a)` with
    `dir(b) = (sin b, cos b)`; then each coordinate above 2 loses 4 and each below -2 gains 4.

    ## Rewards
    100 if `u` was in the good target when the action was chosen, -50 in the bad one, else 0. Where both
    overlap the nearer centre decides. The reward of reaching a target is therefore that of the
    following step, the one that moves the agent away.

    ## Starting State
    `(a1, a2)` and `(a3, a4)` uniform on [-1, 1]^2, `a5` on {-1, 1}, `u` on [-1.5, 1.5]^2, as after each
    target.

    ## Episode End
    Never terminates. Truncated after 5000 steps when made by `gymnasium.make`.

    ## Information
    `info["task"]` is `[a1, a2, a3, a4, a5]`, for analysis; an agent must not see it.
    `reset(options={"task": ..., "position": u})` fixes what would be drawn; a5 must be -1 or 1.
    `env.unwrapped.set_task(...)` changes the task in mid-episode: `u` stays.

    ## Arguments
    `spawn_exclusion` (0): `u` is never drawn closer than this to a target's centre, in [0, 1]. The
    paper draws anywhere (0), the authors' code uses 0.6; returns differ, so say which one they are of.
    `max_episode_steps` (None): steps after which the environment truncates by itself; None leaves
    it to the `TimeLimit` wrapper that `gymnasium.make` adds.
    `render_mode` (None): None or "rgb_array".

    ## Version History
    v0: first version.
    """

    def __init__(
        self,
        spawn_exclusion: float = 0.0,
        max_episode_steps: int | None = None,
        render_mode: str | None = None,
    ):
        super().__init__(
            TwoTargets(spawn_exclusion=spawn_exclusion),
            max_episode_steps=max_episode_steps,
            render_mode=render_mode,
        )


class TwoTargetsVectorEnv(TaskVectorEnv):
    """N environments of benchmark 3 at once; `TwoTargetsEnv` is the specification.

    Args:
        num_envs: N.
        max_episode_steps: steps after which an episode is truncated.
        spawn_exclusion: no agent appears closer to a target's centre, in [0, 1].
        autoreset_mode: `AutoresetMode.SAME_STEP` or `AutoresetMode.DISABLED`, see `TaskVectorEnv`.
        render_mode: None or "rgb_array".

    Raises:
        ValueError: if an argument is not accepted.
    """

    def __init__(
        self,
        num_envs: int = 1,
        max_episode_steps: int = 5000,
        spawn_exclusion: float = 0.0,
        autoreset_mode: AutoresetMode = AutoresetMode.SAME_STEP,
        render_mode: str | None = None,
    ):
        super().__init__(
            TwoTargets(spawn_exclusion=spawn_exclusion),
            num_envs=num_envs,
            max_episode_steps=max_episode_steps,
            autoreset_mode=autoreset_mode,
            render_mode=render_mode,
        )
