// The view of how long the parts of steps take each worker.
import {make, numberCell, table} from '/elements.js';
import {drawLanes, PHASES} from '/lanes.js';
import {formatNumber} from '/numbers.js';

// Shows the view; `data` is an answer of /api/lines, `choose` the choice of a
// run.
export function renderTime(data, choose) {
  const lines = data.lines;
  const ranks = [...new Set(lines.flatMap((line) => (line.workers ?? []).map((w) => w.rank)))].sort((a, b) => a - b);
  const means = ranks.map((rank) => {
    const rows = lines.flatMap((line) => (line.workers ?? []).filter((w) => w.rank === rank));
    const mean = (name) => rows.reduce((sum, row) => sum + (row[name] ?? 0), 0) / rows.length;
    return {rank, ...Object.fromEntries(
        ['leaves', ...PHASES.map((p) => `${p}_ms`), 'waiting_ms'].map((name) => [name, mean(name)]))};
  });
  const blamed = new Map();
  for (const line of lines) {
    if (!line.waiting || !(line.waiting.ms > 0)) continue;
    const entry = blamed.get(line.waiting.rank) ?? {lines: 0, ms: 0, phases: {}};
    ++entry.lines;
    entry.ms += line.waiting.ms;
    entry.phases[line.waiting.phase] = (entry.phases[line.waiting.phase] ?? 0) + 1;
    blamed.set(line.waiting.rank, entry);
  }
  const [worst] = [...blamed].sort((a, b) => b[1].ms - a[1].ms);
  let verdict = 'No worker makes the others wait.';
  if (worst) {
    const [rank, entry] = worst;
    const [phase] = Object.entries(entry.phases).sort((a, b) => b[1] - a[1])[0];
    verdict = `The others wait most for worker ${rank}: ${formatNumber(entry.ms / entry.lines)} ms in a step` +
        `${phase ? `, because of its ${phase}` : ''} (in ${entry.lines} of ${lines.length} lines).`;
  }
  const longest = Math.max(...means.map((m) => PHASES.reduce((sum, p) => sum + m[`${p}_ms`], 0)), 1e-9);
  const bar = (m) => make('td', {}, make('div', {className: 'bar'}, ...PHASES.map((phase) => {
    const part = make('div', {className: phase, title: `${phase} ${formatNumber(m[`${phase}_ms`])} ms`});
    part.style.width = `${100 * m[`${phase}_ms`] / longest}%`;
    return part;
  })));
  const canvas = make('canvas', {role: 'img', 'aria-label': `Parts of steps by worker. ${verdict}`});
  document.getElementById('view').replaceChildren(choose(),
      make('p', {id: 'verdict'}, lines.length === 0 ? 'There are no lines with workers yet.' : verdict),
      make('p', {className: 'muted'}, ...PHASES.flatMap((phase) => [
        make('span', {className: `swatch ${phase}`}), `${phase === 'exchange' ? 'exchange (waiting for weights)' : phase}   `]),
      'Columns are steps; an outline marks the worker that the others wait for.'),
      canvas,
      make('h2', {}, lines.length === 0 ? 'Means' :
          `Means of steps ${lines[0].step} to ${lines.at(-1).step} (${lines.length} lines), in milliseconds`),
      table('workers', ['worker', '', '#micro-batches', '#forward', '#backward', '#data', '#exchange',
        '#waited for others'],
          means.map((m) => make('tr', {}, make('td', {}, `worker ${m.rank}`), bar(m),
              ...['leaves', ...PHASES.map((p) => `${p}_ms`), 'waiting_ms'].map((name) => numberCell(m[name]))))));
  drawLanes(canvas, lines, ranks);
}

// The step of the line that is `count` lines before the newest one, as far as
// the groups of the series tell.
export function stepBack(series, count) {
  const groups = Math.ceil(count * series.step.length / Math.max(1, series.lines));
  return series.step.at(-Math.min(series.step.length, Math.max(groups, series.grouped ? 1 : count))) ?? 0;
}
