// The comparison of runs: their results, and the fields in which their job
// files differ.
import {lineSample} from '/charts.js';
import {evaluationOf, namedMetrics} from '/curves.js';
import {saveCsv} from '/download.js';
import {button, make} from '/elements.js';
import {formatDate, formatNumber, formatSeconds} from '/numbers.js';
import {answerOf, seriesPath, slotOf} from '/state.js';

const least = (values) => Math.min(...values);
const most = (values) => Math.max(...values);
const smallestOf = (list) => {
  const values = (list ?? []).filter((v) => v !== null);
  return values.length > 0 ? Math.min(...values) : null;
};
const largestOf = (list) => {
  const values = (list ?? []).filter((v) => v !== null);
  return values.length > 0 ? Math.max(...values) : null;
};

// Results: title, value of a run with its series, the best of values, text.
const RESULTS = [
  ['state', (run) => run.state],
  ['began (UTC)', (run) => run.began, null, formatDate],
  ['steps', (run) => run.step],
  ['training loss', (run) => run.loss, least],
  ['evaluation loss', (run) => run.evaluation_loss, least],
  ['smallest evaluation loss', (run, series) => smallestOf(series?.evaluation.loss), least],
  ['evaluation accuracy', (run) => run.evaluation_accuracy, most],
  ['largest evaluation accuracy', (run, series) => largestOf(series?.evaluation.accuracy), most],
  ['time', (run) => run.seconds, least, formatSeconds],
  ['samples per second', (run, series) => series?.newest.samples_per_second ?? null, most],
  ['seconds per step', (run, series) => series?.newest.step_seconds ?? null, least],
];

// The newest value of each metric that programs have named. Which values are
// better is not known.
const namedResults = (runs) => namedMetrics(runs).map((name) => [
  `evaluation ${name}`,
  (run, series) => (series && evaluationOf(series, `evaluation_${name}`))?.findLast((v) => v !== null) ?? null,
]);

function resultRow(runs, [title, value, best, format = formatNumber]) {
  const values = runs.map((run) => value(run, answerOf(seriesPath(run))) ?? null);
  if (values.every((v) => v === null)) return null;
  const numbers = values.filter((v) => typeof v === 'number');
  // If all are equal, none is the best.
  const winner = best && new Set(numbers).size > 1 ? best(numbers) : null;
  const row = make('tr', {}, make('th', {scope: 'row'}, title), ...values.map((v) => {
    const cell = make('td', {className: v !== null && v === winner ? 'best' : ''}, typeof v === 'string' ? v : format(v));
    if (v !== null) cell.dataset.value = String(v);
    return cell;
  }));
  return {row, values: [title, ...values]};
}

// Returns the paths of the fields that differ, and the fields of each run, from
// answers of /api/job.
export function differencesOf(runs, jobs) {
  const values = runs.map((run) => new Map(jobs.get(run.key)?.fields ?? []));
  const paths = [...new Set(values.flatMap((map) => [...map.keys()]))];
  return {values, paths: paths.filter((path) => new Set(values.map((map) => map.get(path))).size > 1)};
}

const textOf = (map, path) => (map.has(path) ? map.get(path) || 'set' : '–');

// Returns the elements of the view; `jobs` has the answers of /api/job.
export function compareParts(runs, jobs) {
  if (runs.length === 0) return [make('p', {}, 'Choose the runs to compare in the list above.')];
  const results = [...RESULTS, ...namedResults(runs)].map((result) => resultRow(runs, result)).filter((row) => row !== null);
  const {values, paths} = differencesOf(runs, jobs);
  const rows = paths.map((path) => make('tr', {}, make('th', {scope: 'row'}, path),
      ...values.map((map) => make('td', {className: 'field'}, textOf(map, path)))));
  const section = (title) => make('tr', {className: 'section'}, make('th', {colSpan: runs.length + 1}, title));
  const csv = () => saveCsv('comparison', [['', ...runs.map((run) => run.name)], ...results.map((r) => r.values),
    ...paths.map((path) => [path, ...values.map((map) => textOf(map, path))])]);
  return [
    make('div', {className: 'controls'}, button('Save as CSV', csv, {id: 'compare-csv'}),
        make('span', {className: 'muted'}, 'The best of each row is bold.')),
    make('div', {className: 'scroll'}, make('table', {id: 'comparison'},
        make('thead', {}, make('tr', {}, make('th', {}), ...runs.map((run) =>
            make('th', {scope: 'col', title: run.path}, lineSample(slotOf(run)), run.name)))),
        make('tbody', {}, section('Results'), ...results.map((r) => r.row),
            section(paths.length > 0 ? 'Fields of the job files that differ' :
                runs.length > 1 ? 'The job files do not differ.' : 'Choose further runs to compare job files.'), ...rows))),
  ];
}
