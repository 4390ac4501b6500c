// The dashboard. All text is inserted as text, never as HTML, because names,
// logs and job files may contain anything.
import {drawLanes, formatNumber, LineChart, PHASES} from '/charts.js';
import {clusterParts, exchangeParts} from '/cluster.js';
import {make, numberCell, table} from '/elements.js';

const VIEWS = [
  ['curves', 'Curves'], ['time', 'Where the time goes'], ['cluster', 'Processes'],
  ['exchange', 'Exchange'], ['job', 'Job'], ['log', 'Events and log'],
];
const COLORS = 6;
const POINTS = 800;
const POLL_MS = 1000, MAX_POLL_MS = 15000;
// A worker that the others wait for this many times in a row is worth an alert.
const STRAGGLER_POLLS = 10;
// Kinds of events that are reasons to look at a job.
const ALARMS = ['divergence', 'disk_low', 'nonfinite_loss', 'plateau', 'skipped_step', 'slow_worker'];
const LIVE_STATES = ['waiting', 'training', 'evaluating', 'finishing', 'recovering'];

const state = {
  runs: [], view: 'curves', shown: new Set(), x: 'step', log: false, smoothing: 0,
  from: null, to: null, focus: 0, ...readHash(),
};
const cache = new Map();  // What the server answered, by path.
const stragglers = new Map();  // The worker that the others of a run wait for.
let charts = null;
let failures = 0;

function readHash() {
  const read = new URLSearchParams(location.hash.slice(1));
  const hash = {};
  if (VIEWS.some(([id]) => id === read.get('view'))) hash.view = read.get('view');
  if (read.has('runs')) hash.shown = new Set(read.get('runs').split(',').map(Number));
  if (read.has('run')) hash.focus = Number(read.get('run')) || 0;
  if (['step', 'seconds', 'epoch'].includes(read.get('x'))) hash.x = read.get('x');
  hash.log = read.get('log') === '1';
  hash.smoothing = Math.min(0.99, Math.max(0, Number(read.get('smooth')) || 0));
  for (const name of ['from', 'to']) if (read.has(name)) hash[name] = Number(read.get(name));
  return hash;
}

function writeHash() {
  const hash = new URLSearchParams({view: state.view, runs: [...state.shown].join(','), run: state.focus, x: state.x});
  if (state.log) hash.set('log', '1');
  if (state.smoothing) hash.set('smooth', state.smoothing);
  if (state.from !== null) hash.set('from', state.from);
  if (state.to !== null) hash.set('to', state.to);
  history.replaceState(null, '', `#${hash}`);
}

async function ask(path) {
  const response = await fetch(path, {headers: {Accept: 'application/json'}});
  const json = await response.json();
  if (!response.ok) throw new Error(json.error ?? response.statusText);
  cache.set(path, json);
  return json;
}

const focused = () => state.runs.find((run) => run.id === state.focus) ?? state.runs[0];
const shownRuns = () => state.runs.filter((run) => state.shown.has(run.id));
const colorOf = (run) => `run${run.id % COLORS}`;
const isLive = (run) => run.live && LIVE_STATES.includes(run.state);

function select(view) {
  state.view = view;
  charts = null;
  document.getElementById('view').replaceChildren();
  writeHash();
  renderTabs();
  update();
}

function renderTabs() {
  const tabs = document.getElementById('views');
  tabs.replaceChildren(...VIEWS.map(([id, title]) => {
    const chosen = id === state.view;
    return make('button', {
      type: 'button', role: 'tab', id: `tab-${id}`, 'aria-selected': String(chosen), 'aria-controls': 'view',
      tabIndex: chosen ? 0 : -1, onclick: () => select(id),
      onkeydown: (event) => {
        const move = {ArrowRight: 1, ArrowLeft: -1}[event.key];
        if (!move) return;
        const next = VIEWS[(VIEWS.findIndex(([v]) => v === id) + move + VIEWS.length) % VIEWS.length][0];
        select(next);
        document.getElementById(`tab-${next}`).focus();
      },
    }, title);
  }));
  document.getElementById('view').setAttribute('aria-labelledby', `tab-${state.view}`);
}

function renderRuns() {
  const body = document.querySelector('#runs tbody');
  const focus = document.activeElement?.id;
  body.replaceChildren(...state.runs.map((run) => {
    const series = cache.get(seriesPath(run));
    const loss = series?.newest.loss ?? null;
    const speed = series?.newest.samples_per_second ?? null;
    const box = make('input', {
      type: 'checkbox', id: `show-${run.id}`, checked: state.shown.has(run.id), 'aria-label': `show ${run.name}`,
      onchange: (event) => {
        state.shown[event.target.checked ? 'add' : 'delete'](run.id);
        if (event.target.checked) state.focus = run.id;
        writeHash();
        update();
      },
    });
    const row = make('tr', {},
        make('td', {}, box),
        make('td', {title: run.path}, make('span', {className: `swatch ${colorOf(run)}`}), run.name),
        make('td', {}, run.state),
        numberCell(run.step, run.steps ? `${run.step} of ${run.steps}` : String(run.step)),
        numberCell(loss), numberCell(speed, speed === null ? '–' : `${formatNumber(speed)} ${run.unit}/s`));
    row.dataset.run = run.id;
    return row;
  }));
  if (focus) document.getElementById(focus)?.focus();
}

const eventsPath = (run) => `/api/events?run=${run.id}`;
const eventsOf = (run) => cache.get(eventsPath(run))?.events ?? [];

function seriesPath(run) {
  const zoom = state.from === null ? '' : `&from=${state.from}&to=${state.to}`;
  return `/api/series?run=${run.id}&points=${POINTS}${zoom}`;
}

// Returns the exponential moving average of the values, without the bias of its
// beginning.
function smooth(values, factor) {
  if (factor === 0) return values;
  let mean = 0, weight = 0;
  return values.map((value) => {
    if (value === null) return null;
    mean = factor * mean + (1 - factor) * value;
    weight = factor * weight + (1 - factor);
    return mean / weight;
  });
}

function controls() {
  const choice = (label, id, options, value, change) => make('label', {}, `${label} `,
      make('select', {id, onchange: (event) => { change(event.target.value); writeHash(); update(); }},
          ...options.map(([name, text]) => make('option', {value: name, selected: name === value}, text))));
  return make('div', {className: 'controls'},
      choice('x axis', 'x-axis', [['step', 'steps'], ['seconds', 'seconds'], ['epoch', 'epochs']], state.x,
          (value) => { state.x = value; state.from = state.to = null; }),
      choice('loss', 'loss-scale', [['0', 'linear'], ['1', 'logarithmic']], state.log ? '1' : '0',
          (value) => { state.log = value === '1'; }),
      make('label', {}, 'smoothing ', make('input', {
        type: 'range', id: 'smoothing', min: 0, max: 0.99, step: 0.01, value: state.smoothing,
        oninput: (event) => { state.smoothing = Number(event.target.value); writeHash(); renderCurves(); },
      })),
      make('button', {type: 'button', id: 'all', onclick: () => zoom()}, 'Show all steps'));
}

function zoom(from, to) {
  if (from === undefined) {
    state.from = state.to = null;
  } else if (state.x === 'step') {
    state.from = Math.floor(from);
    state.to = Math.ceil(to);
  } else {  // The interface takes steps.
    const series = shownRuns().map((run) => cache.get(seriesPath(run))).find((s) => s && s.step.length > 0);
    const inside = series?.step.filter((_, i) => series[state.x][i] >= from && series[state.x][i] <= to) ?? [];
    if (inside.length > 1) [state.from, state.to] = [inside[0], inside.at(-1)];
  }
  writeHash();
  update();
}

function renderCurves() {
  const view = document.getElementById('view');
  if (charts === null) {
    charts = {
      loss: new LineChart('Loss', zoom), gradient_norm: new LineChart('Gradient norm', zoom),
      samples_per_second: new LineChart('Speed (samples or tokens per second)', zoom),
      step_seconds: new LineChart('Time of a step (seconds)', zoom),
      learning_rate: new LineChart('Learning rate', zoom),
    };
    view.replaceChildren(controls(),
        make('div', {className: 'charts'}, ...Object.values(charts).map((chart) => chart.element)));
  }
  const marks = shownRuns().flatMap((run) => eventsOf(run).filter((e) => e.severity !== 'info')
      .map((e) => ({x: e.step, color: `--${colorOf(run)}`})));
  const label = {step: 'steps', seconds: 'seconds', epoch: 'epochs'}[state.x];
  for (const [field, chart] of Object.entries(charts)) {
    const lines = [];
    for (const run of shownRuns()) {
      const series = cache.get(seriesPath(run));
      if (!series) continue;
      const values = series.fields[field];
      lines.push({
        name: run.name, color: `--${colorOf(run)}`, x: series[state.x],
        y: smooth(values.mean, field === 'loss' ? state.smoothing : 0),
        ...(series.grouped ? {min: values.min, max: values.max} : {}),
      });
      if (field === 'loss' && state.x !== 'epoch' && series.evaluation.step.length > 0) {
        lines.push({name: `${run.name} evaluation`, color: `--${colorOf(run)}`, dots: true,
          x: series.evaluation[state.x], y: series.evaluation.loss});
      }
    }
    chart.set(lines, state.x === 'step' ? marks : [], state.log && ['loss', 'gradient_norm'].includes(field), label);
  }
}

function runChoice() {
  return make('div', {className: 'controls'}, make('label', {}, 'run ',
      make('select', {id: 'run-choice', onchange: (event) => {
        state.focus = Number(event.target.value);
        writeHash();
        update();
      }}, ...state.runs.map((run) =>
          make('option', {value: run.id, selected: run.id === focused().id}, run.name)))));
}

function renderTime(data) {
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
  document.getElementById('view').replaceChildren(runChoice(),
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

function showParts(parts) {
  document.getElementById('view').replaceChildren(runChoice(), ...parts);
}

function renderJob(jobs) {
  const runs = shownRuns().length > 0 ? shownRuns() : [focused()];
  const parts = [];
  if (runs.length > 1) {
    const values = runs.map((run) => new Map(jobs.get(run.id)?.fields ?? []));
    const paths = [...new Set(values.flatMap((map) => [...map.keys()]))];
    const different = paths.filter((path) => new Set(values.map((map) => map.get(path))).size > 1);
    parts.push(make('h2', {}, 'Differences'), different.length === 0 ?
        make('p', {}, 'The job files do not differ.') :
        table('differences', ['field', ...runs.map((run) => run.name)], different.map((path) =>
            make('tr', {}, make('td', {}, path), ...values.map((map) =>
                make('td', {className: 'text'}, map.has(path) ? map.get(path) || 'set' : '–'))))));
  }
  for (const run of runs) {
    const job = jobs.get(run.id);
    parts.push(make('h2', {}, run.name), make('p', {className: 'muted'}, job?.path ?? ''));
    if (job?.error) parts.push(make('p', {className: 'alert'}, job.error));
    parts.push(make('pre', {}, job?.text ?? ''));
  }
  document.getElementById('view').replaceChildren(...parts);
}

function timeText(seconds) {
  const date = new Date(1000 * seconds);
  return Number.isNaN(date.getTime()) ? '–' : date.toISOString().replace('T', ' ').slice(0, 19);
}

function eventTable(events) {
  if (events.length === 0) return make('p', {}, 'There are no events yet.');
  return table('events', ['time', '#step', '#attempt', 'event', 'about', 'message'], [...events].reverse().map((e) => {
    const row = make('tr', {className: e.severity === 'info' ? '' : 'alert'},
        make('td', {}, timeText(e.time)),
        numberCell(e.step), numberCell(e.attempt), make('td', {}, e.kind),
        make('td', {}, e.role ? `${e.role} ${e.number}` : '–'), make('td', {className: 'text'}, e.message ?? ''));
    row.dataset.kind = e.kind;
    return row;
  }));
}

function renderLog(data, events) {
  const level = state.level ?? 'all';
  const entries = (data.entries ?? []).filter((e) => level === 'all' || e.level !== 'info').reverse();
  const parts = [runChoice(), make('div', {className: 'controls'}, make('label', {}, 'show ',
      make('select', {id: 'level', onchange: (event) => { state.level = event.target.value; update(); }},
          make('option', {value: 'all', selected: level === 'all'}, 'all messages of server 0'),
          make('option', {value: 'warnings', selected: level !== 'all'}, 'warnings and errors')))),
  make('h2', {}, 'Events, newest first'),
  eventTable(events.filter((e) => level === 'all' || e.severity !== 'info'))];
  if (data.sample !== null) parts.push(make('h2', {}, 'Sample of the final model'), make('pre', {}, data.sample));
  parts.push(make('h2', {}, 'Log, newest first'), data.entries === null ?
      make('p', {}, 'The log is in the folder of the run, which this page does not read.') : entries.length === 0 ?
      make('p', {}, 'No messages. `tributary train` writes them to logs/server-0.log.') :
      table('log', ['time', 'level', 'message'], entries.map((e) => make('tr', {},
          make('td', {}, e.time.replace('T', ' ').slice(0, 19)), make('td', {}, e.level),
          make('td', {className: 'text'}, e.message)))));
  document.getElementById('view').replaceChildren(...parts);
}

function alertsOf() {
  const alerts = [];
  for (const run of shownRuns()) {
    const series = cache.get(seriesPath(run));
    const status = cache.get(`/api/status?run=${run.id}`);
    if (series && series.step.length > 0 && series.newest.loss === null) {
      alerts.push(`${run.name}: the training loss is not a number.`);
    }
    if (isLive(run)) {  // The newest alarm of each kind in this attempt.
      const attempt = status?.status?.attempt;
      for (const kind of ALARMS) {
        const alarm = eventsOf(run).filter((e) => e.kind === kind && e.attempt === attempt).at(-1);
        if (alarm) alerts.push(`${run.name}: ${alarm.message} (at step ${alarm.step}).`);
      }
    }
    if (status?.summary?.status === 'failed' && !run.live) {
      alerts.push(`${run.name} has failed: ${status.summary.failure ?? 'unknown reason'}`);
    }
    const live = status?.live ? status.status : null;
    const slow = live?.waiting && live.waiting.ms > 0.25 * live.step_milliseconds ? live.waiting.rank : null;
    const last = stragglers.get(run.id);
    stragglers.set(run.id, {rank: slow, times: slow !== null && last?.rank === slow ? last.times + 1 : 1});
    if (slow !== null && stragglers.get(run.id).times >= STRAGGLER_POLLS) {
      alerts.push(`${run.name}: the others wait ${formatNumber(live.waiting.ms)} ms of each ` +
          `${formatNumber(live.step_milliseconds)} ms step for worker ${live.waiting.rank}` +
          `${live.waiting.phase ? ` (${live.waiting.phase})` : ''}.`);
    }
    if (!run.live && run.state === 'no answer') {
      alerts.push(run.remote ?
          `${run.name}: the coordinator at ${run.path} does not answer, so the job has ended or cannot be reached. ` +
          'The page shows what the coordinator has sent.' : `${run.name} does not answer, and has no summary.`);
    } else if (run.problem) {
      alerts.push(`${run.name}: ${run.problem}.`);
    }
  }
  return alerts;
}

async function load(path, always) {
  return !always && cache.has(path) ? cache.get(path) : ask(path);
}

let running = null, again = false;
// Loads what the view needs, and shows it. One call runs at a time.
function update() {
  again = true;
  running ??= (async () => {
    while (again) {
      again = false;
      await refresh();
    }
  })().finally(() => { running = null; });
  return running;
}

async function refresh() {
  try {
    const {release, runs} = await ask('/api/runs');
    document.getElementById('release').textContent = release;
    const before = new Map(state.runs.map((run) => [run.id, run]));
    state.runs = runs;
    if (state.shown.size === 0) for (const run of runs.slice(0, COLORS)) state.shown.add(run.id);
    for (const run of shownRuns()) {
      const old = before.get(run.id);
      const changed = !old || old.lines !== run.lines || old.generation !== run.generation || old.state !== run.state;
      await load(seriesPath(run), changed);
      await load(`/api/status?run=${run.id}`, changed || run.live);
      await load(eventsPath(run), changed || run.live);
    }
    renderRuns();
    const run = focused();
    if (state.view === 'curves') {
      renderCurves();
    } else if (state.view === 'time') {
      const range = state.from === null ? '' : `&from=${state.from}&to=${state.to}`;
      const all = await load(seriesPath(run), false);
      const recent = range || `&from=${Math.max(0, stepBack(all, 40))}`;
      renderTime(await load(`/api/lines?run=${run.id}&count=40${recent}`, isLive(run)));
    } else if (state.view === 'cluster') {
      showParts(clusterParts(await load(`/api/status?run=${run.id}`, run.live)));
    } else if (state.view === 'exchange') {
      showParts(exchangeParts(await load(`/api/status?run=${run.id}`, run.live)));
    } else if (state.view === 'job') {
      const jobs = new Map();
      for (const one of shownRuns().length > 0 ? shownRuns() : [run]) {
        const path = `/api/job?run=${one.id}`;
        jobs.set(one.id, await load(path, cache.get(path)?.error));
      }
      renderJob(jobs);
    } else {
      const log = await load(`/api/log?run=${run.id}`, run.live);
      renderLog(log, (await load(eventsPath(run), run.live)).events);
    }
    document.getElementById('alerts').replaceChildren(
        ...alertsOf().map((text) => make('p', {className: 'alert'}, text)));
    failures = 0;
    const live = runs.filter(isLive).length;
    document.getElementById('connection').textContent = live === 0 ? '' : `${live} live`;
    document.body.dataset.ready = state.view;
  } catch (error) {
    ++failures;
    document.getElementById('connection').textContent = `no answer from the dashboard: ${error.message}`;
  }
}

// The step of the line that is `count` lines before the newest one, as far as
// the groups of the series tell.
function stepBack(series, count) {
  const groups = Math.ceil(count * series.step.length / Math.max(1, series.lines));
  return series.step.at(-Math.min(series.step.length, Math.max(groups, series.grouped ? 1 : count))) ?? 0;
}

// Redraws in place would disturb somebody who uses a control.
const isInUse = () => ['SELECT'].includes(document.activeElement?.tagName);

async function poll() {
  const live = state.runs.length === 0 || state.runs.some((run) => run.live || ['no answer', 'connecting'].includes(run.state));
  if (!document.hidden && !isInUse() && (live || failures > 0)) await update();
  setTimeout(poll, Math.min(MAX_POLL_MS, POLL_MS * 2 ** Math.min(failures, 4)));
}

const THEMES = ['system', 'light', 'dark'];
function applyTheme() {
  let theme = 'system';
  try { theme = localStorage.getItem('theme') ?? 'system'; } catch { /* Storage is off. */ }
  const dark = theme === 'dark' || (theme === 'system' && matchMedia('(prefers-color-scheme: dark)').matches);
  document.documentElement.classList.toggle('dark', dark);
  document.getElementById('theme').textContent = `Theme: ${theme}`;
  if (charts) renderCurves();
  return theme;
}

document.getElementById('theme').onclick = () => {
  const next = THEMES[(THEMES.indexOf(applyTheme()) + 1) % THEMES.length];
  try { localStorage.setItem('theme', next); } catch { /* Storage is off. */ }
  applyTheme();
};
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', applyTheme);
document.getElementById('keys').onclick = () => {
  const help = document.getElementById('keys-help');
  help.hidden = !help.hidden;
  document.getElementById('keys').setAttribute('aria-expanded', String(!help.hidden));
};
document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || ['INPUT', 'SELECT'].includes(event.target.tagName)) return;
  if (event.key === '?') document.getElementById('keys').click();
  const view = VIEWS[Number(event.key) - 1];
  if (view) select(view[0]);
});
addEventListener('resize', () => { if (state.view === 'time') update(); });
addEventListener('hashchange', () => { Object.assign(state, readHash()); select(state.view); });

applyTheme();
renderTabs();
update().then(poll);
