// What the keys and the mouse do.

import { el } from './dom';

const KEYS: [string, string][] = [
  ['wheel', 'zoom at the pointer'],
  ['drag', 'move in time; lanes and addresses move up and down too'],
  ['shift-wheel', 'move in time'],
  ['ctrl- or alt-wheel over the addresses', 'zoom addresses'],
  ['wheel over the names of lanes', 'scroll the lanes'],
  ['shift-drag', 'choose a range: its totals stand in the panel'],
  ['click', 'an op: what it waits for; a block: why it is alive; the memory chart: what is alive then; a rank: its lanes'],
  ['double click', 'zoom to an op'],
  ['w s, + −', 'zoom in, out'],
  ['a d, ← →', 'move left, right'],
  ['↑ ↓', 'scroll the lanes'],
  ['f, F', 'show the step, show everything'],
  ['z', 'zoom to the range'],
  ['/ then n p', 'search; the next find, the one before. #12 is block 12'],
  ['t', 'light, dark'],
  ['esc', 'forget the selection and the range'],
];

export function helpDialog(): HTMLDialogElement {
  const close = el('button', { textContent: 'Close', type: 'button' });
  const dialog = el('dialog', { className: 'help-dialog' }, el('h2', {}, 'Keys and mouse'),
    el('table', {}, ...KEYS.map(([key, text]) => el('tr', {}, el('th', {}, key), el('td', {}, text)))), close);
  close.addEventListener('click', () => dialog.close());
  return dialog;
}
