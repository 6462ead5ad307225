// What is shown: window, toggles, selection. The link's text after "#" holds it, so that a link restores the view.

import { MemoryOver } from './data/clock';

export type SectionName = 'memory' | 'ranks' | 'lanes' | 'map';

export interface Selection {
  kind: 'op' | 'host' | 'block' | 'rank' | 'row' | 'wait'; // rank: an op of one; row: of the heat map of ranks
  run: number;
  id: number;
}

export interface View {
  from: number;
  to: number;
  stacking: string;
  hidden: Set<string>; // legend entries: "category:3", "class:5", "line:reserved"
  sections: Record<SectionName, boolean>;
  theme: 'auto' | 'light' | 'dark';
  limit?: boolean; // the memory axis goes up to the limit; undefined: where that is near
  over?: MemoryOver; // what memory is laid over; undefined: as the run has it
  selection?: Selection;
  range?: [number, number];
  mapFrom: number;
  mapTo: number;
  unfolded: Set<string>; // lanes shown with all their rows: "run:lane"
  scroll: number; // of the lanes, pixels
  run?: string; // prefix of the run that is shown, of a page that shows one at a time; undefined: the first
}

const THEMES = ['auto', 'light', 'dark'] as const;

export function writeLink(view: View, whole: { from: number; to: number; mapTo: number }): string {
  const words = new URLSearchParams();
  words.set('from', String(Math.round(view.from)));
  words.set('to', String(Math.round(view.to)));
  if (view.stacking) words.set('stack', view.stacking);
  if (view.hidden.size) words.set('hide', [...view.hidden].sort().join(','));
  const off = (Object.keys(view.sections) as SectionName[]).filter((name) => !view.sections[name]);
  if (off.length) words.set('off', off.join(','));
  if (view.theme !== 'auto') words.set('theme', view.theme);
  if (view.limit !== undefined) words.set('limit', view.limit ? '1' : '0');
  if (view.over) words.set('over', view.over);
  if (view.selection) words.set('select', `${view.selection.kind}:${view.selection.run}:${view.selection.id}`);
  if (view.range) words.set('range', view.range.map((time) => Math.round(time)).join(','));
  if (view.mapFrom !== 0 || view.mapTo !== whole.mapTo)
    words.set('map', `${Math.round(view.mapFrom)},${Math.round(view.mapTo)}`);
  if (view.unfolded.size) words.set('open', [...view.unfolded].sort().join(','));
  if (view.run) words.set('run', view.run);
  return words.toString();
}

/** The run that a link shows: a prefix; empty: the first. */
export const runOfLink = (hash: string): string => new URLSearchParams(hash.replace(/^#/, '')).get('run') ?? '';

const list = (text: string | null) => (text ? text.split(',').filter((word) => word !== '') : []);

function pair(text: string | null): [number, number] | undefined {
  const numbers = list(text).map(Number);
  return numbers.length === 2 && numbers.every(Number.isFinite) && numbers[0] < numbers[1]
    ? [numbers[0], numbers[1]]
    : undefined;
}

/** Words that make no sense are passed over: a link may be of another run or of another version. */
export function readLink(hash: string, view: View): void {
  const words = new URLSearchParams(hash.replace(/^#/, ''));
  const window = pair(`${words.get('from')},${words.get('to')}`);
  if (window) [view.from, view.to] = window;
  view.stacking = words.get('stack') ?? view.stacking;
  if (words.has('hide')) view.hidden = new Set(list(words.get('hide')));
  for (const name of list(words.get('off'))) if (name in view.sections) view.sections[name as SectionName] = false;
  const theme = THEMES.find((of) => of === words.get('theme'));
  if (theme) view.theme = theme;
  if (words.has('limit')) view.limit = words.get('limit') === '1';
  const over = (['host', 'gpu'] as const).find((of) => of === words.get('over'));
  if (over) view.over = over;
  const select = /^(op|host|block|rank|row|wait):(\d+):(\d+)$/.exec(words.get('select') ?? '');
  if (select)
    view.selection = { kind: select[1] as Selection['kind'], run: Number(select[2]), id: Number(select[3]) };
  view.range = pair(words.get('range')) ?? view.range;
  const map = pair(words.get('map'));
  if (map) [view.mapFrom, view.mapTo] = map;
  if (words.has('open')) view.unfolded = new Set(list(words.get('open')));
}
