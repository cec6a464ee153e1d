"""Rollouts played by the plain-numpy network in a made-up world: the same on every backend."""

import numpy as np
import references

from nmn_keras.rollout import Rollout


def play(architecture, weights, steps, ends, segment_steps, seed=0, explored=None):
    """Play an actor with the given weights among drawn observations.

    Args:
        architecture: the actor's.
        weights: the actor's, as `get_weights` gives them.
        steps: T.
        ends: `(T, N)` of "" (the episode goes on), "terminated" or "truncated".
        segment_steps: how often the packed state is kept.
        seed: of everything drawn.
        explored: `(T, N)` of 0 and 1; None = every action is sampled.
    """
    a, rng = architecture, np.random.default_rng(seed)
    rows = ends.shape[1]
    explored = np.ones(ends.shape) if explored is None else explored
    observation, keep = rng.normal(size=(rows, a.observation_size)), np.zeros((rows, 1))
    action, reward = np.zeros((rows, a.action_size)), np.zeros((rows, 1))
    state, columns, states = np.zeros((rows, a.state_size)), [], []
    for t in range(steps):
        if t % segment_steps == 0:
            states.append(state)
        before = (observation, action, reward, keep)
        output, _, state = references.network_step(a, weights, *before[:3], state)
        parameters = references.packed_policy(a, output)
        drawn = draw(a, parameters, explored[t, :, None], rng)
        action = np.asarray(a.to_environment(drawn))
        successor = observation + 0.3 * rng.normal(size=observation.shape)
        reward = rng.normal(size=(rows, 1)) - np.abs(action).sum(axis=1, keepdims=True)
        ended = ends[t] != ""
        row = (*before, successor, action, drawn, parameters, reward[:, 0], ends[t] == "terminated", ended)
        columns.append(row)
        keep = 1.0 - ended[:, None]
        fresh = rng.normal(size=observation.shape)
        observation = np.where(ended[:, None], fresh, successor)
        action, reward, state = action * keep, reward * keep, state * keep
    arrays = [np.stack(column).astype("float32") for column in zip(*columns, strict=True)]
    return Rollout(*arrays, explored.astype("float32"), np.stack(states).astype("float32"))


def draw(architecture, parameters, explored, rng):
    """Actions `(N, A)`, network units; where nothing is explored, the policy's mode."""
    if architecture.action_head == "categorical":
        parts = references.probabilities(architecture, parameters)
        sampled = [[rng.choice(len(p), p=p) for p in part] for part in parts]
        likeliest = [part.argmax(axis=-1) for part in parts]
        return np.where(explored, np.transpose(sampled), np.transpose(likeliest))
    mean, log_var = np.split(parameters, 2, axis=-1)
    return mean + np.exp(0.5 * log_var) * rng.normal(size=mean.shape) * explored
