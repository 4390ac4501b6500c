// Elements of the page. All text is inserted as text, never as HTML, because
// names, logs and job files may contain anything.
import {formatNumber} from '/numbers.js';

// Makes an element with properties and children; strings become text.
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in element) element[name] = value; else element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

// A cell with a number, whose exact value is in data-value.
export function numberCell(value, text = formatNumber(value)) {
  const cell = make('td', {className: 'number'}, text);
  if (value !== null && value !== undefined) cell.dataset.value = String(value);
  return cell;
}

export function table(id, heads, rows) {
  const number = (head) => head.startsWith('#');
  return make('div', {className: 'scroll'}, make('table', {id},
      make('thead', {}, make('tr', {}, ...heads.map((head) =>
          make('th', {scope: 'col', className: number(head) ? 'number' : ''}, head.replace('#', ''))))),
      make('tbody', {}, ...rows)));
}

// A choice: `options` are pairs of a value and its text.
export function choice(label, id, options, value, change) {
  return make('label', {}, `${label} `,
      make('select', {id, onchange: (event) => change(event.target.value)},
          ...options.map(([name, text]) => make('option', {value: name, selected: name === value}, text))));
}

export function button(text, onclick, properties = {}) {
  return make('button', {type: 'button', onclick, ...properties}, text);
}
