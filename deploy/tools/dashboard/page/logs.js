// The view of a run's events and of the logs of its processes.
import {choice, make, numberCell, table} from '/elements.js';
import {formatDate} from '/numbers.js';
import {state} from '/state.js';

export const ALL = 'all';
// The most logs that are shown as one.
export const MAX_MERGED = 32;
// Levels that are shown if only problems are: "output" are lines that the
// logger has not written, such as those of a crash.
const PROBLEMS = ['warning', 'error', 'output'];
let text = '';  // What entries must contain.

function eventTable(events) {
  if (events.length === 0) return make('p', {}, 'There are no events yet.');
  const list = table('events', ['time', '#step', '#attempt', 'event', 'about', 'message'], [...events].reverse().map((e) => {
    const row = make('tr', {className: e.severity === 'info' ? '' : 'alert'},
        make('td', {}, formatDate(e.time)),
        numberCell(e.step), numberCell(e.attempt), make('td', {}, e.kind),
        make('td', {}, e.role ? `${e.role} ${e.number}` : '–'), make('td', {className: 'text'}, e.message ?? ''));
    row.dataset.kind = e.kind;
    return row;
  }));
  list.classList.add('short');
  return list;
}

// Returns the entries of several logs in the order of their times, newest
// first. An entry without a time stays behind the one before it.
function merged(logs) {
  const entries = [];
  for (const [name, log] of logs) {
    let time = '';
    (log.entries ?? []).forEach((entry, i) => {
      time = entry.time || time;
      entries.push({...entry, log: name, at: time, i});
    });
  }
  return entries.sort((a, b) => b.at.localeCompare(a.at) || a.log.localeCompare(b.log) || b.i - a.i);
}

function sizeText(bytes) {
  return bytes < 1e5 ? `${(bytes / 1e3).toFixed(1)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}

// Returns the elements of the view. `logs` are pairs of the name of a log and
// its answer of /api/log; `update` loads what changed choices need.
export function logParts(choose, logs, events, update) {
  const [, data] = logs[0];
  const problems = state.level !== 'all';
  const entries = merged(logs).filter((e) => (!problems || PROBLEMS.includes(e.level)) &&
      (text === '' || `${e.process} ${e.message}`.toLowerCase().includes(text.toLowerCase())));
  const names = data.logs.map((log) => [log.name, `${log.name} (${sizeText(log.bytes)})`]);
  if (names.length > 1) names.unshift([ALL, 'all processes']);
  const parts = [choose(), make('div', {className: 'controls'},
      choice('log', 'process', names, state.process, (value) => { state.process = value; update(); }),
      choice('show', 'level', [['all', 'all messages'], ['warnings', 'warnings and errors']], state.level,
          (value) => { state.level = value; update(); }),
      make('label', {}, 'containing ', make('input', {
        type: 'search', id: 'log-search', value: text, onchange: (event) => { text = event.target.value; update(); },
      }))),
  make('h2', {}, 'Events, newest first'), eventTable(events.filter((e) => !problems || e.severity !== 'info'))];
  if (data.sample !== null) parts.push(make('h2', {}, 'Sample of the final model'), make('pre', {}, data.sample));
  parts.push(make('h2', {}, 'Log, newest first'));
  if (data.entries === null) {
    parts.push(make('p', {}, 'The log is in the folder of the run, which this page does not read.'));
  } else if (entries.length === 0) {
    parts.push(make('p', {}, names.length === 0 ?
        'There are no logs. `tributary train` writes them to the folder logs of the run.' : 'No messages.'));
  } else {
    const several = logs.length > 1;
    parts.push(table('log', ['time', 'level', several ? 'log' : 'process', 'message'], entries.map((e) => {
      const row = make('tr', {className: ['warning', 'error'].includes(e.level) ? 'alert' : ''},
          make('td', {title: e.time}, e.time.replace('T', ' ').replace('Z', '').slice(0, 23)), make('td', {}, e.level),
          make('td', {}, several ? e.log.replace(/\.log$/, '') : e.process),
          make('td', {className: e.level === 'output' ? 'text output' : 'text'}, e.message));
      row.dataset.log = e.log;
      return row;
    })));
  }
  return parts;
}
