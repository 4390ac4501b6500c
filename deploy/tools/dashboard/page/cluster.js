// The views of a job's processes and of the bytes that they exchange.
import {make, numberCell, table} from '/elements.js';
import {formatNumber} from '/numbers.js';

const counted = (count, noun) => `${formatNumber(count)} ${noun}${count === 1 ? '' : 's'}`;
const megabytes = (bytes) => numberCell(bytes, bytes ? formatNumber(bytes / 1e6) : '–');

function bytesCell(bytes) {
  if (bytes === null) return numberCell(null);
  let power = 0, scaled = bytes;
  while (scaled >= 999.95 && power < 5) { scaled /= 1000; ++power; }
  const cell = numberCell(bytes, power === 0 ? String(Math.round(scaled)) : `${scaled.toFixed(1)} ${' kMGTP'[power]}B`);
  cell.title = `${bytes.toLocaleString('en')} bytes`;
  return cell;
}

const textCell = (text) => make('td', {}, text || '–');
const nameOf = (p) => `${p.role} ${p.number ?? p.rank ?? p.shard ?? ''}`;

function seconds(milliseconds) {
  return numberCell(milliseconds, milliseconds < 0 ? '–' : `${(milliseconds / 1000).toFixed(1)} s`);
}

// The cells that describe the program and the machine of a process.
const PLACE_HEADS = ['host', '#pid', 'release', 'device'];
function placeCells(p) {
  return [textCell(p.host), numberCell(p.pid, p.pid ? String(p.pid) : '–'), textCell(p.release), textCell(p.device)];
}

function liveParts(data) {
  const status = data.status;
  const row = (p) => make('tr', {}, make('td', {}, nameOf(p)), numberCell(p.step, p.step < 0 ? '–' : String(p.step)),
      make('td', {}, p.phase || 'starting'), seconds(p.silent_ms), textCell(p.waits_for),
      textCell(p.role === 'server' ? p.place : ''),
      megabytes(p.memory_bytes), seconds(p.lease_left_ms),
      textCell(p.leaf_end > p.leaf_begin ? `${p.leaf_begin} to ${p.leaf_end - 1}` : ''), ...placeCells(p));
  return [
    make('p', {id: 'age'},
        `Status of the coordinator at ${data.coordinator}, ${data.age_seconds.toFixed(1)} s old.`),
    make('p', {}, `Attempt ${status.attempt}; newest checkpoint: ` +
        `${status.checkpoint_step < 0 ? 'none' : `step ${status.checkpoint_step}`}; in this attempt, ` +
        `${counted(status.workers_lost, 'worker')} lost, ${counted(status.lease_expiries, 'lease')} expired.`),
    table('processes', ['process', '#step', 'phase', '#silent', 'waits for', 'address', '#memory (MB)', '#lease left',
      'micro-batches', ...PLACE_HEADS], status.processes.map(row)),
  ];
}

function summaryParts(summary) {
  const facts = [['status', summary.status], ['failure', summary.failure], ['steps', summary.steps],
    ['final loss', summary.final_loss], ['evaluation loss', summary.evaluation?.loss],
    ['evaluation accuracy', summary.evaluation?.accuracy], ['seconds', summary.seconds],
    ['attempts', summary.attempt], ['workers', summary.workers], ['workers lost', summary.workers_lost],
    ['servers', summary.servers], ['parameters', summary.parameters], ['weights', summary.weights_sha256]];
  const known = facts.filter(([, value]) => value !== undefined && value !== null);
  const row = (p) => make('tr', {}, make('td', {}, nameOf(p)), megabytes(p.peak_memory_bytes),
      numberCell(p.cpu_seconds),
      ...['compute_seconds', 'data_seconds', 'exchange_seconds', 'evaluation_seconds']
          .map((name) => numberCell(p[name] ?? null)), ...placeCells(p));
  return [make('h2', {}, 'Summary'), table('summary', ['', ''], known.map(([name, value]) => {
    const cell = make('td', {className: 'text'}, typeof value === 'number' ? formatNumber(value) : String(value));
    cell.dataset.value = String(value);
    return make('tr', {}, make('td', {}, name), cell);
  })),
  make('h2', {}, 'Processes at the end'),
  table('ended', ['process', '#peak memory (MB)', '#CPU seconds', '#compute', '#data', '#exchange', '#evaluation',
    ...PLACE_HEADS], (summary.processes ?? []).map(row))];
}

// The lines with which the newest attempt describes the stages of a pipeline.
function stageParts(events) {
  const stages = events.filter((e) => e.kind === 'stage');
  const newest = stages.filter((e) => e.attempt === stages.at(-1).attempt);
  if (newest.length === 0) return [];
  return [make('h2', {}, 'Stages of the pipeline'),
    table('stages', ['stage'], newest.map((e) => make('tr', {}, make('td', {className: 'text'}, e.message))))];
}

// The tables of embeddings, whose parts the servers have.
function tableParts(processes) {
  const tables = new Map();
  for (const part of processes.flatMap((p) => p.tables ?? [])) {
    const sum = tables.get(part.name) ?? {rows: 0, bytes: 0};
    tables.set(part.name, {rows: sum.rows + part.rows, bytes: sum.bytes + part.bytes});
  }
  if (tables.size === 0) return [];
  return [make('h2', {}, 'Tables of embeddings'),
    table('tables', ['table', '#rows', '#memory of rows and index'], [...tables].map(([name, sum]) =>
      make('tr', {}, make('td', {}, name), numberCell(sum.rows, sum.rows.toLocaleString('en')), bytesCell(sum.bytes))))];
}

// Returns the elements of the view of the processes; `data` is an answer of
// /api/status, and `events` are the newest events of the run.
export function clusterParts(data, events) {
  const parts = data.live && data.status ? liveParts(data) : [];
  if (data.summary) parts.push(...summaryParts(data.summary));
  if (parts.length === 0) {
    parts.push(make('p', {}, 'The job does not answer, and there is no summary.json of it: its server was killed, or ' +
        'the job runs where this page cannot reach it.'));
  }
  const processes = (data.live ? data.status?.processes : data.summary?.processes) ?? [];
  return [...parts, ...tableParts(processes), ...stageParts(events)];
}

// Returns the elements of the view of the exchange; `data` is an answer of
// /api/status.
export function exchangeParts(data) {
  const live = data.live && data.status;
  const source = live ? data.status : data.summary;
  if (!source) {
    return [make('p', {}, 'The job does not answer, and there is no summary.json, which has the bytes of each process.')];
  }
  const expected = data.expected;
  const parts = [make('p', {}, `${live ? '' : `Exchange: ${source.exchange}, `}${counted(source.workers, 'worker')}, ` +
      `${counted(source.servers, 'server')}, ${counted(source.parameters, 'parameter')}. Figures for a step include ` +
      'bytes in shared memory.')];
  if (expected) parts.push(make('p', {id: 'law'}, expected.law));
  // The steps in which the process has sent these bytes; 0: unknown.
  const stepsOf = (p) => live ? p.steps : source.attempt === 1 ? source.steps : 0;
  const row = (p) => {
    const sharedSent = p.shared_bytes_sent ?? 0, sharedReceived = p.shared_bytes_received ?? 0;
    const steps = stepsOf(p);
    const each = (bytes) => steps > 0 ? bytes / steps : null;
    const law = expected && (p.role === 'worker' ? expected.workers[p.number ?? p.rank] : expected.server);
    return make('tr', {}, make('td', {}, nameOf(p)), ...[
      p.bytes_sent, p.bytes_received, each(p.bytes_sent + sharedSent), each(p.bytes_received + sharedReceived),
      law?.sent ?? null, law?.received ?? null, sharedSent, sharedReceived].map(bytesCell));
  };
  parts.push(table('bytes', ['process', '#sent', '#received', '#sent in a step', '#received in a step',
    '#law: sent', '#law: received', '#sent in shared memory', '#received in shared memory'],
  (live ? source.processes : source.processes ?? []).map(row)));
  return parts;
}
