// The benchmarks in words, and the numbers that the page adds to their worlds.

/** Players that need no server: theory, in this browser. */
export const BAYES = "Bayes-optimal player";
export const KNOWN_TASK = "Player that knows the task";

export const BENCHMARKS = [
  {
    name: "b1",
    envId: "nmn_keras/MovingTarget-v0",
    title: "Moving target",
    story:
      "A goal hides on a line. The agent sees a reading of it that is off by a hidden bias, names a point, and is paid 10 for a hit; a miss costs its distance. It has to find out the bias from its rewards.",
    averaged: 20,
    theory: BAYES,
  },
  {
    name: "b2",
    envId: "nmn_keras/WindyNavigation-v0",
    title: "Windy navigation",
    story:
      "The agent flies to a target that pays 100; every other step costs 2. It sees the way to the target, but not the wind, which it has to find out from where it is blown. The square has no edges: who leaves on one side comes in on the other.",
    averaged: 50,
    theory: KNOWN_TASK,
  },
  {
    name: "b3",
    envId: "nmn_keras/TwoTargets-v0",
    title: "Two targets",
    story:
      "One target pays 100, the other costs 50. The agent sees where both are, but not which is which: it has to try, and remember. In a target it is sent elsewhere. The square has no edges: who leaves on one side comes in on the other.",
    averaged: 50,
    theory: KNOWN_TASK,
  },
];

export function benchmarkOf(envId) {
  return BENCHMARKS.find((benchmark) => benchmark.envId === envId) ?? null;
}

/** The mean reward per step of who knows the task from the start, from an agent's published scores; null if unknown. */
export function optimumPerStep({ references, protocol, published }) {
  if (references.optimal_discounted_return) return 10; // b1: every step hits once the bias is known
  const known = references.known_task_discounted_return;
  if (!known) return null;
  const { discount } = protocol;
  return (known * (1 - discount)) / (1 - discount ** published.deterministic.length);
}
