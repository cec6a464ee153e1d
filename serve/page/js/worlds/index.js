// The worlds by the name of their environment, and the world of an agent.

import { cartPole } from "./cart_pole.js";
import { movingTarget } from "./moving_target.js";
import { pendulum } from "./pendulum.js";
import { twoTargets } from "./two_targets.js";
import { windyNavigation } from "./windy_navigation.js";

export const WORLDS = Object.fromEntries(
  [movingTarget, windyNavigation, twoTargets].map((world) => [world.envId, world]),
);
/** Makers of worlds whose physics can be hidden. */
const PHYSICS = { "Pendulum-v1": pendulum, "CartPole-v1": cartPole };
/** Wraps an environment, its argument `env`, and draws `parameters` of it anew in each episode. */
const HIDDEN_PARAMETERS = "nmn_keras/HiddenParameters-v0";

/** The world that an agent was made for, from what the server says of it; null if the page has none. */
export function worldOf({ env_id: envId, env_kwargs: given = {}, observation, action }) {
  if (Object.hasOwn(WORLDS, envId)) return WORLDS[envId];
  const hides = envId === HIDDEN_PARAMETERS;
  const [env, parameters] = hides ? [given.env, given.parameters ?? {}] : [envId, {}];
  const altered = !hides && Object.keys(given).some((name) => name !== "max_episode_steps"); // arguments may alter physics
  if (!Object.hasOwn(PHYSICS, env) || altered) return null;
  const world = PHYSICS[env](parameters);
  const fits = world?.observationSize === observation.low.length && world.choices === (action.sizes?.[0] ?? null);
  return fits ? world : null;
}
