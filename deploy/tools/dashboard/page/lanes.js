// The parts of steps, by worker, on a canvas.
import {color, FONT} from '/charts.js';
import {formatNumber} from '/numbers.js';

const LEFT = 58;

export const PHASES = ['forward', 'backward', 'data', 'exchange'];

// Swim lanes: a row for each worker, a column for each line of metrics; each
// cell shows how long the parts of a step took this worker, on a scale that all
// cells share.
export function drawLanes(canvas, lines, ranks) {
  const row = ranks.length > 32 ? 10 : 18;
  const width = canvas.clientWidth;
  const height = row * ranks.length + 22;
  canvas.style.height = `${height}px`;
  const ratio = devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const c = canvas.getContext('2d');
  c.setTransform(ratio, 0, 0, ratio, 0, 0);
  c.clearRect(0, 0, width, height);
  c.font = FONT;
  c.textBaseline = 'middle';
  if (lines.length === 0) return;
  const cell = (width - LEFT) / lines.length;
  const total = (w) => PHASES.reduce((sum, phase) => sum + (w[`${phase}_ms`] ?? 0), 0);
  let longest = 0;
  for (const line of lines) for (const w of line.workers ?? []) longest = Math.max(longest, total(w));
  const colors = Object.fromEntries(PHASES.map((phase) => [phase, color(`--${phase}`)]));
  c.fillStyle = color('--muted');
  c.textAlign = 'right';
  const every = Math.ceil(14 / row);
  ranks.forEach((rank, i) => {
    if (i % every === 0) c.fillText(`worker ${rank}`, LEFT - 6, row * i + row / 2);
  });
  c.textAlign = 'left';
  const labels = Math.ceil(70 / cell);
  lines.forEach((line, column) => {
    const left = LEFT + column * cell;
    c.fillStyle = color('--muted');
    if (column % labels === 0 && left + 40 < width) c.fillText(formatNumber(line.step), left, height - 10);
    for (const w of line.workers ?? []) {
      const i = ranks.indexOf(w.rank);
      let x = left;
      for (const phase of PHASES) {
        const part = longest > 0 ? (cell - 2) * (w[`${phase}_ms`] ?? 0) / longest : 0;
        c.fillStyle = colors[phase];
        c.fillRect(x, row * i + 1, part, row - 2);
        x += part;
      }
    }
    if (line.waiting) {
      const i = ranks.indexOf(line.waiting.rank);
      c.strokeStyle = color('--text');
      if (i >= 0 && line.waiting.ms > 0) c.strokeRect(left - 0.5, row * i + 0.5, cell - 1, row - 1);
    }
  });
}
