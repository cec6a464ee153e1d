// The picture that belongs to a world.

import { movingTarget } from "../worlds/moving_target.js";
import { LineView } from "./line_view.js";
import { SquareView } from "./square_view.js";

export function createView(canvas, world) {
  return world === movingTarget ? new LineView(canvas, world) : new SquareView(canvas, world);
}
