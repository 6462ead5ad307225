// A row of the heat map of ranks: what it does under the pointer, and what is known of it in the panel.

import { RankMap } from '../data/rank_map';
import { RunData } from '../data/run';
import { cellAt, visitAt } from '../draw/ranks';
import { duration, moment } from '../format';
import { el, swatch, table, visible } from './dom';
import { grid } from './panel';

/** Of several rows that are drawn as one: how many of their ranks are in which state. */
function several(map: RankMap, first: number, count: number, time: number, slack: number): HTMLElement {
  const ranks = map.text.states.map(() => 0);
  let all = 0;
  for (let row = first; row < first + count; row++) {
    const cell = cellAt(map, row, time, slack);
    all += map.rows[row].ranks;
    if (cell) ranks[cell.state] += map.rows[row].ranks;
  }
  return el('div', {}, el('b', {}, `${all} ranks from rank ${map.rows[first].rank}`), el('i', {}, 'click: the lanes of that one'),
    table(map.text.states.flatMap((of, i): [string, Node][] => (ranks[i] ? [[of.title, el('span', {}, swatch(of.light), String(ranks[i]))]] : []))));
}

export function rankTip(run: RunData, first: number, count: number, time: number, slack: number): HTMLElement {
  const map = run.ranks!;
  if (count > 1) return several(map, first, count, time, slack);
  const box = el('div', {}, el('b', {}, visible(map.rows[first].name)));
  const cell = Number.isNaN(time) ? undefined : cellAt(map, first, time, slack);
  if (cell) {
    const { title, light } = map.text.states[cell.state];
    const words = cell.forRank >= 0 ? `waits for rank ${cell.forRank}` : title;
    box.append(table([[moment(Math.round(cell.from)), el('span', {}, swatch(light), words)], ['for about', duration(cell.to - cell.from)]]));
    const path = visitAt(map, first, time);
    if (path) box.append(el('p', {}, 'on the critical path: ', visible(path)));
  }
  box.append(el('i', {}, 'click: its lanes'));
  return box;
}

/** The lane of what a rank computes; -1: the run does not have it. */
export function laneOf(run: RunData, rank: number): number {
  const own = run.meta.lanes.findIndex((lane) => lane.name === `rank ${rank}: compute`);
  return own >= 0 || rank !== run.ranks!.rows[0].rank ? own : run.meta.lanes.findIndex((lane) => lane.source === 'device');
}

/** What a row does in a window, for the panel. */
export function rankDetails(run: RunData, row: number, from: number, to: number): HTMLElement {
  const map = run.ranks!;
  const { rank, ranks } = map.rows[row];
  const times = map.text.states.map(() => 0);
  map.each(row, from, to, (cell) => (times[cell.state] += Math.min(cell.to, to) - Math.max(cell.from, from)));
  const all = times.reduce((sum, time) => sum + time, 0);
  const box = el('div', {}, grid(['in the window', 'about', ''], map.text.states.map((of, i) =>
    [el('span', {}, swatch(of.light), of.title), duration(Math.round(times[i])), all ? `${((100 * times[i]) / all).toFixed(1)} %` : ''])));
  box.append(el('p', { className: 'faint' }, laneOf(run, rank) < 0 ? visible(map.text.missing)
    : `${ranks > 1 ? `Nothing tells these ${ranks} ranks apart: the` : 'The'} lanes of rank ${rank} are in view.`));
  return box;
}

/** The critical paths in words, for who does not see the picture. */
export function pathSection(map: RankMap): HTMLElement {
  const box = el('div', { className: 'rank-path' });
  for (const { step, visits } of map.text.paths) {
    const length = visits[visits.length - 1].to - visits[0].from;
    box.append(el('p', {}, `Step ${step}, ${duration(length)}, from the last rank’s end to the last rank’s end:`),
      el('ol', {}, ...visits.slice(0, MOST_VISITS).map((visit) => el('li', {}, visible(visit.text)))));
    if (visits.length > MOST_VISITS) box.append(el('p', { className: 'faint' }, `and ${visits.length - MOST_VISITS} more`));
  }
  if (map.text.missing) box.append(el('p', { className: 'faint' }, visible(map.text.missing)));
  return box;
}

const MOST_VISITS = 30;
