/**
 * Data that is too much for the page itself: each data/NAME.js hands its content to `received`. Scripts are loaded, not
 * fetched, since browsers refuse fetch() to a page that was opened from a file.
 * @type {Map<string, Promise<any>>}
 */
const loads = new Map();
/** @type {Map<string, any>} */
const received = new Map();

/** Called by each data file. @param {string} name @param {unknown} content */
function receive(name, content) {
  received.set(name, content);
}

/** The content of data/NAME.js, loaded once. @param {string} name @returns {Promise<any>} */
function load(name) {
  const known = loads.get(name);
  if (known) return known;
  const loading = new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = `data/${encodeURIComponent(name)}.js`;
    script.onload = () => received.has(name) ? resolve(received.get(name)) : reject(new Error(`data/${name}.js is broken`));
    script.onerror = () => reject(new Error(`data/${name}.js could not be read: was the whole site copied?`));
    document.head.append(script);
  });
  loads.set(name, loading);
  loading.catch(() => loads.delete(name));
  return loading;
}

/** The cells and verdicts of a commit, from the page or from its file. @param {Commit} commit @returns {Promise<void>} */
async function loadCommit(commit) {
  if (!commit.cells) Object.assign(commit, await load(/** @type {string} */ (commit.file)));
}
