// What all worlds share: numbers in their limits, and the modulo of Python, which is never negative.

export function clip(x, low, high) {
  return Math.min(high, Math.max(low, x));
}

export function modulo(x, period) {
  return x - period * Math.floor(x / period);
}

/** A uniform number on [0, 1) made one on [-reach, reach). */
export function centred(draw, reach) {
  return reach * (2 * draw - 1);
}
