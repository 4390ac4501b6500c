// Charts on a canvas.

// Returns about `count` round numbers from `low` to `high`.
export function ticksOf(low, high, count) {
  const span = high - low;
  if (!(span > 0) || !isFinite(span)) return [low];
  const raw = span / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw);
  const ticks = [];
  for (let i = Math.ceil(low / step); i * step <= high + 1e-9 * span; ++i) ticks.push(i * step);
  return ticks;
}

export function formatNumber(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return '–';
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e7)) return value.toExponential(2);
  if (size >= 1000) return value.toLocaleString('en', {maximumFractionDigits: 0});
  return String(Number(value.toPrecision(4)));
}

function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

const LEFT = 58, RIGHT = 10, TOP = 8, BOTTOM = 24;

// A line chart with a crosshair. `onZoom(from, to)` is called with the part of
// the x axis that the user has selected, or with nothing for all of it.
export class LineChart {
  constructor(title, onZoom) {
    this.title = title;
    this.onZoom = onZoom;
    this.series = [];
    this.marks = [];
    this.log = false;
    this.cursor = null;
    this.drag = null;
    this.element = document.createElement('figure');
    const caption = document.createElement('figcaption');
    const name = document.createElement('strong');
    name.textContent = title;
    this.output = document.createElement('output');
    caption.append(name, this.output);
    this.canvas = document.createElement('canvas');
    this.canvas.className = 'chart';
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute('role', 'img');
    this.element.append(caption, this.canvas);
    this.canvas.addEventListener('mousemove', (event) => {
      this.cursor = this.xAt(event.offsetX);
      this.draw();
    });
    this.canvas.addEventListener('mouseleave', () => {
      this.cursor = this.drag = null;
      this.draw();
    });
    this.canvas.addEventListener('mousedown', (event) => {
      this.drag = this.xAt(event.offsetX);
      event.preventDefault();
      this.canvas.focus();
    });
    this.canvas.addEventListener('mouseup', (event) => {
      const end = this.xAt(event.offsetX);
      const begin = this.drag;
      this.drag = null;
      const [low, high] = this.range();
      if (begin !== null && Math.abs(end - begin) > 0.01 * (high - low)) {
        this.onZoom(Math.min(begin, end), Math.max(begin, end));
      }
    });
    this.canvas.addEventListener('dblclick', () => this.onZoom());
    this.canvas.addEventListener('keydown', (event) => this.onKey(event));
    new ResizeObserver(() => this.draw()).observe(this.canvas);
  }

  onKey(event) {
    const [low, high] = this.range();
    const middle = this.cursor ?? (low + high) / 2;
    const quarter = (high - low) / 4;
    if (event.key === 'ArrowLeft' || event.key === 'ArrowRight') {
      this.cursor = this.neighbor(middle, event.key === 'ArrowLeft' ? -1 : 1);
      this.draw();
    } else if (event.key === '+') {
      this.onZoom(Math.max(low, middle - quarter), Math.min(high, middle + quarter));
    } else if (event.key === '-' || event.key === '0') {
      this.onZoom();
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  }

  // Each series: {name, color, x, y, min, max, dots}; marks: {x, color}.
  set(series, marks, log, xLabel) {
    this.series = series;
    this.marks = marks;
    this.log = log;
    this.xLabel = xLabel;
    this.draw();
  }

  range() {
    let low = Infinity, high = -Infinity;
    for (const {x} of this.series) {
      if (x.length === 0) continue;
      low = Math.min(low, x[0]);
      high = Math.max(high, x[x.length - 1]);
    }
    if (low > high) return [0, 1];
    return low === high ? [low - 1, high + 1] : [low, high];
  }

  xAt(pixel) {
    const [low, high] = this.range();
    const width = this.canvas.clientWidth - LEFT - RIGHT;
    return low + (high - low) * Math.min(1, Math.max(0, (pixel - LEFT) / width));
  }

  neighbor(x, direction) {
    const all = this.series.filter((s) => s.x.length > 0)[0]?.x ?? [];
    let i = nearest(all, x) + direction;
    i = Math.min(Math.max(i, 0), all.length - 1);
    return all[i] ?? x;
  }

  draw() {
    const canvas = this.canvas;
    const width = canvas.clientWidth, height = canvas.clientHeight;
    if (width === 0) return;
    const ratio = devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * ratio)) canvas.width = Math.round(width * ratio);
    if (canvas.height !== Math.round(height * ratio)) canvas.height = Math.round(height * ratio);
    const c = canvas.getContext('2d');
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.clearRect(0, 0, width, height);
    c.font = '11px system-ui, sans-serif';
    const usable = (v) => v !== null && isFinite(v) && (!this.log || v > 0);
    let low = Infinity, high = -Infinity;
    for (const s of this.series) {
      for (const list of [s.y, s.min ?? [], s.max ?? []]) {
        for (const v of list) {
          if (!usable(v)) continue;
          low = Math.min(low, v);
          high = Math.max(high, v);
        }
      }
    }
    const empty = low > high;
    if (empty) [low, high] = this.log ? [1, 10] : [0, 1];
    const scale = this.log ? Math.log10 : (v) => v;
    let bottom = scale(low), top = scale(high);
    // Values that differ only by rounding are a horizontal line.
    const least = 1e-6 * Math.max(Math.abs(bottom), Math.abs(top));
    if (top - bottom <= least) {
      const half = Math.max(least * 1e5, 1e-12);
      [bottom, top] = [bottom - half, top + half];
    }
    const margin = 0.05 * (top - bottom);
    [bottom, top] = [bottom - margin, top + margin];
    const [first, last] = this.range();
    const px = (x) => LEFT + (width - LEFT - RIGHT) * (x - first) / (last - first);
    const py = (y) => height - BOTTOM - (height - TOP - BOTTOM) * (scale(y) - bottom) / (top - bottom);

    c.strokeStyle = color('--border');
    c.fillStyle = color('--muted');
    c.lineWidth = 1;
    c.textAlign = 'right';
    c.textBaseline = 'middle';
    for (const tick of ticksOf(bottom, top, 5)) {
      const y = height - BOTTOM - (height - TOP - BOTTOM) * (tick - bottom) / (top - bottom);
      c.globalAlpha = 0.5;
      c.beginPath();
      c.moveTo(LEFT, y);
      c.lineTo(width - RIGHT, y);
      c.stroke();
      c.globalAlpha = 1;
      c.fillText(formatNumber(this.log ? 10 ** tick : tick), LEFT - 6, y);
    }
    c.textAlign = 'center';
    c.textBaseline = 'top';
    for (const tick of ticksOf(first, last, Math.max(2, Math.floor(width / 110)))) {
      c.fillText(formatNumber(tick), px(tick), height - BOTTOM + 6);
    }
    if (empty) {
      c.textBaseline = 'middle';
      c.fillText('no values yet', width / 2, height / 2);
    }
    for (const mark of this.marks) {
      if (mark.x < first || mark.x > last) continue;
      c.strokeStyle = color(mark.color);
      c.setLineDash([2, 3]);
      c.beginPath();
      c.moveTo(px(mark.x), TOP);
      c.lineTo(px(mark.x), height - BOTTOM);
      c.stroke();
      c.setLineDash([]);
    }
    for (const s of this.series) {
      c.strokeStyle = c.fillStyle = color(s.color);
      if (s.min) {
        c.globalAlpha = 0.18;
        c.beginPath();
        let open = false;
        for (let i = 0; i < s.x.length; ++i) {
          if (!usable(s.max[i])) continue;
          c[open ? 'lineTo' : 'moveTo'](px(s.x[i]), py(s.max[i]));
          open = true;
        }
        for (let i = s.x.length - 1; i >= 0; --i) {
          if (usable(s.min[i])) c.lineTo(px(s.x[i]), py(s.min[i]));
        }
        c.fill();
        c.globalAlpha = 1;
      }
      c.lineWidth = 1.6;
      c.setLineDash(s.dots ? [5, 4] : []);
      c.beginPath();
      let open = false;
      for (let i = 0; i < s.x.length; ++i) {
        if (!usable(s.y[i])) {
          open = false;  // A gap shows that values are missing.
          continue;
        }
        c[open ? 'lineTo' : 'moveTo'](px(s.x[i]), py(s.y[i]));
        open = true;
      }
      c.stroke();
      c.setLineDash([]);
      if (s.dots || s.x.length === 1) {
        for (let i = 0; i < s.x.length; ++i) {
          if (!usable(s.y[i])) continue;
          c.beginPath();
          c.arc(px(s.x[i]), py(s.y[i]), 3, 0, 2 * Math.PI);
          c.fill();
        }
      }
    }
    let text = '';
    if (this.cursor !== null && !empty) {
      const x = px(this.cursor);
      c.strokeStyle = color('--muted');
      c.beginPath();
      c.moveTo(x, TOP);
      c.lineTo(x, height - BOTTOM);
      c.stroke();
      if (this.drag !== null) {
        c.globalAlpha = 0.15;
        c.fillStyle = color('--accent');
        c.fillRect(Math.min(x, px(this.drag)), TOP, Math.abs(x - px(this.drag)), height - TOP - BOTTOM);
        c.globalAlpha = 1;
      }
      const parts = [];
      for (const s of this.series) {
        const i = nearest(s.x, this.cursor);
        if (i >= 0) {
          parts.push(`${s.name} ${formatNumber(s.y[i])} at ${formatNumber(s.x[i])}`);
        }
      }
      text = parts.join(' · ');
    } else {
      text = this.series.filter((s) => s.y.length > 0)
          .map((s) => `${s.name} ${formatNumber(s.y[s.y.length - 1])}`).join(' · ');
    }
    if (this.output.textContent !== text) this.output.textContent = text;
    this.canvas.setAttribute('aria-label', `${this.title} by ${this.xLabel}: ${text || 'no values'}`);
  }
}

function nearest(sorted, x) {
  let low = 0, high = sorted.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < x) low = middle + 1; else high = middle;
  }
  if (low > 0 && x - sorted[low - 1] < sorted[low] - x) --low;
  return sorted.length === 0 ? -1 : low;
}

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
  c.font = '11px system-ui, sans-serif';
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
