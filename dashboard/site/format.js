"use strict";

const SPACE = "\u00a0"; // a number and its unit stay on one line
const PREFIXES = ["p", "n", "µ", "m", "", "k", "M", "G", "T", "P"];

/** Three digits and an SI prefix: si(0.00321, "s") is "3.21 ms". @param {number} value @param {string} unit */
function si(value, unit) {
  if (value === 0) return `0${SPACE}${unit}`;
  const rounded = Number(value.toPrecision(3));
  const lowest = unit === "B" ? 0 : -4;
  const power = Math.min(Math.max(Math.floor(Math.log10(Math.abs(rounded)) / 3 + 1e-9), lowest), 5);
  if (unit === "B" && power === 0) return `${value.toFixed(0)}${SPACE}B`;
  return `${plain(rounded / 1000 ** power)}${SPACE}${PREFIXES[power + 4]}${unit}`;
}

/** Three digits without an exponent. @param {number} value */
function plain(value) {
  if (value === 0) return "0";
  const decimals = 2 - Math.floor(Math.log10(Math.abs(value)));
  return value.toFixed(Math.min(Math.max(decimals, 0), 4));
}

/** ratio(3.174) is "3.17×". @param {number} value */
function ratio(value) {
  return `${plain(Number(value.toPrecision(3)))}×`;
}

/** percent(0.138) is "14 %". @param {number} share */
function percent(share) {
  const whole = Math.round(share * 100);
  return whole < 1 && share > 0 ? "under 1 %" : `${whole}${SPACE}%`;
}

/** How many times less (or more) memory: "31× less". @param {number} times eager's bytes over these */
function lessOrMore(times) {
  if (Math.abs(times - 1) < 0.005) return "as eager";
  return times > 1 ? `${ratio(times)} less` : `${ratio(1 / times)} more`;
}

/** "too_big" is "too big". @param {string} status */
function words(status) {
  return status.replaceAll("_", " ");
}

/** At most `length` characters. @param {string} text @param {number} length */
function shorten(text, length) {
  const signs = Array.from(text);
  return signs.length > length ? `${signs.slice(0, length - 1).join("")}…` : text;
}

/**
 * An element with attributes and children; strings become text and are never parsed.
 * @param {string} name @param {Record<string, string>} attributes @param {...(Node | string)} children
 */
function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}
