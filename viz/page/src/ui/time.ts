// Where a step's time goes: the waits of its compute stream by cause, and one of them in full.

import { RunData } from '../data/run';
import { TimeReport, Wait } from '../data/waits';
import { duration, moment, percent } from '../format';
import { Jump, opTitle } from './details';
import { button, el, swatch, table, visible } from './dom';
import { linksList } from './links';
import { grid } from './panel';
import { remedyList } from './remedies';

/** `show` brings the longest wait of a cause into view. */
export function timeSection(run: RunData, report: TimeReport, show: (wait: number) => void): HTMLElement {
  const box = el('div', { className: 'time' }, el('p', {}, visible(report.headline)));
  const share = (ns: number) => percent(ns / report.step_ns);
  const link = (title: string, part: number) => {
    const of = report.parts[part];
    const at = run.waits.findIndex((wait) => wait.step === report.step && wait.from === of.start_ns - run.meta.origin.lanes);
    return button(title, 'the longest of them', () => show(at), 'link');
  };
  const ns = (value: number) => el('span', { data: { ns: String(value) } }, duration(value));
  const exposed = (value: number) => (value ? duration(value) : '');
  box.append(grid([`${report.without_profiler ? 'profiled ' : ''}${visible(report.step_title)}`, 'time', '', 'exposed'], [
    ['step', ns(report.step_ns), '', exposed(report.exposed_communication_ns)],
    ['compute', ns(report.compute_ns), share(report.compute_ns), ''],
    ...report.causes.map((of) => [el('span', {}, swatch(report.colours[of.cause]), link(visible(of.title), of.longest)), ns(of.time_ns), share(of.time_ns), exposed(of.exposed_ns)]),
  ], 'grid causes'));
  box.append(el('p', { className: 'faint' }, `As plan has it: compute ${duration(report.compute_ns)}, exposed communication ${duration(report.exposed_communication_ns)}, host ${duration(report.host_ns)}, other ${duration(report.other_ns)}.`));
  if (report.links?.links.length) box.append(linksList(report.links, report.step_ns));
  const { remedies } = report;
  if (remedies === undefined) return box;
  if (remedies && (remedies.faster.length || remedies.not_valid.length)) {
    box.append(el('h4', {}, 'what makes it faster, simulated'));
    for (const why of remedies.own_not_valid) box.append(el('p', { className: 'faint' }, `Not valid, as it is and with any change: ${visible(why)}`));
    if (report.machine_note) box.append(el('p', { className: 'faint' }, visible(report.machine_note)));
    const doubtful = remedies.not_valid.map((of) => ({ ...of, valid: false }));
    box.append(remedyList([...remedies.faster, ...doubtful], { step_ms: remedies.step_ms, peak_reserved_bytes: remedies.peak_reserved_bytes, title: remedies.title }));
  } else box.append(el('p', { className: 'faint' }, report.remedies_missing ? `No remedies for the time were simulated: ${visible(report.remedies_missing)}.` : 'No change that was simulated makes it faster.'));
  return box;
}

const title = (report: TimeReport, wait: Wait) => report.causes.find((of) => of.cause === wait.cause)?.title ?? wait.cause.replaceAll('_', ' ');

export function waitRows(report: TimeReport, wait: Wait): [string, string | Node][] {
  return [
    ['cause', el('span', {}, swatch(wait.colour), visible(title(report, wait)))],
    ['from', moment(wait.from)],
    ['length', duration(wait.to - wait.from)],
    ['step', `${wait.step}${wait.phase ? `, ${visible(wait.phase)}` : ''}`],
    ...(wait.unit ? ([['unit', visible(wait.unit)]] as [string, string][]) : []),
  ];
}

export async function waitDetails(run: RunData, report: TimeReport, wait: Wait, jump: Jump): Promise<HTMLElement> {
  const box = el('div', {}, table(waitRows(report, wait)), el('p', {}, visible(wait.text)));
  for (const [what, id] of [['waits for', wait.op], ['behind', wait.behind]] as const) {
    const op = id >= 0 ? await run.deviceOp(id) : undefined;
    if (op) box.append(el('p', {}, `${what}: `, jump(opTitle(run, op), { kind: 'op', id })));
  }
  return box;
}
