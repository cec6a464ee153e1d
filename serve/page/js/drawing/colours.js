// The colours of the style sheet, for canvases: they follow dark mode.

const NAMES = ["ink", "faint", "paper", "field", "spawn", "seen", "hidden", "good", "bad", "first", "second"];
let colours = null;

export function getColours() {
  if (colours === null) {
    const style = getComputedStyle(document.documentElement);
    colours = Object.fromEntries(NAMES.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
  }
  return colours;
}

/** Calls back when colours have changed. */
export function watchColours(onChange) {
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    colours = null;
    onChange();
  });
}
