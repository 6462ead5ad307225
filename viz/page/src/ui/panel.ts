// The side panel: the run, its peaks, where reserved memory is, causes and remedies, the selection, the range.

import { STATISTICS } from '../data/meta';
import { RunData } from '../data/run';
import { both, bytes, bytesDifference, count, duration, durationDifference, moment, printedDifference } from '../format';
import { RUN_COLOURS } from '../scene';
import { el, swatch, table, visible } from './dom';
import { remedyList } from './remedies';

export function section(title: string, open: boolean, ...content: (Node | string | undefined)[]): HTMLDetailsElement {
  return el('details', { open, className: 'section', data: { title } }, el('summary', {}, title), ...content);
}

/** A table with a heading; numbers stand to the right. */
export function grid(heading: string[], rows: (string | Node)[][], className = 'grid'): HTMLTableElement {
  return el('table', { className },
    el('thead', {}, el('tr', {}, ...heading.map((text) => el('th', {}, text)))),
    el('tbody', {}, ...rows.map((row) => el('tr', {}, ...row.map((cell) => el('td', {}, cell))))));
}

export function runSection(run: RunData): HTMLElement {
  const { meta } = run;
  const facts = [...meta.subtitle, ...meta.facts].filter((text) => !text.startsWith('two recordings'));
  const box = el('div', {}, el('ul', { className: 'plain' }, ...facts.map((text) => el('li', {}, visible(text)))));
  if (meta.two_clocks && meta.memory && meta.tracks.length)
    box.append(el('p', { className: 'note' },
      'Two recordings: memory is from the snapshot’s step, lanes are from the profiler trace’s step. They are laid over each other where the host begins the step.'));
  for (const stat of meta.import_stats) box.append(el('p', { className: 'faint' }, `${count(stat.count)} × ${visible(stat.text)}`));
  return box;
}

/** Peaks of each step, to the byte: those that torch.cuda.memory_stats reports. */
export function peaksTable(run: RunData): HTMLElement | undefined {
  const { meta } = run;
  if (!meta.memory) return undefined;
  const rows = meta.steps
    .filter((step) => step.memory && step.peaks?.reserved)
    .slice(-12)
    .map((step) => [`step ${step.index}`, ...STATISTICS.map((name) => cell(step.peaks![name]?.bytes ?? 0))]);
  rows.push(['all', ...STATISTICS.map((name) => cell(meta.memory!.peaks[name]?.bytes ?? 0))]);
  return grid(['peak', ...STATISTICS], rows, 'grid peaks');
}

function cell(value: number): HTMLElement {
  return el('span', { title: both(value), data: { bytes: String(value) } }, bytes(value));
}

type Json = { [key: string]: unknown };
const isObject = (value: unknown): value is Json => typeof value === 'object' && value !== null && !Array.isArray(value);
const numberOf = (value: unknown): number | undefined => (typeof value === 'number' ? value : undefined);
const text = (value: unknown): string => (typeof value === 'string' ? visible(value) : '');

/** A share as a bar under its number. */
function bar(value: number, whole: number, colour: string): HTMLElement {
  return el('span', { className: 'bar' }, el('i', { style: `width:${Math.max(0, Math.min(100, (100 * value) / whole))}%;background:${colour}` }));
}

function sharesTable(shares: [string, number, string][], whole: number): HTMLElement {
  const rows = shares.map(([name, value, colour]) => [
    el('span', {}, swatch(colour), visible(name)), cell(value), `${((100 * value) / whole).toFixed(1)} %`, bar(value, whole, colour),
  ]);
  return grid(['part', 'bytes', '', ''], rows, 'grid shares');
}

/** What `explain --json` says: its numbers, as they stand there. */
export function explainSection(run: RunData, explain: Json): HTMLElement {
  const box = el('div', { className: 'explain' });
  const reserved = numberOf(explain.reserved_peak_bytes) ?? 1;
  if (isObject(explain.gap)) {
    const { gap } = explain;
    const parts = run.meta.gap_parts.flatMap(({ key, colour }): [string, number, string][] => {
      const value = numberOf(gap[`${key}_bytes`]);
      return value === undefined ? [] : [[key.replaceAll('_', ' '), value, colour]];
    });
    if (parts.length) box.append(el('h4', {}, `reserved at its peak: ${bytes(reserved)}`), sharesTable(parts, reserved));
  }
  if (text(explain.headline)) box.prepend(el('p', {}, text(explain.headline)));
  box.append(table(['pending_free_peak_bytes', 'gap_peak_bytes'].filter((key) => numberOf(explain[key]) !== undefined).map((key) =>
    [key === 'gap_peak_bytes' ? 'most of reserved − allocated' : 'most pending free', cell(numberOf(explain[key])!)])));
  const failures = Array.isArray(explain.failures) ? explain.failures.filter(isObject) : [];
  for (const failure of failures)
    box.append(el('div', { className: 'cause' }, el('p', {}, el('b', {}, `out of memory: ${bytes(numberOf(failure.size_bytes) ?? 0)} could not be had. `)),
      ...[failure.why, failure.would_have_fit].flatMap((list) => (Array.isArray(list) ? list : [])).map((line) => el('p', {}, text(line)))));
  const causes = Array.isArray(explain.causes) ? explain.causes.filter(isObject) : [];
  if (!failures.length || causes.length)
    box.append(el('h4', {}, causes.length ? 'causes' : 'No cause found: nothing is held that PyTorch would not hold.'));
  for (const cause of causes)
    box.append(el('div', { className: 'cause' },
      el('p', {}, el('b', {}, `${bytes(numberOf(cause.bytes) ?? 0)}: `), text(cause.text)),
      text(cause.advice) ? el('p', { className: 'faint' }, text(cause.advice)) : undefined));
  const remedies = Array.isArray(explain.remedies) ? explain.remedies.filter(isObject) : [];
  if (remedies.length) {
    box.append(el('h4', {}, 'remedies, simulated'));
    const note = isObject(explain.simulated) ? text(explain.simulated.machine_note) : '';
    if (note) box.append(el('p', { className: 'faint machine-note' }, note));
    box.append(remedyList(remedies, isObject(explain.simulated) ? explain.simulated : undefined));
  } else if (text(explain.remedies_missing)) box.append(el('p', { className: 'faint' }, `No remedies were simulated: ${text(explain.remedies_missing)}.`));
  return box;
}

interface CompareRow {
  [key: string]: unknown;
}

/** How numbers of a kind are shown, and what one is less another as both are shown. */
interface Shown {
  show: (value: number) => string;
  less: (x: number, y: number) => number;
}
const MILLISECONDS: Shown = { show: (value) => value.toFixed(2).replace(/^-0\.00$/, '0.00'), less: (x, y) => printedDifference(x, y, 2) };
const BYTES: Shown = { show: bytes, less: bytesDifference };
const DURATIONS: Shown = { show: duration, less: durationDifference };
const COUNTS: Shown = { show: String, less: (x, y) => y - x };

/** What `compare --json` says. */
export function compareSection(compare: Json, labels: string[]): HTMLElement {
  const box = el('div', { className: 'compare' });
  const answer = Array.isArray(compare.answer) ? compare.answer.map(text) : [];
  answer.forEach((line, i) => box.append(el('p', { className: i === 0 ? 'first' : '' }, line)));
  box.append(el('p', {}, ...labels.flatMap((label, i) => [swatch(RUN_COLOURS[i]), visible(label), el('br')])));
  // A difference is the headline's where it says one, else that of the numbers as they stand beside it.
  const difference = (a: unknown, b: unknown, { show, less }: Shown, said?: unknown) => {
    const x = numberOf(a), y = numberOf(b);
    if (x === undefined || y === undefined) return [x === undefined ? '—' : show(x), y === undefined ? '—' : show(y), ''];
    const value = numberOf(said) ?? less(x, y);
    return [show(x), show(y), x === y ? '=' : `${value >= 0 ? '+' : '−'}${show(Math.abs(value))}`];
  };
  if (isObject(compare.settings) && Object.keys(compare.settings).length)
    box.append(el('h4', {}, 'settings that differ'), grid(['', 'A', 'B'], Object.entries(compare.settings).map(([key, value]) =>
      [key, ...(isObject(value) ? [text(JSON.stringify(value.a)), text(JSON.stringify(value.b))] : ['', ''])])));
  // A recording's side also has what its own plan says: the change is counted from that, so that it has no bias of the model's.
  const pairs = (name: string, title: string, shown: Shown) => {
    const of = compare[name];
    if (!isObject(of) || !Object.keys(of).length) return;
    const values = Object.values(of).filter(isObject);
    const planned = ['a', 'b'].find((side) => values.some((value) => numberOf(value[`${side}_as_planned`]) !== undefined));
    const heading = ['', 'A', ...(planned === 'a' ? ['A as planned'] : []), 'B', ...(planned === 'b' ? ['B as planned'] : []), 'B − A'];
    const cells = (value: CompareRow, shown: Shown) => {
      const plan = planned && numberOf(value[`${planned}_as_planned`]);
      const [a, b, plain] = difference(value.a, value.b, shown, value.printed_difference);
      if (!planned) return [a, b, plain];
      const change = difference(planned === 'a' ? plan ?? value.a : value.a, planned === 'b' ? plan ?? value.b : value.b, shown, value.printed_difference)[2];
      const own = plan === undefined ? '' : shown.show(plan as number);
      return planned === 'a' ? [a, own, b, change] : [a, b, own, change];
    };
    box.append(el('h4', {}, title), grid(heading, Object.entries(of).map(([key, value]) =>
      [(key === 'kernel_contention_ms' ? '– ' : '') + key.replace(/_bytes$|_ms$/, '').replaceAll('_', ' '),
        ...(isObject(value) ? cells(value, key.startsWith('num_') ? COUNTS : shown) : heading.slice(1).map(() => ''))]), planned ? 'grid wide' : 'grid'));
  };
  pairs('time', 'time, ms', MILLISECONDS);
  pairs('memory', 'memory', BYTES);
  pairs('peak_by_category', 'allocated at its peak, by category', BYTES);
  pairs('phase_host_ms', 'host, by phase, ms', MILLISECONDS);
  const rows = (name: string, title: string, keys: string[], shown: Shown, fields: [string, string]) => {
    const of = Array.isArray(compare[name]) ? (compare[name] as CompareRow[]).filter(isObject) : [];
    if (!of.length) return;
    const sorted = [...of].sort((x, y) => Math.abs((numberOf(y[fields[1]]) ?? 0) - (numberOf(y[fields[0]]) ?? 0)) - Math.abs((numberOf(x[fields[1]]) ?? 0) - (numberOf(x[fields[0]]) ?? 0)));
    const place = (row: CompareRow) => keys.map((key) => (key === 'cause' ? text(row[key]).replaceAll('_', ' ') : text(row[key]))).filter(Boolean).join(', ') || '—';
    box.append(section(title, name === 'budget', grid([keys.join(', '), 'A', 'B', 'B − A'], sorted.slice(0, 60).map((row) =>
      [place(row), ...difference(row[fields[0]], row[fields[1]], shown)]), 'grid wide')));
  };
  rows('budget', 'where the difference in step time is', ['phase', 'cause'], DURATIONS, ['a_ns', 'b_ns']);
  rows('lanes', 'time by lane, phase and unit', ['lane', 'phase', 'unit'], DURATIONS, ['a_ns', 'b_ns']);
  rows('peak_by_unit', 'allocated at its peak, by unit', ['unit'], BYTES, ['a', 'b']);
  return box;
}

export function momentTable(run: RunData, time: number, rows: [string, number][]): HTMLElement {
  void run;
  return el('div', {}, el('p', {}, `at ${moment(time)}`), table(rows.map(([name, value]) => [name, both(value)])));
}
