// The worlds by the name of their environment.

import { movingTarget } from "./moving_target.js";
import { twoTargets } from "./two_targets.js";
import { windyNavigation } from "./windy_navigation.js";

export const WORLDS = Object.fromEntries(
  [movingTarget, windyNavigation, twoTargets].map((world) => [world.envId, world]),
);
