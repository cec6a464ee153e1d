// Functions on the torus of benchmarks 2 and 3 as tables over square cells, and what they are at other places.
// A table is a Float32Array of CELLS rows along the first coordinate; a padded one has MARGIN more cells on each side,
// which continue it around the edges, so that every place that one move leads to is inside.

import { MOVE, REACH } from "../worlds/plane.js";

/** Cells of the grid on each side. */
export const CELLS = 80;
const SCALE = CELLS / (2 * REACH);
const MARGIN = Math.ceil(MOVE * SCALE) + 1;
const STRIDE = CELLS + 2 * MARGIN;

/** The middle of a cell, or of a part of one: index 0.5 is between the first two cells. */
export function coordinate(index) {
  return (index + 0.5) / SCALE - REACH;
}

export function emptyTable() {
  return new Float32Array(CELLS * CELLS);
}

export function emptyPadded() {
  return new Float32Array(STRIDE * STRIDE);
}

/** Write a table and what continues it around the edges into a padded one. */
export function pad(table, padded) {
  for (let row = 0; row < STRIDE; row += 1) {
    const from = ((row - MARGIN + CELLS) % CELLS) * CELLS;
    const to = row * STRIDE;
    padded.set(table.subarray(from + CELLS - MARGIN, from + CELLS), to);
    padded.set(table.subarray(from, from + CELLS), to + MARGIN);
    padded.set(table.subarray(from, from + MARGIN), to + MARGIN + CELLS);
  }
  return padded;
}

/** The value of a padded table at any place that is one move from the square at most, bilinear. */
export function interpolate(padded, [x, y]) {
  const { start, weights } = corner(x * SCALE + CELLS / 2 - 0.5, y * SCALE + CELLS / 2 - 0.5);
  const below = start + STRIDE;
  const upper = weights[0] * padded[start] + weights[1] * padded[start + 1];
  return upper + weights[2] * padded[below] + weights[3] * padded[below + 1];
}

/** Moves as what `average` and `greatest` need of them: on a torus every move shifts the whole table. */
export function shiftsOf(moves) {
  return moves.map(([x, y]) => corner(x * SCALE, y * SCALE));
}

/** Write the mean over shifts of the table's value where each leads to. */
export function average(padded, shifts, table) {
  table.fill(0);
  const share = (weight) => weight / shifts.length;
  for (const { start, weights } of shifts) eachRow(addRow, padded, start, weights.map(share), table);
}

/** Write the greatest of the table's values where the shifts lead to. */
export function greatest(padded, shifts, table) {
  table.fill(-Infinity);
  for (const { start, weights } of shifts) eachRow(raiseRow, padded, start, weights, table);
}

function eachRow(act, padded, start, [a, b, c, d], table) {
  for (let row = 0; row < CELLS; row += 1) act(padded, start + row * STRIDE, a, b, c, d, table, row * CELLS);
}

// The innermost loops. Written twice and with plain arguments they take about two thirds of the time.

function addRow(padded, start, a, b, c, d, table, to) {
  for (let i = 0, from = start; i < CELLS; i += 1, from += 1) {
    const upper = a * padded[from] + b * padded[from + 1];
    table[to + i] += upper + c * padded[from + STRIDE] + d * padded[from + STRIDE + 1];
  }
}

function raiseRow(padded, start, a, b, c, d, table, to) {
  for (let i = 0, from = start; i < CELLS; i += 1, from += 1) {
    const upper = a * padded[from] + b * padded[from + 1];
    const value = upper + c * padded[from + STRIDE] + d * padded[from + STRIDE + 1];
    if (value > table[to + i]) table[to + i] = value;
  }
}

/** Where in a padded table the upper left of four neighbours is, and the weights of the four. */
function corner(row, column) {
  const [i, j] = [Math.floor(row), Math.floor(column)];
  const [down, right] = [row - i, column - j];
  return {
    start: (i + MARGIN) * STRIDE + j + MARGIN,
    weights: [(1 - down) * (1 - right), (1 - down) * right, down * (1 - right), down * right],
  };
}
