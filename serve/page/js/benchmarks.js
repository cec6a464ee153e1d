// The worlds in words, and what the page adds to them.

import { worldOf } from "./worlds/index.js";

/** Players that need no server: theory, in this browser. */
export const BAYES = "Bayes-optimal player";
export const KNOWN_TASK = "Player that knows the task";

/** What one button changes: the good target becomes the bad one, a long pole a short one. */
const SWAP = {
  label: "Swap good and bad",
  help: "The good target becomes the bad one; only a player that knows the task is told.",
  words: "targets swapped",
  change: (task) => [...task.slice(0, 4), -task[4]],
};
const OTHER_LENGTH = {
  label: "Other length",
  help: "A long pole becomes a short one, a short one long; the agent is not told.",
  words: "length changed",
  change: ([length, ...others], { ranges: [[low, high]], taskBounds }) => {
    const [short, long] = low < high ? [low, high] : [length / 2, Math.min(2 * length, taskBounds.high[0])];
    return [length > (short + long) / 2 ? short : long, ...others];
  },
};

/** Steps per second that a world begins with. */
const CALM = 5;
const LIVELY = 30;

export const BENCHMARKS = [
  {
    name: "b1",
    envId: "nmn_keras/MovingTarget-v0",
    title: "Moving target",
    story:
      "A goal hides on a line. The agent sees a reading of it that is off by a hidden bias, names a point, and is paid 10 for a hit; a miss costs its distance. It has to find out the bias from its rewards.",
    dragging: "Drag the violet goal in the picture, or use the slider.",
    averaged: 20,
    speed: CALM,
    theory: BAYES,
  },
  {
    name: "b2",
    envId: "nmn_keras/WindyNavigation-v0",
    title: "Windy navigation",
    story:
      "The agent flies to a target that pays 100; every other step costs 2. It sees the way to the target, but not the wind, which it has to find out from where it is blown. The square has no edges: who leaves on one side comes in on the other.",
    dragging: "Drag the target or the compass in the picture, or use the sliders.",
    averaged: 50,
    speed: CALM,
    theory: KNOWN_TASK,
  },
  {
    name: "b3",
    envId: "nmn_keras/TwoTargets-v0",
    title: "Two targets",
    story:
      "One target pays 100, the other costs 50. The agent sees where both are, but not which is which: it has to try, and remember. In a target it is sent elsewhere. The square has no edges: who leaves on one side comes in on the other.",
    dragging: "Drag the targets in the picture, or use the sliders.",
    averaged: 50,
    speed: CALM,
    swap: SWAP,
    theory: KNOWN_TASK,
  },
  {
    name: "pendulum",
    envId: "Pendulum-v1",
    title: "Pendulum, hidden physics",
    story:
      "A motor that is too weak to lift it swings a rod up and holds it there. The agent sees where the rod points and how fast it turns, but neither how long it is nor how strong the motor: it has to find out from how the rod moves. Every step costs the more the further the rod is from upright and the faster it turns. Violet is what is hidden.",
    dragging: "Drag the violet end of the rod, or use the sliders.",
    averaged: 50,
    speed: LIVELY,
    theory: null,
    swap: OTHER_LENGTH,
    noTicks: true,
  },
  {
    name: "cart-pole",
    envId: "CartPole-v1",
    title: "Cart and pole, hidden physics",
    story:
      "A cart is pushed left or right so that a pole stays upright and the cart on its track. The agent sees where both are and how fast they move, but neither how long the pole is nor how hard the motor pushes: it has to find out from how they move. A pole that falls is put up again; the agent keeps its memory. Violet is what is hidden.",
    dragging: "Drag the violet end of the pole, or use the sliders.",
    averaged: 1,
    speed: LIVELY,
    theory: null,
    swap: OTHER_LENGTH,
    shown: { title: "Steps since the pole fell", caption: "Steps since the pole fell last; low ticks are falls." },
  },
];

/** The entry of an agent's world, from what the server says of the agent; null if the page has no such world. */
export function benchmarkOf(agent) {
  const world = worldOf(agent);
  return world && BENCHMARKS.find(({ envId }) => envId === world.envId);
}

/** The mean reward per step of who knows the task from the start, from an agent's published scores; null if unknown. */
export function optimumPerStep({ references = {}, protocol, published }) {
  if (references.optimal_discounted_return) return 10; // b1: every step hits once the bias is known
  const known = references.known_task_discounted_return;
  if (!known) return null;
  const { discount } = protocol;
  return (known * (1 - discount)) / (1 - discount ** published.deterministic.length);
}
