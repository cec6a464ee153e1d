// Plays what the test sends on standard input with the page's worlds and policies, and answers what came of it.

import { readFileSync } from "node:fs";
import { BayesPlayer } from "../../serve/page/js/bayes.js";
import { Actor } from "../../serve/page/js/actor.js";
import { drawsAt } from "../../serve/page/js/draws.js";
import { Experiment } from "../../serve/page/js/experiment.js";
import { flyStraight, lookAhead } from "../../serve/page/js/known_task/policies.js";
import { solve } from "../../serve/page/js/known_task/solve.js";
import { gainsOf, readModulation } from "../../serve/page/js/modulation.js";
import { worldOf, WORLDS } from "../../serve/page/js/worlds/index.js";

/** Positions, rewards and observations of given actions; the position is the world's own from step to step. */
function playWorld({ envId, taskDraws, startDraws, steps }) {
  const world = WORLDS[envId];
  let task = world.task(taskDraws);
  let position = world.start(task, startDraws);
  const played = [{ task, position, observation: world.observation(position, task) }];
  for (const { action, draws, newTask } of steps) {
    if (newTask) task = newTask;
    const outcome = world.step(position, task, action, draws);
    position = outcome.position;
    played.push({ ...outcome, observation: world.observation(position, task) });
  }
  return played;
}

/** Positions, rewards and observations in a world of hidden physics, each step from the position before. */
function playPhysics({ card, start, steps }) {
  const world = worldOf(card);
  if (world === null) return null;
  let position = world.start(steps[0].task, start);
  const played = [{ position, observation: world.observation(position) }];
  for (const { task, action } of steps) {
    const outcome = world.step(position, task, action, start);
    position = outcome.position;
    played.push({ ...outcome, observation: world.observation(position) });
  }
  return { drawn: world.task([0.25, 0.25, 0.25, 0.25]), played };
}

async function playBayes({ steps }) {
  const player = new BayesPlayer();
  const actions = [];
  for (const { observation, reward } of steps) actions.push((await player.step(observation, reward)).action);
  return actions;
}

/** Two players of one kind side by side: everything either of them met. */
async function playTwins({ envId, seed, steps }) {
  const world = WORLDS[envId];
  const actors = ["one", "other"].map((name) => new Actor({ name, kind: "theory", world, agent: new BayesPlayer() }));
  const run = new Experiment({ world, actors, seed, averaged: 20 });
  const met = actors.map(() => []);
  for (let step = 0; step < steps; step += 1) {
    if (step === steps / 2) run.newTask();
    if (step === steps - 10) await run.resetMemory();
    await run.step();
    actors.forEach(({ last, position }, index) => met[index].push([...last.action, last.reward, ...position]));
  }
  return { met, task: run.task, marks: run.marks, means: run.history.tracks.map(({ means }) => means) };
}

/** The plan of a task, what it does in some places, and what it and flying straight earn per step. */
function playKnownTask({ envId, task, guessFrom, positions, steps }) {
  const world = WORLDS[envId];
  const plan = solve(world, task, guessFrom && solve(world, guessFrom).after);
  const policies = [lookAhead(world, plan), (position) => flyStraight(world, task, position)];
  return {
    ...plan,
    ahead: [...plan.ahead],
    after: [...plan.after],
    actions: positions.map((position) => policies[0](position)),
    earned: policies.map((choose) => earn(world, task, choose, steps)),
  };
}

function earn(world, task, choose, steps) {
  let [position, sum] = [world.start(task, drawsAt(7, 0, world.draws.start)), 0];
  for (let step = 1; step <= steps; step += 1) {
    const outcome = world.step(position, task, [choose(position)], drawsAt(7, step, world.draws.step));
    position = outcome.position;
    sum += outcome.reward;
  }
  return sum / steps;
}

function computeGains({ file, signals }) {
  const layers = readModulation(new Uint8Array(readFileSync(file)));
  return signals.map((z) => layers.map((layer) => [...gainsOf(layer, z)]));
}

const asked = JSON.parse(readFileSync(0, "utf8"));
const answer = { worlds: asked.worlds?.map(playWorld) };
if (asked.physics) answer.physics = asked.physics.map(playPhysics);
if (asked.bayes) answer.bayes = await Promise.all(asked.bayes.map(playBayes));
if (asked.known) answer.known = asked.known.map(playKnownTask);
if (asked.gains) answer.gains = asked.gains.map(computeGains);
if (asked.twins) answer.twins = await playTwins(asked.twins);
console.log(JSON.stringify(answer));
