// The heat map of ranks: a row for each, or bands of several where there are more than can be told apart, and the
// critical path as it goes from row to row.

import { Ink } from '../data/meta';
import { RankCell, RankMap } from '../data/rank_map';
import { Box, Frame } from './frame';
import { fit } from './lanes';
import { Surface } from './surface';

const LEAST_BAND = 3; // pixels
const NAMES = 172;
const NAME_SIZE = 11;
const PATH_HALO = 2.5; // pixels of paper around the critical path

/** Rows that are drawn as one. */
interface Bands {
  each: number; // rows of a band
  count: number;
  height: number;
}

function bandsOf(map: RankMap, box: Box): Bands {
  const each = Math.max(1, Math.ceil((map.rows.length * LEAST_BAND) / box.height));
  const count = Math.ceil(map.rows.length / each);
  return { each, count, height: box.height / count };
}

/** By pixel column and state: pixels that a band's ranks are in it, each rank's counted. */
function columnsOf(map: RankMap, frame: Frame, first: number, end: number): Float64Array[] {
  const width = Math.max(1, Math.floor(frame.width));
  const states = map.text.states.map(() => new Float64Array(width));
  for (let row = first; row < end; row++)
    map.each(row, frame.from, frame.to, (cell) => {
      const from = Math.max(frame.column(cell.from), 0), to = Math.min(frame.column(cell.to), width);
      for (let x = Math.floor(from); x < to; x++)
        states[cell.state][x] += (Math.min(to, x + 1) - Math.max(from, x)) * map.rows[row].ranks;
    });
  return states;
}

function most(states: Float64Array[], x: number): number {
  let best = -1;
  for (let i = 0; i < states.length; i++) if (states[i][x] > (best < 0 ? 0 : states[best][x])) best = i;
  return best;
}

export interface RankStyle {
  ink: Ink;
  dark: boolean;
  name: string; // of the chart
  hidden: (key: string) => boolean;
}

export function drawRanks(surface: Surface, map: RankMap, frame: Frame, box: Box, style: RankStyle): void {
  const { each, count, height } = bandsOf(map, box);
  const gap = height > 8 ? 2 : height > 5 ? 1 : 0;
  const every = Math.ceil((NAME_SIZE + 1) / height);
  for (let band = 0; band < count; band++) {
    const y = box.y + band * height, first = band * each, end = Math.min(first + each, map.rows.length);
    const states = columnsOf(map, frame, first, end);
    for (let x = 0; x < states[0].length;) {
      const state = most(states, x);
      let to = x + 1;
      while (to < states[0].length && most(states, to) === state) to++;
      const { light, dark } = map.text.states[state] ?? {};
      if (state >= 0 && !style.hidden(`state:${state}`)) surface.rect(frame.left + x, y, to - x, Math.max(height - gap, 1), style.dark ? dark : light);
      x = to;
    }
    if (band % every === 0) {
      const name = end - first > 1 ? `rank ${map.rows[first].rank} …` : map.rows[first].name;
      surface.text(12, y + Math.min(height / 2 + 4, NAME_SIZE), fit(surface, style.name + name, NAME_SIZE, NAMES), { fill: style.ink.text, size: NAME_SIZE });
    }
  }
  if (!style.hidden('state:path')) drawPaths(surface, map, frame, box, style.ink);
}

function drawPaths(surface: Surface, map: RankMap, frame: Frame, box: Box, ink: Ink): void {
  const { each, height } = bandsOf(map, box);
  const points: number[] = [];
  for (const { visits } of map.text.paths)
    for (const visit of visits) {
      const row = map.rowOf(visit.rank);
      if (row < 0 || visit.to < frame.from || visit.from > frame.to) continue;
      // Along the row's lower edge: what the row's rank does stays to be seen above it.
      const y = box.y + (Math.floor(row / each) + 1) * height - PATH_HALO / 2;
      points.push(Math.max(frame.x(visit.from), frame.left), y, Math.min(frame.x(visit.to), frame.left + frame.width), y);
    }
  if (!points.length) return;
  surface.clip(frame.left, box.y, frame.width, box.height);
  surface.path(points, points.length, ink.paper, PATH_HALO);
  surface.path(points, points.length, ink.text, 1.5);
  surface.unclip();
}

/** The row under a point: of a band its first. */
export function rowAt(map: RankMap, box: Box, y: number): { first: number; count: number } {
  const { each, height } = bandsOf(map, box);
  const first = Math.min(Math.max(Math.floor((y - box.y) / height), 0) * each, map.rows.length - 1);
  return { first, count: Math.min(each, map.rows.length - first) };
}

/** What a row does at a time: of cells within `slack` ns the longest. */
export function cellAt(map: RankMap, row: number, time: number, slack: number): RankCell | undefined {
  let best: RankCell | undefined;
  map.each(row, time - slack, time + slack, (cell) => {
    if (!best || cell.to - cell.from > best.to - best.from) best = cell;
  });
  return best;
}

/** The part of a critical path that is on a row at a time. */
export function visitAt(map: RankMap, row: number, time: number): string | undefined {
  const { rank } = map.rows[row];
  return map.text.paths.flatMap((path) => path.visits).find((visit) => visit.rank === rank && visit.from <= time && time < visit.to)?.text;
}
