// The picture that belongs to a world.

import { movingTarget } from "../worlds/moving_target.js";
import { CartPoleView } from "./cart_pole_view.js";
import { LineView } from "./line_view.js";
import { PendulumView } from "./pendulum_view.js";
import { SquareView } from "./square_view.js";

const VIEWS = { pendulum: PendulumView, "cart-pole": CartPoleView };

export function createView(canvas, world) {
  const View = VIEWS[world.view] ?? (world === movingTarget ? LineView : SquareView);
  return new View(canvas, world);
}
