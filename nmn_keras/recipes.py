"""Training recipes: frozen dataclasses whose defaults are the published runs on benchmark 1.

A recipe holds every number of an algorithm and the few pure rules in which algorithms differ: targets, policy loss,
minibatches, adaptation of rates. The loop around them is one and the same (`actor_critic.py`, `updates/`).
"""

import dataclasses
import math
import numbers
import typing
from typing import ClassVar

import numpy as np
from keras import ops

from nmn_keras import losses, returns


@dataclasses.dataclass(frozen=True)
class PaperRecipe:
    """The paper's algorithm: full-batch actor epochs under an adaptive KL penalty, Monte-Carlo critic.

    Vecoven et al. 2020, Algorithms 1-4, with the authors' constants. On a reverted actor update Adam's moments and
    step count are restored too, and the actor's rate is capped; without the two a run collapses.
    """

    name: ClassVar[str] = "paper"

    episodes: int = 20_000
    """Episodes in all."""
    episodes_per_update: int = 50
    """B, episodes played in parallel for one update."""
    rollout_steps: int | None = None
    """L, steps played per update and episode; None = the environment's episode length."""
    trained_steps: int | None = 400
    """L', the first steps of each episode that enter the losses; None = all."""
    segment_steps: int = 200
    """T, length over which gradients flow back; each segment starts from the state met while playing."""
    discount: float = 0.998
    """Gamma."""
    trace: float = 0.98
    """Lambda of the generalised advantage estimate."""
    actor_learning_rate: float = 2e-4
    """Actor's first Adam rate, adapted to the KL divergence."""
    actor_learning_rate_min: float = 1e-6
    """Lower bound of the adapted rate."""
    actor_learning_rate_max: float = 2e-3
    """Upper bound of the adapted rate (ours; the paper has none)."""
    critic_learning_rate: float = 6e-3
    """Critic's Adam rate."""
    gradient_norm: float | None = None
    """Global norm at which gradients are clipped; None = not."""
    actor_epochs: int = 20
    """Full-batch steps of the actor per update."""
    critic_epochs: int = 10
    """Passes of the critic per update."""
    critic_minibatch: int = 25
    """Segments in one minibatch of the critic."""
    critic_batches: int = 3
    """Updates whose data the critic learns from: the present one and those before it."""
    kl_target: float = 0.003
    """d_targ, divergence per update aimed at."""
    kl_penalty: float = 1.0
    """Beta's first value."""
    kl_penalty_max: float = 30.0
    """Beta lies in [1 / kl_penalty_max, kl_penalty_max]."""
    revert_kl: float = 0.012
    """The whole actor update is undone above this divergence (the authors' code: 4 d_targ)."""
    excess_weight: float = 50.0
    """Weight of the squared hinge on KL above 2 d_targ."""

    deterministic_share: ClassVar[float] = 0.0
    entropy_weight: ClassVar[float] = 0.0
    noise_color: ClassVar[float] = 0.0

    def __post_init__(self):
        _check_recipe(self)

    def coefficients(self) -> dict[str, float]:
        """Adapted numbers at the start of a run."""
        return {"actor_learning_rate": self.actor_learning_rate, "kl_penalty": self.kl_penalty}

    def learning_rates(self, coefficients, progress) -> tuple[float, float]:
        """Rates of actor and critic; `progress` in [0, 1) does not matter here."""
        return coefficients["actor_learning_rate"], self.critic_learning_rate

    def adapt(self, coefficients, kl) -> dict[str, float]:
        """Beta and, at beta's bounds, the actor's rate follow the divergence (Algorithm 4)."""
        penalty, rate = coefficients["kl_penalty"], coefficients["actor_learning_rate"]
        high, low = self.kl_penalty_max, 1.0 / self.kl_penalty_max
        if kl > 2.0 * self.kl_target:
            rate = rate / 1.5 if penalty > 0.85 * high else rate
            penalty = min(high, penalty * 1.5)
        elif kl < 0.5 * self.kl_target:
            rate = rate * 1.5 if penalty < 1.15 * low else rate
            penalty = max(low, penalty / 1.5)
        rate = min(max(rate, self.actor_learning_rate_min), self.actor_learning_rate_max)
        return {"actor_learning_rate": rate, "kl_penalty": penalty}

    def targets(self, reward, value, successor_value, terminated, ended):
        """Advantage and critic target, `(L, N)` each: returns count to the end of the episode, nothing follows it."""
        goes_on = 1.0 - ended
        next_value = ops.concatenate([value[1:], ops.zeros_like(value[:1])], axis=0)
        scaled = (1.0 - self.discount) * reward
        advantage = returns.generalised_advantage(
            scaled,
            value,
            next_value,
            self.discount * goes_on,
            self.discount * self.trace * goes_on,
        )
        return advantage, returns.discounted_sum(scaled, self.discount * goes_on)

    def policy_loss(self, ratio, advantage, kl, coefficients):
        """The paper's penalised loss."""
        return losses.penalised_policy_loss(
            ratio, advantage, kl, coefficients["kl_penalty"], self.kl_target, self.excess_weight
        )

    def minibatches(self, generator, segments, buffered):
        """Segment indices `(steps, size)` of each gradient step: actor's, critic's.

        Args:
            generator: numpy generator.
            segments: number of the present update's segments.
            buffered: number of segments in the critic's buffer, the present ones included.
        """
        actor = np.tile(np.arange(segments, dtype="int32"), (self.actor_epochs, 1))
        size = min(self.critic_minibatch, buffered)
        return actor, _shuffled(generator, buffered, (buffered // size, size), self.critic_epochs)


@dataclasses.dataclass(frozen=True)
class FastRecipe:
    """Clipped PPO on short segments with many small steps, a KL-adaptive actor rate and linear decay.

    Schulman et al. 2017 (clipping), with truncated back-propagation from the states met while playing.
    """

    name: ClassVar[str] = "fast"

    episodes: int = 25_600
    """Episodes in all."""
    episodes_per_update: int = 64
    """B, episodes played in parallel for one update."""
    rollout_steps: int | None = 200
    """Steps played per update and episode; None = the environment's episode length."""
    trained_steps: int | None = None
    """The first steps of each episode that enter the losses; None = all."""
    segment_steps: int = 50
    """Length over which gradients flow back; each segment starts from the state met while playing."""
    discount: float = 0.95
    """Gamma."""
    trace: float = 0.95
    """Lambda of the generalised advantage estimate."""
    actor_learning_rate: float = 2e-3
    """Actor's Adam rate before decay; also its upper bound."""
    actor_learning_rate_min: float = 1e-5
    """Lower bound of the adapted rate before decay."""
    critic_learning_rate: float = 2e-3
    """Critic's Adam rate before decay."""
    gradient_norm: float | None = 0.5
    """Global norm at which gradients are clipped; None = not."""
    epochs: int = 4
    """Passes over the update's segments."""
    minibatches_per_epoch: int = 4
    """Gradient steps in one pass."""
    clip: float = 0.2
    """Bound on the probability ratio's distance from 1."""
    kl_target: float = 0.02
    """Divergence per update that the actor's rate is steered to."""
    deterministic_share: float = 0.5
    """Share of segments played with the mean action: the sampled ones that follow learn to leave the states in which
    only the deterministic policy gets stuck."""
    entropy_weight: float = 0.0
    """Weight of the policy's entropy, nats, which is added to what the actor maximises."""
    noise_color: float = 0.0
    """Exponent with which the power of real actions' noise falls with its frequency: 0 independent steps, 1 pink."""

    revert_kl: ClassVar[float] = float("inf")
    critic_batches: ClassVar[int] = 1

    def __post_init__(self):
        _check_recipe(self)

    def coefficients(self) -> dict[str, float]:
        """Adapted numbers at the start of a run."""
        return {"actor_learning_rate": self.actor_learning_rate}

    def learning_rates(self, coefficients, progress) -> tuple[float, float]:
        """Rates of actor and critic, decayed linearly over the run; `progress` in [0, 1)."""
        left = 1.0 - progress
        return coefficients["actor_learning_rate"] * left, self.critic_learning_rate * left

    def adapt(self, coefficients, kl) -> dict[str, float]:
        """Slower above twice the target divergence, faster below half of it."""
        rate = coefficients["actor_learning_rate"]
        if kl > 2.0 * self.kl_target:
            rate = max(rate / 1.5, self.actor_learning_rate_min)
        elif kl < 0.5 * self.kl_target:
            rate = min(rate * 1.2, self.actor_learning_rate)
        return {"actor_learning_rate": rate}

    def targets(self, reward, value, successor_value, terminated, ended):
        """Advantage and critic target, `(L, N)` each, bootstrapped where an episode was only cut."""
        advantage = returns.generalised_advantage(
            (1.0 - self.discount) * reward,
            value,
            successor_value,
            self.discount * (1.0 - terminated),
            self.discount * self.trace * (1.0 - ended),
        )
        return advantage, advantage + value

    def policy_loss(self, ratio, advantage, kl, coefficients):
        """The clipped loss."""
        return losses.clipped_policy_loss(ratio, advantage, self.clip)

    def minibatches(self, generator, segments, buffered):
        """Segment indices `(steps, size)` of each gradient step: actor and critic share them."""
        steps = min(self.minibatches_per_epoch, segments)
        shuffled = _shuffled(generator, segments, (steps, segments // steps), self.epochs)
        return shuffled, shuffled


Recipe = PaperRecipe | FastRecipe
RECIPES: dict[str, type[Recipe]] = {"paper": PaperRecipe, "fast": FastRecipe}


def get(recipe: str | Recipe) -> Recipe:
    """A recipe by name with its defaults, or the recipe itself.

    Raises:
        ValueError: if no recipe has that name.
    """
    if isinstance(recipe, PaperRecipe | FastRecipe):
        return recipe
    if not isinstance(recipe, str) or recipe not in RECIPES:
        raise ValueError(f"Unknown recipe. Known: {sorted(RECIPES)}. Received: {recipe!r}")
    return RECIPES[recipe]()


def to_config(recipe: Recipe) -> dict:
    """Name and fields, ready for JSON."""
    return {"name": recipe.name, **dataclasses.asdict(recipe)}


def from_config(config: dict) -> Recipe:
    """The inverse of `to_config`.

    Raises:
        ValueError: for a recipe, or fields of it, that do not exist.
    """
    recipe = type(get(config["name"]))
    fields = {key: value for key, value in config.items() if key != "name"}
    known = {field.name for field in dataclasses.fields(recipe)}
    if unknown := sorted(set(fields) - known):
        raise ValueError(f"Unknown fields of the recipe: {unknown}. Known: {sorted(known)}. Received: {config!r}")
    return recipe(**fields)


def _shuffled(generator, count, shape, epochs):
    """Indices of `shape` (steps, size) for each epoch, one below the other: a new order each, a remainder left out."""
    rows = [generator.permutation(count)[: math.prod(shape)].reshape(shape) for _ in range(epochs)]
    return np.concatenate(rows).astype("int32")


def _check_recipe(recipe):
    for field in dataclasses.fields(recipe):
        value = getattr(recipe, field.name)
        whole = int in (field.type, *typing.get_args(field.type))
        kind: typing.Any = numbers.Integral if whole else numbers.Real
        if value is not None and (isinstance(value, bool) or not isinstance(value, kind)):
            raise TypeError(
                f"`{field.name}` of the {recipe.name!r} recipe must be {'an integer' if whole else 'a number'}. "
                f"Received: {value!r}"
            )
        least_allowed = value == 0 and field.name in ("deterministic_share", "entropy_weight", "noise_color")
        if value is not None and not value > 0 and not least_allowed:
            raise ValueError(f"`{field.name}` of the {recipe.name!r} recipe must be positive. Received: {value!r}")
    if not recipe.discount < 1.0:
        raise ValueError(
            f"`discount` of the {recipe.name!r} recipe must lie in (0, 1): rewards are scaled by 1 - discount, so that "
            f"values are of the size of rewards. 0.999 looks a thousand steps ahead. Received: {recipe.discount!r}"
        )
    if recipe.actor_learning_rate < recipe.actor_learning_rate_min:
        raise ValueError(
            f"`actor_learning_rate` of the {recipe.name!r} recipe must not lie below `actor_learning_rate_min`. "
            f"Received: {recipe.actor_learning_rate!r} and {recipe.actor_learning_rate_min!r}"
        )
    for name, interval in (("trace", "(0, 1]"), ("deterministic_share", "[0, 1]")):
        if getattr(recipe, name) > 1.0:
            raise ValueError(
                f"`{name}` of the {recipe.name!r} recipe must lie in {interval}. Received: {getattr(recipe, name)!r}"
            )
    if recipe.episodes < recipe.episodes_per_update:
        raise ValueError(
            "`episodes` must be at least `episodes_per_update`, one update. "
            f"Received: episodes={recipe.episodes}, episodes_per_update={recipe.episodes_per_update}"
        )
