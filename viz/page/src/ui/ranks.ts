// Several ranks of one recording: who waits for whom, as `explain --json` says under `ranks`.

import { RunData } from '../data/run';
import { duration } from '../format';
import { button, el, swatch, visible } from './dom';
import { grid } from './panel';

interface RankTime {
  rank: number;
  step_ns: number;
  compute_ns: number;
  waiting_ns: number;
  communication_ns: number;
  idle_ns: number;
  others_wait_ns: number;
}
interface PhaseDelay {
  phase: string;
  compute_ns: number;
  compute_of_others_ns: number;
  others_wait_ns: number;
}
export interface Ranks {
  sentences: string[];
  times: RankTime[];
  title: string;
  late: { rank: number; phases: PhaseDelay[] } | null;
}

/** What a step's GPU time is spent on; the parts add up to it. */
function parts(run: RunData): { key: keyof RankTime; title: string; colour: string }[] {
  const colour = (title: string) => run.meta.classes.find((of) => of.title === title)?.colour ?? 'var(--faint)';
  return [
    { key: 'compute_ns', title: 'compute', colour: colour('GEMM') },
    { key: 'waiting_ns', title: 'waits for a rank', colour: colour('all-reduce (AR)') }, // as in the heat map
    { key: 'communication_ns', title: 'behind collectives', colour: colour('all-gather (AG)') },
    { key: 'idle_ns', title: 'idle', colour: 'var(--grid)' },
  ];
}

/** `show` brings a rank's lanes into view. */
export function ranksSection(run: RunData, ranks: Ranks, show: (rank: number) => void): HTMLElement {
  const shown = parts(run);
  const longest = Math.max(1, ...ranks.times.map((of) => of.step_ns));
  const bar = (of: RankTime) =>
    el('span', { className: 'stacked' }, ...shown.map(({ key, title, colour }) =>
      el('i', { title: `${title}: ${duration(of[key])}`, style: `width:${(100 * of[key]) / longest}%;background:${colour}` })));
  const box = el('div', { className: 'ranks' });
  ranks.sentences.forEach((sentence, i) => box.append(el('p', { className: i ? 'faint' : '' }, visible(sentence))));
  box.append(el('p', {}, ...shown.map(({ title, colour }) => el('span', { className: 'key' }, swatch(colour), title))));
  box.append(grid(['rank', 'GPU time of a step', 'compute', 'others wait for it'], ranks.times.map((of) => [
    run.meta.rank_map ? button(String(of.rank), `the lanes of rank ${of.rank}`, () => show(of.rank), 'link') : String(of.rank), bar(of), duration(of.compute_ns), duration(of.others_wait_ns),
  ])));
  if (ranks.late)
    box.append(grid([`rank ${ranks.late.rank}`, 'compute', 'others’', 'they wait for it'], ranks.late.phases.map((of) => [
      of.phase || 'between phases', duration(of.compute_ns), duration(of.compute_of_others_ns), duration(of.others_wait_ns),
    ])));
  return box;
}
