// The view of the job files of runs.
import {differencesOf} from '/compare.js';
import {make, table} from '/elements.js';

// Returns the elements of the view; `jobs` has the answers of /api/job.
export function jobParts(runs, jobs) {
  const parts = [];
  if (runs.length > 1) {
    const {values, paths} = differencesOf(runs, jobs);
    parts.push(make('h2', {}, 'Differences'), paths.length === 0 ?
        make('p', {}, 'The job files do not differ.') :
        table('differences', ['field', ...runs.map((run) => run.name)], paths.map((path) =>
            make('tr', {}, make('td', {}, path), ...values.map((map) =>
                make('td', {className: 'text'}, map.has(path) ? map.get(path) || 'set' : '–'))))));
  }
  for (const run of runs) {
    const job = jobs.get(run.key);
    parts.push(make('h2', {}, run.name), make('p', {className: 'muted'}, job?.path ?? ''));
    if (job?.error) parts.push(make('p', {className: 'alert'}, job.error));
    parts.push(make('pre', {}, job?.text ?? ''));
  }
  return parts;
}
