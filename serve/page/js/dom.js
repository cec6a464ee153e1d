// The page's elements. Text is set as text, never as HTML.

export function byId(id) {
  return document.getElementById(id);
}

/** Make an element with attributes and children, which are elements or texts. */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

/** Fill a select with `[value, text]` pairs and choose one of them. */
export function fillSelect(select, options, chosen) {
  select.replaceChildren(...options.map(([value, text]) => make("option", { value }, text)));
  select.value = chosen;
}
