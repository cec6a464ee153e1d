// What an environment draws anew of its physics: attributes by name, as nmn_keras/HiddenParameters-v0 is told them.

/**
 * The part of a world that is about its task: `hidden` are the places of what is drawn, and `task` makes a task of random
 * numbers, one for each of `attributes`. Without parameters those that have a range of their own are drawn. Null if
 * `parameters` names something else, or in another way than by its bounds.
 */
export function taskOf(attributes, parameters) {
  const given = Object.fromEntries(
    Object.entries(parameters).map(([name, bounds]) => [name.replace(/^unwrapped\./, ""), bounds]),
  );
  const known = attributes.map(({ name }) => name);
  if (!Object.entries(given).every(([name, bounds]) => known.includes(name) && isRange(bounds))) return null;
  const drawn = Object.keys(given).length > 0;
  const ranges = attributes.map(({ name, usual, hidden }) => (drawn ? given[name] : hidden) ?? [usual, usual]);
  return {
    ranges,
    hidden: known.flatMap((_, index) => (ranges[index][0] < ranges[index][1] ? [index] : [])),
    task: (draws) => ranges.map(([low, high], index) => low + draws[index] * (high - low)),
  };
}

function isRange(bounds) {
  return Array.isArray(bounds) && bounds.length === 2 && bounds.every(Number.isFinite) && bounds[0] <= bounds[1];
}
