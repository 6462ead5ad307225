// The memory chart: what allocated (or reserved) memory is made of, stacked, with the four statistics over it.

import { Ink, STATISTICS, Statistic } from '../data/meta';
import { RunData } from '../data/run';
import { byteTicks, tickBytes } from '../format';
import { Surface } from './surface';
import { Box, Frame } from './frame';

export interface StatisticPixels {
  most: Float64Array;
  least: Float64Array;
  last: Float64Array;
}

/** The window's memory, one value a pixel column; NaN where nothing was recorded. */
export interface MemoryPixels {
  statistics?: Record<Statistic, StatisticPixels>; // undefined: the run has no memory
  parts: Float64Array[]; // by component of the stacking, when their sum was highest in the column
}

const columns = (width: number) => new Float64Array(width).fill(NaN);

function statisticPixels(run: RunData, frame: Frame, width: number): Record<Statistic, StatisticPixels> {
  const memory = run.meta.memory!;
  const empty = () => ({ most: columns(width), least: columns(width), last: columns(width) });
  const out = Object.fromEntries(STATISTICS.map((name) => [name, empty()])) as Record<Statistic, StatisticPixels>;
  const { tiles } = run.window('memory/lines', 'memory/lines', memory.levels, frame.from, frame.to, frame.nsPerPixel);
  const first = Math.max(0, Math.ceil(frame.column(memory.first)));
  const end = Math.min(width, Math.floor(frame.column(run.memoryEnd)) + 1);
  for (const name of STATISTICS) {
    const { most, least, last } = out[name];
    let now = memory.begin[name];
    let next = first;
    const fill = (to: number) => {
      for (; next < to; next++) most[next] = least[next] = last[next] = now;
    };
    for (const tile of tiles) {
      const { time } = tile;
      const high = tile[`${name}_most`], low = tile[`${name}_least`], close = tile[`${name}_last`];
      for (let i = 0; i < time.length; i++) {
        const at = Math.floor(frame.column(time[i]));
        if (at >= end) break;
        if (at >= first) {
          fill(at + 1);
          if (high[i] > most[at]) most[at] = high[i];
          if (low[i] < least[at]) least[at] = low[i];
          last[at] = close[i];
        }
        now = close[i];
      }
    }
    fill(end);
  }
  return out;
}

function partPixels(run: RunData, stackingKey: string, frame: Frame, width: number): Float64Array[] {
  const memory = run.meta.memory!;
  const stacking = run.stacking(stackingKey);
  if (!stacking) return [];
  const count = stacking.components.length;
  const out = stacking.components.map(() => columns(width));
  const { tiles } = run.window('memory/stack', `memory/${stackingKey}`, memory.levels, frame.from, frame.to, frame.nsPerPixel);
  const first = Math.max(0, Math.ceil(frame.column(memory.first)));
  const end = Math.min(width, Math.floor(frame.column(run.memoryEnd)) + 1);
  let now: { last: Float64Array[]; row: number } | undefined;
  let next = first;
  const put = (at: number, components: Float64Array[], row: number) => {
    for (let c = 0; c < count; c++) out[c][at] = components[c][row];
  };
  const fill = (to: number) => {
    for (; next < to; next++) if (now) put(next, now.last, now.row);
  };
  let highest = 0;
  for (const { time, highest: most, last } of tiles)
    for (let i = 0; i < time.length; i++) {
      const at = Math.floor(frame.column(time[i]));
      if (at >= end) break;
      if (at >= first) {
        if (at >= next) {
          fill(at + 1);
          highest = 0;
          for (let c = 0; c < count && now; c++) highest += out[c][at];
        }
        let total = 0;
        for (let c = 0; c < count; c++) total += most[c][i];
        if (!now || total >= highest) {
          put(at, most, i);
          highest = total;
        }
      }
      now = { last, row: i };
    }
  fill(end);
  return out;
}

export function memoryPixels(run: RunData, stacking: string, frame: Frame, width: number): MemoryPixels {
  return {
    statistics: statisticPixels(run, frame, width),
    parts: stacking === '' ? [] : partPixels(run, stacking, frame, width),
  };
}

export interface MemoryStyle {
  ink: Ink;
  top: number; // bytes at the chart's upper edge
  hidden: (key: string) => boolean;
}

const LINES: Record<Statistic, { width: number; dash: number[] }> = {
  allocated: { width: 1.2, dash: [] },
  active: { width: 1.6, dash: [] },
  reserved: { width: 2, dash: [9, 4] },
  requested: { width: 1, dash: [1.5, 3] },
};

/** Steps along pixel columns: each value holds for its column. */
function outline(values: Float64Array, box: Box, y: (value: number) => number): number[] {
  const points: number[] = [];
  let last = NaN;
  let end = 0;
  for (let x = 0; x < values.length; x++) {
    const value = values[x];
    if (Number.isNaN(value)) continue;
    const height = y(value);
    if (height !== last) {
      if (points.length) points.push(box.x + x, last);
      points.push(box.x + x, height);
      last = height;
    }
    end = x + 1;
  }
  if (points.length) points.push(box.x + end, last);
  return points;
}

/** A component of a stack, as it is drawn. */
export interface StackPart {
  title: string;
  colour: string;
  key: string; // of its entry in the legend
  hidden: boolean;
}

export function drawStack(surface: Surface, components: StackPart[], pixels: MemoryPixels, box: Box, style: MemoryStyle): void {
  const shown = components.map((_, i) => i).filter((i) => !components[i].hidden);
  const y = (value: number) => box.y + box.height - (value / style.top) * box.height;
  const width = pixels.parts[0].length;
  const sum = new Float64Array(width);
  const tops: Float64Array[] = [];
  for (const i of shown) {
    for (let x = 0; x < width; x++) sum[x] += pixels.parts[i][x];
    tops.push(sum.slice());
  }
  // From the top down, each to the axis: what lies below is painted over it.
  for (let k = shown.length - 1; k >= 0; k--) {
    if (!pixels.parts[shown[k]].some((value) => value > 0)) continue;
    const points = outline(tops[k], box, y);
    if (!points.length) continue;
    const bottom = box.y + box.height;
    points.push(points[points.length - 2], bottom, points[0], bottom);
    surface.area(points, points.length, components[shown[k]].colour);
  }
}

/** One statistic: a step line, with an upright stroke where a column holds more than one value. */
export function drawLine(surface: Surface, statistic: Statistic, pixels: StatisticPixels, box: Box,
                         style: MemoryStyle, colour?: string): void {
  const y = (value: number) => box.y + box.height - (value / style.top) * box.height;
  const points: number[] = [];
  let last = NaN;
  const { most, least, last: close } = pixels;
  for (let x = 0; x < most.length; x++) {
    if (Number.isNaN(most[x])) continue;
    if (most[x] === last && least[x] === last && close[x] === last) {
      // Nothing happened: the line goes on.
      if (x + 1 < most.length && !Number.isNaN(most[x + 1])) continue;
    }
    const left = box.x + x + 0.5;
    if (!Number.isNaN(last)) points.push(left, y(last));
    if (most[x] !== last) points.push(left, y(most[x]));
    if (least[x] !== most[x]) points.push(left, y(least[x]));
    if (close[x] !== least[x]) points.push(left, y(close[x]));
    last = close[x];
  }
  const { width, dash } = LINES[statistic];
  surface.path(points, points.length, colour ?? style.ink[statistic], width, dash);
}

export function drawMemoryAxis(surface: Surface, box: Box, ink: Ink, top: number): void {
  for (const tick of byteTicks(top, Math.max(2, Math.floor(box.height / 45)))) {
    const y = box.y + box.height - (tick / top) * box.height;
    surface.path([box.x, y, box.x + box.width, y], 4, ink.grid, 1);
    surface.text(box.x - 8, y + 4, tickBytes(tick), {
      fill: ink.faint, size: 11, align: 'right',
    });
  }
}
