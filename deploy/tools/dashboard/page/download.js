// Files that the browser saves.

export function save(name, type, contents) {
  const address = URL.createObjectURL(contents instanceof Blob ? contents : new Blob([contents], {type}));
  const link = document.createElement('a');
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 60000);
}

// Returns rows as comma-separated values (RFC 4180). A text that a spreadsheet
// would take for a formula is preceded by an apostrophe.
export function csvOf(rows) {
  const field = (value) => {
    if (value === null || value === undefined) return '';
    if (typeof value === 'number') return String(value);
    const text = /^[=+\-@\t\r]/.test(value) && Number.isNaN(Number(value)) ? `'${value}` : value;
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return rows.map((row) => row.map(field).join(',')).join('\r\n') + '\r\n';
}

export function saveCsv(name, rows) {
  save(`${name}.csv`, 'text/csv', csvOf(rows));
}
