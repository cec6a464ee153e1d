// Learning curves of an agent's seeds: validated discounted return over episodes of training.

import uPlot from "../../vendor/uPlot.esm.js";
import { getColours } from "../drawing/colours.js";
import { axis } from "./time_chart.js";

/** Draw the curves and return what lines there are, for those who cannot see them. */
export function drawCurves(holder, csv, optimum) {
  const runs = readCurves(csv);
  const episodes = [...new Set(runs.flatMap(({ points }) => [...points.keys()]))].sort((a, b) => a - b);
  const columns = runs.map(({ points }) => episodes.map((episode) => points.get(episode)));
  const series = runs.map((_, index) => ({
    stroke: `hsl(${Math.round((360 * index) / runs.length)} 60% 45%)`,
    width: 1.5,
    spanGaps: true,
    points: { show: false },
  }));
  if (optimum !== null) series.push({ stroke: () => getColours().ink, dash: [3, 4], points: { show: false } });
  const data = [episodes, ...columns, ...(optimum === null ? [] : [episodes.map(() => optimum)])];
  const options = {
    width: holder.clientWidth || 300,
    height: 220,
    legend: { show: false },
    cursor: { show: false },
    scales: { x: { time: false } },
    series: [{}, ...series],
    axes: [axis(), axis({ size: 58 })],
  };
  const plot = new uPlot(options, data, holder);
  new ResizeObserver(() => plot.setSize({ width: holder.clientWidth, height: 220 })).observe(holder);
  return runs.map(({ name, points }) => `${name}: ${Math.round([...points.values()].at(-1))} at last`);
}

/** The validated points of each run of a `curves.csv`: `{name, points: Map(episodes -> return)}`. */
export function readCurves(csv) {
  const [header, ...rows] = csv.trim().split("\n").map((row) => row.split(","));
  const column = Object.fromEntries(header.map((name, index) => [name, index]));
  const runs = new Map();
  for (const row of rows) {
    const value = row[column.val_discounted_return];
    if (!value) continue;
    const name = `${row[column.recipe]} recipe, seed ${row[column.seed]}`;
    if (!runs.has(name)) runs.set(name, new Map());
    runs.get(name).set(Number(row[column.episodes]), Number(value));
  }
  return [...runs].map(([name, points]) => ({ name, points }));
}
