// The plane of benchmarks 2 and 3: a square without edges, directions, and where an agent appears.
// Mirrors nmn_keras/envs/dynamics/plane.py, without an exclusion around targets (the paper's setting).

import { centred, modulo } from "./numbers.js";

/** Positions are in [-REACH, REACH]^2; who leaves at one edge comes in at the opposite one. */
export const REACH = 2;
/** Centres of targets are in [-TARGET_REACH, TARGET_REACH]^2. */
export const TARGET_REACH = 1;
/** An agent appears in [-SPAWN_REACH, SPAWN_REACH]^2. */
export const SPAWN_REACH = 1.5;
/** A position is in a target if it is no farther from its centre. */
export const TARGET_RADIUS = 0.4;
/** Length of a move. */
export const MOVE = 0.25;

/** The unit vector of a direction in half-turns: 0 points along the second axis and 0.5 along the first. */
export function direction(halfTurns) {
  const angle = Math.PI * modulo(halfTurns, 2);
  return [Math.sin(angle), Math.cos(angle)];
}

export function wrap(position) {
  return position.map((x) => (x > REACH ? x - 2 * REACH : x < -REACH ? x + 2 * REACH : x));
}

/** Euclidean, not around the edges: no target reaches over one. */
export function distance(position, target) {
  return Math.sqrt((target[0] - position[0]) ** 2 + (target[1] - position[1]) ** 2); // hypot takes far longer
}

export function spawn(draws) {
  return [centred(draws[0], SPAWN_REACH), centred(draws[1], SPAWN_REACH)];
}

export function difference(target, position) {
  return [target[0] - position[0], target[1] - position[1]];
}
