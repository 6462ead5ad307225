// Remedies, each with its numbers and the lines of PyTorch that apply it, ready to be copied.

import { bytes, both, bytesDifference, printedDifference } from '../format';
import { button, el, visible } from './dom';
import { copyText } from './save';

type Json = { [key: string]: unknown };
const numberOf = (value: unknown): number | undefined => (typeof value === 'number' ? value : undefined);
const text = (value: unknown): string => (typeof value === 'string' ? visible(value) : '');

/** What changes, in the words of `explain`: "saves 10.59 GiB", "+120 MiB" of what grows. */
const saved = (more: number, show: (size: number) => string) => (more === 0 ? '±0' : `${more < 0 ? 'saves ' : '+'}${show(Math.abs(more))}`);
const ms = (value: number) => `${value.toFixed(2)} ms`;

/** Code that keeps its lines as they are, with a button that copies it. */
export function codeBlock(code: string): HTMLElement {
  const copy = button('Copy', 'copies these lines', () => {
    void copyText(code).then((done) => {
      copy.textContent = done ? 'Copied' : 'Not copied';
      window.setTimeout(() => (copy.textContent = 'Copy'), 1500);
    });
  }, 'copy');
  return el('div', { className: 'code' }, copy, el('pre', {}, el('code', {}, code.split('\n').map(visible).join('\n'))));
}

function numbers(of: Json, before: Json | undefined): HTMLElement {
  const line = el('p', { className: 'numbers' });
  const reserved = numberOf(of.peak_reserved_bytes), step = numberOf(of.step_ms);
  if (reserved !== undefined) {
    const was = numberOf(before?.peak_reserved_bytes);
    line.append(el('span', { title: both(reserved), data: { bytes: String(reserved) } }, bytes(reserved)), ' reserved');
    if (was !== undefined) line.append(` (${saved(bytesDifference(was, reserved), bytes)})`);
  }
  if (step !== undefined) {
    const was = numberOf(before?.step_ms);
    line.append(`${reserved === undefined ? '' : ', '}${ms(step)} a step`);
    if (was !== undefined) line.append(` (${saved(printedDifference(was, step, 2), ms)})`);
  }
  return line;
}

/** `before`: the run's own settings, simulated. */
export function remedyList(remedies: Json[], before: Json | undefined): HTMLElement {
  const list = el('div', { className: 'remedies' });
  if (before) list.append(el('div', { className: 'remedy' }, el('b', {}, text(before.title) || 'as it is'), numbers(before, undefined)));
  for (const remedy of remedies) {
    const reasons = Array.isArray(remedy.not_valid) ? remedy.not_valid.map(text).filter((of) => of !== '') : [];
    const code = typeof remedy.pytorch === 'string' ? remedy.pytorch : '';
    list.append(el('div', { className: 'remedy' },
      el('b', {}, text(remedy.setting)),
      remedy.may_run_out_of_memory === true ? el('span', { className: 'not-valid', title: 'with a host of another speed it may run out of memory' }, 'may not fit') : undefined,
      remedy.valid === false ? el('span', { className: 'not-valid', title: reasons.join('\n') }, 'not valid') : undefined,
      numbers(remedy, before),
      text(remedy.reason) ? el('p', { className: 'faint' }, text(remedy.reason)) : undefined,
      ...(remedy.valid === false ? reasons.map((reason) => el('p', { className: 'warning' }, reason)) : []),
      code.trim() ? codeBlock(code) : undefined));
  }
  return list;
}
