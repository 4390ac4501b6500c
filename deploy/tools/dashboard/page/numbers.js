// Numbers as text, and the ticks of axes.

export function formatNumber(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return '–';
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e7)) return value.toExponential(2);
  if (size >= 1000) return value.toLocaleString('en', {maximumFractionDigits: 0});
  return String(Number(value.toPrecision(4)));
}

// Formats a tick with no more digits than it needs.
export function formatTick(value) {
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) {
    return value.toExponential(2).replace(/\.?0+e/, 'e').replace('e+', 'e');
  }
  return size >= 10000 ? value.toLocaleString('en') : String(Number(value.toPrecision(6)));
}

export function formatSeconds(seconds) {
  if (seconds === null || seconds === undefined) return '–';
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor(whole / 60) % 60} min`;
}

export function formatDate(seconds) {
  const date = new Date(1000 * seconds);
  if (seconds === null || seconds === undefined || Number.isNaN(date.getTime())) return '–';
  return date.toISOString().replace('T', ' ').slice(0, 19);
}

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

// Returns round numbers from `low` to `high`, both positive, for a logarithmic
// axis: powers of ten if there are enough of them, with their multiples by 2
// and 5 if not, and evenly spaced numbers if the axis is shorter.
export function logTicksOf(low, high, count) {
  const first = Math.floor(Math.log10(low)), last = Math.ceil(Math.log10(high));
  const decades = Math.log10(high) - Math.log10(low);
  const every = Math.max(1, Math.ceil(decades / count));
  const factors = decades >= 3 ? [1] : decades >= 1.5 ? [1, 3] : [1, 2, 5];
  const ticks = [];
  for (let power = Math.ceil(first / every) * every; power <= last; power += every) {
    for (const factor of factors) {
      const tick = Number(`${factor}e${power}`);
      if (tick >= low * (1 - 1e-9) && tick <= high * (1 + 1e-9)) ticks.push(tick);
    }
  }
  return ticks.length >= 3 ? ticks : ticksOf(low, high, count).filter((tick) => tick > 0);
}
