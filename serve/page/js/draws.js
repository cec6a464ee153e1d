// Uniform numbers on [0, 1) that follow from a seed and a step's number alone, so that two agents side by side,
// each in its own copy of the world, meet the same chance.

export function drawsAt(seed, step, count) {
  const next = generator(mix(mix(seed) ^ step));
  next();
  return Array.from({ length: count }, next);
}

export function randomSeed() {
  return crypto.getRandomValues(new Uint32Array(1))[0];
}

/** mulberry32: 32 bits of state, good enough for a world on a page. */
function generator(state) {
  let a = state;
  return () => {
    a = (a + 0x6d2b79f5) | 0;
    let t = Math.imul(a ^ (a >>> 15), 1 | a);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Neighbouring seeds and steps begin far apart. */
function mix(x) {
  let h = Math.imul(x ^ (x >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return h ^ (h >>> 16);
}
