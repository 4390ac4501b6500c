// The dashboard: loads what the selected view needs, and shows it. All text is
// inserted as text, never as HTML, because names, logs and job files may
// contain anything.
import {alertsOf} from '/alerts.js';
import {clusterParts, exchangeParts} from '/cluster.js';
import {compareParts} from '/compare.js';
import {redrawCurves, renderCurves} from '/curves.js';
import {choice, make} from '/elements.js';
import {jobParts} from '/job.js';
import {ALL, logParts, MAX_MERGED} from '/logs.js';
import {renderResources} from '/resources.js';
import {renderRuns, setFields, startRuns} from '/runs.js';
import {chosenStudy, renderSearch, studyPath} from '/search.js';
import {
  answerOf, ask, eventsPath, focused, isLive, jobPath, linesPath, load, logPath, readHash, resourcesPath, seriesPath,
  showFirst, shownRuns, state, statusPath, VIEWS, writeHash,
} from '/state.js';
import {renderTime, stepBack} from '/time.js';

const POLL_MS = 1000, MAX_POLL_MS = 15000;
// The fields of job files are loaded again when runs were added, but not more
// often than this.
const FIELDS_MS = 5000;

let failures = 0;
let running = null, again = false;
let fieldsOf = '', fieldsTime = -Infinity;
let began = false;

function select(view) {
  state.view = view;
  document.getElementById('view').replaceChildren();
  writeHash();
  renderTabs();
  update();
}

// Without a study, there is no view of searches.
const views = () => VIEWS.filter(([id]) => id !== 'search' || state.studies.length > 0);

function renderTabs() {
  const tabs = document.getElementById('views');
  tabs.replaceChildren(...views().map(([id, title]) => {
    const chosen = id === state.view;
    return make('button', {
      type: 'button', role: 'tab', id: `tab-${id}`, 'aria-selected': String(chosen), 'aria-controls': 'view',
      tabIndex: chosen ? 0 : -1, onclick: () => select(id),
      onkeydown: (event) => {
        const move = {ArrowRight: 1, ArrowLeft: -1}[event.key];
        if (!move) return;
        const all = views();
        const next = all[(all.findIndex(([v]) => v === id) + move + all.length) % all.length][0];
        select(next);
        document.getElementById(`tab-${next}`).focus();
      },
    }, title);
  }));
  document.getElementById('view').setAttribute('aria-labelledby', `tab-${state.view}`);
}

function runChoice() {
  const shown = shownRuns();
  const runs = [...shown, ...state.runs.filter((run) => !shown.includes(run))];
  return make('div', {className: 'controls'}, choice('run', 'run-choice', runs.map((run) => [run.key, run.name]),
      focused().key, (key) => {
        state.focus = key;
        writeHash();
        update();
      }));
}

const showParts = (parts) => document.getElementById('view').replaceChildren(...parts);

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

// Loads the fields in which job files differ, for the list of runs.
async function loadFields() {
  const keys = state.runs.map((run) => run.key).sort().join();
  if (keys === fieldsOf || performance.now() - fieldsTime < FIELDS_MS) return;
  [fieldsOf, fieldsTime] = [keys, performance.now()];
  setFields(await ask('/api/fields'));
  renderRuns(update);
}

async function loadRun(run, old) {
  const changed = !old || old.lines !== run.lines || old.generation !== run.generation || old.state !== run.state ||
      old.step !== run.step;
  await Promise.all([load(seriesPath(run), changed), load(statusPath(run), changed || run.live),
    load(eventsPath(run), changed || run.live)]);
}

async function loadJobs(runs) {
  const jobs = new Map();
  for (const run of runs) {
    const job = await load(jobPath(run), false);
    jobs.set(run.key, job.error ? await load(jobPath(run), true) : job);
  }
  return jobs;
}

async function renderLogs(run) {
  const events = await load(eventsPath(run), run.live);
  const first = await load(logPath(run, state.process), run.live);
  let logs = [[state.process, first]];
  if (state.process === ALL) {
    const names = first.logs.slice(0, MAX_MERGED).map((log) => log.name);
    logs = await Promise.all(names.map(async (name) => [name, await load(logPath(run, name), run.live)]));
    if (logs.length === 0) logs = [[ALL, first]];
  } else if (first.logs.length > 0 && !first.logs.some((log) => log.name === state.process)) {
    state.process = first.logs[0].name;
    logs = [[state.process, await load(logPath(run, state.process), true)]];
  }
  showParts(logParts(runChoice, logs, events.events, update));
}

function openRun(key) {
  Object.assign(state, {chosen: true, shown: [key], focus: key});
  select('curves');
}

// The folder of a search was named, or there is nothing else to show.
function beginWithSearch() {
  if (began) return;
  began = true;
  const hasView = new URLSearchParams(location.hash.slice(1)).has('view');
  if (!hasView && state.studies.some((study) => study.named)) state.view = 'search';
}

async function renderView() {
  const run = focused();
  if (state.view === 'search') {
    const study = chosenStudy();
    if (!study) return showParts([make('p', {}, 'There are no searches yet.')]);
    const old = answerOf(studyPath(study));
    return renderSearch(await load(studyPath(study), old?.lines !== study.lines), update, openRun);
  }
  if (state.view === 'curves') return renderCurves(update);
  if (state.view === 'compare') return showParts(compareParts(shownRuns(), await loadJobs(shownRuns())));
  if (!run) return showParts([make('p', {}, 'There are no runs yet.')]);
  if (state.view === 'time') {
    const all = await load(seriesPath(run), false);
    const range = `&from=${Math.max(0, stepBack(all, 40))}`;
    renderTime(await load(linesPath(run, range), isLive(run)), runChoice);
  } else if (state.view === 'resources') {
    renderResources(await load(resourcesPath(run), run.live), runChoice, update);
  } else if (state.view === 'cluster') {
    const {events} = await load(eventsPath(run), run.live);
    showParts([runChoice(), ...clusterParts(await load(statusPath(run), run.live), events)]);
  } else if (state.view === 'exchange') {
    showParts([runChoice(), ...exchangeParts(await load(statusPath(run), run.live))]);
  } else if (state.view === 'job') {
    const runs = shownRuns().length > 0 ? shownRuns() : [run];
    showParts(jobParts(runs, await loadJobs(runs)));
  } else {
    await renderLogs(run);
  }
}

async function refresh() {
  try {
    const {release, runs, studies} = await ask('/api/runs');
    document.getElementById('release').textContent = release;
    const hadStudies = state.studies.length > 0;
    state.studies = studies;
    beginWithSearch();
    if (hadStudies !== studies.length > 0) renderTabs();
    const before = new Map(state.runs.map((run) => [run.key, run]));
    state.runs = runs;
    showFirst();
    renderRuns(update);
    await Promise.all(shownRuns().map((run) => loadRun(run, before.get(run.key))));
    renderRuns(update);
    const view = state.view;
    await renderView();
    document.getElementById('alerts').replaceChildren(
        ...alertsOf().map((text) => make('p', {className: 'alert'}, text)));
    failures = 0;
    const live = runs.filter(isLive).length;
    document.getElementById('connection').textContent = live === 0 ? '' : `${live} live`;
    document.body.dataset.ready = view;
    await loadFields();
  } catch (error) {
    ++failures;
    document.getElementById('connection').textContent = `no answer from the dashboard: ${error.message}`;
  }
}

// Redraws in place would disturb somebody who uses a control.
const isInUse = () => document.activeElement?.tagName === 'SELECT' || document.activeElement?.id === 'log-search';

async function poll() {
  const live = state.runs.length === 0 || state.studies.some((study) => study.live) ||
      state.runs.some((run) => run.live || ['no answer', 'connecting'].includes(run.state));
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
  redrawCurves();
  return theme;
}

document.getElementById('theme').onclick = () => {
  const next = THEMES[(THEMES.indexOf(applyTheme()) + 1) % THEMES.length];
  try { localStorage.setItem('theme', next); } catch { /* Storage is off. */ }
  applyTheme();
  update();
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
  if (event.key === '/') {
    event.preventDefault();
    document.getElementById('search').focus();
  }
  const view = views()[Number(event.key) - 1];
  if (view) select(view[0]);
});
addEventListener('resize', () => { if (state.view === 'time') update(); });
addEventListener('hashchange', () => { Object.assign(state, readHash()); select(state.view); });

applyTheme();
renderTabs();
startRuns();
update().then(poll);
