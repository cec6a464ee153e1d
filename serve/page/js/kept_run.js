// A run that outlives a reload of its page: what `Lab.keep` gives, in the storage of the browser's tab.

const KEY = "nmn_keras run";
/** Of what is stored; another form is not read. */
const FORM = 1;

/** The run that a reload, or going away and back, interrupted; null if there is none. It is given once. */
export function takeRun() {
  try {
    const stored = JSON.parse(sessionStorage.getItem(KEY));
    sessionStorage.removeItem(KEY); // a copy of this tab must not step the same session
    const [{ type }] = performance.getEntriesByType("navigation");
    return stored?.form === FORM && ["reload", "back_forward"].includes(type) ? stored.run : null;
  } catch {
    return null; // no storage, or not ours
  }
}

export function keepRun(run) {
  try {
    sessionStorage.setItem(KEY, JSON.stringify({ form: FORM, run }));
  } catch {
    // Storage is closed or full: a reload then begins anew.
  }
}
