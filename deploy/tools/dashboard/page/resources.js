// The view of what the processes of a run use over time.
import {ChartGroup, lineSample, rangeOf} from '/charts.js';
import {button, choice, make} from '/elements.js';
import {state, writeHash} from '/state.js';

// Charts: name, title, value of a process.
const CHARTS = [
  ['cpus', 'CPUs in use', (p) => p.cpus], ['memory', 'Resident memory (MB)', (p) => p.memory_bytes / 1e6],
  ['sent', 'Network: sent (MB/s)', (p) => p.sent_per_second / 1e6],
  ['received', 'Network: received (MB/s)', (p) => p.received_per_second / 1e6],
  ['shared_sent', 'Shared memory: sent (MB/s)', (p) => p.shared_sent_per_second / 1e6],
  ['shared_received', 'Shared memory: received (MB/s)', (p) => p.shared_received_per_second / 1e6],
  ['gpu', 'GPU in use (%)', (p) => p.gpu_percent], ['gpu_memory', 'GPU memory in use (MB)', (p) => p.gpu_memory_bytes / 1e6],
];

let group = null, shown = null, update = null;

function zoom(from, to) {
  const {lines} = shown ?? {lines: []};
  const inside = from === undefined ? [] :
      lines.filter((line) => line[xOf()] >= from && line[xOf()] <= to).map((line) => line.step);
  [state.from, state.to] = inside.length > 1 ? [inside[0], inside.at(-1)] : [null, null];
  writeHash();
  update();
}

const xOf = () => state.over;

// Returns the elements of the view; `data` is an answer of /api/resources,
// `choose` the choice of a run. `refresh` loads what changed choices need.
export function renderResources(data, choose, refresh) {
  update = refresh;
  shown = data;
  const names = [...new Set(data.lines.flatMap((line) => line.resources.map((p) => `${p.role} ${p.number}`)))]
      .sort((a, b) => a.localeCompare(b, 'en', {numeric: true}));
  const slots = new Map(names.map((name, slot) => [name, slot]));
  const view = document.getElementById('view');
  const signature = JSON.stringify([names, document.documentElement.className]);
  if (group === null || !view.contains(group.charts[0].element)) {
    group = new ChartGroup(zoom, (id, log) => {
      state.logs[log ? 'add' : 'delete'](id);
      writeHash();
      update();
    });
    for (const [id, title] of CHARTS) group.add(id, title, {zero: true});
    view.replaceChildren(make('div', {id: 'resources-choice'}), make('p', {id: 'no-resources', hidden: true},
        'There are no values yet. While a job runs, server 0 records them about once a second.'),
    make('div', {id: 'legend'}), make('div', {className: 'charts'}, ...group.charts.map((chart) => chart.element)));
  }
  const controls = choose();
  controls.append(choice('x axis', 'over', [['seconds', 'seconds'], ['step', 'steps']], xOf(), (value) => {
    state.over = value;
    writeHash();
    update();
  }), button('Show all', () => zoom(), {id: 'all'}));
  document.getElementById('resources-choice').replaceChildren(controls);
  document.getElementById('no-resources').hidden = names.length > 0;
  const legend = document.getElementById('legend');
  if (legend.dataset.shown !== signature) {
    legend.dataset.shown = signature;
    legend.replaceChildren(...names.map((name) => make('span', {
      onmouseenter: () => group.emphasize(name), onmouseleave: () => group.emphasize(null),
    }, lineSample(slots.get(name)), name)));
  }
  const x = xOf();
  const series = CHARTS.map(([, , value]) => {
    const lines = new Map(names.map((name) => [name, {name, slot: slots.get(name), x: [], y: []}]));
    for (const line of data.lines) {
      for (const p of line.resources) {
        const number = value(p);
        if (line[x] === null || number === null || number === undefined || Number.isNaN(number)) continue;
        const one = lines.get(`${p.role} ${p.number}`);
        one.x.push(line[x]);
        one.y.push(number);
      }
    }
    return [...lines.values()].filter((one) => one.x.length > 0);
  });
  const range = rangeOf(series.flat());
  group.charts.forEach((chart, i) => {
    chart.set(series[i], [], state.logs.has(chart.id), x, range);
    chart.element.hidden = series[i].length === 0;
  });
}
