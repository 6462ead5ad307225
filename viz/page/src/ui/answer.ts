// What the run answers, before anything else: whether it fits, how fast it is, and what makes that doubtful.

import { el, visible } from './dom';

/** The piece "answer" (docs/view.md). */
export interface Answer {
  lines: string[];
  valid: boolean;
  not_valid: string[];
  warnings: string[];
  fits: string;
  capacity_bytes: number | null;
  capacity_of: string;
}

export function answerSection(answer: Answer, label: string): HTMLElement {
  const box = el('section', { className: 'answer' });
  if (label) box.append(el('h2', {}, visible(label)));
  answer.lines.forEach((line, i) => box.append(el('p', { className: i === 0 ? 'first' : '' }, visible(line))));
  if (!answer.valid) {
    const reasons = answer.not_valid.length ? answer.not_valid : ['outside what the model was calibrated on'];
    for (const reason of reasons) box.append(el('p', { className: 'warning' }, el('b', {}, 'not valid: '), visible(reason)));
  }
  if (answer.warnings.length)
    box.append(el('details', { open: !label && answer.warnings.length < 3, className: 'warnings' },
      el('summary', {}, answer.warnings.length === 1 ? 'one warning' : `${answer.warnings.length} warnings`),
      ...answer.warnings.map((warning) => el('p', { className: 'warning' }, visible(warning)))));
  return box;
}
