// The view of the metrics of runs, as charts.
import {ChartGroup, lineSample, rangeOf} from '/charts.js';
import {button, choice, make} from '/elements.js';
import {answerOf, eventsOf, seriesPath, shownRuns, slotOf, state, writeHash} from '/state.js';

// The chart of each field. Fields of evaluations have a part of their own in
// the answer.
const CHARTS = [
  ['loss', 'Training loss'], ['evaluation_loss', 'Evaluation loss'],
  ['evaluation_accuracy', 'Evaluation accuracy'], ['gradient_norm', 'Gradient norm'],
  ['learning_rate', 'Learning rate'], ['samples_per_second', 'Speed (samples or tokens per second)'],
  ['step_seconds', 'Time of a step (seconds)'],
];
// Metrics that programs have named are fields of evaluations, too.
const EVALUATION = 'evaluation_';
const X_LABELS = {step: 'step', seconds: 'seconds', epoch: 'epoch'};
// Among more runs, the points of evaluations would hide the lines.
const MAX_WITH_EVALUATIONS = 3;

let group = null, charts = null, list = null, legend = null, links = null, update = null;

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

function zoom(from, to) {
  if (from === undefined) {
    state.from = state.to = null;
  } else if (state.x === 'step') {
    [state.from, state.to] = [Math.max(0, Math.floor(from)), Math.ceil(to)];
  } else {  // The interface takes steps.
    const series = shownRuns().map((run) => answerOf(seriesPath(run))).find((s) => s && s.step.length > 0);
    const inside = series?.step.filter((_, i) => series[state.x][i] >= from && series[state.x][i] <= to) ?? [];
    if (inside.length > 1) [state.from, state.to] = [inside[0], inside.at(-1)];
  }
  writeHash();
  update();
}

function setLog(id, log) {
  state.logs[log ? 'add' : 'delete'](id);
  writeHash();
  renderCurves(update);
}

function controls() {
  return make('div', {className: 'controls'},
      choice('x axis', 'x-axis', [['step', 'steps'], ['seconds', 'seconds'], ['epoch', 'epochs']], state.x, (value) => {
        state.x = value;
        state.from = state.to = null;
        writeHash();
        update();
      }),
      make('label', {}, 'smoothing ', make('input', {
        type: 'range', id: 'smoothing', min: 0, max: 0.99, step: 0.01, value: state.smoothing,
        oninput: (event) => { state.smoothing = Number(event.target.value); writeHash(); renderCurves(update); },
      })),
      button('Show all steps', () => zoom(), {id: 'all'}));
}

// Epochs are not in the lines of evaluations.
function evaluationX(series) {
  const {step, seconds} = series.evaluation;
  if (state.x !== 'epoch') return state.x === 'step' ? step : seconds;
  const epochs = series.step.length > 0 ? series.epoch.at(-1) / series.step.at(-1) : null;
  return epochs === null ? [] : step.map((s) => s * epochs);
}

// The values of a field of evaluations; null for other fields and absent ones.
export function evaluationOf(series, field) {
  if (!field.startsWith(EVALUATION)) return null;
  const name = field.slice(EVALUATION.length);
  if (CHARTS.some(([id]) => id === field)) return series.evaluation[name];
  return Object.hasOwn(series.evaluation.metrics, name) ? series.evaluation.metrics[name] : null;
}

// The metrics that programs have named, of these runs, in alphabetical order.
export function namedMetrics(runs) {
  const names = runs.flatMap((run) => Object.keys(answerOf(seriesPath(run))?.evaluation.metrics ?? {}));
  return [...new Set(names)].sort();
}

function linesOf(field, run, series, few) {
  const lines = [];
  const slot = slotOf(run);
  const evaluation = evaluationOf(series, field);
  if (evaluation) return [{name: run.name, slot, dots: true, x: evaluationX(series), y: evaluation}];
  const values = series.fields[field];
  if (!values) return [];
  lines.push({
    name: run.name, slot, x: series[state.x], y: smooth(values.mean, field === 'loss' ? state.smoothing : 0),
    ...(series.grouped ? {min: values.min, max: values.max} : {}),
  });
  if (field === 'loss' && few && series.evaluation.step.length > 0) {
    lines.push({name: `${run.name} evaluation`, slot, dots: true, x: evaluationX(series), y: series.evaluation.loss});
  }
  return lines;
}

// Shows the charts; `refresh` loads what changed choices need.
export function renderCurves(refresh) {
  update = refresh;
  const view = document.getElementById('view');
  if (charts === null || !view.contains(legend)) {
    group = new ChartGroup(zoom, setLog);
    charts = new Map(CHARTS.map(([id, title]) => [id, group.add(id, title)]));
    list = make('div', {className: 'charts'}, ...[...charts.values()].map((chart) => chart.element));
    legend = make('div', {id: 'legend'});
    links = make('p', {id: 'metrics-csv', className: 'muted'});
    view.replaceChildren(controls(), legend, list, links);
  }
  const runs = shownRuns();
  for (const name of namedMetrics(runs)) {
    const id = EVALUATION + name;
    if (charts.has(id)) continue;
    charts.set(id, group.add(id, `Evaluation ${name}`));
    list.append(charts.get(id).element);
  }
  renderLegend(runs);
  const marks = runs.flatMap((run) => eventsOf(run).filter((e) => e.severity !== 'info')
      .map((e) => ({x: e.step, slot: slotOf(run)})));
  const lines = new Map([...charts.keys()].map((field) => [field, []]));
  for (const run of runs) {
    const series = answerOf(seriesPath(run));
    if (!series) continue;
    for (const [field, found] of lines) found.push(...linesOf(field, run, series, runs.length <= MAX_WITH_EVALUATIONS));
  }
  const range = rangeOf([...lines.values()].flat());
  for (const [field, chart] of charts) {
    chart.set(lines.get(field), state.x === 'step' ? marks : [], state.logs.has(field), X_LABELS[state.x], range);
    // A chart that no run has values for would only take space.
    chart.element.hidden = field.startsWith(EVALUATION) && chart.empty;
  }
}

function renderLegend(runs) {
  const text = JSON.stringify(runs.map((run) => [run.key, slotOf(run)])) + document.documentElement.className;
  if (legend.dataset.shown === text) return;
  legend.dataset.shown = text;
  legend.replaceChildren(...runs.map((run) => make('span', {
    onmouseenter: () => group.emphasize(run.name), onmouseleave: () => group.emphasize(null),
  }, lineSample(slotOf(run)), run.name)));
  links.replaceChildren('All metrics as CSV: ', ...runs.flatMap((run, i) => [i === 0 ? '' : ', ',
    make('a', {href: `/api/metrics.csv?run=${run.key}`, download: `${run.key}.csv`}, run.name)]));
}

export const redrawCurves = () => { if (charts !== null && update !== null && state.view === 'curves') renderCurves(update); };
