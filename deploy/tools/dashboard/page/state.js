// What the page shows, and what the dashboard has answered.

export const VIEWS = [
  ['curves', 'Curves'], ['compare', 'Compare'], ['time', 'Where the time goes'], ['resources', 'Resources'],
  ['cluster', 'Processes'], ['exchange', 'Exchange'], ['job', 'Job'], ['log', 'Events and logs'], ['search', 'Search'],
];
export const POINTS = 800;
// The largest number of runs in one chart.
export const MAX_SHOWN = 30;
const LIVE_STATES = ['waiting', 'training', 'evaluating', 'finishing', 'recovering'];
// The runs that are shown until the user chooses some.
const FIRST_SHOWN = 6;

// `shown` are keys of runs. The position of a key decides the color of the run,
// so a run keeps its color when others are hidden; null is a free position.
// `chosen` says whether the user has chosen the runs. `logs` are the charts with
// a logarithmic axis. `over` is the x axis of the resources. `study` is the key of
// the search that is shown.
export const state = {
  runs: [], view: 'curves', shown: [], chosen: false, focus: null, x: 'step', logs: new Set(), smoothing: 0, from: null,
  to: null, search: '', sort: '', columns: null, process: 'server-0.log', level: 'all', over: 'seconds', studies: [],
  study: null, ...readHash(),
};
const answers = new Map();  // What the dashboard answered, by path.

export function readHash() {
  const read = new URLSearchParams(location.hash.slice(1));
  const list = (name) => read.get(name)?.split(',').filter((part) => part !== '') ?? [];
  const hash = {
    logs: new Set(list('log')), smoothing: Math.min(0.99, Math.max(0, Number(read.get('smooth')) || 0)),
    search: read.get('search') ?? '', sort: read.get('sort') ?? '', from: null, to: null,
    columns: read.has('columns') ? list('columns') : null,
  };
  if (VIEWS.some(([id]) => id === read.get('view'))) hash.view = read.get('view');
  if (read.has('runs')) {
    hash.shown = list('runs').slice(0, MAX_SHOWN);
    hash.chosen = true;
  }
  if (read.has('run')) hash.focus = read.get('run');
  if (read.has('study')) hash.study = read.get('study');
  if (['step', 'seconds', 'epoch'].includes(read.get('x'))) hash.x = read.get('x');
  if (['step', 'seconds'].includes(read.get('over'))) hash.over = read.get('over');
  for (const name of ['from', 'to']) if (read.has(name)) hash[name] = Number(read.get(name));
  return hash;
}

// Puts what is shown into the address of the page.
export function writeHash() {
  const hash = new URLSearchParams({view: state.view});
  if (state.chosen) hash.set('runs', state.shown.filter((key) => key !== null).join(','));
  if (state.focus !== null) hash.set('run', state.focus);
  if (state.study !== null) hash.set('study', state.study);
  if (state.x !== 'step') hash.set('x', state.x);
  if (state.over !== 'seconds') hash.set('over', state.over);
  if (state.logs.size > 0) hash.set('log', [...state.logs].join(','));
  if (state.smoothing) hash.set('smooth', state.smoothing);
  for (const name of ['from', 'to']) if (state[name] !== null) hash.set(name, state[name]);
  for (const name of ['search', 'sort']) if (state[name]) hash.set(name, state[name]);
  if (state.columns !== null) hash.set('columns', state.columns.join(','));
  history.replaceState(null, '', `#${hash.toString().replaceAll('%2C', ',')}`);
}

export const answerOf = (path) => answers.get(path);

export async function ask(path) {
  const response = await fetch(path, {headers: {Accept: 'application/json'}});
  const json = await response.json();
  if (!response.ok) throw new Error(json.error ?? response.statusText);
  answers.set(path, json);
  return json;
}

export async function load(path, always) {
  return !always && answers.has(path) ? answers.get(path) : ask(path);
}

// Shows or hides a run.
export function show(key, shown) {
  const at = state.shown.indexOf(key);
  if (shown && at < 0) {
    const free = state.shown.indexOf(null);
    if (free >= 0) state.shown[free] = key; else if (state.shown.length < MAX_SHOWN) state.shown.push(key);
  } else if (!shown && at >= 0) {
    state.shown[at] = null;
    while (state.shown.at(-1) === null) state.shown.pop();
  }
}

// Until the user has chosen runs, shows the running jobs or, if there are none,
// the newest runs; and every job that starts later.
export function showFirst() {
  if (state.chosen) return;
  const live = state.runs.filter((run) => run.live).slice(0, FIRST_SHOWN);
  const known = state.shown.some((key) => key !== null);
  for (const run of live.length > 0 ? live : known ? [] : state.runs.slice(0, FIRST_SHOWN)) {
    show(run.key, true);
  }
}

export const shownRuns = () => {
  const runs = new Map(state.runs.map((run) => [run.key, run]));
  return state.shown.filter((key) => runs.has(key)).map((key) => runs.get(key));
};
export const focused = () => state.runs.find((run) => run.key === state.focus) ??
    shownRuns().find(isLive) ?? shownRuns()[0] ?? state.runs[0];
export const slotOf = (run) => Math.max(0, state.shown.indexOf(run.key));
export const isLive = (run) => run.live && LIVE_STATES.includes(run.state);

const zoom = () => (state.from === null ? '' : `&from=${state.from}&to=${state.to}`);
export const seriesPath = (run) => `/api/series?run=${run.key}&points=${POINTS}${zoom()}`;
export const linesPath = (run, range) => `/api/lines?run=${run.key}&count=40${zoom() || range}`;
export const resourcesPath = (run) => `/api/resources?run=${run.key}&count=300${zoom()}`;
export const statusPath = (run) => `/api/status?run=${run.key}`;
export const eventsPath = (run) => `/api/events?run=${run.key}`;
export const jobPath = (run) => `/api/job?run=${run.key}`;
export const logPath = (run, name) => `/api/log?run=${run.key}&log=${encodeURIComponent(name)}`;
export const eventsOf = (run) => answerOf(eventsPath(run))?.events ?? [];
