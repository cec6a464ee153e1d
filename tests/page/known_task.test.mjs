// The player that knows the task, with a worker whose plans come when the test wants them.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { KnownTaskPlayer } from "../../serve/page/js/known_task/player.js";
import { flyStraight, lookAhead } from "../../serve/page/js/known_task/policies.js";
import { solve } from "../../serve/page/js/known_task/solve.js";
import { WORLDS } from "../../serve/page/js/worlds/index.js";

const world = WORLDS["nmn_keras/TwoTargets-v0"];
const TASK = [0.5, 0.5, -0.6, -0.4, 1];
const SWAPPED = [...TASK.slice(0, 4), -1];
/** Places where the plan and the straight way to either target differ. */
const PLACES = [[0.1, 0.9], [-0.3, -1.2], [-0.1, -0.6], [1.2, -1.1], [0.9, -0.3], [-1.3, 0.4]];

class HeldWorker extends EventTarget {
  asked = [];

  constructor(url, { type }) {
    super();
    assert.ok(url.pathname.endsWith("/known_task/worker.js") && type === "module");
    worker = this;
  }

  postMessage(message) {
    this.asked.push(message);
  }

  /** Answer the last question. */
  answer() {
    const { envId, task } = this.asked.at(-1);
    this.dispatchEvent(Object.assign(new Event("message"), { data: solve(WORLDS[envId], task) }));
  }

  terminate() {
    this.ended = true;
  }
}

globalThis.Worker = HeldWorker;
let worker;
let player;
let news;

beforeEach(async () => {
  news = [];
  player = new KnownTaskPlayer(world, () => news.push(player.news));
  await player.open();
});

const act = (position, task) => player.step(world.observation(position, task), null, task).then(({ action }) => action[0]);

async function plays(choose, task) {
  for (const place of PLACES) assert.equal(await act(place, task), choose(place));
}

const straight = (task) => (place) => flyStraight(world, task, place);

test("it flies straight until its plan is there, then looks ahead", async () => {
  const planned = lookAhead(world, solve(world, TASK));
  assert.ok(PLACES.some((place) => planned(place) !== straight(TASK)(place)));
  await plays(straight(TASK), TASK);
  assert.equal(worker.asked.length, 1);
  worker.answer();
  await plays(planned, TASK);
  assert.match(news.at(-1), /^expects 1\d\.\d per step/);
});

test("no plan is used for another task than its own", async () => {
  player.foresee(TASK);
  worker.answer();
  await plays(straight(SWAPPED), SWAPPED);
  worker.answer();
  await plays(lookAhead(world, solve(world, SWAPPED)), SWAPPED);
});

test("of the tasks that come while a plan is worked out the last is next", () => {
  const tasks = [0, 0.1, 0.2, 0.3].map((x) => TASK.toSpliced(0, 1, x));
  for (const task of tasks) player.foresee(task);
  worker.answer();
  worker.answer();
  assert.deepEqual(worker.asked.map(({ task }) => task[0]), [0, 0.3]);
  assert.match(player.news, /^expects/);
});

test("that it takes long is said", async () => {
  player.foresee(TASK);
  assert.equal(player.news, "");
  await new Promise((resolve) => setTimeout(resolve, 600));
  assert.match(news.at(-1), /working out its plan and flies straight/);
});

test("a worker that fails is said, and ended with the player", async () => {
  player.foresee(TASK);
  worker.dispatchEvent(new Event("error"));
  assert.match(news.at(-1), /cannot work out a plan/);
  await plays(straight(SWAPPED), SWAPPED);
  player.close();
  assert.ok(worker.ended);
});
