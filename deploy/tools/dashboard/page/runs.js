// The table of runs: search, order, columns, and which runs are shown.
import {colorName, lineSample} from '/charts.js';
import {saveCsv} from '/download.js';
import {button, make, numberCell} from '/elements.js';
import {formatDate, formatNumber, formatSeconds} from '/numbers.js';
import {answerOf, MAX_SHOWN, seriesPath, show, slotOf, state, writeHash} from '/state.js';

// Fields of job files that have a column until the user chooses columns.
const FIRST_COLUMNS = 4;
const number = (name, format = formatNumber) => (run) => numberCell(run[name] ?? null, format(run[name] ?? null));
// The coordinator of a job that has ended no longer tells the loss.
const lossOf = (run) => run.loss ?? answerOf(seriesPath(run))?.newest.loss ?? null;
const speedOf = (run) => answerOf(seriesPath(run))?.newest.samples_per_second ?? null;

// Columns: name, heading, the value by which runs are sorted, the cell.
const COLUMNS = [
  ['name', 'run', (run) => run.name, null],
  ['state', 'state', (run) => run.state, (run) => make('td', {}, run.state)],
  ['step', '#step', (run) => run.step,
    (run) => numberCell(run.step, run.steps ? `${run.step} of ${run.steps}` : String(run.step))],
  ['loss', '#loss', lossOf, (run) => numberCell(lossOf(run))],
  ['speed', '#speed', speedOf, (run) => {
    const speed = speedOf(run);
    return numberCell(speed, speed === null ? '–' : `${formatNumber(speed)} ${run.unit}/s`);
  }],
  ['evaluation_loss', '#evaluation', (run) => run.evaluation_loss, number('evaluation_loss')],
  ['evaluation_accuracy', '#accuracy', (run) => run.evaluation_accuracy, number('evaluation_accuracy')],
  ['seconds', '#time', (run) => run.seconds, number('seconds', formatSeconds)],
  ['began', 'began (UTC)', (run) => run.began, (run) => {
    const cell = make('td', {}, formatDate(run.began));
    cell.dataset.value = String(run.began ?? '');
    return cell;
  }],
];

let fields = {fields: [], runs: {}};  // The answer of /api/fields.
let update = null;
const rows = new Map();  // The row of each run, and what it shows, by key.

// Evaluations have columns only if there are any.
const columnsWithValues = () => COLUMNS.filter(([id, , value]) => !id.startsWith('evaluation_') || state.runs.some(
    (run) => (value(run) ?? null) !== null));
const fieldOf = (run, path) => fields.runs[run.key]?.[path] ?? null;
const columnsOf = () => (state.columns ?? fields.fields.slice(0, FIRST_COLUMNS)).filter((path) => fields.fields.includes(path));
const unquoted = (text) => text?.replace(/^"(.*)"$/, '$1') ?? null;

// A field of a job file as a number, if it is one.
function sortable(text) {
  if (text === null) return null;
  const value = Number(text);
  return text.trim() === '' || Number.isNaN(value) ? unquoted(text) : value;
}

export function setFields(answer) {
  fields = answer;
}

// Returns the runs that contain all words of the search, in order.
function listed() {
  const words = state.search.toLowerCase().split(/\s+/).filter((word) => word !== '');
  const matches = (run) => {
    if (words.length === 0) return true;
    const job = Object.entries(fields.runs[run.key] ?? {}).map(([path, value]) => `${path}=${unquoted(value)}`);
    const text = [run.name, run.state, run.model, formatDate(run.began), ...job].join(' ').toLowerCase();
    return words.every((word) => text.includes(word));
  };
  const found = state.runs.filter(matches);
  if (state.sort === '') return found;
  const descending = state.sort.startsWith('-');
  const name = state.sort.replace('-', '');
  const known = COLUMNS.find(([id]) => id === name);
  const value = known ? known[2] : (run) => sortable(fieldOf(run, name));
  const order = (a, b) => (typeof a === 'number' && typeof b === 'number' ? a - b : String(a).localeCompare(String(b)));
  return found.map((run) => [value(run), run]).sort(([a], [b]) => {
    if (a === null || b === null || a === undefined || b === undefined) return Number(a == null) - Number(b == null);
    return descending ? order(b, a) : order(a, b);
  }).map(([, run]) => run);
}

function choose(change) {
  state.chosen = true;
  change();
  writeHash();
  update();
}

function nameCell(run) {
  const shown = state.shown.includes(run.key);
  const swatch = make('span', {className: 'swatch'});
  if (shown) swatch.style.background = `var(${colorName(slotOf(run))})`;
  return make('td', {title: run.path}, shown && slotOf(run) >= 10 ? lineSample(slotOf(run)) : swatch,
      button(run.name, () => choose(() => { state.shown = [run.key]; state.focus = run.key; }),
          {className: 'link', title: `${run.path}: show only this run`}));
}

function makeRow(run, known, columns) {
  const shown = state.shown.includes(run.key);
  const box = make('input', {
    type: 'checkbox', id: `show-${run.key}`, checked: shown, 'aria-label': `show ${run.name}`,
    disabled: !shown && state.shown.filter((key) => key !== null).length >= MAX_SHOWN,
    onchange: (event) => choose(() => {
      show(run.key, event.target.checked);
      if (event.target.checked) state.focus = run.key;
    }),
  });
  const row = make('tr', {className: run.live ? 'live' : ''}, make('td', {}, box), nameCell(run),
      ...known.slice(1).map(([, , , cell]) => cell(run)),
      ...columns.map((path) => make('td', {className: 'field'}, unquoted(fieldOf(run, path)) ?? '–')));
  row.dataset.run = run.key;
  return row;
}

function headCell(id, title, heading) {
  const numeric = heading.startsWith('#');
  const sorted = state.sort.replace('-', '') === id;
  const descending = sorted && state.sort.startsWith('-');
  const cell = make('th', {scope: 'col', className: numeric ? 'number' : '', title},
      button(heading.replace('#', '') + (sorted ? (descending ? ' ▼' : ' ▲') : ''), () => {
        // The third click shows running jobs first again.
        state.sort = !sorted ? id : descending ? '' : `-${id}`;
        writeHash();
        renderRuns(update);
      }, {className: 'link', id: `sort-${id}`}));
  cell.setAttribute('aria-sort', sorted ? (descending ? 'descending' : 'ascending') : 'none');
  return cell;
}

// Shows the runs; `refresh` loads what the choice of other runs needs.
export function renderRuns(refresh) {
  update = refresh;
  const focus = document.activeElement?.id;
  const columns = columnsOf();
  const known = columnsWithValues();
  document.querySelector('#runs thead').replaceChildren(make('tr', {}, make('th', {scope: 'col'}, 'show'),
      ...known.map(([id, heading]) => headCell(id, '', heading)),
      ...columns.map((path) => headCell(path, path, path.split('.').at(-1)))));
  const found = listed();
  const full = state.shown.filter((key) => key !== null).length >= MAX_SHOWN;
  const theme = document.documentElement.className;
  const shown = found.map((run) => {
    const text = JSON.stringify([known.length, {...run, id: 0, lines: 0}, state.shown.indexOf(run.key), speedOf(run),
      lossOf(run), full, theme, columns.map((path) => [path, fieldOf(run, path)])]);
    if (rows.get(run.key)?.text !== text) rows.set(run.key, {text, row: makeRow(run, known, columns)});
    return rows.get(run.key).row;
  });
  const body = document.querySelector('#runs tbody');
  if (shown.length !== body.children.length || shown.some((row, i) => body.children[i] !== row)) body.replaceChildren(...shown);
  document.getElementById('found').textContent = found.length === state.runs.length ?
      `${found.length} run${found.length === 1 ? '' : 's'}` : `${found.length} of ${state.runs.length} runs`;
  if (focus && document.activeElement?.id !== focus) document.getElementById(focus)?.focus();
  renderColumns(columns);
}

function renderColumns(columns) {
  const menu = document.getElementById('columns');
  menu.hidden = fields.fields.length === 0;
  const text = JSON.stringify([fields.fields, columns]);
  if (menu.dataset.shown === text) return;
  menu.dataset.shown = text;
  menu.querySelector('div').replaceChildren(...fields.fields.map((path) => make('label', {}, make('input', {
    type: 'checkbox', checked: columns.includes(path), onchange: (event) => {
      state.columns = fields.fields.filter((p) => (p === path ? event.target.checked : columns.includes(p)));
      writeHash();
      renderRuns(update);
    },
  }), path)));
}

// Connects the controls above the table.
export function startRuns() {
  const search = document.getElementById('search');
  search.value = state.search;
  search.oninput = () => {
    state.search = search.value;
    writeHash();
    renderRuns(update);
  };
  document.getElementById('show-found').onclick = () => choose(() => {
    state.shown = listed().slice(0, MAX_SHOWN).map((run) => run.key);
  });
  document.getElementById('hide-all').onclick = () => choose(() => { state.shown = []; });
  document.getElementById('runs-csv').onclick = () => saveCsv('runs', [
    ['path', ...COLUMNS.map(([id]) => id), ...fields.fields],
    ...listed().map((run) => [run.path, ...COLUMNS.map(([, , value]) => value(run)),
      ...fields.fields.map((path) => unquoted(fieldOf(run, path)))])]);
}
