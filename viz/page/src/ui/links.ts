// What the GPU's links carry: a table of the step, and one of them at a moment.

import { LinkSeries, LinksReport } from '../data/links';
import { moment, percent } from '../format';
import { el, table, visible } from './dom';

const rate = (gbS: number) => `${gbS.toFixed(1)} GB/s`;

export function linkTip(link: LinkSeries, time: number): HTMLElement {
  const { of } = link;
  const now = link.at(time);
  return el('div', {}, el('b', {}, visible(of.title)), table([
    ['at', moment(Math.round(time))],
    ['carries', rate(now)],
    ['of', `${rate(of.most_gb_s)} (${percent(now / of.most_gb_s)})`],
  ]));
}

/** What `explain --time` has as a table, in words: a panel may be narrow. */
export function linksList(report: LinksReport, stepNs: number): HTMLElement {
  const share = (ns: number) => percent(ns / stepNs);
  const box = el('div', { className: 'links' }, el('h4', {}, `what its GPU’s links carry (one direction, rates of ${visible(report.machine)})`),
    el('ul', { className: 'plain' }, ...report.links.map((of) => el('li', {}, el('b', {}, visible(of.title)),
      ` ${(of.bytes / 1e9).toFixed(2)} GB a step, ${rate(of.mean_gb_s)} on average, at most ${of.peak_gb_s.toFixed(1)} of ${rate(of.most_gb_s)}; busy for ${share(of.busy_ns)} of the step, over ${(100 * report.full_share).toFixed(0)} % for ${share(of.full_ns)}; waited for ${share(of.waited_ns)}, of it idle ${share(of.waited_idle_ns)}`))));
  if (report.not_placed) box.append(el('p', { className: 'faint' }, `Left out: ${report.not_placed} collectives whose process group the run does not tell.`));
  for (const note of report.notes) box.append(el('p', { className: 'faint' }, visible(note)));
  return box;
}
