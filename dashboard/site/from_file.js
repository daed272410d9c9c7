"use strict";

/**
 * Lets asv's pages be opened from a file: browsers refuse fetch() there, but load scripts, and beside every x.json
 * stands x.json.js, which hands the same data to answerFromFile. Over http requests go their way.
 */
/** @type {Map<string, unknown>} */
const answers = new Map();

/** Called by each x.json.js. @param {string} name @param {unknown} data */
function answerFromFile(name, data) {
  answers.set(name, data);
}

/** @param {string} address relative to the page @returns {Promise<Response>} */
function readAsScript(address) {
  return new Promise((resolve) => {
    const script = document.createElement("script");
    script.src = `${address}.js`;
    script.onload = () => resolve(new Response(JSON.stringify(answers.get(decodeURIComponent(address)))));
    script.onerror = () => resolve(new Response("", { status: 404 }));
    document.head.append(script);
  });
}

/** Names of the JSON files there are, from published.js: what was never published is not worth a failing request. */
/** @type {Set<string>} */
const published = new Set();

/** Called by published.js. @param {string[]} names */
function publish(names) {
  for (const name of names) published.add(name);
}

const fetchOverHttp = window.fetch.bind(window);
window.fetch = async (request, options) => {
  const address = String(request).replace(/^\.\//, "").replace(/[?#].*$/, "");
  if (!published.has(decodeURIComponent(address))) return new Response("", { status: 404 });
  return location.protocol === "file:" ? readAsScript(address) : fetchOverHttp(request, options);
};
