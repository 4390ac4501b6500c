// Line charts on a canvas.
import {csvOf, save} from '/download.js';
import {button, make} from '/elements.js';
import {formatNumber, formatTick, logTicksOf, ticksOf} from '/numbers.js';

export const FONT = '11px system-ui, sans-serif';
const LEFT = 58, RIGHT = 12, TOP = 8, BOTTOM = 24;
const COLORS = 10;
// After ten lines, the colors repeat with the next pattern.
const DASHES = [[], [7, 4], [2, 3], [9, 3, 2, 3]];
// A value is near the crosshair up to this part of the x axis.
const NEAR = 0.03;
const MAX_ROWS = 10;  // Of the values at the crosshair.

export function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// A line's color and pattern, by its slot.
export const colorName = (slot) => `--run${slot % COLORS}`;
const dashOf = (slot) => DASHES[Math.floor(slot / COLORS) % DASHES.length];

// A short piece of the line with this slot, for legends.
export function lineSample(slot) {
  const canvas = make('canvas', {className: 'sample', width: 56, height: 20, 'aria-hidden': 'true'});
  const c = canvas.getContext('2d');
  c.scale(2, 2);
  c.strokeStyle = color(colorName(slot));
  c.lineWidth = 2.5;
  c.setLineDash(dashOf(slot));
  c.beginPath();
  c.moveTo(0, 5);
  c.lineTo(28, 5);
  c.stroke();
  return canvas;
}

// Charts with one x axis: they share the crosshair, and the emphasized line.
export class ChartGroup {
  // `onZoom(from, to)` is called with the part of the x axis that the user has
  // selected, or with nothing for all of it; `onLog(id, log)` when the user has
  // chosen a logarithmic axis.
  constructor(onZoom, onLog) {
    this.onZoom = onZoom;
    this.onLog = onLog;
    this.charts = [];
    this.cursor = null;
    this.emphasized = null;
  }

  // With `zero`, the y axis begins at zero.
  add(id, title, {zero = false} = {}) {
    const chart = new LineChart(this, id, title, zero);
    this.charts.push(chart);
    return chart;
  }

  setCursor(x) {
    this.cursor = x;
    for (const chart of this.charts) chart.drawCursor();
  }

  emphasize(name) {
    if (this.emphasized === name) return;
    this.emphasized = name;
    for (const chart of this.charts) chart.draw();
  }
}

class LineChart {
  constructor(group, id, title, zero) {
    Object.assign(this, {group, id, title, zero, series: [], marks: [], log: false, drag: null, xLabel: ''});
    this.logButton = button('log', () => group.onLog(id, !this.log), {className: 'small', title: 'logarithmic axis'});
    this.canvas = make('canvas', {className: 'chart', tabIndex: 0, role: 'img'});
    this.overlay = make('canvas', {className: 'overlay', 'aria-hidden': 'true'});
    this.output = make('output', {className: 'values', hidden: true});
    this.element = make('figure', {id: `chart-${id}`},
        make('figcaption', {}, make('strong', {}, title), make('span', {className: 'tools'}, this.logButton,
            button('CSV', () => this.saveCsv(), {className: 'small', title: 'save the values'}),
            button('PNG', () => this.savePng(), {className: 'small', title: 'save the picture'}))),
        make('div', {className: 'plot'}, this.canvas, this.overlay, this.output));
    this.listen();
    new ResizeObserver(() => this.draw()).observe(this.canvas);
  }

  listen() {
    const canvas = this.canvas;
    canvas.addEventListener('mousemove', (event) => this.group.setCursor(this.xAt(event.offsetX)));
    canvas.addEventListener('mouseleave', () => {
      this.drag = null;
      this.group.setCursor(null);
    });
    canvas.addEventListener('mousedown', (event) => {
      this.drag = this.xAt(event.offsetX);
      event.preventDefault();
      canvas.focus();
    });
    canvas.addEventListener('mouseup', (event) => {
      const end = this.xAt(event.offsetX);
      const begin = this.drag;
      this.drag = null;
      const [low, high] = this.range();
      if (begin !== null && Math.abs(end - begin) > 0.01 * (high - low)) {
        this.group.onZoom(Math.min(begin, end), Math.max(begin, end));
      }
    });
    canvas.addEventListener('dblclick', () => this.group.onZoom());
    canvas.addEventListener('keydown', (event) => this.onKey(event));
    canvas.addEventListener('blur', () => this.group.setCursor(null));
  }

  onKey(event) {
    const [low, high] = this.range();
    const middle = this.group.cursor ?? (low + high) / 2;
    const quarter = (high - low) / 4;
    if (event.key === 'ArrowLeft' || event.key === 'ArrowRight') {
      this.group.setCursor(this.neighbor(middle, event.key === 'ArrowLeft' ? -1 : 1));
    } else if (event.key === '+') {
      this.group.onZoom(Math.max(low, middle - quarter), Math.min(high, middle + quarter));
    } else if (event.key === '-' || event.key === '0') {
      this.group.onZoom();
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  }

  // Each series: {name, slot, x, y, min, max, dots}; with `stroke: false`, only
  // dots; with `near`, the crosshair shows only values close to it. marks: {x,
  // slot}. The charts of a group have the same `range` of x.
  set(series, marks, log, xLabel, range = null) {
    Object.assign(this, {series, marks, log, xLabel, sharedRange: range});
    this.logButton.setAttribute('aria-pressed', String(log));
    this.draw();
  }

  get empty() {
    return this.series.every((s) => s.y.every((v) => v === null));
  }

  range() {
    const [low, high] = this.sharedRange ?? rangeOf(this.series);
    if (low > high) return [0, 1];
    return low === high ? [low - 1, high + 1] : [low, high];
  }

  xAt(pixel) {
    const [low, high] = this.range();
    const width = this.canvas.clientWidth - LEFT - RIGHT;
    return low + (high - low) * Math.min(1, Math.max(0, (pixel - LEFT) / width));
  }

  neighbor(x, direction) {
    const all = this.series.find((s) => s.x.length > 0)?.x ?? [];
    const i = Math.min(Math.max(nearest(all, x) + direction, 0), all.length - 1);
    return all[i] ?? x;
  }

  // Returns the axes of a chart with this size, and functions from values to
  // pixels.
  axes(width, height) {
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
    if (this.zero && !this.log) low = Math.min(low, 0);
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
    [bottom, top] = [this.zero && low === 0 && !this.log ? 0 : bottom - margin, top + margin];
    const [first, last] = this.range();
    const ticks = this.log ? logTicksOf(10 ** bottom, 10 ** top, 6) : ticksOf(bottom, top, 5);
    return {
      usable, empty, first, last, ticks,
      px: (x) => LEFT + (width - LEFT - RIGHT) * (x - first) / (last - first),
      py: (y) => height - BOTTOM - (height - TOP - BOTTOM) * (scale(y) - bottom) / (top - bottom),
    };
  }

  draw() {
    const {clientWidth: width, clientHeight: height} = this.canvas;
    if (width === 0) return;
    this.paint(prepare(this.canvas, width, height), width, height);
    this.drawCursor();
  }

  paint(c, width, height) {
    const axes = this.axes(width, height);
    this.paintGrid(c, axes, width, height);
    for (const mark of this.marks) {
      if (mark.x < axes.first || mark.x > axes.last) continue;
      c.strokeStyle = color(colorName(mark.slot));
      c.setLineDash([2, 3]);
      line(c, axes.px(mark.x), TOP, axes.px(mark.x), height - BOTTOM);
      c.setLineDash([]);
    }
    // The emphasized line is above the others.
    const rank = (s) => Number(s.name === this.group.emphasized);
    const emphasized = this.series.some(rank) ? this.group.emphasized : null;
    for (const s of [...this.series].sort((a, b) => rank(a) - rank(b))) paintSeries(c, axes, s, emphasized);
  }

  paintGrid(c, axes, width, height) {
    c.lineWidth = 1;
    c.textAlign = 'right';
    c.textBaseline = 'middle';
    c.strokeStyle = color('--border');
    c.fillStyle = color('--muted');
    for (const tick of axes.ticks) {
      c.globalAlpha = 0.5;
      line(c, LEFT, axes.py(tick), width - RIGHT, axes.py(tick));
      c.globalAlpha = 1;
      c.fillText(formatTick(tick), LEFT - 6, axes.py(tick));
    }
    c.textAlign = 'center';
    c.textBaseline = 'top';
    for (const tick of ticksOf(axes.first, axes.last, Math.max(2, Math.floor(width / 110)))) {
      const text = formatTick(tick);
      const half = c.measureText(text).width / 2;
      c.fillText(text, Math.min(axes.px(tick), width - half - 1), height - BOTTOM + 6);
    }
    if (axes.empty) {
      c.textBaseline = 'middle';
      c.fillText('no values yet', width / 2, height / 2);
    }
  }

  drawCursor() {
    const {clientWidth: width, clientHeight: height} = this.canvas;
    if (width === 0) return;
    const c = prepare(this.overlay, width, height);
    const x = this.group.cursor;
    this.describe(x);
    if (x === null) return;
    const axes = this.axes(width, height);
    c.strokeStyle = color('--muted');
    line(c, axes.px(x), TOP, axes.px(x), height - BOTTOM);
    if (this.drag !== null) {
      c.globalAlpha = 0.15;
      c.fillStyle = color('--accent');
      const begin = axes.px(this.drag);
      c.fillRect(Math.min(begin, axes.px(x)), TOP, Math.abs(begin - axes.px(x)), height - TOP - BOTTOM);
      c.globalAlpha = 1;
    }
    for (const {s, i} of this.at(x)) {
      c.fillStyle = color(colorName(s.slot));
      if (axes.usable(s.y[i])) dot(c, axes.px(s.x[i]), axes.py(s.y[i]), 3.5);
    }
    this.output.classList.toggle('left', axes.px(x) > width / 2);
  }

  // Returns the series that have a value near x, and the position of the value,
  // largest values first.
  at(x) {
    const [low, high] = this.range();
    return this.series.map((s) => ({s, i: nearest(s.x, x)}))
        .filter(({s, i}) => i >= 0 && s.y[i] !== null && (!s.near || Math.abs(s.x[i] - x) <= NEAR * (high - low)))
        .sort((a, b) => b.s.y[b.i] - a.s.y[a.i]);
  }

  // Shows the values at x.
  describe(x) {
    const values = x === null ? [] : this.at(x);
    this.output.hidden = values.length === 0;
    const rows = values.slice(0, MAX_ROWS).map(({s, i}) => make('div', {}, lineSample(s.slot),
        make('span', {className: 'name'}, s.name), make('b', {}, formatNumber(s.y[i]))));
    if (values.length > 0) {
      const [{s, i}] = values;
      rows.unshift(make('div', {className: 'muted'}, `${this.xLabel} ${formatNumber(s.x[i])}`));
    }
    if (values.length > MAX_ROWS) rows.push(make('div', {className: 'muted'}, `and ${values.length - MAX_ROWS} more`));
    this.output.replaceChildren(...rows);
    const shown = values.length > 0 ? values : this.at(Infinity);
    this.canvas.setAttribute('aria-label', `${this.title} by ${this.xLabel}: ` +
        (shown.map(({s, i}) => `${s.name} ${formatNumber(s.y[i])}`).join(', ') || 'no values'));
  }

  saveCsv() {
    const rows = [['line', this.xLabel || 'x', this.title, 'smallest', 'largest']];
    for (const s of this.series) {
      s.x.forEach((x, i) => rows.push([s.name, x, s.y[i], s.min?.[i], s.max?.[i]]));
    }
    save(`${this.id}.csv`, 'text/csv', csvOf(rows));
  }

  // Saves the chart with its title and a legend.
  savePng() {
    const width = Math.max(this.canvas.clientWidth, 480), height = this.canvas.clientHeight;
    const canvas = document.createElement('canvas');
    const columns = Math.max(1, Math.floor(width / 240));
    const legend = 18 * Math.ceil(this.series.length / columns) + 8;
    const c = prepare(canvas, width, height + 28 + legend, 2);
    c.fillStyle = color('--panel');
    c.fillRect(0, 0, width, height + 28 + legend);
    c.fillStyle = color('--text');
    c.textBaseline = 'middle';
    c.font = `bold 13px system-ui, sans-serif`;
    c.fillText(`${this.title}${this.xLabel ? `, by ${this.xLabel}` : ''}`, 10, 15);
    c.font = FONT;
    this.series.forEach((s, i) => {
      const x = 10 + (i % columns) * 240, y = height + 36 + 18 * Math.floor(i / columns);
      c.strokeStyle = color(colorName(s.slot));
      c.lineWidth = 2.5;
      c.setLineDash(dashOf(s.slot));
      line(c, x, y, x + 28, y);
      c.setLineDash([]);
      c.fillText(s.name.slice(0, 34), x + 34, y);
    });
    c.translate(0, 28);
    this.paint(c, width, height);
    canvas.toBlob((blob) => save(`${this.id}.png`, 'image/png', blob));
  }
}

// Clears a canvas that has `width` times `height` pixels of the page.
export function prepare(canvas, width, height, ratio = devicePixelRatio || 1) {
  if (canvas.width !== Math.round(width * ratio)) canvas.width = Math.round(width * ratio);
  if (canvas.height !== Math.round(height * ratio)) canvas.height = Math.round(height * ratio);
  const c = canvas.getContext('2d');
  c.setTransform(ratio, 0, 0, ratio, 0, 0);
  c.clearRect(0, 0, width, height);
  c.font = FONT;
  return c;
}

export function line(c, x0, y0, x1, y1) {
  c.beginPath();
  c.moveTo(x0, y0);
  c.lineTo(x1, y1);
  c.stroke();
}

export function dot(c, x, y, radius) {
  c.beginPath();
  c.arc(x, y, radius, 0, 2 * Math.PI);
  c.fill();
}

function paintSeries(c, {usable, px, py}, s, emphasized) {
  const faded = emphasized !== null && emphasized !== s.name ? 0.2 : 1;
  c.strokeStyle = c.fillStyle = color(colorName(s.slot));
  if (s.min) {
    c.globalAlpha = 0.18 * faded;
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
  }
  c.globalAlpha = faded;
  c.lineWidth = emphasized === s.name ? 2.6 : s.dots ? 1 : 1.6;
  c.setLineDash(dashOf(s.slot));
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
  if (s.stroke !== false) c.stroke();
  c.setLineDash([]);
  if (s.dots || s.x.length === 1) {
    for (let i = 0; i < s.x.length; ++i) if (usable(s.y[i])) dot(c, px(s.x[i]), py(s.y[i]), 3);
  }
  c.globalAlpha = 1;
}

// Returns the smallest and the largest x of these series.
export function rangeOf(series) {
  let low = Infinity, high = -Infinity;
  for (const {x} of series) {
    if (x.length === 0) continue;
    low = Math.min(low, x[0]);
    high = Math.max(high, x[x.length - 1]);
  }
  return [low, high];
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
