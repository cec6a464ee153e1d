"""Playing to learn: the only place that steps environments during training."""

import dataclasses

import numpy as np

from nmn_keras.envs import Benchmark
from nmn_keras.stepper import Stepper


@dataclasses.dataclass(frozen=True)
class Rollout:
    """T steps of N parallel environments, time-major float32, from a reset with empty memory.

    Where an episode ends the next one follows in the same row, so nothing is padded; `keep` marks the seams.
    """

    observation: np.ndarray
    """`(T, N, O)`, environment units."""
    prev_action: np.ndarray
    """`(T, N, A)`, the action really played one step before, environment units; zero where an episode begins."""
    prev_reward: np.ndarray
    """`(T, N, 1)`, the reward of the step before; zero where an episode begins."""
    keep: np.ndarray
    """`(T, N, 1)`, 0 where an episode begins, else 1."""
    successor: np.ndarray
    """`(T, N, O)`, what was observed after the step, before any reset."""
    played: np.ndarray
    """`(T, N, A)`, the action played, environment units."""
    action: np.ndarray
    """`(T, N, A)`, the action sampled, network units, unclipped."""
    policy: np.ndarray
    """`(T, N, P)`, parameters of the policy that played, as its action head packs them."""
    reward: np.ndarray
    """`(T, N)`."""
    terminated: np.ndarray
    """`(T, N)`, 1 where the episode ended and nothing follows, else 0."""
    ended: np.ndarray
    """`(T, N)`, 1 where the episode ended in any way, else 0."""
    explored: np.ndarray
    """`(T, N)`, 1 where the action was sampled, 0 where the policy's mode was played."""
    actor_state: np.ndarray
    """`(ceil(T / segment_steps), N, S)`, the packed state before each segment's first step."""

    def arrays(self) -> dict[str, np.ndarray]:
        """The fields as a dict."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}


def play(env, policy, architecture, steps, recipe, generator) -> Rollout:
    """Play `steps` steps in every environment of a vector environment.

    Each environment has a clock of its own: a step in which it only resets itself does not count, and the environments
    that do not need it go ahead.

    Args:
        env: vector environment, in any autoreset mode.
        policy: callable `(observation, prev_action, prev_reward, state) -> (policy (N, P), state)`.
        architecture: the actor's `Architecture`.
        steps: T.
        recipe: says how long segments are, before each of which the actor's state is kept, and which share of them is
            played with the policy's mode; the others are sampled.
        generator: numpy generator from which the environments' seed and all noise are drawn.

    Raises:
        ValueError: if an observation or a reward is not finite.
        FloatingPointError: if a policy is not.
    """
    n, a, stepper = env.num_envs, architecture, Stepper(env)
    seed, explored, noise = draw(recipe, steps, n, a.head, generator)
    tape = _blank(steps, n, a, recipe.segment_steps)
    observation = stepper.reset(seed)
    prev_action, prev_reward = np.zeros((n, a.action_size), "float32"), np.zeros((n, 1), "float32")
    state, keep = np.zeros((n, a.state_size), "float32"), np.zeros((n, 1), "float32")
    clock, rows = np.zeros(n, int), np.arange(n)
    while (clock < steps).any():
        live = rows[(clock < steps) & ~stepper.resetting]
        now = clock[live]
        begins = now % recipe.segment_steps == 0
        tape["actor_state"][now[begins] // recipe.segment_steps, live[begins]] = state[live[begins]]
        parameters, state = policy(observation, prev_action, prev_reward, state)
        action = _sample(a.head, parameters, noise[np.minimum(clock, steps - 1), rows], clock.max())
        played = a.to_environment(action)
        outcome = stepper.step(played)
        step = {
            "observation": observation,
            "prev_action": prev_action,
            "prev_reward": prev_reward,
            "keep": keep,
            "successor": outcome.successor,
            "played": played,
            "action": action,
            "policy": parameters,
            "reward": outcome.reward,
            "terminated": outcome.terminated,
            "ended": outcome.ended,
        }
        for name, values in step.items():
            tape[name][now, live] = values[live]
        # Zero where an episode begins, and where the environment has just been reset.
        keep = (outcome.counted & ~outcome.ended)[:, None].astype("float32")
        observation, prev_action = outcome.observation, played * keep
        prev_reward, state = outcome.reward[:, None].astype("float32") * keep, state * keep
        clock[live] += 1
    return Rollout(**tape, explored=explored)


def _blank(steps, n, architecture, segment_steps):
    """Arrays of a rollout to be filled, by name."""
    a = architecture
    sizes = {"observation": a.observation_size, "prev_action": a.action_size, "prev_reward": 1, "keep": 1}
    sizes |= {"successor": a.observation_size, "played": a.action_size, "action": a.action_size}
    sizes |= {"policy": a.head.policy_size}
    shapes: dict[str, tuple[int, ...]] = {name: (steps, n, size) for name, size in sizes.items()}
    shapes |= {name: (steps, n) for name in ("reward", "terminated", "ended")}
    shapes["actor_state"] = (-(-steps // segment_steps), n, a.state_size)
    return {name: np.zeros(shape, "float32") for name, shape in shapes.items()}


def _sample(head, policy, noise, step):
    """Actions in network units; a policy that has diverged is told from an environment that gives bad numbers."""
    with np.errstate(over="ignore", invalid="ignore"):
        action = head.sample(policy, noise)
    if not (np.isfinite(action).all() and np.isfinite(policy).all()):
        raise FloatingPointError(f"non-finite action at step {step}")
    return action


def draw(recipe, steps, n, head, generator):
    """Seed of the environments, which segments are sampled `(steps, n)` and the head's noise `(steps, n, ...)`."""
    seed = int(generator.integers(2**31))
    segments = -(-steps // recipe.segment_steps)
    sampled = generator.random((segments, n)) >= recipe.deterministic_share
    explored = np.repeat(sampled, recipe.segment_steps, axis=0)[:steps].astype("float32")
    noise = head.noise(generator, (steps, n))
    if recipe.noise_color:
        noise = coloured(noise, recipe.noise_color)
    return seed, explored, noise * explored[..., None]


def coloured(noise, color):
    """White noise `(T, ...)` with its power multiplied by frequency to the power of -`color`, of variance 1 as before.

    Each number alone is still standard normal; those of different steps are correlated. The lowest frequency, which is
    none, counts as that of one period in T steps.

    Reference: Timmer and Koenig 1995; in PPO: Hollenstein, Martius and Piater, AAAI 2024.
    """
    steps = len(noise)
    frequency = np.fft.rfftfreq(steps)
    frequency[0] = 1.0 / steps
    amplitude = frequency ** (-0.5 * color)
    twice = np.full(len(frequency), 2.0)  # a frequency and its negative, but for those that are their own
    twice[0] = 1.0
    if steps % 2 == 0:
        twice[-1] = 1.0
    amplitude /= np.sqrt((twice * amplitude**2).sum() / steps)
    spectrum = np.fft.rfft(noise, axis=0) * amplitude.reshape(-1, *[1] * (noise.ndim - 1))
    return np.fft.irfft(spectrum, steps, axis=0).astype("float32")


def summary(reward, policy, head, benchmark: Benchmark | None = None) -> dict[str, float]:
    """What is logged of a rollout: reward per step, returns from its start, share of the optimum where it is known.

    Takes its rewards `(T, N)` and policies `(T, N, P)`, and the action head, which says what is logged of them.
    `discounted_return` is over the rollout's T steps, sampled actions, at the benchmark's discount (0.998 elsewhere);
    `share` is against the optimum over as many steps.
    """
    discount = benchmark.discount if benchmark else 0.998
    steps = len(reward)
    worth = discount ** np.arange(steps)
    logs = {
        "reward": float(reward.mean()),
        "return": float(reward.sum(axis=0).mean()),
        "discounted_return": float((worth @ reward).mean()),
        **head.summary(policy),
    }
    optimum = benchmark and benchmark.optimal_return(steps, discount)
    return logs | ({"share": logs["discounted_return"] / optimum} if optimum else {})


def episode_summary(reward, ended) -> dict[str, float]:
    """Mean return and length of the episodes that ended in a rollout; nothing where none did.

    Takes rewards and ends, both `(T, N)`. A rollout begins with a reset, so that each of these episodes is whole. Those
    that are still going on do not count: of long and short ones together the long are seen less.
    """
    row, step = np.nonzero(ended.T)
    if not len(row):
        return {}
    first = np.concatenate([[True], row[1:] != row[:-1]])
    total = reward.cumsum(axis=0, dtype="float64")[step, row]
    before = np.where(first, 0.0, np.roll(total, 1))
    began = np.where(first, 0, np.roll(step + 1, 1))
    return {"episode_return": float((total - before).mean()), "episode_length": float((step + 1 - began).mean())}
