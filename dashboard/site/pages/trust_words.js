/** The value below which a share `p` of the values lies. @param {number[]} values @param {number} p */
function quantileOf(values, p) {
  return [...values].sort((a, b) => a - b)[Math.round(p * (values.length - 1))];
}

/** @param {Timed[]} timed */
function knownChanges(timed) {
  return timed.flatMap(({ noise }) => noise?.by_rounds == null ? [] : [noise.by_rounds]);
}

/** @param {Trust} trust */
function noiseInShort({ timed }) {
  const changes = knownChanges(timed);
  const of = `Of ${counted(timed.length, "timed cell")} (${timed[0].cell.dtype}, ${timed[0].cell.direction})`;
  if (changes.length) return `${of}, half can tell a change of ${fine(quantileOf(changes, 0.5))} from chance.`;
  return `${of}, half have an interval that is ${fine(2 * quantileOf(timed.map(({ cell }) => halfWidth(cell)), 0.5))} of the median wide, or less.`;
}

/** @param {Trust} trust */
function noiseInWords({ timed, index, kept }) {
  const changes = knownChanges(timed);
  if (!kept) return `The samples of the newest ${index.kept} commits are in this site; of this one the intervals alone.`;
  if (!changes.length) return "Their samples do not say in which round each was taken, so that more is not known.";
  const unknown = timed.length - changes.length;
  return `The quietest can tell ${fine(Math.min(...changes))}; a tenth of them only ${fine(quantileOf(changes, 0.9))} or more, and the noisiest ${fine(Math.max(...changes))}.`
    + (unknown ? ` Of ${unknown} this is not known, since they were taken in one round.` : "");
}

/** @param {Timed[]} timed */
function disturbancesInWords(timed) {
  const problem = (/** @type {Timed} */ { cell }) => JSON.stringify([cell.operation, cell.level, cell.S, cell.R, cell.T, cell.N_head, cell.c, cell.B, cell.mask]);
  const disturbed = timed.filter(({ cell }) => cell.disturbed);
  const again = timed.reduce((sum, { noise }) => sum + (noise?.discarded ?? 0), 0);
  const retaken = again ? ` ${counted(again, "round")} were disturbed and taken again.` : "";
  if (disturbed.length === 0) return `No round was marked as disturbed while they were timed.${retaken}`;
  const reasons = distinct(disturbed, ({ cell }) => cell.disturbed);
  return `${disturbed.length} (${percent(disturbed.length / timed.length)}) were disturbed, on ${distinct(disturbed, problem).length} of ${counted(distinct(timed, problem).length, "problem")}: `
    + `${reasons.slice(0, 3).map((reason) => shorten(reason, 120)).join("; ")}${reasons.length > 3 ? "; and others" : ""}.${retaken}`;
}

/** Smallest and largest of what is known of the machine, before or after. @param {Timed[]} timed @param {string} name */
function rangeOf(timed, name) {
  const values = timed.flatMap(({ noise }) => noise?.state[name] ?? []).filter((value) => value !== null);
  return values.length ? [Math.min(...values), Math.max(...values)] : null;
}

/** @param {Timed[]} timed */
function stateInWords(timed) {
  const [load, mhz, steal, others] = ["load1", "mhz", "steal", "others"].map((name) => rangeOf(timed, name));
  const between = (/** @type {number[]} */ [low, high], /** @type {(value: number) => string} */ say) => say(low) === say(high) ? say(low) : `${say(low)} to ${say(high)}`;
  const parts = [
    load && `a load average of ${between(load, (value) => value.toFixed(1))}`,
    mhz && `a clock of ${between(mhz, (value) => `${Math.round(value).toLocaleString("en")}${SPACE}MHz`)}`,
    steal && `${upTo(steal[1])} of the CPUs’ time taken by the hypervisor`,
    others && `${upTo(others[1])} of it by other processes`,
  ].filter(Boolean);
  return parts.length ? `The machine, before and after each problem: ${parts.join(", ")}.` : "";
}

/** @param {number} share */
function upTo(share) {
  return share === 0 ? "nothing" : `at most ${fine(share)}`;
}

/** @param {Swept[]} sweeps */
function sweepInWords(sweeps) {
  const ended = sweeps.filter(({ wall_seconds, timed_seconds }) => wall_seconds && timed_seconds !== null);
  const [wall, timed] = (/** @type {const} */ (["wall_seconds", "timed_seconds"])).map((name) => ended.reduce((sum, sweep) => sum + Number(sweep[name]), 0));
  if (!ended.length) return "";
  return `Of the ${si(wall, "s")} that this commit’s sweeps took, ${percent(timed / wall)} were inside timed calls; the rest starts processes, builds, checks the answers and warms up.`;
}

/** Each anchor over its median of all commits. @param {[string, Record<string, number>][]} anchors */
function anchorShares(anchors) {
  const names = [...new Set(anchors.flatMap(([, seconds]) => Object.keys(seconds)))];
  return names.flatMap((name) => {
    const own = anchors.flatMap(([hash, seconds], at) => name in seconds ? [{ hash, at, seconds: seconds[name] }] : []);
    const middle = quantileOf(own.map(({ seconds }) => seconds), 0.5);
    return own.map((each) => ({ ...each, name, share: each.seconds / middle }));
  });
}

/** @param {[string, Record<string, number>][]} anchors */
function anchorsInWords(anchors) {
  if (anchors.length < 2) return "";
  const shares = anchorShares(anchors);
  const spans = distinct(shares, ({ name }) => name).map((name) => {
    const own = shares.filter((each) => each.name === name).map(({ share }) => share);
    return `${shorten(name, 40)} by ${fine(Math.max(...own) / Math.min(...own) - 1)}`;
  });
  return `Calls that no commit can change moved over ${anchors.length} commits nevertheless: ${spans.join(", ")}.`;
}

/** @param {Trust} trust */
function leftOutInWords({ leftOut, timed, kept }) {
  const unseen = timed.filter(({ noise }) => noise && !noise.samples).length;
  return kept && leftOut ? [`The samples of ${counted(leftOut, "cell")} of this commit (${unseen} of those shown) were left out, to keep the site small; the journal has them.`] : [];
}
