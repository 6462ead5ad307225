// What a range of time adds up to: exact, whatever its length, because each tile's totals are kept.

import { upperBound } from './upper_bound';
import { STATISTICS, Statistic } from './meta';
import { RunData } from './run';

export interface LaneTotals {
  lane: number;
  busy: number; // of its ops, cut to the range
  ops: number; // that overlap the range
  classes: { opClass: number; busy: number; ops: number }[];
}

/** Ops and time of a track up to `time`: ops that began before it, their time cut at it. */
async function upTo(run: RunData, track: number, time: number): Promise<{ ops: Float64Array; busy: Float64Array; open: Float64Array }> {
  const classes = run.meta.classes.length;
  const { levels } = run.meta.tracks[track];
  const last = levels.length - 1;
  const totals = await run.tiles.load('totals', `totals/${track}`);
  const ops = new Float64Array(classes), busy = new Float64Array(classes), open = new Float64Array(classes);
  const tile = upperBound(levels[last].starts, time) - 1;
  if (!totals || tile < 0) return { ops, busy, open };
  for (let c = 0; c < classes; c++) {
    ops[c] = totals.ops[c][tile];
    busy[c] = totals.busy[c][tile];
  }
  // Bars of a track follow one another: none of an earlier tile reaches over the begin of this one.
  const bars = await run.tiles.load('track', `track/${track}/${last}/${tile}`);
  if (bars)
    for (let i = 0; i < bars.start.length && bars.start[i] < time; i++) {
      const c = bars.class[i];
      const end = bars.start[i] + bars.length[i];
      ops[c] += 1;
      busy[c] += Math.min(end, time) - bars.start[i];
      if (end > time) open[c] += 1;
    }
  return { ops, busy, open };
}

export async function laneTotals(run: RunData, from: number, to: number): Promise<LaneTotals[]> {
  const classes = run.meta.classes.length;
  const lanes: LaneTotals[] = run.meta.lanes.map((_, lane) => ({ lane, busy: 0, ops: 0, classes: [] }));
  const sums = lanes.map(() => ({ ops: new Float64Array(classes), busy: new Float64Array(classes) }));
  for (let track = 0; track < run.meta.tracks.length; track++) {
    const [start, end] = [await upTo(run, track, from), await upTo(run, track, to)];
    const sum = sums[run.meta.tracks[track].lane];
    for (let c = 0; c < classes; c++) {
      sum.busy[c] += end.busy[c] - start.busy[c];
      // Ops that were running at `from` overlap the range too.
      sum.ops[c] += end.ops[c] - start.ops[c] + start.open[c];
    }
  }
  lanes.forEach((lane, i) => {
    for (let c = 0; c < classes; c++) {
      if (sums[i].ops[c] === 0) continue;
      lane.classes.push({ opClass: c, busy: sums[i].busy[c], ops: sums[i].ops[c] });
      lane.busy += sums[i].busy[c];
      lane.ops += sums[i].ops[c];
    }
    lane.classes.sort((a, b) => b.busy - a.busy);
  });
  return lanes.filter((lane) => lane.ops > 0);
}

export type Extent = Record<Statistic, { most: number; least: number }>;

/** The highest and lowest value of each statistic in [from, to]. */
export async function memoryExtent(run: RunData, from: number, to: number): Promise<Extent | undefined> {
  const { memory } = run.meta;
  if (!memory) return undefined;
  const out = Object.fromEntries(STATISTICS.map((name) => [name, { most: -Infinity, least: Infinity }])) as Extent;
  const take = (name: Statistic, most: number, least: number) => {
    out[name].most = Math.max(out[name].most, most);
    out[name].least = Math.min(out[name].least, least);
  };
  // Whole buckets of a level answer for the middle; the two ends go to the next finer level.
  const walk = async (level: number, a: number, b: number): Promise<void> => {
    if (a > b) return;
    const { width } = memory.levels[level];
    const tiles = await run.read('memory/lines', 'memory/lines', memory.levels, level, a, b);
    if (width === 0) {
      for (const tile of tiles) {
        // From the last event before the range on: its state is what the range begins with.
        for (let i = Math.max(upperBound(tile.time, a) - 1, 0); i < tile.time.length && tile.time[i] <= b; i++)
          for (const name of STATISTICS) take(name, tile[`${name}_most`][i], tile[`${name}_least`][i]);
      }
      return;
    }
    const head = (Math.floor(a / width) + 1) * width;
    const tail = Math.floor(b / width) * width;
    if (tail <= head) return walk(level + 1, a, b);
    await walk(level + 1, a, head - 1);
    for (const tile of tiles)
      for (let i = upperBound(tile.time, head - 1); i < tile.time.length && tile.time[i] < tail; i++)
        for (const name of STATISTICS) take(name, tile[`${name}_most`][i], tile[`${name}_least`][i]);
    return walk(level + 1, tail, b);
  };
  await walk(0, from, to);
  if (from <= memory.first) for (const name of STATISTICS) take(name, memory.begin[name], memory.begin[name]);
  return Number.isFinite(out.allocated.most) ? out : undefined;
}

export interface MadeTotals {
  category: number;
  blocks: number;
  bytes: number;
}

/** Blocks made in [from, to), by category. */
export async function blocksMade(run: RunData, from: number, to: number): Promise<MadeTotals[]> {
  const table = await run.tiles.load('find/blocks', 'find/blocks');
  if (!table) return [];
  const made = new Map<number, MadeTotals>();
  for (let i = 0; i < table.block.length; i++) {
    if (table.made[i] < from || table.made[i] >= to) continue;
    const category = table.category[i];
    const of = made.get(category) ?? { category, blocks: 0, bytes: 0 };
    of.blocks += 1;
    of.bytes += table.size[i];
    made.set(category, of);
  }
  return [...made.values()].sort((a, b) => b.bytes - a.bytes);
}

