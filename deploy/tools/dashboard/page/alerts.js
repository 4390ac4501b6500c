// What a user should know about the shown runs.
import {formatNumber} from '/numbers.js';
import {answerOf, eventsOf, isLive, seriesPath, shownRuns, statusPath} from '/state.js';

// A worker that the others wait for this many times in a row is worth an alert.
const STRAGGLER_POLLS = 10;
// Kinds of events that are reasons to look at a job.
const ALARMS = ['divergence', 'disk_low', 'nonfinite_loss', 'plateau', 'skipped_step', 'slow_worker'];

const stragglers = new Map();  // The worker that the others of a run wait for.

export function alertsOf() {
  const alerts = [];
  for (const run of shownRuns()) {
    const series = answerOf(seriesPath(run));
    const status = answerOf(statusPath(run));
    if (series && series.step.length > 0 && series.newest.loss === null) {
      alerts.push(`${run.name}: the training loss is not a number.`);
    }
    if (isLive(run)) {  // The newest alarm of each kind in this attempt.
      const attempt = status?.status?.attempt;
      for (const kind of ALARMS) {
        const alarm = eventsOf(run).filter((e) => e.kind === kind && e.attempt === attempt).at(-1);
        if (alarm) alerts.push(`${run.name}: ${alarm.message} (at step ${alarm.step}).`);
      }
    }
    if (status?.summary?.status === 'failed' && !run.live) {
      alerts.push(`${run.name} has failed: ${status.summary.failure ?? 'unknown reason'}`);
    }
    const live = status?.live ? status.status : null;
    const slow = live?.waiting && live.waiting.ms > 0.25 * live.step_milliseconds ? live.waiting.rank : null;
    const last = stragglers.get(run.key);
    stragglers.set(run.key, {rank: slow, times: slow !== null && last?.rank === slow ? last.times + 1 : 1});
    if (slow !== null && stragglers.get(run.key).times >= STRAGGLER_POLLS) {
      alerts.push(`${run.name}: the others wait ${formatNumber(live.waiting.ms)} ms of each ` +
          `${formatNumber(live.step_milliseconds)} ms step for worker ${live.waiting.rank}` +
          `${live.waiting.phase ? ` (${live.waiting.phase})` : ''}.`);
    }
    if (!run.live && run.state === 'no answer') {
      alerts.push(run.remote ?
          `${run.name}: the coordinator at ${run.path} does not answer, so the job has ended or cannot be reached. ` +
          'The page shows what the coordinator has sent.' : `${run.name} does not answer, and has no summary.`);
    } else if (run.problem) {
      alerts.push(`${run.name}: ${run.problem}.`);
    }
  }
  return alerts;
}
