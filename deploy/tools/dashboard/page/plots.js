// Charts of the trials of a search: parallel coordinates, and the values of two
// objectives. Lines of the best trials are above the others.
import {color, dot, FONT, line, prepare} from '/charts.js';
import {make} from '/elements.js';
import {formatNumber, formatTick, logTicksOf, ticksOf} from '/numbers.js';

// The distance, in pixels, up to which the mouse finds a trial.
const REACH = 14;
// The number of trials whose lines are drawn with their whole opacity.
const CLEAR_TRIALS = 60;
// The width that an axis of parallel coordinates needs for its labels.
const AXIS_WIDTH = 96;

// How a trial is drawn, by its kind: color, width, opacity. Later kinds are above.
export const KINDS = {
  other: ['--run8', 1, 0.45], complete: ['--run0', 1.4, 0.7], best: ['--run1', 2.4, 1], marked: ['--text', 2.6, 1],
};
const RANKS = Object.keys(KINDS);

// An axis for values from `low` to `high`, or for `choices`.
export function axisOf({title, low, high, log = false, choices = null}) {
  const scale = log ? Math.log : (v) => v;
  const span = choices ? choices.length : scale(high) - scale(low);
  return {
    title, choices,
    // The place of a value, from 0 to 1.
    at: (v) => (choices ? (v + 0.5) / span : span > 0 ? (scale(v) - scale(low)) / span : 0.5),
    ticks: choices ? choices.map((_, i) => i) :
        span > 0 ? (log ? logTicksOf(low, high, 4) : ticksOf(low, high, 4)) : [low],
    text: (v) => (choices ? choices[v] ?? '' : formatTick(v)),
    format: (v) => (v === null ? '–' : choices ? choices[v] ?? '' : formatNumber(v)),
  };
}

// The axis of the finite ones of some values.
export function axisOfValues(title, values) {
  const finite = values.filter((v) => v !== null && isFinite(v));
  const [low, high] = finite.length > 0 ? [Math.min(...finite), Math.max(...finite)] : [0, 1];
  return axisOf({title, low, high, log: low > 0 && high > 50 * low});
}

// Shortens a text to a width. Names differ at their ends.
function fitting(c, text, width) {
  if (c.measureText(text).width <= width) return text;
  let length = text.length;
  while (length > 1 && c.measureText(`…${text.slice(-length)}`).width > width) --length;
  return `…${text.slice(-length)}`;
}

class TrialPlot {
  // `onMark(number)` is called with the trial at the mouse, or null;
  // `onOpen(number)` when it is clicked.
  constructor(id, title, onMark, onOpen) {
    Object.assign(this, {trials: [], axes: [], marked: null, onMark, onOpen, title});
    this.canvas = make('canvas', {className: 'chart', role: 'img', 'aria-label': title});
    this.output = make('output', {className: 'values', hidden: true});
    this.caption = make('strong', {}, title);
    this.element = make('figure', {id: `chart-${id}`}, make('figcaption', {}, this.caption),
        make('div', {className: 'plot'}, make('div', {className: 'scroll'}, this.canvas), this.output));
    this.canvas.addEventListener('mousemove', (event) => {
      this.output.classList.toggle('left', event.offsetX > this.canvas.clientWidth / 2);
      this.onMark(this.find(event.offsetX, event.offsetY));
    });
    this.canvas.addEventListener('mouseleave', () => this.onMark(null));
    this.canvas.addEventListener('click', () => { if (this.marked !== null) this.onOpen(this.marked); });
    new ResizeObserver(() => this.draw()).observe(this.canvas);
  }

  // Each trial: {number, kind, values (one for each axis, or null)}.
  set(axes, trials) {
    Object.assign(this, {axes, trials});
    this.draw();
  }

  mark(number) {
    this.marked = number;
    const trial = this.trials.find((t) => t.number === number);
    this.output.hidden = !trial;
    if (trial) {
      this.output.replaceChildren(make('div', {className: 'muted'}, `trial ${number}`), ...this.axes.map((axis, i) =>
          make('div', {}, make('span', {className: 'name'}, axis.title), make('b', {}, axis.format(trial.values[i])))));
    }
    this.draw();
  }

  draw() {
    const {clientWidth: width, clientHeight: height} = this.canvas;
    if (width === 0 || this.axes.length === 0) return;
    const c = prepare(this.canvas, width, height);
    const kindOf = (t) => (t.number === this.marked ? 'marked' : t.kind);
    // Many lines would hide each other.
    const share = Math.min(1, CLEAR_TRIALS / this.trials.length);
    this.paintBelow(c, width, height);
    for (const t of [...this.trials].sort((a, b) => RANKS.indexOf(kindOf(a)) - RANKS.indexOf(kindOf(b)))) {
      const [name, thickness, opacity] = KINDS[kindOf(t)];
      c.strokeStyle = c.fillStyle = color(name);
      c.lineWidth = thickness;
      c.globalAlpha = opacity < 1 ? Math.max(opacity * share, 0.05) : 1;
      this.paintTrial(c, t, width, height);
    }
    c.globalAlpha = 1;
    this.paintAbove(c, width, height);
  }

  paintAbove() {}
}

// A vertical axis for each parameter and objective, and a line for each trial.
export class ParallelPlot extends TrialPlot {
  set(axes, trials) {
    this.canvas.style.minWidth = `${axes.length * AXIS_WIDTH}px`;
    super.set(axes, trials);
  }

  px(i, width) {
    const margin = AXIS_WIDTH / 2;
    return this.axes.length < 2 ? margin : margin + i * (width - 2 * margin) / (this.axes.length - 1);
  }

  // A trial without the parameter passes below the axis.
  py(axis, value, height) {
    return value === null ? height - 9 : height - 30 - axis.at(value) * (height - 62);
  }

  paintBelow(c, width, height) {
    c.strokeStyle = color('--border');
    c.lineWidth = 1;
    this.axes.forEach((axis, i) => line(c, this.px(i, width), 26, this.px(i, width), height - 24));
  }

  paintTrial(c, trial, width, height) {
    c.beginPath();
    this.axes.forEach((axis, i) => {
      c[i === 0 ? 'moveTo' : 'lineTo'](this.px(i, width), this.py(axis, trial.values[i], height));
    });
    c.stroke();
  }

  paintAbove(c, width, height) {
    const space = this.axes.length < 2 ? width : (width - AXIS_WIDTH) / (this.axes.length - 1);
    c.font = FONT;
    c.lineJoin = 'round';
    // The background of labels, which lines cross.
    const label = (text, x, y) => {
      c.strokeStyle = color('--panel');
      c.lineWidth = 4;
      c.strokeText(text, x, y);
      c.fillText(text, x, y);
    };
    this.axes.forEach((axis, i) => {
      const x = this.px(i, width);
      c.textAlign = 'center';
      c.textBaseline = 'top';
      c.fillStyle = color('--text');
      label(fitting(c, axis.title, space - 8), x, 6);
      c.textAlign = 'left';
      c.textBaseline = 'middle';
      c.fillStyle = color('--muted');
      for (const tick of axis.ticks) {
        const y = this.py(axis, tick, height);
        if (y < 20 || y > height - 16) continue;
        const last = i === this.axes.length - 1 && this.axes.length > 1;
        label(fitting(c, axis.text(tick), (last ? AXIS_WIDTH / 2 : space) - 8), x + 4, y);
      }
      if (this.trials.some((t) => t.values[i] === null)) label('–', x + 4, height - 9);
    });
  }

  find(x, y) {
    const {clientWidth: width, clientHeight: height} = this.canvas;
    const n = this.axes.length;
    if (n < 2) return null;
    const space = this.px(1, width) - this.px(0, width);
    const left = Math.min(n - 2, Math.max(0, Math.floor((x - this.px(0, width)) / space)));
    const part = Math.min(1, Math.max(0, (x - this.px(left, width)) / space));
    let found = null, least = REACH;
    for (const t of this.trials) {
      const [from, to] = [left, left + 1].map((i) => this.py(this.axes[i], t.values[i], height));
      const distance = Math.abs(from + part * (to - from) - y);
      if (distance < least) [found, least] = [t.number, distance];
    }
    return found;
  }
}

const LEFT = 64, RIGHT = 16, TOP = 10, BOTTOM = 38;

// A dot for each trial, by two objectives, and the front as a line.
export class FrontPlot extends TrialPlot {
  place(t, width, height) {
    const [x, y] = this.axes;
    const inset = (at) => 0.04 + 0.92 * at;
    return [LEFT + inset(x.at(t.values[0])) * (width - LEFT - RIGHT),
      height - BOTTOM - inset(y.at(t.values[1])) * (height - TOP - BOTTOM)];
  }

  paintBelow(c, width, height) {
    const [x, y] = this.axes;
    const at = (first, second) => this.place({values: [first, second]}, width, height);
    c.font = FONT;
    c.strokeStyle = color('--border');
    c.fillStyle = color('--muted');
    c.lineWidth = 1;
    c.textAlign = 'right';
    c.textBaseline = 'middle';
    for (const tick of y.ticks) {
      const [, py] = at(x.ticks[0] ?? 0, tick);
      line(c, LEFT, py, width - RIGHT, py);
      c.fillText(y.text(tick), LEFT - 6, py);
    }
    c.textAlign = 'center';
    c.textBaseline = 'top';
    for (const tick of x.ticks) c.fillText(x.text(tick), at(tick, y.ticks[0] ?? 0)[0], height - BOTTOM + 5);
    c.fillStyle = color('--text');
    c.fillText(fitting(c, x.title, width - LEFT - RIGHT), LEFT + (width - LEFT - RIGHT) / 2, height - 15);
    const front = this.trials.filter((t) => t.kind === 'best').sort((a, b) => a.values[0] - b.values[0]);
    c.strokeStyle = color(KINDS.best[0]);
    c.beginPath();
    front.forEach((t, i) => c[i === 0 ? 'moveTo' : 'lineTo'](...this.place(t, width, height)));
    c.stroke();
    this.caption.textContent = `${this.title}: ${y.title} by ${x.title}`;
  }

  paintTrial(c, t, width, height) {
    dot(c, ...this.place(t, width, height), t.number === this.marked ? 5.5 : t.kind === 'best' ? 4.5 : 3.5);
  }

  find(x, y) {
    let found = null, least = REACH;
    for (const t of this.trials) {
      const [px, py] = this.place(t, this.canvas.clientWidth, this.canvas.clientHeight);
      const distance = Math.hypot(px - x, py - y);
      if (distance < least) [found, least] = [t.number, distance];
    }
    return found;
  }
}
