// The view of a search: a study of `tributary tune`.
import {ChartGroup, colorName, lineSample, rangeOf} from '/charts.js';
import {button, choice, make, numberCell} from '/elements.js';
import {formatNumber} from '/numbers.js';
import {axisOf, axisOfValues, FrontPlot, ParallelPlot} from '/plots.js';
import {state, writeHash} from '/state.js';

const STATES = {complete: 'complete', pruned: 'stopped', failed: 'failed', running: 'running', waiting: 'queued'};
// The colors of lines: those of plots.js.
const SLOTS = {other: 8, complete: 0, best: 1};
const LEGEND = [['best', 'the best'], ['complete', 'trained to the end'], ['other', 'stopped, or not ended']];

let shown = '';  // What the view shows.
let plots = [];
let group = null;

export const chosenStudy = () => state.studies.find((study) => study.key === state.study) ?? state.studies[0];
export const studyPath = (study) => `/api/study?study=${study.key}`;

const last = (list) => (list.length > 0 ? list.at(-1) : null);
const stepsOf = (trial) => last(trial.steps);
// The value of an objective: at the end or, with one objective, at the last rung.
const valueOf = (study, trial, i) => trial.values[i] ?? (study.objectives.length === 1 ? last(trial.results) : null);

// The ends of paths, as long as they need to be to differ.
function shortNames(paths) {
  return paths.map((path) => {
    const parts = path.split('.');
    for (let count = 1; count < parts.length; ++count) {
      const end = parts.slice(-count).join('.');
      if (paths.filter((other) => other === end || other.endsWith(`.${end}`)).length === 1) return end;
    }
    return path;
  });
}

function kindOf(study, trial) {
  if (study.best.includes(trial.number)) return 'best';
  return trial.state === 'complete' ? 'complete' : 'other';
}

function summaryOf(study) {
  const counts = Object.entries(STATES).map(([id, text]) => [study.trials.filter((t) => t.state === id).length, text])
      .filter(([count]) => count > 0).map(([count, text]) => `${count} ${text}`).join(', ');
  const best = study.trials.find((t) => t.number === study.best[0]);
  const values = best && study.objectives.map(({metric}, i) => `${metric} ${formatNumber(best.values[i])}`).join(', ');
  const all = study.trials.length < study.trialCount ? `the newest ${study.trials.length} of ${study.trialCount} trials: ` :
      `${study.trials.length} ${study.trials.length === 1 ? 'trial' : 'trials'}: `;
  const front = `; ${study.best.length} on the Pareto front`;
  const found = !best ? '' : study.objectives.length > 1 ? front : `; best: trial ${best.number}, ${values}`;
  return make('p', {id: 'search-summary'}, `${all}${counts}${found}`);
}

function importanceParts(study) {
  const names = shortNames(study.parameters.map((p) => p.path));
  return study.importance.map((found, i) => {
    if (found === null) return null;
    const rows = found.values.map((value, k) => [value, k]).sort(([a], [b]) => b - a).map(([value, k]) => {
      const bar = make('div', {className: 'importance-bar'});
      bar.style.width = `${100 * value}%`;
      return make('tr', {}, make('th', {scope: 'row', title: study.parameters[k].path}, names[k]),
          make('td', {className: 'importance'}, bar), numberCell(value, `${(100 * value).toFixed(1)} %`));
    });
    const {metric} = study.objectives[i];
    const reached = found.steps === null ? 'complete trials' : `trials after ${found.steps} steps`;
    return make('figure', {id: i === 0 ? 'importance' : `importance-${i}`},
        make('figcaption', {}, make('strong', {}, `Importance of parameters for ${metric}`)),
        make('p', {className: 'muted'}, `PED-ANOVA: what distinguishes the best tenth of ${found.trials} ${reached}.` +
            (found.trials < 20 ? ' With so few trials, it is rough.' : '')),
        make('div', {className: 'scroll'}, make('table', {}, make('tbody', {}, ...rows))));
  }).filter((part) => part !== null);
}

function parallelOf(study, onMark, onOpen) {
  const plot = new ParallelPlot('parallel', 'Parallel coordinates', onMark, onOpen);
  plot.element.classList.add('wide');
  const names = shortNames(study.parameters.map((p) => p.path));
  const trials = study.trials.filter((t) => t.point !== null &&
      study.objectives.every((_, i) => valueOf(study, t, i) !== null));
  const axes = study.parameters.map((p, i) => axisOf({...p, title: names[i]}));
  study.objectives.forEach(({metric}, i) => axes.push(axisOfValues(metric, trials.map((t) => valueOf(study, t, i)))));
  plot.set(axes, trials.map((t) => ({
    number: t.number, kind: kindOf(study, t), values: [...t.point, ...study.objectives.map((_, i) => valueOf(study, t, i))],
  })));
  return plot;
}

function frontOf(study, onMark, onOpen) {
  if (study.objectives.length < 2) return null;
  const plot = new FrontPlot('front', 'Pareto front', onMark, onOpen);
  const trials = study.trials.filter((t) => t.values.length > 0);
  const axes = [0, 1].map((i) => axisOfValues(study.objectives[i].metric, trials.map((t) => t.values[i])));
  plot.set(axes, trials.map((t) => ({number: t.number, kind: kindOf(study, t), values: t.values})));
  return plot;
}

// The value of each trial, at the end or at its last rung, and the best one so
// far.
function addHistory(study) {
  study.objectives.forEach(({metric, maximize}, i) => {
    const chart = group.add(i === 0 ? 'history' : `history-${i}`, `Best so far: ${metric}`);
    const trials = study.trials.filter((t) => valueOf(study, t, i) !== null);
    const dots = (kind, name) => {
      const found = trials.filter((t) => (t.state === 'complete') === (kind === 'complete'));
      return {name, slot: SLOTS[kind], dots: true, stroke: false, near: true, x: found.map((t) => t.number),
        y: found.map((t) => valueOf(study, t, i))};
    };
    let best = null;
    const bestSoFar = trials.map((t) => {
      const value = valueOf(study, t, i);
      if (!t.violated && (best === null || (maximize ? value > best : value < best))) best = value;
      return best;
    });
    const series = [dots('other', 'last rung'), dots('complete', 'trained to the end'),
      {name: 'best so far', slot: SLOTS.best, x: trials.map((t) => t.number), y: bestSoFar}];
    chart.set(series, [], state.logs.has(chart.id), 'trial', rangeOf(series));
  });
}

// The first objective of each trial, by rung.
function addRungs(study) {
  const trials = study.trials.filter((t) => t.steps.length > 0);
  if (study.objectives.length > 1 || trials.length === 0) return;
  const chart = group.add('rungs', `Curves by rung: ${study.objectives[0].metric}`);
  const rank = (t) => ['other', 'complete', 'best'].indexOf(kindOf(study, t));
  const series = trials.sort((a, b) => rank(a) - rank(b)).map((t) => ({
    name: `trial ${t.number}`, slot: SLOTS[kindOf(study, t)], dots: true, x: t.steps, y: t.results, near: true,
  }));
  chart.set(series, [], state.logs.has(chart.id), 'steps', rangeOf(series));
}

// The final evaluation: the best trials with several seeds, the winner first.
function finalTable(study, onOpen) {
  if (study.final === null) return null;
  const {done, trials} = study.final;
  const seeds = Math.max(0, ...trials.map((t) => t.values.length));
  const runs = new Set(state.runs.map((run) => run.key));
  const rows = trials.map((t) => {
    const name = String(t.trial);
    const run = study.trials.find((other) => other.number === t.trial)?.run;
    return make('tr', {},
        make('td', {}, runs.has(run) ? button(name, () => onOpen(t.trial), {className: 'link', title: 'show the run'}) : name),
        numberCell(t.mean), numberCell(t.deviation), ...t.values.map((value) => numberCell(value)),
        make('td', {}, t.failed > 0 ? `${t.failed} failed` : t.ended < t.values.length ? 'not ended' : ''));
  });
  const heads = [['trial'], ['mean', 'number'], ['deviation', 'number'],
    ...Array.from({length: seeds}, (_, i) => [i === 0 ? 'first seed' : `seed + ${i}`, 'number']), ['']];
  return make('figure', {id: 'final'},
      make('figcaption', {}, make('strong', {}, `Final evaluation: ${study.objectives[0].metric} with ${seeds} seeds`)),
      make('p', {className: 'muted'}, done ? `The best mean wins: trial ${trials[0]?.trial}.` : 'The best mean will win.'),
      make('div', {className: 'scroll'}, make('table', {id: 'final-trials'},
          make('thead', {}, make('tr', {}, ...heads.map(([text, className = '']) => make('th', {scope: 'col', className}, text)))),
          make('tbody', {}, ...rows))));
}

// All trials: the best complete ones first, then those that came farthest.
function trialTable(study, onOpen) {
  const sign = study.objectives[0].maximize ? -1 : 1;
  const order = (t) => [
    t.state === 'failed' || t.values.length + t.results.length === 0, !study.best.includes(t.number), t.values.length === 0,
    -(stepsOf(t) ?? 0), sign * (valueOf(study, t, 0) ?? 0), t.number,
  ];
  const sorted = study.trials.map((t) => [order(t), t]).sort(([a], [b]) => {
    const i = a.findIndex((v, k) => v !== b[k]);
    return i < 0 ? 0 : Number(a[i]) - Number(b[i]);
  }).map(([, t]) => t);
  const names = shortNames(study.parameters.map((p) => p.path));
  const formats = study.parameters.map((p) => axisOf({...p, title: ''}).format);
  const runs = new Set(state.runs.map((run) => run.key));
  const hasFailures = study.trials.some((t) => t.failure !== '');
  const hasSteps = study.trials.some((t) => t.steps.length > 0);
  const rows = sorted.map((t) => {
    const swatch = make('span', {className: 'swatch'});
    swatch.style.background = `var(${colorName(SLOTS[kindOf(study, t)])})`;
    const name = String(t.number);
    const open = () => onOpen(t.number);
    return make('tr', {},
        make('td', {}, swatch, runs.has(t.run) ? button(name, open, {className: 'link', title: 'show the run'}) : name),
        make('td', {}, STATES[t.state] ?? t.state, t.violated ? ', violates a constraint' : ''),
        hasSteps ? numberCell(stepsOf(t), stepsOf(t) === null ? '–' : String(stepsOf(t))) : null,
        ...study.objectives.map((_, i) => numberCell(valueOf(study, t, i))),
        ...names.map((_, i) => make('td', {className: 'field'}, t.point === null ? '–' : formats[i](t.point[i]))),
        hasFailures ? make('td', {className: 'field', title: t.failure}, t.failure) : null);
  });
  const heads = [['trial'], ['state'], ...(hasSteps ? [['steps', 'number']] : []),
    ...study.objectives.map(({metric}) => [metric, 'number']),
    ...names.map((name, i) => [name, '', study.parameters[i].path]), ...(hasFailures ? [['reason']] : [])];
  return make('div', {className: 'scroll', id: 'trials-list'}, make('table', {id: 'trials'},
      make('thead', {}, make('tr', {}, ...heads.map(([text, className = '', title = '']) =>
          make('th', {scope: 'col', className, title}, text)))), make('tbody', {}, ...rows)));
}

// Shows the study, an answer of /api/study. `refresh` loads what changed choices
// need; `openRun(key)` shows a run.
export function renderSearch(study, refresh, openRun) {
  study.trialCount = chosenStudy()?.trials ?? study.trials.length;
  const view = document.getElementById('view');
  const signature = JSON.stringify([study.key, study.lines, study.problem, state.studies.map((s) => s.key), [...state.logs],
    state.runs.length, document.documentElement.className]);
  if (signature === shown && view.querySelector('#search-view')) return;
  shown = signature;
  const onMark = (number) => {
    for (const plot of plots) plot.mark(number);
    group.emphasize(number === null ? null : `trial ${number}`);
  };
  const onOpen = (number) => {
    const run = state.runs.find((r) => r.key === study.trials.find((t) => t.number === number)?.run);
    if (run) openRun(run.key);
  };
  const parts = [];
  if (state.studies.length > 1) {
    parts.push(make('div', {className: 'controls'}, choice('search', 'study-choice',
        state.studies.map((s) => [s.key, `${s.name} (${s.path})`]), study.key, (key) => {
          state.study = key;
          writeHash();
          refresh();
        })));
  }
  if (study.problem) parts.push(make('p', {className: 'alert'}, study.problem));
  group = new ChartGroup(() => {}, (id, log) => {
    state.logs[log ? 'add' : 'delete'](id);
    writeHash();
    refresh();
  });
  plots = [];
  if (study.objectives.length > 0) {
    parts.push(make('h2', {}, study.name), summaryOf(study));
    parts.push(make('div', {id: 'legend'}, ...LEGEND.map(([kind, text]) => make('span', {}, lineSample(SLOTS[kind]), text))));
    addHistory(study);
    addRungs(study);
    plots = [frontOf(study, onMark, onOpen), parallelOf(study, onMark, onOpen)].filter((plot) => plot !== null);
    parts.push(make('div', {className: 'charts'}, ...group.charts.map((chart) => chart.element),
        ...plots.map((plot) => plot.element), ...importanceParts(study), finalTable(study, onOpen)));
    parts.push(trialTable(study, onOpen));
  }
  view.replaceChildren(make('div', {id: 'search-view'}, ...parts));
}
